"""The transforms for pipelines of one's own, and their documentation."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pytest

from pipeline.read import load
from tests.conftest import draw
from tests.lazy import lazy_module
from tests.pipeline.commands import ROOT, Dataset, check_sound, digests, make_dataset
from tests.pipeline.reading import TEXT, TUTORIAL, filenames, labels, read
from tests.transforms.beam import make_pipeline
from transforms.core.messages import LabelsError
from transforms.write_dataset import EncodeExamples, FindImages, LabelImages, WriteDataset

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


def run(*steps: Any) -> None:
    """Applies the steps one after another to a pipeline, and runs it."""
    graph = make_pipeline()
    value: Any = graph
    for number, step in enumerate(steps):
        value = value | f"Step {number}" >> step
    graph.run().wait_until_finish()


def write_pairs(
    output: Path, pairs: Sequence[tuple[str, Any]], label: Any = None, **options: Any
) -> Dataset:
    """The dataset of pairs of an image and its label."""
    run(beam.Create(pairs), label or LabelImages(), WriteDataset(str(output), **options))
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
    run(find, EncodeExamples(root="photos"), beam.io.WriteToTFRecord("own"))
    assert len(records(folder.glob("own-*"))) == 11


def test_paths_and_labels_may_be_strings_of_numpy(folder: Path) -> None:
    pairs = [(f"photos/{name[:3]}/{name}.jpg", name[:3]) for name in ("cat0", "dog1")]
    plain = write_pairs(folder / "plain", pairs)
    of_numpy = [(np.str_(path), np.str_(label)) for path, label in pairs]
    assert digests(write_pairs(folder / "of_numpy", of_numpy).folder) == digests(plain.folder)


def test_globs_give_the_bytes_of_the_command(folder: Path) -> None:
    flags: dict[str, Any] = {"splits": "train=0.7,test=0.3", "seed": 3}
    command = make_dataset(
        folder / "command", images="photos/*/*.jpg", labels="labels.csv", num_shards=2, **flags
    )

    def run_own() -> None:
        find = FindImages(["photos/*/*.jpg"], labels="labels.csv", root="photos", **flags)
        run(find, WriteDataset("own", root="photos", num_shards=2))

    run_own()
    own = Dataset(folder / "own")
    assert own.shards() == command.shards()
    kept = [*own.shards(), "labels.txt", "rejected.jsonl"]
    ours, theirs = digests(own.folder), digests(command.folder)
    assert [ours[name] for name in kept] == [theirs[name] for name in kept]
    assert own.ledger == command.ledger
    check_sound(own.folder)
    before = digests(own.folder)
    run_own()
    assert digests(own.folder) == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("find", "write"),
    [
        (
            {
                "images": "photos/*/*.jpg",
                "labels": "places.csv",
                "split_column": "set",
                "group_by": "who",
            },
            {"files": "per_image", "quarantine": "left", "max_rejected": "100%"},
        ),
        (
            {
                "images": "photos/*/*.jpg",
                "label_regex": r"(cat|dog)",
                "split_from": "directory",
            },
            {"dedupe": "drop", "max_rejected": "100%"},
        ),
    ],
)
def test_options_of_the_command_give_its_bytes(
    folder: Path, find: dict[str, Any], write: dict[str, Any]
) -> None:
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
    globs = [find.pop("images")]
    run(FindImages(globs, root="photos", **find), WriteDataset("own", root="photos", **write))
    own, theirs = digests(folder / "own"), digests(command.folder)
    by_each = {"manifest.json", "report.html"}  # name the options and the inputs
    assert {n: d for n, d in own.items() if n not in by_each} == {
        n: d for n, d in theirs.items() if n not in by_each
    }
    assert Dataset(folder / "own").ledger == command.ledger
    assert (folder / "left").exists() == ("quarantine" in write)


def test_pairs_are_found_labelled_split_and_rejected(folder: Path) -> None:
    pairs = [
        ("photos/cat/cat0.jpg", 7),
        ("photos/cat/cat0.jpg", 7),
        (str(folder / "photos/dog/dog1.jpg"), "9"),
        ("photos/dog/dog3.jpg", None),
        ("photos/none.jpg", "7"),
    ]
    dataset = write_pairs(folder / "out", pairs, max_rejected="2")
    assert {r["image/filename"]: int(r["image/class/label"]) for r in read(dataset)} == {
        b"photos/cat/cat0.jpg": 7,
        str(folder / "photos/dog/dog1.jpg").encode(): 9,
    }
    assert {(r["path"], r["reason"], r["detail"]) for r in dataset.rejected} == {
        ("photos/dog/dog3.jpg", "no_label", "its label is empty"),
        ("photos/none.jpg", "unreadable", "there is no such file"),
    }
    assert dataset.ledger == {"images_matched": 4, "records_written": 2, "images_rejected": 2}


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


def test_too_many_rejected_fails_the_job(folder: Path) -> None:
    steps = (beam.Create([("photos/none.jpg", "cat")]), LabelImages(), WriteDataset("out"))
    with pytest.raises(Exception, match="1 of 1 images rejected, more than --max_rejected"):
        run(*steps)
    assert not (folder / "out" / "manifest.json").exists()


@pytest.mark.parametrize(
    ("layout", "says"),
    [
        ("detection", "has the source box.xmin, which is neither an image nor its label: use Conv"),
        ("embedding", "layout embedding needs model: a Keras file"),
        ("no.yaml", "no such file: layout no.yaml"),
        ("slimm", "layout 'slimm' is neither one of slim, tutorial.*did you mean slim"),
    ],
)
def test_layouts_that_need_more_are_refused_at_once(folder: Path, layout: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        WriteDataset(str(folder / "out"), layout=layout)


def test_wrong_arguments_are_reported_at_once(folder: Path) -> None:
    (folder / "odd.csv").write_text("a,b,c\n1,2,3\n")
    with pytest.raises(LabelsError, match="cannot tell whether its first line is a header"):
        FindImages(["photos/*/*.jpg"], labels="odd.csv")
    with pytest.raises(LabelsError) as raised:
        FindImages(["photos/*/*.jpg"], labels="labels.csv", label_column="lable")
    assert "no column 'lable' (label_column)" in str(raised.value)


def test_a_separator_that_is_given(folder: Path) -> None:
    lines = (folder / "labels.csv").read_text().replace(",", "~")
    (folder / "odd.csv").write_text(lines)
    with pytest.raises(LabelsError, match=r"has one column .*, give csv_delimiter '~'"):
        FindImages(["photos/*/*.jpg"], labels="odd.csv")
    run(FindImages(["photos/*/*.jpg"], labels="odd.csv", csv_delimiter="~"), WriteDataset("odd"))
    names = [path.stem for path in (folder / "photos").glob("*/*.jpg")]
    assert labels(Dataset(folder / "odd")) == {name: name[:3] for name in names}


def test_paths_may_be_path_objects(folder: Path) -> None:
    FindImages([Path("photos/*/*.jpg")], labels=Path("labels.csv"), root=Path("photos"))
    pair = (Path("photos/cat/cat0.jpg"), "cat")
    run(beam.Create([pair]), LabelImages(root="photos"), WriteDataset(Path("one"), root="photos"))
    assert filenames(Dataset(folder / "one")) == ["cat/cat0.jpg"]
    assert len(list(load(Path("one"), "train"))) == 1


def test_a_pair_twice_with_two_labels_is_one_rejection(folder: Path) -> None:
    path, other = "photos/cat/cat0.jpg", "photos/cat/cat2.jpg"
    pairs = [(path, "cat"), (path, "dog"), (path, "cat"), (other, "cat")]
    dataset = write_pairs(folder / "out", pairs, max_rejected="1")
    assert [line["reason"] for line in dataset.rejected] == ["ambiguous_label"]
    assert dataset.ledger == {"images_matched": 2, "records_written": 1, "images_rejected": 1}


def test_a_class_that_is_named_as_a_missing_label_keeps_its_images(folder: Path) -> None:
    (folder / "states.csv").write_text("id,label\ncat0,NA\ndog1,dog\n")
    (folder / "states.txt").write_text("NA\ndog\n")
    flags = {"images": "photos/*/*.jpg", "labels": "states.csv", "max_rejected": "100%"}
    command = make_dataset(folder / "command", **flags, class_names="states.txt")
    names = ["NA", "dog"]
    find = FindImages([flags["images"]], labels="states.csv", class_names=names, root="photos")
    write = WriteDataset("own", class_names=names, max_rejected="100%", root="photos")
    run(find, write)
    own = Dataset(folder / "own")
    assert own.classes == command.classes == names
    assert own.ledger == command.ledger and own.ledger["records_written"] == 2
