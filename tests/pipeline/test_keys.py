"""`--keys` keeps only the listed images, of any source, and accounts for all others."""

import io
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.commands import Dataset, check_sound, convert, digests, make_dataset, plan
from tests.pipeline.reading import labels
from transforms import packing

pytestmark = pytest.mark.slow


def typed(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Puts a text on standard input."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


def write_keys(folder: Path, *keys: str) -> Path:
    path = folder / "keys.txt"
    path.write_text("\n".join(keys))
    return path


def test_listed_images_are_kept_and_the_others_are_counted(
    photos: Path, stems: dict[str, str], tmp_path: Path
) -> None:
    rows = "".join(f"{stem},{label}\n" for stem, label in stems.items())
    (tmp_path / "labels.csv").write_text(f"id,label\n{rows}cow-1,cow\ngnu-1,gnu\n")
    keys = write_keys(tmp_path, "fox-2", "cow-1", "cat-0", "fox-2", "cow-2")
    flags: dict[str, Any] = {"images": f"{photos}/*/*.jpg", "labels": tmp_path / "labels.csv"}
    flags["keys"] = keys
    planned, ran = (run(**flags, output=tmp_path / "out") for run in (plan, convert))
    assert ran.code == 0, ran.err
    dataset = Dataset(tmp_path / "out")
    check_sound(dataset.folder)
    assert labels(dataset) == {"cat-0": "cat", "fox-2": "fox"}
    assert dataset.ledger == {
        "images_matched": 18, "records_written": 2, "images_left_out": 16,
        "rows_read": 20, "rows_used": 2, "rows_unmatched": 1, "rows_left_out": 17,
    }  # fmt: skip
    assert [(line["subject"], line["reason"], line["path"]) for line in dataset.rejected] == [
        ("key", "key_not_found", f"{keys}:2"),
        ("key", "key_not_found", f"{keys}:5"),
        ("row", "row_without_image", f"{tmp_path}/labels.csv:20"),
    ]
    for out, written in ((planned.out, "to convert"), (ran.out, "written")):
        assert f"images   18 matched = 2 {written} + 0 rejected + 16 left out (--keys)" in out
        assert "1 without an image + 0 rejected + 17 left out (--keys)" in out
        assert "warning  2 keys in --keys name no image, such as 'cow-1', 'cow-2'; rej" in out
        assert f"images kept    those in {keys}  given [--keys]" in out
    assert "not in --keys" in (dataset.folder / "report.html").read_text()

    # Images that are not listed may come and go; the manifest repeats the run.
    assert dataset.manifest["inputs"]["keys"] == str(keys)
    again = make_dataset(tmp_path / "again", config=dataset.folder / "manifest.json")
    described = {"manifest.json": "", "report.html": ""}
    assert {**digests(again.folder), **described} == {**digests(dataset.folder), **described}
    fewer = {**flags, "images": f"{photos}/[cf]*/*.jpg", "root": photos}
    assert "up to date" in convert(**fewer, output=tmp_path / "out").out
    write_keys(tmp_path, "fox-2")
    assert "holds a dataset of other inputs" in convert(**flags, output=tmp_path / "out").error()


def test_a_subset_is_what_a_run_over_these_images_alone_makes(photos: Path, tmp_path: Path) -> None:
    keys = write_keys(tmp_path, *(f"fox/fox-{number}.jpg" for number in range(6)))
    kept = make_dataset(tmp_path / "kept", images=f"{photos}/*/*.jpg", keys=keys)
    alone = {"images": f"{photos}/fox/*.jpg", "root": photos, "label_from": "directory"}
    shards = [
        {name: (each.folder / name).read_bytes() for name in each.shards()}
        for each in (kept, make_dataset(tmp_path / "alone", **alone))
    ]
    assert shards[0] == shards[1]


@pytest.mark.parametrize("in_process", [True, False])
def test_keys_of_images_that_rows_list(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_process: bool
) -> None:
    monkeypatch.setattr(packing, "runs_in_process", lambda _: in_process)
    rows = "".join(f"{photos}/cat/cat-{number}.jpg,{number}\n" for number in range(3))
    (tmp_path / "list.csv").write_text(f"image_uri,label\n{rows}/absent.jpg,x\n")
    keys = write_keys(tmp_path, f"{photos}/cat/cat-1.jpg")
    dataset = make_dataset(tmp_path / "out", labels=tmp_path / "list.csv", keys=keys)
    assert labels(dataset) == {"cat-1": "1"}
    # That a file is missing does not matter.
    assert dataset.rejected == []
    write_keys(tmp_path, "nothing")
    ran = convert(labels=tmp_path / "list.csv", keys=keys, output=tmp_path / "none")
    assert ran.code == 2
    assert ran.error() == (
        "convert: no image has a key in --keys: all 4 images were left out; nothing published"
    )


def test_keys_from_standard_input(photos: Path, tmp_path: Path, monkeypatch: Any) -> None:
    flags = {"images": f"{photos}/*/*.jpg", "keys": "-"}
    typed(monkeypatch, "cat/cat-1.jpg\n")
    assert "17 left out (--keys)" in plan(**flags, output=tmp_path / "out").out
    typed(monkeypatch, "cat/cat-1.jpg\nfox/fox-1.jpg\nabsent\n")
    dataset = make_dataset(tmp_path / "out", **flags)
    assert set(labels(dataset)) == {"cat-1", "fox-1"}
    assert [line["path"] for line in dataset.rejected] == ["-:3"]
    assert dataset.manifest["inputs"]["keys"] == "-"
    ran = convert(**flags, runner="FlinkRunner", output=tmp_path / "far")
    assert ran.code == 2 and "give a file in a bucket" in ran.error()
