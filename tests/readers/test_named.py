"""A dataset with a name is read by `tfds.load` and `mlcroissant`: the packages themselves."""

import json
import logging
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import draw
from tests.lazy import lazy_module
from tests.marks import cases
from tests.pipeline.commands import Dataset, make_dataset
from tests.pipeline.reading import read

tfds = lazy_module("tensorflow_datasets")
mlc = lazy_module("mlcroissant")

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

SAID = {
    "name": "pets",
    "description": "Photos of pets, 애완동물.",
    "citation": "@misc{pets,\n title = {Pets}\n}",
    "license": "CC-BY-4.0",
    "homepage": "https://example.org/pets",
    "croissant": json.dumps(
        {
            "creator": "Ann Lee",
            "datePublished": "2026-01-31",
            "keywords": ["cats", "dogs"],
            "rai:dataBiases": ["More cats than dogs."],
            "rai:personalSensitiveInformation": "none",
        }
    ),
}
MANY = "id,label\n0.jpg,cat|small\n1.jpg,dog\n2.jpg,cat\n"


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve photos of two classes."""
    folder = tmp_path_factory.mktemp("photos")
    for seed in range(12):
        draw(folder / ("cat", "dog")[seed % 2] / f"{seed}.jpg", seed=seed)
    return folder


@pytest.fixture(scope="module")
def data_dir(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of TensorFlow Datasets with two versions of one dataset."""
    folder = tmp_path_factory.mktemp("datasets")
    flags = {"images": f"{photos}/*/*.jpg", "splits": "train=0.7,test=0.3", "num_shards": 2}
    for version in ("1.0.0", "1.2.0"):
        make_dataset(folder / "pets" / version, dataset_version=version, **flags, **SAID)
    return folder


@pytest.fixture
def dataset(data_dir: Path) -> Dataset:
    return Dataset(data_dir / "pets" / "1.2.0")


@pytest.mark.parametrize(
    ("name", "version"), [("pets", "1.2.0"), ("pets:1.0.0", "1.0.0"), ("pets:1.*.*", "1.2.0")]
)
def test_tfds_finds_the_name(data_dir: Path, name: str, version: str) -> None:
    found, info = tfds.load(name, data_dir=str(data_dir), with_info=True)
    assert (info.name, str(info.version)) == ("pets", version)
    assert info.full_name == f"pets/{version}"
    for split, records in found.items():
        made = Dataset(data_dir / "pets" / version)
        assert len(list(tfds.as_numpy(records))) == made.manifest["splits"][split]["records"]


def test_tfds_has_what_was_said(data_dir: Path) -> None:
    info = tfds.builder("pets", data_dir=str(data_dir)).info
    assert info.description == SAID["description"]
    assert info.citation == SAID["citation"]
    assert info.homepage == SAID["homepage"]
    assert info.redistribution_info.license == SAID["license"]


def opened(dataset: Dataset) -> Any:
    """The dataset as `mlcroissant` reads it; its checker found nothing."""
    found = mlc.Dataset(str(dataset.folder / "croissant.json"))
    issues = found.metadata.ctx.issues
    assert not issues.errors and not issues.warnings, issues.report()
    return found


def test_the_checker_finds_nothing(dataset: Dataset, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        metadata = opened(dataset).metadata
    assert caplog.text == ""
    assert (metadata.name, metadata.version) == ("pets", "1.2.0")
    assert metadata.description == SAID["description"]
    assert metadata.cite_as == SAID["citation"] and metadata.url == SAID["homepage"]
    assert metadata.license == ["https://spdx.org/licenses/CC-BY-4.0.html"]
    assert [each.name for each in metadata.creators] == ["Ann Lee"]
    assert metadata.data_biases == ["More cats than dogs."]
    hashed = {each.id: each.sha256 for each in metadata.file_objects}
    assert {*dataset.shards(), "labels.txt"} <= hashed.keys()
    assert all(len(sha256) == 64 for sha256 in hashed.values())


def test_its_records_are_those_of_the_index(dataset: Dataset) -> None:
    records = [
        {name.removeprefix("records/"): value for name, value in each.items()}
        for each in opened(dataset).records("records")
    ]
    expected = [record for split in ("test", "train") for record in read(dataset, split=split)]
    assert len(records) == len(expected) == 12
    assert Counter(each["label"] for each in records) == {b"cat": 6, b"dog": 6}
    by_shard = sorted(records, key=lambda each: (each["shard"], each["record"]))
    for ours, theirs in zip(by_shard, expected, strict=True):
        assert ours["label_id"] == theirs["image/class/label"]
        assert (ours["height"], ours["width"]) == (12, 16)
        data = (dataset.folder / ours["shard"].decode()).read_bytes()
        record = data[ours["offset"] + 12 :][: ours["length"]]
        assert theirs["image/encoded"] in record


@cases(
    {"label_from": "none"},
    {"files": "per_image"},
    {"compression": "gzip"},
    {"labels": "many.csv", "layout": "my.yaml", "label_separator": "|", "key": "name"},
    {"labels": "rows.csv", "layout": "rows", "images": None},
    ids=["unlabelled", "per image", "gzip", "many labels", "rows"],
)
def test_other_datasets_are_read(
    flags: dict[str, Any], photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "many.csv").write_text(MANY)
    (tmp_path / "rows.csv").write_text("age,kind\n1,cat\n2,dog\n")
    (tmp_path / "my.yaml").write_text("features: {image: image.bytes, classes: label.ids}\n")
    every = {"images": f"{photos}/*/*.jpg", "max_rejected": "100%", **SAID, **flags}
    dataset = make_dataset(Path("out"), **every)
    records = list(opened(dataset).records("records"))
    assert len(records) == dataset.ledger["records_written"] > 1
    if flags.get("layout") == "my.yaml":
        labels = sorted(each["records/label"] for each in records)
        assert labels == [[b"cat"], [b"cat", b"small"], [b"dog"]]


def test_a_bare_dataset_is_valid(photos: Path, tmp_path: Path) -> None:
    """What nobody said is recommended, and nothing is wrong without it."""
    dataset = make_dataset(tmp_path / "out", images=f"{photos}/*/*.jpg", name="pets")
    issues = mlc.Dataset(str(dataset.folder / "croissant.json")).metadata.ctx.issues
    assert not issues.errors
    wanted = ("citeAs", "datePublished", "license")
    assert len(issues.warnings) == len(wanted)
    assert all(name in issues.report() for name in wanted)
