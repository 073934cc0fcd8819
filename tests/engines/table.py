"""The conformance table of docs/engines.md, which the tests write with `ENGINES_TABLE=1`."""

from __future__ import annotations

import re
from typing import NamedTuple

from tests.pipeline.commands import ROOT

DOCUMENT = ROOT / "docs" / "engines.md"
BEGIN, END = "<!-- conformance: begin -->\n", "<!-- conformance: end -->"
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


def listed_engines() -> list[str]:
    """The engines that the document's table has."""
    return re.findall(r"^\| ([^|]+?) \|", _table(), re.MULTILINE)[1:]


def _table() -> str:
    return DOCUMENT.read_text("utf-8").split(BEGIN)[1].split(END)[0]


def write(rows: dict[str, Row], order: list[str]) -> None:
    """Replaces the rows of these engines; others keep what a former run said."""
    former = {line.split(" | ")[0][2:]: f"{line}\n" for line in _table().splitlines()[2:]}
    lines = former | {name: row.line() for name, row in rows.items()}
    text = HEAD + "".join(lines[name] for name in order if name in lines)
    before, rest = DOCUMENT.read_text("utf-8").split(BEGIN)
    DOCUMENT.write_text(f"{before}{BEGIN}{text}{END}{rest.split(END)[1]}", "utf-8")
