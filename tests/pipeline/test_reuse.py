"""`--reuse`: what a base holds is neither opened nor decoded, and the result is a fresh one."""

import errno
import os
import random
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from tests.campaign import size
from tests.conftest import draw
from tests.images import picture
from tests.pipeline.commands import Dataset, convert, digests, make_dataset
from tests.pipeline.paired import draw_mask
from tests.pipeline.reusing import (
    check_equal,
    check_same,
    drawn,
    edit_index,
    edit_record,
    first,
    flags_of,
    flip,
    swapped,
    with_column,
    write_manifest,
)
from tests.spies import paths_given
from transforms.records.other_datasets import ReuseReader
from transforms.records.record_index import content_hash
from transforms.storage.local_storage import LocalStorage

pytestmark = pytest.mark.slow

ALL = "reused   12 images from their records (--reuse)"


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Twelve images, which a test may change."""
    return drawn(tmp_path / "in")


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve images, which tests leave as they are."""
    return drawn(tmp_path_factory.mktemp("reuse") / "in")


@pytest.fixture(scope="module")
def whole(originals: Path) -> Dataset:
    """The dataset of the originals, which tests leave as it is."""
    return make_dataset(originals.with_name("whole"), **flags_of(originals))


@pytest.fixture(scope="module")
def shuffled(originals: Path) -> Dataset:
    """The same in another order, of which no shard is one of `whole`."""
    return make_dataset(originals.with_name("shuffled"), **flags_of(originals, seed=9))


@pytest.fixture
def base(whole: Dataset, tmp_path: Path) -> Dataset:
    """A copy of `whole` that a test may damage."""
    return Dataset(shutil.copytree(whole.folder, tmp_path / "base"))


def test_equal_shards_are_linked_and_not_read(
    images: Path, tmp_path: Path, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (images / "cat" / "bad.jpg").write_bytes(b"no image")
    flags = flags_of(images, max_rejected="100%")
    base, copy = make_dataset(tmp_path / "base" / "out", **flags), tmp_path / "copy" / "out"
    read = paths_given(monkeypatch, LocalStorage, "read_range")
    opened.clear()
    assert ALL in check_equal(base, base.folder, copy, **flags).out
    # What was rejected is tried again, and the report shows pictures of the result.
    assert {*opened} == {"bad.jpg"}
    assert not [path for path in read if path.startswith(str(base.folder))]
    inodes = [[(folder / name).stat().st_ino for name in base.shards()]
              for folder in (copy, base.folder)]  # fmt: skip
    assert inodes[0] == inodes[1]
    # The base is replaced: its files are other ones then, and the copy stays.
    copied = digests(copy)
    assert convert("--overwrite", output=base.folder, **{**flags, "seed": 9}).code == 0
    assert digests(copy) == copied != digests(base.folder)


def test_an_image_that_was_unreadable_makes_another_shard(images: Path, tmp_path: Path) -> None:
    """A permission that is granted later changes no version."""
    flags = flags_of(images, max_rejected="100%", num_shards=1)
    read = LocalStorage.read_listed

    def forbidden(storage: LocalStorage, uri: str, **given: Any) -> bytes:
        if uri.endswith("/3.jpg"):
            raise PermissionError(errno.EACCES, "no permission", uri)
        return read(storage, uri, **given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalStorage, "read_listed", forbidden)
        base = make_dataset(tmp_path / "base", **flags).folder
    assert "reused   11 images" in check_same(base, tmp_path, **flags).out


def test_new_touched_and_rejected_images_are_opened(
    images: Path, tmp_path: Path, opened: list[str]
) -> None:
    (images / "cat" / "bad.jpg").write_bytes(b"no image")
    flags = flags_of(images, max_rejected="100%")
    base = make_dataset(tmp_path / "base", **flags).folder
    draw(images / "cat" / "new.jpg", seed=99)
    os.utime(images / "dog" / "1.jpg", ns=(1, 1))
    (images / "dog" / "3.jpg").unlink()
    fresh = make_dataset(tmp_path / "fresh", **flags)
    opened.clear()
    assert "reused   10 images" in check_equal(fresh, base, tmp_path / "out", **flags).out
    assert sorted(opened) == ["1.jpg", "bad.jpg", "new.jpg"]


@pytest.mark.parametrize("is_absolute", [False, True])
def test_listed_images_are_found_by_another_spelling_of_the_csv(
    is_absolute: bool, images: Path, tmp_path: Path, monkeypatch: Any, opened: list[str]
) -> None:
    rows = [f"{path.relative_to(tmp_path)},x" for path in sorted(images.glob("*/*.jpg"))]
    (tmp_path / "list.csv").write_text("\n".join(["image,label", *rows]))
    monkeypatch.chdir(tmp_path)
    spelled = [Path("list.csv"), tmp_path / "list.csv"]
    one, other = spelled if is_absolute else reversed(spelled)
    base = make_dataset(tmp_path / "base", labels=one, num_shards=2).folder
    fresh = make_dataset(tmp_path / "fresh", labels=other, seed=1)
    opened.clear()
    check_equal(fresh, base, tmp_path / "out", labels=other, seed=1)
    assert opened == []


# Bases that are damaged, and what is none.

SOME = "originals are read instead of some records of "
DAMAGES = {
    "other bytes": SOME,
    "flipped record": SOME,
    "no shard": SOME,
    "flipped index": "is not used further: ",
    "changed meanwhile": "is not used further: it was changed meanwhile",
    "foreign shard": "is not used further: its index names records that it does not have",
    "no index": "is not used further: ",
    "no indexes": "has no effect: it has no index",
    "overwritten meanwhile": SOME,
}


def flip_pixel(record: bytearray) -> None:
    record[400] ^= 1


def damage_base(base: Dataset, damage: str, other: Path, patch: pytest.MonkeyPatch) -> None:
    shard, index = base.folder / base.shards()[0], sorted((base.folder / "index").iterdir())[0]
    match damage:
        case "flipped record":
            flip(shard, 300)
        case "no shard":
            shard.unlink()
        case "flipped index":
            flip(index, 60)
        case "other bytes":  # Only the hash tells.
            edit_record(shard, flip_pixel)
        case "foreign shard":
            name = "../me/train-00000-of-00001.tfrecord"
            edit_index(base, with_column("shard", lambda values: [name] * len(values)))
        case "no index":
            index.unlink()
        case "no indexes":
            write_manifest(base, {**base.manifest, "index": []})
        case "overwritten meanwhile":  # After its indexes were read, before its records are.
            read = ReuseReader.read

            def read_and_replace(reader: ReuseReader, number: int) -> Iterator[Any]:
                yield from [*read(reader, number)]
                shutil.copytree(other, base.folder, dirs_exist_ok=True)

            patch.setattr(ReuseReader, "read", read_and_replace)
        case "changed meanwhile":
            manifest = {**base.manifest, "digest": "x"}
            patch.setattr("pipeline.resolve.samples.open_dataset", lambda _: manifest)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_base_gives_the_same_bytes(
    damage: str,
    base: Dataset,
    originals: Path,
    whole: Dataset,
    shuffled: Dataset,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    damage_base(base, damage, shuffled.folder, monkeypatch)
    check_equal(whole, base.folder, tmp_path / "out", **flags_of(originals))
    # One line for each file.
    assert len(caplog.messages) == (3 if damage == "overwritten meanwhile" else 1)
    for line in caplog.messages:
        assert DAMAGES[damage] in line and str(base.folder) in line


EDITS: dict[str, dict[str, Callable[[list[Any]], list[Any]]]] = {
    "two images change places": dict.fromkeys(("key", "path", "size", "version"), swapped),
    "another format": {"format": first("png")},
    "a larger image": {"height": first(4000)},
    "a gray image": {"channels": first(1)},
    "a turned image": {"orientation": first(6)},
    "a place": {"gps": first(1)},
    "no original": {"source_height": first(4000)},
    "no format": {"format": first("exe")},
    "no change": {"changes": first("resized")},
    "no such hash": {"source_content": first(bytes(16))},
}


@pytest.mark.parametrize("edit", EDITS)
def test_what_an_edited_index_says_of_a_record_is_compared_with_the_record(
    edit: str, base: Dataset, originals: Path, shuffled: Dataset, tmp_path: Path, caplog: Any
) -> None:
    for name, change in EDITS[edit].items():
        edit_index(base, with_column(name, change))
    check_equal(shuffled, base.folder, tmp_path / "out", **flags_of(originals, seed=9))
    [line] = caplog.messages
    said = "cannot exist$|damaged: a " if edit.startswith("no ") else "not that of the index$"
    assert re.search(said, line)


def test_a_record_with_a_broken_header_is_read_from_its_original(
    base: Dataset, originals: Path, shuffled: Dataset, tmp_path: Path, caplog: Any
) -> None:
    """Its checksums and its hash are those of the broken image."""

    def without_height(record: bytearray) -> None:
        height = record.index(b"\xff\xc0") + 5
        record[height : height + 2] = bytes(2)

    record = edit_record(base.folder / base.shards()[0], without_height)
    [broken] = (
        tf.train.Example.FromString(record).features.feature["image/encoded"].bytes_list.value
    )
    edit_index(base, with_column("content", first(bytes.fromhex(content_hash(broken)))))
    check_equal(shuffled, base.folder, tmp_path / "out", **flags_of(originals, seed=9))
    assert "broken jpeg header" in caplog.messages[0]


def pixel_layout(folder: Path, more: str = "") -> Path:
    """A layout of decoded pixels."""
    pixels = "image: image.pixels, h: image.height, w: image.width, c: image.channels"
    path = folder / "pixels.yaml"
    path.write_text(f"features: {{{pixels}{more}}}\n")
    return path


@pytest.mark.parametrize("layout", ["slim", "landmark", "pixels"])
def test_edited_indexes_of_bmps_keys_and_arrays(layout: str, tmp_path: Path, caplog: Any) -> None:
    for number in range(2):
        picture("RGB", 12, 16, seed=number).save(tmp_path / f"{number}.bmp")
    features = pixel_layout(tmp_path) if layout == "pixels" else layout
    flags = {"images": f"{tmp_path}/*.bmp", "label_from": "none", "layout": features}
    base = make_dataset(tmp_path / "base", **flags, num_shards=1)
    swaps = dict.fromkeys(("key", "path", "size", "version"), swapped)
    turned = {"height": first(16), "width": first(12)}
    for name, change in (swaps if layout == "landmark" else turned).items():
        edit_index(base, with_column(name, change))
    check_same(base.folder, tmp_path, **flags, num_shards=2)
    assert caplog.messages[-1].endswith("the image is not that of the index")


@pytest.mark.parametrize("kind", ["gzip", "per_image", "pixels", "both"])
def test_any_layout_of_files_can_be_a_base(
    kind: str, originals: Path, whole: Dataset, tmp_path: Path, opened: list[str]
) -> None:
    options: dict[str, dict[str, Any]] = {
        "gzip": {"compression": "gzip", "num_shards": 2},
        "per_image": {"files": "per_image", "num_shards": None},
        "pixels": {"layout": pixel_layout(tmp_path), "label_from": "none", "resize": "shorter=20"},
        "both": {"layout": pixel_layout(tmp_path, ", file: image.bytes"), "label_from": "none"},
    }
    flags = flags_of(originals, **options[kind])
    base = make_dataset(tmp_path / "base", **flags).folder
    # Other shards of the same order.
    others = {**flags, "num_shards": 3, "files": None, "compression": None}
    fresh = make_dataset(tmp_path / "fresh", **others) if "layout" in others else whole
    opened.clear()
    ran = check_equal(fresh, base, tmp_path / "out", **others)
    # Of a compressed shard, a part is not worth decompressing the rest.
    assert len(opened) == 12 - int(ran.out.split("reused ")[1].split()[0])
    assert len(opened) < 6 if kind == "gzip" else opened == []


@pytest.mark.parametrize("kind", ["no hashes", "rows", "pixels"])
def test_a_base_without_readable_records_is_said_so(
    kind: str, originals: Path, whole: Dataset, tmp_path: Path, caplog: Any
) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    options: dict[str, dict[str, Any]] = {
        "no hashes": flags_of(originals, dedupe="off"),
        "rows": {"labels": tmp_path / "a.csv", "layout": "rows"},
        "pixels": flags_of(originals, layout=pixel_layout(tmp_path), label_from="none"),
    }
    base = make_dataset(tmp_path / "base", **options[kind]).folder
    ran = check_equal(whole, base, tmp_path / "out", **flags_of(originals))
    assert "from their records" not in ran.out
    effect = "is not used further" if kind == "no hashes" else "has no effect"
    assert [line.partition(": ")[0] for line in caplog.messages] == [f"--reuse {base} {effect}"]


# Any edits.

KINDS = ("add", "remove", "rename", "touch", "change", "relabel", "mask", "mask", "mask")


def edit(images: Path, source: random.Random, number: int) -> None:
    """Makes a random change to the images, or to the mask of one."""
    path = source.choice(sorted(images.glob("*/*.jpg")))
    match source.choice(KINDS):
        case "mask":
            edit_mask(images.parent / "masks" / f"{path.stem}.png", source, number)
        case "add":
            draw(path.with_name(f"new{number}.jpg"), seed=100 + number)
        case "remove" if len(list(images.glob("*/*.jpg"))) > 4:
            path.unlink()
        case "rename":
            path.rename(path.with_name(f"renamed{number}.jpg"))
        case "touch":
            os.utime(path, ns=(number, number))
        case "change":
            draw(path, seed=200 + number)
        case "relabel":
            other = images / source.choice(["cat", "dog", "wolf"]) / path.name
            other.parent.mkdir(exist_ok=True)
            path.rename(other)


def edit_mask(path: Path, source: random.Random, number: int) -> None:
    """Draws, touches, damages or removes a mask."""
    match source.choice(("draw", "touch", "damage", "remove")):
        case "touch" if path.exists():
            os.utime(path, ns=(number, number))
        case "damage":
            path.write_bytes(b"no mask")
        case "remove" if path.exists():
            path.unlink()
        case _:
            draw_mask(path, seed=number)


def test_any_edit_gives_the_bytes_of_a_fresh_run(images: Path, tmp_path: Path) -> None:
    source = random.Random(21)
    bases: list[Path] = []
    for number in range(12):
        draw_mask(tmp_path / "masks" / f"{number}.png", seed=number)
    masked = {"masks": f"{tmp_path}/masks/*.png", "key": "stem", "max_rejected": "100%"}
    for case in range(size(8, 200)):
        flags = flags_of(
            images,
            seed=source.randrange(3),
            num_shards=source.choice([1, 2, 5]),
            layout=source.choice(["slim", "tutorial"]),
            splits=source.choice(["train=1", "a=0.5,b=0.5"]),
            dedupe=source.choice(["report", "report", "drop"]),
            key=source.choice(["path", "name"]),
            compression=source.choice(["none", "none", "gzip"]),
        )
        other: dict[str, Any] = source.choice([{}, {}, {"files": "per_image", "num_shards": None}])
        masks: dict[str, Any] = source.choice([{}, masked, masked])
        made = {**flags, "dedupe": "report", **other, **source.choice([{}, masked, masked])}
        # The dataset of the case before holds most images, too, in other shards.
        bases = [*bases, make_dataset(tmp_path / f"base{case}", **made).folder][-2:]
        for number in range(source.randrange(4)):
            edit(images, source, 10 * case + number)
        others = flags_of(images, seed=source.randrange(3), num_shards=source.choice([1, 2, 5]))
        given = source.sample(bases, len(bases))
        check_same(given, tmp_path, **{**flags, **others, **masks})
        if case:
            shutil.rmtree(bases[0])
