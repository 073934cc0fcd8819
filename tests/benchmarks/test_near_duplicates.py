"""The measurement of near-duplicates: copies of pictures are found, and a false pair shows."""

import io

import near_duplicates
import pytest
from near_duplicates import COPIES, copy_of, measure
from PIL import Image

from tests.images import saved, scene

PHOTOS = [saved(scene(number, 240, 320), "JPEG", quality=90) for number in range(3)]


def test_all_kinds_of_copies_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    few = ("JPEG, half", "PNG, half, `--transcode jpeg`", "TIFF, `--transcode auto`")
    monkeypatch.setattr(near_duplicates, "COPIES", {name: COPIES[name] for name in few})
    found = measure(PHOTOS, 2)
    assert [*found.distances] == [*few]
    assert all(len(each) == 2 and max(each) <= 3 for each in found.distances.values())
    assert (found.photos, found.pairs, found.false) == (3, 3, 0)
    again = measure([*PHOTOS, saved(scene(1, 240, 320), "JPEG", quality=60)], 0)
    assert (again.pairs, again.false, again.nearest <= 3) == (6, 1, True)


def test_a_copy_has_its_format_and_size() -> None:
    photo = Image.open(io.BytesIO(PHOTOS[0]))
    for copy in COPIES.values():
        other = Image.open(io.BytesIO(copy_of(photo, copy)))
        assert other.format == copy.format
        assert other.size == (round(320 * copy.scale), round(240 * copy.scale))
