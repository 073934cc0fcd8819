"""Annotations of COCO, Pascal VOC and YOLO become rows."""

from __future__ import annotations

import gzip
import io
import json
import time
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


def document(**sections: Any) -> dict[str, Any]:
    return {"images": IMAGES, "annotations": [BOX], "categories": CATEGORIES, **sections}


def stream(content: Any) -> io.BytesIO:
    return io.BytesIO(json.dumps(content).encode())


def rows(content: Any, *, masks: bool = False) -> list[tuple[int, list[str], str]]:
    categories = read_coco(stream(content), path="a.json")[0]
    return list(coco_rows(stream(content), categories, segmentations=masks, path="a.json"))


def test_an_annotation_is_a_row_and_so_is_an_image_without_any() -> None:
    assert len(COCO_COLUMNS) == 9
    assert rows(document()) == [
        (1, ["a.jpg", "dog", "1", "2.5", "3", "4", "11.5", "0", ""], ""),
        (2, ["b.jpg", "", "", "", "", "", "", "", ""], ""),
    ]


def test_sections_in_any_order() -> None:
    backwards = dict(reversed(document().items()))
    ahead = {"annotations": [BOX], "categories": CATEGORIES, "images": IMAGES}
    assert rows(backwards) == rows(ahead) == rows(document())


def test_compressed_files_are_read_twice_too() -> None:
    ahead = {"annotations": [BOX] * 9, "categories": CATEGORIES, "images": IMAGES}
    data = gzip.compress(json.dumps(ahead).encode())
    categories, _ = read_coco(io.BytesIO(data), path="a.json.gz")
    assert len(list(coco_rows(io.BytesIO(data), categories, path="a.json.gz"))) == 10


def test_what_becomes_no_feature_is_counted() -> None:
    annotations = [
        {**BOX, "segmentation": [[1, 2, 3, 4, 5, 6]], "keypoints": [1, 2, 2]},
        {**BOX, "segmentation": {"counts": [1, 2], "size": [3, 4]}},
        {**BOX, "segmentation": []},
    ]
    found = read_coco(stream(document(annotations=annotations)), path="a.json")
    assert found == (
        (Category(18, "dog", 3), Category(1, "person", 0)),
        (("segmentations", 2), ("keypoints", 1)),
    )


@pytest.mark.parametrize(
    ("segmentation", "cell"),
    [
        ([[1, 2.5, 3, 4, 5, 6]], "[[1,2.5,3,4,5,6]]"),
        ({"size": [2, 1], "counts": [0, 2]}, '{"size":[2,1],"counts":[0,2]}'),
        ({"size": [2, 1], "counts": "한"}, '{"size":[2,1],"counts":"\\ud55c"}'),
        ([], ""),
        (None, ""),
        ([[1.5] * 300_000], "more than 1048576 characters"),
        ([1.5] * 250_000, f"[{','.join(['1.5'] * 250_000)}]"),
    ],
)
def test_segmentations_are_cells_if_they_are_needed(segmentation: Any, cell: str) -> None:
    annotations = [{**BOX, "segmentation": segmentation}]
    assert rows(document(annotations=annotations), masks=True)[0][1][8:] == [cell]
    assert rows(document(annotations=annotations))[0][1][8:] == [""]


@pytest.mark.parametrize(
    ("changed", "label", "box"),
    [
        ({"category_id": 7}, "category 7", ["1", "2.5", "3", "4"]),
        ({"category_id": "18"}, "dog", ["1", "2.5", "3", "4"]),
        ({"category_id": 18.0}, "dog", ["1", "2.5", "3", "4"]),
        ({"category_id": 18.5}, "category 18.5", ["1", "2.5", "3", "4"]),
        ({"category_id": [18]}, "category [18]", ["1", "2.5", "3", "4"]),
        ({"bbox": [1, 2, 3]}, "dog", [""] * 4),
        ({"bbox": None}, "dog", [""] * 4),
        ({"bbox": [1, 2, 3, "\0"]}, "dog", ["1", "2", "3", "'\\x00'"]),
        ({"category_id": "\ud800"}, "category '\\ud800'", ["1", "2.5", "3", "4"]),
        ({"bbox": [1, None, float("nan"), "x"]}, "dog", ["1", "", "", "x"]),
    ],
)
def test_a_wrong_annotation_keeps_its_image(
    changed: dict[str, Any], label: str, box: list[str]
) -> None:
    """So that the image is rejected, not stored without an object."""
    (_, cells, problem), *_ = rows(document(annotations=[{**BOX, **changed}, BOX]))
    assert (cells[:6], problem) == (["a.jpg", label, *box], "")


@pytest.mark.parametrize(
    ("of_image", "of_box"),
    [(1, "1"), ("1", 1), (1.0, 1), (1, 1.0), (2**70, 2**70), ("9" * 30, "9" * 30)],
)
def test_ids_of_images_may_differ_in_type(of_image: Any, of_box: Any) -> None:
    images = [{"id": of_image, "file_name": "a.jpg"}]
    found = rows(document(images=images, annotations=[{**BOX, "image_id": of_box}]))
    assert [cells[:2] for _, cells, _ in found] == [["a.jpg", "dog"]]


def test_ids_that_have_the_same_hash_take_no_time() -> None:
    """A dictionary with 20,000 of them takes 13 s."""
    images = [{"id": n * (2**61 - 1), "file_name": f"{n}.jpg"} for n in range(1, 20_001)]
    began = time.process_time()
    assert len(rows(document(images=images, annotations=[]))) == len(images)
    assert time.process_time() - began < 5


def test_an_id_that_is_no_text_can_be_shown() -> None:
    [(_, _, problem), *_] = rows(document(annotations=[{**BOX, "image_id": "\ud800"}]))
    assert problem == "its image_id '\\ud800' is not that of an image"


def test_an_annotation_without_an_image() -> None:
    (number, _, problem), *_ = rows(document(annotations=[{**BOX, "image_id": 9}]))
    assert (number, problem) == (1, "its image_id 9 is not that of an image")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ({"images": IMAGES, "annotations": []}, "not a COCO file with boxes: it has no categories"),
        ({"a": 1}, "it has no images and no categories"),
        (document(annotations=[{"image_id": 1, "caption": "-"}]), "its annotations have no bbox"),
        (document(images=[*IMAGES, {"id": 1, "file_name": "c.jpg"}]), "have the same id 1"),
        (document(images=[{"id": 1}]), "an image has no id or no file_name"),
        (document(images={"1": "a.jpg"}), "'images' is not a list of objects"),
        (document(images=["a.jpg"]), "'images' is not a list of objects"),
        (document(annotations=[[]]), "'annotations' is not a list of objects"),
        (document(categories=[*CATEGORIES, {"id": 1, "name": "cat"}]), "have the same id 1"),
        (document(categories=[{"id": "x", "name": "cat"}]), "no integer id or no name"),
        (document(categories=[{"id": 1, "name": " "}]), "no integer id or no name"),
        (document(categories=[{"id": 1, "name": "\ud800"}]), "no integer id or no name"),
    ],
)
def test_files_that_are_refused(content: Any, says: str) -> None:
    with pytest.raises(LabelsError) as caught:
        read_coco(stream(content), path="a.json")
    assert says in str(caught.value) and "\n" not in str(caught.value)


def test_names_of_categories_may_be_numbers() -> None:
    content = document(categories=[{"id": 18, "name": 7}])
    assert read_coco(stream(content), path="a.json")[0] == (Category(18, "7", 1),)


def test_bytes_that_are_not_text() -> None:
    with pytest.raises(LabelsError, match="damaged JSON"):
        read_coco(io.BytesIO(b'{"images": ["\xff\xfe"]}'), path="a.json")
    cut = gzip.compress(json.dumps(document()).encode())[:-20]
    with pytest.raises(LabelsError, match="damaged JSON"):
        read_coco(io.BytesIO(cut), path="a.json.gz")


CAT, DOG = Category(0, "cat", 0), Category(3, "dog", 1)


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"a": [DOG, CAT]}, (("dog",), (3,))),
        ({"a": [DOG], "b": [Category(2, "fox", 0), DOG]}, (("fox", "dog"), (2, 3))),
        ({"a": [Category(1, "dog", 0), DOG]}, (("dog",), (3,))),
        ({"a": [CAT._replace(uses=1)]}, "the category 'cat' has the id 0, which readers"),
        ({"a": [DOG, Category(10_000_000, "cat", 0)]}, (("dog",), (3,))),
        ({"a": [DOG, Category(9_999_999, "cat", 1)]}, (("dog", "cat"), (3, 9_999_999))),
        (
            {"a": [DOG, Category(10_000_000, "cat", 1)]},
            "a: the category 'cat' has the id 10000000, but labels.txt holds ids below 10000000",
        ),
        ({"a": [DOG], "b": [Category(3, "cat", 0)]}, "b: the category 3 is 'cat', but 'dog' in a"),
        ({"a": [Category(1, "dog", 2), DOG]}, "a: the categories 1 and 3 are both 'dog'"),
    ],
)
def test_ids_of_classes(files: Any, found: Any) -> None:
    if not isinstance(found, str):
        names, numbers = found
        assert category_classes(files, first_id=1) == KnownClasses(names, numbers=numbers)
        return
    with pytest.raises(LabelsError) as caught:
        category_classes(files, first_id=1)
    assert found in str(caught.value)


@pytest.mark.parametrize(
    ("section", "item", "says"),
    [
        ("categories", {"id": 1, "name": "x" * 4097}, "a.json: the name of the category 1 has"),
        ("images", {"id": 1, "file_name": "x" * 4097}, "a.json: an image has an id or a file_name"),
        ("images", {"id": "x" * 4097, "file_name": "x"}, "a.json: an image has an id or a file_n"),
    ],
)
def test_names_that_are_held_are_as_long_as_keys(section: str, item: Any, says: str) -> None:
    """200 categories with names of a million characters took 3.8 GB."""
    box = {"image_id": 1, "category_id": 1, "bbox": [0, 0, 1, 1]}
    whole = {"images": [], "categories": [{"id": 1, "name": "a"}], "annotations": [box]}
    data = json.dumps({**whole, section: [item]}).encode()
    with pytest.raises(LabelsError, match=says):
        found = read_coco(io.BytesIO(data), path="a.json")[0]
        for _ in coco_rows(io.BytesIO(data), found, path="a.json"):
            pass


# A large JSON object, item by item.

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)


def flat(value: dict[str, Any]) -> list[tuple[str, bool, Any]]:
    """What `read_members` gives for an object."""
    found: list[tuple[str, bool, Any]] = []
    for name, each in value.items():
        if isinstance(each, list):
            found += [(name, True, item) for item in each]
        else:
            found.append((name, False, each))
    return found


@given(st.dictionaries(st.text(max_size=5), VALUES, max_size=5), st.integers(1, 40), st.booleans())
def test_equal_to_the_decoder_of_whole_files(
    value: dict[str, Any], chunk: int, is_ascii: bool
) -> None:
    text = json.dumps(value, ensure_ascii=is_ascii, indent=chunk % 3 or None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_members, "_CHUNK", chunk)
        assert list(read_members(io.StringIO(text), path="a")) == flat(value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
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
    ],
)
def test_damaged_files(text: str, says: str) -> None:
    with pytest.raises(LabelsError) as caught:
        list(read_members(io.StringIO(text), path="a.json"))
    assert str(caught.value).startswith("a.json is damaged JSON at character ")
    assert says in str(caught.value)


def test_an_item_that_does_not_fit_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_members, "MAX_ITEM", 1000)
    monkeypatch.setattr(json_members, "_CHUNK", 100)
    with pytest.raises(LabelsError, match="a value of more than 1000 characters"):
        list(read_members(io.StringIO('{"a": ["' + "x" * 10**4 + '"]}'), path="a.json"))


def test_an_item_of_empty_lists_is_refused_before_it_takes_a_gigabyte() -> None:
    """A gzip file of 58 KB with such a text took 2.8 GB."""
    nested = ",".join(["[]"] * 1_500_000)
    tracemalloc.start()
    try:
        with pytest.raises(LabelsError, match="a value of more than"):
            list(read_members(io.StringIO('{"annotations": [{"z": [' + nested), path="a.json"))
        assert tracemalloc.get_traced_memory()[1] < 200 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"z": [' + "[]," * 200_000, "more than 100000 items of 'z'"),
        # Each category takes 3 KB of a run, used or not.
        ('{"categories": [' + "{}," * 200_000, "more than 100000 items of 'categories'"),
        ("{" + ",".join(f'"{number}": 1' for number in range(2000)), "more than 1000 names"),
    ],
)
def test_what_no_annotation_file_has_is_not_read_to_its_end(text: str, says: str) -> None:
    with pytest.raises(LabelsError, match=says):
        list(read_members(io.StringIO(text), path="a.json"))


def test_the_text_in_memory_is_bounded() -> None:
    """Items come while the rest of the file has not been read."""
    text = io.StringIO('{"images": [' + ",".join(["[1.5, 2]"] * 10**6) + "]}")
    members = read_members(text, path="a.json")
    next(members)
    assert text.tell() == json_members._CHUNK


def test_blanks_between_values_take_no_time_each() -> None:
    """Sixty megabytes of them took 16 CPU seconds."""
    text = '{"a":' + " \n" * 5_000_000 + "[1]}"
    started = time.process_time()
    assert list(read_members(io.StringIO(text), path="a.json")) == [("a", True, 1)]
    assert time.process_time() - started < 1


# The annotation files of Pascal VOC as rows.

# In the form of the files of VOC2007: elements, their order and indentation.
VOC2007 = b"""\
<annotation>
\t<folder>VOC2007</folder>
\t<filename>000001.jpg</filename>
\t<source>
\t\t<database>The VOC2007 Database</database>
\t\t<annotation>PASCAL VOC2007</annotation>
\t\t<image>flickr</image>
\t\t<flickrid>341012865</flickrid>
\t</source>
\t<owner>
\t\t<flickrid>Fried Camels</flickrid>
\t\t<name>Jinky the Fruit Bat</name>
\t</owner>
\t<size>
\t\t<width>353</width>
\t\t<height>500</height>
\t\t<depth>3</depth>
\t</size>
\t<segmented>0</segmented>
\t<object>
\t\t<name>dog</name>
\t\t<pose>Left</pose>
\t\t<truncated>1</truncated>
\t\t<difficult>0</difficult>
\t\t<bndbox>
\t\t\t<xmin>48</xmin>
\t\t\t<ymin>240</ymin>
\t\t\t<xmax>195</xmax>
\t\t\t<ymax>371</ymax>
\t\t</bndbox>
\t</object>
\t<object>
\t\t<name>person</name>
\t\t<pose>Left</pose>
\t\t<truncated>1</truncated>
\t\t<difficult>0</difficult>
\t\t<bndbox>
\t\t\t<xmin>8</xmin>
\t\t\t<ymin>12</ymin>
\t\t\t<xmax>352</xmax>
\t\t\t<ymax>498</ymax>
\t\t</bndbox>
\t</object>
</annotation>
"""


def test_a_file_of_the_form_of_voc2007() -> None:
    assert len(VOC_COLUMNS) == 9
    assert list(voc_rows(VOC2007, "Annotations/000001.xml")) == [
        (20, ["000001.jpg", "dog", "48", "240", "195", "371", "0", "1", "Left"], ""),
        (32, ["000001.jpg", "person", "8", "12", "352", "498", "0", "1", "Left"], ""),
    ]


def test_parts_of_an_object_are_no_objects() -> None:
    part = "<part><name>head</name><bndbox><xmin>1</xmin></bndbox></part>"
    data = f"<annotation><object><name>man</name>{part}</object></annotation>".encode()
    [(_, cells, _)] = voc_rows(data, "a/1.xml")
    assert cells == ["1", "man", *[""] * 7]


@pytest.mark.parametrize(
    ("encoding", "codec", "name"),
    [
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
    ],
)
def test_declared_encodings(encoding: str, codec: str, name: str) -> None:
    text = f'<?xml version="1.0" encoding="{encoding}"?>\n<annotation><object><name> {name} </name>'
    [(line, cells, problem)] = voc_rows(f"{text}</object></annotation>".encode(codec), "1.xml")
    assert (line, cells[:2], problem) == (2, ["1", name], "")


BOMB = """<!DOCTYPE annotation [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">
<!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;">]><annotation><filename>&c;</filename></annotation>"""
OUTSIDE = """<!DOCTYPE a [<!ENTITY a SYSTEM "file:///etc/passwd">]><annotation>&a;</annotation>"""


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "it is not XML (no element found: line 1, column 0)"),
        (VOC2007[:300], "it is not XML (no element found: line 12, column 19)"),
        (b"<annotation><a></annotation>", "it is not XML (mismatched tag"),
        (b"<annotation>\xff</annotation>", "it is not XML (not well-formed"),
        (b"<?xml version='1.0' encoding='x'?><annotation/>", "it is not XML (unknown encoding"),
        (b"<?xml version='1.0' encoding='gbk'?><a>\xff</a>", "it is not XML ('gb18030' codec"),
        (b"<html></html>", "its root is 'html', not 'annotation'"),
        (BOMB.encode(), "it has a document type (DOCTYPE)"),
        (OUTSIDE.encode(), "it has a document type (DOCTYPE)"),
    ],
)
def test_files_of_voc_that_are_refused(data: bytes, says: str) -> None:
    [(line, cells, problem)] = voc_rows(data, "Annotations/1.xml")
    assert (line, cells) == (1, ["1"])
    assert problem.startswith(says)


@given(st.binary(max_size=60), st.integers(0, len(VOC2007)))
def test_any_bytes_are_rows_or_one_problem(data: bytes, at: int) -> None:
    for _, cells, problem in voc_rows(VOC2007[:at] + data + VOC2007[at + 1 :], "1.xml"):
        assert len(cells) == (1 if problem else len(VOC_COLUMNS))


def test_deep_nesting_is_refused() -> None:
    """A million elements inside of each other took 1.6 GB."""
    deep = b"<annotation>" + b"<a>" * 200_000
    [(line, cells, problem)] = voc_rows(deep, "1.xml")
    assert (line, cells) == (1, ["1"])
    assert problem == "it is not XML (more than 100 elements are inside of each other)"


def test_too_many_objects_are_refused() -> None:
    many = b"<annotation>" + b"<object/>" * 50_001 + b"</annotation>"
    [(_, cells, problem)] = voc_rows(many, "1.xml")
    assert (cells, problem) == (["1"], "it is not XML (it has more than 50000 objects)")


# The text files of YOLO as rows.


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (
            "45 0.479492 0.688771 0.955609 0.5955\n",
            [["45", "0.479492", "0.688771", "0.955609", "0.5955"]],
        ),
        ("0 .5 .5 1 1\n\n1\t.5 .5 1 1", [["0", ".5", ".5", "1", "1"], ["1", ".5", ".5", "1", "1"]]),
        ("", [[""] * 5]),
        ("\n \n", [[""] * 5]),
        # A triangle, as the segmentation of an object.
        ("7 0 0.5 1 0.25 0.5 1", [["7", "0.5", "0.625", "1.0", "0.75"]]),
        ("7 0 0.5 x 0.25 0.5 1", [["7", *["0 0.5 x 0.25 0.5 1"] * 4]]),
        ("7 0 0.5 nan 0.25 0.5 1", [["7", *["0 0.5 nan 0.25 0.5 1"] * 4]]),
        ("7 0 0.5 1 inf 0.5 1", [["7", *["0 0.5 1 inf 0.5 1"] * 4]]),
        # A confidence, as in predictions.
        ("7 .5 .5 1 1 .9", [["7", ".5", ".5", "1", "1 .9"]]),
        ("7 .5 .5", [["7", ".5", ".5", "", ""]]),
        ("dog", [["dog", "", "", "", ""]]),
    ],
)
def test_lines(text: str, rows: list[list[str]]) -> None:
    found = list(yolo_rows(text.encode(), "labels/train/a.b.txt"))
    assert [(cells, problem) for _, cells, problem in found] == [
        (["a.b", *row, ""], "") for row in rows
    ]


@pytest.mark.parametrize(
    ("line", "segmentation"),
    [
        ("7 0 0.5 1 .25 5e-1 1", '{"normalized":[[0.0,0.5,1.0,0.25,0.5,1.0]]}'),
        ("7 .5 .5 1 1", ""),
        ("7 0 0.5 nan 0.25 0.5 1", ""),
        ("7" + " 0.125 1" * 110_000, "more than 1048576 characters"),
    ],
    ids=["outline", "box", "no outline", "long outline"],
)
def test_outlines(line: str, segmentation: str) -> None:
    """They change nothing in the box."""
    [(_, *row)], [(_, *plain)] = (
        list(yolo_rows(line.encode(), "1.txt", segmentations=each)) for each in (True, False)
    )
    assert row == [[*plain[0][:-1], segmentation], ""]


@pytest.mark.parametrize(
    ("data", "says"),
    [(b"\xff\xfe0", "the file is not UTF-8 text"), (b"0\0", "the file holds a NUL character")],
)
def test_files_that_are_refused_reject_their_image(data: bytes, says: str) -> None:
    """An image without any row would be one without objects."""
    assert list(yolo_rows(data, "1.txt")) == [(1, ["1", "0", *[says] * 4, ""], "")]


@given(st.binary() | st.text("0123456789.e \n").map(str.encode))
def test_any_text_is_rows_of_yolo_or_one_problem(data: bytes) -> None:
    for _, cells, problem in yolo_rows(data, "1.txt", segmentations=True):
        assert len(cells) == len(YOLO_COLUMNS) and not problem


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("train: ../train/images\nnc: 2\nnames: ['cat', 'no']\n", ("cat", "no")),
        ("names:\n  - 007\n  - hot dog\n", ("007", "hot dog")),
        ("path: ../coco8\nnames:\n  1: bicycle\n  0: person\n", ("person", "bicycle")),
        ("names: {0: 고양이}", ("고양이",)),
    ],
)
def test_classes_of_a_yaml_file(text: str, names: tuple[str, ...]) -> None:
    assert yaml_class_names(text, "data.yaml") == names


ALIASES = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 13)]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "data.yaml has no names: write 'names: [cat, dog]'"),
        ("nc: 2", "data.yaml has no names"),
        ("[cat]", "data.yaml has no names"),
        ("names: cat", "data.yaml has no names"),
        ("names: []", "data.yaml has no names"),
        ("names: {}", "data.yaml has no names"),
        ("names: [cat", "data.yaml is not YAML: while parsing"),
        ("[" * 5000, "data.yaml is not YAML: "),
        ("names: {0: cat, 2: dog}", "data.yaml: names has no class 1: number all classes from 0"),
        ("names: {cat: 0}", "data.yaml: names has no class 0"),
        ("names: [cat, '']", "data.yaml: '' in names is not the name of a class"),
        ("names: [cat, [dog]]", "data.yaml: \"['dog']\" in names is not"),
        ('names: ["a\\nb"]', "data.yaml: 'a\\nb' in names is not"),
        # A list of ten lists, each of ten lists, and so on: 10^12 names.
        ("a0: &a0 [x]\n" + "".join(ALIASES) + "names: *a12", "data.yaml: '[["),
    ],
)
def test_yaml_files_that_are_refused(text: str, says: str) -> None:
    with pytest.raises(LabelsError) as raised:
        yaml_class_names(text, "data.yaml")
    assert str(raised.value).startswith(says)
    assert "\n" not in str(raised.value)


def test_too_many_objects_reject_their_image() -> None:
    [(_, cells, problem)] = yolo_rows(b"0 .5 .5 1 1\n" * 50_001, "labels/a.txt")
    assert problem == ""
    assert cells[:3] == ["a", "0", "the file has more than 50000 lines"]
