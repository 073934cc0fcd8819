"""Which mask an image gets: names that end differently, and images that rows list."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pipeline.random_access import Records
from tests.conftest import draw
from tests.pipeline.commands import convert, make_dataset
from tests.pipeline.masked import (
    ENCODED,
    HEIGHT,
    WIDTH,
    by_key,
    flags,
    indices,
    mask,
    reasons,
    write_masked,
)


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    """See `write_masked`."""
    return write_masked(tmp_path / "in")


def named(folder: Path, images: str, masks: str) -> None:
    """Three photos and their masks, in folders of their own, with these names."""
    for number in range(3):
        photo, painted = (folder / name.format(number) for name in (images, masks))
        draw(photo, seed=number)
        painted.parent.mkdir(parents=True, exist_ok=True)
        mask(number, has_palette=False).save(painted)


@pytest.mark.parametrize(
    "images, masks, key",
    [
        # Carvana and Cityscapes, and DAVIS, where stems repeat.
        ("train/{}.jpg", "train_masks/{}_mask.gif", "stem"),
        ("left/x/{}_leftImg8bit.jpg", "gtFine/x/{}_gtFine_labelIds.png", "stem"),
        ("JPEGImages/{}/000.jpg", "Annotations/{}/000.png", "path"),
    ],
)
def test_the_endings_of_globs_are_compared(
    images: str, masks: str, key: str, tmp_path: Path
) -> None:
    named(tmp_path / "in", images, masks)
    globs = {"images": images.format("*"), "masks": masks.format("*")}
    options = {name: f"{tmp_path}/in/{each}" for name, each in globs.items()}
    made = make_dataset(tmp_path / "out", key=key, **options)
    assert made.ledger["partners_matched"] == made.ledger["partners_used"] == 3
    records = Records(made.folder, "all", decode=True)
    for number in range(3):
        photo = Path(images.format(number))
        # The key of a record is that of its image, with its ending.
        record = records[photo.stem if key == "stem" else f"{number}/{photo.name}"]
        with Image.open(tmp_path / "in" / masks.format(number)) as image:
            assert record[ENCODED][:, :, 0].tolist() == np.asarray(image).tolist()


def test_an_extension_in_another_case_is_said(tmp_path: Path) -> None:
    """By stems, its mask is found."""
    named(tmp_path / "in", "photos/{}.jpg", "masks/{}.png")
    (tmp_path / "in/photos/1.jpg").rename(tmp_path / "in/photos/1.JPG")
    options = {"images": f"{tmp_path}/in/photos/*.jpg", "masks": f"{tmp_path}/in/masks/*.png"}
    made = make_dataset(tmp_path / "paths", key="path", max_rejected="100%", **options)
    details = {Path(each["path"]).name: each["detail"] for each in made.rejected}
    assert details["1.JPG"] == (
        "no file of --masks has the key '1.JPG'; the key of its file is '1.jpg', with '.jpg' as in "
        "--images: rename the image"
    )
    assert make_dataset(tmp_path / "stems", key="stem", **options).rejected == []


def test_an_up_to_date_run_notices_which_mask_an_image_gets(tmp_path: Path) -> None:
    for ending in ("old", "new"):
        named(tmp_path / "in", "photos/{}.jpg", f"masks/{{}}_{ending}.png")
    for path in (tmp_path / "in" / "masks").iterdir():
        # Size and version say nothing.
        Image.new("L", (WIDTH, HEIGHT), 1 if "old" in path.name else 2).save(path)
        os.utime(path, ns=(1, 1))
    images, masks = f"{tmp_path}/in/photos/*.jpg", f"{tmp_path}/in/masks/*_{{}}.png"
    options = {"images": images, "output": tmp_path / "out"}
    assert convert(**options, masks=masks.format("old")).code == 0
    assert convert(**options, masks=masks.format("old")).out.startswith("up to date")
    changed = convert(**options, masks=masks.format("new"))
    assert changed.code != 0 and "--overwrite" in changed.error()
    assert convert(**options, masks=masks.format("new"), overwrite=True).code == 0
    for record in Records(tmp_path / "out", "all", decode=True):
        assert np.unique(record[ENCODED]).tolist() == [2]


def test_several_files_for_an_image(inputs: Path, tmp_path: Path) -> None:
    for ending in ("a", "b"):
        mask(1, has_palette=False).save(inputs / "masks" / f"1_{ending}.png")
    given = [f"{inputs}/masks/{name}" for name in ("[0-9].png", "*_a.png", "*_b.png")]
    made = make_dataset(tmp_path / "out", **flags(inputs, masks=given, max_rejected="100%"))
    assert reasons(made) == {"1.jpg": ("image", "several_partners")}
    assert made.rejected[0]["detail"].endswith("have the key '1': '1.png', '1_a.png', '1_b.png'")
    assert (made.ledger["partners_used"], made.ledger["partners_rejected"]) == (3, 3)


def listed(inputs: Path, name: str = "listed.csv") -> Path:
    """A CSV that lists the photos with their labels."""
    photos = sorted((inputs / "photos").glob("*/*.jpg"))
    rows = [f"photos/{path.parent.name}/{path.name},{path.parent.name}" for path in photos]
    (inputs / name).write_text("\n".join(["image_uri,label", *rows]))
    return inputs / name


@pytest.mark.parametrize("workers", [None, pytest.param(2, marks=pytest.mark.slow)])
def test_images_that_rows_list_have_masks(
    workers: int | None, inputs: Path, tmp_path: Path
) -> None:
    for path in (inputs / "masks").iterdir():
        path.rename(path.with_stem(f"{path.stem}_mask"))
    mask(7).save(inputs / "masks" / "alone_mask.png")
    labels = listed(inputs)
    with labels.open("a") as file:
        file.write("\nphotos/a/missing.jpg,a")
    masks = f"{inputs}/masks/*_mask.png"
    made = make_dataset(
        tmp_path / "out", labels=labels, masks=masks, max_rejected="100%", workers=workers
    )
    [key] = [each for each in made.manifest["decided"] if each["what"] == "key"]
    assert (key["value"], key["because"]) == ("stem", "default with --masks")
    assert reasons(made) == {
        "missing.jpg": ("image", "unreadable"),
        "alone_mask.png": ("partner", "partner_without_image"),
    }
    assert {key: each["image/class/text"] for key, each in by_key(made).items()} == {
        "0": b"a",
        "1": b"b",
        "2": b"a",
        "3": b"b",
    }
    for key, record in by_key(made, decode=True).items():
        assert record[ENCODED][:, :, 0].tolist() == indices(int(key)).tolist()
    assert (made.ledger["partners_matched"], made.ledger["partners_used"]) == (5, 4)
