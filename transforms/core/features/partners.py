"""Masks and further images: files that are joined with the image of their key.

Each is a side of the join. What a file is (path, size, version) crosses the shuffle as text, never
its bytes: it is read where its image is read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from transforms.core.planning.keys import full_uri
from transforms.core.records import Count, JoinSide, LabelledImage, is_partner
from transforms.core.rejections import Reason, Rejection

# Files that one detail names.
_MAX_NAMED = 5

Joined = LabelledImage | Rejection | Count


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
    return JoinSide(path, size, version, "", "", group=name)


def join_partners(
    key: str,
    group: Iterable[JoinSide],
    *,
    join: Callable[[str, Iterable[JoinSide]], Iterable[Joined]],
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
        if not is_partner(side):
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
        if not isinstance(result, LabelledImage):
            yield result
        elif (problem := _problem(key, found, partners)) is not None:
            reason, detail = problem
            yield Rejection("image", reason.value, detail, result.path, key)
            if result.rows:
                yield Count("rows_rejected", result.rows)
        else:
            used = distinct
            yield result._replace(partners=_text(found, partners))
    if used < distinct:
        yield Count("partners_rejected", distinct)


def _without_image(
    key: str, found: dict[str, dict[str, JoinSide]], partners: Sequence[Partner]
) -> Iterator[Rejection]:
    for partner in partners:
        for path in sorted(found.get(partner.name, ())):
            detail = f"no image has the key {key!r} of this file of {partner.title}"
            reason = Reason.PARTNER_WITHOUT_IMAGE.value
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
            more = f" and {len(files) - _MAX_NAMED} more" if len(files) > _MAX_NAMED else ""
            named = f"{', '.join(map(repr, files[:_MAX_NAMED]))}{more}"
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


def _text(found: dict[str, dict[str, JoinSide]], partners: Sequence[Partner]) -> str:
    """The form for `LabelledImage`: one file of each partner."""
    sides = [side for partner in partners for side in found[partner.name].values()]
    files = [[side.path, side.size, side.version] for side in sides]
    return json.dumps(files, ensure_ascii=False, separators=(",", ":"))
