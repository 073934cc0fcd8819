"""`croissant.json` from its parts; the checker itself reads it in tests/readers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from transforms.dataset.dataset_options import Card
from transforms.dataset.manifest import DataFile
from transforms.examples.layouts import LAYOUTS, Feature
from transforms.report.card_files import (
    CONFORMS_TO,
    DatasetContent,
    croissant_json,
    parse_properties,
)

SHARD = DataFile("train", "train-00000-of-00001.tfrecord", "", "", 2, 12, "", "a" * 64)
INDEX = DataFile("train", "index/train-00000-of-00001.parquet", "", "", 2, 34, "", "b" * 64)
PETS = Card("pets")
SPLITS = {"train": {"records": 2, "classes": {"cat": 2}}, "test": {"records": 0, "classes": {}}}
CONTENT = DatasetContent(SPLITS, LAYOUTS["slim"], {}, {})


def made(
    card: Card = PETS, content: DatasetContent = CONTENT, shards: Sequence[DataFile] = (SHARD,)
) -> dict[str, Any]:
    text = croissant_json(card, content, data=shards, indexes=[INDEX], labels=b"cat\ndog\n")
    found: dict[str, Any] = json.loads(text)
    return found


def fields(**changed: Any) -> dict[str, str]:
    content = CONTENT._replace(**changed)
    [records] = made(content=content)["recordSet"]
    found = {each["name"]: each["dataType"] for each in records["field"]}
    for each in records["field"]:
        assert each["source"]["extract"]["column"] == each["name"]
        assert each.get("repeated", False) == (
            content.has_many_labels and each["name"] in ("label", "label_id")
        )
    assert ("key" in records) == (not content.of_rows)
    return found


def test_files_have_their_hashes() -> None:
    files = made()["distribution"]
    objects = [each for each in files if each["@type"] == "cr:FileObject"]
    assert [each["sha256"] for each in objects] == [
        *("a" * 64, "b" * 64),
        hashlib.sha256(b"cat\ndog\n").hexdigest(),
    ]
    assert [each["contentUrl"] for each in objects] == [SHARD.file, INDEX.file, "labels.txt"]
    assert objects[0]["contentSize"] == "12 B"
    assert len({each["@id"] for each in files}) == len(files) == 4


def test_files_of_single_images_are_a_set() -> None:
    files = made(content=CONTENT._replace(in_shards=False))["distribution"]
    sets = [each["includes"] for each in files if each["@type"] == "cr:FileSet"]
    assert sets == ["train/*", "test/*", "index/*.parquet"]


def test_compressed_shards_are_gzip() -> None:
    packed = SHARD._replace(file=f"{SHARD.file}.gz")
    assert made(shards=[packed])["distribution"][0]["encodingFormat"] == "application/gzip"


def test_fields_are_the_columns_that_have_values() -> None:
    every = fields()
    assert {"key", "split", "label", "label_id", "width", "offset"} <= every.keys()
    assert every["label"] == "sc:Text" and every["label_id"] == "sc:Integer"
    assert fields(features=[Feature.of_source("labels", "label.texts")]) == every
    assert every.keys() - fields(splits={}).keys() == {"label", "label_id"}
    assert every.keys() - fields(has_offsets=False).keys() == {"offset"}
    alone = fields(in_shards=False)
    assert every.keys() - alone.keys() == {"shard", "record", "offset"}
    of_rows = {"key", "shard", "record", "offset", "length"}
    assert fields(of_rows=True).keys() == of_rows


def test_what_is_not_said_is_left_out() -> None:
    bare = made()
    assert bare["description"].startswith("2 images of 1 class as TFRecords, in 2 splits")
    assert bare["conformsTo"] == CONFORMS_TO
    assert not {"license", "citeAs", "url", "creator"} & bare.keys()


def test_what_is_said() -> None:
    text = parse_properties('{"rai:dataBiases": ["cats"], "creator": "Ann"}')
    card = Card("pets", "1.2.0", "고양이", "@misc{pets}", "cc-by-4.0", "https://a.org", text)
    said = made(card)
    assert (said["name"], said["version"], said["description"]) == ("pets", "1.2.0", "고양이")
    assert said["license"].endswith("CC-BY-4.0.html") and said["url"] == "https://a.org"
    assert said["citeAs"] == "@misc{pets}" and said["rai:dataBiases"] == ["cats"]
    assert len(said["conformsTo"]) == 2
