"""`python -m pipeline.salvage FILE --output DIR`: copies the whole records of damaged files."""

from __future__ import annotations

import gzip
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any, cast

from pipeline.command_line import begin, start
from pipeline.errors import DatasetError, UsageError, trying
from pipeline.options.parser import OneLineParser, add_run_flags, typed
from pipeline.resolve.path_flags import check_path
from pipeline.show import select
from transforms.core.messages import printable, quantity
from transforms.core.option import not_empty
from transforms.dataset.output_names import PARTIAL
from transforms.examples.tfrecord import framed
from transforms.records.written_index import is_gzip, scan_stored
from transforms.storage.files import join, storage_of


def main(argv: Sequence[str] | None = None) -> None:
    """Copies the whole records, and prints which bytes were left out.

    Raises:
        UsageError: there is no file, two have one name, or a copy is there already.
        DatasetError: a file cannot be read or written, or no record is whole.
    """
    flags, _ = begin(make_parser(), argv)
    folder = flags.output.rstrip("/") or "/"
    check_path("--output", folder)
    files = select(flags.files, None).files
    names = Counter(path.rpartition("/")[2] for path in files)
    for name, count in names.items():
        if count > 1:
            raise UsageError(f"{count} files have the name {name!r}: give one folder at a time")
        if storage_of(folder).exists(join(folder, name)):
            raise UsageError(f"--output {folder} already holds {name!r}: give another folder")
    records = sum(_salvaged(path, join(folder, path.rpartition("/")[2])) for path in files)
    if not records:
        raise DatasetError(f"no record of {quantity(len(files), 'file')} is whole")
    print(f"salvaged {folder}: {quantity(len(files), 'file')}, {quantity(records, 'record')}")


def make_parser() -> OneLineParser:
    """The parser of `salvage`."""
    parser = OneLineParser(
        "salvage",
        "Copies every whole record of damaged TFRecord files of any program, and\n"
        "names each range of bytes that is left out.",
        usage="FILE [FILE ...] --output DIR [-v]",
        examples=(
            "old/train-00003-of-00010.tfrecord --output saved",
            "'old/*.tfrecord' --output saved",
        ),
    )
    add, path = parser.add_argument, typed(not_empty)
    add("files", metavar="FILE", nargs="+", type=path, help="TFRecord files, folders, globs")
    add("--output", metavar="DIR", type=path, required=True, help="folder of the copies")
    add_run_flags(parser, "verbose")
    return parser


def _salvaged(path: str, target: str) -> int:
    """Copies the whole records of a file; returns how many they are."""
    records, partial = 0, target + PARTIAL
    storage = storage_of(target)
    with trying(f"salvage {path}"):
        storage.make_directory(target.rpartition("/")[0] or ".")
        with storage.open_writer(partial) as stream:
            written: Any = stream
            if is_gzip(path):
                written = gzip.GzipFile("", "wb", fileobj=cast(Any, stream), mtime=0)
            for part in scan_stored(path):
                if not part.problem:
                    records += 1
                    written.write(framed(part.payload))
                    continue
                left = f"bytes {part.offset} to {part.offset + part.length} left out"
                print(printable(f"{path}: record {part.record}: {left}: {part.problem}"))
            if written is not stream:
                written.close()
        storage.rename(partial, target)
    return records


if __name__ == "__main__":
    sys.exit(start("salvage", main))
