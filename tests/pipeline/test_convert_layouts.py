"""Every layout, compressed or not, read back with TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import CLASSES
from tests.marks import rest_slow
from tests.pipeline.commands import Dataset, make_dataset
from tests.pipeline.reading import LANDMARK, SLIM, TUTORIAL, feature_names, read, shape

LAYOUTS = {"slim": SLIM, "tutorial": TUTORIAL, "landmark": LANDMARK}


@pytest.fixture(scope="module", params=rest_slow(["none", "gzip"]))
def datasets(
    request: pytest.FixtureRequest, photos: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Dataset]:
    """The photos in every layout."""
    folder = tmp_path_factory.mktemp("layouts")
    flags = {"images": f"{photos}/*/*.jpg", "num_shards": 2, "compression": request.param}
    return {name: make_dataset(folder / name, layout=name, **flags) for name in LAYOUTS}


def by_bytes(photos: Path) -> dict[bytes, Path]:
    """Each photo by its content."""
    files = {path.read_bytes(): path for path in photos.glob("*/*.jpg")}
    assert len(files) == 18
    return files


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout_has_its_features_and_no_other(datasets: dict[str, Dataset], layout: str) -> None:
    dataset = datasets[layout]
    assert feature_names(dataset) == set(LAYOUTS[layout])
    assert {f["name"] for f in dataset.manifest["features"]} == set(LAYOUTS[layout])


def check_all(
    dataset: Dataset, features: Mapping[str, Any], photos: Path, encoded: str, label: str
) -> list[tuple[Path, dict[str, Any]]]:
    """Checks bytes, pixels and label of every record; gives each with its photo."""
    files = by_bytes(photos)
    records = [(files[record[encoded]], record) for record in read(dataset, features)]
    assert {path for path, _ in records} == set(files.values())
    assert len(records) == 18
    for path, record in records:
        assert shape(record[encoded]) == (12, 16, 3)
        assert CLASSES[record[label]] == path.parent.name
    return records


def test_slim(datasets: dict[str, Dataset], photos: Path) -> None:
    dataset = datasets["slim"]
    for path, record in check_all(dataset, SLIM, photos, "image/encoded", "image/class/label"):
        assert record["image/class/text"].decode() == path.parent.name
        assert record["image/filename"].decode() == f"{path.parent.name}/{path.name}"
        assert record["image/format"] == b"jpeg"
        assert (record["image/height"], record["image/width"]) == (12, 16)


def test_tutorial(datasets: dict[str, Dataset], photos: Path) -> None:
    for _, record in check_all(datasets["tutorial"], TUTORIAL, photos, "image_raw", "label"):
        assert (record["height"], record["width"], record["depth"]) == (12, 16, 3)


def test_landmark(datasets: dict[str, Dataset], photos: Path) -> None:
    dataset = datasets["landmark"]
    for path, record in check_all(dataset, LANDMARK, photos, "image_raw", "landmark_id"):
        assert record["id"].decode() == f"{path.parent.name}/{path.name}"
