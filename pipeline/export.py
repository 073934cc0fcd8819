"""`python -m pipeline.export OUT --dali DIR`: writes files that other readers need."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.command_line import begin, start
from pipeline.errors import DatasetError, UsageError
from pipeline.options.parser import OneLineParser, add_run_flags, typed
from pipeline.resolve.path_flags import check_path
from transforms.core.messages import one_line
from transforms.core.option import not_empty


def main(argv: Sequence[str] | None = None) -> None:
    """Writes the files and prints how many.

    Raises:
        UsageError: there is no dataset, or it has no index of single records.
        DatasetError: its index is damaged, or a file cannot be written.
    """
    flags, _ = begin(make_parser(), argv)
    from pipeline.open_dataset import open_dataset
    from transforms.storage.files import overlap

    output, folder = (path.rstrip("/") or "/" for path in (flags.output, flags.dali))
    check_path("--dali", folder)
    if overlap(folder, output):
        raise UsageError(f"--dali {folder} and {output} must not contain each other")
    manifest = open_dataset(output)
    files = write_dali(output, manifest, folder)
    print(f"dali     {folder}, {files} index file{'s' * (files != 1)}")


def make_parser() -> OneLineParser:
    """The parser of `export`."""
    parser = OneLineParser(
        "export",
        "Writes files with which other readers find the records of a dataset.\n"
        "Reads its index, and no shard.",
        usage="OUT --dali DIR [-v]",
        examples=(
            "out/photos --dali out/photos-dali",
            "gs://my-bucket/datasets/photos --dali photos-dali",
        ),
    )
    add, path = parser.add_argument, typed(not_empty)
    add("output", metavar="OUT", type=path, help="folder of a dataset")
    add(
        "--dali",
        metavar="DIR",
        type=path,
        required=True,
        help="write DIR/SHARD.idx for NVIDIA DALI: offset and size of each record (required)",
    )
    add_run_flags(parser, "verbose")
    return parser


def write_dali(output: str, manifest: Mapping[str, Any], folder: str) -> int:
    """Writes the index files of NVIDIA DALI, `FILE.idx` for each file of records.

    Args:
        output: the folder of the dataset.
        manifest: of the dataset.
        folder: where to write.

    Returns:
        how many files were written.

    Raises:
        UsageError: its files are compressed, or have no index.
        DatasetError: an index is damaged, or a file cannot be written.
    """
    from pipeline.random_access import open_index, reading_index
    from transforms.dataset.manifest import manifest_shards
    from transforms.dataset.metadata import ShardRange
    from transforms.examples.tfrecord import dali_index
    from transforms.storage.files import join, storage_of

    shards = manifest_shards(manifest)
    index = open_index(output, manifest, [shard["file"] for shard in shards])

    def write(shard: Mapping[str, Any]) -> None:
        file, records = shard["file"], shard["records"]
        with reading_index(output):
            found = index.files([ShardRange(file, 0, records, records)])
        text = dali_index(found.offsets.tolist(), found.lengths.tolist())
        path = join(folder, f"{file}.idx")
        try:
            storage_of(path).write_whole(path, text.encode())
        except OSError as error:
            raise DatasetError(f"cannot write {path}: {one_line(error)}") from error

    return sum(1 for _ in storage_of(folder).for_each(write, shards))


if __name__ == "__main__":
    sys.exit(start("export", main))
