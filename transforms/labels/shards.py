"""Splits and shards: which images each has, and the recipe of a shard."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import re
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import accumulate, chain, pairwise
from typing import Any, NamedTuple

from transforms.core.messages import LabelsError
from transforms.core.records import PlannedImage, ShardRow
from transforms.core.rejections import Reason, RejectedImageError, parse_number
from transforms.labels.keys import key_hashes, nfc

# Assigns keys to splits: `--splits train=0.8,validation=0.1,test=0.1`.
#
# A split is a range of the 64-bit split hash of a key, so adding or removing images moves no
# others.

HASH_SPACE = 2**64
"""The number of split hashes."""

# Staged shards are named after their split, and file names are limited to 255 bytes.
_MAX_SPLIT_NAME = 100

# Each has shards of its own, which take milliseconds even without images.
_MAX_SPLITS = 100

KNOWN_SPLITS = ("train", "validation", "test")
"""Splits that come first, in this order; their names are case-insensitive."""

# Further names of AutoML, and their meaning.
_AUTOML = {"unassigned": "", "training": "train"}
_SPLIT_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_EXAMPLE = "write it like train=0.8,validation=0.1,test=0.1"


class Splits:
    """All splits in order; together they cover every split hash exactly once.

    Attributes:
        names: the names in order.
        shares: how many split hashes each split has; together 2**64.
    """

    def __init__(self, shares: Sequence[tuple[str, float]]) -> None:
        """Computes the ranges of the splits.

        Args:
            shares: the result of `parse_splits`; the last split gets the remainder.

        Raises:
            ValueError: there is none, or a share is not above 0.
        """
        if not shares or not all(share > 0 for _, share in shares):
            raise ValueError(f"splits need shares above 0, not {tuple(shares)}")
        self.names = tuple(name for name, _ in shares)
        # In exact arithmetic, so that rounding loses no hash.
        totals = accumulate(Fraction(share) for _, share in shares)
        uppers = [min(round(total * HASH_SPACE), HASH_SPACE) for total in totals]
        self._inner_uppers = uppers[:-1]
        ends = [0, *self._inner_uppers, HASH_SPACE]
        self.shares = tuple(end - start for start, end in pairwise(ends))

    def of(self, split_hash: int) -> str:
        """The name of the split that contains `split_hash`, an integer in 0..2**64-1.

        >>> splits = Splits([("train", 0.75), ("test", 0.25)])
        >>> splits.of(0), splits.of(2**63), splits.of(2**64 - 1)
        ('train', 'train', 'test')
        """
        return self.names[bisect_right(self._inner_uppers, split_hash)]


def parse_splits(text: str) -> tuple[tuple[str, float], ...]:
    """Parses names and shares from text; a share is a number in 0..1 or a percentage.

    Raises:
        ValueError: the text is not valid; the message says what to write.

    >>> parse_splits("train=80%,test=0.2")
    (('train', 0.8), ('test', 0.2))
    """
    parts = text.split(",")
    if len(parts) > _MAX_SPLITS:
        raise _usage(f"{text[:40]}...", f"{len(parts)} splits are more than {_MAX_SPLITS}")
    shares = tuple(_parse_one(part, text) for part in parts)
    seen: set[str] = set()
    for name, _ in shares:
        if name.casefold() in seen:  # some file systems treat 'Test' and 'test' as one name
            raise _usage(text, f"{name!r} is given twice; name each split once")
        seen.add(name.casefold())
    total = math.fsum(share for _, share in shares)
    if abs(round(total - 1, 9)) > 1e-6:
        hint = "make them add up to 1"
        if abs(total - 100) < 1e-4:
            meant = ",".join(f"{name}={share:.6g}%" for name, share in shares)
            hint = f"did you mean {meant}?"
        elif len(shares) == 1 and total < 1:
            # Shells end a word at a space.
            other = "test" if shares[0][0] == "validation" else "validation"
            hint = f"did you mean {shares[0][0]}={total:.6g},{other}={1 - total:.6g}?"
        raise _usage(text, f"the shares add up to {total:.6g}; {hint}")
    return shares


def is_split_name(name: str) -> bool:
    """Whether shards can be named after a split.

    >>> is_split_name("val_2"), is_split_name("2nd")
    (True, False)
    """
    return len(name) <= _MAX_SPLIT_NAME and _SPLIT_NAME.fullmatch(name) is not None


def split_text(said: str) -> str:
    """The split in a cell or a folder name; empty if the hash decides.

    AutoML writes TRAIN or TRAINING, VALIDATION, TEST and, to leave it open, UNASSIGNED; every other
    name is kept.

    >>> split_text("TRAIN"), split_text("UNASSIGNED"), split_text(" Holdout ")
    ('train', '', 'Holdout')
    """
    said = said.strip()
    folded = said.casefold()
    return folded if folded in KNOWN_SPLITS else _AUTOML.get(folded, nfc(said))


def splits_in_order(names: Iterable[str]) -> tuple[str, ...]:
    """The splits in use: train, validation and test first, the others by name.

    Raises:
        LabelsError: two differ only in case, and so would their file names.

    >>> splits_in_order({"test", "a", "train"})
    ('train', 'test', 'a')
    """
    distinct = set(names)
    known = [name for name in KNOWN_SPLITS if name in distinct]
    others = sorted(distinct.difference(KNOWN_SPLITS))
    spelled: dict[str, str] = {}
    for name in others:
        if spelled.setdefault(name.casefold(), name) != name:
            raise LabelsError(
                f"the splits {spelled[name.casefold()]!r} and {name!r} differ in upper and lower "
                "case only: use one spelling"
            )
    return (*known, *others)


def _parse_one(part: str, text: str) -> tuple[str, float]:
    name, equals, number = (piece.strip() for piece in part.partition("="))
    if not equals and _number(name) is not None:
        raise _usage(text, f"{name!r} has no name; {_EXAMPLE}")
    if not equals:
        raise _usage(text, f"{part.strip()!r} has no '='; {_EXAMPLE}")
    if not _SPLIT_NAME.fullmatch(name):
        raise _usage(text, f"{name!r} is not a name; use a letter, then letters, digits and '_'")
    if len(name) > _MAX_SPLIT_NAME:
        problem = f"a name of {len(name)} characters is too long; use at most {_MAX_SPLIT_NAME}"
        raise _usage(f"{text[:40]}...", problem)
    share = _number(number)
    if share is None:
        raise _usage(text, f"{number!r} is not a number; {_EXAMPLE}")
    if not 0 < share < math.inf:
        raise _usage(text, f"{name} has the share {number}; give it more than 0 or leave it out")
    return name, share


def _number(text: str) -> float | None:
    try:
        return parse_number(text)
    except (ArithmeticError, ValueError):
        return None


def _usage(text: str, problem: str) -> ValueError:
    return ValueError(f"{text!r}: {problem}")


# Assigns images to splits by hash, row or folder, and to positions in the order.


@dataclasses.dataclass(frozen=True)
class SplitAssigner:
    """Assigns images to splits and positions in the order; picklable.

    Attributes:
        splits: the splits with their shares.
        seed: of their hash and of the order.
        split_from: `hash` for shares, `csv` for a column, `directory` for a folder, or `records`
            for the splits of other datasets.
        by_group: whether to hash the group instead of the key.
        keeps_group: whether a later step assigns groups to splits, and needs their names.
    """

    splits: Splits
    _: dataclasses.KW_ONLY
    seed: int
    split_from: str = "hash"
    by_group: bool = False
    keeps_group: bool = False

    def assign(self, key: str, *, split: str, group: str) -> tuple[str, int]:
        """The split of an image, and its place in the order, a signed 64-bit number.

        Args:
            key: the join key; it alone decides the order.
            split: the split of the image's row or folder, from `split_text`.
            group: the group, empty when there is none.

        Raises:
            RejectedImageError: it names no split, or has no group but needs one.
        """
        split_hash, order_hash = key_hashes(key, seed=self.seed)
        # Beam's integers are signed; the order stays the same.
        order = order_hash - 2**63
        if self.split_from != "hash" and split:
            if not is_split_name(split):
                raise RejectedImageError(
                    Reason.BAD_SPLIT, f"{split[:120]!r} is not a valid split name"
                )
            return split, order
        if self.by_group:
            if not group:
                raise RejectedImageError(Reason.NO_GROUP, f"no row has a group for {key!r}")
            split_hash, _ = key_hashes(group, seed=self.seed)
        return self.splits.of(split_hash), order


# Shards: their number, the shard of each image, and the names of their files.

# The largest shard number that fits into the file name.
MAX_SHARDS = 99_999

MAX_SHARD_NAMES = 200_000
"""Images of one shard on runners whose workers are elsewhere.

A planned image is 290 bytes with a key and a path of 100 characters each, alone in a batch, and
about 200 more with its record in another dataset. The names of a shard are one element,
and Beam's limit for an element is 100 MB.
"""

MAX_FILES = 1_000_000
"""Files of a dataset with a file for each image.

One worker makes the manifest, which lists all of them: 207 bytes each with a key of 43 characters,
and 2,065 bytes of memory at its peak, before the folder is listed.
"""

# Fields of a `PlannedImage` before `stored` and `partners`; a `ShardRow` has fewer.
_RECIPE_FIELDS = 8
_PARTNERS = slice(_RECIPE_FIELDS + 1, _RECIPE_FIELDS + 2)

# The default size of a shard in bytes.
SMALLEST_SHARD = 10**6
"""Each shard costs files, requests and a planned element: fewer bytes must be a typo."""

DEFAULT_SHARD_SIZE = 150_000_000

_NAME = re.compile(
    r"(?P<split>[A-Za-z][A-Za-z0-9_]*)-(?P<number>\d{5})-of-(?P<total>\d{5})\.tfrecord(?P<gz>\.gz)?"
)


class ShardName(NamedTuple):
    """The name of one shard file, as TensorFlow Datasets and TF-Slim spell it.

    >>> str(ShardName("train", 0, 8))
    'train-00000-of-00008.tfrecord'
    >>> ShardName.parse("train-00000-of-00008.tfrecord").total
    8
    """

    split: str
    number: int
    total: int
    gzip: bool = False

    def __str__(self) -> str:
        suffix = ".tfrecord.gz" if self.gzip else ".tfrecord"
        return f"{self.split}-{self.number:05d}-of-{self.total:05d}{suffix}"

    def named(self, template: str) -> str:
        """Its name by `--file_name`; this one if that is empty.

        >>> ShardName("train", 0, 8).named("{split}_{shard:02d}.tfrec")
        'train_00.tfrec'
        """
        fields = {"split": self.split, "shard": self.number, "shards": self.total}
        return template.format(**fields) if template else str(self)

    @classmethod
    def parse(cls, name: str) -> ShardName:
        """Reads a file name.

        Raises:
            ValueError: when it is not the name of a shard.
        """
        match = _NAME.fullmatch(name)
        if not match:
            raise ValueError(f"{name!r} is not the name of a shard")
        number, total = int(match["number"]), int(match["total"])
        if number >= total:
            raise ValueError(f"{name!r}: shard {number} of {total} cannot be")
        return cls(match["split"], number, total, match["gz"] is not None)


def shard_count(total_bytes: int, records: int, *, shard_size: int, num_shards: int | None) -> int:
    """How many shards a split gets: `num_shards` if given, else as many as its bytes fill.

    Only `num_shards` makes more shards than there are records.

    Args:
        total_bytes: listed bytes of the split's images.
        records: planned records of the split.
        shard_size: bytes that one shard should hold.
        num_shards: a fixed number for each split, or None.

    >>> shard_count(430_000_000, 4000, shard_size=150_000_000, num_shards=None)
    3
    >>> shard_count(430_000_000, 2, shard_size=150_000_000, num_shards=None)
    2
    """
    if num_shards is not None:
        return num_shards
    return max(1, min(MAX_SHARDS, records, -(-total_bytes // shard_size)))


def empty_shards_warning(split: str, records: int, shards: int) -> str | None:
    """The warning about more shards than records; None if there are enough records.

    >>> empty_shards_warning("train", 47, 300)
    "split 'train' has 47 records in 300 shards: at least 253 are empty; lower --num_shards"
    """
    if shards <= max(1, records):
        return None
    return (
        f"split {split!r} has {records} records in {shards} shards: at least {shards - records} "
        "are empty; lower --num_shards"
    )


def shard_index(order: int, count: int, starts: Sequence[int] = ()) -> int:
    """The shard of an image: shards are ranges of the order, so a shard's images follow each other
    and the next shard's follow them.

    Args:
        order: the image's place in the order.
        count: shards of the split.
        starts: the orders at which they begin, without the first; if empty, the ranges are equal.

    >>> shard_index(-(2**63), 8), shard_index(2**63 - 1, 8), shard_index(5, 3, (5, 9))
    (0, 7, 1)
    """
    return bisect_right(starts, order) if starts else ((order + 2**63) * count) >> 64


def shard_recipe(options_digest: str, name: str, images: Iterable[PlannedImage | ShardRow]) -> str:
    """The digest of everything that affects a shard's bytes: its inputs and the options.

    Two runs with equal recipes write equal files, so a shard with this recipe need not be
    written again.

    Args:
        options_digest: digest of the options that affect output bytes.
        name: the shard's file name.
        images: the shard's images, or rows, in their order.

    Returns:
        32 hexadecimal digits.
    """
    digest = hashlib.blake2b(f"{options_digest}\n{name}\n".encode(), digest_size=16)
    for image in images:
        # Where the image was stored before affects no byte; the split of a row is in `name`.
        fields = tuple(image) if isinstance(image, PlannedImage) else image[:-1]
        digest.update(repr(fields[:_RECIPE_FIELDS]).encode())
        # No call: nearly all images have no masks.
        if (partners := fields[_PARTNERS]) > ((),):
            text = json.dumps(*partners, ensure_ascii=False, separators=(",", ":"))
            digest.update(f"\n{text}\n".encode())
    return digest.hexdigest()


class ShardPlan(NamedTuple):
    """How a dataset is cut into shards.

    Attributes:
        splits: names of the splits, in the order given; empty if the inputs define them.
        shard_size: bytes a shard should hold.
        num_shards: shards of each split, or None to plan them from the bytes.
        gzip: whether the files are compressed.
        per_image: whether every image gets its own file; the shards are groups of them.
        partners: files of masks and further images that each image has.
        by_records: whether the shards of a split have equal numbers of records.
        file_name: the names of the files, see `ShardName.named`.
    """

    splits: tuple[str, ...]
    shard_size: int
    num_shards: int | None
    gzip: bool
    per_image: bool = False
    partners: int = 0
    by_records: bool = False
    file_name: str = ""

    def files(
        self, split_bytes: Mapping[str, int], split_records: Mapping[str, int]
    ) -> dict[str, list[str]]:
        """The names of every split's shards, in their order.

        Args:
            split_bytes: listed bytes of each split's images; none is 0.
            split_records: planned records of each split; none is 0.

        Raises:
            LabelsError: see `splits_in_order`; or every image gets its own file, and these are
                too many; or `--file_name` gives two shards one name.
        """
        records = sum(split_records.values())
        if self.per_image and records > MAX_FILES:
            raise LabelsError(
                f"--files per_image: {records} images are more than {MAX_FILES}, since one worker "
                "writes a manifest of all files; use --files sharded"
            )
        names = {}
        for split in self.splits or splits_in_order(split_bytes):
            count = shard_count(
                split_bytes.get(split, 0),
                split_records.get(split, 0),
                shard_size=self.shard_size,
                num_shards=self.num_shards,
            )
            names[split] = [str(ShardName(split, at, count, self.gzip)) for at in range(count)]
        if self.file_name and not self.per_image:
            self._check_names(chain.from_iterable(names.values()))
        return names

    def published(self, shard: str) -> str:
        """The name of a shard in the dataset."""
        return ShardName.parse(shard).named("" if self.per_image else self.file_name)

    def check_file_name(self) -> None:
        """Checks what is known of `--file_name` before a run.

        Raises:
            LabelsError: it does not go with the compression, or gives two splits one name.
        """
        name, problem = self.file_name, ""
        if name and self.gzip != name.endswith(".gz"):
            problem = "must end in .gz" if self.gzip else "ends in .gz: add --compression gzip"
        elif name and self.per_image != ("/" in name):
            example = "{label}/{stem}.tfrecords"
            problem = (
                f"needs a folder, as {example}"
                if self.per_image
                else "has a /: add --files per_image"
            )
        elif name and not self.per_image and len(self.splits) > 1 and "{split" not in name:
            first, second, *_ = self.splits
            problem = f"gives files of {first!r} and {second!r} one name: it needs {{split}}"
        if problem:
            raise LabelsError(f"--file_name {name} {problem}")

    def _check_names(self, shards: Iterable[str]) -> None:
        seen: set[str] = set()
        for shard in shards:
            name = self.published(shard)
            # Some file systems take upper and lower case for the same.
            if name.casefold() in seen:
                raise LabelsError(f"--file_name {self.file_name}: two files would be {name!r}")
            seen.add(name.casefold())

    def check_sizes(self, split_bytes: Mapping[str, int], split_images: Mapping[str, int]) -> None:
        """Checks that the names of a shard fit in one element; see `files`.

        Raises:
            LabelsError: they do not; the message has the number of shards that fits.
        """
        # The name of a mask, and what a record in another dataset says of it, is half as long.
        most = 2 * MAX_SHARD_NAMES // (2 + self.partners)
        for split, names in self.files(split_bytes, split_images).items():
            images = split_images.get(split, 0)
            in_one = -(-images // max(1, len(names)))
            if in_one > most:
                raise LabelsError(
                    f"split {split!r} has {images} images in {len(names)} shards, {in_one} in one: "
                    f"more than {most}, which a worker of this runner can take; use "
                    f"--num_shards {-(-images // most)} or more"
                )


# Shard recipes: inputs, options, and the library versions that affect a shard's bytes.
#
# An unchanged image does not depend on any library: its bytes are those of its file. Changed
# images, and all features of pixels or of a model, come from decoders and encoders, and another
# version of these may give different bytes.

PIXEL_LIBRARIES = ("pillow", "simplejpeg", "tensorflow")
"""Distributions that decode and encode pixels."""

HEIC_LIBRARIES = ("pillow-heif", "pi-heif")
"""Distributions of which one decodes HEIC."""

OBJECT_MASK_LIBRARIES = ("pillow", "pycocotools")
"""Distributions that draw masks of objects and encode them."""

MODEL_LIBRARIES = (*PIXEL_LIBRARIES, "keras", "numpy")
"""Distributions that affect the output of a model."""

# Libraries of Pillow; wheels bundle them, packages of Linux distributions may not.
_PILLOW_PARTS = ("jpg", "jpg_2000", "zlib", "libtiff", "webp", "avif")


_UNKNOWN = "unknown"


class Recipes(NamedTuple):
    """The recipes that a shard may have.

    Attributes:
        unchanged: if all of its images are stored unchanged.
        changed: if one is not; the same as `unchanged` if no library matters.
        from_heic: if one was a HEIC; the same as `changed` if no decoder of HEIC is installed.
    """

    unchanged: str
    changed: str
    from_heic: str

    def of(self, *, is_changed: bool, has_heic: bool) -> str:
        """The recipe of a shard.

        Args:
            is_changed: whether one of its images is not stored unchanged.
            has_heic: whether one of them was a HEIC.
        """
        if has_heic:
            return self.from_heic
        return self.changed if is_changed else self.unchanged


class Libraries(NamedTuple):
    """The distributions that affect output bytes.

    Attributes:
        always: for every record: what it holds of an image depends on them.
        changed: for records with changed pixels.
        gzip: whether zlib compresses the shards.
        heic: of which the installed ones are for records made of a HEIC.
        values: for what records hold next to their images, on which no stored image depends.
    """

    always: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    gzip: bool = False
    heic: tuple[str, ...] = ()
    values: tuple[str, ...] = ()


class RecipeMaker:
    """Computes the recipes of shards, with the library versions of the worker."""

    def __init__(self, options_digest: str, libraries: Libraries) -> None:
        """Looks the versions up.

        Args:
            options_digest: of the options that affect output bytes.
            libraries: the libraries that affect output bytes.
        """
        always, changed = libraries.always, libraries.changed
        every = {*always, *libraries.values}
        of_gzip = f"\nzlib {zlib.ZLIB_RUNTIME_VERSION}" if libraries.gzip else ""
        self._digest = f"{options_digest}{_versions_text(every)}{of_gzip}"
        # A recipe that names these versions already has no other one for changed images.
        self._of_changed = "" if {*changed} <= every else _versions_text(changed)
        self._always = _versions_text(always)
        self._changed = _versions_text((*always, *changed))
        self._heic = _versions_text(installed_versions(libraries.heic))

    def versions(self, *, is_changed: bool, has_heic: bool) -> str:
        """The library versions on which the images of a shard depend, a line for each.

        Args:
            is_changed: whether one of them is not stored unchanged.
            has_heic: whether one of them was a HEIC.
        """
        versions = self._changed if is_changed else self._always
        return (versions + (self._heic if has_heic else "")).strip()

    def recipes(self, name: str, images: Iterable[PlannedImage | ShardRow]) -> Recipes:
        """The recipes of one shard; see `shard_recipe`."""
        unchanged = shard_recipe(self._digest, name, images)
        changed = _depending(unchanged, self._of_changed)
        return Recipes(unchanged, changed, _depending(changed, self._heic))


def _versions_text(names: Iterable[str]) -> str:
    """A line for each distribution, with its version and with what Pillow was built with."""
    versions = {name: distribution_version(name) for name in {*names}}
    if "pillow" in versions:
        from PIL import features

        parts = (f"{name} {features.version(name)}" for name in _PILLOW_PARTS)
        versions["pillow"] += f" ({', '.join(parts)})"
    return "".join(f"\n{name} {version}" for name, version in sorted(versions.items()))


def installed_versions(names: Iterable[str]) -> dict[str, str]:
    """The versions of those distributions that are installed."""
    return {name: found for name in names if (found := distribution_version(name)) != _UNKNOWN}


def recorded_versions(names: Iterable[str], *, has_heic: bool) -> dict[str, str]:
    """The versions of these distributions, and of what decodes HEIC if an image was one."""
    versions = {name: distribution_version(name) for name in names}
    return versions | (installed_versions(HEIC_LIBRARIES) if has_heic else {})


def changed_libraries(manifest: Mapping[str, Any]) -> list[str]:
    """The pixel libraries whose versions differ from those of a dataset, with both versions."""
    versions = manifest["versions"]
    return [
        f"{name} {versions[name]}, here {now}"
        for name in (*PIXEL_LIBRARIES, *HEIC_LIBRARIES)
        if (now := distribution_version(name)) != versions.get(name, now)
    ]


def distribution_version(name: str) -> str:
    """The version of an installed distribution, or `unknown`."""
    from importlib import metadata

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        # Running from a source tree that is not installed.
        return _UNKNOWN


def _depending(recipe: str, versions: str) -> str:
    """The recipe of what also depends on library versions; the same if there are none."""
    if not versions:
        return recipe
    return hashlib.blake2b(f"{recipe}{versions}".encode(), digest_size=16).hexdigest()
