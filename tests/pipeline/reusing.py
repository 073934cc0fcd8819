"""Bases for tests of `--reuse`: how they are made, edited, and compared with fresh conversions."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.conftest import draw
from tests.pipeline.commands import Dataset, Ran, convert, digests, make_dataset
from transforms.dataset.manifest import crc32c_hex, to_bytes
from transforms.examples.tfrecord import HEAD_BYTES, masked_crc32c
from transforms.images import check
from transforms.images.checked_images import Seen
from transforms.records import record_index
from transforms.records.record_index import index_bytes, read_index

if TYPE_CHECKING:
    import pyarrow as pa


def drawn(folder: Path) -> Path:
    """Twelve images of two classes."""
    for number in range(12):
        draw(folder / ("cat", "dog")[number % 2] / f"{number}.jpg", seed=number)
    return folder


def flags_of(images: Path, **flags: Any) -> dict[str, Any]:
    given = {"images": f"{images}/*/*.jpg", "label_from": "directory", "num_shards": 3}
    return {**given, **flags}


def make_older(monkeypatch: pytest.MonkeyPatch, folder: Path, **flags: Any) -> Dataset:
    """A dataset as a version made it that hashed what images look like in another way."""
    with monkeypatch.context() as patch:
        patch.setattr(record_index, "HASHES", {})
        patch.setattr(check, "seen_in_grey", lambda *_: Seen(7))
        return make_dataset(folder, **flags)


def check_same(base: Path | list[Path], folder: Path, **flags: Any) -> Ran:
    """Converts with and without the base, and compares every file."""
    for name in ("fresh", "reused"):
        shutil.rmtree(folder / name, ignore_errors=True)
    fresh = make_dataset(folder / "fresh" / "out", **flags)
    return check_equal(fresh, base, folder / "reused" / "out", **flags)


def check_equal(fresh: Dataset, base: Path | list[Path], output: Path, **flags: Any) -> Ran:
    """Converts with the base, and compares every file with those of another dataset."""
    ran = convert(output=output, reuse=base, **flags)
    assert ran.code == 0, ran.err
    assert digests(output) == digests(fresh.folder)
    return ran


def write_manifest(dataset: Dataset, manifest: dict[str, Any], *without: str) -> None:
    """Writes a manifest as its program would have written it, but for some names."""
    kept = {name: each for name, each in manifest.items() if name not in ("digest", *without)}
    (dataset.folder / "manifest.json").write_bytes(to_bytes(kept))


def edit_index(
    dataset: Dataset, change: Callable[[pa.Table], pa.Table], *, every: bool = False
) -> str:
    """Changes the first index, or every one, and the manifest as if it had been written so."""
    manifest = dataset.manifest
    for entry in manifest["index"][: None if every else 1]:
        path = dataset.folder / entry["file"]
        data = index_bytes(change(read_index(path.read_bytes(), "x")))
        path.write_bytes(data)
        entry |= {"bytes": len(data), "crc32c": crc32c_hex(data)}
    write_manifest(dataset, manifest)
    return str(manifest["index"][0]["file"])


def with_column(name: str, edit: Callable[[list[Any]], list[Any]]) -> Callable[[Any], Any]:
    """A change of the values of a column of an index."""

    def change(table: Any) -> Any:
        import pyarrow as pa

        at, field = table.schema.get_field_index(name), table.schema.field(name)
        values = edit(table.column(name).to_pylist())
        return table.set_column(at, field, pa.array(values, field.type))

    return change


def first(value: Any) -> Callable[[list[Any]], list[Any]]:
    """Another first value of a column."""
    return lambda values: [value, *values[1:]]


def swapped(values: list[Any]) -> list[Any]:
    """A column of which two records have changed places."""
    return [values[1], values[0], *values[2:]]


def edit_record(shard: Path, edit: Callable[[bytearray], None]) -> bytes:
    """Changes the first record of a shard, which stays a sound one of the same length."""
    data = bytearray(shard.read_bytes())
    end = HEAD_BYTES + int.from_bytes(data[:8], "little")
    record = data[HEAD_BYTES:end]
    edit(record)
    data[HEAD_BYTES:end] = record
    data[end : end + 4] = masked_crc32c(bytes(record)).to_bytes(4, "little")
    shard.write_bytes(data)
    return bytes(record)


def flip(path: Path, at: int) -> None:
    """Flips a bit of a file."""
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
