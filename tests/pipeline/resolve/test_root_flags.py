"""`--root`, and roots of datasets that are reused."""

import argparse
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import UsageError
from pipeline.resolve import samples
from pipeline.resolve.config import ConvertConfig
from pipeline.resolve.datasets import read_bases, same_spelling
from pipeline.resolve.image_flags import root_of
from tests.conftest import draw
from tests.marks import cases, rest_slow
from tests.pipeline.commands import Dataset, Ran, check_ended, convert, make_dataset, plan
from tests.pipeline.reading import split_of
from tests.transforms.beam import changed, make_config
from transforms.images.pixel_options import PixelOptions
from transforms.labels.keys import image_key
from transforms.labels.shards import SplitAssigner, Splits
from transforms.storage.gcs_storage import GcsStorage

# `--root` fixes where keys begin: what is added moves no image to another split.

ASSIGNER = SplitAssigner(Splits([("train", 0.6), ("test", 0.4)]), seed=0)
FOLDERS = st.lists(st.sampled_from(["2024", "2025", "a", "b"]), max_size=3)
IMAGES = st.lists(st.tuples(FOLDERS, st.integers(0, 99)), min_size=1, max_size=20)


def flags(root: str | None) -> argparse.Namespace:
    return argparse.Namespace(root=root)


def places(uris: list[str], root: str) -> dict[str, tuple[str, int]]:
    keys = {uri: image_key(uri, kind="path", root=root) for uri in uris}
    return {uri: ASSIGNER.assign(key, split="", group="") for uri, key in keys.items()}


def globs_of(uris: list[str]) -> list[str]:
    return sorted({f"{os.path.dirname(uri)}/*.jpg" for uri in uris})


def uris_of(images: list[tuple[list[str], int]]) -> list[str]:
    return ["/".join(["y", *folders, f"{n}.jpg"]) for folders, n in images]


@given(IMAGES, IMAGES)
def test_with_a_root_added_globs_move_no_image(
    images: list[tuple[list[str], int]], added: list[tuple[list[str], int]]
) -> None:
    """Nor does a glob above the images, which has one root."""
    old, both = uris_of(images), uris_of([*images, *added])
    before = places(old, root_of(flags("y"), "--images", globs_of(old)))
    assert (
        places(both, root_of(flags("./y/"), "--images", globs_of(both))).items() >= before.items()
    )
    above = root_of(flags(None), "--images", ["y/**/*.jpg"])
    assert places(both, above).items() >= places(old, above).items()


@cases(
    (None, ["y/2024/*.jpg", "y/2025/*.jpg"], "y"),
    ("y", ["y/2024/*.jpg"], "y"),
    (".", ["y/2024/*.jpg", "*.jpg"], ""),
    ("/", ["/y/*.jpg"], "/"),
    ("{cwd}/y", ["y/2024/*.jpg"], "y"),
    ("y", ["{cwd}/y/2024/*.jpg"], "{cwd}/y"),
    ("gs://b/y/", ["gs://b/y/2024/*.jpg"], "gs://b/y"),
    ("gs://b", ["gs://b/*.jpg", "gs://b/x/*.jpg"], "gs://b"),
)
def test_a_root_is_spelled_as_the_globs(root: str | None, globs: list[str], spelled: str) -> None:
    cwd = os.getcwd()
    given = None if root is None else root.format(cwd=cwd)
    found = root_of(flags(given), "--images", [glob.format(cwd=cwd) for glob in globs])
    assert found == spelled.format(cwd=cwd)


@cases(
    *(("y/2024", "y/*/*.jpg"), ("y/2024", "y/2025/*.jpg"), ("y", "y2/*.jpg")),
    *(("y", "y/../x/*.jpg"), ("y", "gs://b/y/*.jpg"), (".", "/a/*.jpg"), (".", "../*.jpg")),
    *((".", "gs://b/*.jpg"), ("gs://b/x", "gs://b2/x/*.jpg")),
)
def test_a_root_contains_every_glob(root: str, glob: str) -> None:
    with pytest.raises(UsageError, match="--root .* does not contain all files of --images"):
        root_of(flags(root), "--images", [glob])


@pytest.fixture(scope="module")
def years(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images of two years, in a folder and by a link; tests leave them as they are."""
    folder = tmp_path_factory.mktemp("years")
    for year in ("2024", "2025"):
        for number in range(12):
            draw(folder / "y" / year / f"{year}-{number}.jpg", seed=number)
    (folder / "moved").symlink_to(folder / "y")
    return folder


SPLITS = {"label_from": "none", "splits": "train=0.6,test=0.4"}


def test_adding_a_glob_is_refused_until_the_root_is_given(years: Path, tmp_path: Path) -> None:
    first, second = f"{years}/y/2024/*", f"{years}/y/2025/*"
    dataset = make_dataset(tmp_path / "out", images=first, **SPLITS)
    more = {"images": [first, second], "output": dataset.folder, "overwrite": True, **SPLITS}
    ran = convert(**more)
    said = (f"the root '{years}/y/2024'", f"--root {years}/y accepts", "changes every key")
    check_ended(ran, 2, *said)
    assert "keeps the keys" not in ran.error()
    check_ended(convert(**more, root=years / "y"), 0)
    assert dataset.manifest["root"] == f"{years}/y"
    # Fewer globs keep it if they are told to.
    fewer = {**more, "images": first}
    check_ended(convert(**fewer), 2, f"--root {years}/y keeps the keys; ")
    check_ended(plan(**fewer, root=years / "y"), 0)


@cases(*rest_slow([({"key": "name"}, "{years}/y/*/*"), ({}, "{years}/moved/2024/*")]))
def test_what_keeps_all_keys_is_not_refused(
    flags: dict[str, str], images: str, years: Path, tmp_path: Path
) -> None:
    right = {"output": tmp_path / "out", **SPLITS, **flags}
    check_ended(convert(images=f"{years}/y/2024/*", **right), 0)
    check_ended(plan(images=images.format(years=years), overwrite=True, **right), 0)


def warned(command: Callable[..., Ran], **flags: object) -> list[str]:
    """Its warnings about the root, and all that it printed."""
    ran = command(**flags)
    assert ran.code == 0, ran.err
    start = "warning  --reuse"
    lines = [line for line in ran.out.splitlines() if line.startswith(start)]
    return [*(line.removeprefix("warning  ") for line in lines), ran.out]


def test_another_root_than_that_of_a_reused_dataset(years: Path, tmp_path: Path) -> None:
    old = make_dataset(tmp_path / "old", images=f"{years}/y/2024/*", **SPLITS)
    flags = {"images": [f"{years}/y/2024/*", f"{years}/y/2025/*"], "reuse": old.folder, **SPLITS}
    change = (
        f"--reuse {old.folder} has the root '{years}/y/2024', but the root is now '{years}/y': "
        "this changes every key, and moves images to other splits. "
    )
    accept = f"--root {years}/y accepts the change"
    [said, out] = warned(plan, **flags, output=tmp_path / "new")
    assert said == change + accept
    [said, _] = warned(convert, **flags, output=tmp_path / "new")
    assert said == change + accept
    manifest = json.loads((tmp_path / "new" / "manifest.json").read_text())
    assert manifest["warnings"] == [{"code": "root_changed", "text": said}]
    now = split_of(Dataset(tmp_path / "new"))
    moved = sum(now[stem] != split for stem, split in split_of(old).items())
    assert moved and f"\n  moved       {moved} in another split: '2024/2024-" in out
    assert "\n  added       12: '2025/2025-0.jpg'" in out and "\n  removed     0\n" in out
    # The other way round, images of 2025 are gone, and a root keeps the others where they are.
    flags |= {
        "images": f"{years}/y/2024/*",
        "reuse": tmp_path / "new",
        "output": tmp_path / "fewer",
    }
    [said, out] = warned(plan, **flags)
    assert f". --root {years}/y keeps the keys; --root {years}/y/2024 accepts" in said
    assert f"\n  moved       {moved} in" in out and "\n  removed     12: '../2025/2025-0" in out
    [out] = warned(plan, **flags, root=years / "y")
    assert "\n  moved       0 in another split\n" in out


# Which datasets `--reuse` can use, and how their roots are spelled.


@cases(
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
)
def test_a_root_of_a_base_is_spelled_as_the_globs(
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
        "inputs": {},
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
