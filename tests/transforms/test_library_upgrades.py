"""A shard is written again when a library that decides its bytes was upgraded."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from tests.marks import rest_slow
from tests.transforms.shard_writing import NAME, identity, plan, staged, write
from transforms.convert_images import ImageConverter
from transforms.examples.layouts import LAYOUTS
from transforms.images.embeddings import Embedding
from transforms.images.pixel_options import AS_THEY_ARE, CheckOptions, PixelOptions, Resize
from transforms.labels import shards as recipes
from transforms.labels.shards import RecipeMaker
from transforms.records.image_origins import Origins


def upgrade(monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    """From now on, another version of a library is installed."""
    installed = recipes.distribution_version

    def version(name: str) -> str:
        return "99.9" if name == library else installed(name)

    monkeypatch.setattr(recipes, "distribution_version", version)


@pytest.mark.parametrize(
    ("pixels", "is_kept"),
    rest_slow(
        [
            (AS_THEY_ARE, True),
            (PixelOptions(resize=Resize.parse("longer=8")), False),
            (PixelOptions(transcode="auto"), True),
            (PixelOptions(resize=Resize.parse("longer=64,never_enlarge")), True),
            (PixelOptions(transcode="png"), False),
        ],
        2,
    ),
)
@pytest.mark.parametrize("library", ["pillow", "simplejpeg", "tensorflow"])
def test_an_upgrade_writes_changed_pixels_again_and_keeps_the_rest(
    library: str,
    pixels: PixelOptions,
    is_kept: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    images = plan(tmp_path, ["1.jpg", "2.jpg"])
    output = tmp_path / "out"
    [first] = write(tmp_path, output, [(NAME, images)], pixels=pixels)
    [path] = staged(output).values()
    before = identity(path)
    assert write(tmp_path, output, [(NAME, images)], pixels=pixels) == [first]
    assert identity(path) == before
    upgrade(monkeypatch, library)
    [second] = write(tmp_path, output, [(NAME, images)], pixels=pixels)
    assert (second.recipe == first.recipe) == is_kept
    assert (list(staged(output).values()) == [path]) == is_kept
    assert identity(path) == before
    assert second.crc32c == first.crc32c


def test_other_libraries_decide_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images, pixels = plan(tmp_path, ["1.jpg"]), PixelOptions(transcode="png")
    [first] = write(tmp_path, tmp_path / "out", [(NAME, images)], pixels=pixels)
    for library in ("xxhash", "apache-beam", "pyarrow", "tfx-bsl", "keras", "numpy"):
        upgrade(monkeypatch, library)
    assert write(tmp_path, tmp_path / "out", [(NAME, images)], pixels=pixels) == [first]


def test_masks_of_objects_depend_on_what_draws_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no stored image does, so other layouts may reuse them."""
    checks = CheckOptions(max_pixels=10**6, max_bytes=10**6, dedupe="off")
    features = LAYOUTS["detection_masks"]
    converter = ImageConverter(origins=Origins(str(tmp_path)), features=features, checks=checks)
    images = plan(tmp_path, ["1.jpg"])
    for library, is_kept in (("pycocotools", False), ("pillow", False), ("simplejpeg", True)):
        before = RecipeMaker("", converter.libraries)
        with monkeypatch.context() as patched:
            upgrade(patched, library)
            after = RecipeMaker("", converter.libraries)
        assert (before.recipes(NAME, images) == after.recipes(NAME, images)) == is_kept
        assert before.versions(is_changed=False, has_heic=False) == ""


def test_stored_images_do_not_depend_on_what_runs_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only embeddings do; a resized image may be reused from, and for, other layouts."""
    model = Embedding("b0.keras", None, "float32", ("", ""), (8, 8, 3), (4,))
    resized = PixelOptions(resize=Resize.parse("longer=8"))

    def maker(embedding: Embedding | None) -> RecipeMaker:
        features = LAYOUTS["slim" if embedding is None else "embedding"]
        checks = CheckOptions(max_pixels=10**6, max_bytes=10**6, dedupe="off")
        converter = ImageConverter(
            origins=Origins("in"),
            features=features,
            checks=checks,
            pixels=resized,
            embedding=embedding,
        )
        return RecipeMaker("", converter.libraries)

    plain, before = maker(None), maker(model)
    versions = {each: before.versions(is_changed=each, has_heic=False) for each in (False, True)}
    assert versions == {False: "", True: plain.versions(is_changed=True, has_heic=False)}
    # All images need the same libraries: a shard has one recipe, whether it changes them or not.
    recipes = before.recipes(NAME, [])
    assert recipes.changed == recipes.unchanged != plain.recipes(NAME, []).unchanged
    for library in ("keras", "numpy", "tensorflow", "pillow", "simplejpeg"):
        with monkeypatch.context() as patched:
            upgrade(patched, library)
            after = maker(model)
        assert after.recipes(NAME, []).unchanged != recipes.unchanged
        is_same = after.versions(is_changed=True, has_heic=False) == versions[True]
        assert is_same == (library in ("keras", "numpy"))


def test_zlib_decides_what_it_compresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = plan(tmp_path, ["1.jpg"])
    outputs = {is_gzip: tmp_path / f"out-{is_gzip}" for is_gzip in (False, True)}

    def recipe(is_gzip: bool) -> str:
        [summary] = write(tmp_path, outputs[is_gzip], [(NAME, images)], gzip=is_gzip)
        return summary.recipe

    before = [recipe(False), recipe(True)]
    monkeypatch.setattr(zlib, "ZLIB_RUNTIME_VERSION", "1.99")
    after = [recipe(False), recipe(True)]
    assert [was == now for was, now in zip(before, after, strict=True)] == [True, False]
