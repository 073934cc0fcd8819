"""The block "Decided" predicts the dataset: each row is an odd input and what comes of it.

What contradicts itself is refused instead, in one line: `test_mistakes.py`.
"""

from pathlib import Path

import pytest

from tests.marks import rest_slow
from tests.pipeline.commands import Dataset, convert, plan
from tests.pipeline.decided_boxes import BOXES, FILES
from tests.pipeline.decided_checks import CHECKS
from tests.pipeline.decided_labels import LABELS
from tests.pipeline.decided_sources import SOURCES
from tests.pipeline.decided_table import (
    Row,
    block,
    features,
    lines_of,
    records,
    warnings,
    words,
    write_row,
)
from transforms.core.messages import decision_lines, from_manifest

ROWS = [*SOURCES, *LABELS, *BOXES, *FILES, *CHECKS]


def squeezed(lines: list[str]) -> list[str]:
    """Lines without their alignment, which has a test of its own."""
    return [" ".join(line.split()) for line in lines]


@pytest.mark.parametrize("row", ROWS[::4], ids=lambda row: row.name)
def test_what_is_planned(row: Row, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_row(row, tmp_path)
    planned = plan(*words(row), output="out")
    assert planned.code == 0, planned.err
    assert squeezed(block(planned)) == squeezed(lines_of(row.decided))
    assert squeezed(warnings(planned)) == squeezed(lines_of(row.warnings))


# The rules in which rows differ have their own tests.
QUICK = ROWS[::24]


@pytest.mark.parametrize(
    "row",
    rest_slow(sorted(ROWS, key=lambda row: row not in QUICK), len(QUICK)),
    ids=lambda row: row.name,
)
def test_what_is_printed_predicts_the_dataset(
    row: Row, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_row(row, tmp_path)
    ran = convert(*words(row), output="out")
    assert ran.code == 0, ran.err
    assert squeezed(block(ran)) == squeezed(lines_of(row.decided))
    assert squeezed(warnings(ran)) == squeezed(lines_of(row.warnings))
    dataset = Dataset(Path("out"))
    stored = decision_lines(from_manifest(dataset.manifest))
    assert [line.strip() for line in stored[1:]] == block(ran)
    assert records(dataset, row.shown) == lines_of(row.records)
    assert set(lines_of(row.features)) <= features(dataset)


def test_every_row_has_a_name_of_its_own() -> None:
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names) >= 25
