"""The index of a shard, and how it is compared with its records."""

import functools
import io
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.marks import cases, rest_slow
from tests.spies import memory_below
from tests.transforms.records.tables import small_memory, with_footer
from transforms.core.records import PartnerFile, PlannedImage, ShardRow
from transforms.dataset.manifest import crc32c_hex
from transforms.examples.tfrecord import FRAME_BYTES
from transforms.images.checked_images import UNSEEN, CheckedImage, CheckedPartner, ImageInfo, Seen
from transforms.images.pixel_options import UNTOUCHED, Original
from transforms.labels.label_tables import size_of_pages
from transforms.records.record_index import (
    COMPARED,
    HASHES,
    LIBRARIES,
    LOOKS,
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
    both = {"content": SOURCE, "stored_content": SOURCE}
    seen = Seen(255, None, (9, 250, 40, 72))
    return CheckedImage(b"x", info, original, UNTOUCHED, seen, 6, image=image, **both)


def with_partners(key: str = "a") -> CheckedImage:
    """An image with a right view and a mask."""
    files = ("right/é.jpg", 70, 9), ("a.png", 60, 8)
    right = CheckedPartner(50, "jpeg", STORED, has_place=True, changes=("resized", "turned"))
    image, partners = checked(key), (right, CheckedPartner(40, "png"))
    return image._replace(image=image.image._replace(partners=files), partners=partners)


def rows_of(*images: CheckedImage) -> IndexRows:
    rows = IndexRows()
    for number, image in enumerate(images):
        rows.add(image)
        rows.lengths.append(100 + number)
    return rows


def with_columns(table: pa.Table, columns: dict[str, Any]) -> pa.Table:
    """A table with other values in some columns."""
    for name, values in columns.items():
        table = table.set_column(table.column_names.index(name), name, values)
    return table


def test_every_column_of_an_image() -> None:
    changed = checked("b")._replace(
        changes=("resized", "turned"), original=Original(300, 400, 6), stored_content=STORED
    )
    table = rows_of(checked(), changed).table(SHARD, libraries="pillow 12")
    first, second = table.to_pylist()
    empty = ("rows", "source_content", "changes", "source_height", "source_width")
    assert first == (
        {"shard": SHARD, "record": 0, "offset": 0, "length": 100, "key": "a", "path": "cat/a.jpg"}
        | {"size": 90, "version": 10**18, "split": "train", "label": "cat", "label_id": 3}
        | {"content": bytes.fromhex(SOURCE), "perceptual_hash": bytes(7) + b"\xff"}
        | {"darkest": 9, "lightest": 250, "sharpness": 40, "entropy": 72}
        | {"format": "jpeg", "height": 30, "width": 40, "channels": 3, "orientation": 6, "gps": 0}
        | dict.fromkeys(empty)
    )
    assert second == (
        first
        | {"record": 1, "offset": 100 + FRAME_BYTES, "length": 101, "key": "b", "path": "cat/b.jpg"}
        | {"content": bytes.fromhex(STORED), "source_content": bytes.fromhex(SOURCE)}
        | {"changes": "resized,turned", "source_height": 300, "source_width": 400}
    )
    assert table.column_names == index_schema(many_labels=False).names
    assert source_contents(table) == [bytes.fromhex(SOURCE)] * 2
    assert table.schema.metadata == {LIBRARIES: b"pillow 12", **HASHES}


def test_masks_and_further_images_are_a_list() -> None:
    table = rows_of(with_partners()).table(SHARD, partners=NAMES)
    [row] = table.to_pylist()
    assert [*row][-1] == PARTNERS
    right, mask = row[PARTNERS]
    assert right == (
        {"name": "images.right", "path": "right/é.jpg", "size": 70, "version": 9, "length": 50}
        | {
            "format": "jpeg",
            "content": bytes.fromhex(STORED),
            "gps": 1,
            "changes": "resized,turned",
        }
    )
    assert mask == (
        {"name": "mask", "path": "a.png", "size": 60, "version": 8, "length": 40}
        | {"format": "png", "content": None, "gps": 0, "changes": None}
    )
    file = PartnerFile("right/é.jpg", 70, 9)
    assert read_partner(right) == (file, with_partners().partners[0])
    # Nothing proves its bytes.
    assert read_partner(mask) is None


EMPTY = CheckedImage(b"", ImageInfo("", 0, 0, 0), Original(0, 0, 1))
BARE = checked(label="")._replace(content="", stored_content="", seen=UNSEEN)
GIVEN_ROWS = (ShardRow(1, "", "x/a.csv", 2, ""), ShardRow(2, "k", "x/a.csv", 3, ""))
AB, OF_ROWS = (checked("a"), checked("b")), [EMPTY._replace(row=row) for row in GIVEN_ROWS]
MANY = checked("a", CELLS, ""), checked("b", '[["a.csv:3",[],[]]]', "")
MANY_ROWS = [["a.csv:2", "a.csv:9"], ["a.csv:3"]]
PER_IMAGE = {"is_per_image": True}


@cases(
    (MANY, SHARD, {"many_labels": True}, {"label": [["cat", "dog"], []], "rows": MANY_ROWS}),
    (MANY, SHARD, {"many_labels": True}, {"label_id": [[3, 1], []]}),
    ([BARE], SHARD, {}, dict.fromkeys(("label", "label_id", "content"), [None])),
    ([BARE], SHARD, {}, {"perceptual_hash": [None], "entropy": [None]}),
    # Compressed files have no offsets, and files of one image begin at 0.
    (AB, f"{SHARD}.gz", {}, {"offset": [None, None]}),
    (AB, SHARD, PER_IMAGE, {"offset": [0, 0], "shard": ["train/a.tfrecord", "train/b.tfrecord"]}),
    (AB[:1], f"{SHARD}.gz", PER_IMAGE, {"shard": ["train/a.tfrecord.gz"]}),
    (OF_ROWS, SHARD, {}, {"key": ["x/a.csv:2", "k"], "rows": [["a.csv:2"], ["a.csv:3"]]}),
    (OF_ROWS, SHARD, {}, dict.fromkeys(("size", "label", "format", "height"), [None, None])),
)
def test_columns_of_other_records(
    images: Sequence[CheckedImage], shard: str, options: Any, columns: dict[str, list[Any]]
) -> None:
    table = rows_of(*images).table(shard, **options)
    assert {name: table.column(name).to_pylist() for name in columns} == columns


def test_classes_and_sources_of_a_table() -> None:
    assert class_lists(rows_of(*MANY).table(SHARD, many_labels=True)) == [["cat", "dog"], [""]]
    assert class_lists(rows_of(BARE).table(SHARD)) == [[""]]
    assert source_contents(rows_of(BARE).table(SHARD)) == [None]


TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


@pytest.mark.parametrize("kind", ["one label", "many labels", "partners"])
@given(st.lists(st.tuples(TEXTS, st.integers(0, 2**40)), max_size=5))
def test_it_comes_back_in_the_same_bytes(kind: str, keys: list[tuple[str, int]]) -> None:
    many, has_partners = kind == "many labels", kind == "partners"
    rows = rows_of(*((with_partners if has_partners else checked)(key) for key, _ in keys))
    rows.lengths = [length for _, length in keys]
    options = {"many_labels": many, "partners": NAMES if has_partners else ()}
    table = rows.table(SHARD, libraries="".join(key for key, _ in keys), **options)
    data = index_bytes(table)
    found = read_index(data, "x", records=len(keys))
    assert found.equals(table)
    assert found.schema.metadata == table.schema.metadata
    assert found.schema == index_schema(many_labels=many, has_partners=has_partners)
    assert index_bytes(found) == data
    # A dataset without masks and further images has no such column.
    asked = read_index(data, "x", columns=["key", PARTNERS])
    assert asked.column_names == ["key", *([PARTNERS] if has_partners else [])]


@pytest.mark.parametrize("metadata", [None, {b"perceptual_hash": b"1"}, {LIBRARIES: b"x"}])
def test_perceptual_hashes_of_others_are_left_out(metadata: dict[bytes, bytes] | None) -> None:
    table = rows_of(checked("a")).table(SHARD, libraries="pillow 12")
    assert read_index(index_bytes(table), "x").column("perceptual_hash").null_count == 0
    older = index_bytes(table.replace_schema_metadata(metadata))
    found = read_index(older, "x")
    assert found.column("perceptual_hash").null_count == 1
    assert found.drop_columns("perceptual_hash").equals(table.drop_columns("perceptual_hash"))
    assert read_index(older, "x", columns=["perceptual_hash"]).column(0).null_count == 1


@functools.cache
def photos(count: int) -> bytes:
    """The index of a shard of photos with random names, sizes, times and hashes."""
    source = random.Random(1)
    rows = IndexRows()
    for number in range(count):
        size = int(source.gauss(110_000, 30_000))
        class_ = f"class_{source.randrange(10)}"
        path = f"{class_}/{source.randrange(10_000):06d}.jpg"
        version = 17 * 10**17 + source.randrange(10**14)
        sides = source.choice([(375, 500), (500, 375), (source.randrange(200, 600), 500)])
        content = f"{source.getrandbits(128):032x}"
        rows.add(
            checked()._replace(
                info=ImageInfo("jpeg", *sides, 3),
                original=Original(*sides, 1),
                seen=Seen(
                    source.getrandbits(64), None, [*map(source.randrange, (200, 256, 80, 80))]
                ),
                image=PlannedImage(number, path, path, size, version, class_, 1),
                content=content,
                stored_content=content,
            )
        )
        rows.lengths.append(size + 150)
    return index_bytes(rows.table(SHARD))


def test_a_record_takes_at_most_60_bytes() -> None:
    assert len(photos(1300)) <= 60 * 1300


# Damage, and files that are made to take gigabytes.


def written(table: pa.Table, **options: Any) -> bytes:
    """A file of Parquet that this tool does not write."""
    file = pa.BufferOutputStream()
    pq.write_table(table, file, **options)
    return bytes(file.getvalue())


THREE = photos(3)
DAMAGED = {
    "empty": b"",
    "text": b"no table" * 9,
    "cut": THREE[:-20],
    "flipped": THREE[:-900] + bytes([THREE[-900] ^ 255]) + THREE[-899:],
    "other columns": written(pa.table({"record": [0, 1, 2]})),
    "other order": index_bytes(read_index(THREE, "x").take([0, 2, 1])),
    "fewer": index_bytes(rows_of(checked()).table(SHARD)),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_damage_is_one_clear_line(kind: str) -> None:
    with pytest.raises(RecordIndexError, match="^out/index/a.parquet is ") as caught:
        read_index(DAMAGED[kind], "out/index/a.parquet", records=3)
    assert "\n" not in str(caught.value)


@given(at=st.integers(0, len(THREE) - 1), value=st.integers(0, 255))
def test_no_byte_of_it_can_crash_a_reader(at: int, value: int) -> None:
    edited = THREE[:at] + bytes([value]) + THREE[at + 1 :]
    try:
        found = read_index(edited, "x", records=3)
    except RecordIndexError:
        return
    assert found.num_rows == 3


ROWS = 20_000


def repeated(text: str, indices: Any) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(indices), pa.array([text]))


def lists(ends: Sequence[int], text: str) -> pa.ListArray:
    """A list of texts in each row, of six million that are all alike."""
    return pa.ListArray.from_arrays(
        pa.array(ends, pa.int32()), repeated(text, np.zeros(6_000_000, np.int32))
    )


BOMBS: dict[str, Any] = {
    "texts": lambda: dict.fromkeys(("key", "path"), repeated("x" * 60_000, np.zeros(ROWS, "i4"))),
    "one text of all": lambda: {"split": repeated("x" * 4_000_000, np.zeros(ROWS, "i4"))},
    "a list": lambda: {"rows": lists([0] + [6_000_000] * ROWS, "")},
    "lists": lambda: {"rows": lists(range(0, 6_000_001, 300), "x" * 5_000)},
    "one long text": lambda: {"key": pa.array(["x" * 100_000_000] + [None] * (ROWS - 1))},
}


def noise(count: int) -> pa.Array:
    """Hashes that differ, as real ones: they make a file large enough for its rows."""
    data = np.random.default_rng(1).bytes(16 * count)
    return pa.Array.from_buffers(pa.binary(16), count, [None, pa.py_buffer(data)])


@pytest.mark.parametrize("kind", rest_slow(BOMBS))
def test_a_small_file_takes_little_memory(kind: str, tmp_path: Path) -> None:
    columns = {"record": pa.array(np.arange(ROWS)), "content": noise(ROWS), **BOMBS[kind]()}
    table = with_columns(read_index(photos(1), "x").take([0] * ROWS), columns)
    # What a reader would see first is as it should be.
    data = written(table, compression="zstd", store_schema=False, write_page_checksum=True)
    assert len(data) < 1_000_000
    (tmp_path / "x").write_bytes(data)
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
    command = [sys.executable, "-c", script, f"{tmp_path}/x"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    megabytes, _, message = done.stdout.partition(" ")
    assert message.startswith("x is damaged: it would take ")
    assert int(megabytes) < 400


FORTY = read_index(photos(40), "x")
LONG_KEYS = {"key": pa.array(["x" * 60_000] * 40)}
# A text takes four times its bytes while it is read, whatever else is in the file.
ONE_LONG_KEY = {
    "key": pa.array([*["x"] * 39, "x" * 60_000_000]),
    "path": pa.array([random.Random(number).randbytes(50_000).hex() for number in range(40)]),
}
DELTAS: Any = {"use_dictionary": False, "column_encoding": {"key": "DELTA_BYTE_ARRAY"}}
MANY_RECORDS = {"record": pa.array(np.arange(200_000))}
ALIKE = rows_of(checked()).table(SHARD).take([0] * 200_000)


@cases(
    # A dataset may have thousands of indexes.
    (index_bytes(with_columns(FORTY, LONG_KEYS)), "it would take 24"),
    # `diff` ended with a traceback.
    (index_bytes(with_columns(FORTY, {"key": pa.nulls(40, pa.string())})), "a row of it has"),
    (index_bytes(with_columns(FORTY, ONE_LONG_KEY)), "it would take 60"),
    (written(FORTY, store_schema=False, row_group_size=1), "40 rows do not fit into it"),
    (index_bytes(with_columns(ALIKE, MANY_RECORDS)), "200000 rows do not fit into it"),
    (written(FORTY, store_schema=False, **DELTAS), "the header of a page is damaged"),
    (written(FORTY, store_schema=False, data_page_size=1, write_batch_size=1), "its pages hold"),
    ids=["few rows", "no keys", "one text", "a group for each row", "no bytes", "deltas", "pages"],
)
def test_what_does_not_fit_is_refused_unread(data: bytes, says: str) -> None:
    with pytest.raises(RecordIndexError, match=f"x is damaged: {says}"):
        read_index(data, "x")


def test_a_footer_that_says_too_little_is_not_believed() -> None:
    table = with_columns(FORTY, {"key": pa.array(["x" * 20_000_000, *"x" * 39])})
    data = written(table, compression="brotli", store_schema=False, use_dictionary=False)
    group = pq.read_metadata(io.BytesIO(data)).row_group(0)
    largest = max(group.column(at).total_uncompressed_size for at in range(group.num_columns))
    with small_memory(1 << 20), pytest.raises(RecordIndexError, match="it would take 200"):
        read_index(with_footer(data, {largest: 100}), "x")


def test_what_does_not_fit_an_index_is_an_error() -> None:
    with pa.BufferOutputStream() as file, pq.ParquetWriter(file, index_schema(many_labels=False)):
        pass
    assert read_index(file.getvalue().to_pybytes(), "x").num_rows == 0
    with pytest.raises(OverflowError):
        to_array([2**31], pa.int32())


def test_no_real_index_is_too_compressible() -> None:
    """Consecutive names, equal sizes and times, no hashes: only the order takes bytes."""
    count = 100_000
    table = rows_of(checked()).table(SHARD).take([0] * count)
    order = np.random.default_rng(1).permutation(count)
    names = pa.array([f"photos/IMG_{number:07d}.png" for number in order])
    empty = ("content", "source_content", "perceptual_hash", *LOOKS)
    columns = {"key": names, "path": names, "record": pa.array(np.arange(count))}
    columns |= {name: pa.nulls(count, table.schema.field(name).type) for name in empty}
    data = index_bytes(with_columns(table, columns))
    assert len(data) < 7 * count
    assert read_index(data, "x", records=count).num_rows == count


def test_verify_reads_a_few_rows_at_a_time(tmp_path: Path) -> None:
    """Shards of tables have millions of them."""
    count, name = 20_000, "index/train-00000-of-00002.parquet"
    columns = {"content": noise(count), "record": pa.array(np.arange(count))}
    data = index_bytes(with_columns(rows_of(checked()).table(SHARD).take([0] * count), columns))
    (tmp_path / "index").mkdir()
    (tmp_path / name).write_bytes(data)
    entry = {"file": name, "records": count, "bytes": len(data), "crc32c": crc32c_hex(data)}
    shard = {"file": SHARD, "records": count, "entry": entry, "first": 0}
    rows, problem = IndexedRows(str(tmp_path)).checked(shard, fast=False)
    with memory_below(10 << 20):
        assert sum(row["key"] == "a" for row in rows) == count
    assert not problem


# What `verify` compares between a record and its row of the index.

RECORD = b"the whole record"
HELD: dict[str, list[Any]] = {"image.bytes": [b"data"], "image.key": [b"a"], "image.height": [3]}
HELD["label.texts"] = [b"cat", b"dog"]
ROW: dict[str, Any] = (
    dict.fromkeys(COMPARED)
    | {"length": len(RECORD), "offset": 0, "key": "a", "height": 3, "label": ["cat", "dog"]}
    | {"content": bytes.fromhex(content_hash(b"data"))}
)


@cases(
    *(("length", 1), ("offset", 1), ("key", "b"), ("height", 4), ("label", ["cat"])),
    ("content", bytes(16)),
)
def test_each_column_that_differs_is_named(column: str, value: Any) -> None:
    assert list(row_problems(ROW, RECORD, 0, HELD)) == []
    [problem] = row_problems({**ROW, column: value}, RECORD, 0, HELD)
    assert problem.startswith(f"its {column} is ")


# Arrays are those of `pyarrow.array`, which imports pandas.

EIGHT = st.binary(min_size=8, max_size=8)
PAIRS = st.fixed_dictionaries({"a": st.none() | TEXTS, "b": st.none() | EIGHT})
PAIR = pa.struct([("a", pa.string()), ("b", pa.binary(8))])
TYPES = {
    "string": (pa.string(), TEXTS),
    "int64": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "int32": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "int8": (pa.int8(), st.integers(-128, 127)),
    "bytes": (pa.binary(8), EIGHT),
    "texts": (pa.list_(pa.string()), st.lists(TEXTS, max_size=3)),
    "structs": (pa.list_(PAIR), st.lists(PAIRS, max_size=3)),
    "numbers": (pa.list_(pa.int64()), st.lists(st.integers(0, 9), max_size=3)),
}


@pytest.mark.parametrize("name", TYPES)
@given(data=st.data())
def test_values_come_back(name: str, data: st.DataObject) -> None:
    type_, values = TYPES[name]
    drawn: list[Any] = data.draw(st.lists(st.none() | values, max_size=20))
    array = to_array(drawn, type_)
    array.validate(full=True)
    assert array.equals(pa.array(drawn, type_))
    assert array.to_pylist() == drawn


@pytest.mark.slow
def test_an_index_is_written_and_read_without_pandas() -> None:
    script = """
import sys
from tests.transforms.records.test_record_index import photos
from transforms.records.record_index import read_index
for name in [each for each in sys.modules if each.partition(".")[0] == "pandas"]:
    del sys.modules[name]
photos.cache_clear()
read_index(photos(3), "x").to_pylist()
assert "pandas" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_dictionary_that_the_footer_does_not_name_is_damage() -> None:
    """Arrow would read it, and give each of 20,000 rows a text of 60 KB."""
    file = io.BytesIO()
    pq.write_table(pa.table({"a": repeated("x" * 60_000, np.zeros(20_000, "i4"))}), file)
    chunk = pq.ParquetFile(file).metadata.row_group(0).column(0)
    start = {"data_page_offset": chunk.dictionary_page_offset, "dictionary_page_offset": None}
    forged: Any = SimpleNamespace(**{**chunk.to_dict(), **start, "has_dictionary_page": False})
    assert size_of_pages(forged, file)[1] == 20_000
    with pytest.raises(pa.ArrowInvalid, match="header of a page is damaged"):
        size_of_pages(forged, file, is_of_index=True)
