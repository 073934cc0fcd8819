"""The manifest describes the dataset, is read as written, and its digests are of what decides."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from itertools import starmap
from typing import Any

import google_crc32c
import pytest

from tests.transforms.added import added_to
from transforms.core.messages import Decision
from transforms.core.records import Count
from transforms.core.rejections import Rejection, RejectionTotals
from transforms.dataset.image_statistics import DatasetWarning
from transforms.dataset.ledger import Ledger, PlanTotals, RunTotals, ShardSummary, in_order
from transforms.dataset.manifest import (
    FORMAT_VERSION,
    Dataset,
    ManifestError,
    build_manifest,
    content_digest,
    content_summary,
    data_files,
    dataset_recipe,
    index_entries,
    manifest_indexes,
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
LEDGER = Ledger(4, 3, 1, 5, 3, 1, 0, 1)
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


def manifest() -> dict[str, Any]:
    built = build_manifest(
        DATASET,
        GATHERED,
        data=data_files(SHARDS),
        recipe="whole",
        label_kind="text",
    )
    return {**built, "files": {"labels.txt": content_summary(LABELS)._asdict()}}


def test_the_manifest_describes_the_dataset() -> None:
    built = manifest()
    versions = built.pop("versions")
    assert {"apache-beam", "tensorflow", "tfx-bsl"} <= set(versions)
    assert built == {
        "format_version": FORMAT_VERSION,
        "recipe": "whole",
        "options_digest": DATASET.digest,
        "options": DATASET.options,
        "inputs": DATASET.inputs,
        "root": "한강",
        "features": [
            {"name": "image_raw", "source": "image.bytes", "dtype": "bytes"},
            {"name": "landmark_id", "source": "label.id", "dtype": "int64"},
            {"name": "id", "source": "image.key", "dtype": "bytes"},
        ],
        "labels": "text",
        "decided": [{"what": "key", "value": "stem", "because": "default", "flag": "--key"}],
        "warnings": [{"code": "empty_split", "text": "the split 'test' is empty"}],
        "ledger": LEDGER.to_manifest(),
        "rejected": {"empty_file": 1},
        "splits": {
            "train": {
                "records": 3,
                "bytes": 150,
                "image_bytes": 90,
                "classes": {"a": 1, "b": 2},
                "shards": [described(shard) for shard in SHARDS[:2]],
            },
            "test": {
                "records": 0,
                "bytes": 0,
                "image_bytes": 0,
                "classes": {},
                "shards": [described(SHARDS[2])],
            },
        },
        "index": [],
        "files": {"labels.txt": {"bytes": 4, "crc32c": f"{google_crc32c.value(LABELS):08x}"}},
    }


def described(shard: ShardSummary) -> dict[str, Any]:
    kept = ("file", "recipe", "records", "bytes", "crc32c")
    return {name: getattr(shard, name) for name in kept}


def test_indexes_in_the_order_of_the_shards() -> None:
    shards = [
        dataclasses.replace(shard, index_bytes=7, index_crc32c="0000000c") for shard in SHARDS
    ]
    entries = index_entries(shards)
    assert [entry["file"] for entry in entries] == [
        "index/train-00000-of-00002.parquet",
        "index/train-00001-of-00002.parquet",
        "index/test-00000-of-00001.parquet",
    ]
    assert entries[0] == {**entries[0], "records": 2, "bytes": 7, "crc32c": "0000000c"}
    built = {**manifest(), "index": entries}
    assert manifest_indexes(parse_manifest(to_bytes(built).decode(), "manifest.json")) == entries


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"file": "../me/keep.parquet"}, "names '../me/keep.parquet', which is not a file of"),
        ({"bytes": -1}, "its 'index' cannot be read"),
        ({"records": "1"}, "its 'index' cannot be read"),
        ({"crc32c": "x"}, "its 'index' cannot be read"),
    ],
)
def test_an_edited_index_entry_is_refused(change: dict[str, Any], message: str) -> None:
    entry = {"file": "index/a-00000-of-00001.parquet", "records": 1, "bytes": 1, "crc32c": "0" * 8}
    built = {**manifest(), "index": [{**entry, **change}]}
    with pytest.raises(ManifestError, match=message):
        parse_manifest(to_bytes(built).decode(), "manifest.json")


def test_shards_in_the_order_of_the_splits() -> None:
    files = [shard["file"] for shard in manifest_shards(manifest())]
    assert files == [shard.file for shard in SHARDS]


def test_a_manifest_is_read_as_it_was_written() -> None:
    text = to_bytes(manifest()).decode()
    assert text.endswith("}\n") and "한강" in text
    parsed = parse_manifest(text, "manifest.json")
    assert parsed == {**manifest(), "digest": content_digest(manifest())}
    assert to_bytes(parse_manifest(text, "manifest.json")) == text.encode()


def test_the_digest_is_that_of_the_whole_text() -> None:
    content = {**manifest(), "a": {"z": 1, "b": ["한강"]}, "z": None}
    for each in (content, {}):
        whole = json.dumps(each, sort_keys=True).encode()
        digest = hashlib.blake2b(whole, digest_size=16).hexdigest()
        assert content_digest({**each, "digest": "x"}) == content_digest(each) == digest


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", "3", '"text"', "{}", '{"version": 1}', '{\n "a": 1'],
)
def test_another_file_is_no_manifest(text: str) -> None:
    with pytest.raises(ManifestError, match=r"^out/manifest\.json is not a manifest of this tool"):
        parse_manifest(text, "out/manifest.json")


@pytest.mark.parametrize(
    "key", ["options", "inputs", "versions", "features", "labels", "rejected", "partners"]
)
@pytest.mark.parametrize("value", [None, 5])
def test_a_value_of_another_kind_is_an_edit(key: str, value: object) -> None:
    text = to_bytes({**manifest(), key: value}).decode()
    with pytest.raises(ManifestError, match=f"^m was edited: its '{key}' cannot be read"):
        parse_manifest(text, "m")


def test_the_roots_of_masks_are_texts() -> None:
    held = {**manifest(), "partners": {"mask": "in/masks"}}
    assert parse_manifest(to_bytes(held).decode(), "m")["partners"] == {"mask": "in/masks"}
    text = to_bytes({**held, "partners": {"mask": 1}}).decode()
    with pytest.raises(ManifestError, match="^m was edited: its 'partners' cannot be read"):
        parse_manifest(text, "m")


@pytest.mark.parametrize("version", [0, FORMAT_VERSION + 1, "1", None])
def test_another_version_is_refused(version: object) -> None:
    text = json.dumps({**manifest(), "format_version": version})
    with pytest.raises(ManifestError, match=f"has format version {version}, this program reads"):
        parse_manifest(text, "m")


@pytest.mark.parametrize(
    "change",
    [
        {"options": {**DATASET.options, "seed": 1}},
        {"options": {}},
        {"features": LAYOUTS["slim"]},
        {"features": DATASET.features[::-1]},
    ],
)
def test_the_digest_depends_on_what_decides_bytes(change: dict[str, Any]) -> None:
    assert dataclasses.replace(DATASET, **change).digest != DATASET.digest


def test_the_digest_does_not_depend_on_places_nor_on_the_order_of_options() -> None:
    moved = dataclasses.replace(
        DATASET,
        options=dict(reversed(list(DATASET.options.items()))),
        inputs={},
        root="elsewhere",
        decisions=(),
        warnings=(),
        is_strict=True,
    )
    assert moved.digest == DATASET.digest


def test_the_digest_depends_on_the_format_version(monkeypatch: pytest.MonkeyPatch) -> None:
    before = DATASET.digest
    monkeypatch.setattr("transforms.dataset.manifest.FORMAT_VERSION", FORMAT_VERSION + 1)
    assert DATASET.digest != before


def test_the_recipe_of_a_dataset_depends_on_its_shards_and_rejections() -> None:
    recipes = {
        dataset_recipe(SHARDS, b""),
        dataset_recipe(SHARDS[:2], b""),
        dataset_recipe(SHARDS[::-1], b""),
        dataset_recipe(SHARDS, RejectionTotals.of([REJECTION]).digest),
        dataset_recipe(SHARDS, RejectionTotals.of([REJECTION] * 2).digest),
        dataset_recipe(SHARDS, RejectionTotals.of([REJECTION._replace(detail="1 byte")]).digest),
    }
    assert len(recipes) == 6


def test_the_recipe_does_not_depend_on_what_came_out() -> None:
    # A run that only compares knows the recipes of the shards, not what is in them.
    bare = [ShardSummary(shard.file, shard.recipe) for shard in SHARDS]
    assert dataset_recipe(bare, b"") == dataset_recipe(SHARDS, b"")
