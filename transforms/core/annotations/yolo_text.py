"""The text files of YOLO: one for each image, with a class and a box or an outline in each line."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from transforms.core.annotations.coco_json import SEGMENTATION, segmentation_text
from transforms.core.label_errors import LabelsError
from transforms.core.tables.table_formats import TableRows

YOLO_COLUMNS = ("image", "class", "x_center", "y_center", "width", "height", SEGMENTATION)
"""The columns of the rows; the image is the name of the file without its extension."""

NORMALIZED = "normalized"
"""The only name in the JSON of a segmentation whose polygons have coordinates from 0 to 1."""


def yolo_rows(data: bytes, path: str, *, segmentations: bool = False) -> TableRows:
    """A row for each line, or one without class and box for an image without objects.

    The box of an outline is around it. Lines that are neither five numbers nor an outline have a
    box that rejects the image, and so has a file that is not text.

    Args:
        data: the content of the file.
        path: its name, with a slash between folders.
        segmentations: whether to fill their column, with the outlines.

    >>> list(yolo_rows(b"3 .5 .5 1 1", "labels/a.txt"))
    [(1, ['a', '3', '.5', '.5', '1', '1', ''], '')]
    >>> list(yolo_rows(b"", "labels/a.txt"))
    [(1, ['a', '', '', '', '', '', ''], '')]
    """
    image = path.rpartition("/")[2].rpartition(".")[0]
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        yield from unreadable_rows("the file is not UTF-8 text", path)
        return
    if "\0" in text:
        yield from unreadable_rows("the file holds a NUL character", path)
        return
    has_objects = False
    for number, line in enumerate(text.splitlines(), 1):
        label, *numbers = line.split() or [""]
        if label:
            has_objects = True
            outline = _outline(numbers)
            box = _around(outline) if outline else _box(numbers)
            shown = segmentation_text({NORMALIZED: [outline]}) if outline and segmentations else ""
            yield number, [image, label, *box, shown], ""
    if not has_objects:
        yield 1, [image, *[""] * 6], ""


def yaml_class_names(text: str, path: str) -> tuple[str, ...]:
    """The classes in the `data.yaml` of a YOLO dataset: a list, or names by number.

    Args:
        text: of the file.
        path: its name for messages.

    Raises:
        LabelsError: it is not YAML, or has no such classes.

    >>> yaml_class_names("names: [no, cat]", "data.yaml")
    ('no', 'cat')
    >>> yaml_class_names("names: {0: person, 1: bicycle}", "coco8.yaml")
    ('person', 'bicycle')
    """
    # Few runs need it.
    import yaml

    try:
        # Names such as `no` stay texts.
        root: Any = yaml.load(text, Loader=yaml.BaseLoader)
    except (yaml.YAMLError, RecursionError) as error:
        problem = (str(error).splitlines() or ["nested too deeply"])[0]
        raise LabelsError(f"{path} is not YAML: {problem[:100]}") from error
    found = root.get("names") if isinstance(root, dict) else None
    names = _by_number(found, path) if isinstance(found, Mapping) else found
    if not isinstance(names, list) or not names:
        raise LabelsError(f"{path} has no names: write 'names: [cat, dog]', or one class per line")
    for name in names:
        if not isinstance(name, str) or len(name.split()) == 0 or len(name.splitlines()) > 1:
            raise LabelsError(f"{path}: {str(name)[:40]!r} in names is not the name of a class")
    return tuple(names)


def _by_number(names: Mapping[Any, Any], path: str) -> list[Any]:
    for number in map(str, range(len(names))):
        if number not in names:
            raise LabelsError(f"{path}: names has no class {number}: number all classes from 0")
    return [names[number] for number in map(str, range(len(names)))]


def unreadable_rows(problem: str, path: str) -> TableRows:
    """A row whose box is the reason why a file cannot be read, which rejects its image.

    Without any row, it would be an image without objects.

    Args:
        problem: the reason.
        path: see `yolo_rows`.
    """
    image = path.rpartition("/")[2].rpartition(".")[0]
    yield 1, [image, "0", *[problem] * 4, ""], ""


def _outline(numbers: list[str]) -> list[float]:
    """The x and y of each of three points or more; empty if the numbers are not an outline."""
    if len(numbers) < 6 or len(numbers) % 2:
        return []
    try:
        sides = [float(number) for number in numbers]
    except ValueError:
        return []
    return sides if all(map(math.isfinite, sides)) else []


def _around(outline: list[float]) -> list[str]:
    """The four cells of the box around an outline: center and size."""
    left, right = min(outline[::2]), max(outline[::2])
    top, bottom = min(outline[1::2]), max(outline[1::2])
    return list(map(repr, ((left + right) / 2, (top + bottom) / 2, right - left, bottom - top)))


def _box(numbers: list[str]) -> list[str]:
    """The four cells of a box: center and size."""
    if len(numbers) >= 6 and len(numbers) % 2 == 0:
        return [" ".join(numbers)[:40]] * 4
    if len(numbers) > 4:
        return [*numbers[:3], " ".join(numbers[3:])[:40]]
    return [*numbers, *[""] * (4 - len(numbers))]
