"""What the golden conversions read: small images, CSV files, layouts and models, drawn by code.

All files get the same modification time, which is a part of the recipes of shards.
"""

import gzip
import json
import os
import re
import zipfile
from pathlib import Path
from typing import Any

from tests.conftest import CLASSES, draw
from tests.images import indexed, picture, saved, whole_images
from tests.images.packed import tarred, zipped
from tests.models import KERAS, saved_to

MODIFIED = 1_700_000_000
"""Seconds since 1970."""

_WHOLE = (
    "jpeg jpeg_420 jpeg_grey_progressive jpeg_cmyk jpeg_exif jpeg_restart png_0_1 png_0_16 "
    "png_2_16 png_3_8_trns png_4_8 png_6_8_adam7 apng gif_animated gif_interlaced bmp_24 bmp_rle8 "
    "webp_RGB webp_lossless_RGBA jxl_rgb tiff"
)
_DAMAGED = (
    "png_zlib_bad_adler png_zlib_row_missing png_zlib_filter_255_last png_too_wide gif_no_frame "
    "bmp_short webp_canvas_only ico text zeros"
)

_STEMS = [f"{name}-{number}" for name in CLASSES for number in range(4)]
# Folder and seed: two pairs that are equal, and one of them has an equal image of another label.
_EQUAL = [("cat", 1), ("cat", 1), ("dog", 2), ("dog", 1), ("dog", 2), ("fox", 3)]
_BOXES = [(0, 0, 8, 6), (4, 2, 12, 10), (1, 1, 16, 12)]


def write_inputs(folder: Path) -> None:
    """Writes all inputs."""
    _write_images(folder)
    for name, lines in _tables().items():
        (folder / name).parent.mkdir(exist_ok=True)
        encoding = "cp949" if name == "korean.csv" else "utf-8"
        (folder / name).write_text("\n".join(lines) + "\n", encoding)
    packed = gzip.compress((folder / "labels.csv").read_bytes(), mtime=0)
    _write(folder / "packed.csv.gz", packed)
    for size in (2, 4):
        _write_model(folder / f"pool{size}.keras", size)
    for path in folder.rglob("*"):
        if path.is_file():
            os.utime(path, (MODIFIED, MODIFIED))


def _write_images(folder: Path) -> None:
    for seed, stem in enumerate(_STEMS):
        draw(folder / "photos" / stem[:3] / f"{stem}.jpg", seed=seed)
        drawn = picture("L", 12, 16, seed=seed)
        if seed % 2:
            drawn = indexed(drawn)
        _write(folder / "masks" / f"{stem}.png", saved(drawn, "PNG"))
    whole = whole_images()
    for kind, names in (("kinds", _WHOLE), ("damaged", _DAMAGED)):
        for at, name in enumerate(names.split()):
            _write(folder / kind / CLASSES[at % 3] / f"{name}.img", whole[name])
    _write(folder / "damaged" / "cat" / "empty.img", b"")
    _write(folder / "damaged" / "fox" / "cut.img", whole["jpeg"][:700])
    for number in range(3):
        draw(folder / "damaged" / "dog" / f"dog-{number}.img", seed=20 + number)
    for number, (name, seed) in enumerate(_EQUAL):
        draw(folder / "equal" / name / f"{name}-{number}.jpg", seed=30 + seed)
    # In archives: not compressed, so that no library decides their bytes.
    photos = [
        (stem, (folder / "photos" / stem[:3] / f"{stem}.jpg").read_bytes()) for stem in _STEMS
    ]
    packed = {f"{stem[:3]}/{stem}.jpg": data for stem, data in photos}
    _write(folder / "packed" / "photos.zip", zipped(packed))
    samples = {f"{stem}.jpg": data for stem, data in photos}
    classes = {f"{stem}.cls": stem[:3].encode() for stem in _STEMS}
    _write(folder / "packed" / "samples.tar", tarred({**samples, **classes}))
    for seed in range(3):
        large = saved(picture("RGB", 520, 520, seed=seed), "PNG", compress_level=0)
        _write(folder / "large" / f"{seed}.png", large)


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def _tables() -> dict[str, list[str]]:
    """The lines of every text file by its name."""
    rows = list(enumerate(_STEMS))
    labelled = [(stem, stem[:3]) for _, stem in rows]
    return {
        # The last rows: one without an image, one that is too short, one that repeats another.
        "labels.csv": [
            "id,label,other,kind",
            *(
                f"{stem},{name},{_STEMS[-at - 1]},{'ab'[at % 2]}"
                for at, (stem, name) in enumerate(labelled[:-1])
            ),
            "gone,cat,,a",
            "short",
            "cat-0,cat,fox-3,a",
        ],
        "places.csv": [
            "id;label;who;set;fold",
            *(
                f"{stem};{name};{stem[-1]};{['train', 'TEST', 'dev'][at % 3]};{'ab'[at % 2]}"
                for at, (stem, name) in enumerate(labelled)
            ),
        ],
        "numbers.csv": [
            "id\tlabel",
            *(f"{stem}\t{[7, 100000, 10, 3][at % 4]}" for at, (stem, _) in enumerate(labelled)),
        ],
        "names.csv": ["id,label", *(f"{stem}.jpg,{name}" for stem, name in labelled)],
        # Commas and semicolons give other keys and labels.
        "separators.csv": [
            "id,label;image",
            *(f"{stem},{'ab'[at % 2]};{stem}" for at, stem in rows),
        ],
        # The first rows have another folder before their keys, the last ones have none.
        "moved.csv": [
            "id,label",
            *(f"/old/{name}/{stem}.jpg,{name}" for stem, name in (labelled * 20)[:20]),
            *(f"{name}/{stem}.jpg,{name}" for stem, name in labelled[:3]),
        ],
        "korean.csv": ["id,label", *(f"{stem},{'고양이 개'.split()[at % 2]}" for at, stem in rows)],
        "automl.csv": [
            *(
                f"{['TRAIN', 'TEST', 'VALIDATION', ''][at % 4]},photos/{name}/{stem}.jpg,{name}"
                for at, (stem, name) in enumerate(labelled)
            )
        ],
        "rows/listed.csv": [
            "image_uri,label",
            *(f"../photos/{name}/{stem}.jpg,{name}" for stem, name in labelled[:5]),
            "/nowhere/1.jpg,cat",
        ],
        "classes.txt": ["fox", "dog", "cat", "wolf"],
        "foxes.txt": ["wolf", "fox"],
        "keys.txt": ["fox-1", "absent"],
        "boxes.csv": [
            "id,label,xmin,ymin,xmax,ymax,a,b,c,d,is_crowd",
            *(_row_of_box(stem, each) for at, stem in rows for each in range(at, at + 1 + at % 3)),
        ],
        "instances.json": [json.dumps(_coco())],
        "segmented.json": [json.dumps(_segmented())],
        **{f"voc/{stem}.xml": _voc(stem, at % 3) for at, stem in rows},
        **{
            # The last image has no file.
            f"yolo/{stem}.txt": ["0 0.5 0.5 0.5 0.25", "2 0.25 0.25 0.5 0.5"][: at % 3]
            for at, stem in rows[:-1]
        },
        "turned.csv": ["id,label,xmin,ymin,xmax,ymax", "jpeg_exif,cat,0,0,0.25,1"],
        "many.csv": [
            "id,label,age,weight,tags,note",
            *(
                f"{stem},{name}|{'xyz'[at % 3]},{at if at % 4 else ''},{at / 4},"
                f"{';'.join('abc'[: at % 4])},{at}"
                for at, (stem, name) in enumerate(labelled)
            ),
        ],
        "many.yaml": [
            "features:",
            "  image: image.bytes",
            "  format: image.format",
            "  path: image.path",
            "  key: image.key",
            "  sha: image.sha256",
            "  height: image.height",
            "  width: image.width",
            "  channels: image.channels",
            "  classes: label.ids",
            "  names: label.texts",
            "  age: {source: csv.age, type: int64, default: -1}",
            "  weight: csv.weight",
            '  tags: {source: csv.tags, type: bytes, separator: ";"}',
            "  note: {source: csv.note, list: true}",
        ],
        "pixels.yaml": ["features: {pixels: image.pixels, label: label.id, text: label.text}"],
        "objects.yaml": [
            "features: {image: image.bytes, ids: object.ids, texts: object.texts, "
            "left: box.xmin, crowd: object.is_crowd}"
        ],
        "table.csv": [
            "id,smoker,age,city,weight,set",
            *(
                f"p{at},{at % 2 == 0},{at if at != 7 else ''},{['한강', 'Oslo', 'Lima'][at % 3]},"
                f"{at / 8},{'fit' if at % 3 else 'hold'}"
                for at in range(20)
            ),
            "p20,True",
        ],
        "table.yaml": [
            "features:",
            "  smoker: {source: csv.smoker, type: bool}",
            "  age: {source: csv.age, type: uint32, default: 0}",
            "  home: {source: csv.city, type: text}",
            "  weight: {source: csv.weight, type: double}",
        ],
    }


def _coco() -> dict[str, Any]:
    """Two boxes of each third image, one of each other third; class ids have gaps."""
    return {
        "images": [{"id": at, "file_name": f"{stem}.jpg"} for at, stem in enumerate(_STEMS)],
        "annotations": [
            {
                "image_id": at,
                "category_id": [3, 7, 11][(at + number) % 3],
                "bbox": [number, 2, 8 + number / 4, 6],
                "area": 40 + number,
                "iscrowd": number,
            }
            for number in range(2)
            for at in range(len(_STEMS))
            if at % 3 > number
        ],
        "categories": [
            {"id": number, "name": name} for number, name in zip((7, 3, 11), CLASSES, strict=True)
        ],
    }


def _segmented() -> dict[str, Any]:
    """The same with polygons, run lengths of both kinds, and objects without a segmentation."""
    content = _coco()
    kinds = [
        [[0.5, 1, 9.25, 2, 4, 10.75], [10, 3, 15, 3, 15, 9]],
        {"size": [12, 16], "counts": [30, 6, 6, 6, 144]},
        {"size": [12, 16], "counts": "n0660Z4"},
        [],
    ]
    for at, annotation in enumerate(content["annotations"]):
        annotation["segmentation"] = kinds[at % len(kinds)]
    return content


def _voc(stem: str, objects: int) -> list[str]:
    """The lines of an XML file with so many objects."""
    lines = ["<annotation>", f"<filename>{stem}.jpg</filename>"]
    for name, box in list(zip(CLASSES, _BOXES, strict=True))[:objects]:
        sides = zip(("xmin", "ymin", "xmax", "ymax"), box, strict=True)
        lines += [
            f"<object><name>{name}</name><pose>Left</pose><truncated>{objects % 2}</truncated>",
            "<bndbox>",
            *(f"<{side}>{value}</{side}>" for side, value in sides),
            "</bndbox></object>",
        ]
    return [*lines, "</annotation>"]


def _row_of_box(stem: str, number: int) -> str:
    sides = ",".join(map(str, _BOXES[number % 3]))
    return f"{stem},{CLASSES[number % 3]},{sides},.5,.5,1,1,{number % 2}"


def _write_model(path: Path, size: int) -> None:
    """A model whose output is exact on any processor, in a file that does not hold the time."""
    layers = KERAS.layers
    model = KERAS.Sequential(
        [KERAS.Input((8, 8, 3), name="pixels"), layers.MaxPooling2D(size, name="pool")],
        name="golden",
    )
    saved_to(path, model.save)
    with zipfile.ZipFile(path) as file:
        parts = {name: file.read(name) for name in sorted(file.namelist())}
    # The time, and an address in memory.
    del parts["metadata.json"]
    parts["config.json"] = re.sub(
        rb'"shared_object_id": \d+', b'"shared_object_id": 1', parts["config.json"]
    )
    with zipfile.ZipFile(path, "w") as file:
        for name, data in parts.items():
            file.writestr(zipfile.ZipInfo(name), data)
