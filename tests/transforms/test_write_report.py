"""The step that writes the report never takes a dataset away, and reads no more than it shows."""

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
from PIL import Image, ImageOps

from pipeline.resolve.config import ConvertConfig
from tests.images import picture, saved
from tests.marks import cases
from tests.transforms.beam import (
    changed,
    convert,
    convert_images,
    copy_converted,
    make_config,
    make_images,
)
from transforms import write_report
from transforms.core.rejections import Reason, Rejection
from transforms.dataset.dataset_options import FileOptions
from transforms.dataset.manifest import content_digest, crc32c_hex, manifest_shards
from transforms.dataset.output_names import STATISTICS
from transforms.images.guard import DecodingChild
from transforms.storage.local_storage import LocalStorage
from transforms.write_report import (
    MAX_LISTED,
    make_report,
    picture_records,
    picture_rejected,
    unusual_images,
)

pytestmark = pytest.mark.slow

NAMES = [f"{label}/{number}.jpg" for label in ("cat", "dog") for number in range(20)]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The images and, next to them, the dataset; tests only read both."""
    return convert_images(tmp_path_factory.mktemp("made"), NAMES)


@pytest.fixture
def output(made: Path) -> Path:
    return made / "out"


@pytest.fixture
def published(made: Path, tmp_path: Path) -> ConvertConfig:
    """A copy of the dataset."""
    return copy_converted(made, tmp_path)


def manifest_of(output: Path) -> dict[str, Any]:
    return dict(json.loads((output / "manifest.json").read_text()))


def samples_of(output: Path) -> Any:
    return json.loads((output / STATISTICS).read_text("utf-8"))["samples"]


def pictured(output: Path, **statistics: Any) -> tuple[set[tuple[str, int]], list[str]]:
    """The places whose pictures are found for statistics, and the notes."""
    notes: list[str] = []
    return {*picture_records(str(output), manifest_of(output), statistics, notes)}, notes


def place_of(sample: Any) -> tuple[str, int]:
    return sample["file"], sample["offset"]


def test_a_report_that_fails_leaves_the_dataset_published(
    published: ConvertConfig, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(output: str, manifest: Any) -> str:
        raise RuntimeError("no room\nat all")

    (tmp_path / "out" / "report.html").unlink()
    with pytest.MonkeyPatch.context() as patch, caplog.at_level(logging.WARNING):
        patch.setattr(write_report, "make_report", fail)
        convert(changed(published, seed=5, overwrite=True))
    assert manifest_of(tmp_path / "out")["options"]["seed"] == 5
    assert not (tmp_path / "out" / "report.html").exists()
    [message] = [each for each in caplog.messages if "report" in each]
    assert message == f"report.html could not be written ({tmp_path}/out): no room"
    # The same command again makes what is missing.
    convert(changed(published, seed=5))
    assert (tmp_path / "out" / "report.html").exists()


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Offset and length of what is read."""
    noted: list[tuple[int, int]] = []
    read_range = LocalStorage.read_range

    def read(storage: LocalStorage, path: str, offset: int, length: int, **more: bool) -> bytes:
        noted.append((offset, length))
        return read_range(storage, path, offset, length, **more)

    monkeypatch.setattr(LocalStorage, "read_range", read)
    return noted


def test_pictures_are_read_by_their_offsets(output: Path, reads: list[tuple[int, int]]) -> None:
    """A report of a large dataset must not read it again."""
    samples = random.Random(1).sample(samples_of(output), 5)
    assert pictured(output, samples=samples) == ({*map(place_of, samples)}, [])
    assert sorted(reads) == sorted((each["offset"], each["length"] + 16) for each in samples)


def test_pictures_of_duplicates_are_few(output: Path, reads: list[tuple[int, int]]) -> None:
    """Each costs as much as the conversion of an image, and lists have hundreds of images."""
    file = samples_of(output)[0]["file"]
    places = ({"file": file, "offset": number, "length": 10} for number in itertools.count())

    def listed(images: int) -> dict[str, Any]:
        return {"listed": [{"images": [next(places) for _ in range(images)]} for _ in range(100)]}

    pictured(output, duplicates={"exact": listed(4), "near": listed(2)})
    exact, near = range(0, 12 * 4, 4), range(400, 400 + 12 * 2)
    assert sorted(offset for offset, _ in reads) == [*exact, *near]


def test_wrong_places_are_reported_and_cost_their_own_picture(output: Path) -> None:
    samples = samples_of(output)
    wrong = [
        {**samples[0], "offset": samples[0]["offset"] + 1},
        {**samples[1], "length": samples[1]["length"] - 1},
        {**samples[2], "offset": 10**12},
        {**samples[3], "file": manifest_shards(manifest_of(output))[1]["file"]},
    ]
    found, [note] = pictured(output, samples=[*wrong, samples[4]])
    assert found == {place_of(samples[4])}
    assert note.startswith("The images of 4 records cannot be read")


@pytest.mark.parametrize("name", ["../me.tfrecord", "gone.tfrecord", "labels.txt"])
def test_statistics_name_no_file_of_others(output: Path, name: str) -> None:
    sample = samples_of(output)[0]
    shutil.copy(output / sample["file"], output.parent / "me.tfrecord")
    note = f"statistics.json names {name!r}, which is not a file of this dataset."
    assert pictured(output, samples=[{**sample, "file": name}]) == (set(), [note])


@pytest.mark.parametrize("kind", ["exact", "near"])
def test_images_that_were_left_out_have_no_record_to_show(output: Path, kind: str) -> None:
    kept = samples_of(output)[0]
    dropped = {**kept, "file": None, "offset": None, "length": None}
    found = {kind: {"listed": [{"images": [dropped, kept]}]}}
    assert pictured(output, duplicates=found) == ({place_of(kept)}, [])


@pytest.fixture(scope="module")
def with_odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of images that are alike, but for one of each kind of odd images."""
    folder = tmp_path_factory.mktemp("odd") / "images"
    (folder / "cat").mkdir(parents=True)
    for at in range(40):
        data = saved(picture("RGB", 80, 96 + at % 3, seed=at), "JPEG")
        (folder / f"cat/{at}.jpg").write_bytes(data)
    usual = picture("RGB", 80, 96, seed=1)
    odd = {
        "long": usual.resize((200, 40)),
        "huge": usual.resize((640, 512)),
        "blank": Image.new("RGB", usual.size, (90, 120, 60)),
        "dark": usual.point(lambda level: level // 4),
        "bright": usual.point(lambda level: 248 + level // 32),
        "blurry": ImageOps.invert(Image.radial_gradient("L").resize(usual.size)),
    }
    for name, image in odd.items():
        (folder / f"cat/{name}.jpg").write_bytes(saved(image, "JPEG"))
    return folder


@cases(
    {},
    {"compression": "gzip"},
    {"files": FileOptions(files="per_image")},
    {"dedupe": "off"},
    {"check": "header"},
)
def test_odd_images_and_the_ends_of_the_histograms_are_pictured(
    changes: dict[str, Any], with_odd: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    convert(make_config(with_odd, output, **changes))
    manifest, notes = manifest_of(output), list[str]()
    found = unusual_images(str(output), manifest, notes)
    names = {
        kind: [Path(image["key"]).stem for image in each["images"]]
        for kind, each in found["odd"].items()
    }
    # Without hashes, nobody looks at pixels.
    looked = not changes.keys() & {"dedupe", "check"}
    looks = {name: [name] * looked for name in ("dark", "bright", "blurry", "blank")}
    assert names == {"aspect": ["long"], "size": ["huge"], **looks}
    assert [found["odd"][kind]["count"] for kind in names] == [1, 1, *[looked] * 4]
    assert found["looked"] == 46 * looked
    keys = {name: [Path(each["key"]).stem for each in ends] for name, ends in found["ends"].items()}
    assert found["records"] == 46 and keys["height"] == ["long", "huge"]
    assert keys["bytes"] == ["blank", "huge"] and keys["aspect"][1] == "long"
    images = [image for each in found["odd"].values() for image in each["images"]]
    pictures = picture_records(str(output), manifest, {}, notes, {"odd": found["odd"]})
    # What is in a compressed shard is not worth reading all before it.
    expected = (
        {} if "compression" in changes else {place_of(each): each["width"] for each in images}
    )
    assert {place: each["width"] for place, each in pictures.items()} == expected
    assert notes == []


def test_a_changed_index_costs_only_odd_images(published: ConvertConfig, tmp_path: Path) -> None:
    manifest = manifest_of(tmp_path / "out")
    (tmp_path / "out" / manifest["index"][0]["file"]).write_bytes(b"PAR1")
    page = make_report(str(tmp_path / "out"), manifest)
    assert "The sizes of the images cannot be read" in page and "Every record decodes" in page


def reject(path: Path | str, reason: Reason = Reason.CORRUPT_IMAGE) -> Rejection:
    return Rejection("image", reason.code, "", str(path), "")


def test_which_rejected_files_have_a_picture(tmp_path: Path) -> None:
    """An edited `rejected.jsonl` must not bring private pictures into a page that is shared."""
    make_images(tmp_path, ["me/1.jpg", "photos/2.jpg", "photos/3.jpg", "photos/4.jpg"])
    root = tmp_path / "photos"
    os.mkfifo(root / "fifo")
    (root / "text").write_text("no picture")
    none: list[Any] = [
        root / "fifo",
        root / "text",
        root / "gone",
        root,
        "http://127.0.0.1:9/1.jpg",
        f"{root}\0",
    ]
    elsewhere: list[Any] = [tmp_path / "me/1.jpg", f"{root}/../me/1.jpg", f"{root}2.jpg"]
    # What was too much for the conversion is not tried again.
    too_much = [
        reject(root / "3.jpg", Reason.TOO_MANY_PIXELS),
        reject(root / "4.jpg", Reason.DECODER_CRASH),
    ]
    rejections = [*map(reject, [*none, *elsewhere, root / "2.jpg"]), *too_much]
    assert list(picture_rejected(rejections, str(root))) == [f"{root}/2.jpg"]
    assert picture_rejected(rejections, "") == {}


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
    published: ConvertConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crashing, sound = tmp_path / "images" / NAMES[0], tmp_path / "images" / "other.jpg"
    sound.write_bytes(saved(picture("RGB"), "JPEG"))
    lines = "".join(f"{reject(path).to_json()}\n" for path in (crashing, sound)).encode()
    (tmp_path / "out" / "rejected.jsonl").write_bytes(lines)
    manifest = manifest_of(tmp_path / "out") | {
        "root": str(tmp_path / "images"),
        "rejected": {"corrupt_image": 2},
    }

    def page() -> str:
        return make_report(published.folder.output, manifest)

    assert "what can be decoded" not in page() and "rejected.jsonl is ignored" in page()
    manifest["files"]["rejected.jsonl"] = {"bytes": len(lines), "crc32c": crc32c_hex(lines)}
    manifest["digest"] = content_digest(manifest)
    assert "what can be decoded" in page()
    original, dangerous = DecodingChild.call, {crashing.read_bytes()}

    def call(child: Any, budget: Any, function: Any, data: bytes, **kwargs: Any) -> Any:
        if data in dangerous:
            return original(child, budget, os.abort)
        return original(child, budget, function, data, **kwargs)

    monkeypatch.setattr(write_report, "DecodingChild", DecodingChild)
    monkeypatch.setattr(DecodingChild, "call", call)
    assert list(picture_rejected([reject(crashing), reject(sound)], str(tmp_path))) == [str(sound)]
    dangerous.add(sound.read_bytes())
    assert "what can be decoded" not in page() and "corrupt_image" in page()
