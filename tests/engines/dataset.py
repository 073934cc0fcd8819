"""What every engine converts: 300 images with masks, three splits, twelve shards.

`pack` puts the images into archives, too, which are converted with other flags.
"""

import csv
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.images import indexed, picture, saved
from tests.images.packed import tarred, zipped
from tests.pipeline.commands import arguments

IMAGES = 300
SHARDS = 12
CLASSES = ("cat", "dog", "fox")
HEADER = ("ImageID", "LabelName", "XMin", "XMax", "YMin", "YMax", "Site")

# Each is rejected for one reason, and each reason an engine could lose on its way is there.
REASONS = {
    "bad_box",
    "corrupt_image",
    "duplicate_key",
    "empty_file",
    "malformed_row",
    "mask_size",
    "name_not_utf8",
    "no_group",
    "no_label",
    "no_partner",
    "not_an_image",
    "partner_without_image",
    "row_without_image",
    "several_partners",
    "split_conflict",
    "too_many_bytes",
    "too_many_pixels",
    "unknown_label",
}
REASONS_IN_ARCHIVES = REASONS | {"bad_member"}
MAX_BYTES = 20_000
MAX_PIXELS = 4_000

Row = tuple[object, ...]


class _Odd(NamedTuple):
    """A file to be rejected, and its rows."""

    name: str
    data: bytes
    rows: tuple[Row, ...]


def _box(key: str, label: str, site: object, left: object = 1) -> Row:
    return key, label, left, 9, 2, 8, site


def _odd() -> list[_Odd]:
    fine = saved(picture("RGB", 12, 16, seed=999), "JPEG")
    wide = saved(picture("RGB", 80, 90), "JPEG")
    files = {
        "empty_file": b"",
        "not_an_image": b"The picture has moved.\n",
        "corrupt_image": fine[: len(fine) * 2 // 3],
        "too_many_bytes": fine + bytes(MAX_BYTES),
        "too_many_pixels": wide,
    }
    odd = [_Odd(f"{key}.jpg", data, (_box(key, "cat", 1),)) for key, data in files.items()]
    keys = ["mask_size", "no_partner", "several_partners"]
    rows = {
        **{key: [_box(key, "cat", 1)] for key in keys},
        "bad_box": [_box("bad_box", "cat", 1, left=99)],
        "no_group": [_box("no_group", "cat", "")],
        "no_label": [],
        "split_conflict": [_box("split_conflict", "cat", 1), _box("split_conflict", "cat", 2)],
        "unknown_label": [_box("unknown_label", "cow", 1)],
    }
    odd += [_Odd(f"{key}.jpg", fine, tuple(its)) for key, its in rows.items()]
    odd.append(_Odd("twin.jpg", fine, (_box("twin", "cat", 1),)))
    odd.append(_Odd("twin.png", saved(picture("RGB", 12, 16), "PNG"), ()))
    odd.append(_Odd(os.fsdecode(b"latin-\xe9.jpg"), fine, ()))
    return odd


def make_inputs(folder: Path, *, images: int = IMAGES) -> Path:
    """Draws `photos/*`, `masks/*`, `boxes.csv` and `classes.txt`: the same bytes on every run.

    Args:
        folder: where they go.
        images: all of them, with those that are rejected.
    """
    odd = _odd()
    photos = folder / "photos"
    photos.mkdir(parents=True)
    rows: list[Row] = [("absent", "cat", 1, 9, 2, 8, 1), ("", "cat", 1, 9, 2, 8, 1)]
    for file in odd:
        (photos / file.name).write_bytes(file.data)
        rows += file.rows
    heights = {Path(file.name).stem: 12 for file in odd if file.name.isascii()}
    for number in range(images - len(odd)):
        key, label = f"photo-{number:05}", CLASSES[number % len(CLASSES)]
        kind, suffix = ("PNG", "png") if number % 10 == 0 else ("JPEG", "jpg")
        heights[key] = 12 + number % 7
        data = saved(picture("RGB", heights[key], 16, seed=number), kind)
        (photos / f"{key}.{suffix}").write_bytes(data)
        rows += [_box(key, label, number // 2, left) for left in range(number % 3 + 1)]
    _write_masks(folder / "masks", heights)
    with (folder / "boxes.csv").open("w", newline="") as file:
        csv.writer(file).writerows([HEADER, *rows])
    (folder / "classes.txt").write_text("\n".join(CLASSES))
    return folder


def _write_masks(folder: Path, heights: Mapping[str, int]) -> None:
    """Draws a mask of each image, every other one with a palette, and those that fit none."""
    folder.mkdir()
    wrong = {"mask_size": 99, "partner_without_image": 12}
    for seed, (key, height) in enumerate({**heights, **wrong}.items()):
        drawn = picture("L", height, 16, seed=seed)
        suffixes = {"no_partner": [], "several_partners": ["png", "PNG"]}.get(key, ["png"])
        for suffix in suffixes:
            data = saved(indexed(drawn) if seed % 2 else drawn, "PNG")
            (folder / f"{key}_mask.{suffix}").write_bytes(data)


def pack(inputs: Path) -> Path:
    """Copies the images into `photos.zip` and `photos.tar`, which has one file more."""
    in_zip: dict[str, bytes] = {}
    in_tar = {"../out.jpg": b"Its name leads out of the archive.\n"}
    for number, path in enumerate(sorted((inputs / "photos").iterdir())):
        # Names in a zip are text.
        files = in_zip if number % 3 and path.name.isascii() else in_tar
        files[path.name] = path.read_bytes()
    (inputs / "photos.zip").write_bytes(zipped(in_zip))
    (inputs / "photos.tar").write_bytes(tarred(in_tar))
    return inputs


def packed(inputs: Path, names: str) -> list[str]:
    """Globs of images with these names in the archives of `pack`."""
    return [f"{inputs / archive}!/{names}" for archive in ("photos.zip", "photos.tar")]


def damage(inputs: Path) -> int:
    """Overwrites the JPEGs `photo-*` in the archives, and their masks with the former time.

    Sizes and times stay, so that nobody finds out who opens none of them.

    Returns:
        the number of these JPEGs.
    """
    photos = [path.read_bytes() for path in (inputs / "photos").glob("photo-*.jpg")]
    for archive in (inputs / "photos.zip", inputs / "photos.tar"):
        data = archive.read_bytes()
        for photo in photos:
            data = data.replace(photo, bytes(len(photo)))
        _overwrite(archive, data)
    # Others are masks of PNGs.
    for mask in inputs.glob("masks/photo-*[235689]_mask.png"):
        _overwrite(mask, bytes(mask.stat().st_size))
    return len(photos)


def _overwrite(path: Path, data: bytes) -> None:
    listed = path.stat()
    path.write_bytes(data)
    os.utime(path, ns=(listed.st_atime_ns, listed.st_mtime_ns))


def flags(inputs: Path, output: Path) -> list[str]:
    """The words of `convert` that every engine gets, for images in a folder or in archives."""
    options: dict[str, Any] = {"images": inputs / "photos" / "*"}
    if (inputs / "photos.zip").exists():
        options = {"images": packed(inputs, "*"), "stratify": "label", "shard_by": "records"}
    return arguments(
        **options,
        layout="detection",
        boxes="units=pixel",
        group_by="Site",
        masks=inputs / "masks" / "*_mask.png",
        labels=inputs / "boxes.csv",
        class_names=inputs / "classes.txt",
        splits="train=0.6,validation=0.2,test=0.2",
        num_shards=SHARDS // 3,
        max_bytes=MAX_BYTES,
        max_pixels=MAX_PIXELS,
        max_rejected="50%",
        # The hashes of shards come from all workers.
        name="engines",
        output=output,
    )
