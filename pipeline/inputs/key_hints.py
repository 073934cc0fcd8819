"""Hints in messages, each tried on the actual inputs before it is given."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pipeline.inputs.image_samples import ImageSample
from transforms.core.planning.keys import KEY_KINDS, row_key

# Characters of a line and of a key that are shown.
_SHOWN = 60


def key_hint(cells: Sequence[str], sample: ImageSample) -> str:
    """Which `--key` makes rows name images; the one under which the fewest images share a key.

    Args:
        cells: keys of the first rows; none of them identifies an image.
        sample: the images.
    """
    named = _other_kind(cells, sample, lambda cell, kind: row_key(cell, kind=kind))
    return named or "check --label_key and --key"


def listed_key_hint(lines: Sequence[str], sample: ImageSample, kind: str) -> str:
    """How the lines of `--keys`, which are compared as they are, become keys of images.

    Args:
        lines: the first ones; none of them is a key.
        sample: the images.
        kind: of their keys.
    """
    if named := _other_kind(lines, sample, lambda line, _: line):
        return named
    keys = sample.keys(kind)
    for line in lines:
        near = row_key(line, kind=kind)
        below = (key for key in keys if line.endswith(f"/{key}"))
        if key := near if near in keys else max(below, key=len, default=""):
            return f"write {key[:_SHOWN]!r} for {line[-_SHOWN:]!r}"
    return "check the file"


def _other_kind(
    texts: Sequence[str], sample: ImageSample, key_of: Callable[[str, str], str]
) -> str:
    """The `--key` to try, under which some texts are keys; empty if there is none."""
    found = []
    for kind in KEY_KINDS:
        keys = sample.keys(kind)
        named = sum(key_of(text, kind) in keys for text in texts)
        if named:
            found.append((len(sample.uris) - len(keys), -named, kind))
    if not found:
        return ""
    shared, _, kind = min(found)
    doubt = f", under which {shared} images of {len(sample.uris)} share a key and are rejected"
    return f"try --key {kind}" + (doubt if shared else "")
