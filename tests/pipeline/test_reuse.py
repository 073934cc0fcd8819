"""`--reuse`: what a base holds is neither opened nor decoded, and the result is a fresh one."""

from __future__ import annotations

import errno
import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.campaign import size
from tests.conftest import draw
from tests.images import picture, saved
from tests.marks import rest_slow
from tests.pipeline.commands import Dataset, convert, digests, make_dataset
from tests.pipeline.paired import draw_mask
from tests.pipeline.reusing import check_same, drawn, flags_of, make_older
from tests.servers.gcs import GcsServer
from tests.spies import paths_given
from transforms.storage.local_storage import LocalStorage


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


CHANGES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "labels": {"label_from": "regex", "label_regex": r"(?P<label>\d)\.jpg"},
    "splits": {"splits": "a=0.5,b=0.5"},
    "seed and shards": {"seed": 7, "num_shards": 2},
    "layout": {"layout": "tutorial"},
    "key": {"key": "stem"},
    "gzip": {"compression": "gzip"},
    "per_image": {"files": "per_image", "num_shards": None},
    "no hashes": {"dedupe": "off"},
}


@pytest.mark.parametrize("name", rest_slow(list(CHANGES)))
def test_no_original_is_opened(
    name: str, originals: Path, whole: Dataset, tmp_path: Path, opened: list[str]
) -> None:
    flags = flags_of(originals, **CHANGES[name])
    fresh = make_dataset(tmp_path / "one" / "out", **flags) if CHANGES[name] else whole
    opened.clear()
    ran = convert(output=tmp_path / "two" / "out", reuse=whole.folder, **flags)
    assert (ran.code, opened) == (0, []), ran.err
    assert "reused   12 images from their records (--reuse)" in ran.out
    assert digests(tmp_path / "two" / "out") == digests(fresh.folder)


def test_records_with_perceptual_hashes_of_another_version_are_not_used(
    images: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    flags = flags_of(images)
    base = make_older(monkeypatch, tmp_path / "base", **flags)
    ran = check_same(base.folder, tmp_path, **flags)
    assert "another version of this program made its perceptual hashes" in caplog.text
    assert "reused   " not in ran.out


def test_equal_shards_are_linked_and_not_read(
    images: Path, tmp_path: Path, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (images / "cat" / "bad.jpg").write_bytes(b"no image")
    flags = flags_of(images, max_rejected="100%")
    base = make_dataset(tmp_path / "base" / "out", **flags)
    read = paths_given(monkeypatch, LocalStorage, "read_range")
    opened.clear()
    copy = tmp_path / "copy" / "out"
    ran = convert(output=copy, reuse=base.folder, **flags)
    assert "reused   12 images from their records (--reuse)" in ran.out
    # What was rejected is tried again.
    assert (ran.code, opened[:1], {*opened}) == (0, ["bad.jpg"], {"bad.jpg"}), ran.err
    # The report shows pictures of the result.
    assert not [path for path in read if path.startswith(str(base.folder))]
    assert digests(copy) == digests(base.folder)
    names = base.shards()
    inodes = [(folder / name).stat().st_ino for folder in (copy, base.folder) for name in names]
    assert inodes[:3] == inodes[3:]
    # The base is replaced: its files are other ones then, and the copy stays.
    copied = digests(copy)
    assert convert("--overwrite", output=base.folder, **{**flags, "seed": 9}).code == 0
    assert digests(copy) == copied != digests(base.folder)


@pytest.mark.slow
def test_equal_shards_of_a_bucket_are_copied_by_the_server(images: Path, gcs: GcsServer) -> None:
    gcs.make_bucket("photos")
    gcs.make_bucket("datasets")
    gcs.put_folder("photos", "in/", images)
    flags = {**flags_of(images), "images": "gs://photos/in/*/*.jpg"}
    assert convert(output="gs://datasets/base/out", **flags).code == 0
    before, shown = gcs.counts(), gcs.media_gets()
    ran = convert(output="gs://datasets/copy/out", reuse="gs://datasets/base/out", **flags)
    assert (ran.code, "reused   12 images" in ran.out) == (0, True), ran.err
    # The report of the base showed pictures.
    read = [name for name, count in gcs.media_gets().items() if count != shown.get(name, 0)]
    read = [name for name in read if name.endswith(".tfrecord") and "base/" in name]
    # A shard is uploaded in parts; here none is.
    parts = gcs.counts().get("PUT upload", 0) - before.get("PUT upload", 0)
    assert (read, parts) == ([], 0)
    copied, base = (
        {name.partition("/")[2]: gcs.get("datasets", name) for name in names}
        for names in (
            [name for name in gcs.names("datasets") if name.startswith(folder)]
            for folder in ("copy/", "base/")
        )
    )
    assert copied == base


def test_a_linked_base_is_replaced_by_itself(images: Path, tmp_path: Path) -> None:
    flags = flags_of(images, num_shards=4)
    base = make_dataset(tmp_path / "base" / "out", **flags).folder
    # One shard gets an image more; the others are the same.
    draw(images / "cat" / "new.jpg", seed=99)
    fresh = make_dataset(tmp_path / "fresh" / "out", **flags)
    ran = convert("--overwrite", output=base, reuse=base, **flags)
    assert (ran.code, "reused   12 images" in ran.out) == (0, True), ran.err
    assert digests(base) == digests(fresh.folder)
    assert not (base / ".staging").exists()


def test_an_image_that_was_unreadable_makes_another_shard(images: Path, tmp_path: Path) -> None:
    flags = flags_of(images, max_rejected="100%", num_shards=1)
    read = LocalStorage.read_listed

    def forbidden(storage: LocalStorage, uri: str, **given: Any) -> bytes:
        if uri.endswith("/3.jpg"):
            raise PermissionError(errno.EACCES, "no permission", uri)
        return read(storage, uri, **given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalStorage, "read_listed", forbidden)
        base = make_dataset(tmp_path / "base", **flags).folder
    # A permission that is granted later changes no version.
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
    fresh = make_dataset(tmp_path / "one" / "out", **flags)
    opened.clear()
    ran = convert(output=tmp_path / "two" / "out", reuse=base, **flags)
    assert (ran.code, sorted(opened)) == (0, ["1.jpg", "bad.jpg", "new.jpg"]), ran.err
    assert "reused   10 images" in ran.out
    assert digests(tmp_path / "two" / "out") == digests(fresh.folder)


@pytest.mark.slow
def test_changed_pixels_and_boxes(
    images: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = "".join(
        f"{path.relative_to(images)},{path.parent.name},1,1,9,9\n"
        for path in sorted(images.glob("*/*.jpg"))
    )
    (images / "boxes.csv").write_text(f"image,label,xmin,ymin,xmax,ymax\n{rows}")
    flags = {
        "labels": images / "boxes.csv",
        "layout": "detection",
        "resize": "shorter=20",
        "box_units": "pixel",
    }
    base = make_dataset(tmp_path / "base", **flags).folder
    assert "reused   12 images" in check_same(base, tmp_path, seed=3, **flags).out
    others = {**flags, "resize": "shorter=21"}
    ran = check_same(base, tmp_path, **others)
    assert "from their records" not in ran.out
    assert caplog.messages == [f"--reuse {base} has no effect: it was made with another --resize"]


def test_two_bases_that_hold_other_bytes_of_an_image(tmp_path: Path, opened: list[str]) -> None:
    """The file was changed, and has the size and the time that it had."""
    path = tmp_path / "in" / "1.jpg"
    path.parent.mkdir()
    bases = []
    for comment in (b"one", b"two"):
        path.write_bytes(saved(picture("RGB", 12, 16), "JPEG", comment=comment))
        os.utime(path, ns=(5, 5))
        flags = {"images": f"{tmp_path}/in/*.jpg", "label_from": "none"}
        bases.append(make_dataset(tmp_path / comment.decode(), **flags).folder)
    opened.clear()
    assert "from their records" not in check_same(bases, tmp_path, **flags).out
    # Of the fresh conversion, and of the other one.
    assert opened == ["1.jpg"] * 2


def test_a_relative_root_is_that_of_an_absolute_one(
    originals: Path,
    whole: Dataset,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    opened: list[str],
) -> None:
    monkeypatch.chdir(originals.parent)
    ran = convert(output=tmp_path / "out", reuse=whole.folder, **flags_of(Path("in"), seed=1))
    assert (ran.code, opened) == (0, []), ran.err


@pytest.mark.parametrize("is_absolute", rest_slow([False, True]))
def test_listed_images_are_found_by_another_spelling_of_the_csv(
    is_absolute: bool,
    images: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    opened: list[str],
) -> None:
    rows = [f"{path.relative_to(tmp_path)},x" for path in sorted(images.glob("*/*.jpg"))]
    (tmp_path / "list.csv").write_text("\n".join(["image,label", *rows]))
    monkeypatch.chdir(tmp_path)
    spelled = [Path("list.csv"), tmp_path / "list.csv"]
    one, other = spelled if is_absolute else reversed(spelled)
    base = make_dataset(tmp_path / "base", labels=one, num_shards=2).folder
    fresh = make_dataset(tmp_path / "one" / "out", labels=other, seed=1)
    opened.clear()
    ran = convert(output=tmp_path / "two" / "out", labels=other, seed=1, reuse=base)
    assert (ran.code, opened) == (0, []), ran.err
    assert digests(tmp_path / "two" / "out") == digests(fresh.folder)


EDITS = ("add", "remove", "rename", "touch", "change", "relabel", "mask", "mask", "mask")


def edit(images: Path, source: random.Random, number: int) -> None:
    """Makes a random change to the images, or to the mask of one."""
    path = source.choice(sorted(images.glob("*/*.jpg")))
    match source.choice(EDITS):
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


@pytest.mark.slow
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
