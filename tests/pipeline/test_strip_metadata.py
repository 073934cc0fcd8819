"""`--strip_metadata`, and how many images carry GPS coordinates without it."""

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.conftest import draw
from tests.images import picture, saved
from tests.pipeline.commands import Dataset, check_sound, convert, digests, make_dataset
from tests.pipeline.reading import read

pytestmark = pytest.mark.slow

FLAGS: dict[str, Any] = {"label_from": r"regex:(\w)[^/]*$", "num_shards": 2}


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Six images: two with coordinates, one of them in XMP, and one with an empty directory."""
    for number in range(3):
        draw(tmp_path / "in" / f"plain-{number}.jpg", seed=number)
    place = Image.Exif()
    place.get_ifd(0x8825).update({1: "N", 2: (59.0, 19.0, 45.0), 3: "E", 4: (18.0, 4.0, 7.0)})
    empty = Image.Exif()
    empty.get_ifd(0x8825).update({0: b"\2\3\0\0"})
    xmp = b'<x:xmpmeta exif:GPSLatitude="59,19.75N"/>'
    kinds = {"place.jpg": {"exif": place}, "empty.jpg": {"exif": empty}, "xmp.webp": {"xmp": xmp}}
    for seed, (name, kept) in enumerate(kinds.items(), 9):
        image = picture("RGB", 12, 16, seed=seed)
        image.save(tmp_path / "in" / name, **kept)
    return tmp_path / "in"


def located(dataset: Dataset) -> int:
    """How many images have coordinates, as the dataset says."""
    found: int = json.loads((dataset.folder / "statistics.json").read_text()).get("gps", 0)
    page = (dataset.folder / "report.html").read_text()
    assert ("with the place in EXIF" in page) == bool(found)
    return found


def stored(dataset: Dataset) -> list[bytes]:
    return [record["image/encoded"] for record in read(dataset)]


def test_coordinates_are_counted(images: Path, tmp_path: Path) -> None:
    flags = {**FLAGS, "images": f"{images}/*"}
    assert located(make_dataset(tmp_path / "made", **flags)) == 2
    # Images that are stored as they are have them too, and changed ones do not.
    assert located(make_dataset(tmp_path / "kept", transcode="auto", **flags)) == 2
    assert located(make_dataset(tmp_path / "changed", resize="8x8", **flags)) == 0


def test_they_are_removed(images: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    flags = {**FLAGS, "images": f"{images}/*", "strip_metadata": True}
    made = make_dataset(tmp_path / "made" / "out", **flags)
    assert located(made) == 0
    assert not any(b"Exif" in data or b"GPS" in data for data in stored(made))
    plain = [path.read_bytes() for path in images.glob("plain-*")]
    assert set(plain) < set(stored(made))
    assert made.manifest["options"]["strip_metadata"] is True
    check_sound(made.folder)
    # A base with metadata is of no use; one without is in test_reuse_masks.py.
    base = make_dataset(tmp_path / "base", **{**flags, "strip_metadata": None})
    useless = convert(output=tmp_path / "useless" / "out", reuse=base.folder, **flags)
    assert useless.code == 0
    assert "it was made with another --strip_metadata" in caplog.text
    assert digests(tmp_path / "useless" / "out") == digests(made.folder)


def test_copies_with_other_metadata_are_one_image_afterwards(tmp_path: Path) -> None:
    """Exact duplicates are those of equal files; what is stored is compared as well."""
    plain = saved(picture("RGB", 12, 16, seed=1), "JPEG")
    (tmp_path / "a.jpg").write_bytes(plain)
    commented = plain[:2] + b"\xff\xfe\x00\x06secr" + plain[2:]
    (tmp_path / "b.jpg").write_bytes(commented)
    made = make_dataset(tmp_path / "out", images=f"{tmp_path}/*.jpg", strip_metadata=True, **FLAGS)
    assert stored(made) == [plain, plain]
