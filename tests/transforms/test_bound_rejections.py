"""However many rejections there are, one worker gets few, and all counts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest

from tests.pipeline.commands import digests
from tests.transforms.beam import collect, convert, make_config, make_images
from transforms import bound_rejections, publish_dataset
from transforms.bound_rejections import BoundRejections
from transforms.core.dataset import run_counts
from transforms.core.planning.rejection_limit import RejectionLimit
from transforms.core.records import Count
from transforms.core.rejections import Rejection
from transforms.core.tables.csv_rows import CsvColumns
from transforms.publish_dataset import NotPublishedError

REJECTIONS = [
    Rejection(what, f"no_{what}", "", f"{number}.jpg", f"{number}")
    for what in ("row", "image")
    for number in range(1000)
]
COUNTS = [Count("rejected/image/no_image", 1000), Count("rejected/row/no_row", 1000)]


def bounded(monkeypatch: pytest.MonkeyPatch, most: int) -> dict[str, list[Any]]:
    monkeypatch.setattr(bound_rejections, "MAX_LISTED", most)
    monkeypatch.setattr(bound_rejections, "MAX_SAMPLED", 50)

    def construct(pipeline: beam.Pipeline) -> dict[str, Any]:
        rejections = pipeline | beam.Create(REJECTIONS).with_output_types(Rejection)
        bounded = rejections | BoundRejections()
        return {"listed": bounded.listed, "counts": bounded.counts}

    return collect(construct)


def test_all_are_listed_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    found = bounded(monkeypatch, 2000)
    assert found["listed"] == sorted(REJECTIONS, key=repr)
    assert sorted(found["counts"]) == COUNTS


def test_of_more_a_sample_and_all_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    found = bounded(monkeypatch, 1999)
    assert 20 <= len(found["listed"]) <= 100
    assert set(found["listed"]) <= set(REJECTIONS)
    assert sorted(found["counts"]) == COUNTS


def unmatched(folder: Path, rows: int, output: str, limit: str = "1") -> Any:
    """Converts two images of which one has a label, with further rows for no image."""
    if not (folder / "images").exists():
        make_images(folder / "images", ["1.jpg", "2.jpg"])
    lines = [f"{number},cat\n" for number in (1, *range(100, 100 + rows))]
    (folder / "a.csv").write_text("id,label\n" + "".join(lines))
    columns = CsvColumns(",", True, 0, 1, "id", "label", 2)
    return convert(
        make_config(
            folder / "images",
            folder / output,
            images=(f"{folder}/images/*.jpg",),
            label_from="csv",
            key="stem",
            csv_paths=(f"{folder}/a.csv",),
            columns=columns,
            max_rejected=RejectionLimit.parse(limit),
        )
    )


def test_few_rejections_give_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_images(tmp_path / "images", ["1.jpg", "2.jpg", "102.jpg"])
    # One more is rejected in its shard.
    (tmp_path / "images/102.jpg").write_bytes(b"")
    unmatched(tmp_path, 5, "here", "2")
    monkeypatch.setattr(publish_dataset, "runs_in_process", lambda _: False)
    unmatched(tmp_path, 5, "elsewhere", "2")
    assert digests(tmp_path / "elsewhere") == digests(tmp_path / "here")
    assert len((tmp_path / "here/rejected.jsonl").read_text().splitlines()) == 6


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ("0", "1 of 2 images rejected, more than --max_rejected (0); nothing published. "),
        ("1", "301 images and rows left out, more than rejected.jsonl can list (300); nothing "),
    ],
)
def test_too_many_are_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, message: str
) -> None:
    monkeypatch.setattr(publish_dataset, "runs_in_process", lambda _: False)
    for module in (bound_rejections, run_counts):
        monkeypatch.setattr(module, "MAX_LISTED", 300)
    monkeypatch.setattr(bound_rejections, "MAX_SAMPLED", 30)
    with pytest.raises(NotPublishedError):
        unmatched(tmp_path, 300, "out", limit)
    expected = json.loads((tmp_path / "out/.staging/outcome.json").read_text())
    assert expected["status"] == "too_many_rejected"
    assert expected["message"].startswith(message)
    assert "Left out: 300 row_without_image, 1 no_label; see " in expected["message"]
    lines = (tmp_path / "out/.staging/rejected.jsonl").read_text().splitlines()
    assert 5 <= len(lines) <= 80
    assert f"rejected.jsonl ({len(lines)} of them), then fix these inputs" in expected["message"]
