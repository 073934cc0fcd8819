"""`croissant.json` from its parts; the checker itself reads it in tests/readers."""

from __future__ import annotations

import json
from typing import Any

from transforms.dataset.dataset_card import Card
from transforms.report.croissant import (
    CONFORMS_TO,
    HashedFile,
    IndexColumns,
    croissant_json,
    parse_properties,
)

SHARD = HashedFile("train-00000-of-00001.tfrecord", 12, "a" * 64)
INDEX = HashedFile("index/train-00000-of-00001.parquet", 34, "b" * 64)
PETS = Card("pets")
LABELS = HashedFile("labels.txt", 5, "c" * 64)


def made(card: Card = PETS, **changed: Any) -> dict[str, Any]:
    parts: dict[str, Any] = {
        "summary": "2 images.",
        "shards": [SHARD],
        "folders": (),
        "indexes": [INDEX],
        "labels": LABELS,
        "columns": IndexColumns(),
    }
    found: dict[str, Any] = json.loads(croissant_json(card, **{**parts, **changed}))
    return found


def fields(columns: IndexColumns) -> dict[str, str]:
    [records] = made(columns=columns)["recordSet"]
    found = {each["name"]: each["dataType"] for each in records["field"]}
    for each in records["field"]:
        assert each["source"]["extract"]["column"] == each["name"]
        assert each.get("repeated", False) == (
            columns.many_labels and each["name"] in ("label", "label_id")
        )
    assert ("key" in records) == (not columns.of_rows)
    return found


def test_files_have_their_hashes() -> None:
    files = made()["distribution"]
    objects = [each for each in files if each["@type"] == "cr:FileObject"]
    assert [each["sha256"] for each in objects] == ["a" * 64, "b" * 64, "c" * 64]
    assert [each["contentUrl"] for each in objects] == [SHARD.name, INDEX.name, LABELS.name]
    assert objects[0]["contentSize"] == "12 B"
    assert len({each["@id"] for each in files}) == len(files) == 4


def test_files_of_single_images_are_a_set() -> None:
    files = made(shards=[], folders=["train", "test"])["distribution"]
    sets = [each["includes"] for each in files if each["@type"] == "cr:FileSet"]
    assert sets == ["train/*", "test/*", "index/*.parquet"]


def test_compressed_shards_are_gzip() -> None:
    packed = SHARD._replace(name=f"{SHARD.name}.gz")
    assert made(shards=[packed])["distribution"][0]["encodingFormat"] == "application/gzip"


def test_fields_are_the_columns_that_have_values() -> None:
    every = fields(IndexColumns())
    assert {"key", "split", "label", "label_id", "width", "offset"} <= every.keys()
    assert every["label"] == "sc:Text" and every["label_id"] == "sc:Integer"
    assert fields(IndexColumns(many_labels=True)) == every
    assert every.keys() - fields(IndexColumns(labelled=False)).keys() == {"label", "label_id"}
    assert every.keys() - fields(IndexColumns(has_offsets=False)).keys() == {"offset"}
    alone = fields(IndexColumns(in_shards=False))
    assert every.keys() - alone.keys() == {"shard", "record", "offset"}
    of_rows = {"key", "shard", "record", "offset", "length"}
    assert fields(IndexColumns(of_rows=True)).keys() == of_rows


def test_what_is_not_said_is_left_out() -> None:
    bare = made()
    assert bare["description"] == "2 images." and bare["conformsTo"] == CONFORMS_TO
    assert not {"license", "citeAs", "url", "creator"} & bare.keys()


def test_what_is_said() -> None:
    text = parse_properties('{"rai:dataBiases": ["cats"], "creator": "Ann"}')
    card = Card("pets", "1.2.0", "고양이", "@misc{pets}", "cc-by-4.0", "https://a.org", text)
    said = made(card)
    assert (said["name"], said["version"], said["description"]) == ("pets", "1.2.0", "고양이")
    assert said["license"].endswith("CC-BY-4.0.html") and said["url"] == "https://a.org"
    assert said["citeAs"] == "@misc{pets}" and said["rai:dataBiases"] == ["cats"]
    assert len(said["conformsTo"]) == 2
