"""Fingerprints come back from sidecars and shuffles as they were, and tell where records are."""

from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st

from transforms.core.duplicates.fingerprints import (
    BUCKETS,
    ShardIndex,
    Sidecar,
    content_hash,
    unpack_batch,
    unpack_left_out,
)
from transforms.core.examples.tfrecord import masked_crc32c, read_records

FILE = "train-00000-of-00001.tfrecord"
TEXTS = st.text(max_size=5)
HEX = st.integers(0, 2**128 - 1).map(lambda number: f"{number:032x}")
HASHES = st.one_of(st.just(""), st.integers(0, 2**64 - 1).map(lambda number: f"{number:016x}"))
ROWS = st.lists(st.tuples(TEXTS, TEXTS, st.lists(TEXTS, min_size=1, max_size=2), HEX, HASHES))


def index_of(rows: list[tuple[str, str, list[str], str, str]]) -> ShardIndex:
    keys, paths, classes, contents, perceptual_hashes = (
        map(list, zip(*rows, strict=True)) if rows else [[]] * 5
    )
    return ShardIndex(keys, paths, classes, [7] * len(rows), contents, perceptual_hashes)


@given(ROWS)
def test_a_sidecar_comes_back(rows: list[tuple[str, str, list[str], str, str]]) -> None:
    sidecar = Sidecar('{"file": "x"}', index_of(rows))
    text = sidecar.to_text()
    assert Sidecar.from_text(text) == sidecar
    for cut in (text[:-1], text[: len(text) // 2], text.split("\n", maxsplit=1)[0], ""):
        assert Sidecar.from_text(cut) is None


@given(ROWS)
def test_all_fingerprints_move(rows: list[tuple[str, str, list[str], str, str]]) -> None:
    found = {}
    for bucket, batch in index_of(rows).fingerprint_batches(FILE):
        assert batch.file == FILE
        assert 0 <= bucket < BUCKETS
        assert not len(unpack_left_out(batch))
        for row in unpack_batch(batch):
            assert row["content"] % BUCKETS == bucket
            content = row["content"].tobytes() + row["content2"].tobytes()
            perceptual_hash = f"{row['hash']:016x}" if row["has_hash"] else ""
            found[int(row["record"])] = (content.hex(), perceptual_hash)
    assert found == {
        at: (content, perceptual_hash) for at, (*_, content, perceptual_hash) in enumerate(rows)
    }


def test_nothing_moves_when_nothing_was_compared() -> None:
    assert list(ShardIndex(["a"], ["a.jpg"], [["cat"]], [3]).fingerprint_batches(FILE)) == []


def test_a_record_is_found_at_its_offset() -> None:
    records = [b"one", b"", b"three"]
    file = b"".join(
        (head := len(data).to_bytes(8, "little"))
        + masked_crc32c(head).to_bytes(4, "little")
        + data
        + masked_crc32c(data).to_bytes(4, "little")
        for data in records
    )
    assert list(read_records(io.BytesIO(file))) == records
    index = ShardIndex(["a", "b", "c"], ["1", "2", "3"], [["x"], ["x", "y"], [""]], [3, 0, 5])
    for number, data in enumerate(records):
        message = index.describe(FILE, number)
        start = message["offset"] + 12
        assert file[start : start + message["length"]] == data
    assert message == {
        "key": "c", "path": "3", "class": "", "split": "train", "file": FILE, "offset": 35,
        "length": 5,
    }  # fmt: skip


def test_contents_differ_by_one_bit() -> None:
    assert content_hash(b"a" * 1000) != content_hash(b"a" * 999 + b"b")
    assert content_hash(b"") == "99aa06d3014798d86001c324468d497f"  # XXH3's own test vector
