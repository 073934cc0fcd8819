"""Joins images and label rows that have the same key, of all or of listed keys."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

from transforms.core.messages import LabelsError, and_more
from transforms.core.records import Count, JoinSide, Kind, PlannedImage
from transforms.core.rejections import Reason, RejectedImageError, Rejection
from transforms.labels.keys import MISSING, OUTSIDE, nfc
from transforms.labels.label_rows import MAX_OBJECTS
from transforms.labels.shards import SplitAssigner

# Serializes an image's rows: the labels and cells that pass through the join.
#
# Cells are small JSON texts that are not parsed before the shard is written:
#
# - of one row, in `JoinSide`: `["cell", ...]`, in the order of `RowRequirements.columns`;
# - of an image, in `PlannedImage`: `[["CSV:LINE", ["label", ...], ["cell", ...]], ...]`;
# - of an image of a shard, in `PlannedImage`: the same with `[id, "text"]` for each label.

# `json.dumps` makes an encoder for each call.
_to_text: Callable[[Any], str] = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


# The place of labels that no row gave.
_GIVEN = "given:1"


class RowRequirements(NamedTuple):
    """What a layout needs of the rows.

    Attributes:
        columns: the columns whose cells it needs.
        needs_rows: whether it needs more from the rows than one label.
        many: whether the rows of an image may differ; otherwise they must be identical.
        many_labels: whether an image may have several labels.
        separator: between the labels in one cell; empty when a cell is one label.
        has_label: whether there is a column of labels.
        are_optional: whether an image without a row has no objects, instead of being rejected.
    """

    columns: tuple[str, ...] = ()
    needs_rows: bool = False
    many: bool = False
    many_labels: bool = False
    separator: str = ""
    has_label: bool = True
    are_optional: bool = False


ONE_LABEL = RowRequirements()


def cells_text(cells: Sequence[str]) -> str:
    """The cells of one row in the form for `JoinSide`."""
    return _to_text(list(cells))


def rows_text(rows: Iterable[JoinSide], requirements: RowRequirements) -> str:
    """The rows of one image in the form for `PlannedImage`, in the order of their files."""
    # The cells are already JSON.
    texts = (
        f"[{_to_text(row.where)},{_to_text(_labels(row, requirements))},{row.cells}]"
        for row in rows
    )
    return f"[{','.join(texts)}]"


def labels_cells(labels: Sequence[str]) -> str:
    """Several labels of an image without rows, in the form for `PlannedImage`.

    >>> labels_cells(["cat", "dog"])
    '[["given:1",["cat","dog"],[]]]'
    """
    return _to_text([[_GIVEN, list(labels), []]])


def has_rows(cells: str) -> bool:
    """Whether rows of a CSV gave an image its cells.

    >>> has_rows(labels_cells(["cat"])), has_rows(""), has_rows('[["a.csv:1",["cat"],["1"]]]')
    (False, False, True)
    >>> has_rows(NO_ROWS)
    False
    """
    rows = parsed_rows(cells) if cells else []
    return bool(rows) and rows[0][0] != _GIVEN


NO_ROWS = "[]"
"""The rows of an image that has none."""


def row_place(row: JoinSide) -> tuple[str, int]:
    """The file and the line of a row, to sort by.

    >>> row_place(JoinSide("", 0, 0, "cat", "a.csv:12"))
    ('a.csv', 12)
    """
    path, _, line = row.where.rpartition(":")
    return path, int(line)


def _labels(row: JoinSide, requirements: RowRequirements) -> list[str]:
    parts = row.label.split(requirements.separator) if requirements.separator else [row.label]
    return [part.strip() for part in parts if part.strip()]


@functools.lru_cache(maxsize=64)
def parsed_rows(cells: str) -> list[Any]:
    """The rows of an image of a shard, to be read only.

    The counts of a shard and its Examples ask for the rows of an image one after the other: they
    are decoded once. An embedding takes 16 images together.
    """
    return cast("list[Any]", json.loads(cells))


def row_labels(rows: str) -> tuple[int, list[str]]:
    """The number of rows in a `rows_text`, and all of their labels."""
    parsed = json.loads(rows)
    return len(parsed), [label for _, labels, _ in parsed for label in labels]


def image_labels(image: PlannedImage) -> list[str]:
    """The labels of an image before it has class ids, each once: its own, and those of its rows."""
    labels = [image.label, *(row_labels(image.cells)[1] if image.cells else ())]
    return [label for label in dict.fromkeys(labels) if label]


def with_ids(
    rows: str,
    id_of: Callable[[str], int | None],
    text_of: Callable[[str], str],
    unknown: str = "is not in --class_names",
) -> str:
    """The rows in the form for `PlannedImage`: every label with its id.

    Args:
        rows: the result of `rows_text`.
        id_of: a label's id, None for an unknown label.
        text_of: a label's text.
        unknown: the problem with an unknown label.

    Raises:
        RejectedImageError: with reason `UNKNOWN_LABEL`.
    """
    parsed = json.loads(rows)
    for row in parsed:
        path, _, line = row[0].rpartition(":")
        # The folder of a CSV must not change the output.
        row[0] = f"{os.path.basename(path)}:{line}"
        for at, label in enumerate(row[1]):
            label_id = id_of(label)
            if label_id is None:
                detail = f"the label {label!r} ({row[0]}) {unknown}"
                raise RejectedImageError(Reason.UNKNOWN_LABEL, detail)
            row[1][at] = [label_id, text_of(label)]
    return _to_text(parsed)


def class_texts(image: PlannedImage) -> list[str]:
    """The classes that an image counts for: its label, or all labels of its rows, each once."""
    if not image.cells:
        return [image.label]
    texts = dict.fromkeys(text for _, labels, _ in parsed_rows(image.cells) for _, text in labels)
    return list(texts) or [""]


# Joins the images and label rows of one key to an image with its label, or rejections.

# Maximum rows and images in one detail, so that a key with thousands is still one line.
_MAX_NAMED = 5

# Reasons why an image has no label of its own, by source.
_NO_LABEL = {
    "directory": "it is not in the folder of a class",
    "regex": "--label_from regex finds no label in its path",
    "webdataset": "its archive has no KEY.cls for it, and no label in a KEY.json",
    "records": "its row in the Parquet file has none",
    "given": "its label is empty",
}


class JoinRules(NamedTuple):
    """What decides the label and the place of an image.

    Attributes:
        label_from: `csv` when labels come from rows; `directory`, `regex`, `webdataset`, `records`,
            `given` or `none` when an image has its own, or needs none. Rows may still list these
            images.
        assigner: gives an image its split and its order.
        requirements: the requirements of the layout for rows.
    """

    label_from: str
    assigner: SplitAssigner
    requirements: RowRequirements = ONE_LABEL

    @property
    def has_own(self) -> bool:
        """Whether an image has a label of its own."""
        return self.label_from not in ("csv", "none")


def join_group(
    key: str, group: Iterable[JoinSide], rules: JoinRules
) -> Iterator[PlannedImage | Rejection | Count]:
    """Joins all images and rows with one key.

    An image found twice (overlapping globs) is one image, in the newest version that was listed.
    Identical rows count as one label. Contradictory rows reject the image, and so
    do several labels of one image and several images with one key, since none can be preferred.

    Args:
        key: the join key.
        group: the images and rows that have it.
        rules: what decides its label and its place.

    Yields:
        at most one `PlannedImage`, a `Rejection` for each image and unmatched row that is left
        out, and a `Count` for each further number of the ledger.
    """
    needs_label = rules.label_from == "csv" and rules.requirements.has_label
    found: list[JoinSide] = []
    rows: list[JoinSide] = []
    unlabelled: list[JoinSide] = []
    for side in group:
        if side.is_image:
            found.append(side)
        else:
            is_row = side.label or not needs_label or side.kind == Kind.EMPTY_ROW
            (rows if is_row else unlabelled).append(side)
    # Nearly always, there is one.
    images = sorted(set(found)) if len(found) > 1 else found
    labels: set[str] = set()
    if len(images) > 1:
        if rules.has_own:
            labels = {image.label for image in images}
        newest = {image.path: image for image in sorted(images, key=lambda each: each.version)}
        images = sorted(newest.values())
    if len(images) < len(found):
        yield Count("images_found_again", len(found) - len(images))
    if not images:
        for row in (*rows, *unlabelled):
            detail = f"no image has the key {key!r}"
            yield Rejection("row", Reason.ROW_WITHOUT_IMAGE.code, detail, row.where, key)
        return
    try:
        if len(images) > 1:
            names = _names(repr(image.path) for image in images)
            detail = f"{len(images)} images have the key {key!r}: {names}"
            raise RejectedImageError(Reason.DUPLICATE_KEY, detail)
        if len(labels) > 1:
            detail = f"its folders or pairs give it several labels: {_names(map(repr, labels))}"
            raise RejectedImageError(Reason.AMBIGUOUS_LABEL, detail)
        image = _label_image(key, images[0], rows, unlabelled, rules)
    except RejectedImageError as error:
        for image in images:
            yield Rejection("image", error.reason.code, error.detail, image.path, key)
        if rows or unlabelled:
            yield Count("rows_rejected", len(rows) + len(unlabelled))
        return
    yield from placed(key, image, len(rows), rules.assigner)
    for row in unlabelled:
        reason = Reason.MALFORMED_ROW.code
        yield Rejection("row", reason, "its label is missing", row.where, key)


def placed(
    key: str, image: JoinSide, rows: int, assigner: SplitAssigner
) -> Sequence[PlannedImage | Rejection | Count]:
    """An image with the data of its rows and its position, or its rejection.

    Args:
        key: its join key.
        image: with its label, and what its rows say.
        rows: their number.
        assigner: gives it its split and its order.
    """
    try:
        split, order = assigner.assign(key, split=image.split, group=image.group)
    except RejectedImageError as error:
        rejection = Rejection("image", error.reason.code, error.detail, image.path, key)
        return (rejection, Count("rows_rejected", rows)) if rows else (rejection,)
    path, size, version, label, _, _, group, cells, _, checksum, record = image
    # Elsewhere, the split says all about the group.
    group = group if assigner.keeps_group else ""
    place = (order, key, path, size, version, label, 0, cells, (), (), record)
    return (PlannedImage(*place, split, rows, checksum, group),)


def _label_image(
    key: str, image: JoinSide, rows: list[JoinSide], unlabelled: list[JoinSide], rules: JoinRules
) -> JoinSide:
    """The image with the data of its rows.

    Raises:
        RejectedImageError: it has no label, or its rows contradict each other.
    """
    label_from, requirements = rules.label_from, rules.requirements
    if image.version == MISSING:
        raise RejectedImageError(Reason.UNREADABLE, "there is no such file")
    if image.version == OUTSIDE:
        detail = "the file is far from its CSV; --allow_outside reads it"
        raise RejectedImageError(Reason.OUTSIDE_ROOT, detail)
    if label_from == "none" and not rows:
        return image._replace(label="")
    if rules.has_own and not image.label:
        raise RejectedImageError(Reason.NO_LABEL, _NO_LABEL[label_from])
    if rules.has_own and not rows:
        return image
    if not rows and unlabelled:
        detail = f"the label is missing in {_names(row.where for row in unlabelled)}"
        raise RejectedImageError(Reason.NO_LABEL, detail)
    if not rows and requirements.are_optional:
        return image._replace(cells=NO_ROWS)
    if not rows:
        raise RejectedImageError(Reason.NO_LABEL, f"no row has the key {key!r}")
    if requirements.many and len(rows) > MAX_OBJECTS:
        detail = f"it has {len(rows)} rows, more than {MAX_OBJECTS}: split the image"
        raise RejectedImageError(Reason.TOO_COSTLY, detail)
    labels = {row.label for row in rows} if len(rows) > 1 else set()
    if len(labels) > 1 and not requirements.many_labels:
        said = _names(f"{row.label!r} ({row.where})" for row in sorted(rows))
        raise RejectedImageError(Reason.LABEL_CONFLICT, f"labelled {said}")
    row = rows[0]
    if len(rows) > 1 and len({(each.split, each.group) for each in rows}) > 1:
        said = _names(
            f"split {each.split!r}, group {each.group!r} ({each.where})" for each in sorted(rows)
        )
        raise RejectedImageError(Reason.SPLIT_CONFLICT, f"its rows differ: {said}")
    label = image.label if rules.has_own else "" if requirements.many_labels else row.label
    cells = _kept_rows(rows, requirements) if requirements.needs_rows else ""
    split = row.split or image.split
    # Not `_replace`, which takes three times as long.
    path, size, version, _, where, *_, checksum, record = image
    file = (path, size, version, label, where)
    return JoinSide(*file, split, row.group, cells, Kind.IMAGE, checksum, record)


def _kept_rows(rows: list[JoinSide], requirements: RowRequirements) -> str:
    """The rows in the order of their files; identical rows are merged unless all count."""
    kept = sorted(rows, key=row_place)
    if not requirements.many:
        kept = list({(row.label, row.cells): row for row in reversed(kept)}.values())[::-1]
    return rows_text(kept, requirements)


def _names(names: Iterable[str]) -> str:
    in_order = sorted(names)
    return and_more(in_order[:_MAX_NAMED], len(in_order))


# Keeps only images whose key `--keys` lists; the lines of its file are sides of the join.

STANDARD_INPUT = "-"
"""The value of `--keys` for keys from standard input."""

MAX_LINE = 1 << 16
"""The longest line of a file of keys, in bytes; paths and object names are not longer."""

Joined: TypeAlias = PlannedImage | Rejection | Count

# Joins all sides with one key.
JoinGroup: TypeAlias = Callable[[str, Iterable[JoinSide]], Iterable[Joined]]


def key_line(where: str) -> JoinSide:
    """A line of a file of keys as a side of the join.

    Args:
        where: the file and the line, `FILE:LINE`.
    """
    return JoinSide("", 0, 0, "", where, kind=Kind.KEY_LINE)


def key_of_line(line: bytes, where: str) -> str:
    """The key in a line; empty if the line is blank.

    Raises:
        LabelsError: it is not UTF-8, or too long.

    >>> key_of_line(b" cat/1.jpg" + bytes([13]), "keys.txt:1")
    'cat/1.jpg'
    """
    if len(line) > MAX_LINE:
        raise LabelsError(f"--keys {where} has more than {MAX_LINE} bytes: write one key per line")
    try:
        return nfc(line.decode().strip())
    except UnicodeDecodeError:
        raise LabelsError(f"--keys {where} is not UTF-8: write one key per line") from None


def join_selected(key: str, group: Iterable[JoinSide], *, join: JoinGroup) -> Iterator[Joined]:
    """Joins the images and rows of one key if the key is listed, and otherwise counts them.

    Args:
        key: the join key.
        group: the images, rows, partners and key lines that have it.
        join: joins the images, the rows and the partners, see `join_group` and `join_partners`.

    Yields:
        the results of `join`; counts of images, rows and partners that are left out; for a key
        without an image, a `Rejection`.
    """
    found = list(group)
    lines = [side.where for side in found if side.kind == Kind.KEY_LINE]
    sides = [side for side in found if side.kind != Kind.KEY_LINE]
    if not lines:
        yield from _left_out(sides)
        return
    if not any(side.is_image for side in sides):
        # The first line of a key that is listed several times.
        where = min(lines, key=lambda line: (len(line), line))
        yield Rejection("key", Reason.KEY_NOT_FOUND.code, "no image has this key", where, key)
    yield from join(key, sides)


def _left_out(sides: list[JoinSide]) -> Iterator[Count]:
    partners = [(side.group, side.path) for side in sides if side.kind == Kind.PARTNER]
    images = [side.path for side in sides if side.is_image]
    for name, found in (("partners", partners), ("images", images)):
        if distinct := len({*found}):
            yield Count(f"{name}_left_out", distinct)
        if distinct < len(found):
            yield Count(f"{name}_found_again", len(found) - distinct)
    if rows := len(sides) - len(images) - len(partners):
        yield Count("rows_left_out", rows)
