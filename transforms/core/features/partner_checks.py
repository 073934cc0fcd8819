"""Compares masks and further images of a record with its image; every difference is a text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from transforms.core.features.feature_sources import Role, partner_of, source_of
from transforms.core.images.check import ImageInfo
from transforms.core.rejections import RejectedImageError

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
        for number, data in enumerate(values if many else values[:1]):
            what = f"the {_KINDS[role]}{f' {number}' if many else ''} ({source})"
            try:
                info = decode(data)
            except RejectedImageError as error:
                yield f"{what} is {error.reason.value}: {error.detail}"
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
