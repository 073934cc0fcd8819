"""The step that writes the report never takes a dataset away, and reads no more than it shows."""

from __future__ import annotations

import itertools
import json
import logging
import os
import random
import shutil
from collections import Counter
from json import loads
from pathlib import Path
from typing import Any

import pytest

from pipeline.resolve.config import ConvertConfig
from tests.images import picture, saved
from tests.transforms.beam import convert, convert_images, copy_converted, make_config, make_images
from transforms import write_report
from transforms import write_report as report_images
from transforms.core.rejections import Reason, Rejection
from transforms.dataset.manifest import content_digest, crc32c_hex, manifest_shards
from transforms.dataset.output_names import STATISTICS
from transforms.images.guard import DecodingChild
from transforms.storage.local_storage import LocalStorage
from transforms.write_report import MAX_LISTED, make_report, picture_records, picture_rejected

NAMES = [f"{label}/{number}.jpg" for label in ("cat", "dog") for number in range(20)]


@pytest.fixture
def config(tmp_path: Path) -> ConvertConfig:
    """A dataset of forty images, not made yet."""
    make_images(tmp_path / "images", NAMES)
    return make_config(tmp_path / "images", tmp_path / "out")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The images and, next to them, the dataset."""
    return convert_images(tmp_path_factory.mktemp("made"), NAMES)


@pytest.fixture
def published(made: Path, tmp_path: Path) -> ConvertConfig:
    """A copy of the dataset."""
    return copy_converted(made, tmp_path)


def manifest_of(output: Path) -> dict[str, Any]:
    return dict(json.loads((output / "manifest.json").read_text()))


def statistics_of(folder: Path) -> Any:
    """What `statistics.json` says."""
    return json.loads((folder / STATISTICS).read_text("utf-8"))


def test_a_report_that_fails_leaves_the_dataset_published(
    config: ConvertConfig,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(output: str, manifest: Any) -> str:
        raise RuntimeError("no room\nat all")

    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        patch.setattr(write_report, "make_report", fail)
        convert(config)
    assert manifest_of(tmp_path / "out")["ledger"]["records_written"] == 40
    assert not (tmp_path / "out" / "report.html").exists()
    [message] = [
        record.getMessage() for record in caplog.records if "report" in record.getMessage()
    ]
    assert message == f"report.html could not be written ({tmp_path}/out): no room"
    # The same command again makes what is missing.
    convert(config)
    assert (tmp_path / "out" / "report.html").exists()


def test_pictures_are_read_by_their_offsets(
    published: ConvertConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A report of a large dataset must not read it again."""
    statistics = statistics_of(tmp_path / "out")
    samples = random.Random(1).sample(statistics["samples"], 5)
    read: list[tuple[int, int]] = []
    read_range = LocalStorage.read_range

    def noted(storage: LocalStorage, path: str, offset: int, length: int, **options: bool) -> bytes:
        read.append((offset, length))
        return read_range(storage, path, offset, length, **options)

    monkeypatch.setattr(LocalStorage, "read_range", noted)
    found = picture_records(
        published.folder.output, manifest_of(tmp_path / "out"), {"samples": samples}, notes := []
    )
    assert notes == []
    assert found.keys() == {(sample["file"], sample["offset"]) for sample in samples}
    assert sorted(read) == sorted((each["offset"], each["length"] + 16) for each in samples)


def test_pictures_of_duplicates_are_few(
    published: ConvertConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each costs as much as the conversion of an image, and lists have hundreds of images."""
    file = statistics_of(tmp_path / "out")["samples"][0]["file"]
    places = ({"file": file, "offset": number, "length": 10} for number in itertools.count())

    def listed(images: int) -> dict[str, Any]:
        return {"listed": [{"images": [next(places) for _ in range(images)]} for _ in range(100)]}

    read: list[int] = []

    def noted(_: LocalStorage, __: str, offset: int, ___: int, **____: bool) -> bytes:
        read.append(offset)
        return b""

    monkeypatch.setattr(LocalStorage, "read_range", noted)
    found = {"duplicates": {"exact": listed(4), "near": listed(2)}}
    picture_records(published.folder.output, manifest_of(tmp_path / "out"), found, [])
    exact, near = range(0, 12 * 4, 4), range(400, 400 + 12 * 2)
    assert sorted(read) == [*exact, *near]


def test_wrong_places_are_reported_and_cost_their_own_picture(
    published: ConvertConfig, tmp_path: Path
) -> None:
    samples = statistics_of(tmp_path / "out")["samples"]
    wrong = [
        {**samples[0], "offset": samples[0]["offset"] + 1},
        {**samples[1], "length": samples[1]["length"] - 1},
        {**samples[2], "offset": 10**12},
        {**samples[3], "file": manifest_shards(manifest_of(tmp_path / "out"))[1]["file"]},
    ]
    manifest = manifest_of(tmp_path / "out")
    notes: list[str] = []
    found = picture_records(
        published.folder.output, manifest, {"samples": [*wrong, samples[4]]}, notes
    )
    assert found.keys() == {(samples[4]["file"], samples[4]["offset"])}
    assert len(notes) == 1 and notes[0].startswith("The images of 4 records cannot be read")


@pytest.mark.parametrize("name", ["../me.tfrecord", "gone.tfrecord", "labels.txt"])
def test_statistics_name_no_file_of_others(
    published: ConvertConfig, tmp_path: Path, name: str
) -> None:
    samples = statistics_of(tmp_path / "out")["samples"]
    shutil.copy(tmp_path / "out" / samples[0]["file"], tmp_path / "me.tfrecord")
    manifest = manifest_of(tmp_path / "out")
    notes: list[str] = []
    found = picture_records(
        published.folder.output, manifest, {"samples": [{**samples[0], "file": name}]}, notes
    )
    assert found == {}
    assert notes == [f"statistics.json names {name!r}, which is not a file of this dataset."]


@pytest.mark.parametrize("kind", ["exact", "near"])
def test_images_that_were_left_out_have_no_record_to_show(
    published: ConvertConfig, tmp_path: Path, kind: str
) -> None:
    kept = statistics_of(tmp_path / "out")["samples"][0]
    dropped = {**kept, "file": None, "offset": None, "length": None}
    shown = {"duplicates": {kind: {"listed": [{"images": [dropped, kept]}]}}}
    notes: list[str] = []
    found = picture_records(published.folder.output, manifest_of(tmp_path / "out"), shown, notes)
    assert found.keys() == {(kept["file"], kept["offset"])}
    assert notes == []


def reject(path: Path | str, reason: Reason = Reason.CORRUPT_IMAGE) -> Rejection:
    return Rejection("image", reason.code, "", str(path), "")


def test_rejected_files_that_cannot_be_shown(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "text").write_text("no picture")
    rejections = [
        reject(tmp_path / "fifo"),
        reject(tmp_path / "text"),
        reject(tmp_path / "gone"),
        reject(tmp_path),
        reject("http://127.0.0.1:9/1.jpg"),
        reject(f"{tmp_path}\0"),
    ]
    assert picture_rejected(rejections, str(tmp_path)) == {}


def test_a_picture_elsewhere_is_not_the_reports(tmp_path: Path) -> None:
    """An edited `rejected.jsonl` must not bring private pictures into a page that is shared."""
    make_images(tmp_path, ["me/1.jpg", "photos/2.jpg"])
    root = str(tmp_path / "photos")
    paths = [f"{tmp_path}/me/1.jpg", f"{root}/../me/1.jpg", f"{root}2.jpg", f"{root}/2.jpg"]
    assert list(picture_rejected(map(reject, paths), root)) == [f"{root}/2.jpg"]
    assert picture_rejected(map(reject, paths), "") == {}


@pytest.mark.parametrize("reason", [Reason.TOO_MANY_PIXELS, Reason.DECODER_CRASH])
def test_what_was_too_much_for_the_conversion_is_not_tried_again(
    tmp_path: Path, reason: Reason
) -> None:
    make_images(tmp_path, ["1.jpg"])
    root = str(tmp_path)
    assert picture_rejected([reject(tmp_path / "1.jpg", reason)], root) == {}
    assert len(picture_rejected([reject(tmp_path / "1.jpg")], root)) == 1


def test_only_so_many_rejected_files_are_read(tmp_path: Path) -> None:
    names = [f"{number}.jpg" for number in range(30)]
    make_images(tmp_path, names)
    found = picture_rejected((reject(tmp_path / name) for name in names), str(tmp_path))
    assert list(found) == [str(tmp_path / name) for name in names[:8]]


def test_lines_of_a_reason_that_are_not_shown_are_not_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong key may cost a line for each of millions of rows."""
    reasons = ["no_label"] * 3000 + ["unreadable"] * 2
    lines = [Rejection("image", reason, '"unreadable"', "a", "a").to_json() for reason in reasons]
    data = "".join(f"{line}\n" for line in lines).encode()
    (tmp_path / "rejected.jsonl").write_bytes(data)
    listed = {"bytes": len(data), "crc32c": crc32c_hex(data)}
    manifest: dict[str, Any] = {"files": {"rejected.jsonl": listed}, "rejected": Counter(reasons)}
    manifest["digest"] = content_digest(manifest)
    parsed: list[bytes] = []
    monkeypatch.setattr(write_report, "parse_json", lambda line: parsed.append(line) or loads(line))
    notes: list[str] = []
    found = write_report.read_rejections(str(tmp_path), manifest, notes)
    assert Counter(each.reason for each in found) == {"no_label": MAX_LISTED, "unreadable": 2}
    assert len(parsed) == len(found)
    assert notes == []


def test_a_crash_costs_its_picture_and_nothing_else(
    config: ConvertConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    convert(config)
    crashing, sound = tmp_path / "images" / NAMES[0], tmp_path / "images" / "other.jpg"
    sound.write_bytes(saved(picture("RGB"), "JPEG"))
    lines = "".join(f"{reject(path).to_json()}\n" for path in (crashing, sound)).encode()
    (tmp_path / "out" / "rejected.jsonl").write_bytes(lines)
    manifest = manifest_of(tmp_path / "out") | {"rejected": {"corrupt_image": 2}}
    page = make_report(config.folder.output, manifest)
    assert "what can be decoded" not in page and "rejected.jsonl is ignored" in page
    manifest["files"]["rejected.jsonl"] = {"bytes": len(lines), "crc32c": crc32c_hex(lines)}
    manifest["digest"] = content_digest(manifest)
    assert "what can be decoded" in make_report(config.folder.output, manifest)
    original, dangerous = DecodingChild.call, {crashing.read_bytes()}

    def call(child: Any, budget: Any, function: Any, data: bytes, **kwargs: Any) -> Any:
        if data in dangerous:
            return original(child, budget, os.abort)
        return original(child, budget, function, data, **kwargs)

    monkeypatch.setattr(report_images, "DecodingChild", DecodingChild)
    monkeypatch.setattr(DecodingChild, "call", call)
    assert list(picture_rejected([reject(crashing), reject(sound)], str(tmp_path))) == [str(sound)]
    dangerous.add(sound.read_bytes())
    page = make_report(config.folder.output, manifest)
    assert "what can be decoded" not in page and "corrupt_image" in page
