"""Files that `--images` matches but that are not images, such as the label file."""

from __future__ import annotations

import argparse

from pipeline.inputs.image_samples import list_inputs, plain_globs
from transforms.core.dataset.output_names import LABELS, MANIFEST
from transforms.core.decisions import Decision
from transforms.core.features.layouts import is_layout_file
from transforms.core.globs import WILDCARD, glob_regex
from transforms.find_images import LeftOut
from transforms.storage.files import join, storage_of


def left_out(flags: argparse.Namespace) -> tuple[LeftOut, list[Decision]]:
    """The paths that the listing of images leaves out, and a decision for each.

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
    globs = [storage_of(pattern).absolute(pattern) for pattern in flags.images or ()]
    matched = [path for path in paths if _matches(globs, path)]
    decisions = [
        Decision("left out", path, "--images matches it, and another flag names it")
        for path in matched
    ]
    output = flags.output.rstrip("/")
    folders: list[str] = []
    inside = (join(output, name) for name in (MANIFEST, LABELS, "x/train-0.tfrecord"))
    if any(_matches(globs, path) for path in inside):
        folders.append(output)
        decisions.append(Decision("left out", f"{output}/", "--images matches files of --output"))
    spelled = frozenset(each for path in matched for each in storage_of(path).spellings(path))
    below = tuple(f"{each}/" for folder in folders for each in storage_of(folder).spellings(folder))
    return LeftOut(spelled, below), decisions


def _matches(globs: list[str], path: str) -> bool:
    absolute = storage_of(path).absolute(path)
    return any(glob_regex(pattern).fullmatch(absolute) for pattern in globs)
