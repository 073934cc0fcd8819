"""A shard of a base is copied only if it is the planned one, record by record."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.marks import cases
from tests.transforms.core.checked_images import checked
from transforms.core.records import JoinSide, Kind, PlannedImage
from transforms.core.rejections import Rejection
from transforms.images.checked_images import CheckedImage, ImageInfo
from transforms.labels.shards import Recipes
from transforms.records import existing_shards
from transforms.records.existing_shards import ExistingShards, Roots, WholeShard, find_whole_shard
from transforms.records.other_datasets import OtherDataset
from transforms.records.record_index import LOOKS
from transforms.records.stored_images import BaseShard, StoredImage, join_reused, stored_side

NAME = "train-00000-of-00001.tfrecord"
RECIPES = Recipes("plain", "changed", "from HEIC")
BASES = (OtherDataset("one", "", "image"), OtherDataset("two", "", "image"))
WHOLE = BaseShard(2, 1000, "0" * 8, "plain")


def planned(number: int, *, base: int = 1, whole: BaseShard | None = None) -> PlannedImage:
    """An image that is a record of a base."""
    row = {
        "shard": NAME,
        "record": number,
        **dict.fromkeys(("offset", "length", "size", "version", "height", "width"), 100 + number),
        **dict.fromkeys(("channels", "orientation", "gps"), 1),
        **dict.fromkeys(
            ("changes", "source_height", "source_width", "perceptual_hash", *LOOKS), None
        ),
        "content": bytes(16),
        "source_content": None,
        "format": "jpeg",
    }
    record = stored_side(base, row, f"{number}.jpg", whole).record[0]
    return PlannedImage(number, str(number), f"{number}.jpg", 1, 1, "", 0, "", (record,))


def find(
    images: Sequence[PlannedImage],
    *,
    name: str = NAME,
    changes: tuple[str, ...] = ("untouched",),
    readable: bool = False,
    asked: list[list[PlannedImage]] | None = None,
) -> WholeShard | None:
    def describe(image: PlannedImage, stored: StoredImage) -> CheckedImage:
        assert stored.info == ImageInfo("jpeg", stored.length, stored.length, 1)
        return checked(b"")._replace(image=image, changes=changes)

    def load(images: Sequence[PlannedImage]) -> Iterator[CheckedImage | Rejection]:
        if asked is not None:
            asked.append([*images])
        for image in images:
            rejection = Rejection("image", "empty", "", image.path, image.key)
            yield checked() if readable else rejection

    return find_whole_shard(name, RECIPES, images, bases=BASES, describe=describe, load=load)


FIRST, SECOND = planned(0, whole=WHOLE), planned(1)
REJECTED = PlannedImage(5, "5", "5.jpg", 1, 1, "", 0)


def test_a_shard_of_the_same_records_is_found_under_its_name() -> None:
    whole = find([FIRST, SECOND])
    assert whole is not None
    assert (whole.path, whole.entry, whole.lengths) == (f"two/{NAME}", WHOLE, [100, 101])
    assert find([FIRST, SECOND], name="val-00000-of-00001.tfrecord") is None


def test_what_the_base_rejected_is_rejected_again() -> None:
    for images in ([REJECTED, FIRST, SECOND], [FIRST, REJECTED, SECOND], [FIRST, SECOND, REJECTED]):
        whole = find(images)
        assert whole is not None
        kinds = [isinstance(each, Rejection) for each in whole.images]
        assert kinds == [image is REJECTED for image in images]
        assert find(images, readable=True) is None


def test_all_that_the_base_rejected_is_read_at_once_and_last() -> None:
    others = [REJECTED, REJECTED._replace(key="6"), REJECTED._replace(key="7")]
    asked: list[list[PlannedImage]] = []
    whole = find([others[0], FIRST, others[1], SECOND, others[2]], asked=asked)
    assert whole is not None
    keys = [each.image.key if isinstance(each, CheckedImage) else each.key for each in whole.images]
    assert keys == ["5", "0", "6", "1", "7"]
    assert asked == [others]
    # Not if the records show that the shard is another one.
    assert find([*others, FIRST, SECOND], changes=("resized",), asked=asked) is None
    assert asked == [others]


@cases(
    [],
    [REJECTED],
    [FIRST],
    [SECOND],
    [SECOND, FIRST],
    [FIRST, planned(2)],
    [FIRST, planned(1, base=0)],
    [FIRST, SECOND, planned(2)],
    [planned(0), SECOND],
    [planned(0, whole=WHOLE._replace(recipe="other")), SECOND],
    [planned(0, whole=WHOLE._replace(records=3)), SECOND],
    # That of a shard with a changed image.
    [planned(0, whole=WHOLE._replace(recipe="changed")), SECOND],
)
def test_other_records_make_another_shard(images: list[PlannedImage]) -> None:
    assert find(images) is None


def test_it_may_be_that_of_any_base() -> None:
    """Each image is in an older base, too, in another shard."""

    def in_both(number: int, whole: BaseShard | None = None) -> PlannedImage:
        [older] = planned(number, base=0).stored
        records = ((older[0], "older", *older[2:]), *planned(number, whole=whole).stored)
        sides = [
            JoinSide("a.jpg", 7, 1, "", "", kind=Kind.RECORD, record=(each, ())) for each in records
        ]
        image = JoinSide("a.jpg", 7, 1, "", "", kind=Kind.IMAGE)
        [joined] = join_reused("a", [*sides, image], join=as_is)
        assert isinstance(joined, PlannedImage)
        return planned(number)._replace(stored=joined.stored)

    whole = find([in_both(0, WHOLE), in_both(1)])
    assert whole is not None
    assert (whole.path, whole.lengths) == (f"two/{NAME}", [100, 101])
    assert find([in_both(0), in_both(1)]) is None
    assert find([in_both(1), in_both(0, WHOLE)]) is None


def as_is(key: str, sides: Iterable[JoinSide]) -> Iterator[PlannedImage]:
    for side in sides:
        yield PlannedImage(0, key, side.path, side.size, side.version, "", split="train")


def test_changed_images_have_the_other_recipe() -> None:
    assert find([FIRST, SECOND], changes=("resized",)) is None
    first = planned(0, whole=WHOLE._replace(recipe="changed"))
    assert find([first, SECOND], changes=("resized",)) is not None


# A planned shard is a published one if its files are the same, or its bytes are.

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


@cases(Roots(("elsewhere", "masks")), Roots(("photos", "elsewhere")), Roots(("photos",)))
def test_files_of_other_folders_are_compared_by_their_bytes(roots: Roots) -> None:
    assert compared("r", roots) == ("r", 1)
    assert compared("r", roots, crc32c="cd") == ("other files", 1)
    # That one was rejected then shows in its bytes.
    assert compared("r", roots, [*IMAGES, IMAGES[0]]) == ("r", 1)
    assert compared("r", roots, per_image=True) == ("other files", 0)


def test_folders_that_were_touched_or_listed_elsewhere() -> None:
    """A CSV was moved, and its images were not."""
    listed = [IMAGES[1]._replace(partners=())]
    assert compared("r", Roots(("elsewhere",)), listed) == ("r", 0)
    assert compared("s", ROOTS) == ("r", 1)
    assert compared("s", ROOTS, crc32c="cd") == ("s", 1)
    assert compared("s", ROOTS, IMAGES[:1]) == ("s", 0)


def test_another_spelling_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
