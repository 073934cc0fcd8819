"""Masks and further images: the flag `--masks`, and the globs that a layout file names."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Collection, Sequence

from pipeline.errors import UsageError
from pipeline.inputs.image_samples import ImageSample, list_inputs, plain_globs, why_empty
from pipeline.resolve.layout_flags import read_layout_file
from pipeline.resolve.path_flags import check_path
from transforms.core.features.feature_sources import MASK
from transforms.core.features.layouts import is_layout_file
from transforms.core.features.partner_keys import PartnerKeys
from transforms.core.features.partners import Partner
from transforms.core.globs import glob_regex
from transforms.core.planning.archives import archive_problem
from transforms.core.planning.image_globs import any_case
from transforms.core.planning.keys import fixed_root
from transforms.storage.files import storage_of

# Files that are listed before the job: enough to find one of the first images.
_SAMPLE = 20_000


def read_partners(flags: argparse.Namespace) -> tuple[Partner, ...]:
    """The masks and further images of a run, in a fixed order.

    Args:
        flags: those of the command line.

    Raises:
        UsageError: they cannot be used with these flags, or a path is wrong.
    """
    given = {MASK: ("--masks", tuple(flags.masks))} if flags.masks else {}
    if is_layout_file(flags.layout):
        for name, globs in read_layout_file(flags.layout).partners.items():
            for glob in globs:
                check_path(f"--layout {flags.layout}: {name}", glob)
            given[name] = (name, globs)
    return tuple(_partner(name, title, globs) for name, (title, globs) in sorted(given.items()))


def _partner(name: str, title: str, patterns: Sequence[str]) -> Partner:
    globs = tuple(plain_globs(patterns, title))
    for glob in globs:
        if problem := archive_problem(glob):
            raise UsageError(f"{title} {glob!r} {problem}")
    return Partner(name, title, globs, fixed_root(globs))


def check_partners(
    flags: argparse.Namespace, partners: Sequence[Partner], sample: ImageSample, key: str
) -> None:
    """Lists the first files of each partner, and checks that they fit the images.

    Args:
        flags: those of the command line, with plain globs of images.
        partners: see `read_partners`.
        sample: the first images.
        key: kind of the join key.

    Raises:
        UsageError: a glob matches nothing, or images; or no file has the key of an image.
    """
    if partners and key == "uri":
        raise UsageError(
            f"--key uri cannot be used with {partners[0].title}: no other file has the URI of an "
            "image; use --key stem, or --key path"
        )
    for partner in partners:
        files: list[tuple[str, str]] = []
        for pattern in _patterns(flags, partner):
            found = _first_files(pattern, partner.title, max(1, _SAMPLE + 1 - len(files)))
            if not found:
                problem = f"no file matches {partner.title} {pattern!r}"
                raise UsageError(f"{problem}; {why_empty(pattern)}")
            files += found
        _check_apart(flags.images or (), partner, [uri for _, uri in files], sample)
        if sample.is_all and len(files) <= _SAMPLE:
            _check_keys(flags.images, partner, files, sample.keys(key), key)


def _patterns(flags: argparse.Namespace, partner: Partner) -> Sequence[str]:
    """The globs of a partner as they are written, so with braces."""
    if partner.name == MASK:
        return tuple(flags.masks)
    return read_layout_file(flags.layout).partners[partner.name]


def _first_files(pattern: str, title: str, count: int) -> list[tuple[str, str]]:
    """The first files that a pattern matches, each after its glob."""
    files = (
        (glob, file.uri)
        for glob in plain_globs([pattern], title)
        for file in list_inputs(glob, title, listed=any_case(glob))
    )
    return [*itertools.islice(files, count)]


def _check_keys(
    globs: Sequence[str],
    partner: Partner,
    files: Sequence[tuple[str, str]],
    images: Collection[str],
    key: str,
) -> None:
    """Refuses files of which none belongs to an image."""
    keys = PartnerKeys(partner, kind=key, images=globs)
    key_of = {glob: keys.of_glob(glob) for glob, _ in files}
    if not any(key_of[glob](uri) in images for glob, uri in files):
        glob, uri = min(files)
        raise UsageError(
            f"no file of {partner.title} has the key of an image: images have keys like "
            f"{min(images)!r}, but {uri!r} is for {key_of[glob](uri)!r} (--key {key}); write what "
            "follows the common part of the names into the globs, as in 'masks/*_mask.png'"
        )


def _check_apart(
    images: Sequence[str], partner: Partner, uris: Sequence[str], sample: ImageSample
) -> None:
    if not images:
        listed = {storage_of(uri).absolute(uri) for uri in sample.uris}
        both = next((uri for uri in uris if storage_of(uri).absolute(uri) in listed), None)
        if both is not None:
            raise UsageError(
                f"{partner.title} matches {both!r}, which a row of --labels lists as an image: "
                "give a glob that matches no image"
            )
    for glob in images:
        matches = glob_regex(any_case(storage_of(glob).absolute(glob))).fullmatch
        both = next((uri for uri in uris if matches(storage_of(uri).absolute(uri))), None)
        if both is not None:
            raise UsageError(
                f"--images {glob!r} and {partner.title} both match {both!r}: give globs that have "
                "no file in common"
            )
