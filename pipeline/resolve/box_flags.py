"""The box flags: the columns of boxes, their form, units and orientation."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NamedTuple

from transforms.core.decisions import Decision, given
from transforms.core.features.box_columns import (
    AUTOML_BOXES,
    AUTOML_WIDTH,
    find_boxes,
    form_of,
    further_columns,
    guess_units,
)
from transforms.core.features.boxes import FORMS, BoxRules
from transforms.core.tables.csv_rows import CsvColumns, FirstRows, LabelRow, header_names
from transforms.core.tables.label_columns import find_further
from transforms.core.tables.table_formats import FORMATS

_UNITS = "box units"


class BoxFlags(NamedTuple):
    """The values of the box flags.

    Attributes:
        columns: names or numbers of the four columns, in the order of the form; empty to find them.
        form: one of `boxes.FORMS`, or None to infer it from the columns.
        units: one of `boxes.UNITS`, or None to infer them from the rows.
        orientation: one of `boxes.ORIENTATIONS`, or None to infer it from images and rows.
    """

    columns: tuple[str, ...] = ()
    form: str | None = None
    units: str | None = None
    orientation: str | None = None

    @classmethod
    def of(cls, flags: argparse.Namespace) -> BoxFlags:
        """Takes the result of `parse_flags`."""
        return cls(flags.box_columns or (), flags.box_form, flags.box_units, flags.box_orientation)

    @property
    def first_given(self) -> str | None:
        """The first of these flags that is given, or None."""
        return next((f"--box_{name}" for name, value in self._asdict().items() if value), None)


class ChosenBoxes(NamedTuple):
    """The meaning of the box columns, and how it was decided."""

    rules: BoxRules
    decisions: tuple[Decision, ...]


def choose_columns(
    flags: BoxFlags, columns: CsvColumns, first: FirstRows, needed: Sequence[str], path: str
) -> ChosenBoxes:
    """Chooses the box columns; units and orientation are those of the flags.

    Args:
        flags: the box flags.
        columns: of the CSV.
        first: its first rows.
        needed: the sources of `layouts.OBJECT_COLUMNS` that the layout needs.
        path: the CSV, for messages.

    Raises:
        LabelsError: a column is missing or repeated.
    """
    header = header_names(first.rows[0]) if columns.has_header else []
    because = "usual names for boxes"
    if flags.columns:
        at = tuple(
            find_further(columns, first, wanted, "--box_columns", path) for wanted in flags.columns
        )
        form = form_of([header[each] for each in at] if header else ())
        because = "given"
    elif not header and all(len(row) == AUTOML_WIDTH for row in first.rows):
        form, at, because = "corners", AUTOML_BOXES, "11 cells a row, the form of AutoML"
    else:
        form, at = find_boxes(header, path)
    further = further_columns(header, needed)
    rules = BoxRules(
        columns=tuple(_name(header, each) for each in at),
        form=flags.form or form,
        units=flags.units or FORMATS[first.format].units,
        orientation=flags.orientation or "stored",
        further=tuple((source, header[each]) for source, each in further.items()),
    )
    what = ", ".join(FORMS[rules.form])
    why = "given" if flags.form else f"the columns are {what}"
    if not flags.form and (flags.columns or not header) and rules.form == "corners":
        why = "default for columns without such names"
    decisions = [
        Decision("box columns", ", ".join(rules.columns), because, "--box_columns"),
        Decision("box form", rules.form, why, "--box_form"),
    ]
    if rules.units and not flags.units:
        because = f"boxes of {FORMATS[first.format].title}"
        decisions.append(Decision(_UNITS, rules.units, because, "--box_units"))
    if rules.further:
        value = ", ".join(column for _, column in rules.further)
        decisions.append(Decision("box marks", value, "usual names, stored for each object"))
    return ChosenBoxes(rules, tuple(decisions))


def _name(header: Sequence[str], at: int) -> str:
    return header[at] if header else f"column {at + 1}"


def with_units(
    boxes: ChosenBoxes, rows: Sequence[LabelRow], columns: Sequence[str], path: str
) -> ChosenBoxes:
    """Infers the units from the first rows, unless a flag gives them.

    Args:
        boxes: the chosen columns.
        rows: the first rows.
        columns: the names of their cells.
        path: the CSV, for messages.

    Raises:
        LabelsError: the rows contradict each other.
    """
    rules, decisions = boxes
    if any(decision.what == _UNITS for decision in decisions):
        return boxes
    if rules.units:
        return boxes._replace(decisions=(*decisions, given(_UNITS, rules.units, "--box_units")))
    at = [columns.index(name) for name in rules.columns]
    cells = [[row.cells[index] for index in at] for row in rows]
    found = guess_units(cells, rules.form, lambda number: f"line {rows[number].line}", path)
    decided = Decision(_UNITS, found.units, found.because, "--box_units")
    return ChosenBoxes(rules._replace(units=found.units), (*decisions, decided))
