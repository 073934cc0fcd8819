"""What `--layout` asks of the inputs, checked before a job starts."""

from __future__ import annotations

import argparse
import dataclasses
import itertools
from collections.abc import Iterable, Sequence

from pipeline.errors import UsageError
from pipeline.path_flags import read_flag_file
from transforms.core.boxes import ROUNDING, SIDES
from transforms.core.columns import RowUse, row_use
from transforms.core.csv_lines import LabelsError
from transforms.core.csv_rows import (
    CsvColumns,
    FirstRows,
    LabelRow,
    find_column,
    header_names,
    listed,
)
from transforms.core.custom_layout import LayoutError, infer_dtypes, parse_layout
from transforms.core.labels import find_folded
from transforms.core.layouts import (
    LAYOUTS,
    Feature,
    is_layout_file,
    layout_features,
    with_pixels,
)
from transforms.core.pixel_options import PixelOptions

# Rows read to tell units and types.
SAMPLE_ROWS = 20_000


@dataclasses.dataclass(frozen=True)
class Layout:
    """The layout of a run.

    Attributes:
        name: of a preset, or the path of a YAML file.
        features: of the Examples.
        box_columns: the columns of `boxes.SIDES`, in this order, when there are boxes.
        box_units: of them: `pixel` or `normalized`; None when there are none.
        label_separator: between the labels in a cell; empty when a cell is one label.
    """

    name: str
    features: tuple[Feature, ...]
    box_columns: tuple[str, ...] = ()
    box_units: str | None = None
    label_separator: str = ""

    @property
    def has_boxes(self) -> bool:
        """Whether boxes are asked of the rows."""
        return any(feature.source.startswith("box.") for feature in self.features)

    @property
    def needs_label(self) -> bool:
        """Whether a feature comes from a label."""
        return any(feature.from_label for feature in self.features)

    @property
    def use(self) -> RowUse:
        """What is asked of the rows."""
        return row_use(self.features, box_columns=self.box_columns, separator=self.label_separator)

    def asking(self, columns: CsvColumns, first: FirstRows, path: str) -> tuple[Layout, CsvColumns]:
        """The layout that knows its box columns, and the columns with all that it asks for.

        Raises:
            LabelsError: a column is missing, or there twice.
        """
        if not self.use.is_asked:
            return self, columns
        header = header_names(first.rows[0]) if columns.has_header else []
        layout = self
        if self.has_boxes:
            boxes = tuple(header[_box_column(header, side, path)] for side in SIDES)
            layout = dataclasses.replace(self, box_columns=boxes)
        return layout, with_cells(columns, layout.use.columns, header, path, self.name)

    def resolved(self, rows: Iterable[LabelRow], given_units: str | None) -> Layout:
        """The layout with what only rows tell: types that are not given, and units of boxes."""
        needs_units = self.has_boxes and given_units is None
        if not needs_units and all(feature.dtype for feature in self.features):
            return dataclasses.replace(self, box_units=given_units)
        columns = self.use.columns
        cells = [row.cells for row in itertools.islice(rows, SAMPLE_ROWS)]
        units = given_units
        if needs_units:
            at = [columns.index(name) for name in self.box_columns]
            units = _guess_units(row[index] for row in cells for index in at)
        features = infer_dtypes(self.features, cells, columns)
        return dataclasses.replace(self, features=features, box_units=units)


def read_layout(flags: argparse.Namespace, label_from: str, pixels: PixelOptions) -> Layout:
    """The layout that the flags ask for, with the shape that the pixels get.

    Raises:
        UsageError: it cannot be read, or other flags do not go with it.
    """
    is_labelled = label_from != "none"
    if is_layout_file(flags.layout):
        features = read_layout_file(flags.layout)
    else:
        features = layout_features(flags.layout, labelled=is_labelled)
    try:
        features = with_pixels(features, pixels.fixed_shape)
    except ValueError as error:
        raise UsageError(f"--layout {flags.layout}: {error}") from error
    layout = Layout(flags.layout, features, label_separator=flags.label_separator or "")
    from_rows = next(
        (feature for feature in LAYOUTS.get(flags.layout, features) if feature.from_rows), None
    )
    if from_rows and flags.labels is None:
        raise UsageError(
            f"--layout {flags.layout} needs --labels CSV: its feature {from_rows.name!r} is of "
            f"{from_rows.source}"
        )
    of_label = next((feature for feature in features if feature.from_label), None)
    if of_label and not is_labelled:
        raise UsageError(
            f"--layout {flags.layout}: the feature {of_label.name!r} is of {of_label.source}, "
            "but --label_from is none"
        )
    _check_separator(layout)
    if flags.box_units is not None and not layout.has_boxes:
        raise UsageError(f"--box_units does not go with --layout {flags.layout}: it has no boxes")
    return layout


def read_layout_file(path: str) -> tuple[Feature, ...]:
    """The features of a YAML layout; a column's dtype is empty if its type is not given.

    Raises:
        UsageError: the file cannot be read, or is no layout.
    """
    text = read_flag_file("--layout", path)
    try:
        return parse_layout(text, path)
    except LayoutError as error:
        raise UsageError(str(error)) from error


def _check_separator(layout: Layout) -> None:
    if not layout.label_separator:
        return
    sources = {feature.source for feature in layout.features}
    if sources & {"object.ids", "object.texts"}:
        raise UsageError(
            f"--label_separator does not go with --layout {layout.name}: a row is one object "
            "and has one label"
        )
    if not sources & {"label.ids", "label.texts"} or sources & {"label.id", "label.text"}:
        raise UsageError(
            "--label_separator needs a layout of many labels: a YAML file with features of "
            f"label.ids or label.texts, and not label.id; --layout {layout.name} has one label"
        )


def with_cells(
    columns: CsvColumns, names: tuple[str, ...], header: Sequence[str], path: str, layout: str
) -> CsvColumns:
    """The columns with those whose cells a layout asks for.

    Args:
        columns: where the rest stands.
        names: the columns that the layout names.
        header: the names of the CSV's columns.
        path: the CSV, for messages.
        layout: its name, likewise.

    Raises:
        LabelsError: a column is missing, or there twice.
    """
    at = tuple(_column(header, name, path, layout) for name in names)
    return columns._replace(cell_names=names, cells=at)


def _column(header: Sequence[str], name: str, path: str, layout: str) -> int:
    at = find_column(header, name, path=path)
    if at is None:
        has = f"but {listed(header)}" if header else "because it has no header"
        raise LabelsError(
            f"CSV {path} has no column {name!r}, which --layout {layout} names, {has}"
        )
    return at


def _box_column(header: Sequence[str], side: str, path: str) -> int:
    at = find_folded(header, side)
    if len(at) == 1:
        return at[0]
    has = f"has {listed(header)}" if header else "has no header"
    problem = f"several columns {side!r}" if at else f"no column {side!r}"
    raise LabelsError(
        f"CSV {path}: there is {problem} for boxes; it {has}: name the columns "
        f"{', '.join(SIDES)} in its first line"
    )


def _guess_units(cells: Iterable[str]) -> str:
    """`normalized` if no number is above 1 by more than rounding."""
    for cell in cells:
        try:
            if float(cell) > 1 + ROUNDING["normalized"]:
                return "pixel"
        except ValueError:
            continue
    return "normalized"
