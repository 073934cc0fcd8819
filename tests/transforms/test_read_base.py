"""What the index of a base may say: it is untrusted, and a line says what is not used."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.marks import cases
from tests.transforms.indexed_shards import BARE, table
from transforms.core.records import JoinSide
from transforms.dataset.manifest import content_digest
from transforms.examples.partners import Partner
from transforms.examples.tfrecord import FRAME_BYTES
from transforms.images.checked_images import CheckedPartner
from transforms.labels.shards import PIXEL_LIBRARIES, Libraries, RecipeMaker
from transforms.records import other_datasets
from transforms.records.other_datasets import OtherDataset, OtherPartner, ReuseReader
from transforms.records.record_index import HASHES, LIBRARIES, PARTNERS, read_index
from transforms.records.stored_images import BaseShard, StoredImage
from transforms.storage.files import read_manifest

SHARD = "train-00000-of-00001.tfrecord"
FILE = {"file": SHARD, "records": 2, "bytes": 1000, "crc32c": "0" * 8, "recipe": "r"}
COLUMNS: dict[str, Any] = {
    "shard": SHARD,
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


def two_rows(columns: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Two records alike, one behind the other unless their offset is given."""
    rows = {name: [value] * 2 for name, value in columns.items()}
    return {"offset": [0, COLUMNS["length"] + FRAME_BYTES], **rows}


# The first part of every line that says why a base is not used.
NOT_USED = "--reuse out is not used further: "

Read = Callable[..., list[JoinSide]]


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Read:
    """Gives the records that may be reused, of a dataset with two that are alike."""

    def sides(
        *,
        libraries: bytes = b"",
        digest: str | None = None,
        is_pixels: bool = False,
        files: Any = (FILE,),
        **row: Any,
    ) -> list[JoinSide]:
        has_masks = PARTNERS in row
        columns = two_rows({**COLUMNS, **row})
        index: pa.Table = read_index(table({**columns, "record": range(2)}, 2), "x")
        index = index.replace_schema_metadata({**HASHES, LIBRARIES: libraries})
        manifest: dict[str, Any] = {
            **BARE,
            "root": "in",
            "options": {"files": "per_image"} if any("/" in each["file"] for each in files) else {},
            "splits": {"train": {"shards": files}},
            "index": [{"file": "index/train-00000-of-00001.parquet", "records": 2}],
        }
        manifest["digest"] = content_digest(manifest)
        held = (OtherPartner("mask", "in/masks"),) * has_masks
        base = OtherDataset(
            "out", manifest["digest"], "image", root="in", is_pixels=is_pixels, partners=held
        )
        if digest is not None:
            del manifest["digest"]
            base = base._replace(digest=digest)
        damaged = tmp_path / "manifest.json"
        damaged.write_bytes(b"\xff")
        found = partial(read_manifest, str(damaged)) if digest == "no text" else lambda: manifest
        monkeypatch.setattr(other_datasets, "read_manifest", lambda *_, **__: found())
        monkeypatch.setattr(other_datasets, "read_listed_index", lambda *_, **__: index)
        reader = ReuseReader(
            (base,),
            root="in",
            key="path",
            are_listed=False,
            libraries=Libraries((), PIXEL_LIBRARIES),
            partners=(Partner("mask", "--masks", ("in/masks/1/*.png",), "in/masks/1"),) * has_masks,
        )
        return [found[1] for found in reader.read(0) if isinstance(found[1], JoinSide)]

    return sides


@cases(
    ({}, 2, []),
    # It proves nothing.
    ({"version": 0}, 0, []),
    ({"libraries": b"pillow 0"}, 2, []),
    (
        {"libraries": b"pillow 0", "changes": "resized"},
        0,
        ["--reuse out: changed images are not reused: other versions of libraries made them"],
    ),
    (
        {"libraries": b"pillow 0", "is_pixels": True},
        0,
        ["--reuse out: its pixels are not reused: other versions of libraries made them"],
    ),
    *(
        ({name: None}, 0, [f"{NOT_USED}its index is not that of shards of images"])
        for name in COLUMNS
        if name not in ("content", "key")
    ),
    *(
        ({name: value}, 0, [f"{NOT_USED}its index describes an image that cannot exist"])
        for name, value in {"height": -1, "channels": 9, "orientation": 77}.items()
    ),
    (
        {"files": [{**FILE, "file": "train/a.tfrecord", "records": 1}]},
        1,
        [f"{NOT_USED}its manifest lacks files of its records"],
    ),
)
def test_which_records_may_be_reused(
    changes: dict[str, Any],
    count: int,
    lines: list[str],
    read: Read,
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert [side.path for side in read(**changes)] == ["a.jpg"] * count
    assert caplog.messages == lines


@pytest.mark.parametrize("digest", ["", "1", "no text"])
def test_a_digest_is_needed(digest: str, read: Read, caplog: pytest.LogCaptureFixture) -> None:
    assert read(digest=digest) == []
    [line] = caplog.messages
    assert line.startswith(NOT_USED)


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
OTHER_MASK = {**MASK, "name": "masks.other", "path": "1/b.png"}
OURS = RecipeMaker("", Libraries((), PIXEL_LIBRARIES)).versions(is_changed=True, has_heic=False)


@cases(
    ([OTHER_MASK, MASK], OURS, True),
    ([MASK], "pillow 0", False),
    ([], OURS, False),
    ([None], OURS, False),
    # Not below the root of this run.
    *(([{**MASK, "path": path}], OURS, False) for path in ("a.png", "/a.png")),
    *(
        ([{**MASK, name: None}], OURS, False)
        for name in ("name", "path", "size", "version", "length", "content")
    ),
    ([{**MASK, "version": 0}], OURS, False),
    ([{**MASK, "length": -1}], OURS, False),
)
def test_which_masks_may_be_reused(
    entries: list[Any],
    libraries: str,
    is_reused: bool,
    read: Read,
    caplog: pytest.LogCaptureFixture,
) -> None:
    side, _ = read(libraries=libraries.encode(), **{PARTNERS: entries})
    [file], [stored] = side.record[1], StoredImage.of(side.record[0]).partners
    mask = [("a.png", 40, 8), CheckedPartner(30, "png", "0" * 32)]
    assert [file, stored] == (mask if is_reused else [None, None])
    assert caplog.messages == (libraries != OURS) * [
        "--reuse out: changed images, masks and further images are not reused: other versions of "
        "libraries made them"
    ]


SINGLE = [{**FILE, "file": f"train/{name}.tfrecord", "records": 1} for name in "ab"]
WHOLE = BaseShard(2, 1000, "0" * 8, "r")


@cases(
    # The first record has its shard.
    ({}, [(SHARD, 0, 0, WHOLE), (SHARD, 1, 106, None)]),
    # A record of a compressed shard has no offset.
    (
        {
            "files": [{**FILE, "file": f"{SHARD}.gz", "bytes": 10}],
            "shard": f"{SHARD}.gz",
            "offset": None,
        },
        [(f"{SHARD}.gz", 0, -1, WHOLE._replace(bytes=10)), (f"{SHARD}.gz", 1, -1, None)],
    ),
    # Each image may have its own file.
    ({"files": SINGLE, "offset": 0}, [(each["file"], 0, 0, None) for each in SINGLE]),
)
def test_where_a_record_is(changes: dict[str, Any], places: list[Any], read: Read) -> None:
    found = [StoredImage.of(side.record[0]) for side in read(**changes)]
    assert [(each.shard, each.record, each.offset, each.whole) for each in found] == places
