"""`--images DATASET`: the records of a dataset are images, when the originals are gone."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import draw
from tests.images import picture, saved
from tests.marks import cases
from tests.pipeline.commands import (
    Dataset,
    check_ended,
    check_sound,
    convert,
    digests,
    make_dataset,
    plan,
)
from tests.pipeline.reading import labels, split_of
from tests.pipeline.reusing import drawn, edit_index, first, flip, with_column

pytestmark = pytest.mark.slow

SPLIT = {"splits": "train=0.6,test=0.4", "num_shards": 2}


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Twelve images, which a test may change."""
    return drawn(tmp_path / "in")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """A dataset of such images, which are gone. Tests leave it as it is."""
    folder = tmp_path_factory.mktemp("gone")
    images = drawn(folder / "in")
    made = make_dataset(folder / "base", images=f"{images}/*/*.jpg", **SPLIT)
    shutil.rmtree(images)
    return made


def records(dataset: Dataset) -> dict[str, str]:
    """The digest of each shard."""
    return {name: hash_ for name, hash_ in digests(dataset.folder).items() if ".tfrecord" in name}


OPTIONS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "detection": {"layout": "detection"},
    "resize": {"resize": "shorter=9", "transcode": "jpeg", "quality": 80},
    "per_image": {"files": "per_image", "num_shards": None},
    "no hashes": {"dedupe": "off"},
}


@pytest.mark.parametrize("name", list(OPTIONS))
def test_the_same_options_give_the_same_records(name: str, images: Path, tmp_path: Path) -> None:
    flags: dict[str, Any] = {**SPLIT, **OPTIONS[name]}
    draw(images / "cat" / "none.jpg", seed=99)
    # Two objects in one image, none in another.
    rows = [f"{path.name},{path.parent.name},1,2,9,9" for path in sorted(images.glob("*/?*.jpg"))]
    rows = [each for each in rows if "none" not in each]
    more = [rows[0].replace("1,2,9,9", "0,0,5,5"), rows[1].replace("cat", "dog"), "none.jpg,,,,,"]
    (images / "boxes.csv").write_text("\n".join(["image,label,xmin,ymin,xmax,ymax", *rows, *more]))
    of_rows = (
        {"labels": images / "boxes.csv", "boxes": "units=pixel"} if name == "detection" else {}
    )
    base = make_dataset(tmp_path / "base", images=f"{images}/*/*.jpg", **of_rows, **flags)
    shutil.rmtree(images)
    made = make_dataset(tmp_path / "made", images=base.folder, split_by="records", **flags)
    assert records(made) == records(base)
    assert made.manifest["ledger"]["records_written"] == 13
    assert (made.folder / "labels.txt").read_text() == (base.folder / "labels.txt").read_text()
    check_sound(made.folder)


def test_splits_labels_and_keys_stay_and_a_rerun_is_up_to_date(
    base: Dataset, tmp_path: Path
) -> None:
    flags = {"images": base.folder, "output": tmp_path / "made"}
    check_ended(plan(**flags), 0, "12 to convert")
    check_ended(convert(**flags), 0, "splits from    records")
    made = Dataset(tmp_path / "made")
    assert (labels(made), split_of(made)) == (labels(base), split_of(base))
    check_ended(convert(**flags), 0, "up to date")
    config = made.folder / "manifest.json"
    check_ended(convert(config=config, output=made.folder), 0, "up to date")
    one = make_dataset(tmp_path / "one", images=base.folder, split_by="hash")
    assert list(one.manifest["splits"]) == ["train"]


def test_records_are_filtered_and_merged(base: Dataset, tmp_path: Path) -> None:
    (tmp_path / "keys.txt").write_text("cat/0.jpg\ndog/1.jpg\ndog/3.jpg\n")
    few = make_dataset(tmp_path / "few", images=base.folder, keys=tmp_path / "keys.txt")
    assert few.ledger["images_left_out"] == 9
    draw(tmp_path / "new" / "cat" / "20.jpg", seed=20)
    images = [few.folder, base.folder, f"{tmp_path}/new/*/*.jpg"]
    flags = {"images": images, "label_from": "directory", "root": tmp_path / "new"}
    merged = make_dataset(tmp_path / "merged", **flags)
    # Three records are in both datasets.
    assert merged.ledger == {"images_matched": 13, "records_written": 13}
    assert labels(merged) == {**labels(base), "20": "cat"}


@pytest.mark.parametrize("label", ["7", "tiger"])
def test_a_row_relabels_a_record_and_the_others_keep_their_names(
    base: Dataset, tmp_path: Path, label: str
) -> None:
    (tmp_path / "rows.csv").write_text(f"image,label\ncat/0.jpg,{label}\n")
    made = make_dataset(tmp_path / "made", images=base.folder, labels=tmp_path / "rows.csv")
    assert labels(made) == {**labels(base), "0": label}
    assert made.ledger["rows_used"] == 1


def test_a_damaged_record_is_rejected(base: Dataset, tmp_path: Path) -> None:
    damaged = shutil.copytree(base.folder, tmp_path / "damaged")
    shard = damaged / base.shards("train")[0]
    flip(shard, 200)
    made = make_dataset(tmp_path / "made", images=damaged, max_rejected="50%")
    [line] = made.rejected
    assert line["reason"] == "unreadable"
    assert line["detail"].startswith(f"record 0 of {shard}: the checksum of its bytes is wrong")
    assert made.ledger == {"images_matched": 12, "records_written": 11, "images_rejected": 1}


@pytest.mark.parametrize("edit", ["key me", "path me", "label me", "height 6", "orientation 6"])
def test_what_an_edited_index_says_is_compared_or_found_out_again(
    edit: str, base: Dataset, tmp_path: Path
) -> None:
    column, value = edit.split()
    edited = Dataset(shutil.copytree(base.folder, tmp_path / "edited"))
    edit_index(edited, with_column(column, first(int(value) if value == "6" else value)))
    made = make_dataset(tmp_path / "made", images=edited.folder, num_shards=2, max_rejected="50%")
    details = [each["detail"].partition(" is ")[0] for each in made.rejected]
    assert [each.endswith(f": its {column}") for each in details] == [True][: column[0] != "o"]
    assert details or records(made) == records(base)


def test_duplicates_are_dropped_by_the_hashes_of_records(images: Path, tmp_path: Path) -> None:
    shutil.copy(images / "cat" / "0.jpg", images / "cat" / "copy.jpg")
    base = make_dataset(tmp_path / "base", images=f"{images}/*/*.jpg", resize="shorter=9")
    shutil.rmtree(images)
    made = make_dataset(tmp_path / "made", images=base.folder, dedupe="drop")
    [line] = made.rejected
    assert (line["key"], line["reason"]) == ("cat/copy.jpg", "duplicate_image")
    assert made.ledger["records_written"] == 12


def test_originals_that_look_the_same_when_changed_are_no_duplicates(tmp_path: Path) -> None:
    """They were not dropped when they were files, and are not reported as equal."""
    for level in (1, 9):
        path = tmp_path / "in" / f"{level}.png"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(saved(picture("RGB", 12, 16), "PNG", compress_level=level))
    draw(tmp_path / "more" / "another.jpg", seed=3)
    flags = {"label_from": "none", "color": "gray", "dedupe": "drop"}
    base = make_dataset(tmp_path / "base", images=f"{tmp_path}/in/*.png", **flags)
    again = make_dataset(tmp_path / "again", images=base.folder, **flags)
    assert records(again) == records(base) and base.ledger["records_written"] == 2
    both = [base.folder, f"{tmp_path}/more/*.jpg"]
    made = make_dataset(tmp_path / "both", images=both, **flags)
    assert made.ledger["records_written"] == 3


def refused_folder(kind: str, base: Dataset, folder: Path) -> Path:
    """A folder whose records cannot be images."""
    match kind:
        case "gzip":
            draw(folder / "in" / "1.jpg")
            images = f"{folder}/in/*.jpg"
            make_dataset(folder / kind, images=images, label_from="none", compression="gzip")
        case "newer":
            manifest = shutil.copytree(base.folder, folder / kind) / "manifest.json"
            newer = manifest.read_text().replace('"format_version": ', '"format_version": 9')
            manifest.write_text(newer)
        case "no index":
            shutil.rmtree(shutil.copytree(base.folder, folder / kind) / "index")
    return folder / kind


@cases(
    ("gzip", "its shards are compressed"),
    ("newer", "a newer image-tfrecords wrote it"),
    ("no index", "no index: No such file or directory: '"),
)
def test_other_kinds_of_folders_are_refused(
    kind: str, says: str, base: Dataset, tmp_path: Path
) -> None:
    folder = refused_folder(kind, base, tmp_path)
    check_ended(convert(images=folder, output=tmp_path / "made"), 2, says)
