"""The one dataset that every engine converts: 300 images, three splits, twelve shards."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import NamedTuple

from tests.images import picture, saved
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
    "name_not_utf8",
    "no_group",
    "no_label",
    "not_an_image",
    "row_without_image",
    "split_conflict",
    "too_many_bytes",
    "too_many_pixels",
    "unknown_label",
}
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
    rows = {
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
    """Draws `photos/*`, `boxes.csv` and `classes.txt`: the same bytes on every run.

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
    for number in range(images - len(odd)):
        key, label = f"photo-{number:05}", CLASSES[number % len(CLASSES)]
        kind, suffix = ("PNG", "png") if number % 10 == 0 else ("JPEG", "jpg")
        data = saved(picture("RGB", 12 + number % 7, 16, seed=number), kind)
        (photos / f"{key}.{suffix}").write_bytes(data)
        rows += [_box(key, label, number // 2, left) for left in range(number % 3 + 1)]
    with (folder / "boxes.csv").open("w", newline="") as file:
        csv.writer(file).writerows([HEADER, *rows])
    (folder / "classes.txt").write_text("\n".join(CLASSES))
    return folder


def flags(inputs: Path, output: Path) -> list[str]:
    """The words of `convert` that every engine gets."""
    return arguments(
        images=inputs / "photos" / "*",
        labels=inputs / "boxes.csv",
        class_names=inputs / "classes.txt",
        layout="detection",
        box_units="pixel",
        splits="train=0.6,validation=0.2,test=0.2",
        num_shards=SHARDS // 3,
        group_by="Site",
        max_bytes=MAX_BYTES,
        max_pixels=MAX_PIXELS,
        max_rejected="50%",
        # The hashes of shards come from all workers.
        name="engines",
        output=output,
    )
