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
        found = re.match(r"argument (\S+): (.*)", message, re.DOTALL)
        text = self._of_flag(found[1].split("/")[0], found[2]) if found else self._missing(message)
        raise UsageError(text if text.endswith("?") else f"{text}; see --help")

    def _of_flag(self, flag: str, problem: str) -> str:
        """What is wrong with a flag, where argparse says it in its own words."""
        if problem == "expected one argument":
            values = [each.metavar for each in self._actions if flag in each.option_strings]
            return f"{flag} needs a value{f', {values[0]}' if any(values) else ''}"
        if problem.startswith("not allowed with argument "):
            return f"{flag} does not go with {problem.split()[-1]}"
        if problem.startswith("ignored explicit argument "):
            return f"{flag} takes no value"
        # Messages of our types begin with the value: --shard_size '64' has no unit.
        return f"{flag} {problem}" if problem[0] in "'\"" else f"{flag}: {problem}"

    def _missing(self, message: str) -> str:
        for action in self._actions:
            if message == f"the following arguments are required: {action.metavar}":
                return f"{action.metavar} is missing: give the {action.help}"
        return message


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
