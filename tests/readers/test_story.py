"""The commands and the Python of docs/story.md, on 200 photos with boxes and masks in a bucket."""

import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw

from pipeline import Records
from tests.images import saved
from tests.images.packed import zipped
from tests.pipeline.commands import ROOT
from tests.servers.gcs import GcsServer
from tests.test_docs import blocks, run_in_turn

DOCUMENT = ROOT / "docs" / "story.md"
FOLDER = Path("out/data/shapes/1.0.0")
KINDS = {1: "square", 2: "disc", 4: "bar"}
PHOTOS = 200
SIZE = 64, 48
SHARES = {"train": 0.8, "validation": 0.1, "test": 0.1}

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


def scene(number: int) -> tuple[Image.Image, Image.Image, list[dict[str, Any]]]:
    """A photo, its mask with a palette, and its annotations: one to three shapes."""
    random = np.random.default_rng(number)
    noise = random.integers(0, 99, (SIZE[1], SIZE[0], 3), np.uint8)
    photo, mask = Image.fromarray(noise), Image.new("P", SIZE)
    mask.putpalette([0, 0, 0, 255, 0, 0, 0, 255, 0, 9, 9, 9, 0, 0, 255])
    found = []
    for place in range(1 + number % 3):
        category = list(KINDS)[(number + place * (1 + number % 2)) % 3]
        left, top = 2 + 20 * place, int(random.integers(2, 20))
        box = [left, top, left + 15, top + (5 if category == 4 else 15)]
        for image, color in ((photo, (200, 40 * category, 90)), (mask, category)):
            draw = ImageDraw.Draw(image)
            (draw.ellipse if category == 2 else draw.rectangle)(box, fill=color)
        sides = [left, top, box[2] - left, box[3] - top]
        found.append({"image_id": number, "category_id": category, "bbox": sides})
    return photo, mask, found


def located() -> Image.Exif:
    """Metadata with a place."""
    metadata = Image.Exif()
    metadata.get_ifd(0x8825).update({1: "N", 2: (59.0, 19.0, 45.0), 3: "E", 4: (18.0, 4.0, 7.0)})
    return metadata


@pytest.fixture
def written(gcs: GcsServer, tmp_path: Path, monkeypatch: Any) -> Counter[tuple[int, int]]:
    """A working folder with what the commands of the document write; the images of each class."""
    files: dict[str, bytes] = {}
    annotations: list[dict[str, Any]] = []
    for number in range(PHOTOS):
        photo, mask, found = scene(number)
        files[f"images/{number:04}.jpg"] = saved(photo, "JPEG", exif=located())
        files[f"masks/{number:04}.png"] = saved(mask, "PNG")
        annotations += found
    for number, each in enumerate(annotations):
        each |= {"id": number, "area": each["bbox"][2] * each["bbox"][3], "iscrowd": 0}
    table = {
        "images": [{"id": at, "file_name": f"{at:04}.jpg"} for at in range(PHOTOS)],
        "annotations": annotations,
        "categories": [{"id": number, "name": name} for number, name in KINDS.items()],
    }
    gcs.make_bucket("my-bucket")
    gcs.put("my-bucket", "shapes.zip", zipped(files))
    gcs.put("my-bucket", "instances.json", json.dumps(table).encode())
    monkeypatch.chdir(tmp_path)
    run_in_turn(line for block in blocks("bash", DOCUMENT) for line in block.splitlines())
    return Counter({(each["image_id"], each["category_id"]) for each in annotations})


def test_the_story(written: Counter[tuple[int, int]]) -> None:
    manifest = json.loads((FOLDER / "manifest.json").read_text())
    assert manifest["ledger"]["records_written"] == PHOTOS
    assert (FOLDER / "rejected.jsonl").read_bytes() == b""
    _check_shares(written)
    _check_record(next(iter(Records(FOLDER, "test"))))
    for number, block in enumerate(blocks("python", DOCUMENT)):
        names: dict[str, Any] = {}
        exec(compile(block, f"{DOCUMENT.name} {number}", "exec"), names)
        # Its loop ran to the end of the records.
        assert "record" in names


def _check_shares(written: Counter[tuple[int, int]]) -> None:
    """Each class has its share of each split, nearly: two classes are never alone."""
    total = Counter(category for _, category in written)
    assert sum(len(Records(FOLDER, split)) for split in SHARES) == PHOTOS
    for split, share in SHARES.items():
        seen: Counter[int] = Counter()
        for record in Records(FOLDER, split):
            seen.update(set(record["image/object/class/label"].tolist()))
        for category in KINDS:
            assert abs(seen[category] - share * total[category]) <= 3, (split, category)


def _check_record(record: dict[str, Any]) -> None:
    data = record["image/encoded"]
    assert b"Exif" not in data
    number = int(Path(str(record["image/filename"], "utf-8")).stem)
    photo, mask, _ = scene(number)
    with Image.open(io.BytesIO(data)) as stored:
        expected = Image.open(io.BytesIO(saved(photo, "JPEG")))
        assert np.array_equal(np.asarray(stored), np.asarray(expected))
    with Image.open(io.BytesIO(record["image/segmentation/class/encoded"])) as stored:
        assert np.array_equal(np.asarray(stored), np.asarray(mask))
