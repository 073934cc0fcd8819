"""The annotation files of Pascal VOC: one XML file for each image."""

from __future__ import annotations

import codecs
import re
from typing import Any
from xml.parsers import expat

from transforms.core.tables.table_formats import TableRows

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


class _DoctypeError(Exception):
    """A document type, which can define entities that grow without bounds."""


def voc_rows(data: bytes, path: str) -> TableRows:
    """A row for each object, or one without class and box for an image without objects.

    The place of a row is the line of its object. Entities cannot be defined: a file with a document
    type is not read, as annotations never have one.

    Args:
        data: the content of the file.
        path: its name; names the image if the file does not.

    >>> list(voc_rows(b"<annotation><filename>1.jpg</filename></annotation>", "1.xml"))
    [(1, ['1.jpg', '', '', '', '', '', '', '', ''], '')]
    """
    stem = path.rpartition("/")[2].rpartition(".")[0]
    reader = _Reader()
    try:
        reader.read(_decoded(data))
    except _DoctypeError:
        yield 1, [stem], "it has a document type (DOCTYPE), which annotations do not need"
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
        self._parser: Any = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartDoctypeDeclHandler = _refuse
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text.append

    def read(self, data: bytes | str) -> None:
        """Reads the whole file; in a text, its declaration of an encoding does not count."""
        self._parser.Parse(data, True)

    def _start(self, name: str, _: dict[str, str]) -> None:
        self._path.append(name)
        self._text.clear()
        if len(self._path) == 1:
            self.root = name
        elif len(self._path) == 2 and name == "object":
            self.objects.append((self._parser.CurrentLineNumber, [""] * len(VOC_COLUMNS)))

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
    raise _DoctypeError
