"""Properties that a user gives for `croissant.json`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from transforms.dataset.dataset_options import Card
from transforms.report.card_files import PropertiesError, parse_properties, properties_of

YAML = """
creator: [Ann Lee, {"@type": "sc:Organization", name: Lab, url: https://example.org}]
datePublished: 2026-01-31
keywords: [cats, dogs]
rai:dataBiases:
  - More cats than dogs.
rai:personalSensitiveInformation: none
"""


def test_properties_keep_their_texts() -> None:
    found = properties_of(parse_properties(YAML))
    assert found == {
        "creator": [
            {"@type": "sc:Person", "name": "Ann Lee"},
            {"@type": "sc:Organization", "name": "Lab", "url": "https://example.org"},
        ],
        "datePublished": "2026-01-31",
        "keywords": ["cats", "dogs"],
        "rai:dataBiases": ["More cats than dogs."],
        "rai:personalSensitiveInformation": "none",
    }


def test_json_is_the_same_and_stays_it() -> None:
    once = parse_properties(YAML)
    assert parse_properties(once) == once
    assert parse_properties(json.dumps(json.loads(once), indent=3)) == once
    assert properties_of("") == {}


@pytest.mark.parametrize("indent", [None, 1, "\t"])
def test_json_of_other_writers(indent: str | int | None) -> None:
    properties = {"creator": {"@type": "sc:Person", "name": "Ann \U0001f600"}, "keywords": ["7"]}
    text = json.dumps(properties, indent=indent).replace('"7"', "7")
    assert "\\ud83d" in text
    assert properties_of(parse_properties(text)) == properties
    parse_properties(text).encode()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "holds no properties"),
        ("[1, 2]", "holds no properties"),
        ("a: b: c", "line 1: invalid YAML"),
        ("\0", "neither YAML nor JSON"),
        ("[" * 100_000, "neither YAML nor JSON|invalid YAML"),
        ("name: pets", "'name' is filled from --name: leave it out"),
        ("recordSet: x", "'recordSet' is filled from the dataset itself"),
        ("author: Ann", "not a property that can be given; it may be creator"),
        ("rai:dataBias: x", "did you mean rai:dataBiases"),
        ("datepublished: x", "did you mean datePublished"),
        ("datePublished: soon", "'soon', which is not a date such as"),
        ("rai:dataCollectionTimeframe: 2020 to 2021", "is not a date such as"),
        ("creator: []", "'creator' has no value"),
        ("creator:", "'creator' has an empty value"),
        ("keywords: [[a]]", "'keywords' must be a text or a list of texts"),
        ("keywords: {a: b}", "'keywords' must be a text or a list of texts"),
        ("creator: {name: [a]}", "'creator' has values inside of values"),
        ('{"creator": "\\ud83d"}', "'creator': .* is not valid UTF-8"),
        ('creator: {name: "\\ud83d"}', "'creator': .* is not valid UTF-8"),
        ('keywords: ["\\e[31m"]', r"'keywords': .* holds the control character '\\x1b'"),
        ('{"keywords": null}', "'keywords' must be a text or a list of texts"),
    ],
)
def test_others_are_refused_in_one_line(text: str, why: str) -> None:
    with pytest.raises(PropertiesError, match=why) as refused:
        parse_properties(text)
    assert len(str(refused.value).splitlines()) == 1


def test_the_properties_of_the_document() -> None:
    text = (Path(__file__).parents[3] / "docs" / "card.md").read_text("utf-8")
    options, properties = re.findall(r"^```yaml\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert {"name", "description"} < yaml.safe_load(options).keys() <= set(Card._fields)
    assert "rai:dataCollection" in properties_of(parse_properties(properties))


def test_aliases_do_not_grow() -> None:
    bomb = "keywords: &a [x, x]\nsameAs: &b [*a, *a]\ninLanguage: [*b, *b]"
    with pytest.raises(PropertiesError, match="must be a text or a list of texts"):
        parse_properties(bomb)
