"""Shard recipes: inputs, options, and the library versions that affect a shard's bytes.

An unchanged image does not depend on any library: its bytes are those of its file. Changed
images, and all features of pixels or of a model, come from decoders and encoders, and another
version of these may give different bytes.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Mapping
from importlib import metadata
from typing import Any, NamedTuple

from transforms.core.planning.shards import shard_recipe
from transforms.core.records import ShardImage, ShardRow

PIXEL_LIBRARIES = ("pillow", "simplejpeg", "tensorflow")
"""Distributions that decode and encode pixels."""

MODEL_LIBRARIES = (*PIXEL_LIBRARIES, "keras", "numpy")
"""Distributions that affect the output of a model."""

# Libraries of Pillow; wheels bundle them, packages of Linux distributions may not.
_PILLOW_PARTS = ("jpg", "jpg_2000", "zlib", "libtiff", "webp", "avif")


class Recipes(NamedTuple):
    """The two recipes that a shard may have.

    Attributes:
        unchanged: if all of its images are stored unchanged.
        changed: if one is not; the same as `unchanged` if no library matters.
    """

    unchanged: str
    changed: str


class Libraries(NamedTuple):
    """The distributions that affect output bytes.

    Attributes:
        always: for every record.
        changed: for records with changed pixels.
        gzip: whether zlib compresses the shards.
    """

    always: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    gzip: bool = False


class RecipeMaker:
    """Computes the recipes of shards, with the library versions of the worker."""

    def __init__(self, options_digest: str, libraries: Libraries) -> None:
        """Looks the versions up.

        Args:
            options_digest: of the options that affect output bytes.
            libraries: the libraries that affect output bytes.
        """
        always = library_versions(libraries.always)
        if libraries.gzip:
            always["zlib"] = zlib.ZLIB_RUNTIME_VERSION
        self._digest = f"{options_digest}{_as_text(always)}"
        self._always = _as_text(library_versions(libraries.always))
        self._changed = _as_text(library_versions(libraries.changed))

    def versions(self, *, is_changed: bool) -> str:
        """The library versions on which the images of a shard depend, a line for each.

        Args:
            is_changed: whether one of them is not stored unchanged.
        """
        return (self._always + (self._changed if is_changed else "")).strip()

    def recipes(self, name: str, images: Iterable[ShardImage | ShardRow]) -> Recipes:
        """The recipes of one shard; see `shard_recipe`."""
        unchanged = shard_recipe(self._digest, name, images)
        if not self._changed:
            return Recipes(unchanged, unchanged)
        text = f"{unchanged}{self._changed}".encode()
        return Recipes(unchanged, hashlib.blake2b(text, digest_size=16).hexdigest())


def library_versions(names: Iterable[str]) -> dict[str, str]:
    """The versions of installed distributions, and of what Pillow was built with."""
    versions = {name: distribution_version(name) for name in names}
    if "pillow" in versions:
        from PIL import features

        parts = (f"{name} {features.version(name)}" for name in _PILLOW_PARTS)
        versions["pillow"] += f" ({', '.join(parts)})"
    return versions


def changed_libraries(manifest: Mapping[str, Any]) -> list[str]:
    """The pixel libraries whose versions differ from those of a dataset, with both versions."""
    versions = manifest["versions"]
    return [
        f"{name} {versions[name]}, here {now}"
        for name in PIXEL_LIBRARIES
        if (now := distribution_version(name)) != versions.get(name, now)
    ]


def distribution_version(name: str) -> str:
    """The version of an installed distribution, or `unknown`."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        # Running from a source tree that is not installed.
        return "unknown"


def _as_text(versions: Mapping[str, str]) -> str:
    return "".join(f"\n{name} {version}" for name, version in sorted(versions.items()))
