"""`pipeline.Records`: single records in any order, the same that `load` gives."""

import json
import multiprocessing
import os
import pickle
import shutil
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyarrow import parquet

from pipeline import Records, UsageError, load
from pipeline.errors import DatasetError
from tests.conftest import draw
from tests.lazy import lazy_module
from tests.marks import rest_slow
from tests.pipeline.commands import Dataset, check_ended, make_dataset, run
from tests.pipeline.reusing import edit_index, swapped, with_column
from tests.readers.batch_loader import fetch, stacked
from tests.servers.gcs import GcsServer

grain = lazy_module("grain")

FILENAME = "image/filename"
IMAGE = "image/encoded"
LABEL = "image/class/label"


@pytest.fixture
def slim(datasets: dict[str, Dataset]) -> Path:
    """18 photos, in three shards for training."""
    return datasets["slim"].folder


@pytest.fixture
def copied(slim: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    return Path(shutil.copytree(slim, tmp_path / "out"))


def names(records: Any) -> list[str]:
    return [record[FILENAME].decode() for record in records]


def check_same(record: dict[str, Any], expected: dict[str, Any]) -> None:
    """That two records have the same features, types and values."""
    assert set(record) == set(expected)
    for name, value in expected.items():
        if isinstance(value, bytes):
            assert record[name] == value and type(record[name]) is bytes
        else:
            np.testing.assert_array_equal(record[name], value, name, strict=True)


LAYOUTS = ("slim", "detection", "tutorial", "landmark", "yaml", "unlabelled", "float32", "bfloat16")


@pytest.mark.parametrize("decode", rest_slow([True, False]))
@pytest.mark.parametrize("layout", rest_slow(LAYOUTS))
def test_records_are_those_that_load_gives(
    datasets: dict[str, Dataset], layout: str, decode: bool
) -> None:
    dataset = datasets[layout]
    folder, shards = dataset.folder, len(dataset.manifest["splits"]["train"]["shards"])
    expected = [
        record
        for shard in range(shards)
        for record in load(folder, f"train[{shard}shard]", decode=decode).as_numpy_iterator()
    ]
    records = Records(folder, "train", decode=decode)
    assert len(records) == len(expected) > 1
    for number, wanted in enumerate(expected):
        check_same(records[number], wanted)
    for record, wanted in zip(records, expected, strict=True):
        check_same(record, wanted)
    for record, wanted in zip(records.__getitems__([1, 0]), expected[1::-1], strict=True):
        check_same(record, wanted)


def test_numbers(slim: Path) -> None:
    records = Records(str(slim), "train")
    found = names(records)
    assert records[-1][FILENAME].decode() == found[-1]
    assert records[np.int64(1)][FILENAME].decode() == found[1]
    assert records[np.uint8(1)][FILENAME].decode() == found[1]
    assert names(records.__getitems__(np.array([2, 0]))) == [found[2], found[0]]
    for number in (len(found), -len(found) - 1, 2**70):
        with pytest.raises(IndexError, match=f"there is no record {number}: <Records"):
            _ = records[number]
    for wrong in (1.0, None, b"cat-0", [1]):
        with pytest.raises(TypeError, match="a record has a number or a key, not"):
            _ = records[wrong]  # type: ignore[index]


def test_slices_are_records_that_read_nothing(slim: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = Records(slim, "train")
    found = names(records)
    monkeypatch.setattr(os, "pread", None)
    part = records[1:9:2]
    assert (len(part), len(part[::-1][1:]), len(records[5:5])) == (4, 3, 0)
    monkeypatch.undo()
    assert names(part) == found[1:9:2]
    assert names(part[::-1][1:]) == found[1:9:2][::-1][1:]
    assert part[-1][FILENAME].decode() == found[7]
    with pytest.raises(IndexError):
        _ = part[4]


def test_splits_and_slices_of_them_are_those_of_load(slim: Path) -> None:
    found = names(Records(slim, "train"))
    assert names(Records(slim, "train[3:-2]")) == found[3:-2]
    assert names(Records(slim, "train+test")) == found + names(Records(slim, "test"))
    assert sorted(names(Records(slim, "all"))) == sorted(found + names(Records(slim, "test")))
    with pytest.raises(UsageError, match="there is no split 'nope', only train, test"):
        Records(slim, "nope")
    with pytest.raises(TypeError, match="split is a str"):
        Records(slim, 1)  # type: ignore[arg-type]


def test_keys(slim: Path) -> None:
    records = Records(slim, "train")
    found = names(records)
    for number, key in enumerate(found):
        assert records[key][FILENAME].decode() == key
        assert key in records and f"{key}.jpg" not in records
        assert (key in records[1:]) == (number >= 1)
    first = found[0]
    with pytest.raises(KeyError) as caught:
        _ = records[Path(first).stem]
    meant = f"no record has the key {Path(first).stem!r}; did you mean {first!r}?"
    assert caught.value.args == (meant,)
    with pytest.raises(KeyError) as caught:
        _ = records["quite different"]
    assert caught.value.args == ("no record has the key 'quite different'",)
    with pytest.raises(KeyError, match=f"no record has the key {first!r}"):
        _ = records[1:][first]
    assert 0 not in records


def test_keys_of_a_split_that_is_read_twice(slim: Path) -> None:
    twice = Records(slim, "train+train")
    keys = names(twice)
    half = len(keys) // 2
    for records in (twice[half:], twice[half:][::-1], twice[1 : half + 1]):
        assert [key in records for key in names(records)] == [True] * len(records)
        assert records[keys[0]][FILENAME].decode() == keys[0]


def test_keys_are_found_in_any_normal_form(tmp_path: Path) -> None:
    draw(tmp_path / "caf\xe9.jpg", seed=1)
    flags = {"images": f"{tmp_path}/*.jpg", "label_from": "none"}
    records = Records(make_dataset(tmp_path / "out", **flags).folder, "train")
    assert "cafe\u0301.jpg" in records
    assert records["cafe\u0301.jpg"] == records["caf\xe9.jpg"]
    assert "cafe.jpg" not in records


@pytest.mark.parametrize("decode", [True, False])
def test_a_notebook_shows_pictures_and_texts(decode: bool, slim: Path) -> None:
    records = Records(slim, "train", decode=decode)
    shown = records._repr_html_()
    assert shown.count('<img src="data:image/jpeg;base64,') == min(len(records), 12)
    assert f"filename {names(records)[0]}" in shown and "&lt;Records(" in shown
    assert "text cat" in shown or "text dog" in shown
    assert Records(slim, "train")[:0]._repr_html_().endswith("></div>")


def test_its_name_is_the_same_in_every_process(slim: Path) -> None:
    """Grain compares it when it restores a checkpoint."""
    records = Records(slim, "train", decode=True)
    assert (
        repr(records) == f"<Records({str(slim)!r}, 'train', decode=True): {len(records)} records>"
    )
    assert repr(records[2:4]).endswith(": 2 records, range(2, 4)>")
    assert repr(pickle.loads(pickle.dumps(records))) == repr(records)


@pytest.mark.slow
def test_it_brings_neither_tensorflow_nor_beam(slim: Path) -> None:
    script = """
import sys
from pipeline import Records
records = Records(sys.argv[1], "train", decode=True)
[*names] = (record["image/filename"].decode() for record in records)
assert len(names) == len(records) > 1 and all(name in records for name in names)
print({"tensorflow", "apache_beam"} & set(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", script, str(slim)], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "set()\n", "")


@pytest.mark.slow
def test_spawned_processes_read_batches(slim: Path) -> None:
    """The protocol of `torch.utils.data.DataLoader(records, batch_size=4, num_workers=2)`."""
    records = Records(slim, "train", decode=True)
    next(iter(records))
    order = np.random.default_rng(1).permutation(len(records)).tolist()
    batches = [order[at : at + 4] for at in range(0, len(order), 4)]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, context) as pool:
        futures = [pool.submit(fetch, records, stacked, batch) for batch in batches]
        found = [future.result() for future in futures]
    assert os.getpid() not in {process for process, _ in found}
    for (_, batch), numbers in zip(found, batches, strict=True):
        assert batch[IMAGE].shape == (len(numbers), 12, 16, 3) and batch[IMAGE].dtype == np.uint8
        assert batch[LABEL].dtype == np.int64
        assert batch[FILENAME] == [records[number][FILENAME] for number in numbers]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_grain_shuffles_all_records_and_resumes_exactly(slim: Path) -> None:
    records = Records(slim, "train", decode=True)
    images = grain.MapDataset.source(records).seed(7).shuffle()
    assert sorted(image[FILENAME] for image in images) == sorted(r[FILENAME] for r in records)
    batches = images.map(lambda record: record[LABEL]).repeat(2).batch(4).to_iter_dataset()
    iterator = iter(batches)
    next(iterator)
    state = iterator.get_state()
    rest = [batch.tolist() for batch in iterator]
    again = iter(batches)
    again.set_state(state)
    assert [batch.tolist() for batch in again] == rest


def test_a_bucket_is_read_in_ranges(
    gcs: GcsServer, slim: Path, datasets: dict[str, Dataset]
) -> None:
    gcs.make_bucket("datasets")
    gcs.put_folder("datasets", "photos/", slim)
    gcs.reset()
    records = Records("gs://datasets/photos", "train")
    shards = len(datasets["slim"].manifest["splits"]["train"]["shards"])
    assert gcs.counts() == {"GET media": 1 + shards}
    gcs.reset()
    local = names(Records(slim, "train"))
    assert records[4][FILENAME].decode() == local[4]
    assert gcs.counts() == {"GET media": 1}
    assert names(records.__getitems__([9, 0, 5])) == [local[number] for number in (9, 0, 5)]
    assert gcs.counts() == {"GET media": 4}
    assert names(records) == local
    assert gcs.counts() == {"GET media": 4 + shards}
    assert names(pickle.loads(pickle.dumps(records))) == local


def test_a_shard_of_a_bucket_that_is_gone_or_forbidden(gcs: GcsServer, slim: Path) -> None:
    gcs.make_bucket("datasets")
    gcs.put_folder("datasets", "photos/", slim)
    records = Records("gs://datasets/photos", "train")
    shard = "photos/train-00000-of-00003.tfrecord"
    gcs.set_faults([{"object": f"datasets/{shard}", "kind": "media", "status": 403}])
    for read in (lambda: records[0], lambda: records.__getitems__([0]), lambda: list(records)):
        with pytest.raises(DatasetError) as caught:
            read()
        assert str(caught.value).startswith(f"cannot read gs://datasets/{shard}: no permission: ")
        assert "damaged" not in str(caught.value) and not str(caught.value).endswith(".")
    gcs.set_faults([])
    gcs.delete("datasets", shard)
    problem = f"cannot read gs://datasets/{shard}: no such object. The dataset is damaged, or was"
    with pytest.raises(DatasetError, match=problem):
        _ = records[0]


def test_compressed_shards_are_refused(datasets: dict[str, Dataset]) -> None:
    folder = datasets["gzip"].folder
    with pytest.raises(UsageError, match=f"{folder} has gzip shards, in which no record"):
        Records(folder, "train")


def test_a_dataset_without_an_index_is_refused(copied: Path) -> None:
    path = copied / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["index"].clear()
    path.write_text(json.dumps(manifest))
    with pytest.raises(UsageError, match="has no index of its records.*convert again"):
        Records(copied, "train")


def test_a_folder_without_a_dataset_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no dataset: there is no such folder"):
        Records(tmp_path / "nope", "train")


def test_a_damaged_record_is_one_line(copied: Path) -> None:
    records = Records(copied, "train")
    shard = copied / "train-00000-of-00003.tfrecord"
    data = bytearray(shard.read_bytes())
    data[40] ^= 1
    shard.write_bytes(data)
    problem = (
        f"{shard}: record 0 at byte 0: the checksum of its bytes is wrong. The dataset is damaged, "
        f"or was replaced since it was opened: see `verify {copied}`"
    )
    for read in (lambda: records[0], lambda: records.__getitems__([0]), lambda: list(records)):
        with pytest.raises(DatasetError) as caught:
            read()
        # As a worker process hands it on.
        assert str(pickle.loads(pickle.dumps(caught.value))) == problem
    assert records[1]


@pytest.mark.parametrize("layout", ["slim", "detection", "landmark"])
def test_keys_of_an_edited_index_are_compared(
    datasets: dict[str, Dataset], layout: str, tmp_path: Path
) -> None:
    copied = Dataset(Path(shutil.copytree(datasets[layout].folder, tmp_path / "out")))
    path = copied.folder / edit_index(copied, with_column("key", swapped))
    keys = parquet.read_table(path).column("key").to_pylist()
    records = Records(copied.folder, "all")
    for key in keys[:2]:
        with pytest.raises(
            DatasetError, match=f": its key is '.*', but '{key}' in {path}. The dat"
        ):
            _ = records[key]
    assert all(records[key] for key in keys[2:]) and records[0]
    ran = run("export", copied.folder, "--webdataset", tmp_path / "tar")
    check_ended(ran, 1, "a record is damaged: its key is '")


def test_a_dataset_that_was_replaced_is_one_line(photos: Path, tmp_path: Path) -> None:
    """Its records are in the same places: no checksum tells them apart."""
    flags = {"images": f"{photos}/*/*", "num_shards": 2}
    folder = make_dataset(tmp_path / "out", label_from="directory", **flags).folder
    records = Records(folder, "train")
    label = records[0][LABEL]
    make_dataset(folder, "--overwrite", label_from=r"regex:(?P<label>.-\d)\.jpg", **flags)
    # This file is open.
    assert records[0][LABEL] == label
    problem = "-00001-of-00002.tfrecord: its manifest.json is not the one that was opened. The data"
    with pytest.raises(DatasetError, match=problem):
        _ = records[-1]
    with pytest.raises(DatasetError, match=problem):
        _ = pickle.loads(pickle.dumps(records))[-1]
    assert len([*Records(folder, "train")]) == len(records)


def test_a_dataset_that_was_written_again_is_the_same(photos: Path, tmp_path: Path) -> None:
    flags = {"images": f"{photos}/*/*", "label_from": "directory", "num_shards": 2}
    folder = make_dataset(tmp_path / "out", **flags).folder
    records, expected = Records(folder, "train"), names(Records(folder, "train"))
    shutil.rmtree(folder)
    make_dataset(folder, **flags)
    assert names(records) == expected
    os.utime(folder / "manifest.json", ns=(5, 5))
    assert names(pickle.loads(pickle.dumps(records))) == expected


def test_an_image_that_cannot_be_decoded_is_one_line(photos: Path, tmp_path: Path) -> None:
    data = (photos / "cat" / "cat-0.jpg").read_bytes()
    (tmp_path / "half.jpg").write_bytes(data[: len(data) // 2])
    flags = {"images": f"{tmp_path}/*.jpg", "label_from": "none", "check": "header"}
    records = Records(make_dataset(tmp_path / "out", **flags).folder, "train", decode=True)
    with pytest.raises(DatasetError, match=r"tfrecord: record 0: .*[^.]\. The dataset is damaged"):
        _ = records[0]


@pytest.mark.parametrize("is_missing", [True, False])
def test_a_damaged_or_missing_index_is_one_line(is_missing: bool, copied: Path) -> None:
    path = copied / "index" / "train-00000-of-00003.parquet"
    if is_missing:
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-1])
    problem = "cannot read the index of .*: No such file" if is_missing else f"{path} is damaged"
    with pytest.raises(DatasetError, match=problem):
        Records(copied, "train")
