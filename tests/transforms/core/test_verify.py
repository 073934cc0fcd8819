from __future__ import annotations

from typing import Any

import pytest

from transforms.core.rejections import Rejection
from transforms.core.verify import rejected_problems

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


def text(*lines: str) -> str:
    return "".join(f"{line}\n" for line in lines)


def test_rejections_that_the_ledger_counts() -> None:
    assert list(rejected_problems(MANIFEST, text(*LINES))) == []


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (LINES[:2], "other reasons"),
        ([*LINES, LINES[0]], "has 3 images, the ledger says 2"),
        ([LINES[0], LINES[1].replace('"image"', '"row"'), LINES[2]], "has 1 images, the ledger"),
        ([*LINES[:2], "{}"], "no rejection"),
        ([*LINES[:2], "["], "no rejection"),
        ([*LINES[:2], "7"], "no rejection"),
    ],
)
def test_rejections_that_differ_from_the_ledger(lines: list[str], told: str) -> None:
    assert told in " ".join(rejected_problems(MANIFEST, text(*lines)))
