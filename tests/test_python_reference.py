"""`docs/python_reference.md` is what the code has now."""

import inspect
import re

import pipeline
import transforms
from tests.python_reference import DOCUMENT, reference


def test_the_reference_is_up_to_date() -> None:
    assert DOCUMENT.read_text("utf-8") == reference(), "run python -m tests.python_reference"


def test_every_public_name_and_argument_is_described() -> None:
    parts = dict(re.findall(r"^### `(\w+)`\n(.*?)(?=^##|\Z)", reference(), re.M | re.S))
    assert set(parts) == {*transforms.__all__, *pipeline.__all__}
    for package in (transforms, pipeline):
        for name in package.__all__:
            value, part = getattr(package, name), parts[name]
            assert inspect.getdoc(value), name
            if inspect.isclass(value) and issubclass(value, Exception):
                continue
            for parameter in inspect.signature(value).parameters:
                assert parameter == "options" or f"| `{parameter}` |" in part, (name, parameter)


def test_no_meaning_of_an_argument_is_missing_in_the_steps_for_users() -> None:
    parts = dict(re.findall(r"^### `(\w+)`\n(.*?)(?=^##|\Z)", reference(), re.M | re.S))
    for name in ("FindImages", "LabelImages", "WriteDataset", "load", "ConvertDataset"):
        rows = re.findall(r"^\| `\w+` \|.*\|$", parts[name], re.M)
        assert rows and not [row for row in rows if re.search(r"(?<!\\)\|  ?\|$", row)], name
