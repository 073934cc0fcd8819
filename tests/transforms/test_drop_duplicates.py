"""Exact duplicates are found alike in one process and on several machines."""

from __future__ import annotations

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that

from tests.transforms.beam import make_pipeline
from transforms import drop_duplicates
from transforms.core.dataset.ledger import ShardSummary
from transforms.core.duplicates.equal_images import equal_of, find_near, merge_equal
from transforms.core.duplicates.fingerprints import ShardIndex, content_hash
from transforms.core.records import BucketDuplicates
from transforms.drop_duplicates import FindEqualImages

FILES = [f"train-{number:05d}-of-00003.tfrecord" for number in range(3)]
RECORDS = 40


def index(file: str) -> ShardIndex:
    """A shard of which half of the images are in every shard."""
    names = [str(number) if number % 2 else f"{file} {number}" for number in range(RECORDS)]
    return ShardIndex(
        keys=names,
        paths=names,
        classes=[["cat"]] * RECORDS,
        lengths=[1] * RECORDS,
        contents=[content_hash(name.encode()) for name in names],
        perceptual_hashes=[content_hash(name.encode())[:16] for name in names],
    )


@pytest.mark.parametrize("buckets", [32, 256])
@pytest.mark.parametrize("in_process", [True, False])
def test_equal_images_of_several_shards(
    buckets: int, in_process: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drop_duplicates, "runs_in_process", lambda _: in_process)

    def check(outputs: list[BucketDuplicates]) -> None:
        equal = merge_equal(map(equal_of, outputs))
        assert equal.counts == (20, 60, 0, 0, 0)
        assert find_near(outputs, images=120).compared == 120

    with make_pipeline() as pipeline:
        batches = pipeline | "Batches" >> beam.Create(
            [batch for file in FILES for batch in index(file).fingerprint_batches(file, buckets)]
        )
        shards = pipeline | "Shards" >> beam.Create(
            [ShardSummary(file, "", records=RECORDS) for file in FILES]
        )
        duplicates = batches | "Find" >> FindEqualImages(shards)
        assert_that(duplicates, check)
