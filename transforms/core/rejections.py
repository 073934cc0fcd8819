"""Reasons for which inputs are left out, and how many may be."""

import dataclasses
import decimal
import enum
import hashlib
import heapq
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from json.encoder import encode_basestring
from typing import Any, NamedTuple, Self

from transforms.core.messages import may_hold_secret, redacted
from transforms.core.records import Totals

# The fixed list of reasons why an image or a CSV row did not become a record.
#
# Every image and row that is left out, and every key that no image has, is one `Rejection`, one
# line of `rejected.jsonl`.

# Characters that JSON allows but that end a line in many programs, or move a cursor.
_ESCAPED = {code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), 0x2028, 0x2029)}


@enum.unique
class Reason(enum.Enum):
    """One reason: its name gives the stable code, its value says what to do about it."""

    # images: reading and decoding
    UNREADABLE = "the file cannot be read; check that it exists, and its permissions"
    OUTSIDE_ROOT = "a row names a file far from its CSV; --allow_outside permits it"
    BAD_MEMBER = "a file in an archive is damaged, encrypted or a link; pack it again"
    EMPTY_FILE = "the file has no bytes; fetch it again"
    TOO_MANY_BYTES = "larger than --max_bytes; raise the limit to accept the file"
    TOO_MANY_PIXELS = "more pixels than --max_pixels; raise the limit to accept the image"
    TOO_COSTLY = "decoding it takes too much time or memory, see detail; re-encode it"
    NOT_AN_IMAGE = (
        "not a JPEG, PNG, GIF, BMP, WebP or JPEG XL; "
        "--transcode auto reads TIFF, AVIF, HEIC, JPEG 2000"
    )
    CORRUPT_IMAGE = "TensorFlow cannot decode it; fetch it again or re-encode it"
    DECODER_CRASH = "it crashes an image decoder; re-encode it, and report the bug"
    UNSUPPORTED_IMAGE = "it cannot be converted as requested, see detail; convert it first"
    NO_DECODER = "no installed package decodes it; pip install pillow-heif, and run again"
    BAD_SHAPE = "its shape is not that of the layout; set it with --resize WxH and --color"
    NAME_NOT_UTF8 = "the file's name is not valid UTF-8; rename it"
    # images: joining
    NO_LABEL = "no row, folder or path gives it a label; see detail"
    UNKNOWN_LABEL = "its label is not a class, see detail; correct the row or --class_names"
    LABEL_CONFLICT = "its rows have different labels; keep one, or use --layout detection for boxes"
    AMBIGUOUS_LABEL = "found several times with different labels, see detail; list it once"
    DUPLICATE_KEY = "several images have this key; rename them, or use another --key"
    # images: their masks and further images
    NO_PARTNER = "no mask, or no further image, has its key; add the file, or see --key"
    SEVERAL_PARTNERS = "several masks, or further images, have its key; keep one of them"
    MASK_SIZE = "its mask has another size than the upright image, see detail; draw it again"
    # images: equal ones
    DUPLICATE_IMAGE = "an exact duplicate of the image in detail; dropped by --dedupe drop"
    CONFLICTING_LABELS = "exact duplicates have different labels; correct the wrong ones"
    HOLDOUT_IMAGE = "an exact duplicate of an image of --holdout; dropped by --dedupe drop"
    # images: the cells of their rows
    BAD_CELL = "a cell is empty or does not fit its type; correct it, or give a default"
    BAD_BOX = "a box is outside its image or has no area; correct it, or set --boxes units="
    ROW_CONFLICT = "its rows disagree on a single value; correct them, or make it a list"
    NO_GROUP = "its row has no value in the column of --group_by; fill it in"
    BAD_SPLIT = "its row or folder names no valid split, see detail; correct it"
    SPLIT_CONFLICT = "its rows name different splits or groups; make them agree"
    # rows
    ROW_WITHOUT_IMAGE = "no image has this key; add the image, or try another --key"
    MALFORMED_ROW = "the row has no usable key or label, see detail; correct it"
    # masks and further images
    PARTNER_WITHOUT_IMAGE = "no image has the key of this mask or further image; see --key"
    # keys of --keys
    KEY_NOT_FOUND = "no image has this key of --keys; correct it, or try another --key"

    @property
    def code(self) -> str:
        """The name in `rejected.jsonl`.

        >>> Reason.EMPTY_FILE.code
        'empty_file'
        """
        return self.name.lower()


RETRIED = frozenset({Reason.UNREADABLE.code, Reason.NO_DECODER.code})
"""Reasons that may be gone in the next run, although the file is the same."""

# Advice for the reasons where it depends on the options.
_CONVERTED = "in a format that --transcode cannot read, such as PSD; convert it to JPEG"
_SAME_PATH = "several file names differ only in Unicode normalization; rename them"
_SAME_STEM = "several images have this key; --key path tells them apart if the rows hold paths"
_SAME_STEM_NO_ROWS = "several images have this key; --key path tells them apart"


def help_for(reason: str, options: Mapping[str, Any]) -> str:
    """What a reason means and what to do about it, in a dataset with these options.

    It does not suggest options that are already in use.

    >>> help_for("empty_file", {})
    'the file has no bytes; fetch it again'
    """
    if reason == Reason.NOT_AN_IMAGE.code and options.get("transcode", "keep") != "keep":
        return _CONVERTED
    if reason == Reason.DUPLICATE_KEY.code and options.get("key") in ("path", "uri"):
        return _SAME_PATH
    if reason == Reason.DUPLICATE_KEY.code and options.get("key"):
        return _SAME_STEM if options.get("label_key") else _SAME_STEM_NO_ROWS
    return Reason[reason.upper()].value


class Rejection(NamedTuple):
    """One image or CSV row that is left out.

    Attributes:
        subject: `image`, `row`, `key` for a line of `--keys`, or `partner` for the file of a mask
            or of a further image.
        reason: the code of a `Reason`.
        detail: what exactly is wrong, in one line.
        path: the image's path as listed, that of a partner, or `FILE:LINE` of the row or the key.
        key: the join key, empty when there is none.
    """

    subject: str
    reason: str
    detail: str
    path: str
    key: str

    def to_json(self) -> str:
        """The line of `rejected.jsonl`, without its newline and without secrets.

        >>> Rejection("image", "empty_file", "0 bytes", "a.jpg", "a").to_json()[:44]
        '{"subject": "image", "reason": "empty_file",'
        """
        # All at once: a wrong key may reject every row.
        texts = map(redacted, self) if may_hold_secret("\n".join(self)) else self
        line = _LINE % tuple(map(encode_basestring, texts))
        return line if line.isprintable() else line.translate(_ESCAPED)


_LINE = "{" + ", ".join(f'"{name}": %s' for name in Rejection._fields) + "}"


class RejectedImageError(Exception):
    """An image must not become a record: the `reason`, and the `detail` in one line."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail


MAX_LISTED = 10_000_000
"""Rejections that runners with workers list: one worker joins their lines, 3 GB, in a minute."""

MAX_SHOWN = 3
"""Rejections of a reason that messages show."""

# Reasons of which messages show the first rejections.
_SHOWN = frozenset({Reason.KEY_NOT_FOUND.code, Reason.BAD_CELL.code, Reason.ROW_CONFLICT.code})

_HASH_BYTES = 32


@dataclasses.dataclass
class RejectionTotals(Totals):
    """Totals of rejections; a mergeable accumulator: any order gives the same.

    Attributes:
        reasons: their number by subject and reason.
        hash_sum: the sum of the hashes of the lines of those that a shard does not hold.
        first: the first ones, sorted, of each reason that messages show.
    """

    reasons: Counter[tuple[str, str]] = dataclasses.field(default_factory=Counter)
    hash_sum: int = 0
    first: dict[str, list[Rejection]] = dataclasses.field(default_factory=dict)

    def add(self, rejection: Rejection, *, is_of_shard: bool = False) -> None:
        """Adds one rejection, of a shard, or of the join or the plan."""
        self.reasons[rejection.subject, rejection.reason] += 1
        if not is_of_shard:
            line = rejection.to_json().encode()
            self.hash_sum += int.from_bytes(hashlib.blake2b(line, digest_size=_HASH_BYTES).digest())
        if rejection.reason in _SHOWN:
            self._add_first(rejection.reason, [rejection])

    def merge(self, other: Self) -> None:
        """Adds other totals."""
        super().merge(other)
        for reason, first in other.first.items():
            self._add_first(reason, first)

    def _add_first(self, reason: str, first: Iterable[Rejection]) -> None:
        self.first[reason] = heapq.nsmallest(MAX_SHOWN, [*self.first.get(reason, ()), *first])

    @property
    def count(self) -> int:
        """The number of rejections."""
        return self.reasons.total()

    @property
    def digest(self) -> bytes:
        """A digest of the lines of those of the join and the plan; empty if there are none."""
        digest = self.hash_sum % 2 ** (8 * _HASH_BYTES)
        return digest.to_bytes(_HASH_BYTES) if self.hash_sum else b""

    def first_of(self, *reasons: str) -> list[Rejection]:
        """The first rejections with one of these reasons, which messages show."""
        found = (rejection for reason in reasons for rejection in self.first.get(reason, ()))
        return sorted(found)[:MAX_SHOWN]


# The limit of rejected images above which a run is not published.

DEFAULT_LIMIT = "1% or 10"
"""The default of `--max_rejected`: tolerates a few bad files in a small dataset."""


class RejectionLimit(NamedTuple):
    """How many images may be rejected: a share of those matched, or a count.

    Attributes:
        value: the share or the count.
        is_share: whether the value is a share.
        least: a number that may be rejected even if it exceeds the share, as long as not
            all are.
    """

    value: float
    is_share: bool
    least: int = 0

    @classmethod
    def parse(cls, text: str) -> "RejectionLimit":
        """Reads `0.01` or `1%` as a share, `25` as a count, `1% or 10` as the larger of two.

        Raises:
            ValueError: when it is neither, or negative, or a share above one.

        >>> RejectionLimit.parse("1%")
        RejectionLimit(value=0.01, is_share=True, least=0)
        """
        number, joint, count = (part.strip() for part in text.partition(" or "))
        if joint:
            share, least = cls.parse(number), cls.parse(count)
            if not share.is_share or least.is_share or least.least:
                raise ValueError(f"{text!r} is not a share and a count: write it like '1% or 10'")
            return share._replace(least=int(least.value))
        is_share = number.endswith("%") or "." in number
        try:
            value = parse_number(number)
        except (ArithmeticError, ValueError):
            value = math.nan
        if not 0 <= value or (is_share and value > 1) or not (is_share or value.is_integer()):
            raise ValueError(f"{text!r} is neither a share such as 0.01 or 1% nor a count")
        return cls(value, is_share)

    def allows(self, rejected: int, matched: int) -> bool:
        """Whether a run with `rejected` of `matched` images may be published."""
        if rejected <= self.least and rejected < matched:
            return True
        if self.is_share and matched:
            # A quotient, unlike a product, rounds to the same float as `parse`.
            return rejected / matched <= self.value
        return rejected <= self.value

    def __str__(self) -> str:
        count = f" or {self.least}" if self.least else ""
        return f"{self.value * 100:.6g}%{count}" if self.is_share else f"{self.value:.0f}"


def parse_number(number: str) -> float:
    """The nearest float, also for a percentage: `13.7%` is the same number as `0.137`.

    Raises:
        ArithmeticError, ValueError: it is not a number.

    >>> parse_number("13.7%") == parse_number("0.137") == 0.137
    True
    """
    if number.endswith("%"):
        return float(decimal.Decimal(number[:-1].strip()).scaleb(-2))
    return float(number)
