"""`statistics.json`, `--dedupe` and what a run tells of duplicates, on disk and in buckets."""

import gzip
import io
import itertools
import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from tests.hostile.changing import changing
from tests.images import picture, saved, scene
from tests.pipeline.commands import Dataset, check_sound, convert, digests, make_dataset
from tests.servers.gcs import GcsServer
from tests.servers.gcs_requests import parameters_of
from transforms.images.tags import exif_of
from transforms.labels.keys import key_hashes
from transforms.labels.shards import Splits
from transforms.storage.local_storage import LocalStorage

pytestmark = pytest.mark.slow

SPLITS = {"splits": "train=0.6,test=0.4", "num_shards": 2, "label_from": "directory"}
SIZE = (180, 240)
# No key of these is looked at; the splits follow from them.
NAMES = [f"{label}/{number}.jpg" for label in ("cat", "dog") for number in range(8)]


def write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """16 scenes; copies of two, one with another label; a small and a bad copy of a third."""
    folder = tmp_path_factory.mktemp("duplicates")
    for number, name in enumerate(NAMES):
        exif = {"exif": exif_of(6)} if name == "dog/7.jpg" else {}
        write(folder / name, saved(scene(number, *SIZE), "JPEG", quality=92, **exif))
    for number in range(6):
        shutil.copy(folder / "cat/0.jpg", folder / f"cat/0-copy-{number}.jpg")
    shutil.copy(folder / "cat/1.jpg", folder / "dog/1-of-cat.jpg")
    write(folder / "cat/2-small.jpg", saved(scene(2, *SIZE).resize((120, 90)), "JPEG", quality=80))
    write(folder / "dog/2-bad.jpg", saved(scene(2, *SIZE), "JPEG", quality=40))
    return folder


@pytest.fixture(scope="module")
def reported(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    output = tmp_path_factory.mktemp("reported") / "out"
    ran = convert(images=f"{images}/*/*.jpg", output=output, **SPLITS)
    assert ran.code == 0, ran.err
    dataset = Dataset(output)
    found = duplicates_of(dataset)
    exact, near = (found[kind]["across_splits"] for kind in ("exact", "near"))
    notes = ", ".join([*([f"{exact} across splits"] if exact else []), "1 with different labels"])
    line = (
        f"2 groups of exact duplicates ({notes}), 3 pairs of near-duplicates ({near} across splits)"
    )
    assert f"duplicates  {line}" in ran.out.splitlines()
    return dataset


def statistics_of(dataset: Dataset) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((dataset.folder / "statistics.json").read_text("utf-8"))
    return content


def duplicates_of(dataset: Dataset) -> dict[str, Any]:
    duplicates: dict[str, Any] = statistics_of(dataset)["duplicates"]
    return duplicates


def keys(listed: dict[str, Any]) -> set[str]:
    return {image["key"] for image in listed["images"]}


def stored(dataset: Dataset, place: dict[str, Any]) -> bytes:
    """The record at a place that `statistics.json` names."""
    with (dataset.folder / place["file"]).open("rb") as file:
        file.seek(place["offset"])
        assert int.from_bytes(file.read(8), "little") == place["length"]
        file.seek(4, io.SEEK_CUR)
        return file.read(place["length"])


def in_example(dataset: Dataset, place: dict[str, Any], feature: str) -> bytes:
    """A feature of the record at a place that `statistics.json` names."""
    example = tf.train.Example.FromString(stored(dataset, place))
    value: bytes = example.features.feature[feature].bytes_list.value[0]
    return value


def test_equal_and_near_images_are_reported(images: Path, reported: Dataset) -> None:
    exact, near = duplicates_of(reported)["exact"], duplicates_of(reported)["near"]
    assert [keys(group) for group in exact["listed"]] == [
        {"cat/1.jpg", "dog/1-of-cat.jpg"},
        {"cat/0.jpg", *(f"cat/0-copy-{number}.jpg" for number in range(6))},
    ]
    counts = ("groups", "images", "dropped", "conflicts")
    assert [exact[name] for name in counts] == [2, 9, 0, 1]
    assert [group["conflict"] for group in exact["listed"]] == [True, False]
    splits = [{image["split"] for image in group["images"]} for group in exact["listed"]]
    assert exact["across_splits"] == sum(len(names) > 1 for names in splits)
    assert exact["listed"][0]["sha256"] == digests(images)["cat/1.jpg"]
    names = ["cat/2.jpg", "cat/2-small.jpg", "dog/2-bad.jpg"]
    found = [sorted(keys(pair)) for pair in near["listed"]]
    assert sorted(found) == sorted(sorted(pair) for pair in itertools.combinations(names, 2))
    splits = [{image["split"] for image in pair["images"]} for pair in near["listed"]]
    assert near["across_splits"] == sum(len(pair) > 1 for pair in splits) > 0
    assert (near["pairs"], near["compared"]) == (3, len(NAMES) + 9)
    assert statistics_of(reported)["orientations"] == {"6": 1}


def test_off_looks_for_none_and_writes_the_same_shards(
    images: Path, reported: Dataset, tmp_path: Path
) -> None:
    off = make_dataset(tmp_path / "out", images=f"{images}/*/*.jpg", dedupe="off", **SPLITS)
    assert duplicates_of(off) is None
    same = {name: digest for name, digest in digests(off.folder).items() if "tfrecord" in name}
    assert same.items() <= digests(reported.folder).items()
    assert off.manifest["recipe"] == reported.manifest["recipe"]
    assert statistics_of(off)["width"] == statistics_of(reported)["width"]
    # Its options are the same, so the finished dataset is up to date for the other mode, too.
    assert "up to date" in convert(images=f"{images}/*/*.jpg", output=off.folder, **SPLITS).out


DROP = {"dedupe": "drop", "max_rejected": 2, **SPLITS}


@pytest.fixture(scope="module")
def dropped(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    output = tmp_path_factory.mktemp("dropped") / "out"
    return make_dataset(output, images=f"{images}/*/*.jpg", **DROP)


def test_drop_keeps_the_first_key_and_no_conflict(dropped: Dataset) -> None:
    copies = [f"cat/0-copy-{number}.jpg" for number in range(1, 6)] + ["cat/0.jpg"]
    assert {r["key"]: r["reason"] for r in dropped.rejected} == {
        **dict.fromkeys(["cat/1.jpg", "dog/1-of-cat.jpg"], "conflicting_labels"),
        **dict.fromkeys(copies, "duplicate_image"),
    }
    assert dropped.ledger == {"images_matched": 25, "records_written": 17, "images_rejected": 8}
    exact = duplicates_of(dropped)["exact"]
    counts = ("groups", "images", "conflicts", "dropped")
    assert [exact[name] for name in counts] == [2, 9, 1, 6]
    conflict, equal = exact["listed"]
    assert [image["file"] for image in conflict["images"]] == [None, None]
    kept, *others = equal["images"]
    assert kept["key"] == "cat/0-copy-0.jpg"
    assert in_example(dropped, kept, "image/filename") == b"cat/0-copy-0.jpg"
    assert {image["file"] for image in others} == {None}
    check_sound(dropped.folder)


def test_a_kept_image_is_found_in_its_stratified_split(images: Path, tmp_path: Path) -> None:
    flags: dict[str, Any] = {"stratify": "label", "shard_by": "records", "seed": 11, **DROP}
    dataset = make_dataset(tmp_path / "out", images=f"{images}/*/*.jpg", **flags)
    kept = duplicates_of(dataset)["exact"]["listed"][1]["images"][0]
    assert kept["key"] == "cat/0-copy-0.jpg"
    # The hash alone would give the other one.
    by_hash = Splits((("train", 0.6), ("test", 0.4)))
    assert kept["split"] != by_hash.of(key_hashes("cat/0-copy-0.jpg", seed=11)[0])
    assert in_example(dataset, kept, "image/filename") == b"cat/0-copy-0.jpg"


@pytest.mark.parametrize("before", ["report", "off"])
def test_a_run_that_goes_on_tells_the_same(
    before: str, images: Path, reported: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All shards are staged, none is published; `off` has left no fingerprints."""
    output, kept = tmp_path / "out", {}
    original, is_full = LocalStorage.rename, True

    def rename(storage: LocalStorage, source: str, target: str, **options: bool) -> None:
        if is_full and "/.staging/" not in target:
            raise OSError(28, "No space left on device", target)
        if not is_full:
            kept[Path(source).name] = Path(source).stat().st_ino
        original(storage, source, target, **options)

    monkeypatch.setattr(LocalStorage, "rename", rename)
    assert convert(images=f"{images}/*/*.jpg", output=output, dedupe=before, **SPLITS).code == 1
    staged = {path.name: path.stat().st_ino for path in output.glob(".staging/*.tfrecord.*")}
    assert len(staged) == 3 * 4  # and their indexes and sidecars
    is_full = False
    make_dataset(output, images=f"{images}/*/*.jpg", **SPLITS)
    assert digests(output) == digests(reported.folder)
    assert bool(staged.items() & kept.items()) == (before == "report")


@pytest.fixture
def copied(tmp_path: Path) -> dict[str, Any]:
    """The flags that leave out `b.jpg`, a copy of `a.jpg`."""
    for name in ("a", "b"):
        write(tmp_path / "in" / f"{name}.jpg", saved(scene(1, *SIZE), "JPEG"))
    write(tmp_path / "in/c.jpg", saved(scene(2, *SIZE), "JPEG"))
    flags = {"label_from": "none", "dedupe": "drop", "max_rejected": 1}
    return {"images": f"{tmp_path}/in/*.jpg", **flags, "output": tmp_path / "out"}


@pytest.mark.parametrize(
    "change", ["is_rewritten", "vanishes", "becomes_a_fifo", "becomes_a_device"]
)
def test_a_kept_image_that_changes_before_it_is_stored(change: str, copied: dict[str, Any]) -> None:
    with changing("a.jpg", change):
        ran = convert(**copied)
    assert (ran.code, ran.err) == (0, "")
    check_that_nobody_knows_the_kept_image(Dataset(copied["output"]))


def check_that_nobody_knows_the_kept_image(made: Dataset) -> None:
    """It was compared; its copy was left out, and nobody can say its SHA-256 any more."""
    assert {line["key"]: line["reason"] for line in made.rejected} == {
        "a.jpg": "unreadable",
        "b.jpg": "duplicate_image",
    }
    [group] = duplicates_of(made)["exact"]["listed"]
    assert (group["sha256"], keys(group)) == (None, {"a.jpg", "b.jpg"})


# `--dedupe drop` on a bucket: MD5s come with the listing, and objects may vanish.

SEEDS = {"cat/a": 1, "cat/b": 2, "cat/copy": 1, "cat/same": 3, "dog/c": 4, "dog/same": 3}
IMAGES = {
    f"{name}.jpg": saved(picture("RGB", 12, 16, seed=seed), "JPEG") for name, seed in SEEDS.items()
}
FLAGS: dict[str, Any] = {"label_from": "directory", "dedupe": "drop", "max_rejected": 3}
OUTPUT = "gs://datasets/out"


@pytest.fixture
def buckets(gcs: GcsServer) -> GcsServer:
    """`gs://photos/in/<class>/<name>` and an empty `gs://datasets`."""
    gcs.make_bucket("photos")
    gcs.make_bucket("datasets")
    for name, data in IMAGES.items():
        gcs.put("photos", f"in/{name}", data)
    gcs.reset()
    return gcs


def converted(buckets: GcsServer, folder: Path, **flags: Any) -> Dataset:
    """The dataset of the bucket, which `verify` accepts, and a copy of it on disk."""
    ran = convert(images="gs://photos/in/*/*.jpg", output=OUTPUT, **{**FLAGS, **flags})
    assert ran.code == 0, ran.err
    check_sound(OUTPUT)
    for name in buckets.names("datasets"):
        write(folder / name.removeprefix("out/"), buckets.get("datasets", name))
    return Dataset(folder)


def reasons(dataset: Dataset) -> dict[str, tuple[str, str]]:
    """Reason and detail of each rejected image, by its key."""
    return {line["key"]: (line["reason"], line["detail"]) for line in dataset.rejected}


def asked(buckets: GcsServer, start: str) -> list[str]:
    """What was requested of the photos."""
    return [target for _, target in buckets.log() if target.startswith(f"/storage/v1/b/{start}")]


def listed_fields(buckets: GcsServer) -> set[str]:
    """What listings of the images asked for, whose pages have names."""
    found = [parameters_of(target).get("fields", "") for target in asked(buckets, "photos/o?")]
    return {fields for fields in found if "generation" in fields}


def test_the_files_are_those_of_the_same_images_on_disk(buckets: GcsServer, tmp_path: Path) -> None:
    for name, data in IMAGES.items():
        write(tmp_path / "in" / name, data)
    local = make_dataset(tmp_path / "local", images=f"{tmp_path}/in/*/*.jpg", **FLAGS)
    there = converted(buckets, tmp_path / "there")
    assert {key: reason for key, (reason, _) in reasons(there).items()} == {
        "cat/copy.jpg": "duplicate_image",
        "cat/same.jpg": "conflicting_labels",
        "dog/same.jpg": "conflicting_labels",
    }
    for name in [*local.shards(), "statistics.json", "labels.txt"]:
        assert (there.folder / name).read_bytes() == (local.folder / name).read_bytes(), name
    assert (reasons(there), there.ledger) == (reasons(local), local.ledger)


def test_no_image_costs_a_request_for_its_md5(buckets: GcsServer, tmp_path: Path) -> None:
    converted(buckets, tmp_path / "there")
    # Listings give the MD5s, so no image is asked for its metadata.
    assert asked(buckets, "photos/o/in%2F") == []
    assert any("crc32c,md5Hash,contentEncoding" in each for each in listed_fields(buckets))
    # One of each group is read for the SHA-256 that is listed, what was rejected for the report.
    message = ["cat/a.jpg", "cat/same.jpg", "cat/copy.jpg", "cat/same.jpg", "dog/same.jpg"]
    stored = ["cat/a.jpg", "cat/b.jpg", "dog/c.jpg"]
    read = {name: n for name, n in buckets.media_gets().items() if name.startswith("in/")}
    assert read == Counter(f"in/{name}" for name in [*stored, *message])


@pytest.mark.parametrize("is_gone", [False, True])
def test_what_is_stored_compressed_is_read_to_be_compared(
    is_gone: bool, buckets: GcsServer, tmp_path: Path
) -> None:
    """Its MD5 is that of the compressed bytes, which differ by the time in their header.

    An object that is gone before costs no copy.
    """
    for time, name in enumerate(("cat/a.jpg", "cat/copy.jpg")):
        packed = gzip.compress(IMAGES[name], mtime=time)
        buckets.put("photos", f"in/{name}", packed, content_encoding="gzip")
    if is_gone:
        buckets.set_faults([{"method": "GET", "object": "photos/in/cat/a.jpg", "status": 404}])
    dataset = converted(buckets, tmp_path / "there")
    found = reasons(dataset)
    assert found.keys() - {"cat/same.jpg", "dog/same.jpg"} == {
        f"cat/{'a' if is_gone else 'copy'}.jpg"
    }
    if is_gone:
        assert found["cat/a.jpg"] == ("unreadable", "no such object")
    else:
        assert found["cat/copy.jpg"][0] == "duplicate_image"
    assert dataset.ledger == {"images_matched": 6, "records_written": 3, "images_rejected": 3}
    assert duplicates_of(dataset)["exact"]["groups"] == (1 if is_gone else 2)
