"""Annotations: the JSON of COCO, and files of one image each of Pascal VOC and YOLO."""

from __future__ import annotations

import codecs
import gzip
import itertools
import json
import math
import re
import reprlib
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, TextIO
from xml.parsers import expat

from transforms.core.messages import LabelsError, parse_yaml, without_collecting
from transforms.labels.csv_tables import open_text
from transforms.labels.label_rows import (
    MAX_CELL,
    MAX_KEY,
    MAX_OBJECTS,
    Category,
    TableRows,
    label_text,
    text_problem,
    value_text,
)
from transforms.labels.label_rules import KnownClasses
from transforms.labels.vocabulary import MAX_LINES

# The members of a large JSON object, lists item by item, in bounded memory.

SECTIONS = ("images", "annotations", "categories")
"""The lists of COCO's files that are read; others are skipped."""

MAX_ITEM = 4 << 20
"""The longest item of a list, in characters: empty lists take 30 times as much memory."""

# More than the header of any annotation file has: a gzip file of 30 KB may hold ten million. A
# category takes 3 KB and 75 microseconds of a run, used or not.
_MAX_NAMES = 1000
_MAX_OTHERS = 50_000
_UNBOUNDED = ("images", "annotations")

_CHUNK = 1 << 20

# Characters of items that are decoded at once.
_MANY = 1 << 16

# What is decided closer to the end of the text may be due to the cut.
_NEAR_END = 16

_BLANKS = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


def read_members(text: TextIO, *, path: str) -> Iterator[tuple[str, bool, Any]]:
    """The members of the object that a text is, in order.

    Args:
        text: open for reading, at its start.
        path: the name of the file for messages.

    Yields:
        the name of a member, whether its value is a list, and the value; a list is left out itself,
        and each of its items is yielded.

    Raises:
        LabelsError: the text is not JSON, not an object, has a name twice, ends too early, or an
            item is too long.

    >>> import io
    >>> list(read_members(io.StringIO('{"a": [1, {"b": 2}], "c": null}'), path="a.json"))
    [('a', True, 1), ('a', True, {'b': 2}), ('c', False, None)]
    """
    reader = _Reader(text, path)
    names: set[str] = set()
    for _ in reader.each("{", "}"):
        name = reader.value()
        if not isinstance(name, str):
            raise reader.error("a name is expected")
        if name in names:
            raise reader.error(f"a second {name[:40]!r}")
        names.add(name)
        if len(names) > _MAX_NAMES:
            raise reader.error(f"more than {_MAX_NAMES} names")
        reader.expect(":")
        if reader.next_character() != "[":
            yield name, False, reader.value()
            continue
        for number, item in enumerate(reader.items()):
            if number >= _MAX_OTHERS and name not in _UNBOUNDED:
                raise reader.error(f"more than {_MAX_OTHERS} items of {name[:40]!r}")
            yield name, True, item
    if reader.next_character():
        raise reader.error("the object has ended, but the file has not")


class _Reader:
    """Decodes values from a text of which a part is in memory."""

    def __init__(self, text: TextIO, path: str) -> None:
        self._text, self._path = text, path
        self._part = ""
        self._at = self._before = self._single = 0
        self._is_all = False

    def next_character(self) -> str:
        """The first character of the next value or separator; empty at the end."""
        while True:
            # Most of the time, there is none.
            if (first := self._part[self._at : self._at + 1]) > " ":
                return first
            if found := _BLANKS.match(self._part, self._at):
                self._at = found.end()
            if self._at < len(self._part):
                return self._part[self._at]
            if self._is_all:
                return ""
            self._read()

    def expect(self, character: str) -> None:
        """Takes one character."""
        if self.next_character() != character:
            raise self.error(f"{character!r} is expected")
        self._at += 1

    def each(self, opening: str, closing: str) -> Iterator[None]:
        """Stops at each item of a list, or at each member of an object, for which it is resumed."""
        self.expect(opening)
        is_first = True
        while self.next_character() != closing:
            if not is_first:
                self.expect(",")
            is_first = False
            yield
        self.expect(closing)

    def items(self) -> Iterator[Any]:
        """The items of the next value, which is a list."""
        for _ in self.each("[", "]"):
            yield from self._many()
            yield self.value()

    def _many(self) -> list[Any]:
        """Items up to one that begins as a later item may, decoded at once if that is possible.

        Each by itself takes three times as long.
        """
        part, at, most = self._part, self._at, self._at + _MANY
        if self._before + at < self._single:
            return []
        cut = max(part.rfind("},{", at, most), part.rfind("}, {", at, most)) + 1
        self._single = self._before + (cut or most)
        try:
            items = without_collecting(_DECODER.decode, f"[{part[at:cut]}]")
        except (ValueError, RecursionError):
            # The cut is inside of an item, or behind the list, or there is damage.
            return []
        if items:
            self._at = cut
            self.expect(",")
        return list(items)

    def value(self) -> Any:
        """The next value, as a whole."""
        if not self.next_character():
            raise self.error("the file ends too early")
        # So much that no decoding is in vain, which takes seconds for some items.
        while len(self._part) - self._at <= MAX_ITEM + _NEAR_END and not self._is_all:
            self._read()
        try:
            value, end = without_collecting(_DECODER.raw_decode, self._part, self._at)
        except json.JSONDecodeError as error:
            is_cut = error.pos + _NEAR_END >= len(self._part) or "Unterminated" in error.msg
            if self._is_all or not is_cut:
                raise self.error(error.msg, error.pos - self._at) from error
            end = len(self._part)
        except (ValueError, RecursionError) as error:
            # A number with too many digits, or lists that are nested too deeply.
            raise self.error(str(error)[:100]) from error
        if end - self._at > MAX_ITEM:
            raise self.error(f"a value of more than {MAX_ITEM} characters")
        self._at = end
        return value

    def error(self, problem: str, further: int = 0) -> LabelsError:
        """The error at this place, or some characters behind it."""
        place = self._before + self._at + further + 1
        return LabelsError(f"{self._path} is damaged JSON at character {place}: {problem}")

    def _read(self) -> None:
        try:
            more = self._text.read(_CHUNK)
        except (UnicodeError, EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise self.error(str(error)[:100], len(self._part) - self._at) from error
        self._before += self._at
        self._part = self._part[self._at :] + more
        self._at = 0
        self._is_all = not more


# COCO's annotation files: one JSON object with the images, categories and annotations.

SEGMENTATION = "segmentation"
"""The column of segmentations, whose cells are JSON."""

SEGMENTATIONS = "segmentations"
"""What `FirstRows.left_out` calls them."""

COCO_COLUMNS = (
    *("file_name", "category", "x", "y", "width", "height", "area", "iscrowd"),
    SEGMENTATION,
)
"""The columns of the rows."""

_MAX_ID = 2**31


def read_coco(
    binary_file: BinaryIO, *, path: str
) -> tuple[tuple[Category, ...], tuple[tuple[str, int], ...], Collection[str]]:
    """Reads the whole file once.

    The names of the images are in memory: about 200 bytes each.

    Args:
        binary_file: open for reading bytes; gzip is recognized by its first bytes. Not closed.
        path: the name of the file for messages.

    Returns:
        its classes, in its order; how many annotations have keypoints, which become no features, or
        a segmentation, which becomes a mask only if a layout has one; and the names of its images.

    Raises:
        LabelsError: it is not an annotation file with boxes, it is damaged, or its ids contradict
            each other.
    """
    images: dict[Any, str] = {}
    names: dict[int, str] = {}
    uses: Counter[Any] = Counter()
    left_out: Counter[str] = Counter()
    sections = set()
    boxes = 0
    for section, is_list, item in read_members(open_text(binary_file, path=path), path=path):
        sections.add(section)
        if section in SECTIONS and not (is_list and isinstance(item, dict)):
            raise LabelsError(f"{path}: {section!r} is not a list of objects, as in COCO")
        if section == "images":
            _add_image(images, item, path)
        elif section == "categories":
            _add_category(names, item, path)
        elif section == "annotations":
            boxes += "bbox" in item
            uses[_category_id(item.get("category_id"))] += 1
            left_out[SEGMENTATIONS] += bool(item.get(SEGMENTATION))
            left_out["keypoints"] += bool(item.get("keypoints"))
    missing = [name for name in ("images", "categories") if name not in sections]
    problem = f"it has no {' and no '.join(missing)}" if missing else ""
    if not missing and uses and not boxes:
        problem = "its annotations have no bbox"
    if problem:
        raise LabelsError(
            f"{path} is JSON, but not a COCO file with boxes: {problem}; a table is CSV, Parquet, "
            "or one JSON object per line"
        )
    categories = [Category(number, name, uses[number]) for number, name in names.items()]
    return tuple(categories), tuple(each for each in left_out.items() if each[1]), images.values()


def coco_rows(
    binary_file: BinaryIO, categories: Iterable[Category], *, segmentations: bool = False, path: str
) -> TableRows:
    """A row for each annotation, then one without category and box for each image without any.

    The place of a row is the number of its annotation, or of its image, from 1.

    Args:
        binary_file: open for reading bytes, at its start; read again if annotations come before
            images. Not closed.
        categories: of the file.
        segmentations: whether to fill their column.
        path: the name of the file for messages.

    Raises:
        LabelsError: the file is damaged, or the ids of its images contradict each other.
    """
    names = {category.id: category.name for category in categories}
    images: dict[Any, str] = {}
    without: dict[Any, int] = {}
    text = open_text(binary_file, path=path)
    number = 0
    is_ahead = False
    for section, _, item in read_members(text, path=path):
        if section == "images" and not is_ahead:
            _add_image(images, item, path)
            without.setdefault(_plain_id(item["id"]), len(without) + 1)
        elif section == "annotations":
            if not images and not is_ahead:
                is_ahead = True
                _add_images(images, binary_file, path)
                without = {each: at for at, each in enumerate(images, 1)}
            number += 1
            image = _image_id(item.get("image_id"), images)
            without.pop(image, None)
            at, cells, problem = _row(number, images.get(image), item, names)
            if cells:
                cells.append(segmentation_text(item.get(SEGMENTATION)) if segmentations else "")
            yield at, cells, problem
    for image, at in without.items():
        cells = [images[image], *[""] * (len(COCO_COLUMNS) - 1)]
        yield at, cells, text_problem(cells)


def segmentation_text(value: Any) -> str:
    """A segmentation as JSON; of one that is too long, what is wrong.

    >>> segmentation_text([[1, 2, 3, 4, 5, 6]]), segmentation_text([])
    ('[[1,2,3,4,5,6]]', '')
    """
    if not value:
        return ""
    try:
        text = json.dumps(value, separators=(",", ":"))
    except RecursionError:
        return "nested too deeply"
    return text if len(text) <= MAX_CELL else f"more than {MAX_CELL} characters"


def category_classes(files: Mapping[str, Sequence[Category]], *, first_id: int) -> KnownClasses:
    """The classes of all categories with their ids, sorted by id.

    Some tools write a category twice, or one with the id 0, for a class of all others: it is left
    out if no annotation has it, as is one whose id has no line in `labels.txt`.

    Args:
        files: the categories of each file by its path.
        first_id: the smallest id that readers take for a class.

    Raises:
        LabelsError: files give one id to two names, or annotations use two ids of one name, or an
            id that is too small or too large.

    >>> categories = [Category(0, "cat", 0), Category(1, "cat", 5), Category(7, "dog", 0)]
    >>> category_classes({"a.json": categories}, first_id=1)[::3]
    (('cat', 'dog'), (1, 7))
    """
    found: dict[int, tuple[str, str]] = {}
    uses: Counter[int] = Counter()
    for path, categories in files.items():
        for number, name, used in categories:
            uses[number] += used
            former, other = found.setdefault(number, (name, path))
            if former != name:
                raise LabelsError(
                    f"{path}: the category {number} is {name!r}, but {former!r} in {other}: all "
                    "files of --labels need the same categories"
                )
    small = [number for number in found if number < first_id]
    large = [number for number in found if number >= MAX_LINES]
    background = "which readers of --layout detection reserve for the background"
    too_large = f"but labels.txt holds ids below {MAX_LINES}"
    for numbers, why, first in ((small, background, 1), (large, too_large, first_id)):
        if wrong := [number for number in numbers if uses[number]]:
            name, path = found[wrong[0]]
            raise LabelsError(
                f"{path}: the category {name!r} has the id {wrong[0]}, {why}: give --class_names "
                f"FILE, whose lines count from {first}"
            )
    ids: dict[str, int] = {}
    for number in sorted(set(found) - {*small, *large}, key=lambda each: (not uses[each], each)):
        name, path = found[number]
        other_id = ids.setdefault(name, number)
        if other_id != number and uses[number]:
            raise LabelsError(
                f"{path}: the categories {other_id} and {number} are both {name!r}: give them two "
                "names, or --class_names FILE"
            )
    ordered = sorted(ids.items(), key=lambda each: each[1])
    names = tuple(name for name, _ in ordered)
    return KnownClasses(names, numbers=tuple(number for _, number in ordered))


def _add_images(images: dict[Any, str], binary_file: BinaryIO, path: str) -> None:
    """Finds the images behind the annotations, in a second reading of the file."""
    place = binary_file.tell()
    binary_file.seek(0)
    for section, _, item in read_members(open_text(binary_file, path=path), path=path):
        if section == "images":
            _add_image(images, item, path)
    binary_file.seek(place)


def _add_image(images: dict[Any, str], item: Any, path: str) -> None:
    number, name = item.get("id"), item.get("file_name")
    is_id = isinstance(number, int | str) or (isinstance(number, float) and number.is_integer())
    if not is_id or not isinstance(name, str) or not name.strip():
        raise LabelsError(f"{path}: an image has no id or no file_name: {str(item)[:100]}")
    if max(len(name), len(str(number))) > MAX_KEY:
        problem = f"an image has an id or a file_name of more than {MAX_KEY} characters"
        raise LabelsError(f"{path}: {problem}: {name[:60]!r}")
    former = images.setdefault(_plain_id(number), name)
    if former != name:
        raise LabelsError(
            f"{path}: the images {former!r} and {name!r} have the same id {number!r}, so boxes of "
            "one cannot be told from those of the other: give each image its own id"
        )


def _add_category(names: dict[int, str], item: Any, path: str) -> None:
    number, name = _category_id(item.get("id")), item.get("name")
    if isinstance(name, int) and not isinstance(name, bool):
        # Of digits, for example.
        name = str(name)
    is_name = isinstance(name, str) and bool(label_text(name)) and not text_problem([name])
    if number is None or not is_name:
        raise LabelsError(f"{path}: a category has no integer id or no name: {str(item)[:100]}")
    if len(name) > MAX_KEY:
        problem = f"the name of the category {number} has more than {MAX_KEY} characters"
        raise LabelsError(f"{path}: {problem}: {name[:60]!r}")
    former = names.setdefault(number, label_text(name))
    if former != label_text(name):
        raise LabelsError(
            f"{path}: the categories {former!r} and {name!r} have the same id {number}: give each "
            "its own"
        )


def _row(
    number: int, image: str | None, item: Mapping[str, Any], names: Mapping[Any, str]
) -> tuple[int, list[str], str]:
    """The row of an annotation; a box of another form rejects its image."""
    if image is None:
        shown = repr(item.get("image_id"))[:40]
        return number, [], f"its image_id {shown} is not that of an image"
    category, box = item.get("category_id"), item.get("bbox")
    known = _category_id(category)
    label = names[known] if known in names else f"category {_plain(str(category)[:40])}"
    sides = box if isinstance(box, list) and len(box) == 4 else [""] * 4
    texts = [value_text(each)[:60] for each in (*sides, item.get("area"), item.get("iscrowd"))]
    # To look at each of them would take nearly half of the time.
    texts = [*map(_plain, texts)] if text_problem(texts) else texts
    return number, [image, label, *texts], text_problem([image])


def _plain(text: str) -> str:
    """A wrong value as a text that can be shown: a problem of its row would leave out the box."""
    return ascii(text) if text_problem([text]) else text


def _category_id(value: Any) -> int | None:
    """The id of a category, which some tools write as a text or, as data frames do, as 18.0."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value[:20])
    elif isinstance(value, float) and value.is_integer():
        value = int(value)
    is_id = isinstance(value, int) and not isinstance(value, bool) and abs(value) < _MAX_ID
    return value if is_id else None


def _image_id(value: Any, images: Mapping[Any, str]) -> Any:
    """The id of the image that an annotation names, which some tools write as a text there.

    A list or an object is none.
    """
    if not isinstance(value, int | str | float):
        return None
    value = _plain_id(value)
    if value in images:
        return value
    is_number = isinstance(value, str) and re.fullmatch(r"[0-9]{1,18}", value, re.ASCII)
    other = int(value) if is_number else str(value)
    return other if other in images else value


def _plain_id(value: Any) -> Any:
    """An id as it is compared: of larger integers, any number can have the same hash."""
    return str(value) if isinstance(value, int) and value.bit_length() > 60 else value


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


# Elements inside of each other; annotations have four. An object has ten elements.
_MAX_DEPTH = 100
_MAX_ELEMENTS = 250_000


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
    try:
        if isinstance(data, str):
            raise LabelsError(data)
        # In a text, its declaration of an encoding does not count.
        root, image, objects = _voc_objects(_decoded(data))
    except LabelsError as error:
        yield 1, [stem], str(error)
        return
    except (expat.ExpatError, ValueError, LookupError) as error:
        yield 1, [stem], f"it is not XML ({error})"
        return
    if root != "annotation":
        yield 1, [stem], f"its root is {root[:40]!r}, not 'annotation'"
        return
    for line, cells in objects or [(1, [""] * len(VOC_COLUMNS))]:
        yield line, [image or stem, *cells[1:]], ""


def _voc_objects(text: bytes | str) -> tuple[str, str, list[tuple[int, list[str]]]]:
    """The name of the outermost element and of the image, and the line and cells of each object.

    Raises:
        LabelsError, ValueError, expat.ExpatError: it cannot be read.
    """
    names = {"root": "", "image": ""}
    objects: list[tuple[int, list[str]]] = []
    path: list[str] = []
    texts: list[str] = []
    parser: Any = expat.ParserCreate()
    elements = itertools.count()

    def start(name: str, _: dict[str, str]) -> None:
        path.append(name)
        texts.clear()
        if next(elements) == _MAX_ELEMENTS or len(parser.intern) > _MAX_NAMES:
            raise ValueError("it has more elements, or names of these, than annotations have")
        if len(path) > _MAX_DEPTH:
            # The parser takes over a kilobyte for each.
            raise ValueError(f"more than {_MAX_DEPTH} elements are inside of each other")
        if len(path) == 1:
            names["root"] = name
        elif len(path) == 2 and name == "object":
            if len(objects) == MAX_OBJECTS:
                raise ValueError(f"it has more than {MAX_OBJECTS} objects")
            objects.append((parser.CurrentLineNumber, [""] * len(VOC_COLUMNS)))

    def end(_: str) -> None:
        place = tuple(path[1:]) if len(path) <= 4 else ()
        path.pop()
        text = "".join(texts).strip()
        texts.clear()
        if place == _IMAGE:
            names["image"] = text
        elif place in _OF_OBJECT:
            objects[-1][1][_OF_OBJECT[place]] = text

    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = _refuse
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = texts.append
    parser.Parse(text, True)
    return names["root"], names["image"], objects


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
    try:
        # Names such as `no` stay texts.
        root = parse_yaml(text, as_texts=True)
    except ValueError as error:
        raise LabelsError(f"{path} {str(error)[:100]}") from error
    names = root.get("names") if isinstance(root, dict) else None
    if isinstance(names, Mapping):
        numbers = [*map(str, range(len(names)))]
        if missing := next((number for number in numbers if number not in names), ""):
            raise LabelsError(f"{path}: names has no class {missing}: number all classes from 0")
        names = [names[number] for number in numbers]
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
