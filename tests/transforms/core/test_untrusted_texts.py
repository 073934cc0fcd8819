"""Texts of JSON and YAML that are made to take gigabytes or minutes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import UsageError
from pipeline.options.parser import parse_flags
from transforms.core.messages import LabelsError, parse_json
from transforms.examples.encoder import table_features
from transforms.examples.layout_files import LayoutError, parse_layout
from transforms.labels.annotations import yaml_class_names
from transforms.report.card_files import PropertiesError, parse_properties


@pytest.mark.parametrize("encode", [str, str.encode])
@pytest.mark.parametrize("item", ["[]", "{}", "1.5"])
def test_json_of_millions_of_values_is_refused(item: str, encode: Callable[[str], Any]) -> None:
    text = f"[{','.join([item] * 11_000_000)}]"
    with pytest.raises(ValueError, match="it has more than 10000000 values"):
        parse_json(encode(text))


@pytest.mark.parametrize(
    ("read", "error"),
    [
        (parse_layout, LayoutError),
        (yaml_class_names, LabelsError),
        (lambda _, path: parse_flags("convert", ["--config", path]), UsageError),
        (lambda text, _: parse_properties(text), PropertiesError),
    ],
)
def test_yaml_of_thousands_of_lines_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    read: Callable[[str, str], object],
    error: type[Exception],
) -> None:
    monkeypatch.chdir(tmp_path)
    for text in ("a: 1\n" * 60_000, f"a: [{'b,' * 60_000}]"):
        Path("a.yaml").write_text(text)
        with pytest.raises(error) as caught:
            read(text, "a.yaml")
        assert error is PropertiesError or "50000 commas and lines" in str(caught.value)


def test_a_table_of_thousands_of_columns_is_refused() -> None:
    names = [f"c{at}" for at in range(25_001)]
    with pytest.raises(LabelsError, match="a.csv has 25001 columns, more than 25000: name those"):
        table_features(names, None, path="a.csv")
    assert len(table_features(names[1:], None, path="a.csv")) == 25_000
