"""Exact duplicates are found alike in one process and on several machines."""

import base64
import hashlib
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.testing.util import assert_that

from tests.marks import cases
from tests.transforms.beam import collect, make_pipeline
from tests.transforms.records.tables import IndexedImage, index_of
from tests.transforms.records.test_stored_images import ROW
from transforms import drop_duplicates, packing
from transforms.core.records import BucketDuplicates, PlannedImage
from transforms.dataset.ledger import ShardSummary
from transforms.drop_duplicates import ChooseImages, DropDuplicates, FindEqualImages
from transforms.records.image_origins import Origins, ReadImage, ShardOrigins
from transforms.records.other_datasets import OtherDataset
from transforms.records.record_index import content_hash
from transforms.records.stored_images import RECORDS, StoredImage, source_side
from transforms.selection.duplicates import (
    find_near,
    fingerprint_batches,
    md5_hash,
    merge_equal,
    part_of,
)
from transforms.storage.local_storage import LocalStorage

FILES = [f"train-{number:05d}-of-00003.tfrecord" for number in range(3)]
IN_FILE = 40


def index(file: str) -> pa.Table:
    """The index of a shard of which half of the images are in every shard."""
    names = [str(number) if number % 2 else f"{file} {number}" for number in range(IN_FILE)]
    contents = [content_hash(name.encode()) for name in names]
    images = [
        IndexedImage(name, name, ["cat"], content, int(content[:16], 16))
        for name, content in zip(names, contents, strict=True)
    ]
    return index_of(images, file)


@pytest.mark.parametrize(("buckets", "in_process"), [(32, True), (256, False)])
def test_equal_images_of_several_shards(buckets: int, in_process: bool, monkeypatch: Any) -> None:
    monkeypatch.setattr(packing, "runs_in_process", lambda _: in_process)

    def check(outputs: list[BucketDuplicates]) -> None:
        equal = merge_equal(each.equal for each in outputs)
        assert equal[:5] == (20, 60, 0, 0, 0)
        assert find_near(outputs, images=120).compared == 120

    with make_pipeline() as pipeline:
        batches = pipeline | "Batches" >> beam.Create(
            [batch for file in FILES for batch in fingerprint_batches(index(file), file, buckets)]
        )
        shards = pipeline | "Shards" >> beam.Create(
            [ShardSummary(file, "", records=IN_FILE) for file in FILES]
        )
        duplicates = batches | "Find" >> FindEqualImages(shards)
        assert_that(duplicates, check)


# The content of each image; the last ones are empty, which are not compared.
CONTENTS = {
    **{number: f"own {number}" for number in range(20)},
    **dict.fromkeys(range(20, 120), "same"),
    **dict.fromkeys((130, 131), "pair"),
    **dict.fromkeys((140, 141), "labels"),
    **dict.fromkeys((150, 151), "part"),
    **dict.fromkeys((160, 161), "gzip"),
    **dict.fromkeys((170, 171), "disk"),
    **dict.fromkeys((180, 181), ""),
}
# A composite object has no MD5, a compressed one no checksum, and a local file is not listed so.
CHECKSUM_CHARACTERS = {151: 8, 160: 0, 161: 0, 170: 0, 171: 0}


def listed(folder: Path) -> Iterator[PlannedImage]:
    """The images as files, and as the listing of a bucket describes them."""
    for number, text in CONTENTS.items():
        content = text.encode()
        parts = (zlib.crc32(content).to_bytes(4, "big"), hashlib.md5(content).digest())
        checksum = "".join(base64.b64encode(part).decode() for part in parts)
        name = f"{number:03}"
        (folder / f"{name}.jpg").write_bytes(content)
        order = number * 0x9E3779B97F4A7C15 % 2**64 - 2**63
        label = "dog" if number == 141 else "cat"
        file = (f"{name}.jpg", len(content), (folder / f"{name}.jpg").stat().st_mtime_ns)
        known = checksum[: CHECKSUM_CHARACTERS.get(number)] or ("-" if "gzip" in text else "")
        yield PlannedImage(order, name, *file, label, split="train", rows=1, checksum=known)


def chosen(
    images: list[PlannedImage], folder: Path | str, sources: Sequence[OtherDataset] = ()
) -> dict[str, list[Any]]:
    """The outputs of the step; groups and counts added up."""
    outputs = collect(
        lambda pipeline: (
            pipeline
            | "Images" >> beam.Create(images).with_output_types(PlannedImage)
            | "Drop" >> DropDuplicates(Origins(str(folder), sources=tuple(sources)), max_bytes=100)
        )._asdict()
    )
    return {
        **outputs,
        "counts": [sum(count.value for count in outputs["counts"])],
        "groups": [merge_equal(each.equal for each in outputs["groups"])],
    }


@pytest.mark.parametrize("lists_checksums", [True, False])
def test_every_runner_drops_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lists_checksums: bool
) -> None:
    monkeypatch.setattr(LocalStorage, "lists_checksums", lists_checksums)
    images = list(listed(tmp_path))
    here = chosen(images, tmp_path)
    assert len(here["images"]) == 20 + 5 + 2
    assert len(here["rejections"]) == 99 + 4 + 2
    assert here["groups"][0][:5] == (6, 110, 0, 1, 103)
    assert here["counts"] == [105]
    monkeypatch.setattr(packing, "runs_in_process", lambda _: False)
    read = []
    monkeypatch.setattr(
        drop_duplicates, "md5_hash", lambda data: read.append(data) or md5_hash(data)
    )
    assert chosen(images, tmp_path) == here
    # Neither objects with an MD5 nor files of their own size.
    assert sorted(read) == [b"disk"] * 2 + [b"gzip"] * 2 + [b"part"]


@pytest.mark.parametrize("in_process", [True, False])
def test_what_is_dropped_is_counted(monkeypatch: pytest.MonkeyPatch, in_process: bool) -> None:
    monkeypatch.setattr(packing, "runs_in_process", lambda _: in_process)
    partners = ("a.png", 1, 2), ("b.png", 3, 4)
    images = [
        PlannedImage(0, key, f"{key}.jpg", 9, 0, "cat", split="train", rows=1, partners=partners)
        for key in "abc"
    ]
    outputs = collect(
        lambda pipeline: (
            pipeline
            | "Images" >> beam.Create([("0" * 32, image) for image in images])
            | "Choose" >> ChooseImages()
        )._asdict()
    )
    assert outputs["images"] == images[:1]
    assert [each.key for each in sorted(outputs["rejections"])] == ["b", "c"]
    counted = Counter[str]()
    for count in outputs["counts"]:
        counted[count.name] += count.value
    assert counted == {"rows_rejected": 2, "partners_rejected": 4}


CHANGED = OtherDataset("out", "", "image/encoded")
FINAL = CHANGED._replace(is_final=True)


def in_record(image: PlannedImage, **more: Any) -> PlannedImage:
    """The image as the record of a dataset."""
    row = {**ROW, "path": image.path, "split": "train", "label": "cat", "label_id": 0, **more}
    side = source_side(0, row, shard_crc32c="00000000", with_values=False, is_final=False)
    return image._replace(checksum="", record=side.record)


@pytest.fixture
def _pair_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each record holds the image of the content `pair`."""

    class PairRecords(ShardOrigins):
        def read(self, image: Any) -> ReadImage:
            if not image.record:
                return super().read(image)
            return ReadImage(b"pair", StoredImage.of(image.record))

    monkeypatch.setattr(drop_duplicates, "ShardOrigins", PairRecords)


@pytest.mark.usefixtures("_pair_records")
@pytest.mark.parametrize(("in_process", "is_record"), [(True, False), (False, True)])
def test_what_has_no_checksum_may_equal_an_object_that_has_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_process: bool, is_record: bool
) -> None:
    """Rows and globs name images of several storages, and no listing has that of a record."""
    monkeypatch.setattr(LocalStorage, "lists_checksums", is_record)
    monkeypatch.setattr(packing, "runs_in_process", lambda _: in_process)
    one, other = (image for image in listed(tmp_path) if image.key in ("130", "131"))
    other = in_record(other) if is_record else other._replace(checksum="")
    outputs = chosen([one, other], tmp_path, [CHANGED] * is_record)
    assert [image.key for image in outputs["images"]] == ["130"]
    assert outputs["counts"] == [1]


IMAGE = PlannedImage(0, "a", "a.jpg", 5, 1, "cat", split="train")


# Also of what is changed again: a dataset changed the original before.
@pytest.mark.parametrize("source", [FINAL, CHANGED])
@pytest.mark.parametrize("has_holdouts", [True, False])
def test_records_are_named_by_that_compared(source: OtherDataset, has_holdouts: bool) -> None:
    image = in_record(IMAGE, content=b"s" * 16, source_content=b"o" * 16)
    holdouts = (OtherDataset("bench", "", records=1),) * has_holdouts
    origins = Origins(RECORDS, sources=(source,))
    name = DropDuplicates(origins, max_bytes=9, held_out=holdouts)._naming()
    assert name is not None
    assert name(image) == ((b"o" * 16).hex(), image)


@cases(
    ([True], [], True),
    ([False], [], False),
    ([True], [True], True),
    ([True], [True, False], False),
    # Only holdouts are compared with originals.
    ([], [False], True),
)
def test_any_image_may_equal_one_whose_size_is_not_known(
    held: list[bool], given: list[bool], is_by_size: bool
) -> None:
    holdouts = tuple(OtherDataset("bench", "", has_sizes=has_sizes) for has_sizes in held)
    sources = tuple(CHANGED._replace(has_sizes=has_sizes) for has_sizes in given)
    origins = Origins("", sources=sources)
    name = DropDuplicates(origins, max_bytes=9, held_out=holdouts)._naming()
    assert (name and name(IMAGE)) == (("5 ", IMAGE) if is_by_size else None)


@pytest.mark.usefixtures("_pair_records")
def test_images_whose_hashes_are_not_known_are_all_compared() -> None:
    one, other, large = (
        in_record(IMAGE._replace(key=key, path=f"{key}.jpg", size=size))
        for key, size in (("a", 5), ("b", 6), ("c", 101))
    )
    found = chosen([other, large, one], RECORDS, [CHANGED._replace(has_hashes=False)])
    assert {each.key for each in found["images"]} == {"a", "c"}
    assert [each.key for each in found["rejections"]] == ["b"]


KEEP = drop_duplicates._keep
SIZES: list[int] = []


def counted(part: tuple[str, Iterable[Any]]) -> Iterator[Any]:
    """The step that keeps one of several images, which also notes how many it gets."""
    judged = list(part[1])
    SIZES.append(len(judged))
    return KEEP((part[0], judged))


def test_no_group_has_all_equal_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor do more than `MAX_IMAGES` names of one content cross a shuffle to be added up."""
    SIZES.clear()
    monkeypatch.setattr(LocalStorage, "lists_checksums", True)
    monkeypatch.setattr(packing, "runs_in_process", lambda _: False)
    monkeypatch.setattr(drop_duplicates, "_keep", counted)
    images = [image for image in listed(tmp_path) if image.key in map("{:03}".format, range(120))]
    assert len(chosen(images, tmp_path)["rejections"]) == 99
    assert sum(SIZES) == 120 + len({part_of(image) for image in images[20:]})
    assert max(SIZES) < 10
