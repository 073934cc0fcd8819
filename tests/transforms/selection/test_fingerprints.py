"""Fingerprints come back from indexes and shuffles as they were."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.transforms.records.tables import IndexedImage, index_of
from transforms.records.record_index import content_hash
from transforms.selection.duplicates import BUCKETS, FINGERPRINT, fingerprint_batches

FILE = "train-00000-of-00001.tfrecord"
TEXTS = st.text(max_size=5)
HEX = st.integers(0, 2**128 - 1).map(lambda number: f"{number:032x}")
HASHES = st.one_of(st.none(), st.integers(0, 2**64 - 1))
ROWS = st.lists(
    st.builds(IndexedImage, TEXTS, TEXTS, st.lists(TEXTS, min_size=1, max_size=2), HEX, HASHES)
)


@given(ROWS)
def test_all_fingerprints_move(rows: list[IndexedImage]) -> None:
    found = {}
    for bucket, batch in fingerprint_batches(index_of(rows, FILE), FILE):
        assert batch.file == FILE
        assert 0 <= bucket < BUCKETS
        for row in np.frombuffer(batch.rows, FINGERPRINT):
            assert row["content"] % BUCKETS == bucket
            content = row["content"].tobytes() + row["content2"].tobytes()
            perceptual_hash = int(row["hash"]) if row["has_hash"] else None
            found[int(row["record"])] = (content.hex(), perceptual_hash)
    assert found == {at: (row.content, row.perceptual_hash) for at, row in enumerate(rows)}


def test_nothing_moves_when_nothing_was_compared() -> None:
    assert list(fingerprint_batches(index_of([IndexedImage()], FILE), FILE)) == []


def test_contents_differ_by_one_bit() -> None:
    assert content_hash(b"a" * 1000) != content_hash(b"a" * 999 + b"b")
    assert content_hash(b"") == "99aa06d3014798d86001c324468d497f"  # XXH3's own test vector
