"""The index of a shard, and how it is compared with its records."""

from __future__ import annotations

import random
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.core.records import PartnerFile, PlannedImage, ShardRow
from transforms.dataset.manifest import crc32c_hex
from transforms.images.check import CheckedImage, CheckedPartner, ImageInfo
from transforms.images.pixel_options import UNTOUCHED, Original
from transforms.records.record_index import (
    COMPARED,
    FRAME_BYTES,
    HASHES,
    LIBRARIES,
    PARTNERS,
    IndexRows,
    RecordIndexError,
    class_lists,
    content_hash,
    index_bytes,
    index_schema,
    read_index,
    row_problems,
    source_contents,
    to_array,
)
from transforms.records.stored_images import read_partner
from transforms.records.written_index import IndexedRows

# The index of a shard comes back as it was written, in the same bytes, and not from damage.

SHARD = "train-00000-of-00002.tfrecord"
STORED, SOURCE = "1" * 32, "2" * 32
NAMES = ("images.right", "mask")
CELLS = '[["a.csv:2",[[3,"cat"],[1,"dog"]],[]],["a.csv:9",[[3,"cat"]],[]]]'


def checked(key: str = "a", cells: str = "", label: str = "cat") -> CheckedImage:
    """An image that is stored as it is, with its fingerprints."""
    image = PlannedImage(7, key, f"cat/{key}.jpg", 90, 10**18, label, 3, cells)
    info, original = ImageInfo("jpeg", 30, 40, 3), Original(30, 40, 1)
    return CheckedImage(
        b"x", info, original, UNTOUCHED, 255, 6, image=image, content=SOURCE, stored_content=SOURCE
    )


def with_partners(key: str = "a", content: str = STORED) -> CheckedImage:
    """An image with a right view and a mask."""
    files = ("right/é.jpg", 70, 9), ("a.png", 60, 8)
    right = CheckedPartner(50, "jpeg", content, has_place=True, changes=("resized", "turned"))
    image = checked(key)
    return image._replace(
        image=image.image._replace(partners=files), partners=(right, CheckedPartner(40, "png"))
    )


def rows_of(*images: CheckedImage) -> IndexRows:
    rows = IndexRows()
    for number, image in enumerate(images):
        rows.add(image)
        rows.lengths.append(100 + number)
    return rows


def test_every_column_of_an_image() -> None:
    changed = checked("b")._replace(
        changes=("resized", "turned"), original=Original(300, 400, 6), stored_content=STORED
    )
    table = rows_of(checked(), changed).table(SHARD, libraries="pillow 12")
    first, second = table.to_pylist()
    assert first == {
        "shard": SHARD,
        "record": 0,
        "offset": 0,
        "length": 100,
        "key": "a",
        "path": "cat/a.jpg",
        "size": 90,
        "version": 10**18,
        "split": "train",
        "label": "cat",
        "label_id": 3,
        "rows": None,
        "content": bytes.fromhex(SOURCE),
        "source_content": None,
        "perceptual_hash": bytes(7) + b"\xff",
        "format": "jpeg",
        "height": 30,
        "width": 40,
        "channels": 3,
        "orientation": 6,
        "gps": 0,
        "changes": None,
        "source_height": None,
        "source_width": None,
    }
    assert second == {
        **first,
        "record": 1,
        "offset": 100 + FRAME_BYTES,
        "length": 101,
        "key": "b",
        "path": "cat/b.jpg",
        "content": bytes.fromhex(STORED),
        "source_content": bytes.fromhex(SOURCE),
        "changes": "resized,turned",
        "source_height": 300,
        "source_width": 400,
    }
    assert source_contents(table) == [bytes.fromhex(SOURCE)] * 2
    assert table.schema.metadata == {LIBRARIES: b"pillow 12", **HASHES}


def test_masks_and_further_images_are_a_list() -> None:
    table = rows_of(with_partners()).table(SHARD, partners=NAMES)
    [row] = table.to_pylist()
    assert [*row][-1] == PARTNERS
    assert row[PARTNERS] == [
        {
            "name": "images.right",
            "path": "right/é.jpg",
            "size": 70,
            "version": 9,
            "length": 50,
            "format": "jpeg",
            "content": bytes.fromhex(STORED),
            "gps": 1,
            "changes": "resized,turned",
        },
        {
            "name": "mask",
            "path": "a.png",
            "size": 60,
            "version": 8,
            "length": 40,
            "format": "png",
            "content": None,
            "gps": 0,
            "changes": None,
        },
    ]
    assert read_partner(row[PARTNERS][0]) == (
        PartnerFile("right/é.jpg", 70, 9),
        with_partners().partners[0],
    )
    # Nothing proves its bytes.
    assert read_partner(row[PARTNERS][1]) is None


def test_several_labels_are_lists_in_the_order_of_the_rows() -> None:
    table = rows_of(checked("a", CELLS, ""), checked("b", '[["a.csv:3",[],[]]]', "")).table(
        SHARD, many_labels=True
    )
    assert table.column("label").to_pylist() == [["cat", "dog"], []]
    assert table.column("label_id").to_pylist() == [[3, 1], []]
    assert table.column("rows").to_pylist() == [["a.csv:2", "a.csv:9"], ["a.csv:3"]]
    assert class_lists(table) == [["cat", "dog"], [""]]


def test_an_image_without_a_label_and_without_hashes() -> None:
    bare = checked(label="")._replace(content="", stored_content="", perceptual_hash=None)
    table = rows_of(bare).table(SHARD)
    [row] = table.to_pylist()
    assert {name: row[name] for name in ("label", "label_id", "content", "perceptual_hash")} == (
        dict.fromkeys(("label", "label_id", "content", "perceptual_hash"))
    )
    assert class_lists(table) == [[""]] and source_contents(table) == [None]


def test_compressed_files_have_no_offsets_and_files_of_one_image_begin_at_0() -> None:
    rows = rows_of(checked("a"), checked("b"))
    assert rows.table(f"{SHARD}.gz").column("offset").to_pylist() == [None, None]
    per_image = rows.table(SHARD, is_per_image=True)
    assert per_image.column("offset").to_pylist() == [0, 0]
    assert per_image.column("shard").to_pylist() == ["train/a.tfrecord", "train/b.tfrecord"]
    packed = rows.table(f"{SHARD}.gz", is_per_image=True)
    assert packed.column("shard").to_pylist() == ["train/a.tfrecord.gz", "train/b.tfrecord.gz"]


def test_rows_without_images() -> None:
    nothing = CheckedImage(b"", ImageInfo("", 0, 0, 0), Original(0, 0, 1))
    planned = [ShardRow(1, "", "x/a.csv", 2, ""), ShardRow(2, "k", "x/a.csv", 3, "")]
    table = rows_of(*(nothing._replace(row=row) for row in planned)).table(SHARD)
    assert table.column("key").to_pylist() == ["x/a.csv:2", "k"]
    assert table.column("rows").to_pylist() == [["a.csv:2"], ["a.csv:3"]]
    assert {table.column(name).null_count for name in ("size", "label", "format", "height")} == {2}


def keys_of(drawn: list[tuple[str, int]]) -> list[str]:
    return [key.encode(errors="replace").decode() for key, _ in drawn]


@pytest.mark.parametrize("count", [0, 1, 3])
def test_an_index_with_partners_comes_back(count: int) -> None:
    images = [with_partners(f"{number}") for number in range(count)]
    table = rows_of(*images).table(SHARD, partners=NAMES)
    data = index_bytes(table)
    found = read_index(data, "x", records=count)
    assert found.equals(table)
    assert found.schema == index_schema(many_labels=False, has_partners=True)
    assert index_bytes(found) == data
    asked = read_index(data, "x", columns=["key", PARTNERS])
    assert asked.column_names == ["key", PARTNERS]
    # A dataset without them has no such column.
    plain = index_bytes(rows_of(*images).table(SHARD))
    assert read_index(plain, "x", columns=["key", PARTNERS]).column_names == ["key"]


@pytest.mark.parametrize("metadata", [None, {b"perceptual_hash": b"1"}, {LIBRARIES: b"x"}])
def test_perceptual_hashes_of_another_version_are_left_out(
    metadata: dict[bytes, bytes] | None,
) -> None:
    table = rows_of(checked("a")).table(SHARD, libraries="pillow 12")
    assert table.column("perceptual_hash").null_count == 0
    assert read_index(index_bytes(table), "x").equals(table)
    older = index_bytes(table.replace_schema_metadata(metadata))
    found = read_index(older, "x")
    assert found.column("perceptual_hash").null_count == 1
    assert found.drop_columns("perceptual_hash").equals(table.drop_columns("perceptual_hash"))
    assert read_index(older, "x", columns=["perceptual_hash"]).column(0).null_count == 1


@pytest.mark.parametrize("many_labels", [False, True])
@given(st.lists(st.tuples(st.text(), st.integers(0, 2**40)), max_size=5))
def test_it_comes_back_in_the_same_bytes(many_labels: bool, keys: list[tuple[str, int]]) -> None:
    images = [checked(key) for key in keys_of(keys)]
    rows = rows_of(*images)
    rows.lengths = [length for _, length in keys]
    table = rows.table(SHARD, many_labels=many_labels, libraries="".join(keys_of(keys)))
    data = index_bytes(table)
    found = read_index(data, "x", records=len(keys))
    assert found.equals(table) and found.schema.metadata == table.schema.metadata
    assert found.schema == index_schema(many_labels=many_labels)
    assert index_bytes(found) == data
    assert read_index(data, "x", columns=["key", "label"]).column_names == ["key", "label"]


def photos(count: int) -> bytes:
    """The index of a shard of photos with random names, sizes, times and hashes."""
    source = random.Random(1)
    rows = IndexRows()
    for number in range(count):
        size = int(source.gauss(110_000, 30_000))
        class_ = f"class_{source.randrange(10)}"
        path = f"{class_}/{source.randrange(10_000):06d}.jpg"
        version = 17 * 10**17 + source.randrange(10**14)
        image = PlannedImage(number, path, path, size, version, class_, 1)
        sides = source.choice([(375, 500), (500, 375), (source.randrange(200, 600), 500)])
        content = f"{source.getrandbits(128):032x}"
        rows.add(
            checked()._replace(
                info=ImageInfo("jpeg", *sides, 3),
                original=Original(*sides, 1),
                perceptual_hash=source.getrandbits(64),
                image=image,
                content=content,
                stored_content=content,
            )
        )
        rows.lengths.append(size + 150)
    return index_bytes(rows.table(SHARD))


def test_a_record_takes_at_most_60_bytes() -> None:
    assert len(photos(1300)) <= 60 * 1300


def damaged(data: bytes) -> dict[str, bytes]:
    """Files that are not the index of three records, by what is wrong."""
    table = pa.table({"record": [0, 1, 2]})
    other = pa.BufferOutputStream()
    pq.write_table(table, other)
    mixed = read_index(data, "x").take([0, 2, 1])
    return {
        "empty": b"",
        "text": b"no table" * 9,
        "cut": data[:-20],
        "flipped": data[:-900] + bytes([data[-900] ^ 255]) + data[-899:],
        "other columns": bytes(other.getvalue()),
        "other order": index_bytes(mixed),
        "fewer": index_bytes(rows_of(checked()).table(SHARD)),
    }


@pytest.mark.parametrize("kind", list(damaged(photos(3))))
def test_damage_is_one_clear_line(kind: str) -> None:
    with pytest.raises(RecordIndexError, match="^out/index/a.parquet is ") as caught:
        read_index(damaged(photos(3))[kind], "out/index/a.parquet", records=3)
    assert "\n" not in str(caught.value)


@given(st.data())
def test_no_byte_of_it_can_crash_a_reader(data: st.DataObject) -> None:
    good = photos(3)
    at = data.draw(st.integers(0, len(good) - 1))
    edited = good[:at] + bytes([data.draw(st.integers(0, 255))]) + good[at + 1 :]
    try:
        found = read_index(edited, "x", records=3)
    except RecordIndexError:
        return
    assert found.num_rows == 3


def bomb(kind: str) -> bytes:
    """A small index that would take gigabytes, by what repeats in it."""
    count = 20_000
    table = read_index(photos(1), "x").take([0] * count)
    zeros = pa.array(np.zeros(count, np.int32))
    record = pa.array(np.arange(count, dtype=np.int64))

    def repeated(text: str, indices: pa.Array) -> pa.DictionaryArray:
        return pa.DictionaryArray.from_arrays(indices, pa.array([text]))

    many = np.zeros(6_000_000, np.int32)
    columns: dict[str, pa.Array] = {
        "texts": {name: repeated("x" * 60_000, zeros) for name in ("key", "path")},
        "one text of all": {"split": repeated("x" * 4_000_000, zeros)},
        "a list": {
            "rows": pa.ListArray.from_arrays(
                pa.array([0] + [len(many)] * count, pa.int32()), repeated("", pa.array(many))
            )
        },
        "lists": {
            "rows": pa.ListArray.from_arrays(
                pa.array(np.arange(count + 1, dtype=np.int32) * 300),
                repeated("x" * 5_000, pa.array(many)),
            )
        },
        "one long text": {"key": pa.array(["x" * 100_000_000] + [None] * (count - 1))},
    }[kind]
    # Real records differ: their hashes make the file large enough for its rows.
    noise = np.random.default_rng(1).bytes(16 * count)
    content = pa.Array.from_buffers(pa.binary(16), count, [None, pa.py_buffer(noise)])
    for name, values in {"record": record, "content": content, **columns}.items():
        table = table.set_column(table.column_names.index(name), name, values)
    file = pa.BufferOutputStream()
    # What a reader would see first is as it should be.
    pq.write_table(table, file, compression="zstd", store_schema=False, write_page_checksum=True)
    return bytes(file.getvalue())


@pytest.mark.parametrize("kind", ["texts", "one text of all", "a list", "lists", "one long text"])
def test_a_small_file_takes_little_memory(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(bomb(kind))
    assert path.stat().st_size < 1_000_000
    script = r"""
import os, re, sys
from transforms.records.record_index import RecordIndexError, read_index
try:
    read_index(open(sys.argv[1], "rb").read(), "x", records=20_000)
except RecordIndexError as error:
    # `ru_maxrss` is also that of the process that forked.
    memory = re.search("VmHWM:\s*(\d+)", open("/proc/self/status").read())[1]
    print(int(memory) >> 10, error, flush=True)
# A thread of Arrow aborts one in 600 processes that end at once.
os._exit(0)
"""
    command = [sys.executable, "-c", script, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    megabytes, _, message = done.stdout.partition(" ")
    assert message.startswith("x is damaged: it would take ")
    assert int(megabytes) < 400


def test_few_rows_take_little_memory_too() -> None:
    """A dataset may have thousands of indexes."""
    table = read_index(photos(40), "x")
    at = table.column_names.index("key")
    data = index_bytes(table.set_column(at, "key", pa.array(["x" * 60_000] * 40)))
    with pytest.raises(RecordIndexError, match="x is damaged: it would take 24"):
        read_index(data, "x")


def test_a_text_far_larger_than_its_file_is_refused_unread() -> None:
    """A text takes four times its bytes while it is read, whatever else is in the file."""
    table = read_index(photos(40), "x")
    source = random.Random(1)
    texts = {
        "key": [*["x"] * 39, "x" * 60_000_000],
        "path": [source.randbytes(50_000).hex() for _ in range(40)],
    }
    for name, column in texts.items():
        table = table.set_column(table.column_names.index(name), name, pa.array(column))
    with pytest.raises(RecordIndexError, match="x is damaged: it would take 60"):
        read_index(index_bytes(table), "x")


def test_no_real_index_is_too_compressible() -> None:
    """Consecutive names, equal sizes and times, no hashes: only the order takes bytes."""
    count = 100_000
    order = np.random.default_rng(1).permutation(count)
    names = pa.array([f"photos/IMG_{number:07d}.png" for number in order])
    table = rows_of(checked()).table(SHARD).take([0] * count)
    empty = ("content", "source_content", "perceptual_hash")
    columns = {
        "key": names,
        "path": names,
        "record": pa.array(np.arange(count)),
        **{name: pa.nulls(count, table.schema.field(name).type) for name in empty},
    }
    for name, values in columns.items():
        table = table.set_column(table.column_names.index(name), name, values)
    data = index_bytes(table)
    assert len(data) < 7 * count
    assert read_index(data, "x", records=count).num_rows == count


def test_a_group_for_each_row_is_refused() -> None:
    file = pa.BufferOutputStream()
    pq.write_table(read_index(photos(40), "x"), file, store_schema=False, row_group_size=1)
    with pytest.raises(RecordIndexError, match="x is damaged: 40 rows do not fit into it"):
        read_index(bytes(file.getvalue()), "x")


def test_an_index_without_groups_has_no_rows() -> None:
    with pa.BufferOutputStream() as file, pq.ParquetWriter(file, index_schema(many_labels=False)):
        pass
    assert read_index(file.getvalue().to_pybytes(), "x").num_rows == 0


def test_rows_that_take_no_bytes_are_refused() -> None:
    rows = rows_of(checked()).table(SHARD).take([0] * 200_000)
    record = pa.array(np.arange(200_000, dtype=np.int64))
    data = index_bytes(rows.set_column(1, "record", record))
    with pytest.raises(RecordIndexError, match="200000 rows do not fit into it"):
        read_index(data, "x")


def test_verify_reads_a_few_rows_at_a_time(tmp_path: Path) -> None:
    """Shards of tables have millions of them."""
    count = 50_000
    table = rows_of(checked()).table(SHARD).take([0] * count)
    noise = pa.py_buffer(np.random.default_rng(1).bytes(16 * count))
    content = pa.Array.from_buffers(pa.binary(16), count, [None, noise])
    table = table.set_column(table.column_names.index("content"), "content", content)
    data = index_bytes(table.set_column(1, "record", pa.array(np.arange(count))))
    name = "index/train-00000-of-00002.parquet"
    (tmp_path / "index").mkdir()
    (tmp_path / name).write_bytes(data)
    entry = {"file": name, "records": count, "bytes": len(data), "crc32c": crc32c_hex(data)}
    shard = {"file": SHARD, "records": count, "entry": entry, "first": 0}
    rows, problem = IndexedRows(str(tmp_path)).checked(shard, fast=False)
    tracemalloc.start()
    assert sum(row["key"] == "a" for row in rows) == count and not problem
    assert tracemalloc.get_traced_memory()[1] < 10 << 20
    tracemalloc.stop()


# What `verify` compares between a record and its row of the index.

RECORD = b"the whole record"
HELD: dict[str, list[Any]] = {
    "image.bytes": [b"data"],
    "image.key": [b"a"],
    "image.height": [3],
    "label.texts": [b"cat", b"dog"],
}
ROW: dict[str, Any] = {
    **dict.fromkeys(COMPARED),
    "length": len(RECORD),
    "offset": 0,
    "key": "a",
    "height": 3,
    "label": ["cat", "dog"],
    "content": bytes.fromhex(content_hash(b"data")),
}


def test_a_record_that_fits_its_row() -> None:
    assert list(row_problems(ROW, RECORD, 0, HELD)) == []


@pytest.mark.parametrize(
    ("column", "value"),
    [
        *(("length", 1), ("offset", 1), ("key", "b"), ("height", 4), ("label", ["cat"])),
        ("content", bytes(16)),
    ],
)
def test_each_column_that_differs_is_named(column: str, value: Any) -> None:
    [problem] = row_problems({**ROW, column: value}, RECORD, 0, HELD)
    assert problem.startswith(f"its {column} is ")


# Arrays are those of `pyarrow.array`, which imports pandas.

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
TYPES = {
    "string": (pa.string(), TEXTS),
    "int64": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "int32": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "int8": (pa.int8(), st.integers(-128, 127)),
    "bytes": (pa.binary(8), st.binary(min_size=8, max_size=8)),
    "texts": (pa.list_(pa.string()), st.lists(TEXTS, max_size=3)),
    "structs": (
        pa.list_(pa.struct([("a", pa.string()), ("b", pa.binary(8))])),
        st.lists(
            st.fixed_dictionaries(
                {"a": st.none() | TEXTS, "b": st.none() | st.binary(min_size=8, max_size=8)}
            ),
            max_size=3,
        ),
    ),
    "numbers": (pa.list_(pa.int64()), st.lists(st.integers(0, 9), max_size=3)),
}


@pytest.mark.parametrize("name", TYPES)
@given(data=st.data())
def test_values_come_back(name: str, data: st.DataObject) -> None:
    type_, values = TYPES[name]
    drawn: list[Any] = data.draw(st.lists(st.none() | values, max_size=20))
    array = to_array(drawn, type_)
    array.validate(full=True)
    assert array.equals(pa.array(drawn, type_)) and array.to_pylist() == drawn


def test_a_number_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(OverflowError):
        to_array([2**31], pa.int32())


@pytest.mark.slow
def test_an_index_is_written_and_read_without_pandas() -> None:
    script = """
import sys
from tests.transforms.records.test_record_index import photos
from transforms.records.record_index import read_index
for name in [each for each in sys.modules if each.partition(".")[0] == "pandas"]:
    del sys.modules[name]
read_index(photos(3), "x").to_pylist()
assert "pandas" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
