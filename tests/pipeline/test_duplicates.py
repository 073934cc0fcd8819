"""`statistics.json`, `--dedupe` and what a run tells of duplicates, on disk and in buckets."""

from __future__ import annotations

import gzip
import io
import json
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

import transforms.convert_images
from tests.hostile.changing import CHANGES
from tests.images import picture, saved, scene
from tests.pipeline.commands import (
    ROOT,
    Dataset,
    arguments,
    check_sound,
    convert,
    digests,
    make_dataset,
    plan,
)
from tests.servers.gcs import GcsServer
from tests.servers.gcs_requests import parameters_of
from transforms.images.tags import exif_of
from transforms.labels.keys import key_hashes
from transforms.labels.shards import Splits
from transforms.records.image_origins import ReadImage, ShardOrigins
from transforms.storage.local_storage import LocalStorage

# `statistics.json`, `--dedupe` and what a run tells of duplicates, through the whole job.

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
    return make_dataset(output, images=f"{images}/*/*.jpg", **SPLITS)


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


def test_equal_and_near_images_are_reported(images: Path, reported: Dataset) -> None:
    found = duplicates_of(reported)
    exact, near = found["exact"], found["near"]
    assert [keys(group) for group in exact["listed"]] == [
        {"cat/1.jpg", "dog/1-of-cat.jpg"},
        {"cat/0.jpg", *(f"cat/0-copy-{number}.jpg" for number in range(6))},
    ]
    assert (exact["groups"], exact["images"], exact["dropped"]) == (2, 9, 0)
    assert [group["conflict"] for group in exact["listed"]] == [True, False]
    assert exact["conflicts"] == 1
    assert exact["across_splits"] == sum(
        len({image["split"] for image in group["images"]}) > 1 for group in exact["listed"]
    )
    assert exact["listed"][0]["sha256"] == digests(images)["cat/1.jpg"]
    names = ["cat/2.jpg", "cat/2-small.jpg", "dog/2-bad.jpg"]
    pairs = [{names[0], names[1]}, {names[0], names[2]}, {names[1], names[2]}]
    assert sorted(map(sorted, map(keys, near["listed"]))) == sorted(map(sorted, pairs))
    splits = [{image["split"] for image in pair["images"]} for pair in near["listed"]]
    assert near["across_splits"] == sum(len(pair) > 1 for pair in splits) > 0
    assert (near["pairs"], near["compared"]) == (3, len(NAMES) + 9)


def test_places_are_those_of_the_records(images: Path, reported: Dataset) -> None:
    found = statistics_of(reported)
    listed = [
        image
        for kind in ("exact", "near")
        for group in found["duplicates"][kind]["listed"]
        for image in group["images"]
    ]
    assert len(found["samples"]) == 12
    for place in [*found["samples"], *listed]:
        example = tf.train.Example.FromString(stored(reported, place))
        feature = example.features.feature
        assert feature["image/filename"].bytes_list.value[0].decode() == place["key"]
        assert feature["image/class/text"].bytes_list.value[0].decode() == place["class"]
        data = feature["image/encoded"].bytes_list.value[0]
        assert data == (images / place["key"]).read_bytes()


def test_statistics_are_those_of_the_images(images: Path, reported: Dataset) -> None:
    found = statistics_of(reported)
    sizes = [path.stat().st_size for path in images.glob("*/*.jpg")]
    assert found["images"] == len(sizes)
    assert found["formats"] == {"jpeg": len(sizes)}
    assert found["orientations"] == {"6": 1}
    assert (found["width"]["min"], found["width"]["max"]) == (120, 240)
    assert found["bytes"]["sum"] == sum(sizes)
    described = reported.manifest["files"]["statistics.json"]
    assert described["bytes"] == (reported.folder / "statistics.json").stat().st_size


def test_the_summary_has_a_line(images: Path, tmp_path: Path) -> None:
    ran = convert(images=f"{images}/*/*.jpg", output=tmp_path / "out", label_from="directory")
    exact = "2 groups of exact duplicates (1 with different labels)"
    line = f"duplicates  {exact}, 3 pairs of near-duplicates"
    assert line in ran.out.splitlines()
    others = f"{images}/dog/[3-6].jpg"
    fine = convert(images=others, output=tmp_path / "fine", label_from="directory")
    assert fine.code == 0
    assert not any(line.startswith("duplicates") for line in fine.out.splitlines())


@pytest.mark.slow
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
    again = convert(images=f"{images}/*/*.jpg", output=off.folder, **SPLITS)
    assert again.code == 0 and "up to date" in again.out


@pytest.mark.slow
def test_headers_tell_of_equal_images_only(images: Path, tmp_path: Path) -> None:
    made = make_dataset(tmp_path / "out", images=f"{images}/*/*.jpg", check="header", **SPLITS)
    found = duplicates_of(made)
    assert found["exact"]["groups"] == 2
    assert found["near"] == {"pairs": 0, "across_splits": 0, "compared": 0, "listed": []}


DROP = {"dedupe": "drop", "max_rejected": 2, **SPLITS}


@pytest.fixture(scope="module")
def dropped(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    output = tmp_path_factory.mktemp("dropped") / "out"
    return make_dataset(output, images=f"{images}/*/*.jpg", **DROP)


def test_drop_keeps_the_first_key_and_no_conflict(dropped: Dataset) -> None:
    conflicts = [("cat/1.jpg", "conflicting_labels"), ("dog/1-of-cat.jpg", "conflicting_labels")]
    copies = [f"cat/0-copy-{number}.jpg" for number in range(1, 6)] + ["cat/0.jpg"]
    assert sorted((r["key"], r["reason"]) for r in dropped.rejected) == sorted(
        [*conflicts, *((key, "duplicate_image") for key in copies)]
    )
    assert dropped.ledger == {"images_matched": 25, "records_written": 17, "images_rejected": 8}
    exact = duplicates_of(dropped)["exact"]
    assert (exact["groups"], exact["images"], exact["conflicts"], exact["dropped"]) == (2, 9, 1, 6)
    conflict, equal = exact["listed"]
    assert [image["file"] for image in conflict["images"]] == [None, None]
    kept, *others = equal["images"]
    assert kept["key"] == "cat/0-copy-0.jpg"
    example = tf.train.Example.FromString(stored(dropped, kept))
    assert example.features.feature["image/filename"].bytes_list.value[0] == b"cat/0-copy-0.jpg"
    assert {image["file"] for image in others} == {None}
    check_sound(dropped.folder)


@pytest.mark.slow
def test_a_kept_image_is_found_in_its_stratified_split(images: Path, tmp_path: Path) -> None:
    dataset = make_dataset(
        tmp_path / "out",
        images=f"{images}/*/*.jpg",
        stratify="label",
        shard_by="records",
        **DROP,
        seed=11,
    )
    kept = duplicates_of(dataset)["exact"]["listed"][1]["images"][0]
    assert kept["key"] == "cat/0-copy-0.jpg"
    # The hash alone would give the other one.
    assert kept["split"] != Splits((("train", 0.6), ("test", 0.4))).of(
        key_hashes("cat/0-copy-0.jpg", seed=11)[0]
    )
    example = tf.train.Example.FromString(stored(dataset, kept))
    assert example.features.feature["image/filename"].bytes_list.value[0] == b"cat/0-copy-0.jpg"


def test_plan_knows_what_is_dropped(images: Path, tmp_path: Path) -> None:
    ran = plan(images=f"{images}/*/*.jpg", output=tmp_path / "out", **DROP)
    assert ran.code == 0
    assert "images   25 matched = 17 to convert + 8 rejected" in ran.out


@pytest.mark.slow
@pytest.mark.parametrize("dedupe", ["report", "drop"])
def test_several_processes_give_the_same_files(
    dedupe: str, images: Path, reported: Dataset, dropped: Dataset, tmp_path: Path
) -> None:
    flags = {**DROP, "dedupe": dedupe} if dedupe == "drop" else SPLITS
    made = make_dataset(tmp_path / "out", workers=2, images=f"{images}/*/*.jpg", **flags)
    expected = dropped if dedupe == "drop" else reported
    assert digests(made.folder) == digests(expected.folder)


@pytest.mark.slow
@pytest.mark.parametrize("before", ["report", "off"])
def test_a_run_that_goes_on_tells_the_same(
    before: str, images: Path, reported: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All shards are staged, none is published; `off` has left no fingerprints."""
    output = tmp_path / "out"
    original = LocalStorage.rename

    def fail(storage: LocalStorage, source: str, target: str, **options: bool) -> None:
        if "/.staging/" not in target:
            raise OSError(28, "No space left on device", target)
        original(storage, source, target, **options)

    with monkeypatch.context() as patched:
        patched.setattr(LocalStorage, "rename", fail)
        assert convert(images=f"{images}/*/*.jpg", output=output, dedupe=before, **SPLITS).code == 1
    staged = {path.name: path.stat().st_ino for path in output.glob(".staging/*.tfrecord.*")}
    assert len(staged) == 3 * 4  # and their indexes and sidecars
    kept = {}

    def keep(storage: LocalStorage, source: str, target: str, **options: bool) -> None:
        kept[Path(source).name] = Path(source).stat().st_ino
        original(storage, source, target, **options)

    monkeypatch.setattr(LocalStorage, "rename", keep)
    make_dataset(output, images=f"{images}/*/*.jpg", **SPLITS)
    assert digests(output) == digests(reported.folder)
    taken_over = staged.items() & kept.items()
    assert bool(taken_over) == (before == "report")


@pytest.fixture
def copied(tmp_path: Path) -> dict[str, Any]:
    """The flags that leave out `b.jpg`, a copy of `a.jpg`."""
    for name in ("a", "b"):
        write(tmp_path / "in" / f"{name}.jpg", saved(scene(1, *SIZE), "JPEG"))
    write(tmp_path / "in/c.jpg", saved(scene(2, *SIZE), "JPEG"))
    flags = {"label_from": "none", "dedupe": "drop", "max_rejected": 1}
    return {"images": f"{tmp_path}/in/*.jpg", **flags, "output": tmp_path / "out"}


def test_a_kept_image_that_is_rewritten_before_it_is_stored(
    copied: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Changing(ShardOrigins):
        def read(self, image: Any) -> ReadImage:
            if image.path == "a.jpg":
                CHANGES["is_rewritten"](Path(self._origins.root, image.path))
            return super().read(image)

    # Only where shards are written: images are read before to be compared.
    monkeypatch.setattr(transforms.convert_images, "ShardOrigins", Changing)
    assert convert(**copied).code == 0
    check_that_nobody_knows_the_kept_image(Dataset(copied["output"]))


@pytest.mark.slow
@pytest.mark.parametrize(
    "change", ["is_rewritten", "vanishes", "becomes_a_fifo", "becomes_a_device"]
)
def test_a_kept_image_that_changes_before_it_is_stored(change: str, copied: dict[str, Any]) -> None:
    """The process may hang."""
    words = arguments(**copied)
    command = [sys.executable, "-m", "tests.hostile.changing", "in/a.jpg", change, *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    check_that_nobody_knows_the_kept_image(Dataset(copied["output"]))


def check_that_nobody_knows_the_kept_image(made: Dataset) -> None:
    """It was compared; its copy was left out, and nobody can say its SHA-256 any more."""
    assert {line["key"]: line["reason"] for line in made.rejected} == {
        "a.jpg": "unreadable",
        "b.jpg": "duplicate_image",
    }
    [group] = duplicates_of(made)["exact"]["listed"]
    assert (group["sha256"], keys(group)) == (None, {"a.jpg", "b.jpg"})


BOXES = "id,xmin,ymin,xmax,ymax,label\n"


@pytest.mark.slow
def test_detection(images: Path, tmp_path: Path) -> None:
    """Rows of exact duplicates, as sets of classes: two agree; the others' rows are rejected."""
    folder = tmp_path / "in"
    for name in ("a", "b", "c"):
        write(folder / f"{name}.jpg", (images / "cat/3.jpg").read_bytes())
    write(folder / "d.jpg", (images / "cat/4.jpg").read_bytes())
    rows = ["a,0,0,9,9,dog", "a,0,0,5,5,cat", "b,0,0,9,9,cat", "b,1,1,5,5,dog"]
    rows += ["c,0,0,9,9,dog", "c,0,0,5,5,cat", "d,0,0,5,5,cat"]
    (tmp_path / "boxes.csv").write_text(BOXES + "\n".join(rows) + "\n")
    flags = {
        "images": f"{folder}/*.jpg",
        "labels": tmp_path / "boxes.csv",
        "layout": "detection",
        "box_units": "pixel",
    }
    report = make_dataset(tmp_path / "report", **flags)
    exact = duplicates_of(report)["exact"]
    assert (exact["groups"], exact["images"], exact["conflicts"]) == (1, 3, 0)
    classes = {sample["class"] for sample in statistics_of(report)["samples"]}
    assert classes == {"cat", "dog"}
    drop = make_dataset(tmp_path / "drop", dedupe="drop", **flags)
    assert [line["key"] for line in drop.rejected] == ["b", "c"]
    ledger = drop.ledger
    assert (ledger["rows_read"], ledger["rows_used"], ledger["rows_rejected"]) == (7, 3, 4)


@pytest.mark.slow
def test_other_layouts_and_resized_images(images: Path, tmp_path: Path) -> None:
    flags = {"images": f"{images}/*/*.jpg", "layout": "tutorial", **SPLITS}
    small = make_dataset(tmp_path / "small", resize="shorter=64", compression="gzip", **flags)
    found = statistics_of(small)
    assert found["height"]["min"] == found["height"]["max"] == 64
    assert found["duplicates"]["exact"]["groups"] == 2
    assert found["duplicates"]["near"]["pairs"] == 3
    plain = make_dataset(tmp_path / "plain", **flags)
    sample = statistics_of(plain)["samples"][0]
    example = tf.train.Example.FromString(stored(plain, sample))
    data = example.features.feature["image_raw"].bytes_list.value[0]
    assert data == (images / sample["key"]).read_bytes()


@pytest.mark.slow
def test_empty_and_unreadable_images_are_no_duplicates(images: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        write(tmp_path / "in/cat" / f"{name}.jpg", b"")
    write(tmp_path / "in/cat/c.jpg", (images / "cat/3.jpg").read_bytes())
    flags = {"dedupe": "drop", "max_rejected": "100%", "label_from": "directory"}
    made = make_dataset(tmp_path / "out", images=f"{tmp_path}/in/*/*.jpg", **flags)
    assert [line["reason"] for line in made.rejected] == ["empty_file", "empty_file"]


# `--dedupe drop` on a bucket: MD5s come with the listing, and objects may vanish.

SEEDS = {
    "cat/a.jpg": 1,
    "cat/b.jpg": 2,
    "cat/copy.jpg": 1,
    "cat/same.jpg": 3,
    "dog/c.jpg": 4,
    "dog/same.jpg": 3,
}
IMAGES = {name: saved(picture("RGB", 12, 16, seed=seed), "JPEG") for name, seed in SEEDS.items()}
FLAGS: dict[str, Any] = {"label_from": "directory", "dedupe": "drop", "max_rejected": 3}
OUTPUT = "gs://datasets/out"


@pytest.fixture
def buckets(gcs: GcsServer) -> GcsServer:
    """`gs://photos/in/<class>/<name>` and an empty `gs://datasets`."""
    gcs.make_bucket("photos")
    gcs.make_bucket("datasets")
    for name, data in IMAGES.items():
        gcs.put("photos", f"in/{name}", data)
    return gcs


def converted(buckets: GcsServer, folder: Path, **flags: Any) -> Dataset:
    """The dataset of the bucket, which `verify` accepts, and a copy of it on disk."""
    ran = convert(images="gs://photos/in/*/*.jpg", output=OUTPUT, **{**FLAGS, **flags})
    assert ran.code == 0, ran.err
    check_sound(OUTPUT)
    for name in buckets.names("datasets"):
        path = folder / name.removeprefix("out/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(buckets.get("datasets", name))
    return Dataset(folder)


def reasons(dataset: Dataset) -> dict[str, tuple[str, str]]:
    """Reason and detail of each rejected image, by its key."""
    return {line["key"]: (line["reason"], line["detail"]) for line in dataset.rejected}


def equal_images(dataset: Dataset) -> dict[str, Any]:
    """What `statistics.json` says of them."""
    statistics = json.loads((dataset.folder / "statistics.json").read_text("utf-8"))
    found: dict[str, Any] = statistics["duplicates"]["exact"]
    return found


def asked_for(buckets: GcsServer) -> list[str]:
    """The images whose metadata were requested, sorted."""
    start = "/storage/v1/b/photos/o/in%2F"
    targets = [target.partition("?") for _, target in buckets.log() if target.startswith(start)]
    return sorted(path.removeprefix(start).replace("%2F", "/") for path, *_ in targets)


@pytest.mark.slow
def test_the_files_are_those_of_the_same_images_on_disk(buckets: GcsServer, tmp_path: Path) -> None:
    for name, data in IMAGES.items():
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    local = make_dataset(tmp_path / "local", images=f"{tmp_path}/in/*/*.jpg", **FLAGS)
    there = converted(buckets, tmp_path / "there")
    assert {key: reason for key, (reason, _) in reasons(there).items()} == {
        "cat/copy.jpg": "duplicate_image",
        "cat/same.jpg": "conflicting_labels",
        "dog/same.jpg": "conflicting_labels",
    }
    for name in [*local.shards(), "statistics.json", "labels.txt"]:
        assert (there.folder / name).read_bytes() == (local.folder / name).read_bytes(), name
    assert reasons(there) == reasons(local)
    assert there.ledger == local.ledger


def listed_fields(buckets: GcsServer) -> set[str]:
    """What listings of the images asked for, whose pages have names."""
    found = [
        parameters_of(target).get("fields", "")
        for method, target in buckets.log()
        if method == "GET" and target.startswith("/storage/v1/b/photos/o?")
    ]
    return {fields for fields in found if "generation" in fields}


def test_no_image_costs_a_request_for_its_md5(buckets: GcsServer, tmp_path: Path) -> None:
    buckets.reset()
    converted(buckets, tmp_path / "there")
    assert asked_for(buckets) == []
    assert any("crc32c,md5Hash,contentEncoding" in each for each in listed_fields(buckets))
    # One of each group is read for the SHA-256 that is listed, what was rejected for the report.
    message = ["cat/a.jpg", "cat/same.jpg", "cat/copy.jpg", "cat/same.jpg", "dog/same.jpg"]
    stored = ["cat/a.jpg", "cat/b.jpg", "dog/c.jpg"]
    read = {name: n for name, n in buckets.media_gets().items() if name.startswith("in/")}
    assert read == Counter(f"in/{name}" for name in [*stored, *message])


@pytest.mark.slow
def test_what_is_stored_compressed_is_read_to_be_compared(
    buckets: GcsServer, tmp_path: Path
) -> None:
    """Its MD5 is that of the compressed bytes, which differ by the time in their header."""
    for time, name in enumerate(("cat/a.jpg", "cat/copy.jpg")):
        packed = gzip.compress(IMAGES[name], mtime=time)
        buckets.put("photos", f"in/{name}", packed, content_encoding="gzip")
    dataset = converted(buckets, tmp_path / "there")
    assert reasons(dataset)["cat/copy.jpg"][0] == "duplicate_image"


@pytest.mark.slow
def test_a_run_that_drops_nothing_lists_no_checksums(buckets: GcsServer, tmp_path: Path) -> None:
    buckets.reset()
    converted(buckets, tmp_path / "there", dedupe="report")
    assert listed_fields(buckets)
    assert not any("md5Hash" in each for each in listed_fields(buckets))


@pytest.mark.slow
def test_an_object_that_is_gone_before_it_is_read_to_be_compared_costs_no_copy(
    buckets: GcsServer, tmp_path: Path
) -> None:
    for name in ("cat/a.jpg", "cat/copy.jpg"):
        packed = gzip.compress(IMAGES[name], mtime=0)
        buckets.put("photos", f"in/{name}", packed, content_encoding="gzip")
    buckets.set_faults([{"method": "GET", "object": "photos/in/cat/a.jpg", "status": 404}])
    dataset = converted(buckets, tmp_path / "there")
    found = reasons(dataset)
    assert found.pop("cat/a.jpg") == ("unreadable", "no such object")
    assert set(found) == {"cat/same.jpg", "dog/same.jpg"}
    assert dataset.ledger == {"images_matched": 6, "records_written": 3, "images_rejected": 3}
    assert equal_images(dataset)["groups"] == 1
