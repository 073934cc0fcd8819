"""The parts of the benchmarks that can be wrong without a stopwatch."""

from __future__ import annotations

import json
import struct
import sys
import tarfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import compare
import jobs
import measure
import planning
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import report
import scaling
from PIL import Image

from transforms.examples.tfrecord import masked_crc32c

MB = 10**6
CRASH = "import sys; print('first'); sys.exit('no such peer')"


def _run(seconds: float, megabytes: float = 100) -> measure.Run:
    """A run as it would be measured."""
    size = int(megabytes * MB)
    return measure.Run(seconds, size, size, code=0, core_seconds=2 * seconds)


def _frame(payload: bytes) -> bytes:
    """A TFRecord frame."""
    length = struct.pack("<Q", len(payload))
    crcs = [struct.pack("<I", masked_crc32c(part)) for part in (length, payload)]
    return length + crcs[0] + payload + crcs[1]


@pytest.fixture
def results() -> dict[str, jobs.Result]:
    """Two rounds of everything; the second took twice as long, and Ray has no environment."""
    once = {"ours": 4, "ours-header": 3, "floor": 3, "tf-loop": 12, "plain-beam": 40, "tfds": 8}
    once |= {"import-beam": 1, "ours-one": 2, "floor-one": 1, "ours-bare": 3.9, "ours-rerun": 0.8}
    sizes = {"ours": 280, "plain-beam": 4000}
    measured = {
        name: jobs.Result([_run(s, sizes.get(name, 100)), _run(2 * s, sizes.get(name, 100))], "")
        for name, s in once.items()
    }
    return measured | {"ray": jobs.Result([], "no environment")}


@pytest.fixture
def photo_set() -> jobs.PhotoSet:
    """The set that was converted."""
    return jobs.PhotoSet(images="*.jpg", labels=Path("labels.csv"), total=60, size=6 * MB)


def test_a_paired_ratio_ignores_what_slows_a_whole_round() -> None:
    assert report.paired_ratio([2, 20, 4.2], [1, 10, 2]) == pytest.approx(2.0)


def test_a_table_is_aligned() -> None:
    table = report.markdown_table(["", "seconds"], [["ours", "1.25"], ["a longer name", "10.00"]])
    assert table.splitlines() == [
        "|               | seconds |",
        "| :------------ | ------: |",
        "| ours          |    1.25 |",
        "| a longer name |   10.00 |",
    ]


def test_each_contender_has_a_row_and_a_failed_one_says_so(
    results: dict[str, jobs.Result], photo_set: jobs.PhotoSet
) -> None:
    rows = compare.result_table(results, photo_set).splitlines()[2:]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    assert len(cells) == len(results)
    assert cells[0] == [compare.CONTENDERS["ours"], "6.00", "4.00 to 8.00", "12.00"] + [
        "10",
        "1.00",
        "280",
        "280",
    ]
    assert cells[3][5] == "3.00"
    assert cells[-1][:2] == [compare.CONTENDERS["ray"], "failed"]


def test_targets_are_ratios_of_the_same_round(results: dict[str, jobs.Result]) -> None:
    planned = planning.Planning(10**6, 10**6, 1, 0.1, 40.0, 100 * MB, 800 * MB)
    found = {target.text: target for target in compare.find_targets(results, planned)}
    assert found["times as fast as the loop"].value == pytest.approx(3)
    assert found["share of plain Beam's memory"].value == pytest.approx(0.07)
    assert found["steady state, share of the floor"].value == pytest.approx(1)
    bare = found["duplicates, statistics and report: times a run without them"]
    assert bare.value == found["the same, time of the cores"].value == pytest.approx(4 / 3.9)
    assert found["one image: times import apache_beam"].value == pytest.approx(2)
    assert found["nothing to do: times import apache_beam"].value == pytest.approx(0.8)
    assert found["planning: us a name"].value == pytest.approx(40)
    assert found["planning: bytes a name"].value == pytest.approx(700)
    relative = found["planning a million names: times import apache_beam"]
    assert relative.value == pytest.approx(40 / 1.5)
    assert [target.text for target in found.values() if not target.holds] == [
        "one image: times import apache_beam",
        "planning: us a name",
    ]


def test_the_figures_are_json(results: dict[str, jobs.Result], photo_set: jobs.PhotoSet) -> None:
    figures = compare.to_json(results, photo_set, compare.find_targets(results))
    shown = json.loads(json.dumps(figures))["jobs"]
    assert shown["tf-loop"]["ratio_to_ours"] == 3
    assert shown["ray"] == {
        "title": compare.CONTENDERS["ray"],
        "failure": "no environment",
        "seconds": [],
        "core_seconds": [],
        "tree_bytes": [],
        "process_bytes": [],
        "ratio_to_ours": None,
    }


def test_the_svg_is_well_formed_and_shows_every_contender(
    results: dict[str, jobs.Result], tmp_path: Path
) -> None:
    bars = [*compare.make_bars(results), report.Bar("<a & b>", *[report.spread([1, 2])] * 2, False)]
    path = tmp_path / "bars.svg"
    report.write_picture(path, 'a "title"', bars)
    texts = [element.text for element in ElementTree.parse(path).iter() if element.text]
    assert {bar.title for bar in bars} <= set(texts)
    assert "6.0 s (4.0 to 8.0)" in texts


def test_the_png_is_an_image_of_the_same_shape(
    results: dict[str, jobs.Result], tmp_path: Path
) -> None:
    bars = compare.make_bars(results)
    report.write_picture(tmp_path / "bars.png", "title", bars)
    with Image.open(tmp_path / "bars.png") as image:
        assert image.height == 2 * report.picture_height(bars)


def test_memory_that_only_a_grandchild_has_is_seen(tmp_path: Path) -> None:
    hungry = "import time; block = b'x' * 100_000_000; time.sleep(0.3)"
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {hungry!r}])"
    taken = measure.run([sys.executable, "-c", child], log=tmp_path / "log")
    assert taken.code == 0
    assert taken.seconds > 0.3
    assert 100 * MB < taken.process_bytes < 150 * MB
    assert taken.process_bytes < taken.tree_bytes < 200 * MB


def test_a_command_that_hangs_is_ended(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    taken = measure.run(command, log=tmp_path / "log", timeout=0.3)
    assert taken.code < 0
    assert taken.seconds < 30


def test_records_are_counted_over_all_shards(tmp_path: Path) -> None:
    for number in range(3):
        records = b"".join(_frame(b"x" * size) for size in range(number + 1))
        (tmp_path / f"train-{number:05d}-of-00003.tfrecord").write_bytes(records)
    (tmp_path / "manifest.json").write_text("{}", encoding="utf-8")
    assert jobs.count_records(tmp_path) == 6


def test_records_of_other_formats_are_counted(tmp_path: Path) -> None:
    (tmp_path / "index.json").write_text('{"shards": [{"samples": 2}, {"samples": 1}]}')
    assert jobs.count_records(tmp_path, "mosaic") == 3
    (tmp_path / "index.json").write_text('{"chunks": [{"chunk_size": 4}]}')
    assert jobs.count_records(tmp_path, "litdata") == 4
    for number in range(2):
        pq.write_table(pa.table({"label": [1, 2, 3]}), tmp_path / f"train-{number}.parquet")
    assert jobs.count_records(tmp_path, "datasets") == 6
    with tarfile.open(tmp_path / "train-00000.tar", "w") as tar:
        for name in ("a.jpeg", "a.json", "b.jpeg", "b.json"):
            tar.addfile(tarfile.TarInfo(name))
    assert jobs.count_records(tmp_path, "webdataset") == 2


@pytest.mark.parametrize(
    "code, reason",
    [(CRASH, "exit code 1: no such peer"), ("", "0 records in 0 shards instead of 3 in 8")],
)
def test_a_contender_that_fails_is_left_out_and_the_others_go_on(
    tmp_path: Path, code: str, reason: str
) -> None:
    bad = jobs.Job("tfds", [sys.executable, "-c", code], tmp_path / "output", 3)
    good = jobs.Job("import-beam", [sys.executable, "-c", ""], None, 0)
    said: list[str] = []
    results = compare.run_rounds([bad, good], 2, tmp_path, say=said.append)
    assert results["tfds"] == jobs.Result([], reason)
    assert len(results["import-beam"].runs) == 2
    assert len(said) == 4


def test_the_set_of_the_first_image_has_its_label(tmp_path: Path) -> None:
    (tmp_path / "b.jpg").write_bytes(b"second")
    (tmp_path / "a.jpg").write_bytes(b"first")
    labels = tmp_path / "labels.csv"
    labels.write_text("id,label\nb,two\na,one\n", encoding="utf-8")
    photos = jobs.describe_set(str(tmp_path / "*.jpg"), labels)
    assert (photos.total, photos.size) == (2, 11)
    one = jobs.first_of(photos, tmp_path / "one")
    assert (one.total, one.size) == (1, 5)
    assert one.labels.read_text(encoding="utf-8") == "id,label\na,one\n"


def test_growth_is_fitted_and_what_images_may_take_is_taken_off() -> None:
    sizes = [
        scaling.Size(
            images=count,
            image_bytes=count * 100_000,
            seconds=[2 + 0.002 * count, 2 + 0.002 * count + 9, 2 + 0.002 * count - 1],
            peak_bytes=[200 * MB + 500 * count, 100 * MB],
        )
        for count in (1000, 2000, 4000, 8000)
    ]
    growth = scaling.grow(sizes)
    assert growth.seconds == pytest.approx((2, 0.002))
    assert growth.peak_bytes == pytest.approx((200 * MB, 500))
    assert growth.bytes_per_second == pytest.approx(50 * MB)
    assert growth.excess == pytest.approx(-3.5 / 200.5)
    assert "200 MB + 0.50 KB an image" in scaling.size_lines(sizes, growth)


def test_planning_is_shown_for_each_name() -> None:
    taken = {
        count: [planning.Planning(count, count, 1, 0.1, 1 + count * 3e-5, 0, 8 * MB + 600 * count)]
        for count in (100_000, 1_000_000)
    }
    lines = scaling.plan_lines(taken)
    assert "seconds = 1.00 + 30.0 us a name" in lines
    assert "memory = 8 MB + 600 bytes a name" in lines


def test_photos_are_multiplied_by_links_with_labels(tmp_path: Path) -> None:
    folder = tmp_path / "base" / "images" / "beach"
    folder.mkdir(parents=True)
    (folder / "beach_0.jpg").write_bytes(b"jpeg")
    (tmp_path / "base" / "labels.csv").write_text("id,label\nbeach_0,beach\n", encoding="utf-8")
    scaling.multiply_photos(tmp_path / "base", tmp_path / "two", 2)
    photos = sorted((tmp_path / "two" / "images" / "beach").iterdir())
    assert [photo.name for photo in photos] == ["beach_0_0.jpg", "beach_0_1.jpg"]
    assert photos[0].samefile(folder / "beach_0.jpg")
    labels = (tmp_path / "two" / "labels.csv").read_text(encoding="utf-8")
    assert labels == "id,label\nbeach_0_0,beach\nbeach_0_1,beach\n"
