"""`python -m pipeline.diff A B`: what differs between two datasets, from their indexes alone."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pipeline.command_line import begin, start
from pipeline.errors import DONE, FAILED, DatasetError, UsageError, input_error, refusing
from pipeline.options.parser import OneLineParser, add_run_flags, typed
from transforms.core.messages import printable
from transforms.core.option import not_empty

if TYPE_CHECKING:
    from transforms.records.comparison import Differences, Records


def main(argv: Sequence[str] | None = None) -> int:
    """Compares two datasets and prints the differences.

    Returns:
        the exit code, 1 if they differ.

    Raises:
        UsageError: one of them cannot be read. Never a failure with the exit code 1.
    """
    flags, _ = begin(make_parser(), argv)
    with refusing(DatasetError, OSError):
        found = compare_datasets(flags.former, flags.other)
    both, differing = f"{flags.former} and {flags.other}", found.total()
    if flags.json:
        for line in found.json_lines():
            print(line)
        return FAILED if differing else DONE
    for line in () if flags.quiet else found.summary_lines():
        print(printable(line))
    if differing:
        print(printable(f"different: {both}: {differing}"))
        return FAILED
    print(f"equal: {both} hold the same {found.new.table.num_rows} records")
    return DONE


def make_parser() -> OneLineParser:
    """The parser of `diff`."""
    parser = OneLineParser(
        "diff",
        "Prints what differs between two datasets, from their indexes alone.\n"
        "Exits with 0 if they are equal, with 1 if not.",
        usage="A B [FLAGS]",
        examples=(
            "out/monday out/tuesday",
            "out/monday gs://my-bucket/monday --quiet",
            "out/monday out/tuesday --json",
        ),
    )
    add, path = parser.add_argument, typed(not_empty)
    add("former", metavar="A", type=path, help="folder of a dataset")
    add("other", metavar="B", type=path, help="folder of the dataset to compare with it")
    add("--json", action="store_true", help="a line of JSON for each difference, for programs")
    add_run_flags(parser, "quiet", "verbose")
    return parser


def compare_datasets(former: str, other: str) -> Differences:
    """The differences between the datasets in two folders.

    Raises:
        DatasetError: a folder holds no dataset, or its indexes are missing or damaged.
    """
    from transforms.records.comparison import compare_records, option_changes, other_files

    # Both are checked before the indexes of one are read.
    manifests = [*map(open_indexed, (former, other))]
    old, new = map(read_records, (former, other), manifests)
    found = compare_records(old, new, option_changes(*manifests))
    return found if found.total() else dataclasses.replace(found, files=other_files(*manifests))


def read_records(folder: str, manifest: Mapping[str, Any]) -> Records:
    """The records of a dataset, from its indexes, and its classes.

    Raises:
        OSError: the classes cannot be read.
        DatasetError: an index is missing, damaged or cannot be read.
    """
    from transforms.dataset.output_names import LABELS
    from transforms.records.comparison import COLUMNS, Records
    from transforms.records.record_index import PARTNERS, RecordIndexError
    from transforms.records.written_index import TIMES_OF_IMAGES, read_listed_index
    from transforms.storage.files import join, storage_of

    changed = (
        "is damaged, or was replaced by another run: its checksum is not that of the manifest; run "
        "the same command again, or `verify`"
    )

    def read(entry: Mapping[str, Any]) -> Records:
        try:
            index = read_listed_index(
                folder, entry, (*COLUMNS, PARTNERS), changed=changed, most_times=TIMES_OF_IMAGES
            )
        except OSError as error:
            path = join(folder, entry["file"])
            raise input_error(f"cannot read the index {path}", error) from error
        return Records.of_index(index)

    labels = ""
    if LABELS in manifest["files"]:
        labels = storage_of(folder, follow_links=False).read_text(join(folder, LABELS)) or ""
    with refusing(RecordIndexError):
        return Records.joined(storage_of(folder).for_each(read, manifest["index"]), labels)


def open_indexed(folder: str) -> dict[str, Any]:
    """The manifest of a dataset of which every record is in an index."""
    from pipeline.open_dataset import open_dataset
    from transforms.dataset.output_names import MANIFEST
    from transforms.records.record_index import index_list_problems

    manifest = open_dataset(folder)
    if manifest["options"].get("key") == "row":
        raise UsageError(f"{folder} holds rows without images, which diff cannot compare")
    for problem in index_list_problems(manifest):
        raise UsageError(f"{folder}/{MANIFEST} was edited: {problem}")
    return manifest


if __name__ == "__main__":
    sys.exit(start("diff", main))
