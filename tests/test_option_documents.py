"""What is made from the table of options is as the table has it now."""

import importlib
from pathlib import Path

import pytest

from pipeline.command_line import COMMANDS
from pipeline.options.option_table import OPTIONS
from tests.option_documents import documents


@pytest.mark.parametrize("path", documents(), ids=lambda path: path.name)
def test_a_document_is_up_to_date(path: Path) -> None:
    assert path.read_text("utf-8") == documents()[path], "run python -m tests.option_documents"


def test_the_reference_names_every_option_once() -> None:
    (text,) = (text for path, text in documents().items() if path.name == "options.md")
    for name in OPTIONS:
        assert text.count(f"\n| `--{name}`") == 1


def test_the_reference_has_every_command_and_its_flags() -> None:
    (text,) = (text for path, text in documents().items() if path.name == "options.md")
    for command in set(COMMANDS) - {"convert", "plan"}:
        part = text.partition(f"\n## `{command}`\n")[2].partition("\n## ")[0]
        parser = importlib.import_module(f"pipeline.{command}").make_parser()
        names = [flag for action in parser._actions for flag in action.option_strings]
        shown = {flag for flag in names if flag not in ("-h", "--help", "--version")}
        assert part and not {flag for flag in shown if f"`{flag}`" not in part}
