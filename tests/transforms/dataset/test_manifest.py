"""The manifest describes the dataset, is read as written, and its digests are of what decides."""

import dataclasses
import hashlib
import json
from itertools import starmap
from typing import Any

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.marks import cases
from tests.transforms.added import added_to, totals_of
from transforms.core.messages import Decision
from transforms.core.records import Count, RejectedPart
from transforms.core.rejections import Rejection
from transforms.dataset.image_statistics import DatasetWarning
from transforms.dataset.ledger import PlanTotals, RunTotals, ShardSummary, in_order
from transforms.dataset.manifest import (
    FORMAT_VERSION,
    Dataset,
    ManifestError,
    build_manifest,
    content_digest,
    content_summary,
    crc32c_hex,
    data_files,
    dataset_recipe,
    in_parts,
    index_entries,
    joined_crc32c,
    manifest_shards,
    parse_manifest,
    to_bytes,
)
from transforms.examples.layouts import LAYOUTS

DATASET = Dataset(
    options={"seed": 0, "splits": {"train": 0.8, "test": 0.2}},
    inputs={"images": ["한강/*.jpg"], "labels": []},
    root="한강",
    features=LAYOUTS["landmark"],
    splits=("train", "test"),
    decisions=(Decision("key", "stem", "default", "--key"),),
    warnings=(DatasetWarning("empty_split", "the split 'test' is empty"),),
)
SHARDS = (
    ShardSummary("train-00000-of-00002.tfrecord", "r0", 2, 100, "0000000a", 60, {"b": 1, "a": 1}),
    ShardSummary("train-00001-of-00002.tfrecord", "r1", 1, 50, "0000000b", 30, {"b": 1}),
    ShardSummary("test-00000-of-00001.tfrecord", "r2", 0, 0, "00000000"),
)
REJECTION = Rejection("image", "empty_file", "0 bytes", "a.jpg", "a")
COUNTS = {"images_found": 4, "rows_read": 5, "rows_rejected": 1}
GATHERED = in_order(
    DATASET.splits,
    {
        "totals": [PlanTotals(rows_used=3, rows_repeated=1)],
        "shards": [*SHARDS],
        "run": [added_to(RunTotals(), [REJECTION, *starmap(Count, COUNTS.items()), *SHARDS])],
    },
)
LABELS = b"a\nb\n"


def manifest(**changes: Any) -> dict[str, Any]:
    built = build_manifest(
        DATASET, GATHERED, data=data_files(SHARDS), recipe="whole", label_kind="text"
    )
    return {**built, "files": {"labels.txt": content_summary(LABELS)._asdict()}, **changes}


def parsed(**changes: Any) -> dict[str, Any]:
    """A manifest as it is read."""
    return parse_manifest(to_bytes(manifest(**changes)).decode(), "m")


def test_a_manifest_is_read_as_it_was_written() -> None:
    text = to_bytes(manifest()).decode()
    assert text.endswith("}\n")
    assert "한강" in text
    assert {"apache-beam", "tensorflow", "tfx-bsl"} <= set(manifest()["versions"])
    assert parsed() == {**manifest(), "digest": content_digest(manifest())}
    assert to_bytes(parsed()) == text.encode()
    assert [shard["file"] for shard in manifest_shards(parsed())] == [each.file for each in SHARDS]


def test_indexes_in_the_order_of_the_shards() -> None:
    indexed = {"index_bytes": 7, "index_crc32c": "0000000c"}
    entries = index_entries([dataclasses.replace(shard, **indexed) for shard in SHARDS])
    names = [shard.file.replace(".tfrecord", ".parquet") for shard in SHARDS]
    assert [entry["file"] for entry in entries] == [f"index/{name}" for name in names]
    assert entries[0] == {**entries[0], "records": 2, "bytes": 7, "crc32c": "0000000c"}
    assert parsed(index=entries)["index"] == entries


@pytest.mark.parametrize("content", [{**manifest(), "a": {"z": 1, "b": ["한강"]}, "z": None}, {}])
def test_the_digest_is_that_of_the_whole_text(content: dict[str, Any]) -> None:
    whole = json.dumps(content, sort_keys=True).encode()
    digest = hashlib.blake2b(whole, digest_size=16).hexdigest()
    assert content_digest({**content, "digest": "x"}) == content_digest(content) == digest


# What is no manifest, and what was edited.


@cases("", "{", "[]", "null", "3", '"text"', "{}", '{"version": 1}', '{\n "a": 1')
def test_another_file_is_no_manifest(text: str) -> None:
    with pytest.raises(ManifestError, match=r"^out/manifest\.json is not a manifest of this tool"):
        parse_manifest(text, "out/manifest.json")


ENTRY = {"file": "index/a-00000-of-00001.parquet", "records": 1, "bytes": 1, "crc32c": "0" * 8}
EDITED = "^m was edited: its '{}' cannot be read"
MANY = {f"{at}": 1 for at in range(2000)}
KINDS = ("options", "inputs", "versions", "features", "labels", "rejected", "partners")


@cases(
    *((key, value, EDITED.format(key)) for key in KINDS for value in (None, 5)),
    ("options", {"label_from": "csv", "label_regex": "x"}, EDITED.format("options")),
    ("options", {"key": ["stem"]}, EDITED.format("options")),
    ("partners", {"mask": 1}, EDITED.format("partners")),
    ("root", "/" * 5000, EDITED.format("root")),
    # Each of these takes the report, or a reading of rejections, the time of all.
    *((key, MANY, EDITED.format(key)) for key in ("rejected", "pixels")),
    ("features", [LAYOUTS["slim"][0].to_manifest()] * 20_001, EDITED.format("features")),
    (
        "features",
        [LAYOUTS["slim"][0].to_manifest() | {"shape": [1] * 65}],
        EDITED.format("features"),
    ),
    ("decided", [{}] * 20_001, EDITED.format("decided")),
    ("warnings", ["a warning"], EDITED.format("warnings")),
    ("index", [{**ENTRY, "bytes": -1}], EDITED.format("index")),
    ("index", [{**ENTRY, "records": "1"}], EDITED.format("index")),
    ("index", [{**ENTRY, "crc32c": "x"}], EDITED.format("index")),
    ("index", [{**ENTRY, "file": "../me/a.parquet"}], "'../me/a.parquet', which is not a file"),
    *(
        ("format_version", version, f"has format version {version}, this program reads")
        for version in (0, FORMAT_VERSION + 1, "1", None)
    ),
)
def test_an_edit_is_refused(key: str, value: object, says: str) -> None:
    assert parsed(partners={"mask": "in/masks"}, index=[ENTRY])
    with pytest.raises(ManifestError, match=says):
        parsed(**{key: value})
    with pytest.raises(ManifestError, match="more than 1000 entries"):
        parsed(**{f"{at}": 1 for at in range(1000)})


# Digests are of what decides.


@cases(
    {"options": {**DATASET.options, "seed": 1}},
    {"options": {}},
    {"features": LAYOUTS["slim"]},
    {"features": DATASET.features[::-1]},
)
def test_the_digest_depends_on_what_decides_bytes(change: dict[str, Any]) -> None:
    assert dataclasses.replace(DATASET, **change).digest != DATASET.digest


def test_the_digest_depends_on_the_format_version_and_not_on_places(monkeypatch: Any) -> None:
    options = dict(reversed(list(DATASET.options.items())))
    places: dict[str, Any] = {"inputs": {}, "root": "elsewhere", "decisions": (), "warnings": ()}
    moved = dataclasses.replace(DATASET, options=options, is_strict=True, **places)
    assert moved.digest == DATASET.digest
    before = DATASET.digest
    monkeypatch.setattr("transforms.dataset.manifest.FORMAT_VERSION", FORMAT_VERSION + 1)
    assert DATASET.digest != before


def test_the_recipe_of_a_dataset_depends_on_its_shards_and_rejections() -> None:
    recipes = {
        dataset_recipe(SHARDS, b""),
        dataset_recipe(SHARDS[:2], b""),
        dataset_recipe(SHARDS[::-1], b""),
        dataset_recipe(SHARDS, totals_of([REJECTION]).digest),
        dataset_recipe(SHARDS, totals_of([REJECTION] * 2).digest),
        dataset_recipe(SHARDS, totals_of([REJECTION._replace(detail="1 byte")]).digest),
    }
    assert len(recipes) == 6
    # A run that only compares knows the recipes of the shards, not what is in them.
    bare = [ShardSummary(shard.file, shard.recipe) for shard in SHARDS]
    assert dataset_recipe(bare, b"") == dataset_recipe(SHARDS, b"")


# Checksums: those of a file in parts are those of the joined file.


@given(st.lists(st.binary(max_size=40), max_size=5))
def test_parts_have_the_summary_of_their_bytes(texts: list[bytes]) -> None:
    parts = [
        RejectedPart(number, f"part {number}", 1, *content_summary(text))
        for number, text in enumerate(texts)
    ]
    whole = in_parts(parts[::-1])
    assert [part.bytes for part in whole] == [len(text) for text in texts if text]
    assert content_summary(whole) == content_summary(b"".join(texts))


def test_checksums_of_large_parts_are_those_of_the_whole() -> None:
    one, other = bytes(range(256)) * 999, b"\0" * 1_000_003
    checksums = (google_crc32c.value(one), google_crc32c.value(other))
    assert joined_crc32c(*checksums, len(other)) == google_crc32c.value(one + other)
    assert crc32c_hex(b"") == "00000000"
