"""What crosses a shuffle can be read by a runner that is not written in Python."""

from __future__ import annotations

import apache_beam as beam
import pytest
from apache_beam.portability.api import schema_pb2

import transforms.drop_duplicates
import transforms.find_holdouts
import transforms.join_labels
import transforms.list_rejections
import transforms.plan_shards
import transforms.publish_dataset
import transforms.write_shards  # noqa: F401
from transforms.core.records import (
    BucketDuplicates,
    Count,
    FileBatch,
    FingerprintBatch,
    HeldPart,
    IndexPart,
    JoinSide,
    LabelledImage,
    NameRange,
    RejectedPart,
    ShardImage,
    SourcePart,
)
from transforms.core.rejections import Rejection
from transforms.labels.vocabulary import LabelCells


@pytest.mark.parametrize(
    "record",
    [
        Count,
        BucketDuplicates,
        FileBatch,
        HeldPart,
        IndexPart,
        JoinSide,
        LabelCells,
        LabelledImage,
        FingerprintBatch,
        NameRange,
        RejectedPart,
        Rejection,
        ShardImage,
        SourcePart,
    ],
)
def test_fields_are_texts_whole_numbers_and_truth_values(record: type) -> None:
    coder = beam.coders.registry.get_coder(record)
    assert isinstance(coder, beam.coders.RowCoder)
    assert coder.is_deterministic()
    kinds = {field.type.atomic_type for field in coder.schema.fields}
    assert kinds <= {schema_pb2.STRING, schema_pb2.INT64, schema_pb2.BOOLEAN}
