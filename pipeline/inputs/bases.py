"""The datasets of `--reuse`: whether their records can be reused in this run."""

from __future__ import annotations

import logging
import posixpath
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.config import ConvertConfig
from pipeline.errors import UsageError
from pipeline.open_dataset import has_manifest, open_dataset
from transforms.core.features.feature_sources import Role, with_role
from transforms.core.planning.keys import tidy_root
from transforms.core.planning.recipes import changed_libraries
from transforms.core.planning.staged_images import MEMORY
from transforms.read_base import Base, BasePartner
from transforms.storage.files import is_same_path, storage_of

_LOGGER = logging.getLogger(__name__)

# The options that decide which images are accepted, and their bytes.
_OF_PIXELS = (
    *("check", "max_pixels", "transcode", "resize", "color", "quality", "reencode"),
    *("exif_orientation", "strip_metadata", "depth"),
)

# The flags of options that are not flags themselves.
_FLAGS = {"reencode": "quality"}


def read_bases(folders: Sequence[str], config: ConvertConfig) -> tuple[Base, ...]:
    """The datasets whose records can be reused; of each other, a line says why not.

    Args:
        folders: the values of `--reuse`.
        config: of the run.

    Raises:
        UsageError: a folder holds no dataset that this program reads.
    """
    bases = []
    for folder in folders:
        # A run that was killed while it replaced this dataset has all shards staged already.
        if _is_output(folder, config) and not has_manifest(folder):
            continue
        try:
            manifest = open_dataset(folder)
        except UsageError as error:
            raise UsageError(f"--reuse: {error}") from error
        if reason := _difference(manifest, config):
            _LOGGER.warning("--reuse %s has no effect: %s", folder, reason)
            continue
        # Rows that list images spell them as the path of the CSV.
        own = config.globs if config.images else (config.root,)
        root = same_spelling(manifest["root"], own)
        # An edited manifest may lack its digest: the reader refuses it.
        digest = manifest.get("digest", "")
        feature, partners = _feature(manifest, config), _partners(manifest, config)
        bases.append(Base(folder, feature, digest, root, _is_of_pixels(config), partners))
    # A dataset that is in place is compared with the plan, or replaced: it needs no records.
    is_compared = bases and not config.overwrite and has_manifest(config.output)
    return () if is_compared else tuple(bases)


def same_spelling(root: str, globs: Sequence[str]) -> str:
    """The root of another dataset, absolute if the globs of this run are, and relative if not.

    A relative root is below this working folder. As it is if that cannot be decided: without
    globs, for those of both kinds, and for a path that leads out of a folder by `..`.

    Args:
        root: of the manifest.
        globs: of the images of this run.
    """
    kinds = {each.startswith("/") for each in globs}
    # A root in a bucket is not normal, for its two slashes.
    is_normal = (root or ".") == posixpath.normpath(root) and root != MEMORY
    storages = {type(storage_of(each)) for each in (root, *globs)}
    is_known = is_normal and len(kinds) == 1 and len(storages) == 1
    if not is_known or root.startswith("/") in kinds:
        return root
    spelled = (tidy_root(each) for each in storage_of(root).spellings(root or "."))
    return next(each for each in spelled if each.startswith("/") in kinds)


def _is_output(folder: str, config: ConvertConfig) -> bool:
    return config.overwrite and is_same_path(folder, config.output)


def _is_of_pixels(config: ConvertConfig) -> bool:
    """Whether the new records hold decoded pixels, and no image files."""
    roles = {feature.role for feature in config.features}
    return Role.PIXELS in roles and Role.IMAGE not in roles


def _feature(manifest: Mapping[str, Any], config: ConvertConfig) -> str:
    """The feature of a dataset from which the new records can be made; empty if there is none."""
    files, pixels = (with_role(manifest["features"], role) for role in (Role.IMAGE, Role.PIXELS))
    if not _is_of_pixels(config):
        return next(iter(files), "")
    # The hash in the index is that of the image files, if there are any.
    return "" if files else next(iter(pixels), "")


def _partners(manifest: Mapping[str, Any], config: ConvertConfig) -> tuple[BasePartner | None, ...]:
    """The masks and further images of a dataset, in the order of this run; None without one."""
    # A mask has the orientation of the stored image: both have files, or both pixels (`_feature`).
    names = {each["source"]: each["name"] for each in manifest["features"]}
    roots = manifest.get("partners", {})
    return tuple(
        BasePartner(names[source], same_spelling(roots[partner.name], partner.globs))
        if (source := f"{partner.name}.bytes") in names and partner.name in roots
        else None
        for partner in config.partners
    )


def _difference(manifest: Mapping[str, Any], config: ConvertConfig) -> str:
    """The reason why no record of a dataset can be reused; empty if there is none."""
    if not manifest.get("index"):
        return "it has no index"
    if config.of_rows:
        return "the new records are made of rows"
    if not _feature(manifest, config) and manifest.get("options_digest") != config.dataset.digest:
        kind = "decoded pixels" if _is_of_pixels(config) else "image files"
        return f"its records hold no {kind}"
    if flag := other_pixel_option(manifest, config):
        return f"it was made with another {flag}"
    if others := changed_libraries(manifest):
        return f"it was made with {'; '.join(others)}"
    return ""


def other_pixel_option(manifest: Mapping[str, Any], config: ConvertConfig) -> str:
    """The first flag about pixels and their check with which a dataset differs; empty if none."""
    options = config.options
    for name in _OF_PIXELS:
        if manifest["options"].get(name) != options.get(name):
            return f"--{_FLAGS.get(name, name)}"
    return ""
