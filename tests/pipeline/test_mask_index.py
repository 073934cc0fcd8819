"""What the index says of masks and further images: for `--reuse`, `plan`, `diff` and `verify`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pipeline.diff
from tests.conftest import draw
from tests.marks import rest_slow
from tests.pipeline.commands import (
    Dataset,
    check_sound,
    convert,
    digests,
    make_dataset,
    plan,
    run_here,
    verify,
)
from tests.pipeline.paired import COUNT, draw_mask, flags_of, new_pair, with_layout, write_pairs
from tests.pipeline.reusing import check_same
from transforms.core.messages import format_bytes
from transforms.dataset.manifest import crc32c_hex, to_bytes
from transforms.examples.tfrecord import masked_crc32c
from transforms.records.record_index import HEAD_BYTES, PARTNERS, index_bytes, read_index


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    """See `write_pairs`."""
    return write_pairs(tmp_path / "in")


def edited(base: Dataset, change: Callable[[Any], Any]) -> None:
    """Changes all indexes, and the manifest as if they had been written so."""
    manifest = base.manifest
    for entry in manifest["index"]:
        path = base.folder / entry["file"]
        data = index_bytes(change(read_index(path.read_bytes(), "x")))
        path.write_bytes(data)
        entry |= {"bytes": len(data), "crc32c": crc32c_hex(data)}
    manifest.pop("digest")
    (base.folder / "manifest.json").write_bytes(to_bytes(manifest))


def with_partners(table: Any, **values: Any) -> Any:
    """An index with other values of all masks."""
    import pyarrow as pa

    at, field = table.schema.get_field_index(PARTNERS), table.schema.field(PARTNERS)
    column = [[{**each, **values} for each in row] for row in table.column(PARTNERS).to_pylist()]
    return table.set_column(at, field, pa.array(column, field.type))


DAMAGES: dict[str, tuple[int, bool]] = {
    # The files that are opened of 16, and whether a line says so.
    "other bytes": (2, True),
    "no column": (COUNT, False),
    "no roots": (COUNT, False),
    "no path": (COUNT, False),
    "no entry": (COUNT, False),
    "no version": (COUNT, False),
    "other content": (2 * COUNT, True),
    "other length": (0, False),
}


@pytest.mark.parametrize("damage", rest_slow(list(DAMAGES)))
def test_a_damaged_base_gives_the_same_bytes(
    damage: str,
    inputs: Path,
    tmp_path: Path,
    opened: list[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    flags = flags_of(inputs)
    base = make_dataset(tmp_path / "base", **flags)
    match damage:
        case "other bytes":
            # A sound record of the same length, with another pixel: only the hash tells.
            name = next(name for name in base.shards() if (base.folder / name).stat().st_size)
            data = bytearray((base.folder / name).read_bytes())
            end = HEAD_BYTES + int.from_bytes(data[:8], "little")
            data[data.rindex(b"IDAT", 0, end) + 20] ^= 1
            data[end : end + 4] = masked_crc32c(bytes(data[HEAD_BYTES:end])).to_bytes(4, "little")
            (base.folder / name).write_bytes(data)
        case "no column":
            # As of a version that did not write it.
            edited(base, lambda table: table.drop_columns([PARTNERS]))
        case "no roots":
            manifest = base.manifest
            del manifest["partners"], manifest["digest"]
            (base.folder / "manifest.json").write_bytes(to_bytes(manifest))
        case "no path":
            edited(base, lambda table: with_partners(table, path=None))
        case "no entry":
            edited(base, lambda table: with_partners(table, name="masks.other"))
        case "no version":
            edited(base, lambda table: with_partners(table, version=0))
        case "other content":
            edited(base, lambda table: with_partners(table, content=bytes(16)))
        case "other length":
            edited(base, lambda table: with_partners(table, length=2**60))
    others = {**flags, "seed": 4}
    fresh = make_dataset(tmp_path / "fresh" / "out", **others)
    opened.clear()
    ran = convert(output=tmp_path / "reused" / "out", reuse=base.folder, **others)
    assert ran.code == 0, ran.err
    assert digests(tmp_path / "reused" / "out") == digests(fresh.folder)
    count, is_said = DAMAGES[damage]
    assert len(opened) == count
    assert bool(caplog.messages) == is_said
    for line in caplog.messages:
        assert line.startswith("originals are read instead of some records of ")
        assert line.endswith("a mask or further image is not that of the index")
    # Shards that may be copied whole, if the hashes in their index are right.
    if damage != "other content":
        check_same(base.folder, tmp_path, **flags)


def test_plan_and_diff_count_masks(inputs: Path, tmp_path: Path) -> None:
    flags = flags_of(inputs)
    base = make_dataset(tmp_path / "base", **flags).folder
    draw_mask(inputs / "masks" / "1.png", seed=91)
    draw(inputs / "photos" / "a" / "2.jpg", seed=92)
    new_pair(inputs)
    files = ["masks/1.png", "photos/a/2.jpg", "masks/2.png", "photos/a/new.jpg", "masks/new.png"]
    size = sum((inputs / name).stat().st_size for name in files)
    lines = plan(output=tmp_path / "out", reuse=base, **flags).out.splitlines()
    assert f"reused   {COUNT - 1} images from their records (--reuse)" in lines
    assert f"read     5 originals, {format_bytes(size)}" in lines
    [requests] = [line for line in lines if line.startswith("requests ")]
    assert " 5 for originals, " in requests
    assert "  pixels      1 to be read again: '2'" in lines
    again = "  partners    2 with a mask or further image to be read again: '1', '2'"
    assert again in lines
    made = make_dataset(tmp_path / "out", reuse=base, **flags)
    found = run_here(pipeline.diff.main, "diff", [str(base), str(made.folder)])
    # The mask of the second one is the same.
    assert "partners    1 with another mask or further image: '1'" in found.out.splitlines()
    assert found.out.endswith(": 1 added, 1 pixels, 1 originals, 1 partners\n")
    found = run_here(pipeline.diff.main, "diff", ["--json", str(base), str(made.folder)])
    assert '{"change": "partners", "key": "1"}' in found.out.splitlines()
    same = plan(output=tmp_path / "again", reuse=made.folder, **flags).out.splitlines()
    assert any("0 for originals, 0 for records" in line for line in same)
    assert "  partners    0 with a mask or further image to be read again" in same


def test_verify_compares_masks_with_the_index(inputs: Path, tmp_path: Path) -> None:
    made = make_dataset(tmp_path / "out", **{**with_layout(inputs), "num_shards": 1})
    check_sound(made.folder)
    edited(made, lambda table: with_partners(table, content=bytes(16), path="x"))
    ran = verify(made.folder)
    assert ran.code == 1
    for problem in ("its images.right.path is '", "its images.right.bytes is '"):
        assert f"record 0: {problem}" in ran.out
    assert "its masks.hand.bytes is '" in ran.out


def test_another_dataset_of_these_masks_says_so(inputs: Path, tmp_path: Path) -> None:
    made = make_dataset(tmp_path / "out", **flags_of(inputs))
    assert made.manifest["partners"] == {"mask": f"{inputs}/masks"}
    assert "up to date" in convert(output=made.folder, **flags_of(inputs)).out
    draw_mask(inputs / "masks" / "1.png", seed=91)
    ran = convert(output=made.folder, **flags_of(inputs))
    assert "of other inputs (images, masks or labels were added" in ran.error()
