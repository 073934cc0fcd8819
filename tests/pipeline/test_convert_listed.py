"""Images that the rows of a CSV list: no glob is given, and rows may say nothing of labels."""

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import draw
from tests.images import picture, saved
from tests.pipeline.commands import Dataset, check_sound, convert, make_dataset, plan, run_process
from tests.pipeline.reading import filenames, labels
from tests.servers.gcs import GcsServer
from tests.spies import paths_given
from transforms.storage.local_storage import LocalStorage

pytestmark = pytest.mark.slow

ALL = {"max_rejected": "100%"}
NONE = {"label_from": "none"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Five photos in `data/photos` and one elsewhere."""
    for at, name in enumerate(
        "data/photos/1 data/photos/2 data/photos/4 data/photos/a/5 far/3".split()
    ):
        draw(tmp_path / f"{name}.jpg", seed=at)
    return tmp_path


def listing(folder: Path, *rows: str) -> dict[str, Any]:
    """Writes the CSV in `data`, and gives the flags for it."""
    (folder / "data" / "list.csv").write_text("\n".join(rows))
    return {"labels": folder / "data" / "list.csv"}


def make(folder: Path, *rows: str, **flags: object) -> Dataset:
    """Converts what a CSV in `data` lists."""
    return make_dataset(folder / "out", **listing(folder, *rows), **flags)


def test_paths_are_relative_to_the_csv_or_absolute(folder: Path) -> None:
    rows = ["photos/1.jpg,cat", f"{folder}/data/photos/a/5.jpg,dog", "../far/3.jpg,fox"]
    dataset = make(folder, "image_uri,label", *rows)
    far = str(folder / "far/3.jpg")
    assert sorted(filenames(dataset)) == sorted(["photos/1.jpg", "photos/a/5.jpg", far])
    assert labels(dataset) == {"1": "cat", "5": "dog", "3": "fox"}
    assert dataset.ledger == dict.fromkeys(
        ("images_matched", "records_written", "rows_read", "rows_used"), 3
    )


def test_what_cannot_be_used_is_reported(folder: Path) -> None:
    rows = ["photos/1.jpg,cat", "photos/none.jpg,cat", "photos/none.jpg,cat", "s3://b/1.jpg,dog"]
    dataset = make(folder, "image_uri,label", *rows, "photos/2.jpg", "photos/1.jpg,cat", **ALL)
    reasons = sorted((line["subject"], line["reason"]) for line in dataset.rejected)
    assert reasons == [("image", "unreadable"), *[("row", "malformed_row")] * 2]
    assert dataset.ledger == {
        "images_matched": 2, "records_written": 1, "images_rejected": 1, "rows_read": 6,
        "rows_used": 1, "rows_repeated": 1, "rows_rejected": 4,
    }  # fmt: skip
    command = {"labels": folder / "data/list.csv", "output": folder / "out", **ALL}
    assert convert(**command).out.startswith("up to date")
    assert "2 matched = 1 to compare + 1 rejected" in plan(**command).out


def test_boxes_of_files_elsewhere_open_none(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The headers of the first images decide about rotation, but not of one that is refused."""
    opened = paths_given(monkeypatch, LocalStorage, "read_range")
    addresses = ["http://a.org/1.jpg", "made-up://b/1.jpg", "s3://b/1.jpg"]
    rows = [f"{name},a,1,1,5,5" for name in (*addresses, "/etc/passwd", "photos/1.jpg")]
    dataset = make(folder, "image,label,xmin,ymin,xmax,ymax", *rows, layout="detection", **ALL)
    assert dataset.ledger["records_written"] == 1
    assert {line["detail"] for line in dataset.rejected if line["reason"] != "outside_root"} == {
        f"{address!r} is neither a path nor a gs:// URI" for address in addresses
    }
    assert sum(line["reason"] == "outside_root" for line in dataset.rejected) == 1
    assert opened
    assert not any("passwd" in path for path in opened)


def test_objects_of_a_bucket(folder: Path, gcs: GcsServer) -> None:
    """The command runs in its own process, whose command line has no URL."""
    gcs.make_bucket("bucket")
    gcs.put("bucket", "x/9.jpg", saved(picture("RGB", 9, 9), "JPEG"))
    names = ["gs://bucket/x/9.jpg", "gs://bucket/no.jpg", "gs:///no.jpg", "photos/1.jpg"]
    flags = listing(folder, "image_uri,label", *(f"{name},cat" for name in names))
    flags |= {"output": folder / "out", "quarantine": folder / "q", **ALL}
    ran = run_process("pipeline.convert", **flags)
    assert ran.code == 0, ran.err
    dataset = Dataset(folder / "out")
    assert sorted(filenames(dataset)) == [names[0], names[3]]
    rejected = [(line["reason"], line["path"]) for line in dataset.rejected]
    assert rejected == [("unreadable", names[2]), ("unreadable", names[1])]


@pytest.mark.parametrize("header", ["image_uri", "path,size", ""])
def test_rows_may_have_no_labels(folder: Path, header: str) -> None:
    end = ",big" if "size" in header else ""
    rows = [f"photos/{name}.jpg{end}" for name in ("1", "2", "a/5", "a/5")]
    flags = {**listing(folder, *filter(None, [header]), *rows), **NONE}
    dataset = make_dataset(folder / "out", **flags)
    assert sorted(filenames(dataset)) == ["photos/1.jpg", "photos/2.jpg", "photos/a/5.jpg"]
    assert "image/class/label" not in {f["name"] for f in dataset.manifest["features"]}
    assert dataset.classes == []
    assert dataset.ledger == {
        "images_matched": 3, "records_written": 3, "rows_read": 4, "rows_used": 3,
        "rows_repeated": 1,
    }  # fmt: skip
    check_sound(dataset.folder)
    assert convert(**flags, output=dataset.folder).out.startswith("up to date")
    assert plan(**flags, output=folder / "planned").code == 0
