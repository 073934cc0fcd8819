from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest

from tests.transforms.beam import collect
from transforms.core.csv_lines import LabelsError
from transforms.core.csv_rows import CsvColumns
from transforms.core.keys import key_hashes
from transforms.core.records import Count, JoinSide, LabelledImage
from transforms.core.rejections import Rejection
from transforms.core.splits import Splits
from transforms.labels import JoinLabels, ReadLabels

COLUMNS = CsvColumns(",", True, 0, 1, "id", "label", 2)
HALVES = Splits([("train", 0.5), ("test", 0.5)])


def read(*paths: Path, key: str = "stem", encoding: str = "utf-8") -> dict[str, list[Any]]:
    names = [str(path) for path in paths]
    transform = ReadLabels(names, COLUMNS, key=key, encoding=encoding)
    return collect(lambda p: (p | "Read labels" >> transform)._asdict())


def test_rows_of_several_files(tmp_path: Path) -> None:
    one, two = tmp_path / "one.csv", tmp_path / "two.csv.gz"
    one.write_text('id,label\nphotos/1.jpg,cat\n\n2,"a, quoted\nlabel"\n')
    two.write_bytes(gzip.compress("\ufeffid,label\ne\u0301,한강\n".encode()))
    found = read(one, two)
    assert found == {
        "rows": [
            ("1", JoinSide("", 0, 0, "cat", f"{one}:2")),
            ("2", JoinSide("", 0, 0, "a, quoted label", f"{one}:4")),
            ("\xe9", JoinSide("", 0, 0, "한강", f"{two}:2")),
        ],
        "rejections": [],
        "counts": [Count("rows_read", 1), Count("rows_read", 2)],
    }


def test_rows_that_cannot_be_used(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("id,label\n1,\n,cat\nfolder/,dog\n2,cat,more\n3,cat\n")
    found = read(path)
    assert [key for key, _ in found["rows"]] == ["3"]
    rejections: list[Rejection] = found["rejections"]
    assert {(r.subject, r.reason) for r in rejections} == {("row", "malformed_row")}
    assert sorted((r.path, r.key) for r in rejections) == [
        (f"{path}:2", "1"),
        (f"{path}:3", ""),
        (f"{path}:4", "folder/"),
        (f"{path}:5", "2"),
    ]
    assert next(r.detail for r in rejections if r.key == "folder/") == "'folder/' names no file"
    assert found["counts"] == [Count("rows_read", 5)]


def test_encodings(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_bytes("id,label\n1,한강\n".encode("cp949"))
    [(_, row)] = read(path, encoding="cp949")["rows"]
    assert row.label == "한강"
    with pytest.raises(LabelsError, match="labels.csv"):
        read(path)


def join(label_from: str, *groups: list[tuple[str, JoinSide]]) -> dict[str, list[Any]]:
    def construct(pipeline: beam.Pipeline) -> dict[str, Any]:
        kind = tuple[str, JoinSide]
        sides = tuple(
            pipeline | f"Side {number}" >> beam.Create(group).with_output_types(kind)
            for number, group in enumerate(groups)
        )
        transform = JoinLabels(label_from=label_from, splits=HALVES, seed=3)
        return dict((sides | "Join labels" >> transform)._asdict())

    return collect(construct)


def test_join_labels() -> None:
    keys = [f"key {number}" for number in range(20)]
    images = [(key, JoinSide(f"{key}.jpg", 10, 2**62, "", "")) for key in keys]
    rows = [(key, JoinSide("", 0, 0, f"label of {key}", f"a.csv:{key}")) for key in keys]
    lone = JoinSide("lone.jpg", 1, 1, "", "")
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
    joined = join("directory", [("1", JoinSide("cat/1.jpg", 10, 5, "cat", ""))])
    [image] = joined["images"]
    assert (image.label, image.rows) == ("cat", 0)
