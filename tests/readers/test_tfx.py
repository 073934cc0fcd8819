"""`schema.pbtxt` and the shards through `tfx_bsl.public.tfxio`, as a TFX component reads them.

It takes seconds to import. `tests/golden` compares the schema of every layout.
"""

import json
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from tests.lazy import lazy_module
from tests.models import SMALL_OUTPUT
from tests.pipeline.commands import Dataset
from tests.pipeline.reading import TEXT, read

tf = lazy_module("tensorflow")
tfxio = lazy_module("tfx_bsl.public.tfxio")

pytestmark = pytest.mark.slow

# They have features of every type, and a shard of every kind.
LAYOUTS = ["yaml", "gzip", "bfloat16", "detection"]


def schema(dataset: Dataset) -> Any:
    text = (dataset.folder / "schema.pbtxt").read_text("utf-8")
    return text_format.Parse(text, schema_pb2.Schema())


def source(dataset: Dataset, split: str = "train") -> Any:
    return tfxio.TFExampleRecord(
        file_pattern=str(dataset.folder / f"{split}-*"),
        schema=schema(dataset),
        telemetry_descriptors=["tests"],
    )


def as_dataset(dataset: Dataset) -> Any:
    options = tfxio.TensorFlowDatasetOptions(batch_size=4, shuffle=False, num_epochs=1)
    return source(dataset).TensorFlowDataset(options)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_beam_pipeline_reads_it(
    datasets: dict[str, Dataset], layout: str, tmp_path: Path
) -> None:
    dataset = datasets[layout]
    found = tmp_path / "found"

    def describe(batch: Any) -> str:
        return json.dumps([batch.num_rows, sorted(batch.schema.names)])

    with beam.Pipeline("FnApiRunner") as pipeline:
        _ = (
            pipeline
            | "Read" >> source(dataset).BeamSource(batch_size=4)
            | "Describe" >> beam.Map(describe)
            | "Write" >> beam.io.WriteToText(str(found), shard_name_template="")
        )
    batches = [json.loads(line) for line in found.read_text().splitlines()]
    assert sum(rows for rows, _ in batches) == dataset.manifest["splits"]["train"]["records"]
    names = sorted(feature["name"] for feature in dataset.manifest["features"])
    assert all(columns == names for _, columns in batches)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_trainer_reads_it(datasets: dict[str, Dataset], layout: str) -> None:
    """What every record has is dense and of its shape, lists are sparse."""
    dataset = datasets[layout]
    batches = list(as_dataset(dataset))
    dtypes = {"bytes": tf.string, "int64": tf.int64, "float": tf.float32}
    for feature in dataset.manifest["features"]:
        value = batches[0][feature["name"]]
        assert value.dtype == dtypes[feature["dtype"]]
        shape = feature.get("shape", [])
        assert isinstance(value, tf.sparse.SparseTensor) == (shape is None)
        if shape is not None:
            stored = [] if "encoding" in feature else shape
            assert value.shape[1:] == stored
    first = dataset.manifest["features"][0]["name"]
    records = sum(batch[first].shape[0] for batch in batches)
    assert records == dataset.manifest["splits"]["train"]["records"]


def test_values_are_those_of_tensorflow(datasets: dict[str, Dataset]) -> None:
    dataset = datasets["slim"]
    found = [name for batch in as_dataset(dataset) for name in batch["image/filename"].numpy()]
    expected = read(dataset, {"image/filename": TEXT}, "train")
    assert sorted(found) == sorted(record["image/filename"] for record in expected)
    (boxes,) = as_dataset(datasets["detection"])
    assert sorted(boxes["image/object/bbox/xmin"].values.numpy().tolist()) == [0.0, 0.25, 0.5]


def test_embeddings_have_their_shape(datasets: dict[str, Dataset]) -> None:
    (values, *_) = as_dataset(datasets["float32"])
    assert values["Feature"].shape == (4, *SMALL_OUTPUT)


def test_lists_of_a_fixed_shape_are_dense(pixels: Dataset) -> None:
    (batch,) = as_dataset(pixels)
    assert batch["three"].numpy().tolist() == [[1, 2, 3]]
    assert batch["words"].numpy().tolist() == [[b"a", b"b"]]
    assert batch["same"].shape == batch["own"].shape == (1,)


def test_what_the_values_are(datasets: dict[str, Dataset]) -> None:
    features = {feature.name: feature for feature in schema(datasets["slim"]).feature}
    assert features["image/encoded"].HasField("image_domain")
    label = features["image/class/label"].int_domain
    assert (label.is_categorical, label.min, label.max) == (True, 0, 2)
    assert list(features["image/class/text"].string_domain.value) == ["cat", "dog", "fox"]
    names = {feature.name: feature for feature in schema(datasets["yaml"]).feature}
    assert list(names["names"].string_domain.value) == ["cat", "dog", "빠름"]
    boxes = {feature.name: feature for feature in schema(datasets["detection"]).feature}
    side = boxes["image/object/bbox/xmin"].float_domain
    assert (side.min, side.max) == (0, 1)
    label = boxes["image/object/class/label"].int_domain
    assert (label.is_categorical, label.min, label.max) == (True, 1, 2)
    assert list(boxes["image/object/class/text"].string_domain.value) == ["cat", "dog"]
