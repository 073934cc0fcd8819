"""The dry run: it writes nothing, and tells what `convert` then does."""

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import draw
from tests.pipeline.commands import (
    Dataset,
    check_ended,
    convert,
    make_dataset,
    plan,
    run,
    snapshot,
    write_layout,
)
from tests.pipeline.decided_table import block
from transforms import packing
from transforms.core.messages import format_bytes

pytestmark = pytest.mark.slow


@pytest.fixture
def flags(sample: Path, tmp_path: Path) -> dict[str, Any]:
    """Flags of a conversion of the sample."""
    splits = "train=0.7,validation=0.2,test=0.1"
    images, output = f"{sample}/images/*/*", tmp_path / "out"
    return {"images": images, "labels": sample / "labels.csv", "splits": splits} | {
        "num_shards": 3,
        "output": output,
    }


def test_plan_of_the_sample_is_what_convert_makes(
    flags: dict[str, Any], sample: Path, tmp_path: Path
) -> None:
    before = snapshot(tmp_path), snapshot(sample)
    ran = plan(**flags)
    assert (ran.code, ran.err) == (0, "")
    assert (snapshot(tmp_path), snapshot(sample)) == before
    lines = ran.out.splitlines()
    planned = {line.split()[0]: line.split()[1:] for line in lines}
    assert convert(max_rejected="20%", **flags).code == 0
    dataset = Dataset(tmp_path / "out")
    at_convert = [line for line in dataset.rejected if line["reason"] != "no_label"]
    lost = {line["path"] for line in at_convert if line["subject"] == "image"}
    for split, made in dataset.manifest["splits"].items():
        images, shards, *_ = map(int, planned[split][:2])
        assert images >= made["records"] and shards == len(made["shards"])
    total = sum(int(planned[split][0]) for split in dataset.manifest["splits"])
    assert total == dataset.ledger["records_written"] + len(lost) == 51
    assert planned["train"][1] != "1"
    decided = {line[:15].strip(): line[15:].split("  ")[0].strip() for line in block(ran)}
    assert decided == {
        "labels from": "csv",
        "key column": "'id'",
        "label column": "'label'",
        "key": "stem",
        "splits from": "hash of the key",
        "root": f"{sample}/images",
        "labels": "text, 4 classes",
        "class ids": "0 to 3",
    }
    assert "images   52 matched = 51 to convert + 1 rejected" in lines
    assert "rows     52 read = 51 used + 0 repeated + 1 without an image + 0 rejected" in lines
    assert sum(line.startswith("        1 ") for line in lines) == 2
    assert lines[-1] == f"nothing written; convert would write {tmp_path / 'out'}"


def test_plan_says_how_long_a_conversion_takes(tmp_path: Path) -> None:
    for number in range(110):
        draw(tmp_path / "in" / f"{number}.jpg", seed=number % 3)
    flags = {"images": f"{tmp_path}/in/*.jpg", "label_from": "none", "output": tmp_path / "out"}
    said = r"\ntime     about \d.* s on this machine \(\d+ cores\), from 102 images\nnothing"
    assert re.search(said, (ran := plan(**flags)).out), ran
    made = json.loads(plan("--json", **flags).out)
    assert made["estimate"]["here"]["sampled"] == 102
    assert made["splits"]["train"][0] == 110 and made["action"] == "write"
    assert "sample" not in made


def test_plan_needs_no_writable_output(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    check_ended(plan(images=f"{photos}/*/*.jpg", output=tmp_path / "file" / "out"), 0)


def test_plan_elsewhere_needs_a_folder_for_its_result(photos: Path, tmp_path: Path) -> None:
    flags = {"images": f"{photos}/*/*.jpg", "output": tmp_path / "out"}
    ran = plan("--runner=DataflowRunner", "--project=vision", **flags)
    said = "plan needs --temp_location with this --runner: a folder for results"
    check_ended(ran, 2, said)


# `plan` says which cells will be rejected, and `convert` rejects them.


@pytest.mark.parametrize("of_rows", [True, False])
def test_cells_that_will_be_rejected_are_counted_and_shown(of_rows: bool, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,label,age\na,cat,41\nb,cat,NA\nc,dog,x\nd,dog,\ne,cat,7\n")
    features = "  age: {source: csv.age, type: int64}\n"
    flags: dict[str, Any] = {"labels": tmp_path / "a.csv", "max_rejected": "100%"}
    if not of_rows:
        flags["images"] = f"{tmp_path}/p/*.jpg"
        features += "  image: image.bytes\n"
        for seed, stem in enumerate("abcde"):
            draw(tmp_path / "p" / f"{stem}.jpg", seed=seed)
    flags |= {"layout": write_layout(tmp_path, features), "output": tmp_path / "out"}
    ran = plan(**flags)
    check_ended(ran, 0, "3 bad_cell: ", "2 to convert + 3 rejected")
    details = [
        "a.csv:3, column 'age': 'NA' is a missing value; give it a default",
        "a.csv:4, column 'age': 'x' is not of type int64",
        "a.csv:5, column 'age': the cell is empty; give it a default",
    ]
    lines = [line.strip() for line in ran.out.splitlines()]
    assert [line for line in lines if line.startswith("a.csv:")] == details
    check_ended(convert(**flags), 0)
    dataset = Dataset(tmp_path / "out")
    assert sorted(line["detail"] for line in dataset.rejected) == details
    assert dataset.ledger["records_written"] == 2


# `plan --reuse`: what would be reused and read, and the differences, in the words of `diff`.


def drawn(folder: Path) -> Path:
    """Eight images, and their labels."""
    for number in range(8):
        draw(folder / "in" / f"{number}.jpg", seed=number)
    write_labels(folder, "aabbaabb")
    return folder / "in"


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images that tests leave as they are."""
    return drawn(tmp_path_factory.mktemp("originals"))


def write_labels(folder: Path, labels: str) -> None:
    rows = "".join(f"{number},{label}\n" for number, label in enumerate(labels))
    (folder / "labels.csv").write_text(f"id,label\n{rows}")


def flags_of(images: Path, **flags: Any) -> dict[str, Any]:
    given = {"images": f"{images}/*.jpg", "labels": images.parent / "labels.csv"}
    return {**given, "num_shards": 2, **flags}


@pytest.fixture(scope="module")
def base(images: Path) -> Path:
    """Their dataset."""
    return make_dataset(images.with_name("base"), **flags_of(images)).folder


def edited(images: Path) -> dict[str, Any]:
    """The flags of a second version: an image is new, one changed, one touched and one gone."""
    draw(images / "8.jpg", seed=8)
    draw(images / "1.jpg", seed=11)
    os.utime(images / "2.jpg", ns=(5, 5))
    (images / "7.jpg").unlink()
    write_labels(images.parent, "aabbcaabb")
    return flags_of(images, splits="train=0.5,test=0.5", max_rejected="100%", seed=4)


def test_what_would_be_read_and_the_differences(tmp_path: Path) -> None:
    images = drawn(tmp_path)
    base = make_dataset(tmp_path / "base", **flags_of(images)).folder
    flags = edited(images)
    before = snapshot(tmp_path)
    ran = plan(output=tmp_path / "out", reuse=base, **flags)
    assert ran.code == 0, ran.err
    assert snapshot(tmp_path) == before
    lines = ran.out.splitlines()
    at = lines.index("reused   5 images from their records (--reuse)")
    size = sum((images / f"{name}.jpg").stat().st_size for name in (1, 2, 8))
    assert lines[at + 1] == f"read     3 originals, {format_bytes(size)}"
    count, originals, ranges, indexes = map(int, re.findall(r"\d+", lines[at + 2]))
    # Records that are split or shuffled are no neighbours.
    assert (originals, indexes) == (3, 3) and 1 <= ranges <= 5
    assert count == originals + ranges + indexes
    assert lines[at + 3] == f"diff     {base} -> {tmp_path / 'out'}"
    assert "  pixels      2 to be read again: '1', '2'" in lines
    done = convert(output=tmp_path / "out", reuse=base, **flags)
    check_ended(done, 0, "reused   5 images from their records (--reuse)")
    differences = run("diff", base, tmp_path / "out").out.splitlines()
    # Only what is in the images is not known before.
    later = ("pixels", "originals", "files", "different")
    known = [line for line in differences if not line.startswith(later)]
    assert len(known) == 7 and {"added       1: '8'", "removed     1: '7'"} <= {*known}
    planned = [line[2:] for line in lines[at + 4 : at + 12]]
    assert [line for line in planned if not line.startswith(later)] == known


def test_shards_that_are_copied_are_not_read(tmp_path: Path) -> None:
    images = drawn(tmp_path)
    (images / "8.jpg").write_bytes(b"no image")
    write_labels(tmp_path, "aabbaabbc")
    flags = flags_of(images, max_rejected="100%")
    base = make_dataset(tmp_path / "base", **flags).folder
    # What was rejected is read again; the base has one manifest, and an index for each shard.
    check_ended(
        plan(output=tmp_path / "out", reuse=base, **flags),
        0,
        "reused   8 images from their records (--reuse)\n",
        "requests 6: 1 for originals, 0 for records, 3 for manifests and indexes, 2 for copied "
        "shards\n",
    )


@pytest.mark.parametrize("is_reused", [True, False])
def test_plan_is_the_same_on_several_machines(
    is_reused: bool, flags: dict[str, Any], tmp_path: Path, monkeypatch: Any
) -> None:
    if is_reused:
        images = drawn(tmp_path)
        half = {"images": f"{images}/[0-3].jpg", "label_from": "none", "key": "name"}
        bases = [make_dataset(tmp_path / "one", **flags_of(images)).folder]
        bases += [make_dataset(tmp_path / "two", **half).folder]
        flags = {**edited(images), "reuse": bases, "output": tmp_path / "out"}
    here = plan(**flags)
    assert here.code == 0, here.err
    assert here.out.count("\ndiff     ") == 2 * is_reused
    monkeypatch.setattr(packing, "runs_in_process", lambda _: False)
    assert plan(**flags) == here


def test_a_base_that_cannot_be_reused_or_compared(images: Path, base: Path, tmp_path: Path) -> None:
    other = make_dataset(tmp_path / "other", **flags_of(images, check="header")).folder
    flags = flags_of(images, output=tmp_path / "out")
    check_ended(
        plan(reuse=other, **flags),
        0,
        "reused   0 images from their records (--reuse)\n",
        "requests 8: 8 for originals, 0 for records, 0 for manifests and indexes\n",
        "  options     1: --check from header to full\n",
    )
    base = Path(shutil.copytree(base, tmp_path / "base"))
    index = next((base / "index").iterdir())
    index.write_bytes(b"PAR1")
    said = f"diff     {base} cannot be compared: {index} is damaged"
    check_ended(plan(reuse=base, **flags), 0, said)
    quiet = plan("--quiet", reuse=base, **flags)
    assert quiet.out == f"nothing written; convert would write {tmp_path / 'out'}\n"


def test_a_finished_output_is_only_compared(images: Path, base: Path, tmp_path: Path) -> None:
    flags = flags_of(images, output=tmp_path / "out", reuse=base)
    assert convert(**flags).code == 0
    before = snapshot(tmp_path)
    ran = plan(**flags)
    check_ended(
        ran,
        0,
        # `convert` would take no image from a record, and would open no original.
        "reused   nothing: --reuse applies only with --overwrite or another --output\n",
        "images   8 matched = 8 to compare + 0 rejected\n",
        f"nothing written; convert would compare the dataset in {tmp_path / 'out'} with this plan, "
        "and replace it only with --overwrite\n",
    )
    assert ran.out.count("reused") == 1
    assert not any(f"\n{name}" in ran.out for name in ("read ", "requests", "diff", "  pixels"))
    done = convert(**flags)
    assert done.out.startswith("up to date") and "reused" not in done.out
    said = "reused   8 images from their records (--reuse)"
    replaced = f"convert would replace the dataset in {tmp_path / 'out'}\n"
    check_ended(plan(overwrite=True, **flags), 0, said, replaced)
    assert plan(**flags, seed=3).code == 2
    assert snapshot(tmp_path) == before


def test_records_of_a_dataset_are_not_originals(
    base: Path, tmp_path: Path, opened: list[str]
) -> None:
    (tmp_path / "keys.txt").write_text("0\n1\n2\n")
    few = make_dataset(tmp_path / "few", images=base, keys=tmp_path / "keys.txt").folder
    flags = {"images": base, "output": tmp_path / "out", "reuse": few}
    ran = plan(**flags)
    said = "reused   3 images from their records (--reuse)\n"
    check_ended(ran, 0, f"{said}read     0 originals, 0 B, and 5 records of --images\n")
    [line] = [line for line in ran.out.splitlines() if line.startswith("requests ")]
    count, originals, ranges, indexes = map(int, re.findall(r"\d+", line))
    # Those that are reused are in between.
    assert (originals, indexes) == (0, 5) and 2 <= ranges <= 8
    assert count == ranges + indexes
    opened.clear()
    check_ended(convert(**flags), 0, said)
    assert opened == []
