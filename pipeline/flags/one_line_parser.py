"""A command-line parser that reports errors in one line, and whose help shows examples."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from pipeline import __version__
from pipeline.errors import UsageError

PROGRAM = "image-tfrecords"
"""The name of the program, which is also that of the distribution."""

ABOUT = """\
Converts images and labels into sharded TFRecord files, with Apache Beam.
Checks every image, and writes the same bytes for the same inputs and options."""
"""What the program does, and its command `convert`."""

VERSION = f"{PROGRAM} {__version__}"
"""What `--version` prints."""


def program(command: str) -> str:
    """A command as the user started it, for the first line of its help."""
    if Path(sys.argv[0]).name == PROGRAM:
        return f"{PROGRAM} {command}"
    return f"python -m pipeline.{command}"


def documentation() -> str:
    """Where the documentation is: the address in the metadata of a release, or its folder."""
    # Only a help needs it.
    from importlib import metadata

    with contextlib.suppress(metadata.PackageNotFoundError):
        for url in metadata.metadata(PROGRAM).get_all("Project-URL") or ():
            label, _, address = url.partition(", ")
            if label == "Documentation":
                return str(address)
    return "README.md and docs/ in the repository"


def runnable(command: str, *words: str) -> str:
    """A command line that can be typed where this command was, such as the next one to run."""
    started = program(command)
    folders = [os.path.dirname(path) for path in (shutil.which("python") or "", sys.executable)]
    if started.startswith("python ") and len({*map(os.path.realpath, folders)}) > 1:
        # Of an environment that is not active.
        beside = Path(sys.executable).with_name(PROGRAM)
        path = str(beside if beside.exists() else sys.executable)
        near = os.path.relpath(path)
        path = shlex.quote(path if near.startswith("..") else near)
        started = f"{path} {command}" if beside.exists() else f"{path} -m pipeline.{command}"
    return " ".join([started, *map(shlex.quote, words)])


class HelpFormatter(argparse.RawDescriptionHelpFormatter, argparse.ArgumentDefaultsHelpFormatter):
    """Keeps the lines of examples, and prints only defaults that exist."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        # `(default: None)` would contradict the help before it.
        if action.default is None or action.default is False:
            return action.help
        return super()._get_help_string(action)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        """Two names of a flag with its value once, as in `--labels, --label_file CSV`."""
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        value = self._format_args(action, self._get_default_metavar_for_optional(action))
        return f"{', '.join(action.option_strings)} {value}"


class OneLineParser(argparse.ArgumentParser):
    """A parser whose errors are `UsageError`s, and which has `--version`."""

    def __init__(
        self,
        command: str = "",
        about: str = "",
        *,
        usage: str = "",
        examples: Sequence[str] = (),
        notes: str = "",
    ) -> None:
        """Makes a parser.

        Args:
            command: its name.
            about: what it does, in two lines.
            usage: its arguments; empty to list all flags.
            examples: arguments, one command each; further lines are indented.
            notes: the end of the help, before the documentation.
        """
        prog = program(command)
        shown = "\n".join(f"  {prog} {example}" for example in examples)
        self._ends = (f"examples:\n{shown}" if shown else "", notes)
        super().__init__(
            prog=prog,
            usage=f"{prog} {usage}".replace("%", "%%") if usage else None,
            description=about or None,
            formatter_class=HelpFormatter,
            allow_abbrev=False,
        )
        self.add_argument(
            "--version", action="version", version=VERSION, help="print the version and exit"
        )

    def format_help(self) -> str:
        """The help of all flags."""
        self.epilog = self.ending().replace("%", "%%")
        return super().format_help()

    def ending(self) -> str:
        """Examples, notes and the documentation; to look up its address takes 15 ms."""
        ends = (*self._ends, f"Documentation: {documentation()}")
        return "\n\n".join(filter(None, ends))

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
            return f"{flag} cannot be used with {problem.split()[-1]}"
        if problem.startswith("ignored explicit argument "):
            return f"{flag} takes no value"
        # Messages of our types begin with the value: --shard_size '64' has no unit.
        return f"{flag} {problem}" if problem[0] in "'\"" else f"{flag}: {problem}"

    def _missing(self, message: str) -> str:
        for action in self._actions:
            if message == f"the following arguments are required: {action.metavar}":
                return f"{action.metavar} is missing: give the {action.help}"
        return message


def typed(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """A type for argparse that shows the message of the ValueError that `parse` raises."""

    def convert(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return convert
