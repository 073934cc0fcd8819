"""Images that a pipeline gives as bytes: the check of its elements, and the join of their names."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from transforms.core.arguments import exact_text
from transforms.core.labels.label_kinds import given_label
from transforms.core.planning.split_assignment import SplitAssigner
from transforms.core.planning.splits import split_text
from transforms.core.records import Count, JoinSide, LabelledImage
from transforms.core.rejections import Reason, RejectedImageError, Rejection

_FORMS = "(key, bytes), (key, bytes, label) or (key, bytes, label, split)"


class GivenImage(NamedTuple):
    """One image of a caller's pipeline.

    Attributes:
        key: its name, unique in the dataset.
        data: the bytes of its file.
        labels: its labels as text; empty ones are left out.
        split: the split that it names; empty if the hash decides.
    """

    key: str
    data: bytes
    labels: tuple[str, ...]
    split: str


def given_image(element: object) -> GivenImage:
    """Checks an element of a caller's pipeline.

    Raises:
        TypeError: it is not a tuple of key, bytes, label and split, or one of these is of another
            type.
        ValueError: its key is empty.

    >>> given_image(("cat/1.jpg", b"...", ["cat", None, 7.0]))
    GivenImage(key='cat/1.jpg', data=b'...', labels=('cat', '7'), split='')
    """
    if not isinstance(element, tuple) or not 2 <= len(element) <= 4:
        raise TypeError(f"an image is a tuple {_FORMS}, not {_kind(element)}")
    key, data, label, split = (*element, None, None)[:4]
    if not isinstance(key, str):
        raise TypeError(f"the key of an image is a str, not {_kind(key)}: give {_FORMS}")
    if not key.strip():
        raise ValueError("the key of an image is empty: give each image a name of its own")
    if not isinstance(data, bytes | bytearray):
        raise TypeError(
            f"the image {key!r:.200} is {_kind(data)}, not bytes: give the content of its file; "
            "LabelImages takes paths"
        )
    if split is not None and not isinstance(split, str):
        raise TypeError(f"the split of {key!r:.200} is a str or None, not {_kind(split)}")
    labels = label if isinstance(label, list | tuple | set | frozenset) else (label,)
    texts = [text for each in labels if (text := _label_text(key, each))]
    if isinstance(labels, set | frozenset):
        texts.sort()
    kept = tuple(dict.fromkeys(texts))
    return GivenImage(exact_text(key), bytes(data), kept, split_text(split or ""))


def _label_text(key: str, label: object) -> str:
    if label is not None and not isinstance(label, str | numbers.Number):
        raise TypeError(f"a label of {key!r:.200} is a str or a number, not {_kind(label)}")
    return given_label(label)


def _kind(value: object) -> str:
    return "None" if value is None else f"the {type(value).__name__} {value!r:.60}"


def join_given(
    key: str, group: Iterable[JoinSide], *, assigner: SplitAssigner, is_labelled: bool
) -> Iterator[LabelledImage | Rejection | Count]:
    """The image of one key with its split and order, or the rejections of several.

    An image that is given twice with the same bytes, labels and split counts once.

    Args:
        key: the key.
        group: all images with this key.
        assigner: gives the image its split and its order.
        is_labelled: whether images need a label.
    """
    given = list(group)
    images = sorted(set(given))
    if len(images) < len(given):
        yield Count("images_found_again", len(given) - len(images))
    if len(images) == 1:
        yield from _placed(key, images[0], assigner, is_labelled)
    elif len({(image.path, image.version) for image in images}) > 1:
        detail = f"{len(images)} images have the key {key!r}"
        yield from _rejected(Reason.DUPLICATE_KEY, detail, images, key)
    elif len({(image.label, image.cells) for image in images}) > 1:
        detail = "it is given with several labels"
        yield from _rejected(Reason.AMBIGUOUS_LABEL, detail, images, key)
    else:
        said = ", ".join(repr(image.split) for image in images)
        yield from _rejected(Reason.SPLIT_CONFLICT, f"it is given with splits {said}", images, key)


def _placed(
    key: str, image: JoinSide, assigner: SplitAssigner, is_labelled: bool
) -> Iterator[LabelledImage | Rejection | Count]:
    if is_labelled and not image.label and not image.cells:
        yield from _rejected(Reason.NO_LABEL, "its label is empty", [image], key)
        return
    try:
        split, order = assigner.assign(key, split=image.split, group="")
    except RejectedImageError as error:
        yield from _rejected(error.reason, error.detail, [image], key)
        return
    # Several labels are stored as those of one row.
    rows = 1 if image.cells else 0
    if rows:
        yield Count("rows_read", rows)
    file = (image.path, image.size, image.version)
    yield LabelledImage(split, order, key, *file, image.label, rows, image.cells)


def _rejected(
    reason: Reason, detail: str, images: list[JoinSide], key: str
) -> Iterator[Rejection | Count]:
    """One rejection for each path and content of the images, and the count of the others."""
    files = {(image.path, image.version): image for image in images}
    for image in files.values():
        yield Rejection("image", reason.value, detail, image.path, key)
    if len(files) < len(images):
        yield Count("images_found_again", len(images) - len(files))
