"""Flags that name files and folders."""

from __future__ import annotations

import argparse
import dataclasses
import os
import re

from pipeline.errors import UsageError, refusing, trying
from pipeline.options.option_table import OPTIONS
from transforms.core.messages import holds_secret
from transforms.dataset.dataset_options import DEFAULT_VERSION, CardOptions
from transforms.report.card_files import PropertiesError, parse_properties
from transforms.storage.files import storage_of

# Checks the paths that flags name, and reads the text files among them.

# Schemes as they are often written, and as Beam has them.
_SCHEMES = {"gs": "gs", "gcs": "gs", "s3": "s3", "s3a": "s3", "s3n": "s3", "hdfs": "hdfs"}
_SCHEME = re.compile(rf"({'|'.join(_SCHEMES)}):/{{1,2}}(?!/)", re.IGNORECASE)


def check_path(flag: str, path: str) -> None:
    """Refuses a path that cannot be read or recorded: the manifest names every input.

    A signed URL is refused: anyone who reads the manifest could use it, and it expires before
    the dataset does.

    Args:
        flag: its name in the message.
        path: a path, a glob or a URL.

    Raises:
        UsageError: it is not UTF-8, holds a secret, is the address of a web server, or names no
            bucket.
    """
    try:
        path.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{flag} {path!r} is not valid UTF-8: rename the folder or file") from None
    if path.startswith("~") and os.path.expanduser(path) != path and not os.path.lexists(path[0]):
        written = os.path.expanduser(path)
        raise UsageError(
            f"{flag} {path!r}: the shell does not expand ~ in quotes; write {written!r}"
        )
    if found := _SCHEME.match(path):
        meant = f"{_SCHEMES[found[1].lower()]}://{path[found.end() :]}"
        if meant != path:
            raise UsageError(f"{flag} {path!r}: did you mean {meant!r}?")
    if not holds_secret(path) and (problem := storage_of(path).name_problem(path)):
        raise UsageError(f"{flag} {path!r} {problem}")
    is_web = is_web_address(path)
    if not is_web and not holds_secret(path):
        return
    # Of the parameters, nothing is shown.
    scheme, _, rest = re.split("[?#;]", path, maxsplit=1)[0].rpartition("://")
    shown = f"{scheme}://{rest.rpartition('@')[2]}" if scheme else rest
    if is_web:
        problem = "is a web address, which cannot be read: copy the files, or give gs://BUCKET/NAME"
    else:
        problem = "is signed or has a password: give only the name"
    raise UsageError(f"{flag} {shown!r} {problem}; credentials come from the environment")


def check_paths(flags: argparse.Namespace) -> None:
    """Refuses paths in flags, see `check_path`."""
    for name, option in OPTIONS.items():
        value = getattr(flags, name)
        if option.is_path and value is not None:
            # A configuration file may list the names of classes, instead of naming a file of them,
            # and keys may have been read from standard input.
            paths = (value,) if isinstance(value, str) else ()
            for path in value if option.is_repeatable else paths:
                check_path(f"--{name}", path)


def is_web_address(path: str) -> bool:
    """Whether it is the address of a web server."""
    return path.lower().startswith(("http://", "https://"))


def read_flag_file(flag: str, path: str) -> str:
    """The text of the file that a flag names.

    Raises:
        UsageError: there is none, or it cannot be read.
    """
    with trying(f"read {flag} {path}"):
        text = storage_of(path).read_text(path)
    if text is None:
        raise UsageError(f"no such file: {flag} {path}")
    return text


# Resolves the flags about the name of a dataset and what is said about it.


def given_card(flags: argparse.Namespace) -> CardOptions:
    """The options of the card as they are recorded.

    Raises:
        UsageError: the properties of `--croissant` cannot be read or used.
    """
    card = CardOptions.of(vars(flags))
    if card.name is None:
        return card
    properties = _properties(card.croissant) if card.croissant else None
    version = card.dataset_version or DEFAULT_VERSION
    return dataclasses.replace(card, dataset_version=version, croissant=properties)


def _properties(given: str) -> str:
    """The properties of a file, or of a JSON object in place of its path."""
    is_json = given.lstrip().startswith("{")
    if is_json:
        text, where = given, "--croissant"
    else:
        check_path("--croissant", given)
        text, where = read_flag_file("--croissant", given), f"--croissant {given}"
    with refusing(PropertiesError, because=f"{where}: "):
        return parse_properties(text)
