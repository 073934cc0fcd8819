"""The conformance tables of docs/engines.md, which the tests write with `ENGINES_TABLE=1`."""

from __future__ import annotations

import re
from typing import NamedTuple

from tests.pipeline.commands import ROOT

DOCUMENT = ROOT / "docs" / "engines.md"
# The tables: of few images of every kind, and of many names.
IMAGES, NAMES = "conformance", "many names"
HEADS = {
    IMAGES: (
        "| engine | version | seconds | folder | archives, stratified, `--reuse` |\n"
        "|---|---|---|---|---|\n"
    ),
    NAMES: "| engine | version | seconds | hash equal |\n|---|---|---|---|\n",
}


class Row(NamedTuple):
    """One engine, as it was run last.

    Attributes:
        engine: its name.
        version: of the engine.
        seconds: of the run.
        is_equal: whether its files are those of the reference.
        reuses_equally: the same for images in archives, most of which are reused; None where the
            table does not say it.
    """

    engine: str
    version: str
    seconds: float
    is_equal: bool
    reuses_equally: bool | None = None

    def line(self) -> str:
        """The row of the table."""
        cells = [self.engine, self.version, f"{self.seconds:.0f}", _word(self.is_equal)]
        if self.reuses_equally is not None:
            cells.append(_word(self.reuses_equally))
        return f"| {' | '.join(cells)} |\n"


def _word(is_equal: bool) -> str:
    return "yes" if is_equal else "**no**"


def listed_engines(name: str = IMAGES) -> list[str]:
    """The engines that a table of the document has."""
    return re.findall(r"^\| ([^|]+?) \|", _around(name)[1], re.MULTILINE)[1:]


def is_complete(name: str = IMAGES) -> bool:
    """Whether each row of a table has a cell for each column."""
    lines = _around(name)[1].splitlines(keepends=True)
    columns = HEADS[name].splitlines()[0].count("|")
    head = "".join(lines[:2])
    return head == HEADS[name] and {line.count("|") for line in lines} == {columns}


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
    text = HEADS[name] + "".join(lines[engine] for engine in order if engine in lines)
    DOCUMENT.write_text(f"{before}{text}{after}", "utf-8")
