"""The keys of `--keys`: a file, or standard input, of which a copy is kept for the run."""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator

from pipeline.errors import UsageError, input_error
from pipeline.inputs.image_samples import ImageSample
from pipeline.inputs.key_hints import listed_key_hint
from transforms.core.decisions import Decision, given
from transforms.core.label_errors import LabelsError
from transforms.core.planning.selected_keys import STANDARD_INPUT
from transforms.core.scratch import scratch_folder
from transforms.read_keys import KeyReader
from transforms.storage.files import storage_of

# Keys used to try a hint.
_HINT_KEYS = 1_000


@contextlib.contextmanager
def standard_input_kept(
    flags: argparse.Namespace, *, has_local_workers: Callable[[], bool]
) -> Iterator[None]:
    """Replaces `--keys -` in the flags by a copy of standard input, within the block.

    Args:
        flags: the result of `parse_flags`.
        has_local_workers: says whether the workers are on this machine, where the copy is. It
            is called only for such flags: Beam's options write the warnings of libraries from
            then on.

    Raises:
        UsageError: they are not.
    """
    if flags.keys != STANDARD_INPUT:
        yield
        return
    if not has_local_workers():
        raise UsageError(
            "--keys - is standard input of this machine, which the workers of --runner cannot "
            "read: give a file in a bucket"
        )
    with scratch_folder() as folder:
        path = os.path.join(folder, "keys.txt")
        source = sys.stdin.buffer
        if source.seekable():
            # The command may have been started again.
            source.seek(0)
        with open(path, "wb") as file:
            shutil.copyfileobj(source, file)
        flags.keys = KeyReader(path, STANDARD_INPUT)
        yield


def read_keys(flags: argparse.Namespace, sample: ImageSample, key: str) -> KeyReader | None:
    """The reader of the keys, if there are any, checked on the first images.

    Args:
        flags: those of the command line.
        sample: the first images.
        key: the kind of their keys.

    Raises:
        UsageError: the file cannot be read, lists no key, or no key of an image.
        LabelsError: a line is not a key.
    """
    if flags.keys is None:
        return None
    reader = flags.keys
    if not isinstance(reader, KeyReader):
        if flags.keys == STANDARD_INPUT:
            raise UsageError("--keys - is only possible on the command line: give a file")
        reader = KeyReader(flags.keys)
    try:
        _check(reader, sample, key)
    except LabelsError:
        raise
    except (PermissionError, ValueError) as error:
        # Whether the file exists may not be asked either.
        raise input_error(f"cannot read --keys {reader.name}", error) from error
    except OSError as error:
        if not storage_of(reader.path).exists(reader.path):
            raise UsageError(f"no such file: --keys {reader.name}") from error
        raise input_error(f"cannot read --keys {reader.name}", error) from error
    return reader


def _check(reader: KeyReader, sample: ImageSample, key: str) -> None:
    known = sample.keys(key) if sample.is_all else frozenset()
    first: list[str] = []
    for listed, _ in reader.read():
        if not known or listed in known:
            return
        if len(first) < _HINT_KEYS:
            first.append(listed)
    if not first:
        raise UsageError(f"--keys {reader.name} lists no key: write one per line")
    hint = listed_key_hint(first, sample, key)
    raise UsageError(
        f"no image has a key in --keys {reader.name}, such as {first[0][:60]!r}; images have keys "
        f"like {min(known)!r} (--key {key}); {hint}"
    )


def key_decisions(reader: KeyReader | None) -> tuple[Decision, ...]:
    """What was decided, for the block "Decided"."""
    if reader is None:
        return ()
    return (given("images kept", f"those in {reader.name}", "--keys"),)
