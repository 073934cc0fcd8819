"""What the index of a base may say: it is untrusted, and a line says what is not used."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tests.transforms.indexed_shards import table
from transforms import read_base
from transforms.core.dataset.manifest import content_digest
from transforms.core.index.record_index import LIBRARIES, read_index
from transforms.core.planning.recipes import PIXEL_LIBRARIES, Libraries
from transforms.read_base import Base, BaseReader

SHARD = "train-00000-of-00001.tfrecord"
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
}


def read(
    monkeypatch: pytest.MonkeyPatch,
    *,
    libraries: bytes = b"",
    digest: str | None = None,
    **row: Any,
) -> list[str]:
    """The paths of the records that may be reused; of a dataset with two records alike."""
    values = {**COLUMNS, **row}
    columns = {name: [value] * 2 for name, value in values.items()}
    index: pa.Table = read_index(table({**columns, "record": range(2)}, 2), "x")
    index = index.replace_schema_metadata({LIBRARIES: libraries})
    manifest: dict[str, Any] = {
        "root": "in",
        "splits": {"train": {"shards": [{"file": SHARD, "bytes": 1000}]}},
        "index": [{}],
    }
    manifest["digest"] = content_digest(manifest)
    base = Base("out", "image", manifest["digest"], "in")
    if digest is not None:
        del manifest["digest"]
        base = base._replace(digest=digest)
    monkeypatch.setattr(read_base, "read_manifest", lambda _: manifest)
    monkeypatch.setattr(read_base, "read_listed_index", lambda *_: index)
    reader = BaseReader(
        (base,), root="in", key="path", are_listed=False, libraries=Libraries((), PIXEL_LIBRARIES)
    )
    return [side.path for _, side in reader.read("out")]


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
        "--reuse out is not used further: its index is not that of uncompressed shards of images"
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
