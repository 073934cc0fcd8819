"""The program `image-tfrecords`, and how every command starts.

`image-tfrecords convert` is `python -m pipeline.convert` from any folder: a package `pipeline` in
the working directory is not imported. Nothing heavy is imported before a command is known.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import functools
import importlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pipeline.errors import UsageError, keep_standard_input, run_command, show_logs
from pipeline.options.beam_flags import (
    check_words,
    flag_name,
    flags_of,
    refuse_unknown,
    underscored,
)
from pipeline.options.parser import (
    ABOUT,
    PROGRAM,
    TOPICS,
    VERSION,
    at_home,
    documentation,
    make_parser,
    parse_flags,
    words_of,
)
from pipeline.run.beam_compat import import_beam
from pipeline.run.supervise import ending_at_once, supervise
from transforms.core.option import alike

if TYPE_CHECKING:
    from pipeline.resolve.config import ConvertConfig


COMMANDS: Mapping[str, str] = {
    "convert": "convert images and labels, and write the dataset",
    "plan": "print what convert would match, split and shard; write nothing",
    "verify": "read every shard again, compare with the manifest",
    "show": "print records of a dataset or of TFRecord files, save their images",
    "salvage": "copy the whole records of damaged TFRecord files",
    "index": "write an index of TFRecord files that another program wrote",
    "export": "write the records for WebDataset, Hugging Face, ArrayRecord, DALI",
    "diff": "print what differs between two datasets, from their indexes",
    "report": "write report.html of a dataset again",
}
"""What each command of the program does; the module of one is `pipeline.NAME`."""

# They run in a child process, which a decoder may crash.
_SUPERVISED = ("convert", "plan", "verify", "report")


def start(command: str, main: Callable[[], int | None]) -> int:
    """Runs a command as its process does.

    Args:
        command: its name.
        main: its `main`, which reads the command line.

    Returns:
        the exit code.
    """
    # NumPy's library of linear algebra starts a thread on each core, in each worker process, which
    # waits for work by counting: 0.1 s of a core. The only products here are of 8 by 60 numbers.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # M_ARENA_MAX of malloc.h: each thread would keep what it freed in its own heap, 14 MB of a run.
    # M_MMAP_THRESHOLD, M_TRIM_THRESHOLD: the memory of arrays of up to 4 MB would be returned and
    # mapped again each time, 3% of a run.
    if sys.platform == "linux":
        for option, value in ((-8, 1), (-3, 4 << 20), (-1, 32 << 20)):
            ctypes.CDLL(None).mallopt(option, value)
    run = functools.partial(run_command, main, command)
    if command not in _SUPERVISED:
        codes = ending_at_once()
        codes.append(run())
        return codes[0]
    if any(word == "-" or word.endswith("=-") for word in sys.argv[1:]):
        # The child that reads it may have to be started again.
        keep_standard_input()
    return supervise(run)


def begin(
    parser: argparse.ArgumentParser, argv: Sequence[str] | None, *, takes_beams: bool = False
) -> tuple[argparse.Namespace, list[str]]:
    """Reads the command line of a command on a dataset, then imports Beam.

    Args:
        parser: of the command.
        argv: the words after the command; None for those of the process.
        takes_beams: whether it takes flags of Beam.

    Returns:
        the flags, and those of Beam.

    Raises:
        UsageError: a word is unknown, or a value is not possible.
    """
    arguments = list(map(at_home, sys.argv[1:] if argv is None else argv))
    words = underscored(arguments)
    if not takes_beams:
        # Before argparse names a flag as missing that is only misspelled.
        known = [*flags_of(parser), "--"]
        typos = (each for each in words if each.startswith("--") and flag_name(each) not in known)
        check_words([*typos], arguments, parser)
    flags, rest = parser.parse_known_args(words)
    check = refuse_unknown if takes_beams else check_words
    check(rest, arguments, parser)
    if flags.verbose:
        show_logs()
    import_beam(arguments, rest)
    return flags, rest


@contextlib.contextmanager
def conversion_begun(
    command: str, argv: Sequence[str] | None
) -> Iterator[tuple[ConvertConfig, argparse.Namespace, list[str]]]:
    """Reads the command line of `convert` or `plan`, checks its inputs, then imports Beam.

    Yields:
        what to convert, the flags, and those of Beam; standard input stays readable in the block.

    Raises:
        UsageError: a word is unknown, or a value or an input is not possible.
    """
    flags, beam_flags = parse_flags(command, sys.argv[1:] if argv is None else argv)
    if flags.verbose:
        show_logs()
    from pipeline.resolve.label_flags import standard_input_kept
    from pipeline.resolve.preflight import check_flags
    from transforms.labels.joins import STANDARD_INPUT
    from transforms.storage.files import names_beam_path

    words = words_of(flags, beam_flags)

    begin_beam = functools.partial(import_beam, words, beam_flags)
    # Other inputs are checked without Beam: a wrong glob does not have to wait for it.
    is_needed = flags.model is not None or flags.keys == STANDARD_INPUT
    if is_needed or any(map(names_beam_path, words)):
        begin_beam()
    with standard_input_kept(flags, beam_flags):
        config = check_flags(flags)
        begin_beam()
        yield config, flags, beam_flags


def main() -> int:
    """The program `image-tfrecords`: runs the command that its first word names.

    Returns:
        the exit code.
    """
    # Python puts the working directory first for `python -m`, with which Beam starts its workers.
    os.environ.setdefault("PYTHONSAFEPATH", "1")
    command, *words = sys.argv[1:] or ["--help"]
    if command == "help" and words:
        words = ["convert", *words] if words[0] in TOPICS.split() else words
        command, words = words[0], ["--help", *words[1:]]
    if command not in COMMANDS:
        return run_command(lambda: _without_command(command, words), PROGRAM)

    return start(command, lambda: importlib.import_module(f"pipeline.{command}").main(words))


def _without_command(word: str, words: Sequence[str]) -> None:
    """Handles a first word that is not a command.

    Raises:
        UsageError: it says nothing.
    """
    if word in ("-h", "--help", "help"):
        print("\n".join(_help_lines()))
        return
    if word in ("--version", "version"):
        print(VERSION)
        return
    if word == "completion":
        print(completion(" ".join(words)))
        return
    see = f"see {PROGRAM} --help"
    if word.startswith("-"):
        flag = word.partition("=")[0]
        raise UsageError(f"{flag} comes after a command, such as {PROGRAM} convert; {see}")
    topics, paths = TOPICS.split(), [f"{PROGRAM} convert {word}"] * os.path.exists(word)
    for near in alike(word.lower(), [*COMMANDS, *topics], paths)[:1]:
        see = f"did you mean {'help ' * (near in topics)}{near}?"
    if word.partition(" ")[0] in COMMANDS:
        see = "leave out the quotes around all words"
    raise UsageError(f"unknown command {word!r}; {see}")


def _help_lines() -> Sequence[str]:
    width = max(map(len, COMMANDS))
    return [
        ABOUT,
        "",
        f"usage: {PROGRAM} COMMAND [FLAGS]",
        "",
        *(f"  {name:<{width}}  {about}" for name, about in COMMANDS.items()),
        "",
        f"{PROGRAM} help COMMAND lists its flags; --version prints the version;",
        "completion SHELL prints what lets bash or another shell complete flags.",
        f"Documentation: {documentation()}",
    ]


def completion(shell: str) -> str:
    """The script with which a shell completes commands, flags and their values.

    Raises:
        UsageError: it is another shell than those of `shtab`.
    """
    import shtab

    if shell not in shtab.SUPPORTED_SHELLS:
        known = ", ".join(shtab.SUPPORTED_SHELLS)
        raise UsageError(f"completion {shell!r} is not one of {known}")
    program = argparse.ArgumentParser(PROGRAM)
    commands = program.add_subparsers()
    for name, about in COMMANDS.items():
        module = importlib.import_module(f"pipeline.{name}")
        made = module.make_parser() if hasattr(module, "make_parser") else make_parser(name)
        commands.add_parser(name, help=about, parents=[made], add_help=False)
    return shtab.complete(program, shell)
