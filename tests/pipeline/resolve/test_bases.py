"""Which datasets `--reuse` can use, and how their roots are spelled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import UsageError
from pipeline.resolve import samples
from pipeline.resolve.config import ConvertConfig
from pipeline.resolve.datasets import read_bases, same_spelling
from tests.transforms.beam import changed, make_config
from transforms.images.pixel_options import PixelOptions
from transforms.storage.gcs_storage import GcsStorage


@pytest.mark.parametrize(
    ("root", "globs", "spelled"),
    [
        ("in", ["in/*.jpg"], "in"),
        ("in", ["{here}/in/*.jpg"], "{here}/in"),
        ("", ["{here}/in/*.jpg"], "{here}"),
        ("../in", ["{here}/*.jpg"], "{above}/in"),
        ("{here}/in", ["in/*.jpg", "./in/*.png"], "in"),
        ("{here}", ["*.jpg"], ""),
        # Behind a link, `..` is not the folder above.
        ("link/../in", ["{here}/in/*.jpg"], "link/../in"),
        ("{here}/in", ["in/*.jpg", "/else/*.jpg"], "{here}/in"),
        ("{here}/in", [], "{here}/in"),
        ("gs://b/in", ["in/*.jpg"], "gs://b/in"),
        ("in", ["gs://b/in/*.jpg"], "in"),
        ("memory:", ["{here}/in/*.jpg"], "memory:"),
        # The roots of images that rows list.
        ("{here}/in", [""], "in"),
        ("in", ["{here}"], "{here}/in"),
        ("in", ["memory:"], "in"),
    ],
)
def test_a_root_is_spelled_as_the_globs(
    root: str, globs: list[str], spelled: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def placed(text: str) -> str:
        return text.format(here=tmp_path, above=tmp_path.parent)

    assert same_spelling(placed(root), [*map(placed, globs)]) == placed(spelled)


def manifest_of(config: ConvertConfig) -> dict[str, Any]:
    """What is read of the manifest of a dataset with the same options."""
    return {
        "root": config.root,
        "features": [feature.to_manifest() for feature in config.features],
        "index": [{}],
        "options": config.options,
        "versions": {},
    }


def test_a_base_that_is_replaced_in_a_bucket_may_end_with_a_slash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = make_config(tmp_path / "in", tmp_path / "out")
    config = changed(config, output="gs://b/out", overwrite=True)
    monkeypatch.setattr(samples, "open_dataset", lambda _: manifest_of(config))
    # An object with two slashes is another one.
    is_there = "gs://b/out/manifest.json".__eq__
    monkeypatch.setattr(GcsStorage, "exists", lambda _, path: is_there(path))
    assert len(read_bases(["gs://b/out/"], config)) == 1
    is_there = "gs://b/other/manifest.json".__eq__
    assert read_bases(["gs://b/out/"], config) == ()


def test_a_base_that_is_replaced_may_be_named_by_a_link(tmp_path: Path) -> None:
    """The run that replaces it was killed; the same command must resume it."""
    config = make_config(tmp_path / "in", tmp_path / "out")
    (tmp_path / "out" / ".staging").mkdir(parents=True)
    (tmp_path / "current").symlink_to("out")
    folder = str(tmp_path / "current")
    assert read_bases([folder], changed(config, overwrite=True)) == ()
    with pytest.raises(UsageError, match="holds no dataset"):
        read_bases([folder], config)


def test_a_manifest_without_a_digest_is_left_to_the_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    config = make_config(tmp_path / "in", tmp_path / "out")
    manifest = manifest_of(config)
    monkeypatch.setattr(samples, "open_dataset", lambda _: manifest)
    [base] = read_bases(["base"], config)
    assert (base.folder, base.digest, base.root) == ("base", "", config.root)
    pixels = PixelOptions(transcode="jpeg", quality=90)
    quality = changed(config, pixels=pixels)
    manifest["options"] = {**quality.options, "reencode": None}
    assert read_bases(["base"], quality) == ()
    # There is no flag with the name of the option.
    assert caplog.messages == ["--reuse base has no effect: it was made with another --quality"]
