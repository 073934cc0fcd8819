"""A dataset appears whole or not at all, and only if its ledger balances."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import google_crc32c
import pytest

from pipeline.resolve.config import ConvertConfig
from tests.marks import rest_slow
from tests.pipeline.commands import SMALL_FILES
from tests.transforms.beam import (
    changed,
    collect,
    convert,
    convert_images,
    copy_converted,
    counters,
    make_config,
    make_images,
)
from transforms import packing
from transforms.core.records import Count, FileBatch, PlannedImage
from transforms.core.rejections import Rejection, RejectionLimit
from transforms.dataset.dataset_options import FileOptions
from transforms.dataset.ledger import LedgerError, PlanTotals, ShardSummary
from transforms.dataset.manifest import manifest_shards, parse_manifest
from transforms.dataset.output_names import index_file
from transforms.dataset_files import DatasetTarget
from transforms.images.pixel_options import CheckOptions
from transforms.publish_dataset import NotPublishedError, PublishDataset
from transforms.storage.local_storage import LocalStorage

NAMES = [f"{label}/{number}.jpg" for label in ("cat", "dog") for number in range(6)]
SHARDS = [f"train-0000{number}-of-00002.tfrecord" for number in range(2)]
RECIPES = ["0" * 32, "1" * 32]
REJECTION = Rejection("image", "no_label", "no row has the key 'x'", "cat/x.jpg", "x")
ROW = Rejection("row", "row_without_image", "no image has the key 'y'", "a.csv:7", "y")


@pytest.fixture
def config(tmp_path: Path) -> ConvertConfig:
    """A dataset of twelve images, not made yet."""
    make_images(tmp_path / "images", NAMES)
    return make_config(tmp_path / "images", tmp_path / "out")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The images and, next to them, the dataset."""
    return convert_images(tmp_path_factory.mktemp("made"), NAMES)


@pytest.fixture
def published(made: Path, tmp_path: Path) -> ConvertConfig:
    """A copy of a dataset of twelve images."""
    return copy_converted(made, tmp_path)


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "out"


def manifest_of(output: Path) -> dict[str, Any]:
    return parse_manifest((output / "manifest.json").read_text(), "manifest.json")


def snapshot(output: Path) -> dict[str, tuple[bytes, int]]:
    """Every file outside the staging folder, with its content and inode."""
    return {
        path.relative_to(output).as_posix(): (path.read_bytes(), path.stat().st_ino)
        for path in output.rglob("*")
        if path.is_file() and ".staging" not in path.parts
    }


@pytest.mark.usefixtures("published")
def test_a_published_dataset(output: Path) -> None:
    assert set(os.listdir(output)) == {*SHARDS, *SMALL_FILES, "index"}
    assert set(os.listdir(output / "index")) == {Path(index_file(name)).name for name in SHARDS}
    manifest = manifest_of(output)
    assert set(manifest["files"]) == set(SMALL_FILES) - {"manifest.json", "report.html"}
    for shard in manifest_shards(manifest):
        data = (output / shard["file"]).read_bytes()
        assert (len(data), f"{google_crc32c.value(data):08x}") == (shard["bytes"], shard["crc32c"])
    for entry, shard in zip(manifest["index"], manifest_shards(manifest), strict=True):
        data = (output / entry["file"]).read_bytes()
        assert entry == {
            "file": index_file(shard["file"]),
            "records": shard["records"],
            "bytes": len(data),
            "crc32c": f"{google_crc32c.value(data):08x}",
        }
    for name, described in manifest["files"].items():
        data = (output / name).read_bytes()
        assert described == {"bytes": len(data), "crc32c": f"{google_crc32c.value(data):08x}"}
    assert (output / "labels.txt").read_text() == "cat\ndog\n"
    assert (output / "rejected.jsonl").read_text() == ""
    assert manifest["splits"]["train"]["classes"] == {"cat": 6, "dog": 6}
    assert manifest["labels"] == "text"


def test_the_same_dataset_again_is_left_alone(published: ConvertConfig, output: Path) -> None:
    before = snapshot(output)
    result = convert(published)
    assert snapshot(output) == before
    assert not (output / ".staging/outcome.json").exists()
    assert "shards_written" not in counters(result)


def outcome(output: Path) -> dict[str, Any]:
    return dict(json.loads((output / ".staging/outcome.json").read_text()))


@pytest.mark.parametrize("change", rest_slow(["changed", "added", "removed"]))
def test_other_inputs_leave_the_dataset_alone(
    published: ConvertConfig, output: Path, tmp_path: Path, change: str
) -> None:
    before = snapshot(output)
    image = tmp_path / "images" / NAMES[0]
    match change:
        case "changed":
            data = bytearray(image.read_bytes())
            data[11] ^= 1  # of the JFIF header: it shows no pixel
            image.write_bytes(data)
        case "added":
            image.with_name("new.jpg").write_bytes(image.read_bytes())
        case "removed":
            image.unlink()
    with pytest.raises(NotPublishedError, match="holds a dataset of other inputs"):
        convert(published)
    assert outcome(output)["status"] == "inputs_differ"
    assert snapshot(output) == before


@pytest.mark.usefixtures("published")
def test_a_former_dataset_is_replaced(output: Path, tmp_path: Path) -> None:
    (output / "notes.txt").write_text("not ours")
    three = make_config(tmp_path / "images", output, num_shards=3, overwrite=True)
    convert(three)
    assert sorted(path.name for path in output.glob("*.tfrecord")) == [
        f"train-0000{number}-of-00003.tfrecord" for number in range(3)
    ]
    assert (output / "notes.txt").exists()
    assert manifest_of(output)["ledger"]["records_written"] == 12
    assert len(manifest_shards(manifest_of(output))) == 3


@contextlib.contextmanager
def failing(monkeypatch: pytest.MonkeyPatch, name: str) -> Iterator[list[str]]:
    """Makes every rename to `name` fail; gives the targets of all that were tried."""
    targets: list[str] = []
    rename = LocalStorage.rename

    def maybe_fail(storage: LocalStorage, source: str, target: str, **options: bool) -> None:
        targets.append(os.path.basename(target))
        if targets[-1] == name:
            raise OSError("the bucket is gone")
        rename(storage, source, target, **options)

    with monkeypatch.context() as patch:
        patch.setattr(LocalStorage, "rename", maybe_fail)
        yield targets


@pytest.mark.parametrize("name", rest_slow(["manifest.json", SHARDS[1], "labels.txt"]))
def test_without_its_last_step_a_dataset_has_no_manifest(
    config: ConvertConfig, output: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    with failing(monkeypatch, name) as targets:
        with pytest.raises(OSError, match="the bucket is gone"):
            convert(config)
        assert targets[-1] == name
    assert not (output / "manifest.json").exists()
    # A rerun resumes where the first one stopped.
    result = convert(config)
    assert counters(result)["shards_reused"] == 2
    assert "shards_written" not in counters(result)
    assert manifest_of(output)["ledger"]["records_written"] == 12
    assert not (output / ".staging").exists()


def test_the_manifest_comes_last(
    config: ConvertConfig, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with failing(monkeypatch, "nothing") as targets:
        convert(config)
        # The report is made of what is published.
        indexes = [Path(index_file(name)).name for name in SHARDS]
        first = [*SHARDS, *indexes]
        *files_before, last, report = targets[-len(first) - len(SMALL_FILES) :]
        assert files_before[: len(first)] == first
        assert sorted([*files_before[len(first) :], last, report]) == SMALL_FILES
        assert (last, report) == ("manifest.json", "report.html")


@pytest.mark.usefixtures("published")
def test_a_former_manifest_goes_first(
    output: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = make_config(tmp_path / "images", output, seed=1, overwrite=True)
    with failing(monkeypatch, SHARDS[0]), pytest.raises(OSError, match="the bucket is gone"):
        convert(other)
    # The former shards are there, and nothing says that they are a dataset.
    assert (output / SHARDS[0]).exists()
    assert not (output / "manifest.json").exists()
    convert(other)
    assert manifest_of(output)["options"]["seed"] == 1


@pytest.mark.parametrize("name", rest_slow(["manifest.json", "features.json"]))
def test_small_files_of_a_former_run_go(
    config: ConvertConfig, output: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    with failing(monkeypatch, name), pytest.raises(OSError, match="the bucket is gone"):
        convert(config)
    convert(changed(config, compression="gzip"))
    convert(changed(config, compression="gzip", output=str(tmp_path / "fresh")))
    assert set(os.listdir(output)) == set(os.listdir(tmp_path / "fresh"))


@pytest.mark.slow
def test_images_of_a_former_run_that_got_their_names_go(
    config: ConvertConfig, output: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = changed(config, files=FileOptions(files="per_image"))
    with failing(monkeypatch, "labels.txt"), pytest.raises(OSError, match="the bucket is gone"):
        convert(config)
    (tmp_path / "images" / NAMES[0]).unlink()
    convert(config)
    found = {path.relative_to(output).as_posix() for path in output.glob("train/*")}
    assert found == {shard["file"] for shard in manifest_shards(manifest_of(output))}


def test_a_rerun_still_knows_the_former_shards(
    published: ConvertConfig, output: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    three = changed(published, num_shards=3)
    remove = LocalStorage.remove

    def fail(storage: LocalStorage, path: str, **_: object) -> None:
        if path.endswith("-of-00002.tfrecord"):
            raise OSError("the bucket is gone")
        remove(storage, path)

    with monkeypatch.context() as patch, pytest.raises(OSError, match="the bucket is gone"):
        patch.setattr(LocalStorage, "remove", fail)
        convert(changed(three, overwrite=True))
    assert not (output / "manifest.json").exists()
    convert(three)
    shards = {f"train-0000{number}-of-00003.tfrecord" for number in range(3)}
    assert set(os.listdir(output)) == {*shards, *SMALL_FILES, "index"}


def totals(*labels: str) -> PlanTotals:
    counted = PlanTotals()
    for number, label in enumerate(labels):
        counted.add(
            PlannedImage(0, str(number), f"{number}.jpg", 1, 0, label, split="train", rows=1)
        )
    return counted


def summary(number: int, records: int, *rejections: Rejection) -> ShardSummary:
    return ShardSummary(
        SHARDS[number], RECIPES[number], records, 9, "00000000", 5, {}, tuple(rejections)
    )


def publish(config: ConvertConfig, listed: int, rows: int) -> list[str]:
    """Publishes two shards of two records, one image rejected in a shard and one in the join."""
    shards = [summary(0, 1), summary(1, 1, REJECTION._replace(reason="unreadable"))]
    counts = [Count("images_found", listed), Count("rows_read", rows)]

    def construct(pipeline: beam.Pipeline) -> dict[str, Any]:
        def create(name: str, elements: list[Any]) -> Any:
            return pipeline | name >> beam.Create(elements)

        target = DatasetTarget(
            config.folder,
            CheckOptions(max_rejected=RejectionLimit.parse("50%")),
            config.dataset,
            converter=None,  # type: ignore[arg-type]
            plan=None,  # type: ignore[arg-type]
        )
        transform = PublishDataset(
            target,
            totals=create("Totals", [totals("cat", "cat", "dog")]),
            rejections=create("Rejections", [REJECTION, ROW]),
            counts=create("Counts", counts),
        )
        return {"outcome": create("Shards", shards) | "Publish" >> transform}

    return collect(construct)["outcome"]


def stage(output: Path) -> None:
    (output / ".staging").mkdir(parents=True)
    for number, name in enumerate(SHARDS):
        (output / ".staging" / f"{name}.{RECIPES[number]}").write_bytes(b"123456789")


def test_a_ledger_that_balances_is_published(config: ConvertConfig, output: Path) -> None:
    stage(output)
    assert publish(config, listed=4, rows=4) == ["published"]
    manifest = manifest_of(output)
    assert manifest["rejected"] == {"no_label": 1, "row_without_image": 1, "unreadable": 1}
    assert (output / "labels.txt").read_text() == "cat\ndog\n"
    lines = [json.loads(line) for line in (output / "rejected.jsonl").read_text().splitlines()]
    # Images by the file they were read from, rows by the CSV's line.
    assert [line["path"] for line in lines] == [
        f"{config.root}/cat/x.jpg",
        f"{config.root}/cat/x.jpg",
        "a.csv:7",
    ]


@pytest.mark.parametrize(("listed", "rows"), rest_slow([(5, 4), (3, 4), (4, 5), (4, 3)]))
def test_a_ledger_that_does_not_is_not(
    config: ConvertConfig, output: Path, listed: int, rows: int
) -> None:
    stage(output)
    with pytest.raises(LedgerError, match="the ledger does not balance"):
        publish(config, listed=listed, rows=rows)
    assert os.listdir(output) == [".staging"]
    assert len([*(output / ".staging").glob("train-*")]) == 2


def test_a_shard_that_is_gone_is_not_published(config: ConvertConfig, output: Path) -> None:
    stage(output)
    (output / ".staging" / f"{SHARDS[1]}.{RECIPES[1]}").unlink()
    with pytest.raises(Exception, match="neither staged nor in place"):
        publish(config, listed=4, rows=4)
    assert not (output / "manifest.json").exists()


def test_a_batch_of_files_that_a_runner_loses_ends_the_run(
    config: ConvertConfig, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(_: beam.Reshuffle, given: beam.PCollection[Any]) -> beam.PCollection[Any]:
        return given | beam.Filter(lambda each: not isinstance(each, FileBatch))

    stage(output)
    monkeypatch.setattr(packing, "runs_in_process", lambda _: False)
    monkeypatch.setattr(beam.Reshuffle, "expand", lose)
    with pytest.raises(Exception, match="0 of 1 batches of files were moved"):
        publish(config, listed=4, rows=4)
    assert not (output / "manifest.json").exists()
