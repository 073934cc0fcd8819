"""Small files that would take the memory or the time of large ones."""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from tests.images.pictures import saved
from tests.marks import cases, rest_slow
from tests.spies import memory_below
from tests.transforms.records.test_record_index import photos
from transforms.core.records import IndexPart, JoinSide
from transforms.core.rejections import RejectedImageError
from transforms.dataset.manifest import crc32c_hex, damage
from transforms.images.check import checked_header, examine_image
from transforms.images.guard import Budget, DecodingChild
from transforms.images.masks import store_mask
from transforms.images.pillow_images import open_image
from transforms.images.pixel_options import DEFAULT_LIMITS, Frame, Limits, PixelOptions, Resize
from transforms.images.pixels import change_pixels
from transforms.records.other_datasets import ImageRecordReader, OtherDataset
from transforms.records.record_index import RecordIndexError, index_bytes, read_index
from transforms.records.written_index import TIMES_OF_IMAGES, read_listed_index


@pytest.fixture(scope="module")
def index() -> bytes:
    """Of 40,000 images, which takes 10 MB of memory."""
    count = 40_000
    table = read_index(photos(1), "x").take([0] * count)
    noise = np.random.default_rng(1).bytes(16 * count)
    content = pa.Array.from_buffers(pa.binary(16), count, [None, pa.py_buffer(noise)])
    for name, values in {"record": pa.array(np.arange(count)), "content": content}.items():
        table = table.set_column(table.column_names.index(name), name, values)
    return index_bytes(table)


@pytest.fixture
def child() -> Iterator[DecodingChild]:
    started = DecodingChild()
    yield started
    started.close()


@cases(
    ("train-00000-of-00001.tfrecord", 4 << 20),
    ("train-00000-of-00001.tfrecord.gz", 4 << 10),
    ("train/a.tfrecord", 4 << 20),
)
def test_an_index_describes_no_more_than_its_shard_can_hold(
    file: str, size: int, tmp_path: Path, index: bytes
) -> None:
    def read() -> Any:
        (tmp_path / name).write_bytes(index)
        return read_listed_index(str(tmp_path), entry, most_times=TIMES_OF_IMAGES)

    name = "index/train-00000-of-00001.parquet"
    entry = {"file": name, "records": 40_000, "bytes": len(index), "crc32c": crc32c_hex(index)}
    (tmp_path / name).parent.mkdir()
    (tmp_path / file).parent.mkdir(exist_ok=True)
    # Indexes may lie alone: `diff` and `--holdout` read nothing else.
    assert read().num_rows == 40_000
    (tmp_path / file).write_bytes(bytes(size))
    assert read().num_rows == 40_000
    (tmp_path / file).write_bytes(bytes(size >> 8))
    with pytest.raises(RecordIndexError, match=f"{name} is damaged: it would take "):
        read()


def test_pixels_that_tensorflow_decodes_are_not_copied() -> None:
    """The largest WebP and GIF took 1.4 GB; those of TensorFlow itself are not counted here."""
    data, limits = saved(Image.new("RGB", (1000, 1000)), "gif"), Limits(5 * 10**6, 10**7)
    header = checked_header(data, limits)
    examine_image(data, header, mode="full", with_hash=True)
    with memory_below(3_000_000):
        examine_image(data, header, mode="full", with_hash=True)


@cases(
    *rest_slow(
        [
            ("RGBA", PixelOptions("jpeg", resize=Resize.parse("50x50")), 65),
            ("I;16", PixelOptions(depth=16, resize=Resize.parse("50x50")), 60),
            ("LA", PixelOptions("png", resize=Resize.parse("50x50")), 65),
            ("RGB", PixelOptions("jpeg"), 75),
            ("RGBA", PixelOptions(color="rgb"), 100),
        ],
        2,
    )
)
def test_changed_pixels_are_not_copied_often(
    mode: str, options: PixelOptions, most: int, child: DecodingChild
) -> None:
    """In MB, for 36 MB of pixels, or 18 of `I;16`. The largest PNG took 3.0 GB, in 16 bits 7.9."""
    data = saved(Image.new(mode, (3000, 3000)), "PNG", compress_level=1)
    limits = Limits(9 * 10**6, 10**7)
    made = child.call(Budget(most << 20, 60), change_pixels, data, options, limits=limits)
    assert made.info.height in (50, 3000)


def test_pixels_that_take_more_than_others() -> None:
    """TIFFs in YCbCr, colors of masks, JPEGs of scans: 9.9 s and 1.2 GB for 178 megapixels."""
    tiff = saved(Image.new("YCbCr", (10, 10)), "TIFF", compression="tiff_deflate")
    mask = saved(Image.new("RGB", (10, 10)), "PNG")
    jpeg = bytearray(saved(Image.new("RGB", (10, 10)), "JPEG", progressive=True))
    struct.pack_into(">HH", jpeg, jpeg.index(b"\xff\xc2") + 5, 13377, 13377)
    changed = PixelOptions(resize=Resize.parse("shorter=4000"))
    with pytest.raises(RejectedImageError, match="which count 2 times, more than 199"):
        open_image(tiff, ("TIFF",), Limits(199, 10**7))
    with pytest.raises(RejectedImageError, match=r"which count 1.25 times, more than 124"):
        store_mask(mask, Frame(10, 10, stored=(10, 10)), limits=Limits(124, 10**7))
    with pytest.raises(RejectedImageError, match="of which a change holds 1252608903 bytes"):
        change_pixels(bytes(jpeg), changed, limits=DEFAULT_LIMITS)
    # As a PNG, 115 megapixels of a JPEG of 5 MB took 20 s.
    black = saved(Image.new("RGB", (7000, 7000)), "TIFF", compression="tiff_deflate")
    as_png = PixelOptions(transcode="png")
    with pytest.raises(RejectedImageError, match=r"which count 5.0 times, more than 178956970"):
        change_pixels(black, as_png, limits=DEFAULT_LIMITS)
    assert change_pixels(black + bytes(6 << 20), as_png, limits=DEFAULT_LIMITS).info.height == 7000


@pytest.mark.parametrize("listed", ["splits", "index"])
def test_a_file_that_a_manifest_lists_twice_is_not_read_twice(listed: str) -> None:
    """Of 5 MB, 30,000 entries of one shard took hours of `verify`."""
    entry = {"file": "a", "records": 1, "bytes": 1, "crc32c": "0" * 8, "recipe": ""}
    split = {"records": 1, "bytes": 1, "image_bytes": 1, "classes": {}, "shards": [entry]}
    once, says = {"splits": {"a": split}, "index": [entry]}, f"its {listed!r} cannot be read"
    twice: dict[str, Any] = {"splits": {"a": split, "b": split}, "index": [entry, entry]}
    assert says not in damage(once) and says in damage({**once, listed: twice[listed]})


def test_records_are_in_the_split_of_their_index(tmp_path: Path) -> None:
    """A split for each of 20,000 rows took 17 s."""
    table = read_index(photos(2), "x")
    at = table.column_names.index("split")
    data = index_bytes(table.set_column(at, "split", pa.array(["a", "b"])))
    name, shard = "index/train-00000-of-00001.parquet", table.column("shard")[0].as_py()
    (tmp_path / name).parent.mkdir()
    (tmp_path / name).write_bytes(data)
    entry = {"file": name, "records": 2, "bytes": len(data), "crc32c": crc32c_hex(data)}
    part = IndexPart("--images", 0, entry, ((shard, 2, 1 << 20, "", ""),))
    reader = ImageRecordReader([OtherDataset(str(tmp_path), "")])
    sides = [found[1] for found in reader.read_part(part) if isinstance(found[1], JoinSide)]
    assert [side.split for side in sides] == ["train", "train"]
