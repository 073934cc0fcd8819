"""However many rejections there are, no worker gets many of them, and all are counted."""

import bisect
import json
from pathlib import Path
from typing import Any
from unittest import mock

import apache_beam as beam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.marks import cases
from tests.pipeline.commands import digests
from tests.transforms.added import added_to, totals_of
from tests.transforms.beam import changed, collect, convert, make_config, make_images
from transforms import list_rejections
from transforms.core import rejections
from transforms.core.records import RejectedPart
from transforms.core.rejections import Rejection, RejectionLimit
from transforms.dataset import ledger
from transforms.dataset.dataset_options import DatasetOptions
from transforms.dataset.ledger import RunTotals, ShardSummary
from transforms.labels.label_rows import Column, CsvColumns
from transforms.list_rejections import ListRejections, begin_parts, rejected_lines
from transforms.publish_dataset import NotPublishedError

REJECTIONS = [
    Rejection(what, f"no_{what}", "", f"{number}.jpg", f"{number}")
    for what in ("row", "image")
    for number in range(300)
]
OF_SHARDS = [Rejection("image", "empty_file", "0 bytes", "", "")]
SHARD = ShardSummary("train-00000-of-00001.tfrecord", "", rejections=tuple(OF_SHARDS))
RUN, SHORT = [*REJECTIONS, SHARD], [*REJECTIONS[::10], SHARD]


def listed(output: Path) -> list[RejectedPart]:
    def construct(pipeline: beam.Pipeline) -> dict[str, Any]:
        planned = pipeline | "Planned" >> beam.Create(REJECTIONS).with_output_types(Rejection)
        shards = pipeline | "Shards" >> beam.Create([SHARD]).with_output_types(ShardSummary)
        run = pipeline | "Run" >> beam.Create([added_to(RunTotals(), RUN)])
        folder = DatasetOptions(output=str(output), overwrite=False)
        step = ListRejections(folder, "photos", shards, run)
        return {"parts": planned | step}

    return sorted(collect(construct)["parts"])


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_rejections, "PART_LINES", 100)
    monkeypatch.setattr(ledger, "MAX_SAMPLED", 60)


def test_parts_in_order_are_all_lines_in_order(tmp_path: Path) -> None:
    parts = listed(tmp_path)
    assert [part.number for part in parts] == list(range(7))
    assert sum(part.lines for part in parts) == 601
    assert max(part.lines for part in parts) <= 200
    lines = rejected_lines(sorted([*REJECTIONS, *OF_SHARDS]), "photos")
    assert b"".join((tmp_path / ".staging" / part.name).read_bytes() for part in parts) == lines


@given(st.permutations(SHORT), st.integers(0, len(SHORT)))
def test_the_sample_is_the_same_in_any_order(run: list[Any], cut: int) -> None:
    with mock.patch.object(ledger, "MAX_SAMPLED", 6):
        whole = added_to(RunTotals(), run[:cut])
        whole.merge(added_to(RunTotals(), run[cut:]))
        assert whole.rejected.digest == totals_of(REJECTIONS[::10]).digest
        assert whole.rejected.reasons == totals_of([*REJECTIONS[::10], *OF_SHARDS]).reasons
        assert len(whole.sample) == 6 and {*whole.sample} <= {*REJECTIONS, *OF_SHARDS}
        assert whole.sample == added_to(RunTotals(), SHORT).sample


def test_a_finished_dataset_is_only_compared_and_too_many_are_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "manifest.json").write_text("{}")
    assert sum(part.lines for part in listed(tmp_path)) == 601
    monkeypatch.setattr(rejections, "MAX_LISTED", 600)
    assert listed(tmp_path / "new") == []
    assert not [*tmp_path.rglob(".staging")]


TEXTS = st.text("ab\x00é", max_size=3)
SOME = st.lists(st.builds(Rejection, TEXTS, TEXTS, TEXTS, TEXTS, TEXTS), max_size=30)


@given(SOME, st.integers(1, 5), st.integers(1, 30))
def test_any_sample_gives_sorted_parts(found: list[Rejection], lines: int, sampled: int) -> None:
    run = added_to(RunTotals(), found)
    with (
        mock.patch.object(list_rejections, "PART_LINES", lines),
        mock.patch.object(ledger, "MAX_SAMPLED", sampled),
    ):
        begins = begin_parts(run)
    assert begins is not None
    parts: list[list[Rejection]] = [[] for _ in range(len(begins) + 1)]
    for each in found:
        parts[bisect.bisect_right(begins, each)].append(each)
    assert [each for part in parts for each in sorted(part)] == sorted(found)


def unmatched(folder: Path, rows: int, output: str, limit: str = "1") -> Any:
    """Converts two images of which one has a label, with further rows for no image."""
    if not (folder / "images").exists():
        make_images(folder / "images", ["1.jpg", "2.jpg"])
    lines = [f"{number},cat\n" for number in (1, *range(100, 100 + rows))]
    (folder / "a.csv").write_text("id,label\n" + "".join(lines))
    rows_of = {
        "images": (f"{folder}/images/*.jpg",),
        "label_from": "csv",
        "key": "stem",
        "csv_paths": (f"{folder}/a.csv",),
        "columns": CsvColumns(Column(0, "id"), Column(1, "label"), 2),
    }
    config = make_config(folder / "images", folder / output, **rows_of)
    return convert(changed(config, max_rejected=RejectionLimit.parse(limit)))


def test_parts_of_any_size_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_images(tmp_path / "images", ["1.jpg", "2.jpg", "102.jpg"])
    # One more is rejected in its shard.
    (tmp_path / "images/102.jpg").write_bytes(b"")
    unmatched(tmp_path, 5, "one", "2")
    monkeypatch.setattr(list_rejections, "PART_LINES", 2)
    unmatched(tmp_path, 5, "three", "2")
    assert digests(tmp_path / "three") == digests(tmp_path / "one")
    assert not (tmp_path / "three/.staging").exists()
    assert len((tmp_path / "one/rejected.jsonl").read_text().splitlines()) == 6


@cases(
    ("0", 300, "1 of 2 images rejected, more than --max_rejected (0); nothing published. "),
    ("1", 300, "301 images and rows left out, more than rejected.jsonl can list (300)"),
    ("0", 301, "1 of 2 images rejected, more than --max_rejected (0); nothing published. "),
)
def test_too_many_are_refused_in_one_line(
    limit: str, most: int, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If there is room for all, all are listed."""
    monkeypatch.setattr(rejections, "MAX_LISTED", most)
    monkeypatch.setattr(ledger, "MAX_SAMPLED", 30)
    with pytest.raises(NotPublishedError):
        unmatched(tmp_path, 300, "out", limit)
    outcome = json.loads((tmp_path / "out/.staging/outcome.json").read_text())
    assert outcome["status"] == "too_many_rejected"
    assert outcome["message"].startswith(message)
    assert "Left out: 300 row_without_image, 1 no_label; see " in outcome["message"]
    lines = (tmp_path / "out/.staging/rejected.jsonl").read_text().splitlines()
    found = [Rejection(**json.loads(line)) for line in lines]
    assert found == sorted(found)
    if most == 301:
        assert len(found) == 301
    else:
        assert 5 <= len(found) <= 80
        assert f"rejected.jsonl ({len(found)} of them), then fix" in outcome["message"]
