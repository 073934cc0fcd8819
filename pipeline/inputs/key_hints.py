"""Hints in messages, each tried on the actual inputs before it is given."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.inputs.image_samples import ImageSample
from transforms.core.planning.keys import KEY_KINDS, row_key


def key_hint(cells: Sequence[str], sample: ImageSample) -> str:
    """Which `--key` makes rows name images; the one under which the fewest images share a key.

    Args:
        cells: keys of the first rows; none of them identifies an image.
        sample: the images.
    """
    found = []
    for kind in KEY_KINDS:
        keys = sample.keys(kind)
        named = sum(row_key(cell, kind=kind) in keys for cell in cells)
        if named:
            found.append((len(sample.uris) - len(keys), -named, kind))
    if not found:
        return "check --label_key and --key"
    shared, _, kind = min(found)
    doubt = f", under which {shared} images of {len(sample.uris)} share a key and are rejected"
    return f"try --key {kind}" + (doubt if shared else "")
