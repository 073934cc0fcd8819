"""Annotations of Pascal VOC and YOLO: files of one image each."""

from __future__ import annotations

import codecs
import math
import re
import reprlib
from collections.abc import Mapping
from typing import Any
from xml.parsers import expat

from transforms.core.messages import LabelsError, check_yaml
from transforms.labels.coco import SEGMENTATION, segmentation_text
from transforms.labels.table_formats import MAX_OBJECTS, TableRows

# The annotation files of Pascal VOC: one XML file for each image.

VOC_COLUMNS = (
    *("filename", "class", "xmin", "ymin", "xmax", "ymax"),
    *("difficult", "truncated", "pose"),
)
"""The columns of the rows."""

# Below `annotation`.
_OF_OBJECT: dict[tuple[str, ...], int] = {
    ("object", "name"): 1,
    **{("object", "bndbox", name): at for at, name in enumerate(VOC_COLUMNS) if 2 <= at <= 5},
    **{("object", name): at for at, name in enumerate(VOC_COLUMNS) if at >= 6},
}
_IMAGE = ("filename",)

_ENCODING = re.compile(rb"""\s*<\?xml[^>]*?encoding\s*=\s*["']([A-Za-z0-9._-]{1,40})["']""")

# Encodings of several bytes for a character, which expat does not know, and the larger one that is
# meant, as in the Encoding Standard of browsers.
_EAST_ASIAN = {
    **dict.fromkeys(("gb2312", "gbk", "gb18030"), "gb18030"),
    **dict.fromkeys(("euc_kr", "cp949"), "cp949"),
    **dict.fromkeys(("shift_jis", "cp932"), "cp932"),
    **{name: name for name in ("big5", "big5hkscs", "cp950", "euc_jp", "johab")},
}


# Elements inside of each other; annotations have four.
_MAX_DEPTH = 100


def voc_rows(data: bytes | str, path: str) -> TableRows:
    """A row for each object, or one without class and box for an image without objects.

    The place of a row is the line of its object. Entities cannot be defined: a file with a document
    type is not read, as annotations never have one.

    Args:
        data: the content of the file, or the reason why it cannot be read.
        path: its name; names the image if the file does not.

    >>> list(voc_rows(b"<annotation><filename>1.jpg</filename></annotation>", "1.xml"))
    [(1, ['1.jpg', '', '', '', '', '', '', '', ''], '')]
    """
    stem = path.rpartition("/")[2].rpartition(".")[0]
    reader = _Reader()
    try:
        if isinstance(data, str):
            raise LabelsError(data)
        # In a text, its declaration of an encoding does not count.
        reader.parser.Parse(_decoded(data), True)
    except LabelsError as error:
        yield 1, [stem], str(error)
        return
    except (expat.ExpatError, ValueError, LookupError) as error:
        yield 1, [stem], f"it is not XML ({error})"
        return
    if reader.root != "annotation":
        yield 1, [stem], f"its root is {reader.root[:40]!r}, not 'annotation'"
        return
    image = reader.image or stem
    for line, cells in reader.objects or [(1, [""] * len(VOC_COLUMNS))]:
        yield line, [image, *cells[1:]], ""


class _Reader:
    """Follows the elements of a file.

    Attributes:
        parser: to which the file is given.
        root: the name of the outermost element.
        image: the name of the image; empty if the file has none.
        objects: the line and the cells of each object.
    """

    def __init__(self) -> None:
        self.root = ""
        self.image = ""
        self.objects: list[tuple[int, list[str]]] = []
        self._path: list[str] = []
        self._text: list[str] = []
        self.parser: Any = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartDoctypeDeclHandler = _refuse
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text.append

    def _start(self, name: str, _: dict[str, str]) -> None:
        self._path.append(name)
        self._text.clear()
        if len(self._path) > _MAX_DEPTH:
            # The parser takes over a kilobyte for each.
            raise ValueError(f"more than {_MAX_DEPTH} elements are inside of each other")
        if len(self._path) == 1:
            self.root = name
        elif len(self._path) == 2 and name == "object":
            if len(self.objects) == MAX_OBJECTS:
                raise ValueError(f"it has more than {MAX_OBJECTS} objects")
            self.objects.append((self.parser.CurrentLineNumber, [""] * len(VOC_COLUMNS)))

    def _end(self, _: str) -> None:
        place = tuple(self._path[1:]) if len(self._path) <= 4 else ()
        self._path.pop()
        text = "".join(self._text).strip()
        self._text.clear()
        if place == _IMAGE:
            self.image = text
        elif place in _OF_OBJECT:
            self.objects[-1][1][_OF_OBJECT[place]] = text


def _decoded(data: bytes) -> bytes | str:
    """The text of a file in an encoding that expat does not know, and other files as they are.

    Raises:
        UnicodeDecodeError: it has other bytes.
    """
    found = _ENCODING.match(data)
    if found is None:
        return data
    # An unknown one is a LookupError.
    name = codecs.lookup(found[1].decode()).name
    return data.decode(_EAST_ASIAN[name]) if name in _EAST_ASIAN else data


def _refuse(*_: Any) -> None:
    # It can define entities that grow without bounds.
    raise LabelsError("it has a document type (DOCTYPE), which annotations do not need")


# The text files of YOLO: one for each image, with a class and a box or an outline in each line.

YOLO_COLUMNS = ("image", "class", "x_center", "y_center", "width", "height", SEGMENTATION)
"""The columns of the rows; the image is the name of the file without its extension."""

NORMALIZED = "normalized"
"""The only name in the JSON of a segmentation whose polygons have coordinates from 0 to 1."""


def yolo_rows(data: bytes | str, path: str, *, segmentations: bool = False) -> TableRows:
    """A row for each line, or one without class and box for an image without objects.

    The box of an outline is around it. Lines that are neither five numbers nor an outline have a
    box that rejects the image, and so has a file that is not text: without any row, it would be an
    image without objects.

    Args:
        data: the content of the file, or the reason why it cannot be read.
        path: its name, with a slash between folders.
        segmentations: whether to fill their column, with the outlines.

    >>> list(yolo_rows(b"3 .5 .5 1 1", "labels/a.txt"))
    [(1, ['a', '3', '.5', '.5', '1', '1', ''], '')]
    >>> list(yolo_rows(b"", "labels/a.txt"))
    [(1, ['a', '', '', '', '', '', ''], '')]
    """
    image = path.rpartition("/")[2].rpartition(".")[0]
    lines, problem = _yolo_lines(data)
    if problem:
        yield 1, [image, "0", *[problem] * 4, ""], ""
        return
    has_objects = False
    for number, line in enumerate(lines, 1):
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
        root: Any = yaml.load(check_yaml(text), Loader=yaml.BaseLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        problem = (str(error).splitlines() or ["nested too deeply"])[0]
        raise LabelsError(f"{path} is not YAML: {problem[:100]}") from error
    found = root.get("names") if isinstance(root, dict) else None
    names = found
    if isinstance(found, Mapping):
        numbers = [*map(str, range(len(found)))]
        if missing := next((number for number in numbers if number not in found), ""):
            raise LabelsError(f"{path}: names has no class {missing}: number all classes from 0")
        names = [found[number] for number in numbers]
    if not isinstance(names, list) or not names:
        raise LabelsError(f"{path} has no names: write 'names: [cat, dog]', or one class per line")
    for name in names:
        if not isinstance(name, str) or len(name.split()) == 0 or len(name.splitlines()) > 1:
            # A text of 1 KB may hold a list of lists that have billions of items together.
            shown = name if isinstance(name, str) else reprlib.repr(name)
            raise LabelsError(f"{path}: {shown[:40]!r} in names is not the name of a class")
    return tuple(names)


def _yolo_lines(data: bytes | str) -> tuple[list[str], str]:
    """The lines of a file, or why they cannot be read."""
    if isinstance(data, str):
        return [], data
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return [], "the file is not UTF-8 text"
    if "\0" in text:
        return [], "the file holds a NUL character"
    lines = text.splitlines()
    return lines, f"the file has more than {MAX_OBJECTS} lines" if len(lines) > MAX_OBJECTS else ""


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
