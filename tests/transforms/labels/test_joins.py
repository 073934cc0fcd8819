"""Images and rows with one key become a match or rejections; none is lost or counted twice."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.core.records import Count, JoinSide, Kind, PlannedImage
from transforms.core.rejections import Rejection
from transforms.labels import joins
from transforms.labels.joins import JoinRules, RowRequirements, join_group
from transforms.labels.shards import SplitAssigner, Splits

Joined = PlannedImage | Rejection | Count

ASSIGNER = SplitAssigner(Splits((("train", 1.0),)), seed=0)


def image(path: str, label: str = "") -> JoinSide:
    return JoinSide(path, 10, 1, label, "", kind=Kind.IMAGE)


def row(label: str, line: int) -> JoinSide:
    return JoinSide("", 0, 0, label, f"labels.csv:{line}")


def labelled(image: JoinSide, label: str, rows: int, cells: str = "") -> PlannedImage:
    split, order = ASSIGNER.assign("k", split="", group="")
    place = (order, "k", image.path, image.size, image.version)
    return PlannedImage(*place, label, cells=cells, split=split, rows=rows)


def join(*sides: JoinSide, label_from: str = "csv") -> list[Joined]:
    return list(join_group("k", sides, JoinRules(label_from, ASSIGNER)))


def rejected(reason: str, detail: str, path: str, subject: str = "image") -> Rejection:
    return Rejection(subject, reason, detail, path, "k")


A, B = image("a/k.jpg"), image("b/k.jpg")


def test_an_image_and_its_row() -> None:
    assert join(A, row("cat", 2)) == join(row("cat", 2), A) == [labelled(A, "cat", 1)]


@pytest.mark.parametrize("label_from", ["directory", "regex", "given"])
def test_one_image_with_two_labels_is_one_rejection(label_from: str) -> None:
    found = [image("a/k.jpg", label) for label in ("dog", "cat", "", "dog")]
    detail = "its folders or pairs give it several labels: '', 'cat', 'dog'"
    assert join(*found, label_from=label_from) == [
        Count("images_found_again", 3),
        rejected("ambiguous_label", detail, "a/k.jpg"),
    ]


def test_labels_that_nobody_asks_for_contradict_nothing() -> None:
    found = [image("a/k.jpg", "dog"), image("a/k.jpg", "cat")]
    again = Count("images_found_again", 1)
    [count, match] = join(*found, label_from="none")
    assert count == again and isinstance(match, PlannedImage)
    assert (match.path, match.label) == ("a/k.jpg", "")
    assert join(*found, row("fox", 2))[0] == again


def test_an_image_that_changed_between_two_listings_is_one_image() -> None:
    new = JoinSide("k.jpg", 10, 2, "cat", "", kind=Kind.IMAGE)
    old = new._replace(size=90, version=1)
    for found in ([old, new], [new, old]):
        assert join(*found, label_from="directory") == [
            Count("images_found_again", 1),
            labelled(new, "cat", 0),
        ]


def test_images_of_one_key_are_named_once_each() -> None:
    found = [image("a/k.jpg", "cat"), image("a/k.jpg", "dog"), image("b/k.jpg", "cat")]
    detail = "2 images have the key 'k': 'a/k.jpg', 'b/k.jpg'"
    assert join(*found, label_from="directory") == [
        Count("images_found_again", 1),
        rejected("duplicate_key", detail, "a/k.jpg"),
        rejected("duplicate_key", detail, "b/k.jpg"),
    ]


def test_rows_that_say_the_same_are_one_label() -> None:
    assert join(row("cat", 2), A, row("cat", 9)) == [labelled(A, "cat", 2)]


def test_rows_that_contradict_each_other() -> None:
    detail = "labelled 'cat' (labels.csv:2), 'cat' (labels.csv:5), 'dog' (labels.csv:3)"
    assert join(A, row("cat", 2), row("dog", 3), row("cat", 5)) == [
        rejected("label_conflict", detail, "a/k.jpg"),
        Count("rows_rejected", 3),
    ]


@pytest.mark.parametrize("other", [{"split": "test"}, {"group": "p2"}])
def test_rows_that_put_an_image_into_two_places(other: dict[str, str]) -> None:
    one = row("cat", 2)._replace(split="train", group="p1")
    [found, count] = join(
        A, one, row("cat", 3)._replace(split="train", group="p1")._replace(**other)
    )
    assert isinstance(found, Rejection) and found.reason == "split_conflict"
    assert count == Count("rows_rejected", 2)


def test_an_image_without_a_row() -> None:
    assert join(A) == [rejected("no_label", "no row has the key 'k'", "a/k.jpg")]


def test_an_image_whose_row_has_no_label() -> None:
    detail = "the label is missing in labels.csv:2, labels.csv:5"
    assert join(A, row("", 2), row("", 5)) == [
        rejected("no_label", detail, "a/k.jpg"),
        Count("rows_rejected", 2),
    ]


def test_a_row_without_a_label_beside_one_that_has_it() -> None:
    assert join(A, row("", 2), row("cat", 3)) == [
        labelled(A, "cat", 1),
        rejected("malformed_row", "its label is missing", "labels.csv:2", "row"),
    ]


def test_rows_need_no_label_where_there_is_no_column_of_labels() -> None:
    requirements = RowRequirements(has_label=False)
    found = joined(A, row("", 2), requirements=requirements)
    assert found == [labelled(A, "", 1)]


@pytest.mark.parametrize("second", ["", "cat"])
def test_rows_without_a_label_count_where_they_name_no_single_image(second: str) -> None:
    gone = join(row("", 2), row(second, 3))
    assert [r.reason for r in gone if isinstance(r, Rejection)] == ["row_without_image"] * 2
    twice = join(A, B, row("", 2), row(second, 3))
    assert twice[-1] == Count("rows_rejected", 2)


def test_rows_without_an_image() -> None:
    detail = "no image has the key 'k'"
    assert join(row("cat", 2), row("dog", 3)) == [
        rejected("row_without_image", detail, "labels.csv:2", "row"),
        rejected("row_without_image", detail, "labels.csv:3", "row"),
    ]


def test_an_image_found_twice_is_one() -> None:
    assert join(A, row("cat", 2), A, A) == [Count("images_found_again", 2), labelled(A, "cat", 1)]


@pytest.mark.parametrize("label_from", ["csv", "directory", "none"])
def test_several_images_with_one_key(label_from: str) -> None:
    detail = "2 images have the key 'k': 'a/k.jpg', 'b/k.jpg'"
    assert join(B, A, B, label_from=label_from) == [
        Count("images_found_again", 1),
        rejected("duplicate_key", detail, "a/k.jpg"),
        rejected("duplicate_key", detail, "b/k.jpg"),
    ]


def test_rows_of_several_images_are_rejected_with_them() -> None:
    assert join(A, B, row("cat", 2), row("cat", 3))[2:] == [Count("rows_rejected", 2)]


def test_labels_of_directories() -> None:
    found = image("cat/k.jpg", "cat")
    assert join(found, label_from="directory") == [labelled(found, "cat", 0)]
    assert join(image("k.jpg"), label_from="directory") == [
        rejected("no_label", "it is not in the folder of a class", "k.jpg")
    ]


def test_no_labels() -> None:
    assert join(A, label_from="none") == [labelled(A, "", 0)]


def test_a_detail_names_only_a_few() -> None:
    [first, *_] = join(*(image(f"{number}/k.jpg") for number in range(7)))
    assert isinstance(first, Rejection)
    assert first.detail == (
        "7 images have the key 'k': "
        "'0/k.jpg', '1/k.jpg', '2/k.jpg', '3/k.jpg', '4/k.jpg' and 2 more"
    )
    [conflict, _] = join(A, *(row(f"l{line}", line) for line in range(5)))
    assert isinstance(conflict, Rejection) and "more" not in conflict.detail


IMAGES = st.lists(st.sampled_from("abc").map(image), max_size=5)
ROWS = st.lists(st.sampled_from(["cat", "dog"]), max_size=4).map(
    lambda labels: [row(label, line) for line, label in enumerate(labels, 2)]
)
SIDES = st.tuples(IMAGES, ROWS).flatmap(lambda sides: st.permutations([*sides[0], *sides[1]]))


@given(SIDES)
def test_every_image_and_every_row_is_accounted_for_once(sides: list[JoinSide]) -> None:
    results = join(*sides)
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


@given(SIDES.flatmap(lambda sides: st.tuples(st.just(sides), st.permutations(sides))))
def test_the_order_of_the_group_does_not_matter(
    orders: tuple[list[JoinSide], list[JoinSide]],
) -> None:
    one, other = (sorted(map(repr, join(*sides))) for sides in orders)
    assert one == other


def cells(label: str, line: int, *each: str) -> JoinSide:
    return row(label, line)._replace(cells=json.dumps(each))


def joined(*sides: JoinSide, requirements: RowRequirements) -> list[Joined]:
    return list(join_group("k", sides, JoinRules("csv", ASSIGNER, requirements)))


def test_rows_are_kept_in_the_order_of_their_lines() -> None:
    requirements = RowRequirements(("a",), needs_rows=True, many=True, many_labels=True)
    assert joined(
        cells("cat", 10, "1"),
        A,
        cells("dog", 9, "2"),
        cells("cat", 11, "1"),
        requirements=requirements,
    ) == [
        labelled(
            A,
            "",
            3,
            cells='[["labels.csv:9",["dog"],["2"]],["labels.csv:10",["cat"],["1"]],'
            '["labels.csv:11",["cat"],["1"]]]',
        )
    ]


def test_rows_that_say_the_same_are_kept_once_unless_all_count() -> None:
    requirements = RowRequirements(("a",), needs_rows=True)
    assert joined(cells("cat", 3, "1"), A, cells("cat", 2, "1"), requirements=requirements) == [
        labelled(A, "cat", 2, cells='[["labels.csv:2",["cat"],["1"]]]')
    ]
    conflict = joined(cells("cat", 3, "1"), A, cells("dog", 2, "1"), requirements=requirements)
    assert conflict[1] == Count("rows_rejected", 2)


def test_rows_that_disagree_about_the_split_reject_their_image() -> None:
    rows = [row("cat", 2)._replace(split="train"), row("cat", 3)._replace(split="test")]
    found, count = join(A, *rows)
    assert isinstance(found, Rejection) and found.reason == "split_conflict"
    assert count == Count("rows_rejected", 2)


def test_an_image_has_no_more_rows_than_its_index_can_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joins, "MAX_OBJECTS", 2)
    rows = [cells("cat", line, "1") for line in range(3)]
    many = RowRequirements(("a",), needs_rows=True, many=True)
    rejection, counted = joined(A, *rows, requirements=many)
    assert isinstance(rejection, Rejection)
    assert rejection.reason == "too_costly"
    assert rejection.detail == "it has 3 rows, more than 2: split the image"
    assert counted == Count("rows_rejected", 3)
    # Rows that are alike are one.
    assert len(joined(A, *rows, requirements=many._replace(many=False))) == 1
