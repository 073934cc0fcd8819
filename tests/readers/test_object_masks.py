"""Masks of objects, of which an image may have none, in every reader."""

from typing import Any

import numpy as np
import pytest
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from pipeline import Records, load
from tests.detection_readers import MODEL_GARDEN, OBJECT_DETECTION
from tests.lazy import lazy_module
from tests.pipeline.annotated import write_coco
from tests.pipeline.commands import Dataset, make_dataset
from tests.pipeline.reading import read_lists
from tests.pipeline.test_convert_object_masks import LAYOUT, MASK, SEGMENTED, masks

tf = lazy_module("tensorflow")
tfds = lazy_module("tensorflow_datasets")

FILENAME = "image/filename"


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Three images of different sizes, one without objects."""
    folder = tmp_path_factory.mktemp("masks")
    return make_dataset(folder / "out", **(write_coco(folder, SEGMENTED) | LAYOUT))


@pytest.fixture(scope="module")
def small(dataset: Dataset) -> Dataset:
    """The same in one size."""
    folder = dataset.folder.parent / "small"
    return make_dataset(folder, images=dataset.folder, resize="16x12", color="rgb", **LAYOUT)


def check(found: dict[str, Any], wanted: dict[str, list[Any]]) -> None:
    assert set(found) == set(wanted) and not wanted["8.jpg"]
    for name, each in found.items():
        assert each.dtype == np.uint8 and each.ndim == 4 and len(each) == len(wanted[name])
        if wanted[name]:
            assert each[..., 0].tolist() == np.stack(wanted[name]).tolist()


def check_empty(records: Any) -> None:
    """The image without objects has masks of its size, which can be joined with others."""
    [record] = [each for each in records if each[FILENAME] == b"8.jpg"]
    height, width, _ = record["image/encoded"].shape
    assert record[MASK].shape == (0, height, width, 1) and height > 0 < width


def by_name(records: Any) -> dict[str, Any]:
    return {record[FILENAME].decode(): record[MASK] for record in records}


def test_records(dataset: Dataset) -> None:
    check(by_name(Records(dataset.folder, "train", decode=True)), masks(dataset))
    check_empty(Records(dataset.folder, "train", decode=True))
    stored = Records(dataset.folder, "train")[0][MASK]
    assert stored.dtype == object


@pytest.mark.slow
def test_load(dataset: Dataset, small: Dataset) -> None:
    check(by_name(load(dataset.folder, "train").as_numpy_iterator()), masks(dataset))
    check_empty(load(dataset.folder, "train").as_numpy_iterator())
    [batch] = load(small.folder, "train", batch_size=3)
    assert batch["image/encoded"].shape == (3, 12, 16, 3)
    found = dict(zip(batch[FILENAME].numpy(), batch[MASK], strict=True))
    check({name.decode(): each.numpy() for name, each in found.items()}, masks(small))
    [resized] = load(dataset.folder, "train", batch_size=3, image_size=(6, 8))
    assert resized[MASK].shape.as_list()[2:] == [6, 8, 1]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_tensorflow_datasets(dataset: Dataset, small: Dataset) -> None:
    for each in (dataset, small):
        builder = tfds.builder_from_directory(str(each.folder))
        records = tfds.as_numpy(builder.as_dataset(split="train"))
        check(by_name(records), masks(each))


@pytest.mark.slow
def test_the_schema_of_tfx(dataset: Dataset) -> None:
    text = (dataset.folder / "schema.pbtxt").read_text()
    schema = text_format.Parse(text, schema_pb2.Schema())
    [feature] = [each for each in schema.feature if each.name == MASK]
    assert feature.HasField("image_domain") and feature.HasField("value_count")


@pytest.mark.slow
def test_every_record_is_what_both_decoders_parse(dataset: Dataset) -> None:
    """Their specifications with `include_mask` and `load_instance_masks`."""
    for specification in (MODEL_GARDEN, OBJECT_DETECTION):
        wanted = {**specification, MASK: tf.io.VarLenFeature(tf.string)}
        for record in read_lists(dataset, wanted):
            size = record["image/height"], record["image/width"]
            decoded = [tf.io.decode_png(mask, channels=1).shape for mask in record[MASK]]
            assert decoded == [(*size, 1)] * len(record["image/object/class/label"])
