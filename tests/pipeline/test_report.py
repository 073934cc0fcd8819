"""`report.html`: what is in it, that it is made again the same, and what it does without."""

import base64
import functools
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.marks import cases, rest_slow
from tests.pipeline.commands import Dataset, check_ended, convert, make_dataset, run
from tests.pipeline.reusing import write_manifest
from tests.servers.gcs import GcsServer
from transforms.write_report import dataset_name

make_report = functools.partial(run, "report")


def flags_of(sample: Path) -> dict[str, Any]:
    """Flags of a conversion of the sample."""
    flags = {"images": f"{sample}/images/*/*", "labels": sample / "labels.csv", "num_shards": 2}
    return {**flags, "splits": "train=0.7,validation=0.3", "max_rejected": "50%"}


@pytest.fixture(scope="module")
def made(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """The sample with statistics, its report not made again yet."""
    return make_dataset(tmp_path_factory.mktemp("report") / "out", **flags_of(sample))


def page_of(dataset: Dataset) -> str:
    """The report, made now, without the places where lines may break."""
    ran = make_report(dataset.folder)
    assert (ran.code, ran.err) == (0, "")
    return (dataset.folder / "report.html").read_text("utf-8").replace("<wbr>", "")


def pictures(page: str, pattern: str) -> dict[str, Image.Image]:
    """The decoded pictures whose `alt` matches a pattern, by `alt`."""
    found = re.findall(r'alt="([^"]*)"[^>]* src="data:image/jpeg;base64,([^"]+)"', page)
    return {
        alt: Image.open(io.BytesIO(base64.b64decode(data)))
        for alt, data in found
        if re.fullmatch(pattern, alt)
    }


@cases(
    *(("out/photos", "photos"), ("out/photos/", "photos"), (".", "here"), ("/", "/")),
    *(("gs://bucket/datasets/photos", "photos"), ("gs://bucket", "bucket")),
)
def test_the_name_of_a_dataset_is_that_of_its_folder(
    output: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert dataset_name(output) == name


def test_pictures_are_those_of_the_records(made: Dataset, sample: Path) -> None:
    """Each sample looks like its own file, more than like any other one."""

    def look(image: Image.Image) -> list[int]:
        return list(image.convert("RGB").resize((8, 8)).tobytes())

    paths = sample.glob("images/*/*-0?.*")
    files = {path.stem: look(Image.open(io.BytesIO(path.read_bytes()))) for path in paths}
    shown = pictures(page_of(made), r"\w+-0\d, \w+")
    assert len(shown) > 15
    for alt, picture in shown.items():
        seen = look(picture)
        distance = {
            stem: sum(abs(a - b) for a, b in zip(seen, file, strict=True))
            for stem, file in files.items()
        }
        assert min(distance, key=lambda stem: distance[stem]) == alt.split(", ")[0]
        assert 96 <= max(picture.size) <= 320 * 4 // 3


def test_pictures_of_rejected_files_as_far_as_they_go(dataset: Dataset) -> None:
    decoded = "what can be decoded of .*"
    names = [alt.rpartition("/")[2] for alt in pictures(page_of(dataset), decoded)]
    assert sorted(names) == ["triangles-cut.jpg", "triangles-unlisted.jpg"]
    lines = "".join(f"{json.dumps({**line, 'path': 'gone'})}\n" for line in dataset.rejected)
    (dataset.folder / "rejected.jsonl").write_text(lines)
    assert not pictures(page_of(dataset), decoded)


def test_a_rerun_makes_the_report_that_a_killed_run_left_out(
    sample: Path, dataset: Dataset
) -> None:
    """Killed after the manifest: everything else is up to date."""
    page, report_file = page_of(dataset), dataset.folder / "report.html"
    report_file.unlink()
    check_ended(convert(output=dataset.folder, **flags_of(sample)), 0, "up to date")
    assert report_file.read_text().replace("<wbr>", "") == page


def test_duplicates_are_side_by_side(made: Dataset) -> None:
    page = page_of(made)
    for twin in ("stripes/stripes-again.jpg", "checkers/checkers-mistaken.jpg"):
        assert page.count(f"<code>{twin}</code>") == 1
    # The files of a group are the same: one picture shows them all, or each next to its own label.
    groups = re.findall(r"<figure class=\"group\".*?</figure>", page, re.DOTALL)
    assert groups and all("<img" in group for group in groups)
    [conflict] = [group for group in groups if "different classes" in group]
    assert conflict.count("<img") == conflict.count("<li>") == 2
    assert "different classes" in page and "2 groups with 4 images" in page


def test_without_statistics_there_is_a_page_without_them(dataset: Dataset) -> None:
    (dataset.folder / "statistics.json").unlink()
    page = page_of(dataset)
    assert "statistics.json is missing" in page
    assert 'id="class-table"' in page and 'id="duplicates"' not in page
    manifest = dataset.manifest
    del manifest["files"]["statistics.json"]
    write_manifest(dataset, manifest)
    assert ">Warnings<" not in page_of(dataset)


DAMAGED_STATISTICS = [
    *("[", "[]", "{}", '{"formats": 3}', '{"samples": null, "duplicates": null}'),
    '{"samples": [{}]}',
    '{"samples": [{"file": "x", "offset": 0, "length": 9}]}',
    '{"width": {"bins": {"a": 1}}}',
    '{"images": 1, "width": {"min": 1, "max": 2, "sum": 1, "bins": {"-4000": 1, "4000": 1}}}',
    '{"duplicates": {"exact": {"listed": [{}]}}}',
]


@pytest.mark.parametrize("content", rest_slow(DAMAGED_STATISTICS))
def test_damaged_statistics_cost_no_more_than_themselves(dataset: Dataset, content: str) -> None:
    (dataset.folder / "statistics.json").write_text(content)
    assert 'id="class-table"' in page_of(dataset)


def test_a_missing_shard_is_reported_in_the_page(dataset: Dataset) -> None:
    gone = dataset.folder / dataset.shards("train")[0]
    gone.unlink()
    page = page_of(dataset)
    assert "1 shard missing" in page and f"<code>{gone.name}</code>" in page


def test_a_page_that_cannot_be_written(dataset: Dataset) -> None:
    (dataset.folder / "report.html").unlink()
    (dataset.folder / "report.html").mkdir()
    check_ended(make_report(dataset.folder), 1, "cannot write")


@pytest.mark.slow
def test_a_dataset_in_a_bucket(gcs: GcsServer, made: Dataset) -> None:
    """The same page, from one request for each picture."""
    gcs.make_bucket("datasets")
    page_of(made)
    gcs.put_folder("datasets", "out/", made.folder)
    check_ended(make_report("gs://datasets/out"), 0)
    expected = (made.folder / "report.html").read_bytes()
    assert gcs.get("datasets", "out/report.html") == expected
