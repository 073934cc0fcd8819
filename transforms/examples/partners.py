"""Masks and further images of an image."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from transforms.core.messages import and_more
from transforms.core.records import Count, JoinSide, Kind, Plain, PlannedImage
from transforms.core.rejections import Reason, RejectedImageError, Rejection
from transforms.examples.layouts import Role, partner_of, source_of
from transforms.images.checked_images import ImageInfo
from transforms.images.pixel_options import check_mask_cost
from transforms.labels.joins import Joined, JoinGroup
from transforms.labels.keys import (
    any_case,
    full_uri,
    glob_regex,
    glob_tokens,
    image_key,
    literal_ending,
    relative_path,
)

# Masks and further images: files that are joined with the image of their key.
#
# Each is a side of the join. What a file is (path, size, version) crosses the shuffle as text,
# never its bytes: it is read where its image is read.

# Files that one detail names.
_MAX_NAMED = 5


class Partner(NamedTuple):
    """A named source of files, of which each image needs one.

    Attributes:
        name: what its features' sources begin with: `mask`, `masks.NAME` or `images.NAME`.
        title: what gives its globs, for messages: `--masks`, or the name.
        globs: of the files.
        root: the folder below which their paths and keys begin.
        extension: with which their keys end, with its dot, if it is that of the images' globs and
            not their own; else empty.
    """

    name: str
    title: str
    globs: tuple[str, ...]
    root: str
    extension: str = ""


def partner_side(name: str, path: str, size: int, version: int) -> JoinSide:
    """A file as a side of the join.

    Args:
        name: of the partner.
        path: below the root of the partner.
        size: in bytes.
        version: see `JoinSide`.
    """
    return JoinSide(path, size, version, "", "", group=name, kind=Kind.PARTNER)


def join_partners(
    key: str,
    group: Iterable[JoinSide],
    *,
    join: JoinGroup,
    partners: Sequence[Partner],
) -> Iterator[Joined]:
    """Joins the images and rows of one key, and adds the files of its partners to an image.

    An image without exactly one file of each partner is rejected. A file found twice (overlapping
    globs) is one file, in the newest version that was listed.

    Args:
        key: the join key.
        group: the images, rows and files that have it.
        join: joins the images and the rows, see `join_group`.
        partners: all of them, in their order.

    Yields:
        the results of `join`; a `Rejection` for each file without an image; counts.
    """
    found: dict[str, dict[str, JoinSide]] = {}
    sides: list[JoinSide] = []
    count = 0
    for side in group:
        if side.kind != Kind.PARTNER:
            sides.append(side)
            continue
        count += 1
        files = found.setdefault(side.group, {})
        former = files.get(side.path, side)
        files[side.path] = side if side.version > former.version else former
    distinct = sum(map(len, found.values()))
    if distinct < count:
        yield Count("partners_found_again", count - distinct)
    if not any(side.is_image for side in sides):
        yield from _without_image(key, found, partners)
        yield from join(key, sides)
        return
    used = 0
    for result in join(key, sides):
        if not isinstance(result, PlannedImage):
            yield result
        elif (problem := _problem(key, found, partners)) is not None:
            reason, detail = problem
            yield Rejection("image", reason.code, detail, result.path, key)
            if result.rows:
                yield Count("rows_rejected", result.rows)
        else:
            used = distinct
            yield result._replace(partners=_files(found, partners))
    if used < distinct:
        yield Count("partners_rejected", distinct)


def _without_image(
    key: str, found: dict[str, dict[str, JoinSide]], partners: Sequence[Partner]
) -> Iterator[Rejection]:
    for partner in partners:
        for path in sorted(found.get(partner.name, ())):
            detail = f"no image has the key {key!r} of this file of {partner.title}"
            reason = Reason.PARTNER_WITHOUT_IMAGE.code
            yield Rejection("partner", reason, detail, full_uri(partner.root, path), key)


def _problem(
    key: str, found: dict[str, dict[str, JoinSide]], partners: Sequence[Partner]
) -> tuple[Reason, str] | None:
    """Why an image cannot have its partners; None if it has one file of each."""
    for partner in partners:
        files = sorted(found.get(partner.name, ()))
        if not files:
            detail = f"no file of {partner.title} has the key {key!r}{_other_case(key, partner)}"
            return Reason.NO_PARTNER, detail
        if len(files) > 1:
            named = and_more([*map(repr, files[:_MAX_NAMED])], len(files))
            detail = f"{len(files)} files of {partner.title} have the key {key!r}: {named}"
            return Reason.SEVERAL_PARTNERS, detail
    return None


def _other_case(key: str, partner: Partner) -> str:
    """That the extension of an image is not that of the globs, if only its case differs."""
    wanted = partner.extension
    found = key[-len(wanted) :] if wanted else ""
    if found == wanted or found.lower() != wanted.lower():
        return ""
    other = key.removesuffix(found) + wanted
    return f"; the key of its file is {other!r}, with {wanted!r} as in --images: rename the image"


def _files(found: dict[str, dict[str, JoinSide]], partners: Sequence[Partner]) -> Plain:
    """The form for `PlannedImage`: one file of each partner."""
    sides = (side for partner in partners for side in found[partner.name].values())
    return tuple((side.path, side.size, side.version) for side in sides)


# The key of the image to which a mask or further image belongs, where their names end differently.
#
# Datasets name a mask after its image: `masks/1_mask.png` is that of `photos/1.jpg`. Which part of
# a name says so is read from the globs: their endings, which follow the last wildcard. The ending
# of the partner's glob stands for that of the images' globs.


class _Ending(NamedTuple):
    """What a glob fixes at the end of a name.

    Attributes:
        stem: after the last wildcard, and before the extension.
        extension: with its dot; empty if it is not fixed.
        is_name: whether no wildcard precedes the extension.
    """

    stem: str
    extension: str
    is_name: bool


class _Change(NamedTuple):
    """The ending of a stem, and what it becomes."""

    old: str
    new: str


class PartnerKeys:
    """Gives the files of a partner the keys of their images.

    Attributes:
        extension: that of the globs of the images, with its dot, which keys have instead of that of
            their file; empty if they keep theirs.
    """

    def __init__(self, partner: Partner, *, kind: str, images: Sequence[str]) -> None:
        """Compares the endings of the globs.

        Args:
            partner: with its globs.
            kind: of the join key.
            images: the globs of the images; empty if rows list them.
        """
        self._kind = kind
        self._root = partner.root
        endings = [_ending(glob) for glob in images or ("*",)]
        self._changes = {glob: _change(_ending(glob), endings) for glob in partner.globs}
        # A stem has none.
        extensions = {"" if kind == "stem" else each.extension for each in endings}
        self.extension = extensions.pop() if len(extensions) == 1 else ""

    def of_glob(self, glob: str) -> Callable[[str], str]:
        """A function that gives a file of a glob the key of its image.

        A file has one key: of the partner's globs that match it, the one with the longest ending
        decides.
        """
        own = self._changes[glob]
        longer = [
            (glob_regex(any_case(relative_path(other, ""))).fullmatch, change)
            for other, change in self._changes.items()
            if len(change.old) > len(own.old)
        ]
        longer.sort(key=lambda each: len(each[1].old), reverse=True)
        whole = functools.partial(image_key, kind=self._kind, root=self._root)
        if own.old == own.new and not (longer or self.extension):
            return whole

        def key_of(uri: str) -> str:
            path = relative_path(uri, "")
            change = next((change for matches, change in longer if matches(path)), own)
            return whole(self._renamed(uri, change))

        return key_of

    def _renamed(self, uri: str, change: _Change) -> str:
        """The path of a file, with the ending that its image has."""
        folder, slash, name = uri.rpartition("/")
        dot = name.rfind(".")
        stem, extension = (name[:dot], name[dot:]) if dot > 0 else (name, "")
        if stem.endswith(change.old):
            # A name that is nothing but the ending stays.
            stem = f"{stem.removesuffix(change.old)}{change.new}" or stem
        if extension.lower() != self.extension.lower():
            extension = self.extension or extension
        return f"{folder}{slash}{stem}{extension}"


def _ending(glob: str) -> _Ending:
    """The ending of a glob.

    >>> _ending("gt/**/*_[ab]_mask.png")
    _Ending(stem='_mask', extension='.png', is_name=False)
    >>> _ending("cases/*/mask.p*")
    _Ending(stem='mask', extension='', is_name=True)
    """
    tokens = glob_tokens(glob.rpartition("/")[2])
    dot = max((at for at, token in enumerate(tokens) if at and token == "."), default=len(tokens))
    stem, extension = literal_ending(tokens[:dot]), literal_ending(tokens[dot:])
    return _Ending(
        stem,
        extension if extension == "".join(tokens[dot:]) else "",
        stem == "".join(tokens[:dot]),
    )


def _change(own: _Ending, images: Sequence[_Ending]) -> _Change:
    """What the ending of a partner's glob becomes; itself where whole names are compared.

    Whole names are compared where a name can end as both globs say, since globs may also select
    files: `photos/*0.jpg` and `masks/*0.png`. If the globs of images have several endings, the
    partner loses its own, and an image is found by its whole key: otherwise it had several.
    """
    # A name without a wildcard can only stand for another one.
    endings = {each.stem if each.is_name == own.is_name else "" for each in images}
    new = min(endings) if len(endings) == 1 else ""
    if own.is_name:
        return _Change(own.stem, new) if new else _Change("", "")
    may_be_equal = any(each.endswith(own.stem) for each in endings)
    return _Change(own.stem, own.stem if may_be_equal else new)


# Compares masks and further images of a record with its image; every difference is a text.

_KINDS = {
    Role.MASK: "mask",
    Role.FURTHER_IMAGE: "further image",
    Role.OBJECT_MASK: "mask of object",
}
_OF_SIZE = (Role.MASK, Role.OBJECT_MASK)


def partner_problems(
    held: Mapping[str, Sequence[Any]],
    size: tuple[int, int] | None,
    decode: Callable[[bytes], ImageInfo],
) -> Iterator[str]:
    """What is wrong with the masks and further images of a record.

    Args:
        held: the values of the record by their source.
        size: height and width of its image; None if they are not known.
        decode: gives format and size of an image; raises `RejectedImageError` if it cannot be
            decoded.
    """
    for source, values in held.items():
        role = source_of(source).role
        if role not in _KINDS or not len(values):
            continue
        many = role is Role.OBJECT_MASK
        if many:
            # Objects without a segmentation share their mask.
            decode = functools.cache(decode)
            try:
                check_mask_cost(len({*values}), *(size or (0, 0)))
            except RejectedImageError as error:
                yield error.detail
                continue
        for number, data in enumerate(values if many else values[:1]):
            what = f"the {_KINDS[role]}{f' {number}' if many else ''} ({source})"
            try:
                info = decode(data)
            except RejectedImageError as error:
                yield f"{what} is {error.reason.code}: {error.detail}"
                continue
            partner, _ = partner_of(source) or ("", "")
            stored = held.get(f"{partner}.format", ())
            if len(stored) and stored[0] != info.format.encode():
                said = stored[0].decode(errors="replace")
                yield f"{what} is {info.format}, the record says {said}"
            if role not in _OF_SIZE:
                continue
            if (info.format, info.channels) != ("png", 1):
                yield f"{what} is a {info.format} of {info.channels} channels, not a gray PNG"
            if size is not None and (info.height, info.width) != size:
                yield f"{what} is {info.height} x {info.width}, the image {size[0]} x {size[1]}"
