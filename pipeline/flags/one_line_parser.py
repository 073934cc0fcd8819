"""A command-line parser that reports errors in one line and hides `None` in its help."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from pipeline import __version__
from pipeline.errors import UsageError

PROGRAM = "image-tfrecords"
"""The name of the program, which is also that of the distribution."""

VERSION = f"{PROGRAM} {__version__}"
"""What `--version` prints."""


def program(command: str) -> str:
    """A command as the user started it, for the first line of its help."""
    if Path(sys.argv[0]).name == PROGRAM:
        return f"{PROGRAM} {command}"
    return f"python -m pipeline.{command}"


class OneLineParser(argparse.ArgumentParser):
    """A parser whose errors are `UsageError`s, and which has `--version`."""

    def __init__(self, **options: Any) -> None:
        """Makes a parser.

        Args:
            options: those of `argparse.ArgumentParser`.
        """
        super().__init__(**options)
        self.add_argument(
            "--version", action="version", version=VERSION, help="print the version and exit"
        )

    def error(self, message: str) -> NoReturn:
        """Raises `UsageError` instead of printing the usage."""
        # Messages of our types begin with the value: --shard_size '64' has no unit.
        message = re.sub(r"^argument (\S+): (?=['\"])", r"\1 ", message).removeprefix("argument ")
        raise UsageError(f"{message}; see --help")


class HelpFormatter(argparse.ArgumentDefaultsHelpFormatter):
    """Prints only defaults that exist: `(default: None)` would contradict the help before it."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        if action.default is None or action.default is False:
            return action.help
        return super()._get_help_string(action)


def typed(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """A type for argparse that shows the message of the ValueError that `parse` raises."""

    def convert(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return convert
