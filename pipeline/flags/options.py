"""The flags of `convert` and `plan`. Any other flag is one of Beam's, or an error.

Our flags have a parser of their own: Beam's Dataflow options already claim `--labels` (labels of
the job, also spelled `--label`), and one argparse parser cannot have both.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pipeline.errors import UsageError
from pipeline.flags.beam_flags import check_workers
from pipeline.flags.flag_spelling import as_typed, underscored
from pipeline.flags.flag_values import one_of
from pipeline.flags.job_labels import job_labels_apart
from pipeline.flags.one_line_parser import ABOUT, OneLineParser, program, typed
from pipeline.flags.option import Option
from pipeline.flags.option_table import GROUPS, OPTIONS
from pipeline.flags.unknown_flags import refuse_unknown
from transforms.core.card.dataset_card import Card

_USAGE = "[--images GLOB] --output DIR [FLAGS]"

_EXAMPLES = (
    "--images 'photos/*/*.jpg' --output out/photos",
    "--images 'photos/*/*.jpg' --labels labels.csv \\\n"
    "      --splits train=0.8,validation=0.2 --output out/split",
    "--config out/photos/manifest.json --output out/new",
)

_DESCRIPTIONS = {*Card._fields} - {"croissant"}

_PLAN = """\
Prints what convert would match, label, split and shard with the same flags.
Writes nothing and decodes no image: images that convert rejects are counted."""

BEAM_NOTE = "Any option of Apache Beam passes through, such as --runner DataflowRunner."


class _PlanParser(OneLineParser):
    """Its help shows what differs from `convert`, whose flags it takes."""

    def format_help(self) -> str:
        return f"""\
usage: {self.prog} {_USAGE}

{_PLAN}

differences from convert:
  --output DIR  required, as in convert: checked, and not written to
  --runner      plans there; workers on other machines need --temp_location
  --strict      warnings end the command with exit code 2
  --check, --transcode, --resize and other flags about pixels are checked, and
                change nothing in the plan

All other flags are those of convert: {program("convert")} --help

{self.ending()}
"""


def make_parser(command: str) -> argparse.ArgumentParser:
    """The parser of `convert` or `plan`."""
    parser: OneLineParser
    if command == "plan":
        parser = _PlanParser(command, _PLAN, usage=_USAGE, examples=_EXAMPLES)
    else:
        parser = OneLineParser(command, ABOUT, usage=_USAGE, examples=_EXAMPLES, notes=BEAM_NOTE)
    for name, options in GROUPS.items():
        group = parser.add_argument_group(name)
        for option in options:
            _add(group, option)
    return parser


def _add(group: argparse._ActionsContainer, option: Option) -> None:
    if option.is_switch:
        group.add_argument(*option.flags, action="store_true", help=option.help)
        return
    group.add_argument(
        *option.flags,
        action="append" if option.is_repeatable else "store",
        type=_type(option),
        choices=option.choices or None,
        default=option.default,
        required=option.is_required,
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


def _type(option: Option) -> Callable[[str], Any]:
    parse = option.parse or (one_of(option.choices) if option.choices else None)
    return str if parse is None else typed(parse)


def check_combinations(flags: argparse.Namespace) -> None:
    """Refuses options that the table declares as conflicting.

    Args:
        flags: the result of `parse_flags`.

    Raises:
        UsageError: an option conflicts with another, or needs one that is missing.
    """
    given = {name: option for name, option in OPTIONS.items() if is_given(flags, name)}
    for option in given.values():
        for conflict in option.conflicts:
            if conflict.name in given and _holds(flags, conflict.name, conflict.values):
                shown = as_given(flags, conflict.name, bool(conflict.values))
                why = f": {conflict.why}" if conflict.why else ""
                # With a closed set of values, the message can name the value.
                itself = as_given(flags, option.name, bool(option.choices))
                raise UsageError(f"{itself} cannot be used with {shown}{why}")
    for option in given.values():
        for need in option.needs:
            if need.name not in given and _holds(flags, option.name, need.values):
                raise UsageError(
                    f"{as_given(flags, option.name, bool(need.values))} needs {need.flag}"
                )


def is_given(flags: argparse.Namespace, name: str) -> bool:
    """Whether an option has a value other than its default."""
    return bool(getattr(flags, name) != OPTIONS[name].default_value)


def as_given(flags: argparse.Namespace, name: str, with_value: bool) -> str:
    """An option as the user wrote it on the command line."""
    if not with_value or OPTIONS[name].is_switch:
        return f"--{name}"
    return f"--{name} {getattr(flags, name)}"


def _holds(flags: argparse.Namespace, name: str, values: Sequence[Any]) -> bool:
    return not values or getattr(flags, name) in values


def parse_flags(command: str, argv: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Our flags, and the remaining words, which are Beam's.

    Raises:
        UsageError: a flag is wrong, missing, or unknown to both.
    """
    parser = make_parser(command)
    # A missing flag is often a misspelled one: name the misspelled flag first.
    required = [action for action in parser._actions if action.required]
    for action in required:
        action.required = False
    typed_words = list(job_labels_apart(argv))
    words = list(_with_version(underscored(typed_words)))
    for names in (("--labels", "--label_file"), ("--config",)):
        _check_once(words, names)
    flags, rest = parser.parse_known_args(words)
    if flags.config is not None:
        # Reads YAML, which most runs do not need.
        from pipeline.flags.config_file import read_config

        found = read_config(flags.config, flags, words, parser)
        typed_words = [*found.words, *typed_words]
        flags, rest = parser.parse_known_args([*found.words, *words])
        if found.class_names is not None:
            flags.class_names = found.class_names
    refuse_unknown(rest, typed_words, parser)
    check_workers(flags.workers, [as_typed(word, typed_words) for word in rest])
    for action in required:
        if getattr(flags, action.dest) is None:
            name = f"{action.option_strings[0]} {action.metavar}"
            meant = OPTIONS[action.dest].help
            raise UsageError(f"{name} is missing: give the {meant}; see --help")
    return flags, rest


def words_of(flags: argparse.Namespace, beam_flags: Sequence[str]) -> list[str]:
    """All values of a command line and of its `--config`, as texts.

    Without those that describe the dataset: an address in them is no file.
    """
    values = (str(value) for name, value in vars(flags).items() if name not in _DESCRIPTIONS)
    return [*values, *beam_flags]


def _with_version(words: Sequence[str]) -> Iterator[str]:
    """`--dataset_version` for a `--version` with a value; alone, it prints that of the program."""
    for word, value in zip(words, [*words[1:], ""], strict=True):
        has_value = value[:1] not in ("", "-")
        is_version = word.startswith("--version=") or (word == "--version" and has_value)
        yield word.replace("--version", "--dataset_version", 1) if is_version else word


def _check_once(words: Sequence[str], names: Sequence[str]) -> None:
    """Refuses a flag that is given twice; argparse would use the last one."""
    given = [word for word in words if word.partition("=")[0] in names]
    if len(given) > 1:
        raise UsageError(f"{names[0]} is given twice: give a glob, which names several files")
