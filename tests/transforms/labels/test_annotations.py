"""Annotations of COCO, Pascal VOC and YOLO become rows."""

import gc
import gzip
import io
import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.marks import cases
from tests.spies import memory_below
from transforms.core.messages import LabelsError
from transforms.labels import annotations as json_members
from transforms.labels.annotations import (
    COCO_COLUMNS,
    VOC_COLUMNS,
    YOLO_COLUMNS,
    category_classes,
    coco_rows,
    read_coco,
    read_members,
    voc_rows,
    yaml_class_names,
    yolo_rows,
)
from transforms.labels.label_rows import Category
from transforms.labels.label_rules import KnownClasses

# COCO files as rows, and the ids of their categories.

IMAGES = [{"id": 1, "file_name": "a.jpg"}, {"id": 2, "file_name": "b.jpg"}]
CATEGORIES = [{"id": 18, "name": "dog"}, {"id": 1, "name": "person"}]
BOX = {"image_id": 1, "category_id": 18, "bbox": [1, 2.5, 3, 4], "area": 11.5, "iscrowd": 0}
SIDES = ["1", "2.5", "3", "4"]
LONG = "x" * 4097


def document(**sections: Any) -> dict[str, Any]:
    return {"images": IMAGES, "annotations": [BOX], "categories": CATEGORIES, **sections}


def stream(content: Any) -> io.BytesIO:
    return io.BytesIO(json.dumps(content).encode())


def rows(file: io.BytesIO, *, masks: bool = False) -> list[tuple[int, list[str], str]]:
    categories = read_coco(file, path="a.json")[0]
    file.seek(0)
    return list(coco_rows(file, categories, segmentations=masks, path="a.json"))


@pytest.mark.parametrize("first", ["images", "annotations", "categories"])
def test_an_annotation_is_a_row_and_so_is_an_image_without_any(first: str) -> None:
    assert len(COCO_COLUMNS) == 9
    content = {first: document()[first], **document()}
    for file in (stream(content), io.BytesIO(gzip.compress(stream(content).getvalue()))):
        assert rows(file) == [
            (1, ["a.jpg", "dog", *SIDES, "11.5", "0", ""], ""),
            (2, ["b.jpg", "", "", "", "", "", "", "", ""], ""),
        ]


def test_what_becomes_no_feature_is_counted() -> None:
    segmentations: list[Any] = [[[1, 2, 3, 4, 5, 6]], {"counts": [1, 2], "size": [3, 4]}, []]
    annotations = [{**BOX, "segmentation": each} for each in segmentations]
    annotations[0]["keypoints"] = [1, 2, 2]
    content = document(annotations=annotations, categories=[*CATEGORIES, {"id": 7, "name": 7}])
    found, others, _ = read_coco(stream(content), path="a.json")
    assert found == (Category(18, "dog", 3), Category(1, "person", 0), Category(7, "7", 0))
    assert others == (("segmentations", 2), ("keypoints", 1))


@cases(
    ([[1, 2.5, 3, 4, 5, 6]], "[[1,2.5,3,4,5,6]]"),
    ({"size": [2, 1], "counts": [0, 2]}, '{"size":[2,1],"counts":[0,2]}'),
    ({"size": [2, 1], "counts": "한"}, '{"size":[2,1],"counts":"\\ud55c"}'),
    ([], ""),
    (None, ""),
    ([[1.5] * 300_000], "more than 1048576 characters"),
    ([1.5] * 250_000, f"[{','.join(['1.5'] * 250_000)}]"),
)
def test_segmentations_are_cells_if_they_are_needed(segmentation: Any, cell: str) -> None:
    file = stream(document(annotations=[{**BOX, "segmentation": segmentation}]))
    assert rows(file, masks=True)[0][1][8:] == [cell]
    file.seek(0)
    assert rows(file)[0][1][8:] == [""]


@cases(
    ({"category_id": 7}, ["category 7", *SIDES], ""),
    ({"category_id": "18"}, ["dog", *SIDES], ""),
    ({"category_id": 18.0}, ["dog", *SIDES], ""),
    ({"category_id": 18.5}, ["category 18.5", *SIDES], ""),
    ({"category_id": [18]}, ["category [18]", *SIDES], ""),
    ({"category_id": "\ud800"}, ["category '\\ud800'", *SIDES], ""),
    ({"bbox": [1, 2, 3]}, ["dog", *[""] * 4], ""),
    ({"bbox": None}, ["dog", *[""] * 4], ""),
    ({"bbox": [1, 2, 3, "\0"]}, ["dog", "1", "2", "3", "'\\x00'"], ""),
    ({"bbox": [1, None, float("nan"), "x"]}, ["dog", "1", "", "", "x"], ""),
    ({"image_id": 9}, [], "its image_id 9 is not that of an image"),
    ({"image_id": "\ud800"}, [], "its image_id '\\ud800' is not that of an image"),
)
def test_an_error_rejects_an_image(changed: dict[str, Any], cells: list[str], problem: str) -> None:
    """It keeps a row, so that the image is not stored without an object."""
    first, *_ = rows(stream(document(annotations=[{**BOX, **changed}, BOX])))
    assert first[1][:6] == (["a.jpg", *cells] if cells else [])
    assert first[2] == problem


@cases((1, "1"), ("1", 1), (1.0, 1), (1, 1.0), (2**70, 2**70), ("9" * 30, "9" * 30))
def test_ids_of_images_may_differ_in_type(of_image: Any, of_box: Any) -> None:
    images = [{"id": of_image, "file_name": "a.jpg"}]
    found = rows(stream(document(images=images, annotations=[{**BOX, "image_id": of_box}])))
    assert [cells[:2] for _, cells, _ in found] == [["a.jpg", "dog"]]


def test_ids_that_have_the_same_hash_take_no_time() -> None:
    """A dictionary with 20,000 of them takes 13 s."""
    images = [{"id": n * (2**61 - 1), "file_name": f"{n}.jpg"} for n in range(1, 20_001)]
    began = time.process_time()
    assert len(rows(stream(document(images=images, annotations=[])))) == len(images)
    assert time.process_time() - began < 5


@cases(
    ({"categories": None}, "not a COCO file with boxes: it has no categories"),
    ({"images": None, "categories": None}, "it has no images and no categories"),
    ({"annotations": [{"image_id": 1, "caption": "-"}]}, "its annotations have no bbox"),
    ({"images": [*IMAGES, {"id": 1, "file_name": "c.jpg"}]}, "have the same id 1"),
    ({"images": [{"id": 1}]}, "an image has no id or no file_name"),
    ({"images": {"1": "a.jpg"}}, "'images' is not a list of objects"),
    ({"images": ["a.jpg"]}, "'images' is not a list of objects"),
    ({"annotations": [[]]}, "'annotations' is not a list of objects"),
    ({"categories": [*CATEGORIES, {"id": 1, "name": "cat"}]}, "have the same id 1"),
    ({"categories": [{"id": "x", "name": "cat"}]}, "no integer id or no name"),
    ({"categories": [{"id": 1, "name": " "}]}, "no integer id or no name"),
    ({"categories": [{"id": 1, "name": "\ud800"}]}, "no integer id or no name"),
    # What is held is bounded: 200 categories with names of a million characters took 3.8 GB.
    ({"categories": [{"id": 1, "name": LONG}]}, "a.json: the name of the category 1 has more"),
    ({"images": [{"id": 1, "file_name": LONG}]}, "a.json: an image has an id or a file_name"),
    ({"images": [{"id": LONG, "file_name": "x"}]}, "a.json: an image has an id or a file_name"),
)
def test_files_that_are_refused(sections: dict[str, Any], says: str) -> None:
    content = {name: held for name, held in document(**sections).items() if held is not None}
    with pytest.raises(LabelsError) as caught:
        rows(stream(content))
    assert says in str(caught.value) and "\n" not in str(caught.value)


@cases(
    b'{"images": ["\xff\xfe"]}',
    gzip.compress(stream(document()).getvalue())[:-20],
    ids=["bytes", "cut"],
)
def test_bytes_that_are_not_text(data: bytes) -> None:
    with pytest.raises(LabelsError, match="damaged JSON"):
        read_coco(io.BytesIO(data), path="a.json")


CAT, DOG = Category(0, "cat", 0), Category(3, "dog", 1)


@cases(
    ({"a": [DOG, CAT]}, {"dog": 3}),
    ({"a": [DOG], "b": [Category(2, "fox", 0), DOG]}, {"fox": 2, "dog": 3}),
    ({"a": [Category(1, "dog", 0), DOG]}, {"dog": 3}),
    ({"a": [DOG, Category(10_000_000, "cat", 0)]}, {"dog": 3}),
    ({"a": [DOG, Category(9_999_999, "cat", 1)]}, {"dog": 3, "cat": 9_999_999}),
    ({"a": [CAT._replace(uses=1)]}, "the category 'cat' has the id 0, which readers"),
    ({"a": [DOG, Category(10**7, "cat", 1)]}, "a: the category 'cat' has the id 10000000, but"),
    ({"a": [DOG], "b": [Category(3, "cat", 0)]}, "b: the category 3 is 'cat', but 'dog' in a"),
    ({"a": [Category(1, "dog", 2), DOG]}, "a: the categories 1 and 3 are both 'dog'"),
)
def test_ids_of_classes(files: dict[str, list[Category]], classes: dict[str, int] | str) -> None:
    if isinstance(classes, str):
        with pytest.raises(LabelsError, match=classes):
            category_classes(files, first_id=1)
        return
    expected = KnownClasses((*classes,), numbers=(*classes.values(),))
    assert category_classes(files, first_id=1) == expected


# A large JSON object, item by item.

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=5), VALUES, max_size=5), st.integers(1, 40), st.booleans())
def test_equal_to_a_whole_decoder(value: dict[str, Any], chunk: int, is_ascii: bool) -> None:
    text = json.dumps(value, ensure_ascii=is_ascii, indent=chunk % 3 or None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_members, "_CHUNK", chunk)
        patch.setattr(json_members, "MAX_ITEM", len(text))
        patch.setattr(json_members, "_MANY", chunk)
        found = list(read_members(io.StringIO(text), path="a"))
    lists = {name: each if isinstance(each, list) else [each] for name, each in value.items()}
    assert found == [
        (name, isinstance(value[name], list), item) for name, each in lists.items() for item in each
    ]


@cases(
    ("", "character 1: '{' is expected"),
    ("[]", "character 1: '{' is expected"),
    ('{"a": [1, 2', "character 12: ',' is expected"),
    ('{"a": [1,', "character 10: the file ends too early"),
    ('{"a": [1 2]}', "character 10: ',' is expected"),
    ('{"a": 1} 2', "character 10: the object has ended, but the file has not"),
    ('{"a" 1}', "character 6: ':' is expected"),
    ('{"a": [], "a": []}', "a second 'a'"),
    ("{1: 1}", "character 3: a name is expected"),
    ('{"a": "\n' + " " * 99 + '"}', "character 8: Invalid control character at"),
    ('{"a": ' + "[" * 10**5, "maximum recursion depth"),
    ('{"a": [' + "9" * 10**4 + "]}", "character 8: Exceeds the limit"),
    # No annotation file has so much: each category takes 3 KB of a run, used or not.
    ('{"a": ["' + "x" * 5_000_000 + '"]}', "a value of more than 4194304 characters"),
    ('{"z": [' + "[]," * 200_000, "more than 50000 items of 'z'"),
    ('{"categories": [' + "{}," * 200_000, "more than 50000 items of 'categories'"),
    ("{" + ",".join(f'"{number}": 1' for number in range(2000)), "more than 1000 names"),
    ids=lambda text: text[-30:],
)
def test_damaged_files(text: str, says: str) -> None:
    with pytest.raises(LabelsError) as caught:
        list(read_members(io.StringIO(text), path="a.json"))
    assert str(caught.value).startswith("a.json is damaged JSON at character ")
    assert says in str(caught.value)


def test_an_item_of_empty_lists_is_refused_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gzip file of 58 KB with a longer text took 2.8 GB, and one of 60 MB half a minute."""
    monkeypatch.setattr(json_members, "MAX_ITEM", 400_000)
    monkeypatch.setattr(json_members, "_CHUNK", 100_000)
    text = io.StringIO('{"annotations": [{"z": [' + ",".join(["[]"] * 150_000))
    before = gc.get_stats()[0]["collections"]
    with memory_below(20 << 20), pytest.raises(LabelsError, match="a value of more than"):
        list(read_members(text, path="a.json"))
    assert gc.get_stats()[0]["collections"] < before + 20


def test_the_text_in_memory_is_bounded() -> None:
    """Items come while the rest of the file has not been read."""
    text = io.StringIO('{"images": [' + ",".join(["[1.5, 2]"] * 10**6) + "]}")
    next(read_members(text, path="a.json"))
    assert text.tell() <= json_members.MAX_ITEM + 2 * json_members._CHUNK


@pytest.mark.parametrize("item", [{"z": [{}, {}]}, {"z": "},{"}, {}])
def test_items_are_decoded_together(item: Any) -> None:
    """Where a part of the text ends inside of an item, and behind a list."""
    text = json.dumps({"a": [{"b": 1}] * 9, "c": [item] * 50_000}, separators=(",", ":"))
    started = time.process_time()
    found = [each for _, _, each in read_members(io.StringIO(text), path="a.json")]
    assert found == [{"b": 1}] * 9 + [item] * 50_000
    assert time.process_time() - started < 2


def test_blanks_between_values_take_no_time_each() -> None:
    """Sixty megabytes of them took 16 CPU seconds."""
    text = '{"a":' + " \n" * 5_000_000 + "[1]}"
    started = time.process_time()
    assert list(read_members(io.StringIO(text), path="a.json")) == [("a", True, 1)]
    assert time.process_time() - started < 1


# The annotation files of Pascal VOC as rows.

VOC2007 = b"""\
<annotation>
\t<folder>VOC2007</folder>
\t<filename>000001.jpg</filename>
\t<source><annotation>PASCAL VOC2007</annotation><image>flickr</image></source>
\t<owner><name>Jinky the Fruit Bat</name></owner>
\t<object>
\t\t<name>dog</name><pose>Left</pose><truncated>1</truncated><difficult>0</difficult>
\t\t<bndbox><xmin>48</xmin><ymin>240</ymin><xmax>195</xmax><ymax>371</ymax></bndbox>
\t\t<part><name>head</name><bndbox><xmin>1</xmin></bndbox></part>
\t</object>
\t<object><name>person</name><bndbox><xmin>8</xmin><ymin>12</ymin></bndbox></object>
</annotation>
"""


def test_a_file_of_the_form_of_voc2007() -> None:
    """Parts of an object are no objects."""
    assert len(VOC_COLUMNS) == 9
    assert list(voc_rows(VOC2007, "Annotations/000001.xml")) == [
        (6, ["000001.jpg", "dog", "48", "240", "195", "371", "0", "1", "Left"], ""),
        (11, ["000001.jpg", "person", "8", "12", "", "", "", "", ""], ""),
    ]


@cases(
    ("latin-1", "latin-1", "Ä"),
    ("utf-16", "utf-16", "고양이"),
    # Encodings of several bytes, and characters that only their larger forms have.
    ("GB2312", "gbk", "貓镕"),
    ("gb18030", "gb18030", "猫"),
    ("euc-kr", "cp949", "똠방각하"),
    ("ks_c_5601-1987", "cp949", "고양이"),
    ("Shift_JIS", "cp932", "①猫"),
    ("euc-jp", "euc-jp", "猫"),
    ("Big5", "big5", "貓"),
)
def test_declared_encodings(encoding: str, codec: str, name: str) -> None:
    text = f'<?xml version="1.0" encoding="{encoding}"?>\n<annotation><object><name> {name} </name>'
    [(line, cells, problem)] = voc_rows(f"{text}</object></annotation>".encode(codec), "1.xml")
    assert (line, cells, problem) == (2, ["1", name, *[""] * 7], "")


BOMB = b"""<!DOCTYPE annotation [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">
<!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;">]><annotation><filename>&c;</filename></annotation>"""
OUTSIDE = b"""<!DOCTYPE a [<!ENTITY a SYSTEM "file:///etc/passwd">]><annotation>&a;</annotation>"""
# A million elements inside of each other took 1.6 GB.
DEEP = b"<annotation>" + b"<a>" * 200_000
MANY = b"<annotation>" + b"<object/>" * 50_001 + b"</annotation>"
# Four files of 4 MB took 22 CPU seconds, those with as many names a gigabyte.
WIDE = b"<annotation>" + b"<a/>" * 260_000 + b"</annotation>"
NAMES = b"<annotation>" + b"".join(b"<a%d/>" % at for at in range(1001)) + b"</annotation>"


@cases(
    (b"", "it is not XML (no element found: line 1, column 0)"),
    (VOC2007[:60], "it is not XML (no element found: line 3, column 21)"),
    (b"<annotation><a></annotation>", "it is not XML (mismatched tag"),
    (b"<annotation>\xff</annotation>", "it is not XML (not well-formed"),
    (b"<?xml version='1.0' encoding='x'?><annotation/>", "it is not XML (unknown encoding"),
    (b"<?xml version='1.0' encoding='gbk'?><a>\xff</a>", "it is not XML ('gb18030' codec"),
    (b"<html></html>", "its root is 'html', not 'annotation'"),
    (BOMB, "it has a document type (DOCTYPE)"),
    (OUTSIDE, "it has a document type (DOCTYPE)"),
    (DEEP, "it is not XML (more than 100 elements are inside of each other)"),
    (MANY, "it is not XML (it has more than 50000 objects)"),
    (WIDE, "it is not XML (it has more elements, or names of these, than annotations"),
    (NAMES, "it is not XML (it has more elements, or names of these, than annotations"),
    ids=lambda text: text[-30:],
)
def test_files_of_voc_that_are_refused(data: bytes, says: str) -> None:
    [(line, cells, problem)] = voc_rows(data, "Annotations/1.xml")
    assert (line, cells) == (1, ["1"])
    assert problem.startswith(says)


@given(st.binary(max_size=60), st.integers(0, len(VOC2007)))
def test_any_bytes_are_rows_or_one_problem(data: bytes, at: int) -> None:
    for _, cells, problem in voc_rows(VOC2007[:at] + data + VOC2007[at + 1 :], "1.xml"):
        assert len(cells) == (1 if problem else len(VOC_COLUMNS))
    for _, cells, problem in yolo_rows(data, "1.txt", segmentations=True):
        assert len(cells) == len(YOLO_COLUMNS) and not problem


# The text files of YOLO as rows.

OUTLINE = '{"normalized":[[0.0,0.5,1.0,0.25,0.5,1.0]]}'
TOO_LONG = "more than 1048576 characters"


@cases(
    (b"45 0.479 0.688771 0.9 0.5955\n", [["45", "0.479", "0.688771", "0.9", "0.5955", ""]]),
    (b"0 .5 .5 1 1\n\n1\t.5 .5 1 1", [[name, ".5", ".5", "1", "1", ""] for name in "01"]),
    (b"", [[""] * 6]),
    (b"\n \n", [[""] * 6]),
    (b"7 .5 .5", [["7", ".5", ".5", "", "", ""]]),
    (b"dog", [["dog", "", "", "", "", ""]]),
    # A triangle, as the outline of an object, and what is none.
    (b"7 0 0.5 1 .25 5e-1 1", [["7", "0.5", "0.625", "1.0", "0.75", OUTLINE]]),
    (b"7" + b" .125 1" * 110_000, [["7", "0.125", "1.0", "0.0", "0.0", TOO_LONG]]),
    (b"7 0 0.5 x 0.25 0.5 1", [["7", *["0 0.5 x 0.25 0.5 1"] * 4, ""]]),
    (b"7 0 0.5 nan 0.25 0.5 1", [["7", *["0 0.5 nan 0.25 0.5 1"] * 4, ""]]),
    (b"7 0 0.5 1 inf 0.5 1", [["7", *["0 0.5 1 inf 0.5 1"] * 4, ""]]),
    # A confidence, as in predictions.
    (b"7 .5 .5 1 1 .9", [["7", ".5", ".5", "1", "1 .9", ""]]),
    # An image without any row would be one without objects.
    (b"\xff\xfe0", [["0", *["the file is not UTF-8 text"] * 4, ""]]),
    (b"0\0", [["0", *["the file holds a NUL character"] * 4, ""]]),
    (b"0 .5 .5 1 1\n" * 50_001, [["0", *["the file has more than 50000 lines"] * 4, ""]]),
    ids=lambda value: value[:20] if isinstance(value, bytes) else "",
)
def test_lines_of_yolo(text: bytes, rows: list[list[str]]) -> None:
    expected = [["a.b", *row] for row in rows]
    plain = list(yolo_rows(text, "labels/train/a.b.txt"))
    assert [(cells, problem) for _, cells, problem in plain] == [
        ([*row[:-1], ""], "") for row in expected
    ]
    assert [cells for _, cells, _ in yolo_rows(text, "a.b.txt", segmentations=True)] == expected


@cases(
    ("train: ../train/images\nnc: 2\nnames: ['cat', 'no']\n", ("cat", "no")),
    ("names:\n  - 007\n  - hot dog\n", ("007", "hot dog")),
    ("path: ../coco8\nnames:\n  1: bicycle\n  0: person\n", ("person", "bicycle")),
    ("names: {0: 고양이}", ("고양이",)),
)
def test_classes_of_a_yaml_file(text: str, names: tuple[str, ...]) -> None:
    assert yaml_class_names(text, "data.yaml") == names


# A list of ten lists, each of ten lists, and so on: 10^12 names.
ALIASES = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 13)]


@cases(
    ("", "data.yaml has no names: write 'names: [cat, dog]'"),
    ("nc: 2", "data.yaml has no names"),
    ("[cat]", "data.yaml has no names"),
    ("names: cat", "data.yaml has no names"),
    ("names: []", "data.yaml has no names"),
    ("names: {}", "data.yaml has no names"),
    ("names: [cat", "data.yaml line 1: invalid YAML: "),
    ("[" * 500, "data.yaml is not YAML, or is nested too deeply: "),
    ("names: {0: cat, 2: dog}", "data.yaml: names has no class 1: number all classes from 0"),
    ("names: {cat: 0}", "data.yaml: names has no class 0"),
    ("names: [cat, '']", "data.yaml: '' in names is not the name of a class"),
    ("names: [cat, [dog]]", "data.yaml: \"['dog']\" in names is not"),
    ('names: ["a\\nb"]', "data.yaml: 'a\\nb' in names is not"),
    ("a0: &a0 [x]\n" + "".join(ALIASES) + "names: *a12", "data.yaml has aliases that "),
)
def test_yaml_files_that_are_refused(text: str, says: str) -> None:
    with pytest.raises(LabelsError) as raised:
        yaml_class_names(text, "data.yaml")
    assert str(raised.value).startswith(says)
    assert "\n" not in str(raised.value)
