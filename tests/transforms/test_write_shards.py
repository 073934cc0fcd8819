"""A shard is written once: whole, the same in any order, and again only if it is damaged."""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import google_crc32c
import pytest

from tests.lazy import lazy_module
from tests.marks import cases
from tests.transforms.core.checked_images import checked
from tests.transforms.shard_writing import NAME, identity, plan, staged, write
from transforms import write_shards
from transforms.convert_images import ImageConverter
from transforms.core.records import PlannedImage
from transforms.core.rejections import Rejection
from transforms.dataset.ledger import ShardSummary
from transforms.dataset.output_names import index_file
from transforms.examples.decoder import decode_example
from transforms.images import guard
from transforms.images.checked_images import CheckedPartner
from transforms.images.guard import DecodingChild
from transforms.images.pixel_options import FROM_HEIC, UNTOUCHED
from transforms.labels.shards import Recipes, shard_recipe
from transforms.records import record_index
from transforms.records.existing_shards import Roots
from transforms.storage.files import ChecksummedFile
from transforms.storage.local_storage import LocalStorage
from transforms.write_shards import ShardCounter, WriteShards

tf = lazy_module("tensorflow")


def texts(path: Path, compression: str = "") -> list[str]:
    records = tf.data.TFRecordDataset(str(path), compression_type=compression)
    return [
        decode_example(record)["image/filename"][0].decode()
        for record in records.as_numpy_iterator()
    ]


@pytest.fixture
def images(tmp_path: Path) -> list[PlannedImage]:
    return plan(tmp_path, ["1.jpg", "2.jpg"])


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "out"


def test_one_shard(tmp_path: Path, output: Path) -> None:
    names = [f"{number}.jpg" for number in range(20)]
    images = plan(tmp_path, names)
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
    staged_names = {name, f"{name}.json", f"{name}.parquet"}
    assert {p.name for p in (output / ".staging").iterdir()} == staged_names


def test_it_is_beams_own_sink() -> None:
    assert issubclass(WriteShards, beam.io.WriteToTFRecord)


@pytest.mark.parametrize("gzip", [False, True])
def test_the_same_bytes_in_any_order_and_company(tmp_path: Path, gzip: bool) -> None:
    """A compressed file has neither its name nor the time of day; one may have no image."""
    images = plan(tmp_path, [f"{number}.jpg" for number in range(9)])
    name = NAME + ".gz" * gzip
    empty = name.replace("train", "test")
    outputs = tmp_path / "one", tmp_path / "two"
    [one] = write(tmp_path, outputs[0], [(name, images)], gzip=gzip)
    written = write(tmp_path, outputs[1], [(empty, []), (name, images[4:] + images[:4])], gzip=gzip)
    assert [(each.file, each.records) for each in written] == [(empty, 0), (name, 9)]
    [(file, path)] = staged(outputs[0]).items()
    data, others = path.read_bytes(), staged(outputs[1])
    assert (one.bytes, one.crc32c) == (len(data), f"{google_crc32c.value(data):08x}")
    assert others[file].read_bytes() == data
    assert data[3:8] == bytes(5) or not gzip
    compression = "GZIP" if gzip else ""
    assert texts(path, compression) == [image.path for image in images]
    assert texts(others[f"{empty}.{written[0].recipe}"], compression) == []


def test_what_could_not_be_read_is_in_the_summary_and_is_tried_again(
    tmp_path: Path, output: Path, images: list[PlannedImage]
) -> None:
    (tmp_path / "1.jpg").rename(tmp_path / "away")
    rejection = Rejection("image", "unreadable", "No such file or directory", "1.jpg", "1.jpg")
    for _ in range(2):  # the second time beside the sidecar
        [summary] = write(tmp_path, output, [(NAME, images)])
        assert summary.rejections == (rejection,)
        assert (summary.records, summary.labels) == (1, {"label 1": 1})
    [path] = staged(output).values()
    assert texts(path) == ["2.jpg"]
    (tmp_path / "away").rename(tmp_path / "1.jpg")
    [summary] = write(tmp_path, output, [(NAME, images)])
    assert (summary.records, summary.rejections) == (2, ())


def test_what_an_attempt_may_have_died_over_is_decoded_by_a_child(
    tmp_path: Path, output: Path, images: list[PlannedImage], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It left no trace but the name of the shard that it began, maybe from another machine."""
    [first] = write(tmp_path, output, [(NAME, images)])
    [path] = staged(output).values()
    begun, sidecar = Path(f"{path}.begun"), Path(f"{path}.json")
    child = DecodingChild()
    monkeypatch.setattr(guard, "decoding_child", lambda: child)
    for is_begun in (False, True):
        sidecar.unlink()
        if is_begun:
            begun.touch()
        assert write(tmp_path, output, [(NAME, images)]) == [first]
        assert (child.started, begun.exists()) == (is_begun, False)
    child.close()
    sidecar.unlink()
    monkeypatch.setattr(write_shards, "index_bytes", None)
    with pytest.raises(TypeError):
        write(tmp_path, output, [(NAME, images)])
    assert begun.exists()


def test_a_finished_shard_is_kept(tmp_path: Path, output: Path, images: list[PlannedImage]) -> None:
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


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[50] ^= 1
    path.write_bytes(data)


def _cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


@cases(("", _flip), ("", _cut), ("", Path.unlink), (".json", _cut), (".parquet", _flip))
def test_a_damaged_shard_is_written_again(
    suffix: str,
    damage: Callable[[Path], None],
    tmp_path: Path,
    output: Path,
    images: list[PlannedImage],
) -> None:
    first = write(tmp_path, output, [(NAME, images)])
    [path] = staged(output).values()
    whole, before = path.read_bytes(), identity(path)
    damage(Path(f"{path}{suffix}"))
    assert write(tmp_path, output, [(NAME, images)]) == first
    assert path.read_bytes() == whole
    assert identity(path) != before


def test_a_shard_with_perceptual_hashes_of_another_version_is_written_again(
    tmp_path: Path, output: Path, images: list[PlannedImage], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(record_index, "HASHES", {})
        [older] = write(tmp_path, output, [(NAME, images)])
    [path] = staged(output).values()
    before = identity(path)
    [summary] = write(tmp_path, output, [(NAME, images)])
    assert (summary.crc32c, identity(path) == before) == (older.crc32c, False)
    assert summary.index_crc32c != older.index_crc32c


@pytest.mark.parametrize("change", [{}, {"version": 1}, {"label": "other"}])
def test_another_recipe_is_another_shard(
    tmp_path: Path, output: Path, images: list[PlannedImage], change: dict[str, Any]
) -> None:
    """Of other files, other labels, or other options; what a killed run left is none."""
    [first] = write(tmp_path, output, [(NAME, images)])
    [former] = staged(output)
    images[1] = images[1]._replace(**change)
    digest = "options" if change else "other options"
    recipe = shard_recipe(digest, NAME, images)
    partial = output / ".staging" / f"{NAME}.{recipe}.0123456789abcdef.partial"
    partial.write_bytes(b"cut")
    [second] = write(tmp_path, output, [(NAME, images)], digest=digest)
    assert second.recipe == recipe != first.recipe
    assert second.records + len(second.rejections) == 2
    assert set(staged(output)) - {partial.name} == {former, f"{NAME}.{recipe}"}


@cases(
    (ChecksummedFile, "write", "the disk is full"),
    (LocalStorage, "rename", "No space left on device"),
    (LocalStorage, "write_whole", "No space left on device"),
)
def test_a_full_disk_ends_the_run(
    owner: type,
    operation: str,
    says: str,
    tmp_path: Path,
    output: Path,
    images: list[PlannedImage],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(owner, operation, fail)
    # Beam's own error for one whose first argument is a number.
    with pytest.raises(RuntimeError, match=says):
        write(tmp_path, output, [(NAME, images)])
    assert NAME not in os.listdir(output)


def shards_of(folder: Path, count: int) -> list[tuple[str, list[PlannedImage]]]:
    """Shards of an image each."""
    images = plan(folder, [f"{number}.jpg" for number in range(count)])
    return [(f"train-{at:05}-of-{count:05}.tfrecord", [each]) for at, each in enumerate(images)]


def before_calls(monkeypatch: Any, owner: Any, name: str, do: Callable[[], object]) -> None:
    """Does something before each call of a function."""
    function = getattr(owner, name)

    def noted(*given: Any) -> Any:
        do()
        return function(*given)

    monkeypatch.setattr(owner, name, noted)


def test_the_next_shard_is_read_while_one_is_finished(
    tmp_path: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which takes as long as many images, and needs no core."""
    done: list[str] = []
    two_are_read, waited = threading.Event(), []

    def read() -> None:
        done.append("read")
        if done.count("read") == 2:
            two_are_read.set()

    before_calls(monkeypatch, ImageConverter, "load", read)
    before_calls(
        monkeypatch, write_shards, "index_bytes", lambda: waited.append(two_are_read.wait(60))
    )
    shards = shards_of(tmp_path, 3)
    written = write(tmp_path, output, shards)
    assert waited == [True] * 3
    assert sorted(summary.file for summary in written) == [name for name, _ in shards]
    assert len(staged(output)) == 3


def test_a_shard_that_fails_waits_for_the_former_one(
    tmp_path: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is written after the run has given its lock back."""
    done: list[str] = []

    def read() -> None:
        done.append("read")
        if done.count("read") == 2:
            raise OSError(5, "Input/output error")

    def finish() -> None:
        time.sleep(0.2)
        done.append("finish")

    before_calls(monkeypatch, ImageConverter, "load", read)
    before_calls(monkeypatch, write_shards, "index_bytes", finish)
    with pytest.raises(RuntimeError, match="Input/output error"):
        write(tmp_path, output, shards_of(tmp_path, 2))
    assert done == ["read", "read", "finish"]


TURNED, HEIC = ("turned", "reencoded"), ("transcoded", FROM_HEIC)


@cases(
    ([UNTOUCHED, UNTOUCHED], (), "unchanged"),
    ([TURNED, UNTOUCHED], (), "changed"),
    ([UNTOUCHED, TURNED], (), "changed"),
    ([HEIC, UNTOUCHED], (), "from HEIC"),
    ([UNTOUCHED], HEIC, "from HEIC"),
    ([HEIC], HEIC, "from HEIC"),
)
def test_one_changed_image_brings_the_versions_of_libraries_into_the_recipe(
    changes: list[tuple[str, ...]], right: tuple[str, ...], recipe: str
) -> None:
    """So does one of the further images, which may have a place, too."""
    partner = CheckedPartner(9, "jpeg", has_place=True, changes=right)
    partners = (CheckedPartner(9, "png"), partner) if right else ()
    images = [checked()._replace(changes=each, partners=partners) for each in changes]
    counter = ShardCounter(NAME, of_images=True)
    assert list(counter.observe(images)) == images
    assert counter.is_changed is any(each != UNTOUCHED for each in changes)
    assert counter.pixels["untouched"] == changes.count(UNTOUCHED)
    assert counter.pixels[FROM_HEIC] == (HEIC in (*changes, right))
    assert counter.recipe(Recipes("unchanged", "changed", "from HEIC")) == recipe
    assert counter.statistics.gps == bool(right)
