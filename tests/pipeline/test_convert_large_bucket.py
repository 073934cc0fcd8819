"""What happens to a long listing: failing ranges, and names that are gone when they are read."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.images import saved
from tests.pipeline.commands import convert, digests, make_dataset
from tests.servers.gcs import GcsServer
from tests.servers.short_retries import retry_for
from transforms import join_labels, packing

pytestmark = pytest.mark.slow

FLAGS: dict[str, Any] = {"images": "gs://photos/in/*/*.jpg", "num_shards": 2}
OF_A_RANGE = {"kind": "list", "object": "photos", "match": r"startOffset=.*fields=items.*size"}


@pytest.fixture
def ranges(gcs: GcsServer, photos: Path, monkeypatch: pytest.MonkeyPatch) -> GcsServer:
    """Eighteen images, listed in ranges of a few names as on several machines."""
    gcs.make_bucket("photos")
    gcs.put_folder("photos", "in/", photos)
    monkeypatch.setattr(join_labels, "LISTED_NAMES", (4, 2, 4))
    monkeypatch.setattr(packing, "runs_in_process", lambda _: False)
    gcs.reset()
    gcs.set_page(2)
    return gcs


def test_ranges_of_images_and_masks_that_fail_ten_times_are_listed_once(
    ranges: GcsServer, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for photo in photos.glob("*/*.jpg"):
        mask = saved(Image.new("L", (16, 12)), "PNG")
        ranges.put("photos", f"masks/{photo.parent.name}/{photo.stem}.png", mask)
    retry_for(60, monkeypatch)
    of_kinds = [
        {**OF_A_RANGE, "match": rf"prefix={start}.*startOffset=.*fields=items.*size"}
        for start in ("in", "masks")
    ]
    ranges.set_faults([{**each, "status": 503, "count": 10} for each in of_kinds])
    flags = {**FLAGS, "masks": "gs://photos/masks/*/*.png"}
    dataset = make_dataset(tmp_path / "out", **flags)
    assert ranges.counts()["fault 503 GET list"] == 20
    all_of_them = ("images_matched", "records_written", "partners_matched", "partners_used")
    assert dataset.ledger == dict.fromkeys(all_of_them, 18)
    assert Counter(ranges.media_gets().values()) == {1: 36}


def test_a_range_that_goes_on_failing_ends_the_run_and_a_rerun_has_all_names(
    ranges: GcsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    retry_for(0.2, monkeypatch)
    ranges.set_faults([{**OF_A_RANGE, "status": 503}])
    ran = convert(output=tmp_path / "out", **FLAGS)
    assert ran.code == 1, ran.out
    assert "no answer in 0.2 s of retries" in ran.error()
    assert not ranges.media_gets()
    ranges.set_faults([])
    retry_for(60, monkeypatch)
    after = make_dataset(tmp_path / "out", **FLAGS)
    assert after.ledger["records_written"] == 18
    make_dataset(tmp_path / "undisturbed", **FLAGS)
    assert digests(tmp_path / "out") == digests(tmp_path / "undisturbed")


def test_a_prefix_that_disappears_after_it_was_listed(ranges: GcsServer, tmp_path: Path) -> None:
    gone = [{"before_media_of": rf"photos/in/dog/dog-{at}\.jpg", "delete": True} for at in range(6)]
    ranges.set_faults(gone)
    ran = convert(output=tmp_path / "out", **FLAGS, max_rejected="5")
    assert ran.code == 3, ran.out
    assert "6 of 18 images rejected, more than --max_rejected (5); nothing pub" in ran.error()
    assert "Left out: 6 unreadable" in ran.error()
    # The same command lists what is left, and all of it is converted.
    dataset = make_dataset(tmp_path / "out", **FLAGS)
    assert dataset.ledger["images_matched"] == dataset.ledger["records_written"] == 12
    assert dataset.rejected == []
