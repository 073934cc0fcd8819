"""A shard is written again when a library that decides its bytes was upgraded."""

import zlib
from pathlib import Path
from typing import Any

import pytest

from tests.marks import cases, rest_slow
from tests.transforms.shard_writing import NAME, identity, plan, staged, write
from transforms.convert_images import ImageConverter
from transforms.examples.layouts import LAYOUTS, Embedding
from transforms.images.pixel_options import AS_THEY_ARE, CheckOptions, PixelOptions, Resize
from transforms.labels import shards as recipes
from transforms.labels.shards import RecipeMaker
from transforms.records.image_origins import Origins

RESIZED = PixelOptions(resize=Resize.parse("longer=8"))
MODEL = Embedding("b0.keras", None, "float32", ("", ""), (8, 8, 3), (4,))
OF_PIXELS = ("pillow", "simplejpeg", "tensorflow")


@pytest.fixture
def upgrade(monkeypatch: pytest.MonkeyPatch) -> Any:
    """From a call on, another version of a library is installed."""

    def upgrade(library: str) -> None:
        installed = recipes.distribution_version
        monkeypatch.setattr(
            recipes,
            "distribution_version",
            lambda name: "99.9" if name == library else installed(name),
        )

    return upgrade


@pytest.mark.parametrize(
    ("pixels", "is_kept"),
    rest_slow(
        [
            (AS_THEY_ARE, True),
            (RESIZED, False),
            (PixelOptions(transcode="auto"), True),
            (PixelOptions(resize=Resize.parse("longer=64,never_enlarge")), True),
            (PixelOptions(transcode="png"), False),
        ],
        2,
    ),
)
def test_an_upgrade_writes_changed_pixels_again_and_keeps_the_rest(
    pixels: PixelOptions, is_kept: bool, tmp_path: Path, upgrade: Any
) -> None:
    images, output = plan(tmp_path, ["1.jpg", "2.jpg"]), tmp_path / "out"
    [first] = write(tmp_path, output, [(NAME, images)], pixels=pixels)
    [path] = staged(output).values()
    before = identity(path)
    upgrade("keras")
    assert write(tmp_path, output, [(NAME, images)], pixels=pixels) == [first]
    upgrade("pillow")
    [second] = write(tmp_path, output, [(NAME, images)], pixels=pixels)
    assert (second.recipe == first.recipe) == is_kept
    assert (list(staged(output).values()) == [path]) == is_kept
    assert identity(path) == before
    assert second.crc32c == first.crc32c


def made(layout: str, pixels: PixelOptions = RESIZED) -> RecipeMaker:
    """Makes recipes of the shards of a layout."""
    checks = CheckOptions(max_pixels=10**6, max_bytes=10**6, dedupe="off")
    embedding = MODEL if layout == "embedding" else None
    options: dict[str, Any] = {"features": LAYOUTS[layout], "checks": checks, "pixels": pixels}
    return RecipeMaker(
        "", ImageConverter(origins=Origins("in"), embedding=embedding, **options).libraries
    )


@cases(
    ("slim", (), OF_PIXELS),
    # Masks of objects depend on what draws them.
    ("detection_masks", ("pycocotools", "pillow"), OF_PIXELS),
    # All images need the same libraries, whether a shard changes them or not.
    ("embedding", ("keras", "numpy", *OF_PIXELS), ()),
)
@pytest.mark.parametrize(
    "library", [*OF_PIXELS, "keras", "numpy", "pycocotools", "xxhash", "apache-beam", "pyarrow"]
)
def test_recipes_name_the_libraries_that_decide_bytes(
    layout: str, of_all: tuple[str, ...], of_changed: tuple[str, ...], library: str, upgrade: Any
) -> None:
    """And no stored image depends on what draws masks or runs models: others may reuse it."""
    before, plain = made(layout), made("slim")
    versions = {each: before.versions(is_changed=each, has_heic=False) for each in (False, True)}
    assert versions == {False: "", True: plain.versions(is_changed=True, has_heic=False)}
    upgrade(library)
    after = made(layout)
    was, now = before.recipes(NAME, []), after.recipes(NAME, [])
    assert (was.unchanged == now.unchanged) == (library not in of_all)
    assert (was.changed == now.changed) == (library not in (*of_all, *of_changed))
    same = after.versions(is_changed=True, has_heic=False) == versions[True]
    assert same == (library not in OF_PIXELS)


def test_zlib_decides_what_it_compresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = plan(tmp_path, ["1.jpg"])

    def written() -> list[str]:
        found = []
        for is_gzip in (False, True):
            output = tmp_path / f"out-{is_gzip}"
            [summary] = write(tmp_path, output, [(NAME, images)], gzip=is_gzip)
            found.append(summary.recipe)
        return found

    before = written()
    monkeypatch.setattr(zlib, "ZLIB_RUNTIME_VERSION", "1.99")
    after = written()
    assert [was == now for was, now in zip(before, after, strict=True)] == [True, False]
