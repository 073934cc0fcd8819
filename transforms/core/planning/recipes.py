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

HEIC_LIBRARIES = ("pillow-heif", "pi-heif")
"""Distributions of which one decodes HEIC."""

OBJECT_MASK_LIBRARIES = ("pillow", "pycocotools")
"""Distributions that draw masks of objects and encode them."""

MODEL_LIBRARIES = (*PIXEL_LIBRARIES, "keras", "numpy")
"""Distributions that affect the output of a model."""

# Libraries of Pillow; wheels bundle them, packages of Linux distributions may not.
_PILLOW_PARTS = ("jpg", "jpg_2000", "zlib", "libtiff", "webp", "avif")


_UNKNOWN = "unknown"


class Recipes(NamedTuple):
    """The recipes that a shard may have.

    Attributes:
        unchanged: if all of its images are stored unchanged.
        changed: if one is not; the same as `unchanged` if no library matters.
        from_heic: if one was a HEIC; the same as `changed` if no decoder of HEIC is installed.
    """

    unchanged: str
    changed: str
    from_heic: str

    def of(self, *, is_changed: bool, has_heic: bool) -> str:
        """The recipe of a shard.

        Args:
            is_changed: whether one of its images is not stored unchanged.
            has_heic: whether one of them was a HEIC.
        """
        if has_heic:
            return self.from_heic
        return self.changed if is_changed else self.unchanged


class Libraries(NamedTuple):
    """The distributions that affect output bytes.

    Attributes:
        always: for every record: what it holds of an image depends on them.
        changed: for records with changed pixels.
        gzip: whether zlib compresses the shards.
        heic: of which the installed ones are for records made of a HEIC.
        values: for what records hold next to their images, on which no stored image depends.
    """

    always: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    gzip: bool = False
    heic: tuple[str, ...] = ()
    values: tuple[str, ...] = ()


class RecipeMaker:
    """Computes the recipes of shards, with the library versions of the worker."""

    def __init__(self, options_digest: str, libraries: Libraries) -> None:
        """Looks the versions up.

        Args:
            options_digest: of the options that affect output bytes.
            libraries: the libraries that affect output bytes.
        """
        always, changed, *_ = libraries
        images = library_versions((*always, *changed))
        of_all = library_versions((*always, *libraries.values))
        # A recipe that names these versions already has no other one for changed images.
        of_changed = {} if {*changed} <= {*of_all} else library_versions(changed)
        if libraries.gzip:
            of_all["zlib"] = zlib.ZLIB_RUNTIME_VERSION
        self._digest = f"{options_digest}{_as_text(of_all)}"
        self._of_changed = _as_text(of_changed)
        self._always = _as_text({name: images[name] for name in always})
        self._changed = _as_text(images)
        self._heic = _as_text(installed_versions(libraries.heic))

    def versions(self, *, is_changed: bool, has_heic: bool) -> str:
        """The library versions on which the images of a shard depend, a line for each.

        Args:
            is_changed: whether one of them is not stored unchanged.
            has_heic: whether one of them was a HEIC.
        """
        versions = self._changed if is_changed else self._always
        return (versions + (self._heic if has_heic else "")).strip()

    def recipes(self, name: str, images: Iterable[ShardImage | ShardRow]) -> Recipes:
        """The recipes of one shard; see `shard_recipe`."""
        unchanged = shard_recipe(self._digest, name, images)
        changed = _depending(unchanged, self._of_changed)
        return Recipes(unchanged, changed, _depending(changed, self._heic))


def library_versions(names: Iterable[str]) -> dict[str, str]:
    """The versions of installed distributions, and of what Pillow was built with."""
    versions = {name: distribution_version(name) for name in names}
    if "pillow" in versions:
        from PIL import features

        parts = (f"{name} {features.version(name)}" for name in _PILLOW_PARTS)
        versions["pillow"] += f" ({', '.join(parts)})"
    return versions


def installed_versions(names: Iterable[str]) -> dict[str, str]:
    """The versions of those distributions that are installed."""
    versions = {name: distribution_version(name) for name in names}
    return {name: version for name, version in versions.items() if version != _UNKNOWN}


def recorded_versions(names: Iterable[str], *, has_heic: bool) -> dict[str, str]:
    """The versions of these distributions, and of what decodes HEIC if an image was one."""
    versions = {name: distribution_version(name) for name in names}
    return versions | (installed_versions(HEIC_LIBRARIES) if has_heic else {})


def changed_libraries(manifest: Mapping[str, Any]) -> list[str]:
    """The pixel libraries whose versions differ from those of a dataset, with both versions."""
    versions = manifest["versions"]
    return [
        f"{name} {versions[name]}, here {now}"
        for name in (*PIXEL_LIBRARIES, *HEIC_LIBRARIES)
        if (now := distribution_version(name)) != versions.get(name, now)
    ]


def distribution_version(name: str) -> str:
    """The version of an installed distribution, or `unknown`."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        # Running from a source tree that is not installed.
        return _UNKNOWN


def _depending(recipe: str, versions: str) -> str:
    """The recipe of what also depends on library versions; the same if there are none."""
    if not versions:
        return recipe
    return hashlib.blake2b(f"{recipe}{versions}".encode(), digest_size=16).hexdigest()


def _as_text(versions: Mapping[str, str]) -> str:
    return "".join(f"\n{name} {version}" for name, version in sorted(versions.items()))
