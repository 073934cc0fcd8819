"""`--reuse` of images with masks and further images, and what their index says of them."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.conftest import draw
from tests.heic_images import heic
from tests.images import picture, saved
from tests.pipeline.commands import (
    Dataset,
    check_ended,
    check_sound,
    make_dataset,
    plan,
    run,
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
from tests.pipeline.reusing import check_equal, edit_index, edit_record, with_column, write_manifest
from transforms.core.messages import format_bytes
from transforms.records.record_index import PARTNERS

pytestmark = pytest.mark.slow

ALL = f"reused   {COUNT} images from their records (--reuse)"


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    """See `write_pairs`."""
    return write_pairs(tmp_path / "in")


@pytest.fixture
def base(inputs: Path, tmp_path: Path) -> Dataset:
    """Their dataset."""
    return make_dataset(tmp_path / "base", **flags_of(inputs))


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, which tests leave as they are."""
    return write_pairs(tmp_path_factory.mktemp("pairs") / "in")


@pytest.fixture(scope="module")
def whole(pairs: Path) -> Dataset:
    """Their dataset, which tests leave as it is."""
    return make_dataset(pairs.with_name("whole"), **flags_of(pairs))


@pytest.fixture(scope="module")
def shuffled(pairs: Path) -> Dataset:
    """The same in another order, of which no shard is one of `whole`."""
    return make_dataset(pairs.with_name("shuffled"), seed=4, **flags_of(pairs))


CHANGES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "labels": {"label_from": r"regex:(?P<label>\d)\.jpg"},
    "splits": {"splits": "a=0.5,b=0.5", "num_shards": 2},
    "seed and shards": {"seed": 7, "num_shards": 2},
    "layout": {"layout": "tutorial"},
    "key": {"key": "name", "masks": None},
    "gzip": {"compression": "gzip"},
    "per_image": {"files": "per_image", "num_shards": None},
    "no hashes": {"dedupe": "off"},
    # In processes of their own, where nothing counts what is opened.
    "workers": {"workers": 2, "seed": 7},
}


@pytest.mark.parametrize("name", list(CHANGES))
def test_no_image_and_no_mask_is_opened(
    name: str, pairs: Path, whole: Dataset, tmp_path: Path, opened: list[str]
) -> None:
    flags = flags_of(pairs, **CHANGES[name])
    fresh = make_dataset(tmp_path / "fresh", **flags) if CHANGES[name] else whole
    opened.clear()
    assert ALL in check_equal(fresh, whole.folder, tmp_path / "out", **flags).out
    assert opened == []


def other_folder(inputs: Path) -> None:
    """Files of the same names, sizes and times."""
    shutil.copytree(inputs / "masks", inputs / "others")
    for path in (inputs / "masks").iterdir():
        draw_mask(inputs / "others" / path.name, seed=50 + int(path.stem))
        shutil.copystat(path, inputs / "others" / path.name)


MASKS = [f"{number}.png" for number in range(COUNT)]
# The change, the globs after it, the files that are opened, and the images that are reused.
EDITS: dict[str, tuple[Callable[[Path], object], dict[str, list[str] | None], list[str], int]] = {
    "mask changed": (lambda at: draw_mask(at / "masks/1.png", seed=91), {}, ["1.png"], 8),
    "mask touched": (lambda at: os.utime(at / "masks/1.png", ns=(1, 1)), {}, ["1.png"], 8),
    "mask gone": (lambda at: (at / "masks/1.png").unlink(), {}, [], 7),
    "mask damaged": (lambda at: (at / "masks/1.png").write_bytes(b"no"), {}, ["1.png"], 7),
    "image changed": (lambda at: draw(at / "photos/b/1.jpg", seed=9), {}, ["1.jpg", "1.png"], 7),
    "image gone": (lambda at: (at / "photos/b/1.jpg").unlink(), {}, [], 7),
    "both new": (new_pair, {}, ["new.jpg", "new.png"], 8),
    "no masks": (lambda _: None, {"masks": None}, [], 8),
    "another root": (lambda _: None, {"masks": ["masks/*.png", "none/*.png"]}, [], 8),
    "another folder": (other_folder, {"masks": ["others/*.png"]}, MASKS, 8),
}


@pytest.mark.parametrize("name", list(EDITS))
def test_only_what_has_changed_is_opened(
    name: str, inputs: Path, base: Dataset, tmp_path: Path, opened: list[str]
) -> None:
    draw_mask(inputs / "none" / "far.png", seed=3)
    change, more, read, reused = EDITS[name]
    change(inputs)
    globs = {flag: each and [f"{inputs}/{glob}" for glob in each] for flag, each in more.items()}
    flags = flags_of(inputs) | globs
    for at, options in enumerate((flags, {**flags, "seed": 4, "num_shards": 2})):
        fresh = make_dataset(tmp_path / f"fresh-{at}", **options)
        opened.clear()
        ran = check_equal(fresh, base.folder, tmp_path / f"out-{at}", **options)
        assert sorted(opened) == read and f"reused   {reused} images" in ran.out


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
    "heic": ("image: image.bytes", {"transcode": "auto"}),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_further_images_and_all_that_is_counted_of_them(
    name: str, inputs: Path, tmp_path: Path, opened: list[str]
) -> None:
    turned(inputs / "right" / "2.jpg")
    turned(inputs / "photos" / "b" / "3.jpg")
    if name == "heic":
        (inputs / "right" / "1.jpg").write_bytes(heic(picture("RGB", HEIGHT, WIDTH)))
    features, more = OPTIONS[name]
    flags = {**with_layout(inputs, features), **more}
    base = make_dataset(tmp_path / "base", **flags)
    shuffled = make_dataset(tmp_path / "shuffled", seed=5, **flags)
    opened.clear()
    for fresh, seed in ((base, 0), (shuffled, 5)):
        out = tmp_path / f"{seed}"
        assert ALL in check_equal(fresh, base.folder, out, seed=seed, **flags).out
        counts = Dataset(out).manifest.get("pixels", {})
        assert counts.get("from_heic", 0) == (name == "heic")
    assert opened == []
    check_sound(out)


# What the index says of masks and further images: for `--reuse`, `plan`, `diff` and `verify`.


def with_partners(**values: Any) -> Callable[[Any], Any]:
    """A change of an index: other values of all masks."""
    return with_column(
        PARTNERS, lambda rows: [[{**each, **values} for each in row] for row in rows]
    )


def flip_mask(record: bytearray) -> None:
    record[record.rindex(b"IDAT") + 20] ^= 1


CHANGED: dict[str, Callable[[Any], Any]] = {
    # As of a version that did not write it.
    "no column": lambda table: table.drop_columns([PARTNERS]),
    "no path": with_partners(path=None),
    "no entry": with_partners(name="masks.other"),
    "no version": with_partners(version=0),
    "other content": with_partners(content=bytes(16)),
    "other length": with_partners(length=2**60),
}
# The files that are opened of 16; a line says it of those that have to be compared.
OPENED = {"other bytes": 2, "other content": 2 * COUNT, "other length": 0}


@pytest.mark.parametrize("damage", ["other bytes", "no roots", *CHANGED])
def test_a_damaged_base_gives_the_same_bytes(
    damage: str,
    pairs: Path,
    whole: Dataset,
    shuffled: Dataset,
    tmp_path: Path,
    opened: list[str],
    caplog: Any,
) -> None:
    flags, base = flags_of(pairs), Dataset(shutil.copytree(whole.folder, tmp_path / "base"))
    if damage == "other bytes":  # Only the hash tells.
        name = next(name for name in base.shards() if (base.folder / name).stat().st_size)
        edit_record(base.folder / name, flip_mask)
    elif damage == "no roots":
        write_manifest(base, base.manifest, "partners")
    else:
        edit_index(base, CHANGED[damage], every=True)
    check_equal(shuffled, base.folder, tmp_path / "out", seed=4, **flags)
    assert len(opened) == OPENED.get(damage, COUNT)
    assert bool(caplog.messages) == (damage in ("other bytes", "other content"))
    for line in caplog.messages:
        assert line.startswith("originals are read instead of some records of ")
        assert line.endswith("a mask or further image is not that of the index")
    # Shards that may be copied whole, if the hashes in their index are right.
    if damage != "other content":
        check_equal(whole, base.folder, tmp_path / "again", **flags)


def test_plan_and_diff_count_masks(inputs: Path, base: Dataset, tmp_path: Path) -> None:
    flags = flags_of(inputs)
    draw_mask(inputs / "masks" / "1.png", seed=91)
    draw(inputs / "photos" / "a" / "2.jpg", seed=92)
    new_pair(inputs)
    files = ["masks/1.png", "photos/a/2.jpg", "masks/2.png", "photos/a/new.jpg", "masks/new.png"]
    size = sum((inputs / name).stat().st_size for name in files)
    check_ended(
        plan(output=tmp_path / "out", reuse=base.folder, **flags),
        0,
        f"reused   {COUNT - 1} images from their records (--reuse)\n",
        f"read     5 originals, {format_bytes(size)}\n",
        " 5 for originals, ",
        "  pixels      1 to be read again: '2'\n",
        "  partners    2 with a mask or further image to be read again: '1', '2'\n",
    )
    made = make_dataset(tmp_path / "out", reuse=base.folder, **flags).folder
    # The mask of the second one is the same.
    check_ended(
        run("diff", base.folder, made),
        1,
        "\npartners    1 with another mask or further image: '1'\n",
        ": 1 added, 1 pixels, 1 originals, 1 partners\n",
    )
    listed = run("diff", "--json", base.folder, made)
    assert '{"change": "partners", "key": "1"}' in listed.out.splitlines()
    same = "  partners    0 with a mask or further image to be read again\n"
    ran = plan(output=tmp_path / "again", reuse=made, **flags)
    check_ended(ran, 0, "0 for originals, 0 for records", same)


def test_verify_compares_masks_with_the_index(inputs: Path, tmp_path: Path) -> None:
    made = make_dataset(tmp_path / "out", **{**with_layout(inputs), "num_shards": 1})
    check_sound(made.folder)
    edit_index(made, with_partners(content=bytes(16), path="x"))
    names = ("images.right.path", "images.right.bytes", "masks.hand.bytes")
    check_ended(verify(made.folder), 1, *(f"record 0: its {name} is '" for name in names))
