"""Images and rows are read together and joined by their keys."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apache_beam as beam
import pytest

from tests.marks import rest_slow
from tests.servers.gcs import GcsServer
from tests.servers.gcs_requests import parameters_of
from tests.transforms.beam import collect
from tests.transforms.records.test_stored_images import ROW
from transforms import join_labels, packing
from transforms.core.records import Count, JoinSide, Kind, NameRange, PlannedImage
from transforms.examples.partners import Partner
from transforms.input_readers import ImageFinder, PartnerFinder
from transforms.join_labels import JoinLabels, ReadInputs
from transforms.labels.keys import fixed_root, key_hashes
from transforms.labels.label_rules import PathRules
from transforms.labels.shards import SplitAssigner, Splits
from transforms.labels.vocabulary import merge_cells
from transforms.records.stored_images import stored_side
from transforms.storage.files import storage_of

HALVES = Splits([("train", 0.5), ("test", 0.5)])


NAMES = [
    *(f"in/{folder}/{number:03}.jpg" for folder in range(3) for number in range(40)),
    *(f"in/한강/{number}.JPG" for number in range(60)),
    "in/1/",
    "in/1/.hidden.jpg",
    "in/1/000.jpg.txt",
    "in/1",
    "in/deep/er/1.jpg",
]
MASKS = [f"far/masks/{folder}/{number:03}.png" for folder in range(4) for number in range(30)]
IMAGES = [name.replace("masks", "images") for name in MASKS[::9]]


@pytest.fixture(scope="module")
def photos(gcs_server: GcsServer) -> Iterator[str]:
    """A bucket with files of these names."""
    gcs_server.make_bucket("photos")
    for name in [*NAMES, *MASKS, *IMAGES]:
        gcs_server.put("photos", name, name.encode())
    yield "gs://photos"
    gcs_server.remove_bucket("photos")


@pytest.mark.parametrize(
    "pattern", rest_slow(["in/**/*.jpg", "in/1/000.jpg", "no/*.jpg", "in/?/0[0-3]*.jpg"], 2)
)
@pytest.mark.parametrize("of_masks", rest_slow([False, True]))
def test_a_long_glob_of_a_bucket_is_listed_in_ranges(
    of_masks: bool, pattern: str, photos: str, gcs: GcsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    finder = ImageFinder(root=f"{photos}/in", key="path", rules=PathRules("directory"))
    glob = f"{photos}/{pattern}"
    partner = Partner("mask", "--masks", (glob,), fixed_root([glob]))
    partners = PartnerFinder((partner,), key="path", images=["*.jpg"]) if of_masks else None

    def read() -> dict[str, list[Any]]:
        globs = [] if of_masks else [glob]
        transform = ReadInputs(globs, finder, [], None, partners=partners)
        return collect(lambda p: (p | "Read" >> transform)._asdict())

    gcs.set_page(10)
    alone = read()
    pages = gcs.counts()["GET list"]

    gcs.reset()
    gcs.set_page(10)
    monkeypatch.setattr(join_labels, "LISTED_NAMES", (20, 10, 30))
    monkeypatch.setattr(packing, "runs_in_process", lambda _: False)
    in_ranges = read()
    assert in_ranges["sides"] == alone["sides"]
    assert sum(count.value for count in in_ranges["counts"]) == len(alone["sides"])
    assert all((side.group == "mask") is of_masks for _, side in in_ranges["sides"])
    labels = [merge_cells(found["labels"]) for found in (alone, in_ranges) if not of_masks]
    assert labels[1:] == labels[:-1]
    # Of one page, nothing is requested twice; of many, each worker lists a few.
    listed = [parameters_of(target) for _, target in gcs.log()]
    listed = [each for each in listed if "size" in each["fields"]]
    turns = Counter(each.get("startOffset", "") for each in listed)
    assert len(listed) <= pages + len(turns)
    assert max(turns.values()) <= 3
    if pages == 1:
        assert gcs.counts() == {"GET list": 1}
    else:
        assert len(turns) > 8


@pytest.fixture(params=rest_slow(["local", "gs://photos"]))
def masked(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A folder with masks in many folders, and a few images, local or in a bucket."""
    if request.param == "local":
        for name in [*MASKS, *IMAGES]:
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(name.encode())
        return str(tmp_path)
    photos: str = request.getfixturevalue("photos")
    request.getfixturevalue("gcs").set_page(10)
    return photos


def test_masks_are_listed_in_ranges_too(masked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    images = f"{masked}/far/images/*/*.png"
    globs = (f"{masked}/far/masks/*/*.png", f"{masked}/far/masks/1/**")
    partners = (Partner("mask", "--masks", globs, f"{masked}/far/masks"),)
    listed: list[NameRange] = []
    storage = type(storage_of(images))
    list_range = storage.list_range

    def counting(self: Any, part: NameRange, limit: int, **options: Any) -> Any:
        listed.append(part)
        return list_range(self, part, limit, **options)

    monkeypatch.setattr(storage, "list_range", counting)

    def read() -> dict[str, list[Any]]:
        finder = ImageFinder(root=f"{masked}/far/images", key="path", rules=PathRules("directory"))
        found = PartnerFinder(partners, key="path", images=[images])
        transform = ReadInputs([images], finder, [], None, partners=found)
        return collect(lambda p: (p | "Read" >> transform)._asdict())

    alone = read()
    assert len(listed) == 3
    listed.clear()
    monkeypatch.setattr(join_labels, "LISTED_NAMES", (20, 10, 30))
    monkeypatch.setattr(packing, "runs_in_process", lambda _: False)
    in_ranges = read()
    assert in_ranges["sides"] == alone["sides"]
    keys = Counter(key for key, side in in_ranges["sides"] if side.group == "mask")
    # One folder is matched by both globs, and its files have the same keys.
    assert sum(keys.values()) == 150 and len(keys) == 120 and keys["1/007.png"] == 2
    counts: Counter[str] = Counter()
    for each in in_ranges["counts"]:
        counts[each.name] += each.value
    assert counts == {"images_found": 14, "partners_found": 150}
    ranges = [part for part in listed if part.start]
    assert len(ranges) >= 3 and {part.partner for part in ranges} == {"mask"}


def join(
    label_from: str, *groups: list[tuple[str, JoinSide]], datasets: tuple[str, ...] = ()
) -> dict[str, list[Any]]:
    def construct(pipeline: beam.Pipeline) -> dict[str, Any]:
        kind = tuple[str, JoinSide]
        both = [side for group in groups for side in group]
        sides = pipeline | "Sides" >> beam.Create(both).with_output_types(kind)
        assigner = SplitAssigner(HALVES, seed=3)
        transform = JoinLabels(label_from=label_from, assigner=assigner, datasets=datasets)
        outputs = (sides | "Join labels" >> transform)._asdict()
        return {name: output for name, output in outputs.items() if output is not None}

    return collect(construct)


def test_join_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [f"key {number}" for number in range(20)]
    images = [(key, JoinSide(f"{key}.jpg", 10, 2**62, "", "", kind=Kind.IMAGE)) for key in keys]
    rows = [(key, JoinSide("", 0, 0, f"label of {key}", f"a.csv:{key}")) for key in keys]
    lone = JoinSide("lone.jpg", 1, 1, "", "", kind=Kind.IMAGE)
    other = ("other", JoinSide("", 0, 0, "x", "a.csv:99"))
    sides = [*images, images[0], ("lone", lone)], [*rows, rows[1], other]
    joined = join("csv", *sides)

    assert [
        image.key for image in sorted(joined["images"], key=lambda image: int(image.key.split()[1]))
    ] == keys
    for image in joined["images"]:
        split_hash, order_hash = key_hashes(image.key, seed=3)
        assert image == PlannedImage(
            split=HALVES.of(split_hash),
            order=order_hash - 2**63,
            key=image.key,
            path=f"{image.key}.jpg",
            size=10,
            version=2**62,
            label=f"label of {image.key}",
            rows=1 + (image.key == keys[1]),
        )
    assert {image.split for image in joined["images"]} == {"train", "test"}
    assert min(image.order for image in joined["images"]) < 0
    assert [(r.subject, r.reason, r.key) for r in joined["rejections"]] == [
        ("image", "no_label", "lone"),
        ("row", "row_without_image", "other"),
    ]
    assert joined["counts"] == [Count("images_found_again", 1)]
    # Batches of any size are joined the same.
    monkeypatch.setattr(packing, "_HELD_SIDES", 7)
    assert join("csv", *sides) == joined


def test_keys_that_only_a_base_has_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: Counter[str] = Counter()

    def count(stage: str, done: int = 1, rejected: int = 0) -> None:
        counted[stage] += done
        counted["rejected"] += rejected

    progress = SimpleNamespace(count=count)
    monkeypatch.setattr(join_labels, "PROGRESS", progress)
    record = stored_side(0, {**ROW, "size": 1, "version": 1}, "1.jpg")
    image = JoinSide("1.jpg", 1, 1, "cat", "", kind=Kind.IMAGE)
    row = JoinSide("", 0, 0, "x", "a.csv:9")
    sides = [("1", record), ("1", image), ("2", record), ("3", record), ("3", row)]
    joined = join("csv", sides, datasets=("--reuse",))
    assert [each.reason for each in joined["rejections"]] == ["no_label", "row_without_image"]
    assert counted == {"planning": 2, "rejected": 1}
