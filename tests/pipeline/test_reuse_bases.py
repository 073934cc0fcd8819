"""`--reuse` of bases that are damaged, compressed or of other layouts, and of what is no base."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import tensorflow as tf

from tests.marks import rest_slow
from tests.pipeline.commands import Dataset, convert, digests, make_dataset
from tests.pipeline.reusing import check_same, drawn, flags_of
from transforms.dataset.manifest import crc32c_hex, to_bytes
from transforms.examples.tfrecord import masked_crc32c
from transforms.records.other_datasets import ReuseReader
from transforms.records.record_index import HEAD_BYTES, content_hash, index_bytes, read_index


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Twelve images, which a test may change."""
    return drawn(tmp_path / "in")


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve images, which tests leave as they are."""
    return drawn(tmp_path_factory.mktemp("reuse") / "in")


@pytest.fixture(scope="module")
def whole(originals: Path) -> Dataset:
    """The dataset of the originals, which tests leave as it is."""
    return make_dataset(originals.with_name("whole"), **flags_of(originals))


DAMAGES = [
    *("flipped record", "no shard", "flipped index", "other bytes", "changed meanwhile"),
    *("foreign shard", "no index", "no indexes", "overwritten meanwhile"),
]


@pytest.mark.parametrize("damage", rest_slow(DAMAGES))
def test_a_damaged_base_gives_the_same_bytes(
    damage: str,
    originals: Path,
    whole: Dataset,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    flags = flags_of(originals)
    base = Dataset(shutil.copytree(whole.folder, tmp_path / "base"))
    shard, index = (base.folder / name for name in (base.shards()[0], "index"))
    data = bytearray(shard.read_bytes())
    match damage:
        case "flipped record":
            data[300] ^= 1
            shard.write_bytes(data)
        case "no shard":
            shard.unlink()
        case "flipped index":
            path = sorted(index.iterdir())[0]
            content = path.read_bytes()
            path.write_bytes(content[:60] + bytes([content[60] ^ 1]) + content[61:])
        case "other bytes":
            # Sound records of the same lengths: only the hash tells.
            record = next(
                iter(read_index(sorted(index.iterdir())[0].read_bytes(), "x").to_pylist())
            )
            start, end = HEAD_BYTES, HEAD_BYTES + record["length"]
            data[start + 400] ^= 1
            data[end : end + 4] = masked_crc32c(bytes(data[start:end])).to_bytes(4, "little")
            shard.write_bytes(data)
        case "foreign shard":
            # Of an edited index, whose checksum was edited, too.
            path = sorted(index.iterdir())[0]
            table = read_index(path.read_bytes(), "x")
            names = pa.array(["../me/train-00000-of-00001.tfrecord"] * table.num_rows)
            edited = index_bytes(table.set_column(0, table.schema.field(0), names))
            path.write_bytes(edited)
            manifest = {name: base.manifest[name] for name in base.manifest if name != "digest"}
            manifest["index"][0] |= {"bytes": len(edited), "crc32c": crc32c_hex(edited)}
            (base.folder / "manifest.json").write_bytes(to_bytes(manifest))
        case "no index":
            sorted(index.iterdir())[0].unlink()
        case "no indexes":
            # As of a version that did not write them; the digest is that of the rest.
            manifest = {name: base.manifest[name] for name in base.manifest if name != "index"}
            del manifest["digest"]
            (base.folder / "manifest.json").write_bytes(to_bytes(manifest))
        case "overwritten meanwhile":
            # After its indexes were read, before its records are.
            other = make_dataset(tmp_path / "other", **{**flags, "seed": 9}).folder
            read = ReuseReader.read

            def read_and_replace(reader: ReuseReader, number: int) -> Iterator[Any]:
                yield from [*read(reader, number)]
                shutil.copytree(other, base.folder, dirs_exist_ok=True)

            monkeypatch.setattr(ReuseReader, "read", read_and_replace)
        case "changed meanwhile":
            monkeypatch.setattr(
                "pipeline.resolve.samples.open_dataset", lambda _: {**base.manifest, "digest": "x"}
            )
    ran = convert(output=tmp_path / "out", reuse=base.folder, **flags)
    assert ran.code == 0, ran.err
    assert digests(tmp_path / "out") == digests(whole.folder)
    said = {
        "foreign shard": "is not used further: its index names records that it does not have",
        "flipped index": "is not used further: ",
        "changed meanwhile": "is not used further: it was changed meanwhile",
        "no index": "is not used further: ",
        "no indexes": "has no effect: it has no index",
    }
    # One for each file.
    assert len(caplog.messages) == (3 if damage == "overwritten meanwhile" else 1)
    for line in caplog.messages:
        assert said.get(damage, "originals are read instead of some records of ") in line
        assert str(base.folder) in line


def edit_index(base: Dataset, **columns: Any) -> None:
    """Edits the first index, and seals it and the manifest again."""
    path = base.folder / base.manifest["index"][0]["file"]
    table = read_index(path.read_bytes(), "x")
    for name, edited in columns.items():
        number, values = table.column_names.index(name), table.column(name).to_pylist()
        array = pa.array(edited(values), table.schema.field(name).type)
        table = table.set_column(number, table.schema.field(number), array)
    data = index_bytes(table)
    path.write_bytes(data)
    manifest = {name: base.manifest[name] for name in base.manifest if name != "digest"}
    manifest["index"][0] |= {"bytes": len(data), "crc32c": crc32c_hex(data)}
    (base.folder / "manifest.json").write_bytes(to_bytes(manifest))


def swapped(values: list[Any]) -> list[Any]:
    return [values[1], values[0], *values[2:]]


def first(value: Any) -> Callable[[list[Any]], list[Any]]:
    return lambda values: [value, *values[1:]]


PLACES = ("key", "path", "size", "version")

EDITS: dict[str, dict[str, Callable[[list[Any]], list[Any]]]] = {
    "two images change places": dict.fromkeys(PLACES, swapped),
    "another format": {"format": first("png")},
    "a larger image": {"height": first(4000)},
    "no format": {"format": first("exe")},
    "no height": {"height": first(-1)},
    "no channels": {"channels": first(9)},
    "no orientation": {"orientation": first(77)},
    "no change": {"changes": first("resized,eaten")},
}


@pytest.mark.parametrize("edit", EDITS)
def test_what_an_edited_index_says_of_a_record_is_compared_with_the_record(
    edit: str, originals: Path, whole: Dataset, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    base = Dataset(shutil.copytree(whole.folder, tmp_path / "base"))
    edit_index(base, **EDITS[edit])
    # With another order, no shard is copied as a whole.
    flags = flags_of(originals, seed=9)
    fresh = make_dataset(tmp_path / "fresh", **flags)
    ran = convert(output=tmp_path / "out", reuse=base.folder, **flags)
    assert ran.code == 0, ran.err
    assert digests(tmp_path / "out") == digests(fresh.folder)
    [line] = caplog.messages
    said = ("its index says of an image what none can be", "the image is not that of the index")
    assert line.endswith(said[not edit.startswith("no ")])


def test_a_record_with_a_broken_header_is_read_from_its_original(
    originals: Path, whole: Dataset, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its checksums and its hash are those of the broken image."""
    base = Dataset(shutil.copytree(whole.folder, tmp_path / "base"))
    shard = base.folder / base.shards()[0]
    data = bytearray(shard.read_bytes())
    start, end = HEAD_BYTES, HEAD_BYTES + int.from_bytes(data[:8], "little")
    height = data.index(b"\xff\xc0", start) + 5
    data[height : height + 2] = bytes(2)
    data[end : end + 4] = masked_crc32c(bytes(data[start:end])).to_bytes(4, "little")
    shard.write_bytes(data)
    broken = tf.train.Example.FromString(bytes(data[start:end])).features.feature["image/encoded"]
    edit_index(base, content=first(bytes.fromhex(content_hash(broken.bytes_list.value[0]))))
    flags = flags_of(originals, seed=9)
    fresh = make_dataset(tmp_path / "fresh", **flags)
    ran = convert(output=tmp_path / "out", reuse=base.folder, **flags)
    assert (ran.code, digests(tmp_path / "out")) == (0, digests(fresh.folder))
    assert "broken jpeg header" in caplog.messages[0]


def test_what_is_no_base(originals: Path, whole: Dataset, tmp_path: Path) -> None:
    flags = flags_of(originals)
    ran = convert(output=tmp_path / "out", reuse=originals, **flags)
    assert ran.code == 2 and f"{originals} holds no dataset: there is no " in ran.error()
    base = Dataset(shutil.copytree(whole.folder, tmp_path / "base"))
    manifest = base.folder / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"format_version": 2', '"format_version": 1'))
    ran = convert(output=tmp_path / "out", reuse=base.folder, **flags)
    assert ran.code == 2 and "has format version 1, this program reads 2" in ran.error()
    # Half written, as a run that was killed leaves it.
    manifest.unlink()
    (base.folder / ".staging").mkdir()
    (base.folder / ".staging" / "lock.json").touch()
    ran = convert(output=tmp_path / "out", reuse=base.folder, **flags)
    assert ran.code == 2 and "holds no dataset: a run is still writing it. " in ran.error()


def pixel_layout(folder: Path, more: str = "") -> Path:
    """A layout of decoded pixels."""
    pixels = "image: image.pixels, h: image.height, w: image.width, c: image.channels"
    path = folder / "pixels.yaml"
    path.write_text(f"features: {{{pixels}{more}}}\n")
    return path


@pytest.mark.parametrize("kind", rest_slow(["gzip", "per_image", "pixels", "both"]))
def test_any_layout_of_files_can_be_a_base(
    kind: str, originals: Path, whole: Dataset, tmp_path: Path, opened: list[str]
) -> None:
    options: dict[str, dict[str, Any]] = {
        "gzip": {"compression": "gzip", "num_shards": 2},
        "per_image": {"files": "per_image", "num_shards": None},
        "pixels": {"layout": pixel_layout(tmp_path), "label_from": "none", "resize": "shorter=20"},
        "both": {"layout": pixel_layout(tmp_path, ", file: image.bytes"), "label_from": "none"},
    }
    flags = flags_of(originals, **options[kind])
    base = make_dataset(tmp_path / "base", **flags).folder
    # Other shards of the same order.
    others = {**flags, "num_shards": 3, "files": None, "compression": None}
    fresh = make_dataset(tmp_path / "one" / "out", **others) if "layout" in others else whole
    opened.clear()
    ran = convert(output=tmp_path / "two" / "out", reuse=base, **others)
    assert ran.code == 0, ran.err
    assert digests(tmp_path / "two" / "out") == digests(fresh.folder)
    # Of a compressed shard, a part is not worth decompressing the rest.
    assert len(opened) == 12 - int(ran.out.split("reused ")[1].split()[0])
    assert len(opened) < 6 if kind == "gzip" else opened == []


def test_a_compressed_base_in_another_order_is_not_read(
    images: Path, tmp_path: Path, opened: list[str]
) -> None:
    flags = flags_of(images, compression="gzip", num_shards=1)
    base = make_dataset(tmp_path / "base", **flags).folder
    opened.clear()
    check_same(base, tmp_path, **{**flags, "seed": 4, "num_shards": 3})
    assert len(opened) > 12


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["no hashes", "rows", "pixels"])
def test_a_base_without_readable_records_is_said_so(
    kind: str, images: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options: dict[str, dict[str, Any]] = {
        "no hashes": {"dedupe": "off"},
        "pixels": {"layout": pixel_layout(tmp_path), "label_from": "none"},
    }
    if kind == "rows":
        (tmp_path / "a.csv").write_text("a,b\n1,2\n")
        base = make_dataset(tmp_path / "base", labels=tmp_path / "a.csv", layout="rows").folder
    else:
        base = make_dataset(tmp_path / "base", **flags_of(images, **options[kind])).folder
    ran = check_same(base, tmp_path, **flags_of(images))
    assert "from their records" not in ran.out
    effect = "is not used further" if kind == "no hashes" else "has no effect"
    assert [line.partition(": ")[0] for line in caplog.messages] == [f"--reuse {base} {effect}"]
