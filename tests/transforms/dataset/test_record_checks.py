"""Records and rejections are compared with what the manifest says of them."""

from typing import Any

import pytest

from tests.marks import cases
from tests.transforms.core.checked_images import OBJECTS, checked
from transforms.core.rejections import Rejection
from transforms.dataset import record_checks
from transforms.dataset.record_checks import RecordCheck, RecordVerifier, rejected_problems
from transforms.examples.encoder import ExampleEncoder
from transforms.examples.layouts import LAYOUTS, Feature
from transforms.images.pixel_options import Limits

REJECTIONS = [
    Rejection("image", "empty_file", "0 bytes", "cat/1.jpg", "1"),
    Rejection("image", "no_label", "no row has the key '2'", "cat/2.jpg", "2"),
    Rejection("row", "row_without_image", "no image has the key '3'", "a.csv:3", "3"),
]
LINES = [rejection.to_json() for rejection in REJECTIONS]
MANIFEST: dict[str, Any] = {
    "rejected": {"empty_file": 1, "no_label": 1, "row_without_image": 1},
    "ledger": {"images_rejected": 2},
}


def text(*lines: str) -> list[bytes]:
    return [f"{line}\n".encode() for line in lines]


@cases(
    (LINES[:2], "counts of reasons differ"),
    ([*LINES, LINES[0]], "lists 3 images, the ledger counts 2"),
    ([LINES[0], LINES[1].replace('"image"', '"row"'), LINES[2]], "lists 1 images, the ledger"),
    ([*LINES[:2], "{}"], "not a rejection"),
    ([*LINES[:2], "["], "not a rejection"),
    ([*LINES[:2], "7"], "not a rejection"),
)
def test_rejections_that_differ_from_the_ledger(lines: list[str], message: str) -> None:
    assert list(rejected_problems(MANIFEST, text(*LINES))) == []
    assert message in " ".join(rejected_problems(MANIFEST, text(*lines)))


LISTS = tuple(feature for feature in LAYOUTS["detection"] if feature.is_list)
RIGHT = OBJECTS | {"image/class/label": [0, 1], "image/object/class/label": [0, 1, 0]}
LIMITS = Limits(10**6, 10**6)


def check_lists(**changed: list[Any]) -> RecordCheck:
    """The check of a record of `RIGHT` with other values, `/` written as `__`."""
    values = RIGHT | {name.replace("__", "/"): value for name, value in changed.items()}
    record = ExampleEncoder(LISTS).encode(checked(values=values))
    return RecordVerifier(LISTS, {0: "cat", 1: "dog"}, LIMITS).check(record)


def test_lists_that_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    found = check_lists()
    assert (found.problems, found.labels) == ((), ("cat", "dog"))
    # Classes that are as listed are not put in order.
    monkeypatch.setattr(record_checks, "class_order", lambda _: 1 / 0)
    assert not [*record_checks.class_problems("", record_checks.Counter("ab"), {"a": 1, "b": 1})]


@cases(
    ({"image__object__class__label": [0, 2, 0]}, "label 2 is not a line of labels.txt"),
    ({"image__object__class__label": [1, 1, 0]}, "label 1 is 'dog' in labels.txt"),
    ({"image__object__class__label": [0, 1]}, "has 2 object ids but 3 object texts"),
    ({"image__class__text": [b"cat", b"cat"]}, "label 1 is 'dog' in labels.txt"),
    ({"image__class__text": [b"cat", b"\xff"]}, "label 1 is 'dog' in labels.txt"),
    ({"image__object__bbox__xmin": [0.0, 0.1]}, "different lengths"),
    ({"image__object__bbox__xmin": [0.0, 0.1, 1.5]}, "is not between 0 and 1"),
    ({"image__object__area": [1.0]}, "lists of box attributes and of boxes have different len"),
)
def test_lists_that_are_wrong(changed: dict[str, list[Any]], message: str) -> None:
    (problem,) = check_lists(**changed).problems
    assert message in problem


def test_readers_of_boxes_keep_0_for_the_background() -> None:
    record = ExampleEncoder(LISTS).encode(checked(values=RIGHT))
    features = [feature.to_manifest() for feature in LISTS]
    verifier = RecordVerifier.of(
        {"options": {"layout": "detection"}, "features": features, "labels": "text"}
    )
    problems = verifier.check(record).problems
    assert "label 0 is below 1: readers reserve 0 for the background" in problems


def test_a_list_that_is_not_set_is_empty_and_a_single_value_is_no_list() -> None:
    features = tuple(feature for feature in LISTS if feature.source == "label.texts")
    record = b"\x0a\x16\x0a\x14\x0a\x10image/class/text\x12\x00"
    assert RecordVerifier(features, None, LIMITS).check(record) == RecordCheck((), ("",))
    feature = Feature("n", "csv.n", "int64", None)
    record = ExampleEncoder([feature]).encode(checked(values={"n": [1, 2]}))
    found = RecordVerifier((feature._replace(shape=()),), None, LIMITS).check(record)
    assert found.problems == ("feature 'n' does not have exactly one value",)
