"""One dataset of every layout, which all readers read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import CLASSES, draw
from tests.models import saved_to, small_model
from tests.pipeline.commands import Dataset, make_dataset

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


@pytest.fixture(scope="session")
def datasets(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Dataset]:
    """18 photos in every layout; two of them with boxes, and with columns of a CSV."""
    folder = tmp_path_factory.mktemp("readers")
    (folder / "boxes.csv").write_text(BOXES)
    (folder / "many.csv").write_text(MANY)
    (folder / "my.yaml").write_text(LAYOUT)
    images = f"{photos}/*/*.jpg"
    model = saved_to(folder / "small.keras", small_model().save)
    of_classes = {"images": images, "label_from": "directory", "num_shards": 3}
    of_model = {**of_classes, "layout": "embedding", "model": model}
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
    return {name: make_dataset(folder / name, **each) for name, each in flags.items()}


def add_photo(folder: Path, name: str, data: bytes | None = None) -> None:
    """Puts an image into a folder of its class, `CLASSES[0]`; without data, a JPEG."""
    path = folder / CLASSES[0] / name
    if data is None:
        draw(path)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
