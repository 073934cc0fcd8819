"""A planned shard comes back with its records and reads; what is not known has no hash."""

from __future__ import annotations

from typing import Any

import pytest

from transforms.core.records import PartnerFile, Plain, PlannedImage
from transforms.images.check import CheckedPartner
from transforms.records.comparison import COLUMNS, PlannedReads, Records, planned_part, read_part
from transforms.records.record_index import PARTNERS
from transforms.records.stored_images import stored_side

ROW: dict[str, Any] = {
    "shard": "train-00000-of-00001.tfrecord",
    "record": 0,
    "offset": 0,
    "length": 90,
    "size": 50,
    "version": 9,
    "content": b"\1" * 16,
    "source_content": b"\2" * 16,
    "perceptual_hash": None,
    "format": "jpeg",
    "height": 30,
    "width": 40,
    "channels": 3,
    "orientation": 0,
    "gps": 0,
    "changes": None,
    "source_height": None,
    "source_width": None,
}
STORED = (stored_side(0, ROW, "a.jpg").record[0],)
READS = PlannedReads(taken=1, originals=1, bytes=50, ranges=1)


def image(key: str, label: str, stored: Plain = (), cells: str = "") -> PlannedImage:
    return PlannedImage(0, key, f"{key}.jpg", 50, 9, label, 3, cells, stored)


def test_a_shard_comes_back() -> None:
    images = [image("a", "cat", STORED), image("b", "")]
    table, reads = read_part(planned_part(images, "train", READS, many_labels=False))
    assert reads == READS
    assert table.column_names == list(COLUMNS)
    assert table.to_pylist() == [
        {
            "key": "a",
            "split": "train",
            "label": "cat",
            "label_id": 3,
            "content": b"\1" * 16,
            "source_content": b"\2" * 16,
        },
        {"key": "b", "split": "train"}
        | dict.fromkeys(("label", "label_id", "content", "source_content")),
    ]
    assert Records.of_index(table).classes == {"cat": 3}


def test_masks_have_a_hash_if_they_are_not_read() -> None:
    file, mask = PartnerFile("a.png", 5, 6), CheckedPartner(7, "png", "3" * 32)
    sides = [stored_side(0, ROW, "a.jpg", None, [known]) for known in ((file, mask), None)]
    images = [image("a", "", (side.record[0],)) for side in sides] + [image("b", "")]
    planned = [each._replace(partners=(tuple(file),)) for each in images]
    table, _ = read_part(planned_part(planned, "train", READS, many_labels=False))
    hashes = Records.of_index(table).table.column(PARTNERS).to_pylist()
    assert hashes == [b"\x33" * 16, None, None]


@pytest.mark.parametrize("many", [True, False])
def test_a_shard_without_images(many: bool) -> None:
    table, reads = read_part(planned_part([], "train", PlannedReads(), many_labels=many))
    assert (table.num_rows, reads) == (0, PlannedReads())
    assert Records.joined([Records.of_index(table)]).table.num_rows == 0


def test_several_labels() -> None:
    cells = '[["a.csv:2",[[0,"x"],[1,"y"]],[]]]'
    part = planned_part([image("a", "x", cells=cells)], "test", READS, many_labels=True)
    table, _ = read_part(part)
    assert table.column("label").to_pylist() == [["x", "y"]]
    assert table.column("label_id").to_pylist() == [[0, 1]]
