"""Paths that flags name: those that no command takes, and the text in the others."""

from __future__ import annotations

import importlib
import os
import re

from pipeline.errors import UsageError, input_error
from transforms.core.shown_text import holds_secret
from transforms.storage import files, gcs


def check_path(flag: str, path: str) -> None:
    """Refuses what could not be read or written down later: the manifest names every input.

    A signed address is one: who reads the manifest could act as its signer, and it expires before
    the dataset does.

    Args:
        flag: what to call it in the message.
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
        raise UsageError(f"{flag} {path!r}: no shell replaces a ~ in quotes; write {written!r}")
    if gcs.is_gcs(path) and not gcs.split_uri(path)[0]:
        # As a variable makes it that is not set.
        raise UsageError(f"{flag} {path!r} names no bucket: write gs://BUCKET/NAME")
    if not holds_secret(path):
        _check_extra(flag, path)
    is_web = path.lower().startswith(("http://", "https://"))
    if not is_web and not holds_secret(path):
        return
    # Of the parameters, nothing is shown.
    scheme, _, rest = re.split("[?#;]", path, maxsplit=1)[0].rpartition("://")
    shown = f"{scheme}://{rest.rpartition('@')[2]}" if scheme else rest
    if is_web:
        problem = "is a web address, which is not read: copy the files, or give gs://BUCKET/NAME"
    else:
        problem = "is signed or holds a password: give the name alone"
    raise UsageError(f"{flag} {shown!r} {problem}; credentials come from the environment")


# What Beam's extras bring, by the schemes that need them.
_EXTRAS = {
    "s3": ("aws", "boto3"),
    "hdfs": ("hadoop", "hdfs"),
    "azfs": ("azure", "azure.storage.blob"),
    "abfs": ("azure", "azure.storage.blob"),
    "abfss": ("azure", "azure.storage.blob"),
}


def _check_extra(flag: str, path: str) -> None:
    """Refuses a scheme whose package is not installed; Beam would say that it knows no such path.

    Raises:
        UsageError: it is not; the message names the extra of Beam.
    """
    scheme, separator, _ = path.partition("://")
    if not separator or scheme.lower() not in _EXTRAS:
        return
    extra, package = _EXTRAS[scheme.lower()]
    try:
        importlib.import_module(package)
    except ImportError:
        raise UsageError(
            f"{flag} {path!r} needs an extra of Beam: pip install 'apache-beam[{extra}]'"
        ) from None


def read_flag_file(flag: str, path: str) -> str:
    """The text in the file that a flag names.

    Raises:
        UsageError: there is none, or it cannot be read.
    """
    try:
        text = files.read_text(path)
    except (OSError, ValueError) as error:
        raise input_error(f"cannot read {flag} {path}", error) from error
    if text is None:
        raise UsageError(f"there is no file {flag} {path}")
    return text
