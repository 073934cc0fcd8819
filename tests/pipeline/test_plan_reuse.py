"""`plan --reuse`: what would be reused and read, and the differences, in the words of `diff`."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

import pipeline.diff
from tests.conftest import draw
from tests.pipeline.commands import convert, make_dataset, plan, run_here, snapshot
from transforms import packing
from transforms.core.messages import format_bytes


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Eight images, and their labels."""
    for number in range(8):
        draw(tmp_path / "in" / f"{number}.jpg", seed=number)
    write_labels(tmp_path, "aabbaabb")
    return tmp_path / "in"


def write_labels(folder: Path, labels: str) -> None:
    rows = "".join(f"{number},{label}\n" for number, label in enumerate(labels))
    (folder / "labels.csv").write_text(f"id,label\n{rows}")


def flags_of(images: Path, **flags: Any) -> dict[str, Any]:
    given = {"images": f"{images}/*.jpg", "labels": images.parent / "labels.csv"}
    return {**given, "num_shards": 2, **flags}


def edited(images: Path) -> dict[str, Any]:
    """The flags of a second version: an image is new, one changed, one touched and one gone."""
    draw(images / "8.jpg", seed=8)
    draw(images / "1.jpg", seed=11)
    os.utime(images / "2.jpg", ns=(5, 5))
    (images / "7.jpg").unlink()
    write_labels(images.parent, "aabbcaabb")
    return flags_of(images, splits="train=0.5,test=0.5", max_rejected="100%", seed=4)


def test_what_would_be_read_and_the_differences(images: Path, tmp_path: Path) -> None:
    base = make_dataset(tmp_path / "base", **flags_of(images)).folder
    flags = edited(images)
    before = snapshot(tmp_path)
    ran = plan(output=tmp_path / "out", reuse=base, **flags)
    assert ran.code == 0, ran.err
    assert snapshot(tmp_path) == before
    lines = ran.out.splitlines()
    at = lines.index("reused   5 images from their records (--reuse)")
    read = sum((images / f"{name}.jpg").stat().st_size for name in (1, 2, 8))
    assert lines[at + 1] == f"read     3 originals, {format_bytes(read)}"
    _, count, *what = lines[at + 2].split()
    assert what[:3] == ["3", "for", "originals,"]
    # Records that are split or shuffled are no neighbours.
    ranges = int(what[3])
    assert 1 <= ranges <= 5
    assert what[6:] == ["3", "for", "manifests", "and", "indexes"]
    assert int(count[:-1]) == 3 + ranges + 3
    assert lines[at + 3] == f"diff     {base} -> {tmp_path / 'out'}"
    assert "  pixels      2 to be read again: '1', '2'" in lines

    done = convert(output=tmp_path / "out", reuse=base, **flags)
    assert "reused   5 images from their records (--reuse)" in done.out
    words = [str(base), str(tmp_path / "out")]
    differences = run_here(pipeline.diff.main, "diff", words).out.splitlines()
    # Only what is in the images is not known before.
    later = ("pixels", "originals", "files", "different")
    known = [line for line in differences if not line.startswith(later)]
    assert len(known) == 7
    assert "added       1: '8'" in known and "removed     1: '7'" in known
    planned = [line[2:] for line in lines[at + 4 : at + 12]]
    assert [line for line in planned if not line.startswith(later)] == known


def test_shards_that_are_copied_are_not_read(images: Path, tmp_path: Path) -> None:
    (images / "8.jpg").write_bytes(b"no image")
    write_labels(tmp_path, "aabbaabbc")
    flags = flags_of(images, max_rejected="100%")
    base = make_dataset(tmp_path / "base", **flags).folder
    ran = plan(output=tmp_path / "out", reuse=base, **flags)
    assert ran.code == 0, ran.err
    lines = ran.out.splitlines()
    assert "reused   8 images from their records (--reuse)" in lines
    # What was rejected is read again; the base has one manifest, and an index for each shard.
    [line] = [line for line in lines if line.startswith("requests ")]
    assert line == (
        "requests 6: 1 for originals, 0 for records, 3 for manifests and indexes, 2 for copied "
        "shards"
    )


def test_it_is_the_same_on_several_machines(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bases = [make_dataset(tmp_path / "one", **flags_of(images)).folder]
    half = {"images": f"{images}/[0-3].jpg", "label_from": "none", "key": "name"}
    bases.append(make_dataset(tmp_path / "two", **half).folder)
    flags = {**edited(images), "reuse": bases, "output": tmp_path / "out"}
    here = plan(**flags)
    assert here.code == 0, here.err
    assert here.out.count("\ndiff     ") == 2
    monkeypatch.setattr(packing, "runs_in_process", lambda _: False)
    assert plan(**flags) == here


def test_a_base_that_cannot_be_reused_or_compared(images: Path, tmp_path: Path) -> None:
    other = make_dataset(tmp_path / "other", **flags_of(images, check="header")).folder
    flags = flags_of(images, output=tmp_path / "out")
    ran = plan(reuse=other, **flags)
    lines = ran.out.splitlines()
    assert "reused   0 images from their records (--reuse)" in lines
    assert "requests 8: 8 for originals, 0 for records, 0 for manifests and indexes" in lines
    assert "  options     1: --check from header to full" in lines
    base = make_dataset(tmp_path / "base", **flags_of(images)).folder
    index = next((base / "index").iterdir())
    index.write_bytes(b"PAR1")
    ran = plan(reuse=base, **flags)
    assert ran.code == 0, ran.err
    assert f"diff     {base} cannot be compared: {index} is damaged" in ran.out
    quiet = plan("--quiet", reuse=base, **flags)
    assert quiet.out == f"nothing written; convert would write {tmp_path / 'out'}\n"


def test_a_finished_output_is_only_compared(images: Path, tmp_path: Path) -> None:
    flags = flags_of(images, output=tmp_path / "out")
    base = make_dataset(tmp_path / "base", **flags_of(images)).folder
    assert convert(**flags).code == 0
    ran = plan(reuse=base, **flags)
    assert (ran.code, ran.err) == (0, "")
    # `convert` would take no image from a record, and would open no original.
    unused = "reused   nothing: --reuse applies only with --overwrite or another --output"
    assert [line for line in ran.out.splitlines() if line.startswith("reused")] == [unused]
    assert not any(f"\n{name}" in ran.out for name in ("read ", "requests", "diff", "  pixels"))
    assert "images   8 matched = 8 to compare + 0 rejected" in ran.out.splitlines()
    assert f"convert would compare the dataset in {tmp_path / 'out'}" in ran.out
    done = convert(reuse=base, **flags)
    assert done.out.startswith("up to date") and "reused" not in done.out
    replaced = plan(reuse=base, overwrite=True, **flags)
    assert "reused   8 images from their records (--reuse)" in replaced.out


def test_records_of_a_dataset_are_not_originals(
    images: Path, tmp_path: Path, opened: list[str]
) -> None:
    source = make_dataset(tmp_path / "source", **flags_of(images, num_shards=1)).folder
    (tmp_path / "keys.txt").write_text("0\n1\n2\n")
    base = make_dataset(tmp_path / "base", images=source, keys=tmp_path / "keys.txt").folder
    flags = {"images": source, "output": tmp_path / "out", "reuse": base}
    ran = plan(**flags)
    assert ran.code == 0, ran.err
    lines = ran.out.splitlines()
    at = lines.index("reused   3 images from their records (--reuse)")
    assert lines[at + 1] == "read     0 originals, 0 B, and 5 records of --images"
    count, originals, ranges, indexes = (int(each) for each in re.findall(r"\d+", lines[at + 2]))
    # Those that are reused are in between.
    assert (originals, indexes) == (0, 4) and 2 <= ranges <= 8
    assert count == ranges + indexes
    opened.clear()
    done = convert(**flags)
    assert "reused   3 images from their records (--reuse)" in done.out
    assert opened == []
