"""The lines of a summary about the name of a dataset and what is said about it."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from typing import Any

from transforms.core.card.croissant_properties import properties_of
from transforms.core.card.dataset_card import Card, card_of
from transforms.core.dataset.output_names import INFO

# Croissant requires the first four, and its checker warns of the others.
_WANTED = {
    "license": "--license",
    "url": "--homepage",
    "creator": "--croissant",
    "datePublished": "--croissant",
    "citeAs": "--citation",
}


def card_lines(manifest: Mapping[str, Any], output: str) -> Iterator[str]:
    """The lines of a summary about the card of a finished dataset; none without a name.

    Args:
        manifest: of the dataset.
        output: its folder.
    """
    card = card_of(manifest["options"])
    if card is None:
        return
    if INFO in manifest["files"]:
        yield f"tfds     {_tfds_line(card, output)}"
    said = {
        "license": card.license,
        "url": card.homepage,
        "citeAs": card.citation,
        **properties_of(card.croissant),
    }
    lacks = [f"{name} ({flag})" for name, flag in _WANTED.items() if not said.get(name)]
    if lacks:
        yield f"card     croissant.json lacks {', '.join(lacks)}"


def _tfds_line(card: Card, output: str) -> str:
    """How to load a dataset by its name, or what folder that would need."""
    name = f"{card.name}:{card.dataset_version}"
    places = (card.name, card.dataset_version)
    folder, version = posixpath.split(output.rstrip("/"))
    data_dir, named = posixpath.split(folder)
    if (named, version) == places:
        return f'tfds.load("{name}", data_dir="{data_dir or "."}")'
    return (
        f'tfds.builder_from_directory("{output}"); for tfds.load("{name}"), --output must end in '
        f"{'/'.join(places)}"
    )
