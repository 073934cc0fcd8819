"""The conformance tables of docs/engines.md, which the tests write with `ENGINES_TABLE=1`."""

from __future__ import annotations

import re
from typing import NamedTuple

from tests.pipeline.commands import ROOT

DOCUMENT = ROOT / "docs" / "engines.md"
# The tables: of few images of every kind, and of many names.
IMAGES, NAMES = "conformance", "many names"
HEAD = "| engine | version | seconds | hash equal |\n|---|---|---|---|\n"


class Row(NamedTuple):
    """One engine, as it was run last."""

    engine: str
    version: str
    seconds: float
    is_equal: bool

    def line(self) -> str:
        """The row of the table."""
        equal = "yes" if self.is_equal else "**no**"
        return f"| {self.engine} | {self.version} | {self.seconds:.0f} | {equal} |\n"


def listed_engines(name: str = IMAGES) -> list[str]:
    """The engines that a table of the document has."""
    return re.findall(r"^\| ([^|]+?) \|", _around(name)[1], re.MULTILINE)[1:]


def _around(name: str) -> tuple[str, str, str]:
    """The document before a table with its first mark, the table, and the rest."""
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
    before, rest = DOCUMENT.read_text("utf-8").split(begin)
    table, after = rest.split(end)
    return f"{before}{begin}", table, f"{end}{after}"


def write(rows: dict[str, Row], order: list[str], name: str = IMAGES) -> None:
    """Replaces the rows of these engines; others keep what a former run said."""
    before, table, after = _around(name)
    former = {line.split(" | ")[0][2:]: f"{line}\n" for line in table.splitlines()[2:]}
    lines = former | {engine: row.line() for engine, row in rows.items()}
    text = HEAD + "".join(lines[engine] for engine in order if engine in lines)
    DOCUMENT.write_text(f"{before}{text}{after}", "utf-8")
