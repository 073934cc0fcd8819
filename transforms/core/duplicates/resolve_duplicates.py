"""Decides which images with equal content are dropped."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from transforms.core.duplicates.equal_images import Equal, equal_group
from transforms.core.duplicates.fingerprints import MAX_IMAGES, described
from transforms.core.planning.row_cells import row_labels
from transforms.core.records import LabelledImage
from transforms.core.rejections import Reason, Rejection

# Labels named in one detail.
_MAX_NAMED = 5


class Decision(NamedTuple):
    """The decision for images with the same content.

    Attributes:
        kept: the image that is kept, or None.
        rejections: one for each other image.
        rows: label rows of the rejected images.
        equal: the group, or None for a single image.
    """

    kept: LabelledImage | None
    rejections: tuple[Rejection, ...] = ()
    rows: int = 0
    equal: Equal | None = None


def resolve_duplicates(images: Iterable[LabelledImage], *, md5: str) -> Decision:
    """Keeps the image whose key sorts first, or none if their classes differ; in any order.

    Args:
        images: all images with one content.
        md5: of that content, to detect a file that was overwritten since.
    """
    first, *others = sorted(images, key=lambda image: image.key)
    if not others:
        return Decision(first)
    every = [first, *others]
    classes = {tuple(sorted(labels_of(image))) for image in every}
    conflict = len(classes) > 1
    if conflict:
        said = [" and ".join(labels) or "nothing" for labels in sorted(classes)]
        more = f" and {len(said) - _MAX_NAMED} more" if len(said) > _MAX_NAMED else ""
        detail = (
            f"{len(every)} exact duplicates, such as {first.path!r} and {others[0].path!r}, are "
            f"labelled {', '.join(map(repr, said[:_MAX_NAMED]))}{more}"
        )
        reason, left_out = Reason.CONFLICTING_LABELS, every
    else:
        detail = f"an exact duplicate of {first.path!r}, which is kept"
        reason, left_out = Reason.DUPLICATE_IMAGE, others
    equal = equal_group(
        [_named(image, md5, is_kept=image not in left_out) for image in every[:MAX_IMAGES]],
        size=len(every),
        across=len({image.split for image in every}) > 1,
        conflict=conflict,
        dropped=0 if conflict else len(others),
    )
    return Decision(
        kept=None if conflict else first,
        rejections=tuple(
            Rejection("image", reason.value, detail, image.path, image.key) for image in left_out
        ),
        rows=sum(image.rows for image in left_out),
        equal=equal,
    )


def labels_of(image: LabelledImage) -> list[str]:
    """The labels of an image, each once: its own, or those of its rows."""
    labels = row_labels(image.cells)[1] if image.cells else [image.label]
    return list(dict.fromkeys(labels)) or [""]


def _named(image: LabelledImage, md5: str, *, is_kept: bool) -> dict[str, object]:
    """The image for `statistics.json`; the order gives the future position of a kept image."""
    return {
        **described(image.key, image.path, labels_of(image)),
        "split": image.split,
        "file": None,
        "offset": None,
        "length": None,
        "md5": md5,
        **({"order": image.order} if is_kept else {}),
    }
