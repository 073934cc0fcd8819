"""The house stays within its budgets; `scripts/measure_house.py` counts."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.marks import cases

ROOT = Path(__file__).parent.parent


def _load() -> Any:
    spec = importlib.util.spec_from_file_location(
        "measure_house", ROOT / "scripts" / "measure_house.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


ruler = _load()


@pytest.fixture(scope="module")
def house() -> Any:
    return ruler.measure(ROOT)


def figures(house: Any) -> dict[str, dict[str, int]]:
    """Budgets that a house just meets."""
    return {"totals": house.totals(), "rooms": house.code, "subjects": house.subjects}


@cases(
    ('"""What a module is."""\n', 0),
    ("import os\n\nfrom a import (\n    b,\n    c,\n)\n", 0),
    ("# Why.\nx = 1  # why\n\n\ny = 2\n", 2),
    ('def f():\n    """What it does.\n\n    More.\n    """\n    return 1\n', 2),
    ('text = """not\na docstring"""\n', 2),
    ("if x:\n    import os\n", 1),
)
def test_code_is_without_imports_docstrings_comments_and_blank_lines(text: str, lines: int) -> None:
    assert ruler.code_lines(text) == lines


def test_no_figure_is_above_its_budget(house: Any) -> None:
    """A feature takes the lines that it needs from somewhere else, in the same change."""
    assert ruler.over_budget(house, ruler.budgets(ROOT)) == []


@pytest.mark.parametrize("table", ["totals", "rooms", "subjects"])
def test_each_figure_above_its_budget_is_named(house: Any, table: str) -> None:
    allowed = figures(house)
    for name, figure in allowed[table].items():
        tight = {**allowed, table: {**allowed[table], name: figure - 1}}
        assert ruler.over_budget(house, tight) == [
            f"{table} {name}: {figure}, allowed {figure - 1}"
        ]
