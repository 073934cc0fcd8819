"""One dataset of every layout, which all readers read."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import CLASSES, draw
from tests.lazy import lazy_module
from tests.models import saved_to, small_model
from tests.pipeline.commands import Dataset, make_dataset
from transforms.dataset.ledger import Gathered, PlanTotals, RunTotals, ShardSummary
from transforms.dataset.manifest import Dataset as DatasetDescription
from transforms.dataset.metadata import schema_text, tfds_files
from transforms.examples.layouts import Feature
from transforms.labels.vocabulary import Vocabulary

tf = lazy_module("tensorflow")

BOXES = """id,label,xmin,xmax,ymin,ymax
cat-0,cat,0.25,0.5,0,1
cat-0,dog,0.5,1,0.125,0.5
dog-1,dog,0,1,0.25,0.75
"""

MANY = """id,label,age,weight,tags
cat-0,cat|빠름,3,2.5,a;b
dog-1,dog|빠름,-1,7,
"""

LAYOUT = """features:
  picture: image.bytes
  picture/of: image.key
  classes: label.ids
  names: label.texts
  age: csv.age
  weight: csv.weight
  tags: {source: csv.tags, type: bytes, separator: ";"}
"""


class Datasets(dict[str, Dataset]):
    """Datasets by name, each converted when it is first needed."""

    def __init__(self, folder: Path, flags: Mapping[str, Mapping[str, Any]]) -> None:
        """Takes the folder they are made in, and the flags of each; a model is made when needed."""
        super().__init__()
        self._folder = folder
        self._flags = flags

    def __missing__(self, name: str) -> Dataset:
        model = self._flags[name].get("model")
        if model is not None and not model.exists():
            saved_to(model, small_model().save)
        self[name] = make_dataset(self._folder / name, **self._flags[name])
        return self[name]


@pytest.fixture(scope="session")
def datasets(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Dataset]:
    """18 photos in every layout; two of them with boxes, and with columns of a CSV."""
    folder = tmp_path_factory.mktemp("readers")
    (folder / "boxes.csv").write_text(BOXES)
    (folder / "many.csv").write_text(MANY)
    (folder / "my.yaml").write_text(LAYOUT)
    images = f"{photos}/*/*.jpg"
    of_classes = {"images": images, "label_from": "directory", "num_shards": 3}
    of_model = {**of_classes, "layout": "embedding", "model": folder / "small.keras"}
    of_rows = {"images": images, "max_rejected": "100%"}
    flags = {
        "slim": {**of_classes, "splits": "train=0.7,test=0.3"},
        "tutorial": {**of_classes, "layout": "tutorial"},
        "landmark": {**of_classes, "layout": "landmark"},
        "gzip": {**of_classes, "compression": "gzip"},
        "unlabelled": {"images": images, "label_from": "none"},
        "float32": of_model,
        "bfloat16": {**of_model, "embed_dtype": "bfloat16"},
        "detection": {**of_rows, "labels": folder / "boxes.csv", "layout": "detection"},
        "yaml": {
            **of_rows,
            "labels": folder / "many.csv",
            "layout": folder / "my.yaml",
            "label_separator": "|",
        },
    }
    return Datasets(folder, flags)


def add_photo(folder: Path, name: str, data: bytes | None = None) -> None:
    """Puts an image into a folder of its class, `CLASSES[0]`; without data, a JPEG."""
    path = folder / CLASSES[0] / name
    if data is None:
        draw(path)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


PIXELS = [
    {"name": "own", "source": "image.pixels", "dtype": "bytes", "encoding": "uint8"},
    {"name": "same", "source": "a", "dtype": "bytes", "encoding": "uint8", "shape": [2, 3, 1]},
    {"name": "three", "source": "csv.three", "dtype": "float", "shape": [3]},
    {"name": "words", "source": "csv.words", "dtype": "bytes", "shape": [2]},
    {"name": "height", "source": "image.height", "dtype": "int64"},
    {"name": "width", "source": "image.width", "dtype": "int64"},
    {"name": "channels", "source": "image.channels", "dtype": "int64"},
]
"""Features of raw pixels, and lists of a fixed shape."""


def pixels_example() -> Any:
    """A record of `PIXELS`, whose image has 2 rows, 3 columns and 1 channel."""
    example = tf.train.Example()
    feature = example.features.feature
    for name in ("own", "same"):
        feature[name].bytes_list.value.append(bytes(range(6)))
    feature["three"].float_list.value.extend([1, 2, 3])
    feature["words"].bytes_list.value.extend([b"a", b"b"])
    for name, value in (("height", 2), ("width", 3), ("channels", 1)):
        feature[name].int64_list.value.append(value)
    return example


@pytest.fixture(scope="session")
def pixels(datasets: dict[str, Dataset], tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """A dataset of `PIXELS`."""
    folder = tmp_path_factory.mktemp("pixels") / "out"
    return write_by_hand(folder, datasets["slim"], pixels_example(), PIXELS)


def write_by_hand(folder: Path, like: Dataset, example: Any, features: list[Any]) -> Dataset:
    """A folder of one record: what a layout would give that `like` does not have."""
    folder.mkdir()
    name = "train-00000-of-00001.tfrecord"
    with tf.io.TFRecordWriter(str(folder / name)) as writer:
        writer.write(example.SerializeToString())
    shards = [ShardSummary(name, "", records=1)]
    described = tuple(Feature.from_manifest(feature) for feature in features)
    dataset = DatasetDescription({}, {}, "", described, ("train",))
    gathered = Gathered(("train",), PlanTotals(), shards, RunTotals())
    for file, content in tfds_files(dataset, gathered, Vocabulary.build(())).items():
        (folder / file).write_bytes(content)
    (folder / "schema.pbtxt").write_text(schema_text(described, Vocabulary.build(())))
    split = dict(like.manifest["splits"]["train"])
    split |= {"records": 1, "shards": [{**split["shards"][0], "file": name, "records": 1}]}
    manifest = {**like.manifest, "features": features, "splits": {"train": split}}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return Dataset(folder)
