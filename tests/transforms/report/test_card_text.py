"""`README.md` and `croissant.json` from their parts; their readers are in tests/readers."""

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.marks import cases
from transforms.dataset.dataset_options import (
    Card,
    card_of,
    check_homepage,
    check_name,
    check_text,
    check_version,
    hub_license,
    license_address,
    record_options,
)
from transforms.dataset.manifest import DataFile
from transforms.examples.layouts import LAYOUTS, MASK_FEATURES, Feature
from transforms.report.card_files import (
    CONFORMS_TO,
    DatasetContent,
    PropertiesError,
    card_text,
    croissant_json,
    parse_properties,
    properties_of,
)


def split(records: int, files: int, size: int, classes: dict[str, int]) -> dict[str, Any]:
    """A split as the manifest has it."""
    return {"records": records, "shards": [{}] * files, "bytes": size, "classes": classes}


SPLITS = {"train": split(3, 2, 2_000, {"cat": 2, "dog": 1}), "test": split(1, 1, 500, {"cat": 1})}
PETS = Card("my_pets")
CONTENT = DatasetContent(SPLITS, LAYOUTS["slim"], {}, {})


def parts(card: Card = PETS, content: DatasetContent = CONTENT) -> tuple[Any, str]:
    """The header of `README.md`, and the text after it."""
    empty, header, text = card_text(card, content).decode().split("---\n", 2)
    assert empty == ""
    return yaml.safe_load(header), text


def header(**card: Any) -> Any:
    return parts(Card("a", **card))[0]


def text(content: DatasetContent = CONTENT, **card: Any) -> str:
    return parts(Card("a", **card), content)[1]


def test_the_header_is_what_the_hub_reads() -> None:
    files = [{"split": name, "path": f"index/{name}-*.parquet"} for name in ("train", "test")]
    assert parts(Card("my_pets", license="CC-BY-4.0"))[0] == {
        "pretty_name": "My Pets",
        "license": "cc-by-4.0",
        "task_categories": ["image-classification"],
        "size_categories": ["n<1K"],
        "tags": ["tfrecord"],
        "configs": [{"config_name": "default", "data_files": files}],
    }
    assert "license" not in header()


@cases(
    ("ask: Ann", "license_name", "ask: Ann"),
    ("https://example.org/l", "license_link", "<https://example.org/l>"),
    # It stays in its line.
    ("Ask Ann.\n\n# Title\n- b", "license_name", "Ask Ann. \\# Title - b"),
)
def test_a_license_that_the_hub_does_not_know(name: str, field: str, line: str) -> None:
    found = header(license=name)
    assert (found["license"], found[field]) == ("other", name)
    assert f"\n- License: {line}\n\n## Splits" in text(license=name)


IMAGE = Feature.of_source("image", "image.bytes")


@cases(
    ([IMAGE], None),
    ([IMAGE, Feature.of_source("label", "label.id")], "image-classification"),
    (LAYOUTS["detection"], "object-detection"),
    (LAYOUTS["detection_masks"], "image-segmentation"),
    ([*LAYOUTS["detection"], *MASK_FEATURES], "object-detection"),
    ([*LAYOUTS["slim"], *MASK_FEATURES], "image-segmentation"),
    ([Feature("age", "csv.age", "int64")], None),
)
def test_the_task_is_that_of_the_layout(features: Sequence[Feature], task: str | None) -> None:
    content = CONTENT._replace(features=tuple(features))
    assert parts(content=content)[0].get("task_categories") == ([task] if task else None)


def test_the_text_says_what_and_how_many() -> None:
    card = Card("my_pets", "1.2.0", "Photos.\n\n# Of pets", "@misc{a}", "MIT", "https://a.org")
    _, said = parts(card)
    begin = "\n# My Pets\n\nPhotos.\n\n# Of pets\n\n4 images of 2 classes as TFRecords"
    assert said.startswith(begin)
    lines = [
        *("- Version: 1.2.0", "- Homepage: <https://a.org>", "- License: MIT"),
        *("| train | 3 | 2 | 2.0 KB |", "## Classes (2)", "| cat | 2 | 1 |", "| dog | 1 | 0 |"),
        *("```bibtex",),
        'dataset = tfds.load("my_pets:1.2.0", data_dir="DATA_DIR", split="train")',
    ]
    assert [line for line in lines if f"\n{line}\n" not in said] == []
    assert said.endswith("```\n")
    assert "Left out" not in said


ONE = {"all": split(1, 1, 9, {"": 1})}


@cases(
    ({"rejected": {"corrupt_image": 2}}, "Left out: 2 `corrupt_image`; `rejected.jsonl`", "\0"),
    ({"changed": {"resized": 3}}, "Changes to the images: 3 resized.", "Left out"),
    ({"has_tfds": False, "has_offsets": False}, 'compression_type="GZIP"', "tfds"),
    ({"has_tfds": False, "in_shards": False}, 'glob("FOLDER/train/*")', "tfds"),
    ({"splits": ONE, "of_rows": True}, "1 record as TFRecords, in 1 split (all).", "## Cla"),
)
def test_the_text_of_other_datasets(changes: dict[str, Any], says: str, never: str) -> None:
    said = text(CONTENT._replace(**changes))
    assert says in said
    assert never not in said


def test_names_and_citations_cannot_break_the_text() -> None:
    odd = {"train": split(1, 1, 1, {"a|b\n# c": 1, "<b>`x`&lt;": 1, "long" * 99: 1})}
    said = text(CONTENT._replace(splits=odd))
    table = said.split("## Classes (3)\n\n")[1].split("\n\n")[0].splitlines()
    assert len(table) == 5
    assert {line.replace("\\|", "").count("|") for line in table} == {3}
    assert "\\<b\\>\\`x\\`\\&lt;" in said
    assert "long" * 99 not in said
    assert text(citation="```\n# Title\n```").endswith("\n````\n```\n# Title\n```\n````\n")


def test_many_classes_are_cut() -> None:
    many = {"train": split(1, 1, 1, {str(number): 1 for number in range(1000)})}
    said = text(CONTENT._replace(splits=many))
    assert "\n| 99 | 1 |\n" in said
    assert "\n| 100 | 1 |\n" not in said
    assert "… and 900 more" in said


# `croissant.json`.

SHARD = DataFile("train", "train-00000-of-00001.tfrecord", "", "", 2, 12, "", "a" * 64)
INDEX = DataFile("train", "index/train-00000-of-00001.parquet", "", "", 2, 34, "", "b" * 64)
OF_CATS: dict[str, Any] = {
    "train": {"records": 2, "classes": {"cat": 2}},
    "test": {"records": 0, "classes": {}},
}
CATS = DatasetContent(OF_CATS, LAYOUTS["slim"], {}, {})


def made(card: Card = PETS, shard: DataFile = SHARD, **changes: Any) -> dict[str, Any]:
    content = CATS._replace(**changes)
    data = croissant_json(card, content, data=[shard], indexes=[INDEX], labels=b"cat\ndog\n")
    found: dict[str, Any] = json.loads(data)
    return found


def fields(**changes: Any) -> dict[str, str]:
    [records] = made(**changes)["recordSet"]
    for each in records["field"]:
        assert each["source"]["extract"]["column"] == each["name"]
        is_list = "features" in changes and each["name"] in ("label", "label_id")
        assert each.get("repeated", False) == is_list
    assert ("key" in records) == ("of_rows" not in changes)
    return {each["name"]: each["dataType"] for each in records["field"]}


def test_files_have_their_hashes() -> None:
    files = made()["distribution"]
    objects = [each for each in files if each["@type"] == "cr:FileObject"]
    of_labels = hashlib.sha256(b"cat\ndog\n").hexdigest()
    assert [(each["contentUrl"], each["sha256"]) for each in objects] == [
        *((SHARD.file, "a" * 64), (INDEX.file, "b" * 64), ("labels.txt", of_labels))
    ]
    assert objects[0]["contentSize"] == "12 B"
    assert len({each["@id"] for each in files}) == len(files) == 4
    packed = made(shard=SHARD._replace(file=f"{SHARD.file}.gz"))["distribution"][0]
    assert packed["encodingFormat"] == "application/gzip"


def test_files_of_single_images_are_a_set() -> None:
    files = made(in_shards=False)["distribution"]
    sets = [each["includes"] for each in files if each["@type"] == "cr:FileSet"]
    assert sets == ["train/*", "test/*", "index/*.parquet"]


@cases(
    ({"features": [Feature.of_source("labels", "label.texts")]}, set()),
    ({"splits": {}}, {"label", "label_id"}),
    ({"has_offsets": False}, {"offset"}),
    ({"in_shards": False}, {"shard", "record", "offset"}),
)
def test_fields_are_columns_that_have_values(changes: dict[str, Any], missing: set[str]) -> None:
    every = fields()
    assert {"key", "split", "label", "label_id", "width", "offset"} <= every.keys()
    assert (every["label"], every["label_id"]) == ("sc:Text", "sc:Integer")
    assert every.keys() - fields(**changes).keys() == missing
    assert fields(of_rows=True).keys() == {"key", "shard", "record", "offset", "length"}


def test_what_is_said_and_what_is_not() -> None:
    bare = made()
    assert bare["description"].startswith("2 images of 1 class as TFRecords, in 2 splits")
    assert bare["conformsTo"] == CONFORMS_TO
    assert not {"license", "citeAs", "url", "creator"} & bare.keys()
    properties = parse_properties('{"rai:dataBiases": ["cats"], "creator": "Ann"}')
    words = ("1.2.0", "고양이", "@misc{pets}", "cc-by-4.0", "https://a.org", properties)
    said = made(Card("pets", *words))
    assert (said["name"], said["version"], said["description"]) == ("pets", "1.2.0", "고양이")
    assert said["license"].endswith("CC-BY-4.0.html")
    assert (said["url"], said["citeAs"]) == ("https://a.org", "@misc{pets}")
    assert said["rai:dataBiases"] == ["cats"]
    assert len(said["conformsTo"]) == 2


# Properties that a user gives for `croissant.json`.

YAML = """
creator: [Ann Lee, {"@type": "sc:Organization", name: Lab, url: https://example.org}]
datePublished: 2026-01-31
keywords: [cats, dogs]
rai:dataBiases:
  - More cats than dogs.
rai:personalSensitiveInformation: none
"""


def test_properties_keep_their_texts_in_yaml_and_json() -> None:
    once = parse_properties(YAML)
    lab = {"@type": "sc:Organization", "name": "Lab", "url": "https://example.org"}
    assert properties_of(once) == {
        "creator": [{"@type": "sc:Person", "name": "Ann Lee"}, lab],
        "datePublished": "2026-01-31",
        "keywords": ["cats", "dogs"],
        "rai:dataBiases": ["More cats than dogs."],
        "rai:personalSensitiveInformation": "none",
    }
    assert parse_properties(once) == once
    assert parse_properties(json.dumps(json.loads(once), indent=3)) == once
    assert properties_of("") == {}


@pytest.mark.parametrize("indent", [None, 1, "\t"])
def test_json_of_other_writers(indent: str | int | None) -> None:
    properties = {"creator": {"@type": "sc:Person", "name": "Ann \U0001f600"}, "keywords": ["7"]}
    given = json.dumps(properties, indent=indent).replace('"7"', "7")
    assert "\\ud83d" in given
    assert properties_of(parse_properties(given)) == properties
    parse_properties(given).encode()


TEXTS = "'keywords' must be a text or a list of texts"


@cases(
    *(("", "holds no properties"), ("[1, 2]", "holds no properties")),
    *(("a: b: c", "line 1: invalid YAML"), ("\0", "its text is not YAML, or ")),
    ("[" * 500, "nested too deeply"),
    ("name: pets", "'name' is filled from --name: leave it out"),
    ("recordSet: x", "'recordSet' is filled from the dataset itself"),
    ("author: Ann", "not a property that can be given; did you mean creator"),
    ("x: y", "not a property that can be given; it may be creator"),
    ("rai:dataBias: x", "did you mean rai:dataBiases"),
    ("datepublished: x", "did you mean datePublished"),
    ("datePublished: soon", "'soon', which is not a date such as"),
    ("rai:dataCollectionTimeframe: 2020 to 2021", "is not a date such as"),
    *(("creator: []", "'creator' has no value"), ("creator:", "'creator' has an empty value")),
    ("creator: {name: [a]}", "'creator' has values inside of values"),
    *((given, TEXTS) for given in ("keywords: [[a]]", "keywords: {a: b}")),
    ('{"keywords": null}', TEXTS),
    # Aliases do not grow.
    ("keywords: &a [x, x]\nsameAs: &b [*a, *a]\ninLanguage: [*b, *b]", "must be a text or"),
    ('{"creator": "\\ud83d"}', "'creator': .* is not valid UTF-8"),
    ('creator: {name: "\\ud83d"}', "'creator': .* is not valid UTF-8"),
    ('keywords: ["\\e[31m"]', r"'keywords': .* holds the control character '\\x1b'"),
)
def test_other_properties_are_refused_in_one_line(given: str, why: str) -> None:
    with pytest.raises(PropertiesError, match=why) as refused:
        parse_properties(given)
    assert len(str(refused.value).splitlines()) == 1


def test_the_properties_of_the_document() -> None:
    document = (Path(__file__).parents[3] / "docs" / "card.md").read_text("utf-8")
    options, given = re.findall(r"^```yaml\n(.*?)^```", document, re.DOTALL | re.MULTILINE)
    assert {"name", "description"} < yaml.safe_load(options).keys() <= set(Card._fields)
    assert "rai:dataCollection" in properties_of(parse_properties(given))


# The values of a card, its license, and the options that are of the card alone.


@cases(
    *((check_name, name, name) for name in ("pets", "a", "pets_2", "a__b")),
    *((check_version, each, each) for each in ("0.0.0", "1.2.0", "10.200.3000")),
    (check_text, "\n# 애완동물\r\n\tcats\rdogs ", "# 애완동물\n\tcats\ndogs"),
    (check_text, "word " * 100_000, ("word " * 100_000).rstrip()),
    (check_homepage, "https://example.org/pets?a=1", "https://example.org/pets?a=1"),
    (check_homepage, " https://example.org\n", "https://example.org"),
)
def test_a_value_is_kept(check: Callable[[str], str], value: str, kept: str) -> None:
    assert check(value) == kept


ADDRESSES = ("example.org", "ftp://a/b", "https:///a", "https://a b", "javascript:1")
VERSIONS = ("", "1", "1.2", "1.2.3.4", "01.2.3", "1.2.3\n", "v1.2.3", "1.*.*", "١.٢.٣")
NAMES = {"My-Pets": "such as my_pets", "2 pets": "such as pets", "pets\n": "such as pets"}
NAMES |= {"../pets": "such as pets", "애완": "beginning with a-z", "": "beginning with a-z"}


@cases(
    *((check_name, name, f"is not a name: .*{hint}$") for name, hint in NAMES.items()),
    *((check_version, each, "is not a version: write three numbers") for each in VERSIONS),
    (check_text, " \n", "it is blank"),
    (check_text, "a\0b", r"holds the control character '\\x00'"),
    (check_text, "\x1b[31m", "holds the control character"),
    (check_text, "a\udcff", "is not valid UTF-8"),
    *((check_homepage, each, "is not a web address") for each in ADDRESSES),
    (check_homepage, "https://a.org/><b>", "is not a web address"),
    (check_homepage, 'https://a"', "is not a web address"),
)
def test_another_value_is_refused(check: Callable[[str], str], value: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        check(value)


def test_a_card_is_options() -> None:
    card = Card("pets", "1.2.0", license="MIT")
    options = {"seed": 1, "name": "pets", "dataset_version": "1.2.0", "license": "MIT"}
    assert card_of(options) == card
    assert card_of({"seed": 1}) is None
    assert record_options(options) == {"seed": 1}


@cases(
    *(("CC-BY-4.0", "cc-by-4.0"), ("cc0-1.0", "cc0-1.0"), ("mit", "mit")),
    *(("ODC-By-1.0", "odc-by"), ("ask Ann", ""), ("https://example.org/license", "")),
    ("https://creativecommons.org/licenses/by-nc-sa/4.0/legalcode", "cc-by-nc-sa-4.0"),
    ("https://creativecommons.org/licenses/by/4.0/deed.ko", "cc-by-4.0"),
    ("http://creativecommons.org/publicdomain/zero/1.0/", "cc0-1.0"),
    ("https://creativecommons.org/licenses/by/9.0/", ""),
)
def test_the_hub_has_its_own_names_of_licenses(text: str, hub: str) -> None:
    assert hub_license(text) == hub


@pytest.mark.parametrize("text", ["https://example.org/license", "ask Ann", ""])
def test_a_license_has_an_address_if_spdx_knows_it(text: str) -> None:
    assert license_address("odbl") == "https://spdx.org/licenses/ODbL-1.0.html"
    assert license_address(text) == text
