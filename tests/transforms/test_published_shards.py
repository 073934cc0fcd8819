"""A planned shard is a published one if its files are the same, or its bytes are."""

from __future__ import annotations

from pathlib import Path

import pytest

from transforms.core.records import PlannedImage
from transforms.labels.shards import Recipes
from transforms.records import existing_shards
from transforms.records.existing_shards import ExistingShards, Roots

NAME = "train-00000-of-00001.tfrecord"
IMAGES = [
    PlannedImage(0, "1", "1.jpg", 5, 9, "a", 0, partners=(("1.png", 4, 9),)),
    PlannedImage(1, "2", "gs://b/2.jpg", 5, 9, "a", 0, partners=(("2.png", 4, 9),)),
]
ROOTS = Roots(("photos", "masks"))
ENTRY = {"file": NAME, "recipe": "r", "records": 2, "bytes": 70, "crc32c": "ab"}


MANIFEST = {
    "options": {},
    "splits": {"train": {"shards": [ENTRY]}},
    "root": "photos",
    "partners": {"mask": "masks"},
    "rejected": {},
    "files": {},
}


@pytest.fixture(autouse=True)
def manifest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(existing_shards, "read_manifest", lambda _: MANIFEST)


def compared(
    recipe: str,
    roots: Roots | None,
    images: list[PlannedImage] = IMAGES,
    crc32c: str = "ab",
    *,
    per_image: bool = False,
) -> tuple[str, int]:
    """The result of a comparison, and how many shards were converted for it."""
    published = ExistingShards(
        "out", roots, with_fingerprints=True, with_sha256=False, compares=True, per_image=per_image
    )
    converted: list[str] = []

    def written() -> tuple[int, str]:
        converted.append(NAME)
        return 70, crc32c

    recipes = Recipes(recipe, recipe, recipe)
    return published.compared(NAME, recipes, images, lambda _: (), written), len(converted)


def test_the_same_files_are_not_read() -> None:
    assert compared("r", ROOTS) == ("r", 0)
    # Each row is in the recipe with its cells.
    assert compared("r", None) == ("r", 0)


@pytest.mark.parametrize(
    "roots", [Roots(("elsewhere", "masks")), Roots(("photos", "elsewhere")), Roots(("photos",))]
)
def test_files_of_other_folders_are_compared_by_their_bytes(roots: Roots) -> None:
    assert compared("r", roots) == ("r", 1)
    assert compared("r", roots, crc32c="cd") == ("other files", 1)
    # That one was rejected then shows in its bytes.
    assert compared("r", roots, [*IMAGES, IMAGES[0]]) == ("r", 1)
    assert compared("r", roots, per_image=True) == ("other files", 0)


def test_the_folder_of_a_list_does_not_move_what_it_lists_elsewhere() -> None:
    """A CSV was moved, and its images were not."""
    listed = [IMAGES[1]._replace(partners=())]
    assert compared("r", Roots(("elsewhere",)), listed) == ("r", 0)


def test_touched_files_are_compared_by_their_bytes_unless_one_was_rejected() -> None:
    assert compared("s", ROOTS) == ("r", 1)
    assert compared("s", ROOTS, crc32c="cd") == ("s", 1)
    assert compared("s", ROOTS, IMAGES[:1]) == ("s", 0)


def test_another_spelling_of_a_folder_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to("photos")
    here = Roots((f"{tmp_path}/photos", "gs://b/masks"))
    for spelled in ("photos", "./link", f"{tmp_path}/link/"):
        assert Roots((spelled, "gs://b/masks")).spelled_as(here) == here
    others = Roots(("other", "gs://c/masks"))
    assert others.spelled_as(here) == others


def test_a_digest_names_each_folder() -> None:
    digests = {
        ROOTS.digest,
        Roots(("photosmasks",)).digest,
        Roots(("photos",)).digest,
        Roots().digest,
    }
    assert len(digests) == 4 and all(len(digest) == 16 for digest in digests)
