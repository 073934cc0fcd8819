"""One sample of the images, however many globs there are."""

import argparse
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from pipeline.errors import UsageError
from pipeline.resolve import path_flags
from pipeline.resolve import samples as image_samples
from pipeline.resolve.datasets import left_out
from pipeline.resolve.path_flags import plain_globs
from pipeline.resolve.samples import ImageSample, sample_images
from tests.servers.gcs import GcsServer
from transforms.input_readers import LeftOut
from transforms.storage.interface import FoundFile


class Storage:
    """Folders of a given number of images, and how many were listed of each."""

    def __init__(self, **counts: int) -> None:
        self._counts = counts
        self.listed: Counter[str] = Counter()

    def list_files(self, pattern: str) -> Iterator[FoundFile]:
        folder = pattern.partition("/")[0]
        for number in range(self._counts.get(folder, 0)):
            self.listed[folder] += 1
            yield FoundFile(f"{folder}/{number}.jpg", 1, 1)


def sampled(monkeypatch: pytest.MonkeyPatch, storage: Storage, *globs: str) -> ImageSample:
    monkeypatch.setattr(image_samples, "_SAMPLE", 100)
    monkeypatch.setattr(path_flags, "storage_of", lambda path: storage)
    return sample_images([*globs], "", LeftOut())


@pytest.mark.parametrize(
    ("counts", "is_all"), [((90, 0, 9), True), ((2, 96, 2), True), ((90, 9, 2), False)]
)
def test_one_sample_of_all_globs(
    counts: tuple[int, int, int], is_all: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = Storage(**dict(zip("abc", counts, strict=True)))
    sample = sampled(monkeypatch, storage, "{a,b}/*", "c/*")
    assert (len(sample.uris), sample.is_all) == (min(sum(counts), 100), is_all)
    folders = Counter(uri[0] for uri in sample.uris)
    assert all(folders[name] >= min(count, 33) for name, count in zip("abc", counts, strict=True))


def test_many_long_globs_are_listed_to_twice_the_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"f{number}" for number in range(300)]
    storage = Storage(**dict.fromkeys(names, 1000))
    sample = sampled(monkeypatch, storage, *(f"{name}/*" for name in names[:30]))
    assert (len(sample.uris), sample.is_all) == (100, False)
    assert sum(storage.listed.values()) <= 200
    with pytest.raises(UsageError, match="--images names more than 4000 globs: use"):
        plain_globs(["{a,b}" * 11] * 2, "--images")
    # One image of each glob shows that it matches; the second, that it has more.
    storage.listed.clear()
    sample = sampled(monkeypatch, storage, *(f"{name}/*" for name in names))
    assert (len(sample.uris), sample.is_all) == (300, False)
    assert sum(storage.listed.values()) == 600


def test_a_sample_of_a_bucket_is_a_page_a_glob(
    gcs: GcsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_samples, "_SAMPLE", 20)
    gcs.make_bucket("photos")
    for number in range(60):
        gcs.put("photos", f"{number % 4}/{number:02}.jpg", b"x")
    gcs.set_page(10)
    globs = [f"gs://photos/{folder}/*.jpg" for folder in range(4)]
    sample = sample_images(globs, "gs://photos", LeftOut())
    assert (len(sample.uris), sample.is_all) == (20, False)
    # Of 8 pages.
    assert gcs.counts() == {"GET list": 4}


def test_label_files_that_one_of_thousands_of_globs_matches() -> None:
    """Twelve thousand globs took 22 CPU seconds, compiled again for each file."""
    globs = [f"/{number}/*.jpg" for number in range(2000)]
    given = {"class_names": None, "keys": None, "layout": "slim", "output": "/out"}
    flags = argparse.Namespace(**given, images=[*globs, "/labels/*"])
    labels = [*(f"/labels/{number}.csv" for number in range(2000)), "/a/1.csv"]
    started = time.process_time()
    found, decisions = left_out(flags, labels)
    assert found.has("/labels/7.csv") and not found.has("/a/1.csv") and len(decisions) == 2000
    assert time.process_time() - started < 3
