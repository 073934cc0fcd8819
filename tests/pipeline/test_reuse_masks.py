"""`--reuse` of images with masks and further images, and what their index says."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

import pipeline.diff
from tests.conftest import draw
from tests.heic_images import heic
from tests.images import picture, saved
from tests.marks import rest_slow
from tests.pipeline.commands import (
    Dataset,
    check_sound,
    convert,
    digests,
    make_dataset,
    plan,
    run_here,
    verify,
)
from tests.pipeline.paired import (
    COUNT,
    HEIGHT,
    WIDTH,
    draw_mask,
    flags_of,
    new_pair,
    with_layout,
    write_pairs,
)
from tests.pipeline.reusing import check_same
from transforms.core.messages import format_bytes
from transforms.dataset.manifest import crc32c_hex, to_bytes
from transforms.examples.tfrecord import masked_crc32c
from transforms.records.record_index import HEAD_BYTES, PARTNERS, index_bytes, read_index

# `--reuse` of images with masks and further images: unchanged ones come from the record, too.


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    """See `write_pairs`."""
    return write_pairs(tmp_path / "in")


CHANGES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "labels": {"label_from": "regex", "label_regex": r"(?P<label>\d)\.jpg"},
    "splits": {"splits": "a=0.5,b=0.5", "num_shards": 2},
    "seed and shards": {"seed": 7, "num_shards": 2},
    "layout": {"layout": "tutorial"},
    "gzip": {"compression": "gzip"},
    "per_image": {"files": "per_image", "num_shards": None},
    "no hashes": {"dedupe": "off"},
    # In processes of their own, where nothing counts what is opened.
    "workers": {"workers": 2, "seed": 7},
}


@pytest.mark.parametrize("name", rest_slow(list(CHANGES)))
def test_no_image_and_no_mask_is_opened(
    name: str, inputs: Path, tmp_path: Path, opened: list[str]
) -> None:
    base = make_dataset(tmp_path / "base", **flags_of(inputs)).folder
    flags = flags_of(inputs, **CHANGES[name])
    fresh = make_dataset(tmp_path / "one" / "out", **flags)
    opened.clear()
    ran = convert(output=tmp_path / "two" / "out", reuse=base, **flags)
    assert (ran.code, opened) == (0, []), ran.err
    assert f"reused   {COUNT} images from their records (--reuse)" in ran.out
    assert digests(tmp_path / "two" / "out") == digests(fresh.folder)


def other_folder(inputs: Path) -> None:
    """Files of the same names, sizes and times."""
    shutil.copytree(inputs / "masks", inputs / "kept")
    for path in (inputs / "kept").iterdir():
        draw_mask(inputs / "masks" / path.name, seed=50 + int(path.stem))
        shutil.copystat(path, inputs / "masks" / path.name)
    (inputs / "masks").rename(inputs / "others")
    (inputs / "kept").rename(inputs / "masks")


MASKS = [f"{number}.png" for number in range(COUNT)]
# The change, the globs after it, the files that are opened, and the images that are reused.
EDITS: dict[str, tuple[Callable[[Path], object], dict[str, list[str] | None], list[str], int]] = {
    "mask changed": (lambda at: draw_mask(at / "masks/1.png", seed=91), {}, ["1.png"], 8),
    "mask touched": (lambda at: os.utime(at / "masks/1.png", ns=(1, 1)), {}, ["1.png"], 8),
    "mask gone": (lambda at: (at / "masks/1.png").unlink(), {}, [], 7),
    "mask damaged": (lambda at: (at / "masks/1.png").write_bytes(b"no"), {}, ["1.png"], 7),
    "image changed": (
        lambda at: draw(at / "photos/b/1.jpg", seed=91),
        {},
        ["1.jpg", "1.png"],
        7,
    ),
    "image gone": (lambda at: (at / "photos/b/1.jpg").unlink(), {}, [], 7),
    "both new": (new_pair, {}, ["new.jpg", "new.png"], 8),
    "no masks": (lambda _: None, {"masks": None}, [], 8),
    "another root": (lambda _: None, {"masks": ["masks/*.png", "none/*.png"]}, [], 8),
    "another folder": (other_folder, {"masks": ["others/*.png"]}, MASKS, 8),
}


@pytest.mark.parametrize("name", rest_slow(list(EDITS)))
def test_only_what_has_changed_is_opened(
    name: str, inputs: Path, tmp_path: Path, opened: list[str]
) -> None:
    draw_mask(inputs / "none" / "far.png", seed=3)
    base = make_dataset(tmp_path / "base", **flags_of(inputs)).folder
    change, more, read, reused = EDITS[name]
    change(inputs)
    flags = flags_of(inputs)
    flags |= {
        flag: globs and [f"{inputs}/{each}" for each in globs] for flag, globs in more.items()
    }
    opened.clear()
    ran = convert(output=tmp_path / "once" / "out", reuse=base, **flags)
    assert (ran.code, sorted(opened)) == (0, read), ran.err
    assert f"reused   {reused} images" in ran.out
    for options in (flags, {**flags, "seed": 4, "num_shards": 2}):
        check_same(base, tmp_path, **options)


def test_masks_are_added_to_reused_images(inputs: Path, tmp_path: Path, opened: list[str]) -> None:
    base = make_dataset(tmp_path / "base", **flags_of(inputs, masks=None)).folder
    opened.clear()
    ran = convert(output=tmp_path / "out", reuse=base, **flags_of(inputs))
    assert (ran.code, sorted(opened)) == (0, MASKS), ran.err
    assert f"reused   {COUNT} images" in ran.out
    check_same(base, tmp_path, **flags_of(inputs))


@pytest.mark.slow
def test_rows_may_list_the_images(inputs: Path, tmp_path: Path, opened: list[str]) -> None:
    paths = [path.relative_to(inputs) for path in sorted(inputs.glob("photos/*/*"))]
    rows = "".join(f"{path},{path.parent.name}\n" for path in paths)
    (inputs / "list.csv").write_text(f"image_uri,label\n{rows}")
    flags = flags_of(inputs, images=None, label_from=None, labels=inputs / "list.csv")
    base = make_dataset(tmp_path / "base", **flags).folder
    draw_mask(inputs / "masks" / "1.png", seed=91)
    opened.clear()
    ran = convert(output=tmp_path / "out", reuse=base, **flags)
    assert (ran.code, opened) == (0, ["1.png"]), ran.err
    assert f"reused   {COUNT} images" in check_same(base, tmp_path, **flags).out


def turned(path: Path) -> None:
    tags = Image.Exif()
    tags[0x0112] = 6
    tags.get_ifd(0x8825).update({1: "N", 2: (59.0, 19.0, 45.0), 3: "E", 4: (18.0, 4.0, 7.0)})
    path.write_bytes(saved(picture("RGB", WIDTH, HEIGHT), "JPEG", exif=tags))


PIXELS = "pixels: image.pixels, h: image.height, w: image.width, c: image.channels"
OPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "as they are": ("image: image.bytes", {}),
    "resized": ("image: image.bytes", {"resize": "8x6", "exif_orientation": "apply"}),
    "pixels": (PIXELS, {"exif_orientation": "apply"}),
    "pixels as stored": (PIXELS, {"label_from": "none"}),
    "stripped": ("image: image.bytes", {"strip_metadata": True}),
    "both": (f"image: image.bytes, {PIXELS}", {}),
}


@pytest.mark.parametrize("name", rest_slow(list(OPTIONS)))
def test_further_images_and_all_that_is_counted_of_them(
    name: str, inputs: Path, tmp_path: Path, opened: list[str]
) -> None:
    turned(inputs / "right" / "2.jpg")
    turned(inputs / "photos" / "b" / "3.jpg")
    features, more = OPTIONS[name]
    flags = {**with_layout(inputs, features), **more}
    base = make_dataset(tmp_path / "base", **flags).folder
    opened.clear()
    for number, options in enumerate((flags, {**flags, "seed": 5})):
        ran = convert(output=tmp_path / f"{number}", reuse=base, **options)
        assert (ran.code, opened) == (0, []), ran.err
    for options in (flags, {**flags, "seed": 5}):
        assert f"reused   {COUNT} images" in check_same(base, tmp_path, **options).out
    check_sound(tmp_path / "reused" / "out")


@pytest.mark.slow
def test_a_heic_among_further_images_is_counted(
    inputs: Path, tmp_path: Path, opened: list[str]
) -> None:
    flags = {**with_layout(inputs), "transcode": "auto"}
    (inputs / "right" / "1.jpg").write_bytes(heic(picture("RGB", HEIGHT, WIDTH)))
    base = make_dataset(tmp_path / "base", **flags).folder
    opened.clear()
    for seed in (0, 5):
        again = convert(output=tmp_path / f"{seed}", reuse=base, **{**flags, "seed": seed})
        assert (again.code, opened) == (0, []), again.err
        assert Dataset(tmp_path / f"{seed}").manifest["pixels"]["from_heic"] == 1
    for seed in (0, 5):
        check_same(base, tmp_path, **{**flags, "seed": seed})


@pytest.mark.slow
def test_masks_that_became_too_large_are_rejected(inputs: Path, tmp_path: Path) -> None:
    large = inputs / "masks" / "1.png"
    text = PngInfo()
    text.add_text("note", "x" * 5000)
    large.write_bytes(saved(Image.open(large), "PNG", pnginfo=text))
    flags = flags_of(inputs)
    base = make_dataset(tmp_path / "base", **flags).folder
    smaller = {**flags, "max_bytes": 4000}
    assert max(path.stat().st_size for path in inputs.glob("photos/*/*")) < 4000
    assert f"reused   {COUNT - 1} images" in check_same(base, tmp_path, **smaller).out


@pytest.mark.slow
def test_the_base_whose_records_hold_the_image_is_used(
    inputs: Path, tmp_path: Path, opened: list[str]
) -> None:
    """The other one can only be copied shard by shard."""
    layout = inputs / "names.yaml"
    layout.write_text("features: {path: image.path, height: image.height}\n")
    flags = flags_of(inputs, masks=None, layout=layout, label_from="none", num_shards=1)
    names = make_dataset(tmp_path / "names", **flags).folder
    files = make_dataset(tmp_path / "files", **{**flags, "layout": None}).folder
    draw(inputs / "photos" / "a" / "new.jpg", seed=99)
    opened.clear()
    ran = convert(output=tmp_path / "out", reuse=[names, files], **flags)
    assert (ran.code, opened) == (0, ["new.jpg"]), ran.err
    check_same([names, files], tmp_path, **flags)


# What the index says of masks and further images: for `--reuse`, `plan`, `diff` and `verify`.


def edited(base: Dataset, change: Callable[[Any], Any]) -> None:
    """Changes all indexes, and the manifest as if they had been written so."""
    manifest = base.manifest
    for entry in manifest["index"]:
        path = base.folder / entry["file"]
        data = index_bytes(change(read_index(path.read_bytes(), "x")))
        path.write_bytes(data)
        entry |= {"bytes": len(data), "crc32c": crc32c_hex(data)}
    manifest.pop("digest")
    (base.folder / "manifest.json").write_bytes(to_bytes(manifest))


def with_partners(table: Any, **values: Any) -> Any:
    """An index with other values of all masks."""
    import pyarrow as pa

    at, field = table.schema.get_field_index(PARTNERS), table.schema.field(PARTNERS)
    column = [[{**each, **values} for each in row] for row in table.column(PARTNERS).to_pylist()]
    return table.set_column(at, field, pa.array(column, field.type))


DAMAGES: dict[str, tuple[int, bool]] = {
    # The files that are opened of 16, and whether a line says so.
    "other bytes": (2, True),
    "no column": (COUNT, False),
    "no roots": (COUNT, False),
    "no path": (COUNT, False),
    "no entry": (COUNT, False),
    "no version": (COUNT, False),
    "other content": (2 * COUNT, True),
    "other length": (0, False),
}


@pytest.mark.parametrize("damage", rest_slow(list(DAMAGES)))
def test_a_damaged_base_gives_the_same_bytes(
    damage: str,
    inputs: Path,
    tmp_path: Path,
    opened: list[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    flags = flags_of(inputs)
    base = make_dataset(tmp_path / "base", **flags)
    match damage:
        case "other bytes":
            # A sound record of the same length, with another pixel: only the hash tells.
            name = next(name for name in base.shards() if (base.folder / name).stat().st_size)
            data = bytearray((base.folder / name).read_bytes())
            end = HEAD_BYTES + int.from_bytes(data[:8], "little")
            data[data.rindex(b"IDAT", 0, end) + 20] ^= 1
            data[end : end + 4] = masked_crc32c(bytes(data[HEAD_BYTES:end])).to_bytes(4, "little")
            (base.folder / name).write_bytes(data)
        case "no column":
            # As of a version that did not write it.
            edited(base, lambda table: table.drop_columns([PARTNERS]))
        case "no roots":
            manifest = base.manifest
            del manifest["partners"], manifest["digest"]
            (base.folder / "manifest.json").write_bytes(to_bytes(manifest))
        case "no path":
            edited(base, lambda table: with_partners(table, path=None))
        case "no entry":
            edited(base, lambda table: with_partners(table, name="masks.other"))
        case "no version":
            edited(base, lambda table: with_partners(table, version=0))
        case "other content":
            edited(base, lambda table: with_partners(table, content=bytes(16)))
        case "other length":
            edited(base, lambda table: with_partners(table, length=2**60))
    others = {**flags, "seed": 4}
    fresh = make_dataset(tmp_path / "fresh" / "out", **others)
    opened.clear()
    ran = convert(output=tmp_path / "reused" / "out", reuse=base.folder, **others)
    assert ran.code == 0, ran.err
    assert digests(tmp_path / "reused" / "out") == digests(fresh.folder)
    count, is_said = DAMAGES[damage]
    assert len(opened) == count
    assert bool(caplog.messages) == is_said
    for line in caplog.messages:
        assert line.startswith("originals are read instead of some records of ")
        assert line.endswith("a mask or further image is not that of the index")
    # Shards that may be copied whole, if the hashes in their index are right.
    if damage != "other content":
        check_same(base.folder, tmp_path, **flags)


def test_plan_and_diff_count_masks(inputs: Path, tmp_path: Path) -> None:
    flags = flags_of(inputs)
    base = make_dataset(tmp_path / "base", **flags).folder
    draw_mask(inputs / "masks" / "1.png", seed=91)
    draw(inputs / "photos" / "a" / "2.jpg", seed=92)
    new_pair(inputs)
    files = ["masks/1.png", "photos/a/2.jpg", "masks/2.png", "photos/a/new.jpg", "masks/new.png"]
    size = sum((inputs / name).stat().st_size for name in files)
    lines = plan(output=tmp_path / "out", reuse=base, **flags).out.splitlines()
    assert f"reused   {COUNT - 1} images from their records (--reuse)" in lines
    assert f"read     5 originals, {format_bytes(size)}" in lines
    [requests] = [line for line in lines if line.startswith("requests ")]
    assert " 5 for originals, " in requests
    assert "  pixels      1 to be read again: '2'" in lines
    again = "  partners    2 with a mask or further image to be read again: '1', '2'"
    assert again in lines
    made = make_dataset(tmp_path / "out", reuse=base, **flags)
    found = run_here(pipeline.diff.main, "diff", [str(base), str(made.folder)])
    # The mask of the second one is the same.
    assert "partners    1 with another mask or further image: '1'" in found.out.splitlines()
    assert found.out.endswith(": 1 added, 1 pixels, 1 originals, 1 partners\n")
    found = run_here(pipeline.diff.main, "diff", ["--json", str(base), str(made.folder)])
    assert '{"change": "partners", "key": "1"}' in found.out.splitlines()
    same = plan(output=tmp_path / "again", reuse=made.folder, **flags).out.splitlines()
    assert any("0 for originals, 0 for records" in line for line in same)
    assert "  partners    0 with a mask or further image to be read again" in same


def test_verify_compares_masks_with_the_index(inputs: Path, tmp_path: Path) -> None:
    made = make_dataset(tmp_path / "out", **{**with_layout(inputs), "num_shards": 1})
    check_sound(made.folder)
    edited(made, lambda table: with_partners(table, content=bytes(16), path="x"))
    ran = verify(made.folder)
    assert ran.code == 1
    for problem in ("its images.right.path is '", "its images.right.bytes is '"):
        assert f"record 0: {problem}" in ran.out
    assert "its masks.hand.bytes is '" in ran.out


def test_another_dataset_of_these_masks_says_so(inputs: Path, tmp_path: Path) -> None:
    made = make_dataset(tmp_path / "out", **flags_of(inputs))
    assert made.manifest["partners"] == {"mask": f"{inputs}/masks"}
    assert "up to date" in convert(output=made.folder, **flags_of(inputs)).out
    draw_mask(inputs / "masks" / "1.png", seed=91)
    ran = convert(output=made.folder, **flags_of(inputs))
    assert "of other inputs (images, masks or labels were added" in ran.error()
