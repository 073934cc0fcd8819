"""A dataset appears whole or not at all, and only if its ledger balances."""

import json
import os
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest

from pipeline.resolve.config import ConvertConfig
from tests.marks import rest_slow
from tests.pipeline.commands import SMALL_FILES
from tests.transforms import beam as graphs
from tests.transforms.added import added_to
from tests.transforms.beam import changed, collect, convert, counters, make_config, make_images
from transforms import packing
from transforms.core.records import Count, FileBatch, PlannedImage
from transforms.core.rejections import Rejection, RejectionLimit
from transforms.dataset.dataset_options import FileOptions
from transforms.dataset.ledger import LedgerError, PlanTotals, ShardSummary
from transforms.dataset.manifest import manifest_shards, parse_manifest
from transforms.dataset_files import DatasetTarget
from transforms.images.pixel_options import CheckOptions
from transforms.publish_dataset import PublishDataset
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
    return graphs.convert_images(tmp_path_factory.mktemp("made"), NAMES)


@pytest.fixture
def published(made: Path, tmp_path: Path) -> ConvertConfig:
    """A copy of both."""
    return graphs.copy_converted(made, tmp_path)


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "out"


def manifest_of(output: Path) -> dict[str, Any]:
    return parse_manifest((output / "manifest.json").read_text(), "manifest.json")


def stopped(config: ConvertConfig, name: str, change: str = "rename") -> None:
    """Runs a conversion that fails before a change to the file with this name."""
    original = getattr(LocalStorage, change)

    def maybe_fail(storage: LocalStorage, *paths: str, **options: bool) -> None:
        if paths[-1].endswith(f"/{name}"):
            raise OSError("the bucket is gone")
        original(storage, *paths, **options)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(OSError, match="the bucket is gone"):
        patch.setattr(LocalStorage, change, maybe_fail)
        convert(config)
    assert not {"manifest.json", "report.html"} & {*os.listdir(config.folder.output)}


@pytest.mark.parametrize("name", rest_slow(["manifest.json", SHARDS[1], "labels.txt"]))
def test_a_rerun_resumes_where_it_stopped(config: ConvertConfig, output: Path, name: str) -> None:
    stopped(config, name)
    result = convert(config)
    assert counters(result)["shards_reused"] == 2
    assert "shards_written" not in counters(result)
    assert manifest_of(output)["ledger"]["records_written"] == 12
    assert not (output / ".staging").exists()


@pytest.mark.parametrize("name", rest_slow(["manifest.json", "features.json"]))
def test_small_files_of_a_former_run_go(
    config: ConvertConfig, output: Path, tmp_path: Path, name: str
) -> None:
    stopped(config, name)
    convert(changed(config, compression="gzip"))
    convert(changed(config, compression="gzip", output=str(tmp_path / "fresh")))
    assert set(os.listdir(output)) == set(os.listdir(tmp_path / "fresh"))


@pytest.mark.slow
def test_former_images_with_names_go(config: ConvertConfig, output: Path, tmp_path: Path) -> None:
    config = changed(config, files=FileOptions(files="per_image"))
    stopped(config, "labels.txt")
    (tmp_path / "images" / NAMES[0]).unlink()
    convert(config)
    found = {path.relative_to(output).as_posix() for path in output.glob("train/*")}
    assert found == {shard["file"] for shard in manifest_shards(manifest_of(output))}


def test_former_dataset_is_none_while_replaced(published: ConvertConfig, output: Path) -> None:
    stopped(changed(published, seed=1, overwrite=True), SHARDS[0])
    assert (output / SHARDS[0]).exists()
    three = changed(published, num_shards=3)
    stopped(changed(three, overwrite=True), SHARDS[1], "remove")
    convert(three)
    shards = {f"train-0000{number}-of-00003.tfrecord" for number in range(3)}
    assert set(os.listdir(output)) == {*shards, *SMALL_FILES, "index"}


def summary(number: int, *rejections: Rejection) -> ShardSummary:
    """A shard of a record."""
    return ShardSummary(
        SHARDS[number], RECIPES[number], 1, 9, "00000000", 5, rejections=tuple(rejections)
    )


def publish(config: ConvertConfig, listed: int, rows: int) -> list[str]:
    """Publishes two shards of two records, one image rejected in a shard and one in the join."""
    shards = [summary(0), summary(1, REJECTION._replace(reason="unreadable"))]
    image = PlannedImage(0, "1", "1.jpg", 1, 0, "cat", split="train", rows=1)
    totals = added_to(PlanTotals(), [image, image, image._replace(label="dog")])
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
            totals=create("Totals", [totals]),
            rejections=create("Rejections", [REJECTION, ROW]),
            counts=create("Counts", counts),
        )
        return {"outcome": create("Shards", shards) | "Publish" >> transform}

    return collect(construct)["outcome"]


@pytest.fixture
def staged(output: Path) -> Path:
    """The folder with the two staged shards."""
    (output / ".staging").mkdir(parents=True)
    for name, recipe in zip(SHARDS, RECIPES, strict=True):
        (output / ".staging" / f"{name}.{recipe}").write_bytes(b"123456789")
    return output / ".staging"


@pytest.mark.usefixtures("staged")
def test_a_ledger_that_balances_is_published(config: ConvertConfig, output: Path) -> None:
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
    config: ConvertConfig, staged: Path, listed: int, rows: int
) -> None:
    with pytest.raises(LedgerError, match="the ledger does not balance"):
        publish(config, listed=listed, rows=rows)
    assert os.listdir(staged.parent) == [".staging"]
    assert len([*staged.glob("train-*")]) == 2


def test_a_shard_that_is_gone_is_not_published(config: ConvertConfig, staged: Path) -> None:
    (staged / f"{SHARDS[1]}.{RECIPES[1]}").unlink()
    with pytest.raises(Exception, match="neither staged nor in place"):
        publish(config, listed=4, rows=4)
    assert not (staged.parent / "manifest.json").exists()


@pytest.mark.usefixtures("staged")
def test_a_batch_of_files_that_a_runner_loses_ends_the_run(
    config: ConvertConfig, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(_: beam.Reshuffle, given: beam.PCollection[Any]) -> beam.PCollection[Any]:
        return given | beam.Filter(lambda each: not isinstance(each, FileBatch))

    monkeypatch.setattr(packing, "runs_in_process", lambda _: False)
    monkeypatch.setattr(beam.Reshuffle, "expand", lose)
    with pytest.raises(Exception, match="0 of 1 batches of files were moved"):
        publish(config, listed=4, rows=4)
    assert not (output / "manifest.json").exists()
