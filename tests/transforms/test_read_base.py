"""What the index of a base may say: it is untrusted, and a line says what is not used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest

from tests.transforms.indexed_shards import table
from transforms.core.records import JoinSide
from transforms.dataset.manifest import content_digest
from transforms.examples.partners import Partner
from transforms.images.check import CheckedPartner
from transforms.labels.shards import PIXEL_LIBRARIES, Libraries, RecipeMaker
from transforms.records import other_datasets
from transforms.records.other_datasets import OtherDataset, OtherPartner, ReuseReader
from transforms.records.record_index import HASHES, LIBRARIES, PARTNERS, read_index
from transforms.records.stored_images import BaseShard, StoredImage

SHARD = "train-00000-of-00001.tfrecord"
FILE = {"file": SHARD, "records": 2, "bytes": 1000, "crc32c": "0" * 8, "recipe": "r"}
COLUMNS: dict[str, Any] = {
    "shard": SHARD,
    "offset": 0,
    "length": 90,
    "key": "a.jpg",
    "path": "a.jpg",
    "size": 50,
    "version": 9,
    "content": bytes(16),
    "format": "jpeg",
    "height": 30,
    "width": 40,
    "channels": 3,
    "orientation": 0,
    "gps": 0,
}


def read(
    monkeypatch: pytest.MonkeyPatch,
    *,
    libraries: bytes = b"",
    digest: str | None = None,
    is_pixels: bool = False,
    files: Sequence[Mapping[str, Any]] = (FILE,),
    **row: Any,
) -> list[str]:
    """The paths of the records that may be reused; of a dataset with two records alike."""
    found = sides(monkeypatch, libraries, digest, files, is_pixels=is_pixels, **row)
    return [side.path for side in found]


def sides(
    monkeypatch: pytest.MonkeyPatch,
    libraries: bytes = b"",
    digest: str | None = None,
    files: Sequence[Mapping[str, Any]] = (FILE,),
    *,
    is_pixels: bool = False,
    **row: Any,
) -> list[JoinSide]:
    """The records that may be reused; with masks if the index has some."""
    has_masks = PARTNERS in row
    values = {**COLUMNS, **row}
    columns = {name: [value] * 2 for name, value in values.items()}
    index: pa.Table = read_index(table({**columns, "record": range(2)}, 2), "x")
    index = index.replace_schema_metadata({**HASHES, LIBRARIES: libraries})
    manifest: dict[str, Any] = {
        "root": "in",
        "splits": {"train": {"shards": files}},
        "index": [{"file": "index/train-00000-of-00001.parquet", "records": 2}],
    }
    manifest["digest"] = content_digest(manifest)
    held = (OtherPartner("mask", "in/masks"),) if has_masks else ()
    base = OtherDataset(
        "out", manifest["digest"], "image", root="in", is_pixels=is_pixels, partners=held
    )
    if digest is not None:
        del manifest["digest"]
        base = base._replace(digest=digest)
    monkeypatch.setattr(other_datasets, "read_manifest", lambda _: manifest)
    monkeypatch.setattr(other_datasets, "read_listed_index", lambda *_: index)
    reader = ReuseReader(
        (base,),
        root="in",
        key="path",
        are_listed=False,
        libraries=Libraries((), PIXEL_LIBRARIES),
        partners=(Partner("mask", "--masks", ("in/masks/1/*.png",), "in/masks/1"),) * has_masks,
    )
    return [found[1] for found in reader.read(0) if isinstance(found[1], JoinSide)]


def test_records_may_be_reused(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert read(monkeypatch) == ["a.jpg", "a.jpg"]
    assert caplog.messages == []


@pytest.mark.parametrize("column", [name for name in COLUMNS if name != "content"])
def test_an_index_that_lacks_a_value_is_not_used(
    column: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert read(monkeypatch, **{column: None}) == []
    assert caplog.messages == [
        "--reuse out is not used further: its index is not that of shards of images"
    ]


@pytest.mark.parametrize("digest", ["", "1"])
def test_a_manifest_without_its_digest_is_not_used(
    digest: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert read(monkeypatch, digest=digest) == []
    [line] = caplog.messages
    assert line.startswith("--reuse out is not used further: ")


def test_changed_images_of_other_libraries_are_not_reused_and_a_line_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert read(monkeypatch, libraries=b"pillow 0", changes="resized") == []
    assert caplog.messages == [
        "--reuse out: changed images are not reused: other versions of libraries made them"
    ]
    caplog.clear()
    assert len(read(monkeypatch, libraries=b"pillow 0")) == 2
    assert caplog.messages == []


def test_a_version_of_0_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(monkeypatch, version=0) == []


def test_pixels_of_other_libraries_are_not_reused(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert read(monkeypatch, libraries=b"pillow 0", is_pixels=True) == []
    assert caplog.messages == [
        "--reuse out: its pixels are not reused: other versions of libraries made them"
    ]


MASK = {
    "name": "mask",
    "path": "1/a.png",
    "size": 40,
    "version": 8,
    "length": 30,
    "format": "png",
    "content": bytes(16),
    "gps": None,
    "changes": None,
}


def masks(
    monkeypatch: pytest.MonkeyPatch, *entries: Any, libraries: str | None = None
) -> list[Any]:
    """The mask of the first record: its file, and what the record holds; None without one."""
    maker = RecipeMaker("", Libraries((), PIXEL_LIBRARIES))
    ours = maker.versions(is_changed=True, has_heic=False)
    of_index = (ours if libraries is None else libraries).encode()
    side, _ = sides(monkeypatch, of_index, **{PARTNERS: [*entries]})
    [file], [stored] = side.record[1], StoredImage.of(side.record[0]).partners
    return [file, stored]


def test_masks_may_be_reused(monkeypatch: pytest.MonkeyPatch) -> None:
    other = {**MASK, "name": "masks.other", "path": "1/b.png"}
    stored = CheckedPartner(30, "png", "0" * 32)
    assert masks(monkeypatch, other, MASK) == [("a.png", 40, 8), stored]


@pytest.mark.parametrize(
    "entries",
    [
        [],
        [None],
        [{**MASK, "name": None}],
        # Not below the root of this run.
        [{**MASK, "path": "a.png"}],
        [{**MASK, "path": "/a.png"}],
        *([{**MASK, name: None}] for name in ("path", "size", "version", "length", "content")),
        [{**MASK, "version": 0}],
        [{**MASK, "length": -1}],
    ],
)
def test_masks_of_which_nothing_is_proven_are_not(
    entries: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert masks(monkeypatch, *entries) == [None, None]


def test_masks_of_other_libraries_are_not(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert masks(monkeypatch, MASK, libraries="pillow 0") == [None, None]
    assert caplog.messages == [
        "--reuse out: changed images, masks and further images are not reused: other versions of "
        "libraries made them"
    ]


def test_the_first_record_has_its_shard(monkeypatch: pytest.MonkeyPatch) -> None:
    first, other = (StoredImage.of(side.record[0]) for side in sides(monkeypatch))
    assert (first.record, first.whole) == (0, BaseShard(2, 1000, "0" * 8, "r"))
    assert (other.record, other.whole) == (1, None)


def test_a_record_of_a_compressed_shard_has_no_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"{SHARD}.gz"
    files = [{**FILE, "file": name, "bytes": 10}]
    first, _ = sides(monkeypatch, files=files, shard=name, offset=None)
    stored = StoredImage.of(first.record[0])
    assert (stored.shard, stored.offset) == (name, -1)


def test_each_image_may_have_its_own_file(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    files = [{**FILE, "file": f"train/{name}.tfrecord", "records": 1} for name in "ab"]
    found = [StoredImage.of(side.record[0]) for side in sides(monkeypatch, files=files)]
    places = [(each.shard, each.record, each.whole) for each in found]
    assert places == [("train/a.tfrecord", 0, None), ("train/b.tfrecord", 0, None)]
    assert read(monkeypatch, files=files[:1]) == ["a.jpg"]
    assert caplog.messages == [
        "--reuse out is not used further: its manifest lacks files of its records"
    ]
