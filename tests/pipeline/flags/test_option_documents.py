"""What is made from the table of options is as the table has it now."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.flags.option_documents import documents
from pipeline.flags.option_table import OPTIONS


@pytest.mark.parametrize("path", documents(), ids=lambda path: path.name)
def test_a_document_is_up_to_date(path: Path) -> None:
    assert path.read_text("utf-8") == documents()[path], (
        "run python -m pipeline.flags.option_documents"
    )


def test_the_reference_names_every_option_once() -> None:
    (text,) = (text for path, text in documents().items() if path.name == "options.md")
    for name in OPTIONS:
        assert text.count(f"\n| `--{name}`") == 1
