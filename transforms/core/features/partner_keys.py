"""The key of the image to which a mask or further image belongs, where their names end differently.

Datasets name a mask after its image: `masks/1_mask.png` is that of `photos/1.jpg`. Which part of a
name says so is read from the globs: their endings, which follow the last wildcard. The ending of
the partner's glob stands for that of the images' globs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

from transforms.core.features.partners import Partner
from transforms.core.globs import glob_regex, glob_tokens, literal_ending
from transforms.core.planning.image_globs import any_case
from transforms.core.planning.keys import image_key, relative_path


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
            change = own
            if longer:
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
