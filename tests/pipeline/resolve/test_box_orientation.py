"""Images that EXIF turns tell whether boxes are of the stored pixels or of the upright picture."""

from pathlib import Path

import pytest

from pipeline.errors import UsageError
from pipeline.resolve.layout_flags import with_orientation
from tests.images import picture, saved
from tests.marks import cases
from transforms.core.messages import Decision
from transforms.examples.boxes import BoxRules
from transforms.images.tags import exif_of
from transforms.labels.label_rows import LabelRow
from transforms.storage.local_storage import LocalStorage

COLUMNS = ("xmin", "ymin", "xmax", "ymax")

# Of 16 pixels by 12 that EXIF shows as 12 by 16.
WIDE, HIGH, BOTH = "0,0,16,12", "0,0,12,16", "0,0,12,12"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """`side.jpg` and `other.jpg`, which EXIF turns; `plain.jpg`; and a non-image."""
    for name, tag in (("side", 6), ("other", 8), ("plain", 1)):
        data = saved(picture("RGB", 12, 16), "JPEG", exif=exif_of(tag))
        (tmp_path / f"{name}.jpg").write_bytes(data)
    (tmp_path / "cut.jpg").write_bytes(b"\xff\xd8\xff")
    return tmp_path


def decided(
    folder: Path, *rows: str, units: str = "pixel", flag: str = ""
) -> tuple[BoxRules, Decision]:
    """Rows like `side 0,0,1,1`."""
    parsed = [
        LabelRow(name, "x", line, cells=tuple(cells.split(",")))
        for line, (name, cells) in enumerate(map(str.split, rows), 2)
    ]
    rules = BoxRules(COLUMNS, units=units, orientation=flag)

    def locate(row: LabelRow) -> str | None:
        return None if row.key == "unknown" else f"{folder}/{row.key}.jpg"

    return with_orientation(rules, parsed, COLUMNS, locate)


@cases(
    ([f"side {BOTH}", f"side {HIGH}"], "upright",
     "only this fits the box in line 3, {}/side.jpg"),
    ([f"other {WIDE}"], "stored", "only this fits the box in line 2, {}/other.jpg"),
    ([f"side {BOTH}", f"other {BOTH}"], "stored",
     "default: boxes fit both ways in 2 images that EXIF rotates"),
    ([f"plain {WIDE}", "cut 0,0,9,9", "gone 0,0,9,9", "unknown 0,0,9,9", "plain ,x,1,1"],
     "stored", "default: EXIF turns none of the first 3 images"),
)  # fmt: skip
def test_what_images_show(rows: list[str], orientation: str, because: str, folder: Path) -> None:
    rules, decision = decided(folder, *rows)
    assert rules.orientation == orientation
    assert decision.because == because.format(folder)
    assert decision.flag == "--boxes"


def test_boxes_that_contradict_each_other(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"contradict each other: line 3, .*, line 2, "):
        decided(folder, f"side {HIGH}", f"other {WIDE}")


@pytest.mark.parametrize(("units", "flag"), [("normalized", None), ("pixel", "upright")])
def test_no_image_is_read_for_nothing(
    folder: Path, units: str, flag: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalStorage, "read_range", None)
    rules, decision = decided(folder, f"side {HIGH}", units=units, flag=flag)
    assert rules.orientation == (flag or "stored")
    assert decision.because == ("given" if flag else "default: normalized boxes give no evidence")


def test_few_images_are_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def read_range(_: LocalStorage, path: str, offset: int, length: int) -> bytes:
        read.append(path)
        return b""

    monkeypatch.setattr(LocalStorage, "read_range", read_range)
    decided(folder, *(f"{number // 2} {WIDE}" for number in range(200)))
    assert len(read) == len(set(read)) == 32
