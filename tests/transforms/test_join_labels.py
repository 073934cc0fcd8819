"""Images and rows are read together and joined by their keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apache_beam as beam

from tests.transforms.beam import collect
from transforms.core.labels.path_labels import PathRules
from transforms.core.planning.keys import key_hashes
from transforms.core.planning.split_assignment import SplitAssigner
from transforms.core.planning.splits import Splits
from transforms.core.records import Count, JoinSide, LabelledImage
from transforms.core.tables.csv_rows import CsvColumns
from transforms.find_images import ImageFinder
from transforms.join_labels import JoinLabels, ReadInputs
from transforms.read_labels import RowReader

HALVES = Splits([("train", 0.5), ("test", 0.5)])


def test_inputs_are_read_together(tmp_path: Path) -> None:
    (tmp_path / "1.jpg").write_bytes(b"123")
    path = tmp_path / "labels.csv"
    path.write_text("id,label\n1,cat\n2,\n")
    finder = ImageFinder(root=str(tmp_path), key="stem", rules=PathRules())
    reader = RowReader(CsvColumns(",", True, 0, 1, "id", "label", 2), key="stem", encoding="utf-8")
    globs = [f"{tmp_path}/*.jpg", f"{tmp_path}/*.png"]
    transform = ReadInputs(globs, finder, [str(path)], reader)
    found = collect(lambda p: (p | "Read" >> transform)._asdict())
    sides = sorted(found["sides"], key=lambda side: side[1].where)
    [(key, image), (row_key, row), (_, unlabelled)] = sides
    assert (key, image.path, image.size) == ("1", "1.jpg", 3)
    assert (row_key, row.label, row.where) == ("1", "cat", f"{path}:2")
    # Whether a row needs a label is known when its image is.
    assert (unlabelled.label, unlabelled.where) == ("", f"{path}:3")
    assert found["rejections"] == []
    counts = [Count("images_found", 0), Count("images_found", 1), Count("rows_read", 2)]
    assert sorted(found["counts"]) == counts


def join(label_from: str, *groups: list[tuple[str, JoinSide]]) -> dict[str, list[Any]]:
    def construct(pipeline: beam.Pipeline) -> dict[str, Any]:
        kind = tuple[str, JoinSide]
        both = [side for group in groups for side in group]
        sides = pipeline | "Sides" >> beam.Create(both).with_output_types(kind)
        transform = JoinLabels(label_from=label_from, assigner=SplitAssigner(HALVES, seed=3))
        outputs = (sides | "Join labels" >> transform)._asdict()
        return {name: output for name, output in outputs.items() if output is not None}

    return collect(construct)


def test_join_labels() -> None:
    keys = [f"key {number}" for number in range(20)]
    images = [(key, JoinSide(f"{key}.jpg", 10, 2**62, "", "", is_image=True)) for key in keys]
    rows = [(key, JoinSide("", 0, 0, f"label of {key}", f"a.csv:{key}")) for key in keys]
    lone = JoinSide("lone.jpg", 1, 1, "", "", is_image=True)
    other = ("other", JoinSide("", 0, 0, "x", "a.csv:99"))
    joined = join("csv", [*images, images[0], ("lone", lone)], [*rows, rows[1], other])

    assert [image.key for image in sorted(joined["images"], key=by_number)] == keys
    for image in joined["images"]:
        split_hash, order_hash = key_hashes(image.key, seed=3)
        assert image == LabelledImage(
            split=HALVES.of(split_hash),
            order=order_hash - 2**63,
            key=image.key,
            path=f"{image.key}.jpg",
            size=10,
            version=2**62,
            label=f"label of {image.key}",
            rows=1 + (image.key == keys[1]),
        )
    assert {image.split for image in joined["images"]} == {"train", "test"}
    assert min(image.order for image in joined["images"]) < 0
    assert [(r.subject, r.reason, r.key) for r in joined["rejections"]] == [
        ("image", "no_label", "lone"),
        ("row", "row_without_image", "other"),
    ]
    assert joined["counts"] == [Count("images_found_again", 1)]


def by_number(image: LabelledImage) -> int:
    return int(image.key.split()[1])


def test_join_without_rows() -> None:
    joined = join("directory", [("1", JoinSide("cat/1.jpg", 10, 5, "cat", "", is_image=True))])
    [image] = joined["images"]
    assert (image.label, image.rows) == ("cat", 0)
