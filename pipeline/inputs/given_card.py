"""Resolves the flags about the name of a dataset and what is said about it."""

from __future__ import annotations

import argparse

from pipeline.errors import UsageError
from pipeline.resolve.path_flags import check_path, read_flag_file
from transforms.core.card.croissant_properties import PropertiesError, parse_properties
from transforms.core.card.dataset_card import DEFAULT_VERSION, Card


def given_card(flags: argparse.Namespace) -> Card | None:
    """The card that the flags describe; None without `--name`.

    Raises:
        UsageError: the properties of `--croissant` cannot be read or used.
    """
    if flags.name is None:
        return None
    return Card(
        flags.name,
        flags.dataset_version or DEFAULT_VERSION,
        flags.description or "",
        flags.citation or "",
        flags.license or "",
        flags.homepage or "",
        _properties(flags.croissant) if flags.croissant else "",
    )


def _properties(given: str) -> str:
    """The properties of a file, or of a JSON object in place of its path."""
    is_json = given.lstrip().startswith("{")
    if is_json:
        text, where = given, "--croissant"
    else:
        check_path("--croissant", given)
        text, where = read_flag_file("--croissant", given), f"--croissant {given}"
    try:
        return parse_properties(text)
    except PropertiesError as error:
        raise UsageError(f"{where}: {error}") from error
