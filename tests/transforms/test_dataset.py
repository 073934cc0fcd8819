"""The transforms for pipelines of one's own, and their documentation."""

import re
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pytest

from tests.conftest import draw
from tests.lazy import lazy_module
from tests.marks import cases
from tests.pipeline.commands import ROOT, Dataset, check_sound, digests, make_dataset
from tests.pipeline.reading import TEXT, TUTORIAL, labels, read
from tests.transforms.beam import run_steps
from transforms.write_dataset import EncodeExamples, FindImages, LabelImages, WriteDataset

pytestmark = pytest.mark.slow

tf: Any = lazy_module("tensorflow")

DOCUMENT = ROOT / "docs" / "python_api.md"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder to be in: `photos/CLASS/CLASS<n>.jpg`, and `labels.csv`."""
    rows = ["id,label"]
    for number in range(12):
        name = f"{('cat', 'dog')[number % 2]}{number}"
        draw(tmp_path / f"photos/{name[:3]}/{name}.jpg", seed=number)
        rows.append(f"{name},{name[:3]}")
    (tmp_path / "labels.csv").write_text("\n".join(rows))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_pairs(
    output: Path, pairs: Sequence[tuple[Any, Any]], label: Any = None, **options: Any
) -> Dataset:
    """The dataset of pairs of an image and its label."""
    run_steps(beam.Create(pairs), label or LabelImages(), WriteDataset(str(output), **options))
    dataset = Dataset(output)
    check_sound(dataset.folder)
    return dataset


def test_the_documentation_runs(folder: Path) -> None:
    example, *more = re.findall(r"^```python\n(.*?)^```", DOCUMENT.read_text(), re.S | re.M)
    assert len(example.splitlines()) <= 10
    names: dict[str, object] = {}
    for block in (example, *more):
        exec(compile(block, DOCUMENT.name, "exec"), names)
    assert len(read(Dataset(folder / "out/chosen"), TUTORIAL)) == 2
    found = Dataset(folder / "out/found")
    assert {record["image/height"] for record in read(found)} == {16}
    assert sorted(labels(found).items())[0] == ("cat0", "cat")
    check_sound(found.folder)
    images = {"images": "photos/*/*.jpg", "labels": "labels.csv"}
    command = make_dataset(folder / "command", **images, layout="tutorial")
    shards = [command.folder / name for name in command.shards()]
    assert records(folder.glob("out/plain/photos-*.tfrecord")) == records(shards)


def records(files: Iterable[Path]) -> list[bytes]:
    """The records of TFRecord files in any order."""
    return sorted(
        record
        for file in files
        for record in tf.data.TFRecordDataset(str(file)).as_numpy_iterator()
    )


def test_images_that_are_rejected_are_not_encoded(folder: Path) -> None:
    (folder / "photos/cat/cat0.jpg").write_bytes(b"no image")
    find = FindImages(["photos/*/*.jpg"], labels="labels.csv", root="photos")
    run_steps(find, EncodeExamples(root="photos"), beam.io.WriteToTFRecord("own"))
    assert len(records(folder.glob("own-*"))) == 11


PLACES = {"images": "photos/*/*.jpg", "labels": "places.csv"}


@cases(
    (
        {**PLACES, "labels": "labels.csv", "splits": "train=0.7,test=0.3", "seed": 3},
        {"num_shards": 2, "max_rejected": "100%"},
    ),
    (
        {**PLACES, "split_by": "column:set", "group_by": "who"},
        {"files": "per_image", "quarantine": "left", "max_rejected": "100%"},
    ),
    (
        {"images": "photos/*/*.jpg", "label_from": r"regex:(cat|dog)", "split_by": "folder"},
        {"dedupe": "drop", "max_rejected": "100%"},
    ),
)
def test_options_give_its_bytes(find: dict[str, Any], write: dict[str, Any], folder: Path) -> None:
    rows = [
        "id,label,set,who",
        "cat0,cat,test,a",
        "cat2,cat,,b",
        "dog1,dog,,a",
        "dog3,dog,no-name,c",
    ]
    (folder / "places.csv").write_text("\n".join(rows))
    (folder / "photos/cat/copy.jpg").write_bytes((folder / "photos/cat/cat0.jpg").read_bytes())
    command = make_dataset(folder / "command", **find, **write)
    shutil.rmtree(folder / "left", ignore_errors=True)

    def run_own() -> dict[str, str]:
        run_steps(
            FindImages(**{**find, "images": [find["images"]]}, root="photos"),
            WriteDataset("own", root="photos", **write),
        )
        return digests(folder / "own")

    own, theirs = run_own(), digests(command.folder)
    by_each = {"manifest.json", "report.html"}  # name the options and the inputs
    assert {n: d for n, d in own.items() if n not in by_each} == {
        n: d for n, d in theirs.items() if n not in by_each
    }
    assert Dataset(folder / "own").ledger == command.ledger
    assert (folder / "left").exists() == ("quarantine" in write)
    check_sound(folder / "own")
    assert run_own() == own


def test_pairs_are_found_labelled_split_and_rejected(folder: Path) -> None:
    """Labels are numbers or texts, also of NumPy; the same pair may come twice."""
    pairs = [
        ("photos/cat/cat0.jpg", 7),
        ("photos/cat/cat0.jpg", 7),
        (str(folder / "photos/dog/dog1.jpg"), "9"),
        (np.str_("photos/cat/cat4.jpg"), np.str_("9")),
        (Path("photos/cat/cat6.jpg"), "9"),
        ("photos/dog/dog3.jpg", None),
        ("photos/none.jpg", "7"),
        ("photos/cat/cat2.jpg", "7"),
        ("photos/cat/cat2.jpg", "8"),
    ]
    dataset = write_pairs(folder / "out", pairs, max_rejected="3")
    assert {r["image/filename"].decode(): int(r["image/class/label"]) for r in read(dataset)} == {
        "photos/cat/cat0.jpg": 7,
        str(folder / "photos/dog/dog1.jpg"): 9,
        "photos/cat/cat4.jpg": 9,
        "photos/cat/cat6.jpg": 9,
    }
    assert {(r["path"], r["reason"]) for r in dataset.rejected} == {
        ("photos/dog/dog3.jpg", "no_label"),
        ("photos/none.jpg", "unreadable"),
        ("photos/cat/cat2.jpg", "ambiguous_label"),
    }
    assert dataset.ledger == {"images_matched": 7, "records_written": 4, "images_rejected": 3}


def test_a_layout_file_and_class_names(folder: Path) -> None:
    (folder / "my.yaml").write_text("features: {id: image.key, label: label.text}")
    dataset = write_pairs(
        folder / "out",
        [("photos/cat/cat0.jpg", "cat"), ("photos/dog/dog1.jpg", "dog")],
        LabelImages(key="stem"),
        layout="my.yaml",
        class_names=["dog", "cat"],
    )
    assert dataset.classes == ["dog", "cat"]
    records = read(dataset, {"id": TEXT, "label": TEXT})
    assert {(r["id"], r["label"]) for r in records} == {(b"cat0", b"cat"), (b"dog1", b"dog")}


def test_a_class_that_is_named_as_a_missing_label_keeps_its_images(folder: Path) -> None:
    (folder / "states.csv").write_text("id,label\ncat0,NA\ndog1,dog\n")
    classes: dict[str, Any] = {"class_names": ["NA", "dog"]}
    find = FindImages(["photos/*/*.jpg"], labels="states.csv", **classes)
    run_steps(find, WriteDataset("own", **classes, max_rejected="100%"))
    own = Dataset(folder / "own")
    assert own.classes == ["NA", "dog"] and own.ledger["records_written"] == 2
