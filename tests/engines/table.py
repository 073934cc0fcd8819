"""The conformance table of docs/engines.md, which the tests write with `ENGINES_TABLE=1`."""

import re
from typing import NamedTuple

from tests.pipeline.commands import ROOT

DOCUMENT = ROOT / "docs" / "engines.md"
HEAD = (
    "| engine | version | seconds | folder | archives, stratified, `--reuse` |\n"
    "|---|---|---|---|---|\n"
)
BEGIN, END = "<!-- conformance: begin -->\n", "<!-- conformance: end -->"


class Row(NamedTuple):
    """One engine, as it was run last.

    Attributes:
        engine: its name.
        version: of the engine.
        seconds: of the run.
        is_equal: whether its files are those of the reference.
        reuses_equally: the same for images in archives, most of which are reused.
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


def listed_engines() -> list[str]:
    """The engines that the table has."""
    return re.findall(r"^\| ([^|]+?) \|", _around()[1], re.MULTILINE)[1:]


def is_complete() -> bool:
    """Whether each row of the table has a cell for each column."""
    table = _around()[1]
    columns = HEAD.splitlines()[0].count("|")
    return table.startswith(HEAD) and {line.count("|") for line in table.splitlines()} == {columns}


def _around() -> tuple[str, str, str]:
    """The document before the table with its first mark, the table, and the rest."""
    before, rest = DOCUMENT.read_text("utf-8").split(BEGIN)
    table, after = rest.split(END)
    return f"{before}{BEGIN}", table, f"{END}{after}"


def write(rows: dict[str, Row], order: list[str]) -> None:
    """Replaces the rows of these engines; others keep what a former run said."""
    before, table, after = _around()
    former = {line.split(" | ")[0][2:]: f"{line}\n" for line in table.splitlines()[2:]}
    lines = former | {engine: row.line() for engine, row in rows.items()}
    text = HEAD + "".join(lines[engine] for engine in order if engine in lines)
    DOCUMENT.write_text(f"{before}{text}{after}", "utf-8")
