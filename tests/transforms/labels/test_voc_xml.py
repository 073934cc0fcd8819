"""The annotation files of Pascal VOC as rows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.labels.annotations import VOC_COLUMNS, voc_rows

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
def test_files_that_are_refused(data: bytes, says: str) -> None:
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
