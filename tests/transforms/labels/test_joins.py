"""Images and rows with one key become a match or rejections; none is lost or counted twice."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.marks import cases
from transforms.core.messages import LabelsError
from transforms.core.records import Count, JoinSide, Kind, PlannedImage
from transforms.core.rejections import Rejection
from transforms.labels import joins
from transforms.labels.joins import (
    MAX_LINE,
    JoinRules,
    RowRequirements,
    cells_text,
    join_group,
    join_selected,
    key_line,
    key_of_line,
    rows_text,
)
from transforms.labels.shards import SplitAssigner, Splits

Joined = PlannedImage | Rejection | Count

ASSIGNER = SplitAssigner(Splits((("train", 1.0),)), seed=0)


def image(path: str, label: str = "") -> JoinSide:
    return JoinSide(path, 10, 1, label, "", kind=Kind.IMAGE)


def row(label: str, line: int, *cells: str, **place: str) -> JoinSide:
    side = JoinSide("", 0, 0, label, f"labels.csv:{line}", **place)
    return side._replace(cells=json.dumps(cells)) if cells else side


def labelled(image: JoinSide, label: str, rows: int, cells: str = "") -> PlannedImage:
    split, order = ASSIGNER.assign("k", split="", group="")
    place = (order, "k", image.path, image.size, image.version)
    return PlannedImage(*place, label, cells=cells, split=split, rows=rows)


def join(*sides: JoinSide, label_from: str = "csv", **asked: Any) -> list[Joined]:
    rules = JoinRules(label_from, ASSIGNER, RowRequirements(**asked))
    return list(join_group("k", sides, rules))


def rejected(reason: str, detail: str, path: str = "a/k.jpg", subject: str = "image") -> Rejection:
    return Rejection(subject, reason, detail, path, "k")


def again(count: int) -> Count:
    return Count("images_found_again", count)


def gone(count: int) -> Count:
    return Count("rows_rejected", count)


A, B = image("a/k.jpg"), image("b/k.jpg")
CAT, DOG = image("a/k.jpg", "cat"), image("a/k.jpg", "dog")
NEW = CAT._replace(version=2)
OLD = CAT._replace(size=90)
SEVEN = [image(f"{number}/k.jpg") for number in range(7)]

NO_IMAGE = [
    rejected("row_without_image", "no image has the key 'k'", f"labels.csv:{line}", "row")
    for line in (2, 3)
]
NO_ROW = rejected("no_label", "no row has the key 'k'")
NO_FOLDER = rejected("no_label", "it is not in the folder of a class")
MISSING = rejected("no_label", "the label is missing in labels.csv:2, labels.csv:5")
MALFORMED = rejected("malformed_row", "its label is missing", "labels.csv:2", "row")
THREE = "labelled 'cat' (labels.csv:2), 'cat' (labels.csv:5), 'dog' (labels.csv:3)"
CONFLICT = rejected("label_conflict", THREE)
AMBIGUOUS = "its folders or pairs give it several labels: '', 'cat', 'dog'"
BOTH = "2 images have the key 'k': 'a/k.jpg', 'b/k.jpg'"
TWICE = [rejected("duplicate_key", BOTH, path) for path in (A.path, B.path)]
MANY = "7 images have the key 'k': '0/k.jpg', '1/k.jpg', '2/k.jpg', '3/k.jpg', '4/k.jpg' and 2 more"


@cases(
    ("csv", [A, row("cat", 2)], [labelled(A, "cat", 1)]),
    ("csv", [A, row("cat", 2), A, A], [again(2), labelled(A, "cat", 1)]),
    # Rows that say the same are one label, and those that do not none.
    ("csv", [row("cat", 2), A, row("cat", 9)], [labelled(A, "cat", 2)]),
    ("csv", [A, row("cat", 2), row("dog", 3), row("cat", 5)], [CONFLICT, gone(3)]),
    # A missing row, or a missing label.
    ("csv", [A], [NO_ROW]),
    ("csv", [A, row("", 2), row("", 5)], [MISSING, gone(2)]),
    ("csv", [A, row("", 2), row("cat", 3)], [labelled(A, "cat", 1), MALFORMED]),
    ("csv", [row("cat", 2), row("dog", 3)], NO_IMAGE),
    ("csv", [row("", 2), row("", 3)], NO_IMAGE),
    ("csv", [row("", 2), row("cat", 3)], NO_IMAGE),
    # Several images with one key, named once each.
    ("csv", [B, A, B], [again(1), *TWICE]),
    ("csv", [A, B, row("", 2), row("", 3)], [*TWICE, gone(2)]),
    ("csv", [A, B, row("", 2), row("cat", 3)], [*TWICE, gone(2)]),
    ("csv", SEVEN, [rejected("duplicate_key", MANY, each.path) for each in SEVEN]),
    ("directory", [CAT, DOG, B], [again(1), *TWICE]),
    ("none", [CAT, DOG, B], [again(1), *TWICE]),
    # Labels of folders and pairs.
    ("directory", [CAT], [labelled(CAT, "cat", 0)]),
    ("directory", [A], [NO_FOLDER]),
    ("none", [A], [labelled(A, "", 0)]),
    # One image with several labels is one rejection, unless nobody asks for them.
    *[
        (source, [DOG, CAT, A, DOG], [again(3), rejected("ambiguous_label", AMBIGUOUS)])
        for source in ("directory", "regex", "given")
    ],
    ("none", [DOG, CAT], [again(1), labelled(A, "", 0)]),
    ("csv", [DOG, CAT, row("fox", 2)], [again(1), labelled(A, "fox", 1)]),
    # An image that changed between two listings is one image.
    ("directory", [OLD, NEW], [again(1), labelled(NEW, "cat", 0)]),
)
def test_images_and_rows(label_from: str, sides: list[JoinSide], results: list[Joined]) -> None:
    found = join(*sides, label_from=label_from)
    assert Counter(found) == Counter(join(*sides[::-1], label_from=label_from)) == Counter(results)


def test_all_rows_of_a_conflict_are_named_and_none_needs_a_label_without_a_column() -> None:
    [conflict, _] = join(A, *(row(f"l{line}", line) for line in range(5)))
    assert isinstance(conflict, Rejection) and "more" not in conflict.detail
    assert join(A, row("", 2), has_label=False) == [labelled(A, "", 1)]


@cases({"split": "test", "group": "p1"}, {"split": "train", "group": "p2"})
def test_rows_that_put_an_image_into_two_places(other: dict[str, str]) -> None:
    [found, count] = join(A, row("cat", 2, split="train", group="p1"), row("cat", 3, **other))
    assert isinstance(found, Rejection) and found.reason == "split_conflict"
    assert count == gone(2)


ROWS = {"columns": ("a",), "needs_rows": True}
ONE = '["labels.csv:2",["cat"],["1"]]'
ORDERED = f'["labels.csv:1",["dog"],["2"]],{ONE},["labels.csv:10",["cat"],["1"]]'
TOO_MANY = rejected("too_costly", "it has 3 rows, more than 2: split the image")
OTHERS = rejected("label_conflict", "labelled 'cat' (labels.csv:3), 'dog' (labels.csv:2)")


@cases(
    # In the order of their lines.
    (
        [row("cat", 10, "1"), A, row("dog", 1, "2"), row("cat", 2, "1")],
        {"many": True, "many_labels": True},
        3,
        [labelled(A, "", 3, f"[{ORDERED}]")],
    ),
    # Rows that are alike are one, unless all count.
    (
        [row("cat", 3, "1"), A, row("cat", 2, "1"), row("cat", 4, "1")],
        {},
        2,
        [labelled(A, "cat", 3, f"[{ONE}]")],
    ),
    ([A, *(row("cat", n, "1") for n in range(3))], {"many": True}, 2, [TOO_MANY, gone(3)]),
    ([row("cat", 3, "1"), A, row("dog", 2, "1")], {}, 2, [OTHERS, gone(2)]),
)
def test_rows_that_are_kept(
    sides: list[JoinSide],
    asked: dict[str, bool],
    most: int,
    results: list[Joined],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An image has no more rows than its index can name."""
    monkeypatch.setattr(joins, "MAX_OBJECTS", most)
    assert join(*sides, **ROWS, **asked) == results


IMAGES = st.lists(st.sampled_from("abc").map(image), max_size=5)
LABELS = st.lists(st.sampled_from(["cat", "dog"]), max_size=4).map(
    lambda labels: [row(label, line) for line, label in enumerate(labels, 2)]
)
SIDES = st.tuples(IMAGES, LABELS).flatmap(lambda sides: st.permutations([*sides[0], *sides[1]]))


@given(SIDES, st.randoms())
def test_every_image_and_row_is_accounted_for_once(sides: list[JoinSide], random: Any) -> None:
    results = join(*sides)
    assert sorted(map(repr, join(*random.sample(sides, len(sides))))) == sorted(map(repr, results))
    counts = Counter({r.name: r.value for r in results if isinstance(r, Count)})
    matches = [r for r in results if isinstance(r, PlannedImage)]
    rejections = [r for r in results if isinstance(r, Rejection)]
    assert len(counts) == sum(isinstance(r, Count) for r in results)

    images = [side for side in sides if side.is_image]
    left_out = [r.path for r in rejections if r.subject == "image"]
    assert sorted(left_out + [m.path for m in matches]) == sorted({i.path for i in images})
    assert counts["images_found_again"] == len(images) - len(set(images))

    rows = [side for side in sides if not side.is_image]
    unmatched = [r.path for r in rejections if r.subject == "row"]
    assert len(set(unmatched)) == len(unmatched)
    used = sum(m.rows for m in matches)
    assert used + counts["rows_rejected"] + len(unmatched) == len(rows)
    assert set(unmatched) <= {r.where for r in rows}


TEXTS = st.text(max_size=6) | st.sampled_from(['"', "\\", "],[", "\n", "한"])


@given(st.lists(st.tuples(TEXTS, TEXTS, st.lists(TEXTS, max_size=3)), max_size=3))
def test_rows_are_compact_json_whatever_their_texts(rows: list[tuple[str, str, list[str]]]) -> None:
    sides = [
        JoinSide("", 0, 0, label.strip(), f"{place}.csv:2", cells=cells_text(cells))
        for place, label, cells in rows
    ]
    expected = [
        [f"{place}.csv:2", [label.strip()] if label.strip() else [], cells]
        for place, label, cells in rows
    ]
    text = rows_text(sides, RowRequirements())
    assert text == json.dumps(expected, ensure_ascii=False, separators=(",", ":"))


# With `--keys`, the listed images are joined, and the others are counted.

IMAGE = JoinSide("cat/1.jpg", 9, 3, "", "", kind=Kind.IMAGE)
# Its size is that of a key line; only images have sizes.
ODD = IMAGE._replace(size=-1)
ROW = JoinSide("", 0, 0, "cat", "labels.csv:2")
JOINED = PlannedImage(1, "1", "cat/1.jpg", 9, 3, "cat", split="train", rows=1)
LINES = [key_line(f"keys.txt:{number}") for number in (10, 9, 12)]
NOT_FOUND = Rejection("key", "key_not_found", "no image has this key", "keys.txt:9", "1")


@pytest.mark.parametrize("image", [IMAGE, ODD])
@cases(
    ("line image row", [JOINED]),
    ("row image line line", [JOINED]),
    ("image", [Count("images_left_out", 1)]),
    (
        "image again twin row row",
        [Count("images_left_out", 2), Count("images_found_again", 1), Count("rows_left_out", 2)],
    ),
    ("row", [Count("rows_left_out", 1)]),
    # A key without an image is rejected once.
    ("line line line", [NOT_FOUND, JOINED]),
    ("line line line row", [NOT_FOUND, JOINED]),
)
def test_listed_images_are_joined(kinds: str, counts: list[Joined], image: JoinSide) -> None:
    lines = iter(LINES)
    others = {"image": image, "again": image._replace(version=4), "row": ROW}
    others["twin"] = image._replace(path="dog/1.jpg")
    sides = [next(lines) if kind == "line" else others[kind] for kind in kinds.split()]

    def join(key: str, group: Iterable[JoinSide]) -> Iterator[Joined]:
        assert key == "1"
        assert all(side in (IMAGE, ODD, ROW) for side in group)
        yield JOINED

    assert list(join_selected("1", sides, join=join)) == counts


def test_lines_of_keys() -> None:
    assert key_of_line("  e\u0301 x.jpg\r".encode(), "a:1") == "\xe9 x.jpg"
    assert key_of_line(b" \t", "a:1") == ""
    assert key_of_line(b"x" * MAX_LINE, "a:1")
    with pytest.raises(LabelsError, match="^--keys a:1 is not UTF-8: write one key per line$"):
        key_of_line(b"\xff", "a:1")
    with pytest.raises(LabelsError, match="^--keys a:1 has more than 65536 bytes"):
        key_of_line(b"x" * (MAX_LINE + 1), "a:1")
