"""`verify` finds every difference between a folder and its manifest, and names its place."""

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from pipeline import class_names
from pipeline import verify as verify_command
from pipeline.errors import UsageError
from pipeline.open_dataset import open_dataset
from tests.images import picture, saved
from tests.marks import cases, rest_slow
from tests.pipeline.commands import Dataset, make_dataset, run_process, verify
from tests.servers.gcs import GcsServer
from transforms.dataset import record_checks
from transforms.dataset.manifest import manifest_shards, to_bytes
from transforms.dataset.record_checks import RecordVerifier, Verified
from transforms.images.guard import DecoderGuard
from transforms.verify_shards import VerifyShards, read_results, verify_shard

TRAIN, TEST = (
    [f"{split}-0000{n}-of-00002.tfrecord" for n in (0, 1)] for split in ("train", "test")
)
SPLITS = {"splits": "train=0.5,test=0.5", "num_shards": 2}


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six PNGs of each of three classes, 3 pixels wide and 2 high."""
    folder = tmp_path_factory.mktemp("photos")
    for number in range(18):
        path = folder / ("cat", "dog", "fox")[number % 3] / f"{number}.png"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(saved(picture("RGB", 2, 3, seed=number), "PNG"))
    return folder


@pytest.fixture(scope="module")
def made(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of two splits, two shards each."""
    folder = tmp_path_factory.mktemp("verify") / "out"
    return make_dataset(folder, images=f"{photos}/*/*.png", **SPLITS).folder


@pytest.fixture
def dataset(made: Path, tmp_path: Path) -> Dataset:
    """A copy that a test may damage."""
    return Dataset(Path(shutil.copytree(made, tmp_path / "dataset")))


def edit(dataset: Dataset, **changes: object) -> None:
    """Changes the manifest as its program would have written it."""
    data = to_bytes({**dataset.manifest, **changes})
    (dataset.folder / "manifest.json").write_bytes(data)


def test_the_table_has_a_line_for_each_split(dataset: Dataset) -> None:
    ran = verify(dataset.folder)
    assert ran.code == 0, ran.err
    _, *lines, last = (line.split() for line in ran.out.splitlines())
    counts = {name: str(split["records"]) for name, split in dataset.manifest["splits"].items()}
    assert [[*line[:3], line[-1]] for line in lines[:2]] == [
        [name, "2", counts[name], "ok"] for name in ("train", "test")
    ]
    assert (lines[2][:2], lines[2][-1]) == (["other", "files"], "ok")
    assert " ".join(last).endswith("4 shards, 18 records, every image decodes")


@pytest.mark.parametrize("words", [[], ["--full"], ["--fast"]])
def test_each_damage_is_reported_in_its_own_words(dataset: Dataset, words: list[str]) -> None:
    """All of them are found without decoding an image."""
    folder = dataset.folder
    first, second, third, fourth = (folder / name for name in dataset.shards())
    sizes = {shard["file"]: shard["bytes"] for shard in manifest_shards(dataset.manifest)}
    first.unlink()
    second.write_bytes(second.read_bytes()[:-5])
    third.write_bytes(bytes([third.read_bytes()[0] ^ 1]) + third.read_bytes()[1:])
    fourth.write_bytes(fourth.read_bytes() + b"more")
    shutil.copy(third, folder / "backup.tfrecord")
    (folder / "labels.txt").write_text("cat\nwolf\nfox\n")
    (folder / "rejected.jsonl").unlink()
    manifest = json.dumps({**dataset.manifest, "root": "/elsewhere"})
    (folder / "manifest.json").write_text(manifest)
    ran = verify(folder, *words)
    assert ran.code == 1
    said = [line for line in ran.out.splitlines() if ": " in line]
    expected = [
        "manifest.json: was edited since the dataset was written",
        "labels.txt: was changed since the dataset was written",
        "rejected.jsonl: the file is missing",
        "backup.tfrecord: is not a file of this dataset; remove it",
        f"{first.name}: the file is missing",
        f"{second.name}: is truncated: {sizes[second.name] - 5} of {sizes[second.name]} bytes",
        f"{third.name}: its bytes differ: the file's CRC32C is ",
        f"{fourth.name}: is longer than the {sizes[fourth.name]} bytes in the manifest",
    ]
    assert [each for each in expected if not any(line.startswith(each) for line in said)] == []
    assert ran.out.count("2 of 2 damaged") == 2
    assert f"3 of {len(dataset.manifest['files']) + 1} damaged" in ran.out
    assert ran.error().startswith(f"verify: {folder} differs from its manifest: ")


@pytest.mark.parametrize("compression", rest_slow(["none", "gzip"]))
@pytest.mark.parametrize("step", rest_slow([17, 1]))
def test_every_flipped_byte_names_its_shard(
    compression: str, step: int, photos: Path, tmp_path: Path
) -> None:
    """And its record, unless gzip has it decompress to the same records (header, padding bits)."""
    flags = {"images": f"{photos}/cat/*.png", "label_from": "none", "compression": compression}
    dataset = make_dataset(tmp_path / "out", **flags)
    shard = dataset.folder / dataset.shards()[0]
    [listed] = manifest_shards(dataset.manifest)
    data = shard.read_bytes()
    verifier, guard = RecordVerifier.of(open_dataset(str(dataset.folder))), DecoderGuard(10**6)
    for position in range(0, len(data), step):
        flipped = bytearray(data)
        flipped[position] ^= 0x40
        shard.write_bytes(flipped)
        problems = verify_shard(str(dataset.folder), listed, verifier, guard).problems
        found = [str(each) for each in problems]
        assert found and all(shard.name in problem for problem in found), position
        if not re.search(r": record \d+: ", found[0]):
            assert "every record is intact" in found[0], (position, found)
            assert shard.suffix == ".gz" and gzip.decompress(flipped) == gzip.decompress(data)


def second_record(data: bytes) -> bytes:
    """A shard with a flipped bit in its second record."""
    at = 16 + int.from_bytes(data[:8], "little") + 12 + 20
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@cases(
    pytest.param(second_record, "record 1: the checksum of its bytes is wrong", id="flipped"),
    *((lambda data, size=size: data[:size], "records can be read, the manifest says")
      for size in (0, 1, 100)),
    # A few megabytes of gzip can hold hundreds of millions: not all are read.
    pytest.param(
        lambda data: data + data[: int.from_bytes(data[:8], "little") + 16] * 2000,
        "at least {more} records can be read, the manifest says", id="too many",
    ),
)  # fmt: skip
def test_a_shard_with_other_records(
    change: Callable[[bytes], bytes], says: str, dataset: Dataset
) -> None:
    shard = dataset.folder / TRAIN[1]
    shard.write_bytes(change(shard.read_bytes()))
    records = {each["file"]: each["records"] for each in manifest_shards(dataset.manifest)}
    said = [line for line in verify(dataset.folder).out.splitlines() if ": " in line]
    assert any(says.format(more=records[shard.name] + 1000) in line for line in said)
    assert all(line.startswith(shard.name) for line in said)


def test_a_small_file_that_is_listed_with_gigabytes_is_not_read(dataset: Dataset) -> None:
    files = dataset.manifest["files"]
    for name in files:
        os.truncate(dataset.folder / name, 600 << 20)
    edit(dataset, files={name: {**entry, "bytes": 600 << 20} for name, entry in files.items()})
    out = verify(dataset.folder).out
    for name in ("labels.txt", "rejected.jsonl"):
        assert f"\n{name}: cannot be read: it has more" in out


def test_images_in_far_fewer_compressed_bytes_are_not_decoded(photos: Path, tmp_path: Path) -> None:
    """100,000 equal ones in 0.4 MB took 22 s."""
    made = make_dataset(tmp_path, images=f"{photos}/*/*.png", compression="gzip")
    splits = made.manifest["splits"]
    splits["train"]["shards"][0]["records"] = 100_000
    edit(made, splits=splits)
    says = r"manifest.json: lists 100000 images in \d+ bytes: none is decoded"
    assert re.search(says, verify(made.folder).out)


def swapped(features: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Features of which height and width are each other's."""
    other = {"image.height": "image.width", "image.width": "image.height"}
    return [{**each, "source": other.get(each["source"], each["source"])} for each in features]


def with_classes(splits: dict[str, Any], **classes: int) -> dict[str, Any]:
    return splits | {"train": splits["train"] | {"classes": classes}}


EDITS: dict[str, tuple[str, Callable[[Any], Any], str]] = {
    "a ledger that does not balance": (
        *("ledger", lambda ledger: {**ledger, "images_rejected": 1}),
        "manifest.json: the ledger does not balance",
    ),
    "other classes": (
        *("splits", lambda splits: with_classes(splits, cat=9, dog=3)),
        "records of class 'cat', the manifest says 9",
    ),
    "other sources": (
        *("features", swapped),
        "the image's height is 2, the record says 3",
    ),
    "a feature more": (
        *("features", lambda features: features[:-1]),
        "has the feature 'image/filename', which",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EDITS)
def test_a_manifest_that_says_something_else(dataset: Dataset, name: str) -> None:
    part, change, says = EDITS[name]
    edit(dataset, **{part: change(dataset.manifest[part])})
    ran = verify(dataset.folder)
    assert ran.code == 1 and says in ran.out


@pytest.mark.parametrize("name", ["ledger", "features", "splits", "files", "options"])
@pytest.mark.parametrize("value", rest_slow([{}, [1], {"a": {"b": 1}}, None], 2))
def test_a_manifest_that_lost_its_shape(dataset: Dataset, name: str, value: object) -> None:
    text = json.dumps({**dataset.manifest, name: value})
    (dataset.folder / "manifest.json").write_text(text)
    ran = verify(dataset.folder)
    assert ran.code in (1, 2)
    assert "was edited" in ran.out + ran.error()


@pytest.mark.parametrize("damage", ["classes", "bytes"])
def test_several_machines_report_the_same_and_hand_back_no_classes(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    """A worker compares the classes: those of all groups would be gigabytes."""
    if damage == "classes":
        edit(dataset, splits=with_classes(dataset.manifest["splits"], cat=9, dog=2, bird=1))
    else:
        for name in TRAIN:
            os.truncate(dataset.folder / name, 100)
    handed_back: list[Verified] = []

    def read(path: str, splits: Iterable[str]) -> dict[str, Verified]:
        found = read_results(path, splits)
        handed_back.extend(found.values())
        return found

    monkeypatch.setattr("transforms.verify_shards.read_results", read)
    assert re.search(r": [3-9] problems$", verify(dataset.folder).error())
    found = [(each.split, each.shards, each.labels) for each in handed_back]
    assert sorted(found) == [("test", 2, {}), ("train", 2, {})]


def test_the_graph_holds_no_class(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers read labels.txt: the names of a million classes are more than a graph can hold."""
    verifiers: list[RecordVerifier] = []

    def made(output: str, verifier: RecordVerifier, **options: Any) -> VerifyShards:
        verifiers.append(verifier)
        return VerifyShards(output, verifier, **options)

    monkeypatch.setattr("transforms.verify_shards.VerifyShards", made)
    (dataset.folder / "labels.txt").write_text("car\ndog\nfox\n")
    assert "label 0 is 'car' in labels.txt, but not here" in verify(dataset.folder).out
    assert [verifier.labels for verifier in verifiers] == [{}]


def test_very_many_problems_are_counted(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    (dataset.folder / "labels.txt").write_text("wolf\nwolf\nwolf\n")
    monkeypatch.setattr(verify_command, "_MAX_LINES", 2)
    ran = verify(dataset.folder)
    monkeypatch.setattr(record_checks, "MAX_PROBLEMS", 6)
    assert verify(dataset.folder) == ran
    assert "\n... and 16 more problems in 3 files\ntest-00001-of-00002" in ran.out
    assert "its manifest: 19 problems" in ran.error()


def test_an_image_that_does_not_decode(photos: Path, tmp_path: Path) -> None:
    """A header check lets it in, and `--fast` does not look; `verify` decodes."""
    shutil.copytree(photos / "cat", tmp_path / "in" / "cat")
    broken = tmp_path / "in" / "cat" / "0.png"
    broken.write_bytes(broken.read_bytes()[:-14])
    flags = {"images": f"{tmp_path}/in/*/*.png", "label_from": "directory", "check": "header"}
    out = make_dataset(tmp_path / "out", **flags).folder
    ran = verify(out)
    assert (ran.code, ran.out.count("the image is corrupt_image")) == (1, 1)
    assert ran.error().endswith(": 1 problem")
    assert verify(out, "--fast").code == 0


def test_fast_decodes_nothing(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transforms.dataset.record_checks.check_image", None)
    ran = verify(made, "--fast")
    assert ran.code == 0, ran.err
    assert "18 records, sizes, checksums and counts agree (--fast" in ran.out


@pytest.mark.slow
def test_beam_runs_it_in_other_processes(dataset: Dataset) -> None:
    (dataset.folder / TEST[0]).unlink()
    words = ["--direct_num_workers=2", "--direct_running_mode=multi_processing"]
    ran = run_process("pipeline.verify", str(dataset.folder), *words)
    assert ran.code == 1
    assert f"{TEST[0]}: the file is missing" in ran.out and "1 of 2 damaged" in ran.out


def test_a_remote_runner_needs_a_place_for_what_it_finds(made: Path) -> None:
    ran = verify(made, "--runner=FlinkRunner")
    assert ran.code == 2 and "verify needs --temp_location" in ran.error()


def test_a_label_file_that_is_no_text(dataset: Dataset) -> None:
    (dataset.folder / "labels.txt").write_bytes(b"\xff\xfe")
    ran = verify(dataset.folder)
    assert ran.code == 1 and "labels.txt: was changed since" in ran.out


@pytest.mark.parametrize("words", [["--fast"], []])
def test_a_dataset_in_a_bucket(dataset: Dataset, gcs: GcsServer, words: list[str]) -> None:
    """With --fast, no shard is downloaded."""
    cut, other, gone = TRAIN[0], TRAIN[1], TEST[1]
    data = {name: (dataset.folder / name).read_bytes() for name in (cut, other)}
    (dataset.folder / cut).write_bytes(data[cut][:-5])
    (dataset.folder / other).write_bytes(data[other][::-1])
    (dataset.folder / gone).unlink()
    gcs.make_bucket("datasets")
    gcs.put_folder("datasets", "out/", dataset.folder)
    gcs.reset()
    ran = verify("gs://datasets/out", *words)
    assert ran.code == 1
    assert f"\n{cut}: is truncated: {len(data[cut]) - 5} of {len(data[cut])} bytes are" in ran.out
    assert f"\n{other}: its bytes differ: " in ran.out and f"\n{gone}: the file is miss" in ran.out
    assert "2 of 2 damaged" in ran.out and "1 of 2 damaged" in ran.out
    assert ran.error().startswith("verify: gs://datasets/out differs from its manifest: ")
    read = [name for name in gcs.media_gets() if name.endswith(".tfrecord")]
    assert bool(read) == (not words)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["verify", "show"])
def test_start_up_brings_neither_tensorflow_nor_the_cloud(made: Path, command: str) -> None:
    """They would be most of the time that a small dataset takes."""
    code = (
        f"import sys; from pipeline.{command} import main; main([{str(made)!r}])\n"
        "print({'tensorflow', 'pandas', 'google.cloud.storage'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "set()"


@pytest.mark.parametrize("words", [[], ["--fast"]])
def test_a_folder_that_is_a_link_is_reported(dataset: Dataset, words: list[str]) -> None:
    """`convert --overwrite` refuses it, since it would replace files elsewhere."""
    index = dataset.folder / "index"
    index.rename(dataset.folder.with_name("elsewhere"))
    index.symlink_to(dataset.folder.with_name("elsewhere"))
    ran = verify(dataset.folder, *words)
    assert ran.code == 1
    assert f"{index} is a link: it must be a real folder; remove it" in ran.out + ran.err


def test_classes_of_a_dataset_without_their_file(dataset: Dataset) -> None:
    assert class_names(dataset.folder) == {0: "cat", 1: "dog", 2: "fox"}
    (dataset.folder / "labels.txt").unlink()
    with pytest.raises(UsageError, match=r"there is no .*labels.txt: the dataset is damaged"):
        class_names(dataset.folder)
