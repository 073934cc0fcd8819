"""Images that rows list are looked up alike in one process and on several machines."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.servers.gcs import GcsServer
from tests.transforms.beam import collect
from transforms import input_readers, packing
from transforms.input_readers import ImageFinder, RowImages, RowReader
from transforms.join_labels import ReadInputs
from transforms.labels.label_rows import Column, CsvColumns
from transforms.labels.label_rules import PathRules
from transforms.storage.interface import READERS, Stored

COLUMNS = CsvColumns(Column(0, "image"), Column(1, "label"), 2)
RULES = PathRules("directory", "", False)


def inputs(path: str, root: str, rules: PathRules) -> dict[str, list[Any]]:
    """What `ReadInputs` gives for a label file."""
    images = RowImages(root=root, key="path", rules=rules)
    reader = RowReader(COLUMNS, key="path", encoding="utf-8", images=images)
    finder = ImageFinder(root=root, key="path", rules=rules)
    read = collect(
        lambda pipeline: (pipeline | "Read" >> ReadInputs([], finder, [path], reader))._asdict()
    )
    labels = [each._asdict() for each in read.pop("labels")]
    numbers = ("integers", "others", "missing")
    return {
        **read,
        "labels": [{name: sum(each.get(name, 0) for each in labels) for name in numbers}],
    }


@pytest.mark.parametrize("rules", [PathRules("csv", "", False), RULES])
def test_every_runner_finds_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rules: PathRules
) -> None:
    for name in ("cat/a.jpg", "dog/b.jpg"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(name.encode())
    path = tmp_path / "list.csv"
    rows = ["cat/a.jpg,cat", "dog/b.jpg,7", "cat/none.jpg,dog", ",cat", "dog/b.jpg,1,more"]
    path.write_text("\n".join(["image,label", *rows]))
    here = inputs(str(path), str(tmp_path), rules)
    monkeypatch.setattr(packing, "runs_in_process", lambda _: False)
    assert inputs(str(path), str(tmp_path), rules) == here
    assert len(here["sides"]) == 6
    assert len(here["rejections"]) == 2
    images = {side.path for _, side in here["sides"] if side.is_image}
    assert images == {"cat/a.jpg", "dog/b.jpg", "cat/none.jpg"}


def test_one_request_a_row(gcs: GcsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    gcs.make_bucket("photos")
    for number in range(40):
        gcs.put("photos", f"{number}.jpg", b"x")
    lines = "".join(f"gs://photos/{number}.jpg,cat\n" for number in range(40))
    gcs.put("photos", "list.csv", f"image,label\n{lines}".encode())
    monkeypatch.setattr(packing, "runs_in_process", lambda _: False)
    gcs.reset()
    found = inputs("gs://photos/list.csv", "gs://photos", PathRules("csv", "", False))
    assert len(found["sides"]) == 80
    looked_up = Counter(
        target for method, target in gcs.log() if method == "GET" and "jpg" in target
    )
    assert (len(looked_up), looked_up.total()) == (40, 40)


def test_as_many_requests_at_once_as_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    together = threading.Barrier(READERS)
    lock, active, widest = threading.Lock(), 0, 0

    def find(_: str) -> Stored:
        nonlocal active, widest
        with lock:
            active += 1
            widest = max(widest, active)
        # Waits until all threads are here: it would fail if there were fewer.
        together.wait(timeout=60)
        with lock:
            active -= 1
        return Stored(1, 1)

    monkeypatch.setattr(input_readers, "find_listed", find)
    path = tmp_path / "list.csv"
    rows = (f"{number}.jpg,cat" for number in range(2 * READERS))
    path.write_text("\n".join(["image,label", *rows]))
    monkeypatch.setattr(packing, "runs_in_process", lambda _: False)
    found = inputs(str(path), str(tmp_path), PathRules("csv", "", False))
    assert len(found["sides"]) == 4 * READERS
    assert widest == READERS
