"""Flags of layouts, models, masks and further images."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import math
import re
from collections.abc import Callable, Sequence

from pipeline.errors import UsageError, refusing
from pipeline.options.parser import is_given
from pipeline.resolve.datasets import features_of_records
from pipeline.resolve.path_flags import check_path, image_globs, read_flag_file
from pipeline.resolve.samples import ImageSample, LabelFiles, Sample, first_files
from transforms.core.messages import Decision, LabelsError, given
from transforms.core.rejections import RejectedImageError
from transforms.dataset.image_statistics import DatasetWarning
from transforms.examples.boxes import (
    AUTOML_BOXES,
    AUTOML_WIDTH,
    FORMS,
    ORIENTATIONS,
    BoxError,
    BoxRules,
    find_boxes,
    form_of,
    guess_units,
    located,
)
from transforms.examples.layouts import (
    DETECTION,
    LAYOUTS,
    MASK,
    MASK_FEATURES,
    ROWS,
    Feature,
    LayoutFile,
    LayoutOptions,
    Role,
    further_columns,
    is_layout_file,
    layout_features,
    partner_of,
    source_of,
    with_pixels,
)
from transforms.examples.partners import Partner, PartnerKeys
from transforms.examples.row_features import (
    infer_types,
    odd_cells,
    row_requirements,
    with_file_types,
)
from transforms.images.headers import Header, image_format, read_header
from transforms.images.pixel_options import Frame, PixelOptions
from transforms.images.tags import orientation_tag
from transforms.labels.joins import RowRequirements
from transforms.labels.keys import any_case, fixed_root, glob_regex
from transforms.labels.label_columns import find_further
from transforms.labels.label_rows import (
    FORMATS,
    LIST_SEPARATOR,
    Column,
    LabelRow,
    column_finder,
    header_names,
    quote_names,
)
from transforms.storage.files import storage_of
from transforms.storage.read_ahead import ReadAhead

# The box flags: the columns of boxes, their form, units and orientation.

_UNITS = "box units"
_FLAG = "--boxes"


def choose_columns(
    options: LayoutOptions, found: LabelFiles, needed: Sequence[str]
) -> tuple[BoxRules, list[Decision]]:
    """The box columns, and how they were chosen; units and orientation may be empty.

    Args:
        options: of boxes.
        found: the label files.
        needed: the sources of `layouts.OBJECT_COLUMNS` that the layout needs.

    Raises:
        LabelsError: a column is missing or repeated.
    """
    columns, first, path = found.columns, found.first, found.paths[0]
    header = header_names(first.rows[0]) if columns.has_header else []
    because = "usual names for boxes"
    asked = options.boxes
    if asked.columns:
        at = tuple(find_further(columns, first, wanted, _FLAG, path).at for wanted in asked.columns)
        form = form_of([header[each] for each in at] if header else ())
        because = "given"
    elif not header and all(len(row) == AUTOML_WIDTH for row in first.rows):
        form, at, because = "corners", AUTOML_BOXES, "11 cells a row, the form of AutoML"
    else:
        form, at = find_boxes(header, path)
    further = further_columns(header, needed)
    rules = asked._replace(
        columns=tuple(header[each] if header else f"column {each + 1}" for each in at),
        form=asked.form or form,
        units=asked.units or FORMATS[first.format].units,
        further=tuple((source, header[each]) for source, each in further.items()),
    )
    what = ", ".join(FORMS[rules.form])
    why = "given" if asked.form else f"the columns are {what}"
    is_open = not asked.form and (asked.columns or not header)
    if is_open and rules.form == "corners":
        why = "default for columns without such names"
    decisions = [
        Decision("box columns", ", ".join(rules.columns), because, _FLAG),
        Decision("box form", rules.form, why, _FLAG),
    ]
    if rules.units:
        because = "given" if asked.units else f"boxes of {FORMATS[first.format].title}"
        decisions.append(Decision(_UNITS, rules.units, because, _FLAG))
    if rules.further:
        value = ", ".join(column for _, column in rules.further)
        decisions.append(Decision("box marks", value, "usual names, stored for each object"))
    return rules, decisions


def with_units(
    rules: BoxRules, rows: Sequence[LabelRow], columns: Sequence[str], path: str
) -> tuple[BoxRules, list[Decision]]:
    """Infers the units from the first rows, unless a flag or the format gives them.

    Args:
        rules: of the chosen columns.
        rows: the first rows.
        columns: the names of their cells.
        path: the CSV, for messages.

    Raises:
        LabelsError: the rows contradict each other.
    """
    if rules.units:
        return rules, []
    at = [columns.index(name) for name in rules.columns]
    cells = [[row.cells[index] for index in at] for row in rows]
    lines = [f"line {row.line}" for row in rows]
    units, because = guess_units(cells, rules.form, lines, path)
    return rules._replace(units=units), [Decision(_UNITS, units, because, _FLAG)]


# Infers whether boxes refer to the stored pixels, or to the image after EXIF rotation.

# Images of the first rows whose headers are read, and how many bytes of each: EXIF blocks have up
# to 64 KB, and the size of a JPEG comes after them.
_IMAGES = 32
_HEAD_BYTES = 256 << 10

_NAMES = {"stored": "stored pixels", "upright": "upright picture"}

Locate = Callable[[LabelRow], str | None]
"""Finds the image file of a row, or None if it is not known."""


def with_orientation(
    rules: BoxRules, rows: Sequence[LabelRow], columns: Sequence[str], locate: Locate
) -> tuple[BoxRules, Decision]:
    """Infers the orientation from the first images and their boxes, unless a flag gives it.

    Only pixel boxes of an image that EXIF rotates by 90 degrees are informative: they may fit
    only one of its two shapes.

    Args:
        rules: with units.
        rows: the first rows.
        columns: the names of their cells.
        locate: finds the image of a row.

    Raises:
        UsageError: some boxes fit only the stored pixels, and others only the rotated image.
    """
    if rules.orientation:
        return rules, given("boxes are of", _NAMES[rules.orientation], _FLAG)
    by_image = _by_image(rows, locate) if rules.units == "pixel" else {}
    at = [columns.index(name) for name in rules.columns]
    only: dict[str, str] = {}
    turned = 0
    for uri, seen in zip(by_image, ReadAhead().map(_inspect, by_image), strict=True):
        if seen is None or seen[1] <= 4:
            continue
        turned += 1
        for row in by_image[uri]:
            fitting = _fitting([row.cells[index] for index in at], rules, *seen)
            if len(fitting) == 1:
                only.setdefault(fitting[0], f"line {row.line}, {uri}")
    if len(only) == 2:
        raise UsageError(
            f"boxes contradict each other: {only['stored']} has one that fits only the stored "
            f"pixels, {only['upright']} one that fits only the image after EXIF rotation; correct "
            f"them, or give {_FLAG} orientation="
        )
    value = next(iter(only), "stored")
    if only:
        because = f"only this fits the box in {only[value]}"
    elif rules.units != "pixel":
        because = "default: normalized boxes give no evidence"
    elif turned:
        because = f"default: boxes fit both ways in {turned} images that EXIF rotates"
    else:
        because = f"default: EXIF turns none of the first {len(by_image)} images"
    decided = Decision("boxes are of", _NAMES[value], because, _FLAG)
    return rules._replace(orientation=value), decided


def _by_image(rows: Sequence[LabelRow], locate: Locate) -> dict[str, list[LabelRow]]:
    """The images of the first rows, each with its rows."""
    found: dict[str, list[LabelRow]] = {}
    for row in rows:
        if (uri := locate(row)) is None:
            continue
        if uri not in found and len(found) == _IMAGES:
            break
        found.setdefault(uri, []).append(row)
    return found


def _inspect(uri: str) -> tuple[Header, int] | None:
    """Size and EXIF orientation of an image; None if its header does not have them."""
    with contextlib.suppress(OSError, RejectedImageError):
        data = storage_of(uri).read_range(uri, 0, _HEAD_BYTES)
        if format_ := image_format(data):
            return read_header(data, format_), orientation_tag(data, format_)
    return None


def _fitting(cells: Sequence[str], rules: BoxRules, header: Header, tagged: int) -> list[str]:
    """The orientations in which a box is inside its image."""
    try:
        numbers = [float(cell) for cell in cells]
    except ValueError:
        return []
    if not all(map(math.isfinite, numbers)):
        return []
    found = []
    for orientation in ORIENTATIONS:
        with contextlib.suppress(BoxError):
            frame = Frame(header.height, header.width, tag=tagged)
            located(numbers, rules._replace(orientation=orientation), frame)
            found.append(orientation)
    return found


# Checks before a job starts that the inputs have what `--layout` needs.


@dataclasses.dataclass(frozen=True)
class Layout:
    """The layout of a run.

    Attributes:
        options: the name of a preset or the path of a YAML file, and what is said of boxes.
        features: of the Examples.
        boxes: what the columns of boxes hold, if the layout has boxes and the CSV is known.
        label_separator: between the labels in a cell; empty when a cell is one label.
        decisions: about boxes, and about column types.
        warnings: about cells that do not fit these.
        of_file: the names of the features whose type is that of a column in the file.
    """

    options: LayoutOptions
    features: tuple[Feature, ...]
    boxes: BoxRules | None = None
    label_separator: str = ""
    decisions: Sequence[Decision] = ()
    warnings: tuple[DatasetWarning, ...] = ()
    of_file: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """That of a preset, or the path of a YAML file."""
        return self.options.layout

    @property
    def first_id(self) -> int:
        """The id of the first class: readers of boxes reserve 0 for the background."""
        return 1 if self.name in DETECTION else 0

    @property
    def has_boxes(self) -> bool:
        """Whether rows must have boxes."""
        return any(feature.of_object for feature in self.features)

    @property
    def needs_label(self) -> bool:
        """Whether a feature comes from a label."""
        return any(feature.from_label for feature in self.features)

    @property
    def has_object_masks(self) -> bool:
        """Whether segmentations of objects become masks."""
        return any(feature.role is Role.OBJECT_MASK for feature in self.features)

    @property
    def requirements(self) -> RowRequirements:
        """The requirements for the rows."""
        return row_requirements(self.features, boxes=self.boxes, separator=self.label_separator)

    def asking(self, found: LabelFiles) -> tuple[Layout, LabelFiles]:
        """The layout with its box columns, and the label files with the columns that it needs.

        Raises:
            LabelsError: a column is missing or repeated.
        """
        columns, first, path = found.columns, found.first, found.paths[0]
        layout = self._with_types(found) if first.types else self
        if not layout.requirements.needs_rows:
            return layout, found
        header = header_names(first.rows[0]) if columns.has_header else []
        if self.has_boxes:
            layout = layout._with_boxes(found)
        names = layout.requirements.columns
        find = column_finder(header, path=path)
        cells = (Column(self._column(find, header, name, path), name) for name in names)
        columns = columns._replace(cells=tuple(cells))
        if layout.boxes is not None:
            at = tuple(names.index(name) for name in layout.boxes.all_columns)
            columns = columns._replace(boxes=at)
        return layout, found._replace(columns=columns)

    def _with_types(self, found: LabelFiles) -> Layout:
        """The layout with the types that the columns have in the file."""
        first, label = found.first, found.columns.label.name
        types = dict(zip(header_names(first.rows[0]), first.types, strict=True))
        features, of_file = with_file_types(self.features, types)
        layout = dataclasses.replace(self, features=features, of_file=of_file)
        labels = [feature for feature in features if feature.from_label]
        if not types.get(label, "").endswith(" list") or not labels:
            return layout
        if any(feature.of_object or not feature.from_rows for feature in labels):
            raise LabelsError(
                f"{found.paths[0]}: the column {label!r} holds lists of labels, but --layout "
                f"{self.name} has one label for each {'object' if self.has_boxes else 'image'}: "
                "write a layout with label.ids or label.texts (docs/layouts.md)"
            )
        return dataclasses.replace(layout, label_separator=LIST_SEPARATOR)

    def _with_boxes(self, found: LabelFiles) -> Layout:
        """The layout with its box columns, without optional features that have no column."""
        needed = [f.source for f in self.features if source_of(f.source).columns]
        rules, decisions = choose_columns(self.options, found, needed)
        missing = [source for source in needed if source not in dict(rules.further)]
        is_all = is_layout_file(self.name)
        if lacks := next((s for s in missing if is_all or not source_of(s).is_optional), ""):
            names = " or ".join(repr(name) for name in source_of(lacks).columns)
            raise LabelsError(
                f"{found.paths[0]} has no column {names}, which --layout {self.name} needs for "
                f"{lacks}: {'leave this feature out' if is_all else 'use --layout detection'}"
            )
        features = tuple(f for f in self.features if f.source not in missing)
        return dataclasses.replace(self, features=features, boxes=rules, decisions=decisions)

    def _column(
        self, find: Callable[[str], int | None], header: Sequence[str], name: str, path: str
    ) -> int:
        """The index of a column that the layout names."""
        at = find(name)
        if at is None and not header and (numbered := re.fullmatch(r"column ([0-9]+)", name)):
            return int(numbered[1]) - 1
        if at is None:
            has = f"but {quote_names(header)}" if header else "because it has no header"
            raise LabelsError(
                f"{path} has no column {name!r}, which --layout {self.name} names, {has}"
            )
        return at

    def resolved(self, found: LabelFiles, locate: Locate) -> Layout:
        """The layout completed from the rows: types that are not given, box units and orientation.

        Args:
            found: the label files, with their first rows.
            locate: finds the image of a row.

        Raises:
            LabelsError: the units of boxes cannot be inferred.
            UsageError: their orientation cannot be inferred.
        """
        boxes = self.boxes
        if boxes is None and not any(feature.column for feature in self.features):
            return self
        columns, first = self.requirements.columns, [row for _, row in found.sampled]
        decided: list[Decision] = []
        if boxes is not None:
            boxes, decided = with_units(boxes, first, columns, found.paths[0])
            boxes, orientation = with_orientation(boxes, first, columns, locate)
            decided.append(orientation)
        features, types = infer_types(self.features, first, columns, self.of_file)
        odd = odd_cells(self.features, features, first, columns)
        return dataclasses.replace(
            self,
            features=features,
            boxes=boxes,
            decisions=(*self.decisions, *decided, *types),
            warnings=tuple(DatasetWarning("odd_cells", text) for text in odd),
        )


def read_layout(sample: Sample, label_from: str, pixels: PixelOptions) -> Layout:
    """The layout that the flags select, with the shape of the pixels.

    Args:
        sample: of the inputs; records fill what rows would fill, without rows.
        label_from: where labels come from.
        pixels: the changes to the pixels.

    Raises:
        UsageError: it cannot be read, or conflicts with other flags.
    """
    flags, sources, is_labelled = sample.flags, sample.sources, label_from != "none"
    features = layout_of(flags, labelled=is_labelled).features
    _check_masks(flags, features)
    with refusing(ValueError, because=f"--layout {flags.layout}: "):
        features = with_pixels(features, pixels.fixed_shape)
    from_rows = next((f for f in LAYOUTS.get(flags.layout, features) if f.from_rows), None)
    if sources and flags.labels is None:
        features = features_of_records(features, sources, flags.layout)
    elif from_rows and flags.labels is None:
        raise UsageError(
            f"--layout {flags.layout} needs --labels CSV: its feature {from_rows.name!r} has the "
            f"source {from_rows.source}"
        )
    of_label = next((feature for feature in features if feature.from_label), None)
    if of_label and not is_labelled:
        raise UsageError(
            f"--layout {flags.layout}: the feature {of_label.name!r} has the source "
            f"{of_label.source}, but --label_from is none"
        )
    of_rows = next((f for f in features if f.from_label and f.from_rows), None)
    if of_rows and label_from in ("directory", "regex", "webdataset"):
        raise UsageError(
            f"--layout {flags.layout}: the feature {of_rows.name!r} has the source "
            f"{of_rows.source}, which needs labels from rows, but --label_from is {label_from}"
        )
    options = LayoutOptions.of(vars(flags))
    layout = Layout(options, features, label_separator=flags.label_separator or "")
    _check_separator(layout)
    if not layout.has_boxes and is_given(flags, "boxes"):
        raise UsageError(f"--boxes cannot be used with --layout {flags.layout}: it has no boxes")
    return layout


def _check_masks(flags: argparse.Namespace, features: Sequence[Feature]) -> None:
    found = (partner_of(feature.source) for feature in features)
    has_masks = any(partner is not None and partner[0] == MASK for partner in found)
    if has_masks and not flags.masks:
        raise UsageError(
            f"--layout {flags.layout} has a feature of {MASK}.bytes or its format: give --masks "
            "GLOB, or name the masks in the file (docs/layouts.md)"
        )
    if flags.masks and not has_masks:
        raise UsageError(
            f"--masks: --layout {flags.layout} has no feature with the source {MASK}.bytes: add one"
        )


def layout_of(flags: argparse.Namespace, *, labelled: bool = True) -> LayoutFile:
    """A preset or a YAML layout; a column's dtype is empty if its type is not given.

    Args:
        flags: those of the command line.
        labelled: whether there are labels; a preset is another one without.

    Raises:
        UsageError: the file cannot be read, or is not a layout.
    """
    path = flags.layout
    if is_layout_file(path):
        from transforms.examples.layout_files import LayoutError, parse_layout

        text = read_flag_file("--layout", path)
        with refusing(LayoutError):
            return parse_layout(text, path)
    features = () if path == ROWS else layout_features(path, labelled=labelled)
    return LayoutFile((*features, *(MASK_FEATURES if flags.masks else ())), {})


def _check_separator(layout: Layout) -> None:
    if not layout.label_separator:
        return
    labels = [feature for feature in layout.features if feature.from_label]
    if any(feature.of_object for feature in labels):
        raise UsageError(
            f"--label_separator cannot be used with --layout {layout.name}: a row is one object "
            "and has one label"
        )
    if not labels or not all(feature.from_rows for feature in labels):
        raise UsageError(
            "--label_separator needs a layout with several labels: a YAML file with label.ids or "
            f"label.texts, and without label.id; --layout {layout.name} has one label"
        )


# Masks and further images: the flag `--masks`, and the globs that a layout file names.


def read_partners(flags: argparse.Namespace) -> tuple[Partner, ...]:
    """The masks and further images of a run, in a fixed order.

    Args:
        flags: those of the command line.

    Raises:
        UsageError: they cannot be used with these flags, or a path is wrong.
    """
    given = {MASK: ("--masks", tuple(flags.masks))} if flags.masks else {}
    for name, globs in layout_of(flags).partners.items():
        for glob in globs:
            check_path(f"--layout {flags.layout}: {name}", glob)
        given[name] = (name, globs)
    return tuple(
        Partner(name, title, globs := tuple(image_globs(patterns, title)), fixed_root(globs))
        for name, (title, patterns) in sorted(given.items())
    )


def check_partners(sample: Sample, key: str) -> None:
    """Lists the first files of each partner, and checks that they fit the images.

    Args:
        sample: of the inputs.
        key: kind of the join key.

    Raises:
        UsageError: a glob matches nothing, or images; or no file has the key of an image.
    """
    flags, partners, first = sample.flags, sample.partners, sample.images
    if partners and key == "uri":
        raise UsageError(
            f"--key uri cannot be used with {partners[0].title}: no other file has the URI of an "
            "image; use --key stem, or --key path"
        )
    for partner in partners:
        # As they are written, so with braces.
        patterns = layout_of(flags).partners.get(partner.name, flags.masks)
        found, is_all = first_files(patterns, partner.title)
        files = [(glob, file.uri) for glob, file in found]
        _check_apart(flags.images or (), partner, [uri for _, uri in files], first)
        if not (first.is_all and is_all):
            continue
        images, keys = first.keys(key), PartnerKeys(partner, kind=key, images=flags.images)
        key_of = {glob: keys.of_glob(glob) for glob, _ in files}
        if not any(key_of[glob](uri) in images for glob, uri in files):
            glob, uri = min(files)
            raise UsageError(
                f"no file of {partner.title} has the key of an image: images have keys like "
                f"{min(images)!r}, but {uri!r} is for {key_of[glob](uri)!r} (--key {key}); write "
                "what follows the common part of the names into the globs, as in "
                "'masks/*_mask.png'"
            )


def _check_apart(
    images: Sequence[str], partner: Partner, uris: Sequence[str], sample: ImageSample
) -> None:
    if not images:
        listed = {storage_of(uri).absolute(uri) for uri in sample.uris}
        both = next((uri for uri in uris if storage_of(uri).absolute(uri) in listed), None)
        if both is not None:
            raise UsageError(
                f"{partner.title} matches {both!r}, which a row of --labels lists as an image: "
                "give a glob that matches no image"
            )
    for glob in images:
        matches = glob_regex(any_case(storage_of(glob).absolute(glob))).fullmatch
        both = next((uri for uri in uris if matches(storage_of(uri).absolute(uri))), None)
        if both is not None:
            raise UsageError(
                f"--images {glob!r} and {partner.title} both match {both!r}: give globs that have "
                "no file in common"
            )
