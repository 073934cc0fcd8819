"""Parsers of the commands, whose errors are one line."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from pipeline import __version__
from pipeline.errors import UsageError, refusing
from pipeline.options.beam_flags import (
    LONG_DASHES,
    as_typed,
    check_workers,
    job_labels_apart,
    refuse_unknown,
    underscored,
)
from pipeline.options.option_table import GROUPS, OPTIONS
from transforms.core.option import FORMER, Group, Option, declared, declared_in, unite
from transforms.dataset.dataset_options import CardOptions

# A command-line parser that reports errors in one line, and whose help shows examples.

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
    is_script = started.startswith(PROGRAM)
    used = os.path.abspath(sys.argv[0]) if is_script else sys.executable
    found = shutil.which(PROGRAM if is_script else "python") or ""
    folders = {os.path.realpath(os.path.dirname(path)) for path in (found, used)}
    if len(folders) > 1:
        # Of an environment that is not active.
        beside = Path(used).with_name(PROGRAM)
        path = str(beside if beside.exists() else used)
        near = os.path.relpath(path)
        path = shlex.quote(path if near.startswith("..") else near)
        started = f"{path} {command}" if beside.exists() else f"{path} -m pipeline.{command}"
    return " ".join([started, *map(shlex.quote, words)])


class HelpFormatter(argparse.RawDescriptionHelpFormatter, argparse.ArgumentDefaultsHelpFormatter):
    """Keeps the lines of examples, and prints only defaults that exist."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        # `(default: None)` would contradict the help before it.
        if action.default in (None, "") or action.default is False:
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
        helper: type[argparse.Action] | None = None,
    ) -> None:
        """Makes a parser.

        Args:
            command: its name.
            about: what it does, in two lines.
            usage: its arguments; empty to list all flags.
            examples: arguments, one command each; further lines are indented.
            notes: the end of the help, before the documentation.
            helper: what `--help` and the word after it do; None to print all flags.
        """
        self.command = command
        prog = program(command)
        shown = "\n".join(f"  {prog} {example}" for example in examples)
        self._ends = (f"examples:\n{shown}" if shown else "", notes)
        super().__init__(
            prog=prog,
            usage=f"{prog} {usage}".replace("%", "%%") if usage else None,
            description=about or None,
            formatter_class=HelpFormatter,
            allow_abbrev=False,
            add_help=helper is None,
        )
        if helper is not None:
            about_help = "show the usual flags, or those of a topic, and exit"
            self.add_argument(
                "-h", "--help", action=helper, nargs="?", metavar="TOPIC", help=about_help
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

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        # `regex:(a)` is no member of the choices, and was checked as it was read.
        if action.type is None:
            super()._check_value(action, value)

    def _of_flag(self, flag: str, problem: str) -> str:
        """What is wrong with a flag, where argparse says it in its own words."""
        if problem == "expected one argument":
            named = next(each for each in self._actions if flag in each.option_strings)
            value = named.metavar or " or ".join(map(str, named.choices or ()))
            return f"{flag} needs a value{value and f', {value}'}"
        if problem.startswith("not allowed with argument "):
            return f"{flag} cannot be used with {problem.split()[-1]}"
        if problem.startswith("ignored explicit argument "):
            return f"{flag} takes no value"
        # Messages of our types begin with the value: --shard_size '64' has no unit.
        return f"{flag} {problem}" if problem[0] in "'\"" else f"{flag}: {problem}"

    def _missing(self, message: str) -> str:
        for action in self._actions:
            names = "/".join(action.option_strings) or action.metavar
            if message == f"the following arguments are required: {names}":
                return f"{names} is missing: give the {action.help}"
        return message


def typed(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """A type for argparse that shows the message of the ValueError that `parse` raises."""

    def convert(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return convert


# The flags of `convert` and `plan`. Any other flag is one of Beam's, or an error.
#
# Our flags have a parser of their own: Beam's Dataflow options already claim `--labels` (labels of
# the job, also spelled `--label`), and one argparse parser cannot have both.

_USAGE = "[IMAGES [LABELS] OUTPUT] [FLAGS]"

# The flags that words before the first flag stand for, in this order; labels may be left out.
_PLACES = ("--images", "--labels", "--output")

_EXAMPLES = (
    "photos labels.csv out/photos",
    "--images 'photos/*/*.jpg' --labels labels.csv \\\n"
    "      --splits train=0.8,validation=0.2 --output out/split",
    "--config out/photos/manifest.json --output out/new",
)

TOPICS = "labels output splits shards boxes pixels embeddings checks card run all"
"""Words in the titles of groups, for `--help TOPIC`."""

_DESCRIPTIONS = {*declared(CardOptions)} - {"croissant"}

_PLAN = """\
Prints what convert would match, label, split and shard with the same flags.
Writes nothing, decodes only a sample: images that convert rejects are counted."""

_PLAN_NOTE = """\
Flags are those of convert. --output is checked, and not written to; flags about
pixels are checked, and change nothing; with --strict, warnings end the command
with exit code 2. --runner plans there; other machines need --temp_location."""

BEAM_NOTE = "Any option of Apache Beam passes through, such as --runner DataflowRunner."


class _Help(argparse.Action):
    """Prints the usual flags, or those of a topic, and ends the command."""

    def __call__(self, parser: Any, namespace: Any, topic: Any, option: str | None = None) -> None:
        def is_shown(group: type[Group], option: Option) -> bool:
            return topic in (*group.title.split(), "all") if topic else option.is_usual

        options = [(group, each) for group in GROUPS for each in declared(group).values()]
        names = [each.name for group, each in options if is_shown(group, each)]
        if not names:
            raise UsageError(f"{option} {topic!r} is no topic: give one of {TOPICS}")
        make_parser(parser.command, names).print_help()
        parser.exit()


def make_parser(command: str, shown: Collection[str] = OPTIONS) -> argparse.ArgumentParser:
    """The parser of `convert` or `plan`, with some of their options."""
    about, notes = (_PLAN, _PLAN_NOTE) if command == "plan" else (ABOUT, BEAM_NOTE)
    if len(shown) < len(OPTIONS):
        notes += f"\n\n--help TOPIC shows more flags. The topics:\n  {TOPICS}"
    parser = OneLineParser(
        command, about, usage=_USAGE, examples=_EXAMPLES, notes=notes, helper=_Help
    )
    for former in FORMER:
        parser.add_argument(f"--{former}", help=argparse.SUPPRESS)
    for title in dict.fromkeys(group.title for group in GROUPS):
        part = parser.add_argument_group(title)
        for option in declared_in(group for group in GROUPS if group.title == title).values():
            if option.name in shown:
                _add(part, option)
    if command == "plan":
        about_json = "print the plan as one line of JSON, for programs"
        parser.add_argument("--json", action="store_true", help=about_json)
    return parser


def _add(group: argparse._ActionsContainer, option: Option) -> None:
    if option.is_switch:
        group.add_argument(*option.flags, action="store_true", help=option.help)
        return
    group.add_argument(
        *option.flags,
        action="append" if option.is_repeatable else "store",
        type=typed(option.read),
        choices=option.choices or None,
        default=option.default,
        metavar=option.metavar,
        help=f"{option.help} (required)" if option.is_required else option.help,
    )


def add_run_flags(parser: OneLineParser, *names: str) -> None:
    """Adds options of `convert` about the run to the parser of another command."""
    for name in names:
        _add(parser, OPTIONS[name])


def progress_style(flags: argparse.Namespace) -> str:
    """The value of `--progress`; without one, `--quiet` shows none."""
    return "off" if flags.quiet and flags.progress == "auto" else str(flags.progress)


def is_given(flags: argparse.Namespace, name: str) -> bool:
    """Whether an option has a value other than its default."""
    return bool(getattr(flags, name) != OPTIONS[name].default_value)


def parse_flags(command: str, argv: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Our flags, and the remaining words, which are Beam's.

    Raises:
        UsageError: a flag is wrong, missing, or unknown to both.
    """
    parser = make_parser(command)
    if not argv:
        example = _EXAMPLES[0]
        raise UsageError(
            f"no flags given; usage: {parser.prog} {_USAGE}, such as {parser.prog} {example}; "
            "see --help"
        )
    typed_words = list(job_labels_apart(_with_places(map(at_home, argv))))
    words = list(_with_version(underscored(typed_words)))
    for names in (("--labels", "--label_file"), ("--config",)):
        if sum(word.partition("=")[0] in names for word in words) > 1:
            # argparse would use the last one.
            raise UsageError(f"{names[0]} is given twice: give a glob, which names several files")
    flags, rest = parser.parse_known_args(words)
    if flags.config is not None:
        # Reads YAML, which most runs do not need.
        from pipeline.options.config_file import read_config

        read, class_names = read_config(flags.config, flags, words, parser)
        read = list(map(at_home, read))
        typed_words = [*read, *typed_words]
        flags, rest = parser.parse_known_args([*read, *words])
        if class_names is not None:
            flags.class_names = class_names
    _unite(flags)
    refuse_unknown(rest, typed_words, parser)
    check_workers(flags.workers, [as_typed(word, typed_words) for word in rest])
    # A missing flag is often a misspelled one, which was named first.
    for name, option in OPTIONS.items():
        if option.is_required and getattr(flags, name) is None:
            if not os.path.lexists(argv[0]) and os.path.lexists(argv[0].partition(" ")[0]):
                raise UsageError(f"{argv[0]!r} is one word: leave out the quotes around all words")
            raise UsageError(
                f"--{name} {option.metavar} is missing: give the {option.help}; see --help"
            )
    return flags, rest


def _unite(flags: argparse.Namespace) -> None:
    """Gives flags the values of their former spellings, each with a note."""
    former = {name: vars(flags).pop(name) for name in FORMER}
    given = {name: getattr(flags, name) for name in OPTIONS if is_given(flags, name)}
    with refusing(ValueError):
        united, notes = unite({**given, **former})
    for name, text in united.items():
        with refusing(ValueError, because=f"--{name} "):
            setattr(flags, name, OPTIONS[name].read(text))
    for note in notes:
        print(note, file=sys.stderr)


def at_home(word: str) -> str:
    """A word or the value of a flag with the home folder for `~/`, which shells leave in quotes."""
    flag, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
    is_home = value.startswith("~/") and not os.path.lexists("~")
    return f"{flag}{equals}{os.path.expanduser(value)}" if is_home else word


def _with_places(given: Iterable[str]) -> list[str]:
    """The words, with a flag before each of the first ones that have none: `photos out/photos`."""
    words = list(given)
    first = [*itertools.takewhile(_is_place, words)]
    named = {word.partition("=")[0] for word in words}
    places = [flag for flag in _PLACES if flag not in named]
    if len(first) < len(places) and "--labels" in places:
        places.remove("--labels")
    if len(first) > len(places):
        twice = [flag for flag in _PLACES if flag in named] if len(first) <= len(_PLACES) else []
        if twice:
            order = "words before the flags are images, labels and output"
            raise UsageError(f"{twice[0]} is given twice: {order}")
        raise UsageError(
            f"unexpected argument {first[len(_PLACES)]!r}: images, labels and output are three "
            "words; quote globs: --images 'photos/*.jpg'"
        )
    placed = zip(places, first, strict=False)
    return [*itertools.chain.from_iterable(placed), *words[len(first) :]]


def _is_place(word: str) -> bool:
    name, equals, _ = word.partition("=")
    return word[:1] not in f"-{LONG_DASHES}" and not (equals and name in OPTIONS)


def words_of(flags: argparse.Namespace, beam_flags: Sequence[str]) -> list[str]:
    """All values of a command line and of its `--config`, as texts.

    Without those that describe the dataset: an address in them is no file.
    """
    values = (str(value) for name, value in vars(flags).items() if name not in _DESCRIPTIONS)
    return [*values, *beam_flags]


def _with_version(words: Sequence[str]) -> Iterator[str]:
    """`--dataset_version` for a `--version` with a value; alone, it prints that of the program."""
    for word, value in itertools.zip_longest(words, words[1:], fillvalue=""):
        has_value = value[:1] not in ("", "-")
        is_version = word.startswith("--version=") or (word == "--version" and has_value)
        yield word.replace("--version", "--dataset_version", 1) if is_version else word
