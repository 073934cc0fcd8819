"""Images of a shard are read, checked, changed and encoded in their order."""

import pickle
from collections.abc import Sequence
from pathlib import Path
from threading import Barrier, Lock, get_ident
from typing import Any

import pytest

from tests.images import picture, saved
from tests.marks import cases
from tests.transforms.indexed_shards import framed
from transforms import convert_images, embed_images
from transforms.convert_images import ImageConverter
from transforms.core.records import PlannedImage
from transforms.core.rejections import Rejection
from transforms.examples.encoder import ExampleEncoder
from transforms.examples.layouts import LAYOUTS, Embedding
from transforms.images import embeddings, pixels
from transforms.images import guard as decoder_guard
from transforms.images.checked_images import CheckedImage
from transforms.images.pixel_options import CheckOptions, Limits, PixelOptions
from transforms.labels.shards import Recipes
from transforms.records import image_origins as original_images
from transforms.records.image_origins import Origins, RecordRun, ShardOrigins
from transforms.records.other_datasets import OtherDataset
from transforms.records.record_index import LOOKS
from transforms.records.stored_images import stored_side
from transforms.storage.local_storage import LocalStorage
from transforms.storage.read_ahead import ReadAhead

LIMITS = Limits(max_pixels=10_000, max_bytes=50_000)
SHARD = "train-00000-of-00001.tfrecord"


def converter(root: Path, limits: Limits = LIMITS, **changes: Any) -> ImageConverter:
    of_checks = {name: changes.pop(name) for name in ("check", "dedupe") if name in changes}
    checks = CheckOptions(**limits._asdict(), **{"dedupe": "off", **of_checks})
    origins = Origins(str(root), bases=tuple(changes.pop("bases", ())))
    options = {"features": LAYOUTS["slim"], "checks": checks, **changes}
    # As a worker gets it.
    made: ImageConverter = pickle.loads(pickle.dumps(ImageConverter(origins=origins, **options)))
    made.setup()
    return made


def planned(path: str, size: int) -> PlannedImage:
    return PlannedImage(0, path.split(".")[0], path, size, 0, "cat", 0)


def test_images_and_rejections_come_in_order(tmp_path: Path) -> None:
    jpeg, png = saved(picture("RGB"), "JPEG"), saved(picture("L"), "PNG")
    files = {"1.jpg": jpeg, "2.png": b"", "3.jpg": png, "4.jpg": png[:-20], "5.jpg": b"text"}
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "folder.jpg").mkdir()
    images = [planned(name, len(data)) for name, data in files.items()]
    images += [planned("none.jpg", 5), planned("folder.jpg", 5), planned("1.jpg", 50_001)]
    loaded = list(converter(tmp_path).load(images))
    whole = [result for result in loaded if isinstance(result, CheckedImage)]
    assert [(w.image.path, w.data, w.info) for w in whole] == [
        ("1.jpg", jpeg, ("jpeg", 37, 45, 3)),
        ("3.jpg", png, ("png", 37, 45, 1)),
    ]
    rejections = [result for result in loaded if isinstance(result, Rejection)]
    assert [(r.subject, r.reason, r.path, r.key) for r in rejections] == [
        ("image", "empty_file", "2.png", "2"),
        ("image", "corrupt_image", "4.jpg", "4"),
        ("image", "not_an_image", "5.jpg", "5"),
        ("image", "unreadable", "none.jpg", "none"),
        ("image", "unreadable", "folder.jpg", "folder"),
        ("image", "too_many_bytes", "1.jpg", "1"),
    ]
    assert [r.detail for r in rejections[3:]] == [
        "No such file or directory",
        "Is a directory",
        "50001 bytes; --max_bytes is 50000",
    ]
    assert [type(result) for result in loaded] == [
        type(result) for image in images for result in converter(tmp_path).load([image])
    ]


@pytest.mark.parametrize(("side", "is_here"), [(16, True), (100, False)])
def test_small_files_wait_for_no_other_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, side: int, is_here: bool
) -> None:
    """To change threads would take longer than to check them."""
    data = saved(picture("RGB", side, side), "BMP")
    (tmp_path / "1.bmp").write_bytes(data)
    threads = []
    read = LocalStorage.read_listed

    def noted(storage: LocalStorage, uri: str, **listed: Any) -> bytes:
        threads.append(get_ident())
        return read(storage, uri, **listed)

    monkeypatch.setattr(LocalStorage, "read_listed", noted)
    [whole] = converter(tmp_path).load([planned("1.bmp", len(data))])
    assert isinstance(whole, CheckedImage)
    assert (threads == [get_ident()]) is is_here


def test_the_header_check_does_not_decode(tmp_path: Path) -> None:
    jpeg = saved(picture("RGB"), "JPEG")
    (tmp_path / "1.jpg").write_bytes(jpeg[:-200])
    image = planned("1.jpg", len(jpeg) - 200)
    [quick] = converter(tmp_path, check="header").load([image])
    [full] = converter(tmp_path).load([image])
    assert isinstance(quick, CheckedImage) and isinstance(full, Rejection)
    # Records are made one by one: no image waits in memory for others.
    left = iter([quick, quick._replace(image=image._replace(label_id=1))])
    records = converter(tmp_path).encode(left)
    assert next(records) == ExampleEncoder(LAYOUTS["slim"]).encode(quick)
    assert next(left).image.label_id == 1


class NoModel:
    """Takes pixels as a model does, and leaves them alone."""

    input_shape, input_bytes = (8, 8, 3), 768

    def setup(self) -> None:
        pass

    def embed(self, loaded: Any) -> Any:
        return loaded


@cases(
    (pixels, "change_pixels", {"pixels": PixelOptions("png")}),
    (
        embeddings,
        "input_pixels",
        {"embedding": Embedding("", None, "float32", ("", ""), (8, 8, 3), (4,))},
    ),
)
def test_no_more_images_are_decoded_at_once_than_there_are_cores(
    module: Any, name: str, options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = saved(picture("RGB", 300, 400), "JPEG")
    (tmp_path / "1.jpg").write_bytes(data)
    lock, original = Lock(), getattr(module, name)
    running = highest = 0

    def counted(*arguments: Any, **keywords: Any) -> Any:
        nonlocal running, highest
        with lock:
            running += 1
            highest = max(highest, running)
        try:
            return original(*arguments, **keywords)
        finally:
            with lock:
                running -= 1

    monkeypatch.setattr(module, name, counted)
    monkeypatch.setattr(embed_images, "Embedder", lambda _: NoModel())
    monkeypatch.setattr(decoder_guard, "turns", lambda: decoder_guard.Turns(2))
    made = converter(tmp_path, limits=Limits(10**6, 10**6), **options)
    made._read_ahead = ReadAhead(threads=8)
    loaded = list(made.load([planned("1.jpg", len(data))] * 20))
    assert all(isinstance(each, CheckedImage) for each in loaded)
    assert highest == 2


def stored_images(
    folder: Path, images: Sequence[PlannedImage], root: Path, **options: Any
) -> tuple[OtherDataset, list[PlannedImage]]:
    """A base with these images, and the images with their places there."""
    made = converter(root, dedupe="report", **options)
    stored, frames = [], b""
    for record, image in enumerate(images):
        [checked] = made.load([image])
        assert isinstance(checked, CheckedImage)
        [example] = made.encode([checked])
        row = {
            **dict.fromkeys(("perceptual_hash", "source_height", "source_width", *LOOKS)),
            **dict.fromkeys(("orientation", "gps"), 0),
            **dict(zip(("format", "height", "width", "channels"), checked.info, strict=True)),
            **image._asdict(),
            "shard": SHARD,
            "record": record,
            "offset": len(frames),
            "length": len(example),
            "content": bytes.fromhex(checked.stored_content),
            "source_content": bytes.fromhex(checked.content),
            "changes": ",".join(checked.changes),
        }
        stored.append(image._replace(stored=(stored_side(0, row, image.path).record[0],)))
        frames += framed(example)
    folder.mkdir()
    (folder / SHARD).write_bytes(frames)
    return OtherDataset(str(folder), "", "image/encoded", root=str(root)), stored


def test_a_reused_image_that_became_too_large_is_rejected_as_a_fresh_one(tmp_path: Path) -> None:
    jpeg = saved(picture("RGB"), "JPEG")
    (tmp_path / "1.jpg").write_bytes(jpeg)
    images = [planned("1.jpg", len(jpeg))]
    pixels = PixelOptions(transcode="png")
    base, stored = stored_images(tmp_path / "base", images, tmp_path, pixels=pixels)
    limits = LIMITS._replace(max_bytes=len(jpeg))
    [fresh] = converter(tmp_path, pixels=pixels, limits=limits).load(images)
    assert isinstance(fresh, Rejection) and fresh.reason == "too_many_bytes"
    given = {"pixels": pixels, "bases": [base]}
    [whole] = converter(tmp_path, **given).load(stored)
    assert isinstance(whole, CheckedImage) and whole.is_reused
    assert [*converter(tmp_path, limits=limits, **given).load(stored)] == [fresh]


def test_images_that_are_too_large_do_not_hold_what_their_neighbours_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = [(5, 6), (40, 50), (6, 5)]
    images = []
    for number, (height, width) in enumerate(sizes):
        data = saved(picture("RGB", height, width), "PNG")
        (tmp_path / f"{number}.png").write_bytes(data)
        images.append(planned(f"{number}.png", len(data)))
    base, stored = stored_images(tmp_path / "base", images, tmp_path)
    made: list[ShardOrigins] = []
    monkeypatch.setattr(
        convert_images, "ShardOrigins", lambda *given: made.append(ShardOrigins(*given)) or made[-1]
    )
    limits = LIMITS._replace(max_bytes=images[1].size - 1)
    loaded = [*converter(tmp_path, limits=limits, bases=[base]).load(stored)]
    assert [getattr(each, "is_reused", None) for each in loaded] == [True, None, True]
    [origins] = made
    runs = [source for source, _ in origins._reused.values()]
    assert [isinstance(run, RecordRun) and run.fetch() for run in runs] == [None, None]


def test_rejected_images_are_read_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    together = Barrier(2, timeout=60)

    def find(*_: Any, load: Any, **__: Any) -> list[Any]:
        return [*load([planned("1.jpg", 5), planned("2.jpg", 5)])]

    def read(*_: Any, **__: Any) -> bytes:
        together.wait()
        return b"text!"

    monkeypatch.setattr(convert_images, "find_whole_shard", find)
    monkeypatch.setattr(original_images, "read_original", read)
    made = converter(tmp_path, bases=[OtherDataset("base", "")])
    made._read_ahead = ReadAhead(threads=2)
    found: Any = made.whole_shard(SHARD, Recipes("", "", ""), [])
    assert [each.reason for each in found] == ["not_an_image"] * 2
