"""Images that the rows of a CSV list: no glob is given."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import draw
from tests.images import picture, saved
from tests.pipeline.commands import ROOT, Dataset, convert, make_dataset, plan, run_process
from tests.pipeline.reading import filenames, labels
from tests.servers.gcs import GcsServer
from tests.spies import paths_given
from transforms.storage.local_storage import LocalStorage

ALL = {"max_rejected": "100%"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Four photos in `data/photos` and one elsewhere."""
    for at, name in enumerate(["data/photos/1", "data/photos/2", "data/photos/a/5", "far/3"]):
        draw(tmp_path / f"{name}.jpg", seed=at)
    return tmp_path


def make(folder: Path, *rows: str, **flags: object) -> Dataset:
    """Converts what a CSV in `data` lists."""
    (folder / "data" / "list.csv").write_text("\n".join(rows))
    return make_dataset(folder / "out", labels=folder / "data" / "list.csv", **flags)


@pytest.mark.slow
def test_paths_are_relative_to_the_csv_or_absolute(folder: Path) -> None:
    rows = ["photos/1.jpg,cat", f"{folder}/data/photos/a/5.jpg,dog", "../far/3.jpg,fox"]
    dataset = make(folder, "image_uri,label", *rows)
    far = str(folder / "far/3.jpg")
    assert sorted(filenames(dataset)) == sorted(["photos/1.jpg", "photos/a/5.jpg", far])
    assert labels(dataset) == {"1": "cat", "5": "dog", "3": "fox"}
    assert dataset.ledger == {
        "images_matched": 3,
        "records_written": 3,
        "rows_read": 3,
        "rows_used": 3,
    }


def test_what_cannot_be_used_is_reported(folder: Path) -> None:
    rows = ["photos/1.jpg,cat", "photos/none.jpg,cat", "photos/none.jpg,cat", "s3://b/1.jpg,dog"]
    dataset = make(folder, "image_uri,label", *rows, "photos/2.jpg", "photos/1.jpg,cat", **ALL)
    reasons = [(line["subject"], line["reason"]) for line in dataset.rejected]
    assert sorted(reasons) == [
        ("image", "unreadable"),
        ("row", "malformed_row"),
        ("row", "malformed_row"),
    ]
    assert dataset.ledger == {
        "images_matched": 2,
        "records_written": 1,
        "images_rejected": 1,
        "rows_read": 6,
        "rows_used": 1,
        "rows_repeated": 1,
        "rows_rejected": 4,
    }
    command = {"labels": folder / "data/list.csv", "output": folder / "out", **ALL}
    assert convert(**command).out.startswith("up to date")
    assert "2 matched = 1 to compare + 1 rejected" in plan(**command).out


@pytest.mark.parametrize("address", ["http://a.org/1.jpg", "s3://b/1.jpg", "made-up://b/1.jpg"])
def test_rows_of_addresses_are_rejected(folder: Path, address: str) -> None:
    """Also where the first images show how boxes are turned; nothing is requested."""
    row = "{},cat,1,1,5,5"
    rows = ["image,label,xmin,ymin,xmax,ymax", row.format(address), row.format("photos/1.jpg")]
    dataset = make(folder, *rows, layout="detection", **ALL)
    [line] = dataset.rejected
    assert line["detail"] == f"{address!r} is neither a path nor a gs:// URI"
    assert dataset.ledger["records_written"] == 1


def test_only_web_addresses(folder: Path) -> None:
    (folder / "data/list.csv").write_text("image,label\nhttps://a.org/1.jpg,cat\n")
    ran = convert(labels=folder / "data/list.csv", output=folder / "out")
    assert ran.code == 2
    assert "such as 'https://a.org/1.jpg': download the images, and give --images" in ran.error()


def test_boxes_of_files_elsewhere_open_none(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The headers of the first images decide about rotation, but not of one that is refused."""
    opened = paths_given(monkeypatch, LocalStorage, "read_range")
    rows = ["image,label,xmin,ymin,xmax,ymax", "photos/1.jpg,a,1,1,5,5", "/etc/passwd,a,1,1,5,5"]
    dataset = make(folder, *rows, layout="detection", **ALL)
    assert [line["reason"] for line in dataset.rejected] == ["outside_root"]
    assert opened and not any("passwd" in path for path in opened)


@pytest.mark.slow
def test_objects_of_a_bucket(folder: Path, gcs: GcsServer) -> None:
    """The command runs in its own process, whose command line has no URL."""
    gcs.make_bucket("bucket")
    gcs.put("bucket", "x/9.jpg", saved(picture("RGB", 9, 9), "JPEG"))
    rows = [
        "image_uri,label",
        "gs://bucket/x/9.jpg,cat",
        "gs://bucket/no.jpg,cat",
        "gs:///no.jpg,cat",
        "photos/1.jpg,a",
    ]
    (folder / "data" / "list.csv").write_text("\n".join(rows))
    flags = {"labels": folder / "data" / "list.csv", "output": folder / "out", **ALL}
    flags["quarantine"] = folder / "q"
    ran = run_process("pipeline.convert", cwd=ROOT, **flags)
    assert ran.code == 0, ran.err
    dataset = Dataset(folder / "out")
    assert sorted(filenames(dataset)) == ["gs://bucket/x/9.jpg", "photos/1.jpg"]
    assert [(r["reason"], r["path"]) for r in dataset.rejected] == [
        ("unreadable", "gs:///no.jpg"),
        ("unreadable", "gs://bucket/no.jpg"),
    ]
