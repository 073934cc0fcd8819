"""`verify` finds every difference between a folder and its manifest, and names its place."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from pipeline import convert, verify
from pipeline.errors import DatasetError, run_command
from pipeline.open_dataset import open_dataset
from pipeline.verify import check_dataset
from tests.marks import rest_slow
from transforms.dataset import record_checks
from transforms.dataset.manifest import crc32c_hex, manifest_shards, to_bytes
from transforms.dataset.record_checks import RecordVerifier, Verified
from transforms.images.guard import DecoderGuard
from transforms.verify_shards import VerifyShards, read_results, verify_shard


def _draw(folder: Path) -> None:
    for number in range(8):
        path = folder / ("cat", "dog")[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (3, 2), (30 * number, 7, 9)).save(path)


@pytest.fixture(scope="module", params=rest_slow(["none", "gzip"]))
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small dataset of two shards."""
    folder = tmp_path_factory.mktemp("verify")
    _draw(folder / "photos")
    flags = ["--label_from", "directory", "--num_shards", "2", "--compression", request.param]
    images = f"{folder}/photos/*/*.png"
    convert.main(["--images", images, "--output", f"{folder}/out", "--progress", "off", *flags])
    return folder / "out"


@pytest.fixture
def dataset(made: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    return Path(shutil.copytree(made, tmp_path / "dataset"))


def _problems(dataset: Path) -> list[str]:
    return [str(problem) for problem in check_dataset(str(dataset), open_dataset(str(dataset)))[0]]


def _edit(dataset: Path, **changes: object) -> None:
    """Changes the manifest as its program would have written it."""
    path = dataset / "manifest.json"
    path.write_bytes(to_bytes({**json.loads(path.read_text()), **changes}))


def test_a_sound_dataset_passes(dataset: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(lambda: verify.main([str(dataset)]), "verify") == 0
    assert "2 shards, 8 records, every image decodes" in capsys.readouterr().out


@pytest.mark.parametrize("step", rest_slow([17, 1]))
def test_every_flipped_byte_names_its_shard(dataset: Path, step: int) -> None:
    """And its record, unless gzip has it decompress to the same records (header, padding bits)."""
    shard = next(iter(sorted(dataset.glob("train-00000*"))))
    data = shard.read_bytes()
    manifest = open_dataset(str(dataset))
    (listed,) = [each for each in manifest_shards(manifest) if each["file"] == shard.name]
    verifier = RecordVerifier.of(manifest).with_labels({0: "cat", 1: "dog"})
    guard = DecoderGuard(10**6)
    for position in range(0, len(data), step):
        flipped = bytearray(data)
        flipped[position] ^= 0x40
        shard.write_bytes(flipped)
        found = [str(each) for each in verify_shard(str(dataset), listed, verifier, guard).problems]
        assert found and all(shard.name in problem for problem in found), position
        if not re.search(r": record \d+: ", found[0]):
            assert "every record is intact" in found[0], (position, found)
            assert shard.suffix == ".gz" and gzip.decompress(flipped) == gzip.decompress(data)


def test_the_damaged_record_is_the_one_named(dataset: Path) -> None:
    shard = next(iter(sorted(dataset.glob("train-00001*"))))
    is_gzip = shard.suffix == ".gz"
    data = bytearray(gzip.decompress(shard.read_bytes()) if is_gzip else shard.read_bytes())
    second = 16 + int.from_bytes(data[:8], "little")
    data[second + 12 + 20] ^= 1
    shard.write_bytes(gzip.compress(data) if is_gzip else data)
    assert f"{shard.name}: record 1: the checksum of its bytes is wrong" in _problems(dataset)[0]


@pytest.mark.parametrize("size", [0, 1, 100])
def test_a_cut_shard(dataset: Path, size: int) -> None:
    shard = next(iter(sorted(dataset.glob("train-00000*"))))
    shard.write_bytes(shard.read_bytes()[:size])
    found = _problems(dataset)
    assert any("records can be read, the manifest says" in problem for problem in found)
    assert all(shard.name in problem for problem in found)


def test_missing_extra_and_edited_files(dataset: Path) -> None:
    shard = next(iter(sorted(dataset.glob("train-00000*"))))
    shutil.copy(shard, dataset / "train-00000-of-00009.tfrecord")
    shard.unlink()
    (dataset / "labels.txt").write_text("cat\nwolf\n")
    found = "\n".join(_problems(dataset))
    assert f"{shard.name}: the file is missing" in found
    assert "train-00000-of-00009.tfrecord: is not a file of this dataset" in found
    assert "labels.txt: was changed" in found
    assert "label 1 is 'wolf' in labels.txt, but not here" in found


def test_of_records_that_are_too_many_not_all_are_read(dataset: Path) -> None:
    """A few megabytes of gzip can hold hundreds of millions."""
    shard = next(iter(sorted(dataset.glob("train-00000*"))))
    data = shard.read_bytes()
    records = {
        each["file"]: each["records"] for each in manifest_shards(open_dataset(str(dataset)))
    }
    shard.write_bytes(data + data[: int.from_bytes(data[:8], "little") + 16] * 2000)
    expected = f"at least {records[shard.name] + 1000} records can be read, the manifest says"
    assert any(expected in problem for problem in _problems(dataset))


def test_a_small_file_that_is_listed_with_gigabytes_is_not_read(dataset: Path) -> None:
    files = open_dataset(str(dataset))["files"]
    listed = {name: {**entry, "bytes": 600 << 20} for name, entry in files.items()}
    for name in listed:
        os.truncate(dataset / name, 600 << 20)
    _edit(dataset, files=listed)
    found = _problems(dataset)
    assert [each for each in found if each.startswith("labels.txt: cannot be read: it has more")]
    assert [each for each in found if each.startswith("rejected.jsonl: cannot be read: it has")]


def test_numbers_of_the_manifest_that_do_not_add_up(dataset: Path) -> None:
    manifest = open_dataset(str(dataset))
    _edit(dataset, ledger={**manifest["ledger"], "images_rejected": 1})
    assert "manifest.json: the ledger does not balance" in _problems(dataset)[0]


def test_classes_that_do_not_add_up(dataset: Path) -> None:
    splits = open_dataset(str(dataset))["splits"]
    splits["train"]["classes"] = {"cat": 5, "dog": 3}
    _edit(dataset, splits=splits)
    assert "has 4 records of class 'cat', the manifest says 5" in _problems(dataset)[0]


@pytest.mark.parametrize("damage", ["classes", "bytes"])
def test_several_machines_report_the_same_and_hand_back_no_classes(
    dataset: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    """A worker compares the classes: those of all groups would be gigabytes."""
    if damage == "classes":
        splits = open_dataset(str(dataset))["splits"]
        splits["train"]["classes"] = {"cat": 5, "dog": 2, "bird": 1}
        _edit(dataset, splits=splits)
    else:
        for shard in dataset.glob("train-0000*"):
            shard.write_bytes(shard.read_bytes()[:100])
    handed_back: list[Verified] = []

    def read(path: str) -> list[Verified]:
        found = read_results(path)
        handed_back.extend(found)
        return found

    monkeypatch.setattr("transforms.verify_shards.read_results", read)
    assert len(_problems(dataset)) >= 3
    assert [(each.split, each.shards, each.labels) for each in handed_back] == [("train", 2, {})]


def test_the_graph_holds_no_class(dataset: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers read labels.txt: the names of a million classes are more than a graph can hold."""
    verifiers: list[RecordVerifier] = []

    def made(output: str, verifier: RecordVerifier, **options: Any) -> VerifyShards:
        verifiers.append(verifier)
        return VerifyShards(output, verifier, **options)

    monkeypatch.setattr("transforms.verify_shards.VerifyShards", made)
    labels = dataset / "labels.txt"
    labels.write_text(labels.read_text().replace("cat", "car"))
    assert "label 0 is 'car' in labels.txt, but not here" in "\n".join(_problems(dataset))
    assert [verifier.labels for verifier in verifiers] == [{}]


def test_very_many_problems_are_counted(
    dataset: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (dataset / "labels.txt").write_text("wolf\nwolf\n")
    outputs = []
    for kept in (1000, 6):
        monkeypatch.setattr(record_checks, "MAX_PROBLEMS", kept)
        monkeypatch.setattr(verify, "_MAX_LINES", 2)
        assert run_command(lambda: verify.main([str(dataset)]), "verify") == 1
        outputs.append(capsys.readouterr())
    assert outputs[0] == outputs[1]
    assert outputs[0].out.splitlines()[-1] == "... and 7 more problems in 2 files"
    assert "its manifest: 9 problems" in outputs[0].err


def test_features_and_sizes_are_compared(dataset: Path) -> None:
    features = open_dataset(str(dataset))["features"]
    swapped = {"image.height": "image.width", "image.width": "image.height"}
    for feature in features:
        feature["source"] = swapped.get(feature["source"], feature["source"])
    _edit(dataset, features=features)
    assert "the image's height is 2, the record says 3" in _problems(dataset)[0]
    _edit(dataset, features=features[:-1])
    assert "has the feature 'image/filename', which" in _problems(dataset)[0]


def test_an_image_that_does_not_decode(tmp_path: Path) -> None:
    """A header check lets it in; `verify` decodes."""
    _draw(tmp_path / "photos")
    broken = tmp_path / "photos" / "cat" / "0.png"
    broken.write_bytes(broken.read_bytes()[:-14])
    images = f"{tmp_path}/photos/*/*.png"
    flags = ["--label_from", "directory", "--check", "header", "--progress", "off"]
    convert.main(["--images", images, "--output", f"{tmp_path}/out", *flags])
    found = _problems(tmp_path / "out")
    assert len(found) == 1 and "the image is corrupt_image" in found[0]
    with pytest.raises(DatasetError, match="1 problem"):
        verify.main([str(tmp_path / "out")])


def test_crc32c_is_castagnoli() -> None:
    assert crc32c_hex(b"123456789") == "e3069283"
