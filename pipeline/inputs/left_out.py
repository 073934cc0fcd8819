"""Files that `--images` or `--masks` match but that are no images, such as the label file."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

from pipeline.inputs.image_samples import list_inputs, plain_globs
from transforms.core.dataset.output_names import LABELS, MANIFEST
from transforms.core.decisions import Decision
from transforms.core.features.layouts import is_layout_file
from transforms.core.features.partners import Partner
from transforms.core.globs import WILDCARD, glob_regex
from transforms.find_files import LeftOut
from transforms.storage.files import join, storage_of


def left_out(
    flags: argparse.Namespace, partners: Sequence[Partner] = ()
) -> tuple[LeftOut, list[Decision]]:
    """The paths that the listing of images leaves out, and a decision for each.

    Args:
        flags: those of the command line.
        partners: masks and further images, which are listed like images.

    Raises:
        UsageError: the label files cannot be listed.
    """
    paths: list[str] = []
    if flags.labels is not None:
        for each in plain_globs([flags.labels], "--labels"):
            is_glob = WILDCARD.search(each)
            paths += [f.uri for f in list_inputs(each, "--labels")] if is_glob else [each]
    if isinstance(flags.class_names, str):
        paths.append(flags.class_names)
    if isinstance(flags.keys, str):
        paths.append(flags.keys)
    if is_layout_file(flags.layout):
        paths.append(flags.layout)
    named = {"--images": flags.images or (), **{each.title: each.globs for each in partners}}
    globs = {title: _absolute(patterns) for title, patterns in named.items()}
    matched = {path: title for path in paths if (title := _matching(globs, path))}
    decisions = [
        Decision("left out", path, f"{title} matches it, and another flag names it")
        for path, title in matched.items()
    ]
    output = flags.output.rstrip("/")
    folders: list[str] = []
    inside = (join(output, name) for name in (MANIFEST, LABELS, "x/train-0.tfrecord"))
    if title := next(filter(None, (_matching(globs, path) for path in inside)), ""):
        folders.append(output)
        decisions.append(Decision("left out", f"{output}/", f"{title} matches files of --output"))
    spelled = frozenset(each for path in matched for each in storage_of(path).spellings(path))
    below = tuple(f"{each}/" for folder in folders for each in storage_of(folder).spellings(folder))
    return LeftOut(spelled, below), decisions


def _absolute(patterns: Sequence[str]) -> list[str]:
    return [storage_of(pattern).absolute(pattern) for pattern in patterns]


def _matching(globs: Mapping[str, Sequence[str]], path: str) -> str:
    """The first flag of which a glob matches a path, or what a layout file names; empty if none."""
    absolute = storage_of(path).absolute(path)
    for title, patterns in globs.items():
        if any(glob_regex(pattern).fullmatch(absolute) for pattern in patterns):
            return title
    return ""
