"""A shard is written once: whole, the same in any order, and again only if it is damaged."""

from __future__ import annotations

import dataclasses
import os
import threading
import time
from pathlib import Path
from typing import Any

import apache_beam as beam
import google_crc32c
import pytest

from tests.lazy import lazy_module
from tests.pipeline.commands import snapshot
from tests.transforms.shard_writing import NAME, identity, plan, staged, write
from transforms import write_shards
from transforms.convert_images import ImageConverter
from transforms.core.records import PlannedImage
from transforms.core.rejections import Rejection
from transforms.dataset.ledger import Ledger, ShardSummary
from transforms.dataset.manifest import FORMAT_VERSION, to_bytes
from transforms.dataset.output_names import index_file
from transforms.examples.decoder import decode_example
from transforms.labels.shards import shard_recipe
from transforms.records import record_index
from transforms.records.existing_shards import Roots
from transforms.records.record_index import FRAME_BYTES
from transforms.records.written_index import read_written_index
from transforms.storage.files import ChecksummedFile
from transforms.storage.local_storage import LocalStorage
from transforms.write_shards import RecordStream, WriteShards

tf = lazy_module("tensorflow")


def texts(path: Path, compression: str = "") -> list[str]:
    records = tf.data.TFRecordDataset(str(path), compression_type=compression)
    return [
        decode_example(record)["image/filename"][0].decode()
        for record in records.as_numpy_iterator()
    ]


def test_one_shard(tmp_path: Path) -> None:
    names = [f"{number}.jpg" for number in range(20)]
    images = plan(tmp_path, names)
    output = tmp_path / "out"
    [summary] = write(tmp_path, output, [(NAME, images[::-1])])
    recipe = shard_recipe("options", NAME, images)
    [(name, path)] = staged(output).items()
    data = path.read_bytes()
    assert name == f"{NAME}.{recipe}"
    assert texts(path) == names
    assert summary == ShardSummary(
        file=NAME,
        recipe=recipe,
        records=20,
        bytes=len(data),
        crc32c=f"{google_crc32c.value(data):08x}",
        image_bytes=sum(image.size for image in images),
        index_bytes=summary.index_bytes,
        index_crc32c=summary.index_crc32c,
        labels={"label 0": 10, "label 1": 10},
        statistics=summary.statistics,
        roots=Roots().digest,
    )
    assert ShardSummary.from_sidecar(Path(f"{path}.json").read_text()) == summary
    index = read_written_index(str(output), summary)
    assert index is not None and index.column("key").to_pylist() == names
    offsets = index.column("offset").to_pylist()
    for row, offset in zip(index.to_pylist(), offsets[1:] + [len(data)], strict=True):
        end = row["offset"] + FRAME_BYTES + row["length"]
        assert end == offset
        assert f'"{row["key"]}"'.encode()[1:-1] in data[row["offset"] : end]
    staged_names = {name, f"{name}.json", f"{name}.parquet"}
    assert {p.name for p in (output / ".staging").iterdir()} == staged_names


def test_rejected_images_are_kept_in_the_summary(tmp_path: Path) -> None:
    images = plan(tmp_path, ["1.jpg", "2.jpg", "3.jpg"])
    (tmp_path / "2.jpg").unlink()
    for _ in range(2):  # the second time from the sidecar
        [summary] = write(tmp_path, tmp_path / "out", [(NAME, images)])
        assert summary.rejections == (
            Rejection("image", "unreadable", "No such file or directory", "2.jpg", "2.jpg"),
        )
        assert (summary.records, summary.labels) == (2, {"label 0": 2})
    [path] = staged(tmp_path / "out").values()
    assert texts(path) == ["1.jpg", "3.jpg"]


def test_a_finished_shard_is_not_written_again(tmp_path: Path) -> None:
    images = plan(tmp_path, ["1.jpg", "2.jpg"])
    output = tmp_path / "out"
    first = write(tmp_path, output, [(NAME, images)])
    [path] = staged(output).values()
    before = identity(path)
    (tmp_path / "1.jpg").unlink()  # it is not even read
    assert write(tmp_path, output, [(NAME, images)]) == first
    assert identity(path) == before
    # A run that was killed while it published: shard and index have their last names already.
    path.rename(output / NAME)
    (output / "index").mkdir()
    Path(f"{path}.parquet").rename(output / index_file(NAME))
    assert write(tmp_path, output, [(NAME, images)]) == first
    assert identity(output / NAME) == before
    assert staged(output) == {}


def test_a_shard_with_perceptual_hashes_of_another_version_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images, output = plan(tmp_path, ["1.jpg"]), tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(record_index, "HASHES", {})
        [older] = write(tmp_path, output, [(NAME, images)])
    [path] = staged(output).values()
    before = identity(path)
    [summary] = write(tmp_path, output, [(NAME, images)])
    assert (summary.crc32c, identity(path) == before) == (older.crc32c, False)
    assert summary.index_crc32c != older.index_crc32c


def test_what_could_not_be_read_is_tried_again(tmp_path: Path) -> None:
    images = plan(tmp_path, ["1.jpg", "2.jpg"])
    output = tmp_path / "out"
    (tmp_path / "1.jpg").rename(tmp_path / "away")
    [first] = write(tmp_path, output, [(NAME, images)])
    assert [rejection.reason for rejection in first.rejections] == ["unreadable"]
    (tmp_path / "away").rename(tmp_path / "1.jpg")
    [second] = write(tmp_path, output, [(NAME, images)])
    assert (second.records, second.rejections) == (2, ())


DAMAGES = ["flip", "cut", "gone", "no sidecar", "cut sidecar", "no index", "cut index"]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_shard_is_written_again(tmp_path: Path, damage: str) -> None:
    images = plan(tmp_path, ["1.jpg", "2.jpg"])
    output = tmp_path / "out"
    first = write(tmp_path, output, [(NAME, images)])
    [path] = staged(output).values()
    whole = path.read_bytes()
    before = identity(path)
    match damage:
        case "flip":
            path.write_bytes(whole[:50] + bytes([whole[50] ^ 1]) + whole[51:])
        case "cut":
            path.write_bytes(whole[:-1])
        case "gone":
            path.unlink()
        case "no sidecar":
            Path(f"{path}.json").unlink()
        case "cut sidecar":
            os.truncate(f"{path}.json", 20)
        case "no index":
            Path(f"{path}.parquet").unlink()
        case "cut index":
            os.truncate(f"{path}.parquet", 20)
    assert write(tmp_path, output, [(NAME, images)]) == first
    assert path.read_bytes() == whole
    assert identity(path) != before


@pytest.mark.parametrize("change", ["options", "version", "label"])
def test_another_recipe_is_another_shard(tmp_path: Path, change: str) -> None:
    images = plan(tmp_path, ["1.jpg", "2.jpg"])
    output = tmp_path / "out"
    [first] = write(tmp_path, output, [(NAME, images)])
    [former] = staged(output)
    digest = "other options" if change == "options" else "options"
    if change == "version":
        images[1] = images[1]._replace(version=1)
    if change == "label":
        images[1] = images[1]._replace(label="other")
    [second] = write(tmp_path, output, [(NAME, images)], digest=digest)
    assert second.recipe != first.recipe
    assert set(staged(output)) == {former, f"{NAME}.{second.recipe}"}


def test_what_a_killed_run_left_is_not_taken_for_a_shard(tmp_path: Path) -> None:
    images = plan(tmp_path, ["1.jpg", "2.jpg"])
    output = tmp_path / "out"
    recipe = shard_recipe("options", NAME, images)
    (output / ".staging").mkdir(parents=True)
    partial = output / ".staging" / f"{NAME}.{recipe}.0123456789abcdef.partial"
    partial.write_bytes(b"cut")
    [summary] = write(tmp_path, output, [(NAME, images)])
    assert summary.records == 2
    assert texts(output / ".staging" / f"{NAME}.{recipe}") == ["1.jpg", "2.jpg"]


def test_gzip(tmp_path: Path) -> None:
    images = plan(tmp_path, [f"{number}.jpg" for number in range(20)])
    name = f"{NAME}.gz"
    files = []
    for output in (tmp_path / "one", tmp_path / "two"):
        [summary] = write(tmp_path, output, [(name, images)], gzip=True)
        [path] = staged(output).values()
        files.append(path.read_bytes())
        assert summary.bytes == len(files[-1])
        assert summary.crc32c == f"{google_crc32c.value(files[-1]):08x}"
        assert texts(path, "GZIP") == [image.path for image in images]
    assert files[0] == files[1]
    assert files[0][:2] == b"\x1f\x8b"
    assert files[0][3:8] == bytes(5)  # neither a file name nor the time of day


def test_the_same_bytes_in_any_order_and_company(tmp_path: Path) -> None:
    images = plan(tmp_path, [f"{number}.jpg" for number in range(9)])
    other = ("test-00000-of-00001.tfrecord", images[:2])
    write(tmp_path, tmp_path / "one", [(NAME, images)])
    write(tmp_path, tmp_path / "two", [other, (NAME, images[4:] + images[:4])])
    one, two = staged(tmp_path / "one"), staged(tmp_path / "two")
    [name] = one
    assert len(two) == 2
    assert one[name].read_bytes() == two[name].read_bytes()


def test_beside_a_finished_dataset_only_recipes_are_made(tmp_path: Path) -> None:
    images = plan(tmp_path, ["1.jpg"])
    output = tmp_path / "out"
    output.mkdir()
    (output / "manifest.json").write_bytes(to_bytes(manifest_of([])))
    recipe = shard_recipe("options", NAME, images)
    assert write(tmp_path, output, [(NAME, images)]) == [ShardSummary(NAME, recipe)]
    assert os.listdir(output) == ["manifest.json"]
    [summary] = write(tmp_path, output, [(NAME, images)], overwrite=True)
    assert summary.records == 1


def manifest_of(shards: list[dict[str, Any]]) -> dict[str, Any]:
    """What a manifest must have."""
    return {
        "format_version": FORMAT_VERSION,
        **dict.fromkeys(("recipe", "options_digest", "root", "labels"), ""),
        **dict.fromkeys(("options", "inputs", "versions", "rejected", "files"), {}),
        "ledger": {field.name: 0 for field in dataclasses.fields(Ledger)},
        "features": [],
        "splits": {
            "train": {"records": 0, "bytes": 0, "image_bytes": 0, "classes": {}, "shards": shards}
        },
    }


@pytest.mark.parametrize(
    ("differs", "is_known"), [({}, True), ({"crc32c": "00000000"}, False), ({"records": 2}, False)]
)
def test_a_shard_with_other_times_has_its_former_recipe_if_its_bytes_are_the_same(
    differs: dict[str, Any], is_known: bool, tmp_path: Path
) -> None:
    images = plan(tmp_path, ["1.jpg"])
    output = tmp_path / "out"
    [summary] = write(tmp_path, output, [(NAME, images)])
    shard = {"file": NAME, "recipe": "former", "records": 1, "bytes": summary.bytes}
    shard |= {"crc32c": summary.crc32c, **differs}
    (output / "manifest.json").write_bytes(to_bytes(manifest_of([shard])))
    before = snapshot(output)
    [compared] = write(tmp_path, output, [(NAME, images)])
    assert compared == ShardSummary(NAME, "former" if is_known else summary.recipe)
    assert snapshot(output) == before


def test_a_full_disk_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("transforms.write_shards.ChecksummedFile.write", fail)
    # Beam's own error for one whose first argument is a number.
    with pytest.raises(RuntimeError, match="the disk is full"):
        write(tmp_path, tmp_path / "out", [(NAME, plan(tmp_path, ["1.jpg"]))])
    assert all(path.name.endswith(".partial") for path in (tmp_path / "out/.staging").iterdir())


@pytest.mark.parametrize("operation", ["rename", "write_whole"])
def test_a_shard_that_cannot_be_finished_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(LocalStorage, operation, fail)
    with pytest.raises(RuntimeError, match="No space left on device"):
        write(tmp_path, tmp_path / "out", [(NAME, plan(tmp_path, ["1.jpg"]))])


def test_the_next_shard_is_read_while_one_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Syncing takes as long as converting many images, and needs no core."""
    images = plan(tmp_path, ["1.jpg", "2.jpg", "3.jpg"])
    shards = [(f"train-0000{at}-of-00003.tfrecord", [image]) for at, image in enumerate(images)]
    loaded: list[str] = []
    two_are_loaded, waited = threading.Event(), []
    load, finish = ImageConverter.load, write_shards.index_bytes

    def noted(converter: ImageConverter, planned: list[PlannedImage]) -> Any:
        loaded.extend(image.key for image in planned)
        if len(loaded) == 2:
            two_are_loaded.set()
        return load(converter, planned)

    def late(*arguments: Any) -> Any:
        waited.append(two_are_loaded.wait(60))
        return finish(*arguments)

    monkeypatch.setattr(ImageConverter, "load", noted)
    monkeypatch.setattr(write_shards, "index_bytes", late)
    written = write(tmp_path, tmp_path / "out", shards)
    assert waited == [True] * 3
    assert sorted(summary.file for summary in written) == [name for name, _ in shards]
    assert len(staged(tmp_path / "out")) == 3


def test_the_next_shard_is_read_before_one_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise no thread has an image to decode between two shards."""
    images = plan(tmp_path, ["1.jpg", "2.jpg", "3.jpg"])
    shards = [(f"train-0000{at}-of-00003.tfrecord", [image]) for at, image in enumerate(images)]
    done: list[str] = []
    load, close = ImageConverter.load, RecordStream.close

    def noted(converter: ImageConverter, planned: list[PlannedImage]) -> Any:
        done.append("read")
        return load(converter, planned)

    def complete(stream: RecordStream) -> Any:
        done.append("complete")
        return close(stream)

    monkeypatch.setattr(ImageConverter, "load", noted)
    monkeypatch.setattr(RecordStream, "close", complete)
    write(tmp_path, tmp_path / "out", shards)
    assert done == ["read", "read", "complete", "read", "complete", "complete"]


def test_a_shard_that_fails_waits_for_the_former_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is written after the run has given its lock back."""
    images = plan(tmp_path, ["1.jpg", "2.jpg"])
    shards = [(f"train-0000{at}-of-00002.tfrecord", [image]) for at, image in enumerate(images)]
    loaded: list[str] = []
    done: list[str] = []
    load, finish = ImageConverter.load, write_shards.index_bytes

    def second_fails(converter: ImageConverter, planned: list[PlannedImage]) -> Any:
        loaded.append("shard")
        if len(loaded) == 2:
            raise OSError(5, "Input/output error")
        return load(converter, planned)

    def slow(*arguments: Any) -> Any:
        time.sleep(0.2)
        done.append("finished")
        return finish(*arguments)

    monkeypatch.setattr(ImageConverter, "load", second_fails)
    monkeypatch.setattr(write_shards, "index_bytes", slow)
    with pytest.raises(RuntimeError, match="Input/output error"):
        write(tmp_path, tmp_path / "out", shards)
    assert done == ["finished"]


def test_it_is_beams_own_sink() -> None:
    assert issubclass(WriteShards, beam.io.WriteToTFRecord)


def test_checksummed_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with path.open("wb") as opened:
        file = ChecksummedFile(opened)
        assert (file.bytes, file.crc32c) == (0, "00000000")
        for data in (b"abc", b"", bytes(range(256)) * 5000):
            assert file.write(data) == len(data)
        file.flush()
        file.close()
    data = path.read_bytes()
    assert data == b"abc" + bytes(range(256)) * 5000
    assert (file.bytes, file.crc32c) == (len(data), f"{google_crc32c.value(data):08x}")


@pytest.mark.parametrize("gzip", [False, True])
def test_a_planned_shard_without_images_is_an_empty_file(tmp_path: Path, gzip: bool) -> None:
    name = NAME + (".gz" if gzip else "")
    output = tmp_path / "out"
    [image] = plan(tmp_path, ["1.jpg"])
    empty, full = (name.replace("train", "test"), []), (name, [image])
    written = write(tmp_path, output, [empty, full], gzip=gzip)
    assert [(each.file, each.records) for each in written] == [(empty[0], 0), (name, 1)]
    path = staged(output)[f"{written[0].file}.{written[0].recipe}"]
    assert texts(path, "GZIP" if gzip else "") == []
