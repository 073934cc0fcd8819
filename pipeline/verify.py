"""`python -m pipeline.verify OUT`: re-reads every shard and compares it with the manifest."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pipeline.command_line import begin, start
from pipeline.errors import DatasetError
from pipeline.options.parser import BEAM_NOTE, OneLineParser, add_run_flags, progress_style, typed
from transforms.core.messages import format_bytes, printable
from transforms.core.option import not_empty
from transforms.examples.layouts import COLUMN, Role, with_role

if TYPE_CHECKING:
    from transforms.dataset.record_checks import Problem, Verified

# Maximum number of problems to print, so that a damaged disk does not fill the screen.
_MAX_LINES = 100


def main(argv: Sequence[str] | None = None) -> None:
    """Verifies a dataset and prints the result.

    Raises:
        UsageError: there is no dataset.
        DatasetError: it differs from its manifest.
    """
    flags, beam_flags = begin(make_parser(), argv, takes_beams=True)
    from pipeline.check_dataset import check_dataset
    from pipeline.open_dataset import open_dataset

    manifest = open_dataset(flags.output)
    problems, splits = check_dataset(
        flags.output,
        manifest,
        fast=flags.fast,
        beam_flags=beam_flags,
        progress=progress_style(flags),
    )
    table = () if flags.quiet else table_lines(manifest, splits, problems)
    for line in (*table, *_shortened(problems, splits)):
        print(printable(line))
    if problems:
        number = len(problems) + sum(split.more for split in splits.values())
        count = "1 problem" if number == 1 else f"{number} problems"
        raise DatasetError(f"{flags.output} differs from its manifest: {count}")
    shards = sum(split.shards for split in splits.values())
    records = sum(split.records for split in splits.values())
    checked = _checked(manifest, fast=flags.fast)
    print(f"verified {flags.output}: {shards} {_unit(manifest)}, {records} records, {checked}")


def make_parser() -> OneLineParser:
    """The parser of `verify`."""
    parser = OneLineParser(
        "verify",
        "Reads every shard of a dataset again and compares it with its manifest.\n"
        "Exits with 1 if anything differs, and names the file and the record.",
        usage="OUT [--full | --fast] [FLAGS]",
        examples=("out/photos", "out/photos --fast", "out/photos --direct_num_workers 2"),
        notes=BEAM_NOTE,
    )
    add = parser.add_argument
    add("output", metavar="OUT", type=typed(not_empty), help="folder of a dataset")
    extent = parser.add_mutually_exclusive_group()
    extent.add_argument(
        "--full",
        action="store_true",
        help="every record: features, labels, decoded pixels (this is the default)",
    )
    extent.add_argument(
        "--fast", action="store_true", help="files: sizes, checksums, counts; decodes nothing"
    )
    add_run_flags(parser, "progress", "quiet", "verbose")
    return parser


def table_lines(
    manifest: Mapping[str, Any], splits: Mapping[str, Verified], problems: Sequence[Problem]
) -> Iterator[str]:
    """The table: one line for the files of each split, and one for the other files."""
    yield f"{'split':<12} {_unit(manifest):>7} {'records':>9} {'bytes':>10}  status"
    for name, found in splits.items():
        size = format_bytes(found.bytes)
        status = f"{found.damaged} of {found.shards} damaged" if found.damaged else "ok"
        yield f"{name:<12} {found.shards:>7} {found.records:>9} {size:>10}  {status}"
    small = {"manifest.json", *manifest["files"]}
    damaged = len(small & {problem.file for problem in problems})
    status = f"{damaged} of {len(small)} damaged" if damaged else "ok"
    size = format_bytes(sum(file.get("bytes", 0) for file in manifest["files"].values()))
    yield f"{'other files':<12} {len(small):>7} {'':>9} {size:>10}  {status}"


def _unit(manifest: Mapping[str, Any]) -> str:
    return "files" if manifest["options"].get("files") == "per_image" else "shards"


def _shortened(problems: Sequence[Problem], splits: Mapping[str, Verified]) -> Iterator[str]:
    yield from map(str, problems[:_MAX_LINES])
    rest = problems[_MAX_LINES:]
    if rest:
        number = len(rest) + sum(split.more for split in splits.values())
        files = len({each.file for each in rest})
        # All shards whose problems are not listed.
        files += sum(
            max(0, split.damaged - len({each.file for each in split.problems}))
            for split in splits.values()
        )
        yield f"... and {number} more problems in {files} files"


def _checked(manifest: Mapping[str, Any], *, fast: bool) -> str:
    if fast:
        return "sizes, checksums and counts agree (--fast: nothing was decoded)"
    sources = {feature["source"] for feature in manifest["features"]}
    if with_role(manifest["features"], Role.IMAGE):
        return "every image decodes"
    if any(feature.get("shape") for feature in manifest["features"]):
        return "all arrays are whole and finite"
    is_of_rows = all(source.startswith(COLUMN) for source in sources)
    return "every value has its type" if is_of_rows else "every record has its features"


if __name__ == "__main__":
    sys.exit(start("verify", main))
