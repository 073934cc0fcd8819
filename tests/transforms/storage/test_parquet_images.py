"""Where images are in Parquet files of many writers, and files that no writer made."""

import functools
import itertools
import os
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.images.packed import write_parquet
from tests.transforms.records.tables import with_footer
from transforms.core.messages import LabelsError, MemberError
from transforms.core.records import NameRange
from transforms.storage import parquet_images
from transforms.storage.files import storage_of
from transforms.storage.interface import FoundFile

# Around the 64 kB that Snappy compresses alone; half of each image does not shrink.
SIZES = (0, 1, 5, 299, 60_000, 65_531, 65_536, 70_001, 200_000)
NOISE = np.random.default_rng(1).bytes(200_000)
IMAGES: list[bytes | None] = [NOISE[: n // 2] + bytes(n - n // 2) for n in SIZES * 4]
# One is missing, and one is there twice.
IMAGES[3], IMAGES[5] = None, IMAGES[6]


def write(path: Path, images: list[bytes | None], **options: Any) -> str:
    named = {f"d/{number}.jpg": data for number, data in enumerate(images)}
    write_parquet(path, named, row_group_size=10, **options)
    return f"{path}!/**"


def listed(pattern: str) -> list[FoundFile]:
    found = storage_of(pattern).list_range(NameRange(pattern), 0)
    return [each for each in found if isinstance(each, FoundFile)]


def read(file: FoundFile) -> bytes:
    storage = storage_of(file.uri)
    return storage.read_listed(file.uri, size=file.size, version=file.version, max_bytes=1 << 20)


WRITERS: dict[str, dict[str, Any]] = {
    "default": {},
    "without dictionary": {"use_dictionary": False},
    "small pages": {"data_page_size": 1000, "write_batch_size": 3},
    "small pages of indices": {"data_page_size": 1, "write_batch_size": 1},
    "uncompressed": {"compression": "none"},
    "as datasets": {"use_content_defined_chunking": True, "write_page_index": True},
    "checksums": {"write_page_checksum": True},
}


@pytest.mark.parametrize("writer", WRITERS)
def test_each_image_is_found(tmp_path: Path, writer: str) -> None:
    pattern = write(tmp_path / "a.parquet", IMAGES, **WRITERS[writer])
    found = listed(pattern)
    assert [file.uri.partition("!/")[2] for file in found] == [
        f"d/{number}.jpg" for number in range(len(IMAGES))
    ]
    assert [None if file.problem else read(file) for file in found] == IMAGES
    assert found[3].problem == "its image is null"


def test_one_binary_column_of_any_name_is_enough(tmp_path: Path) -> None:
    pq.write_table(pa.table({"payload": IMAGES[6:9]}), tmp_path / "a.parquet")
    found = listed(f"{tmp_path}/a.parquet!/**")
    assert [read(file) for file in found] == IMAGES[6:9]
    assert [file.uri.partition("!/")[2] for file in found] == ["a-0", "a-1", "a-2"]


def test_an_image_is_one_request_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty one is none, nor are those before it in a block of icons."""
    found = listed(write(tmp_path / "a.parquet", IMAGES))
    asked: list[int] = []
    original = parquet_images.read_parquet_image

    counting = functools.cache(
        lambda given: lambda *part: asked.append(part[1]) or bytes(given(*part))
    )
    monkeypatch.setitem(
        storage_of(found[0].uri).read_listed.__globals__["_READERS"],
        "parquet",
        lambda given, place, size: original(counting(given), place, size),
    )
    for at in (0, 4, 1, 2, 7, 8):
        assert read(found[at]) == IMAGES[at]
    assert len(asked) == 3
    assert asked[1] < asked[2] <= (SIZES[8] + 2 * 65_536) * 7 / 6


def test_workers_share_row_groups(tmp_path: Path) -> None:
    for name in "ab":
        write(tmp_path / f"{name}.parquet", IMAGES)
    pattern = f"{tmp_path}/*.parquet!/**"
    storage = storage_of(pattern)
    files = [*storage.list_range(NameRange(pattern), 9)]
    assert {part.start for part in files} == {f"{tmp_path}/a.parquet", f"{tmp_path}/b.parquet"}
    groups = [*itertools.chain.from_iterable(storage.list_range(part, 9) for part in files)]
    assert len(groups) == 8
    found = itertools.chain.from_iterable(storage.list_range(part, 9) for part in groups)
    assert [*found] == listed(pattern)


def test_the_launcher_reads_no_image(tmp_path: Path) -> None:
    pattern = write(tmp_path / "a.parquet", IMAGES)
    first = next(storage_of(pattern).list_files(pattern))
    assert (first.uri, first.version >> 11) == (f"{tmp_path}/a.parquet!/d/0.jpg", 0)
    assert first.size == pytest.approx(sum(map(len, filter(None, IMAGES[:10]))) / 10, rel=0.5)


def test_an_image_that_is_overwritten_is_no_other(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    found = listed(write(path, IMAGES))
    data = bytearray(path.read_bytes())
    data[found[8].version >> 28] ^= 255
    stamp = path.stat()
    path.write_bytes(data)
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    with pytest.raises(MemberError, match="its file is "):
        read(found[8])


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "codec": ({"compression": "zstd"}, "it is compressed by ZSTD: write it with Snappy"),
    "version 2": ({"data_page_version": "2.0"}, "write data pages of version 1"),
    "encoding": ({"use_dictionary": False, "column_encoding": {"image.bytes": "DELTA_BYTE_ARRAY"}},
        "its images have the encoding 7: write them as PLAIN"),
    "nested": ({"columns": {"image": pa.array([[{"bytes": b"1", "path": "a"}]])}},
        "no single column of images"),
    "no image": ({"columns": {"image": pa.array([1])}}, "no single column of images"),
    "two columns": ({"columns": dict(image=pa.array([1]), a=pa.array([b"1"]), b=pa.array([b"1"]))},
        "no single column of images"),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD)
def test_what_is_not_read_is_one_line(tmp_path: Path, kind: str) -> None:
    options, says = BAD[kind]
    write_parquet(tmp_path / "a.parquet", {"1.jpg": NOISE[:99]}, **options)
    with pytest.raises(LabelsError, match=says) as raised:
        listed(f"{tmp_path}/a.parquet!/**")
    assert str(raised.value).startswith(f"{tmp_path}/a.parquet ")
    assert "\n" not in str(raised.value)


def test_a_page_above_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pattern = write(tmp_path / "a.parquet", IMAGES, compression="none")
    monkeypatch.setattr(parquet_images, "_MOST_PAGE", 200_000)
    with pytest.raises(LabelsError, match="of at most 200000 bytes, by fewer rows in a row group"):
        listed(pattern)


def test_damage_is_one_line(tmp_path: Path) -> None:
    """At any byte: the file is refused, some image is rejected, or it says what it said."""
    path, rng = tmp_path / "a.parquet", np.random.default_rng(3)
    images: list[bytes | None] = [NOISE[:200], NOISE[:70_000], None, NOISE[:300]]
    pattern = write(path, images)
    whole = path.read_bytes()
    # What is not an image, mostly.
    places = [*range(40), *range(len(whole) - 900, len(whole)), *rng.integers(0, len(whole), 50)]
    outcomes = set()
    for at in rng.permutation(places)[:120]:
        changed = bytearray(whole)
        changed[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(changed if rng.integers(9) else whole[:at])
        try:
            found = listed(pattern)
        except LabelsError as error:
            assert "\n" not in str(error)
            outcomes.add("refused")
            continue
        for file in found:
            try:
                outcomes.add(file.problem or len(read(file)) == file.size)
            except MemberError:
                outcomes.add("rejected")
    assert {"refused", True} <= outcomes


def test_rows_that_take_no_bytes_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"image": pa.nulls(21_000, pa.binary())}), path)
    with pytest.raises(LabelsError, match="has 21000 rows, more than 200"):
        listed(f"{path}!/**")
    for name in "ab":
        pq.write_table(pa.table({"image": [bytes(20)] * 19_000}), tmp_path / f"{name}.parquet")
    with pytest.raises(LabelsError, match="b.parquet holds more than 200 times its size"):
        listed(f"{tmp_path}/*.parquet!/**")
    rows = pa.table({"image": pa.array([b"ab", b"cd"])})
    pq.write_table(rows, path, use_dictionary=False, data_page_size=1, write_batch_size=1)
    head, count, rest = path.read_bytes().rpartition(b"\x2c\x15\x02")
    path.write_bytes(head + count[:2] + b"\0" + rest)
    with pytest.raises(LabelsError, match="its pages have more rows than its footer says"):
        listed(f"{path}!/**")


@pytest.mark.parametrize("column", ["image", "label"])
def test_row_groups_do_not_share_their_values(tmp_path: Path, column: str) -> None:
    path = tmp_path / "a.parquet"
    rows = pa.table(
        {"image": [b"x", b"y"], "label": [b"x", b"y"], column: [bytes(99999), bytes(9999)]}
    )
    rows = rows.cast(pa.schema({"image": pa.binary(), "label": pa.string()}))
    pq.write_table(rows, path, row_group_size=1, use_dictionary=False, compression="none")
    at, groups = rows.column_names.index(column), map(pq.read_metadata(path).row_group, range(2))
    first, second = (group.column(at) for group in groups)
    names = "data_page_offset", "total_compressed_size"
    edits = {getattr(second, name): getattr(first, name) for name in names}
    path.write_bytes(with_footer(path.read_bytes(), edits))
    with pytest.raises(LabelsError, match="damaged: its row groups overlap"):
        listed(f"{path}!/**")


def test_footers_of_many_row_groups_are_read_a_few_times(tmp_path: Path, monkeypatch: Any) -> None:
    pattern = write(tmp_path / "a.parquet", IMAGES)
    monkeypatch.setattr(parquet_images, "_MOST_FOOTERS", 3000)
    part = NameRange(pattern, f"{tmp_path}/a.parquet")
    ranges = [*storage_of(pattern).list_range(part, 9)]
    assert 1 < len(ranges) < 4
    found = itertools.chain.from_iterable(
        storage_of(pattern).list_range(each, 9) for each in ranges
    )
    assert [*found] == listed(pattern)


def test_a_file_of_kilobytes_does_not_hold_gigabytes(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"image": [bytes(20_000)] * 2000}), path)
    assert path.stat().st_size < 100_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(LabelsError, match="holds more than 200 times its size"):
        listed(f"{path}!/**")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000
