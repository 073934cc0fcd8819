"""`python -m pipeline.export OUT --parquet DIR`: writes the files that other readers need."""

from __future__ import annotations

import functools
import importlib.util
import itertools
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipeline.command_line import begin, start
from pipeline.errors import DatasetError, UsageError, trying
from pipeline.options.parser import OneLineParser, add_run_flags, typed
from pipeline.resolve.path_flags import check_path
from transforms.core.messages import one_line, quantity
from transforms.core.option import not_empty

# What the files of a folder are made of: hidden, since readers may take every other file.
_MADE_OF = ".export.json"

# Raised when the same records give other files.
_VERSION = 1

_FORMATS = {
    "dali": "write DIR/SHARD.idx for NVIDIA DALI: offset and size of each record",
    "webdataset": "write DIR/SHARD.tar for WebDataset: KEY.jpg, KEY.cls, KEY.json of each record",
    "parquet": "write DIR/SHARD.parquet for Hugging Face datasets",
    "array_record": "write DIR/SHARD.array_record of the serialized Examples, for Grain",
}


def main(argv: Sequence[str] | None = None) -> None:
    """Writes the files and prints how many.

    Raises:
        UsageError: there is no dataset, it has no index, or the folder holds another one.
        DatasetError: its files are damaged, or a file cannot be written.
    """
    flags, _ = begin(make_parser(), argv)
    from pipeline.open_dataset import open_dataset
    from transforms.storage.files import overlap

    kind = next(each for each in _FORMATS if getattr(flags, each) is not None)
    output, folder = (path.rstrip("/") or "/" for path in (flags.output, getattr(flags, kind)))
    check_path(f"--{kind}", folder)
    if overlap(folder, output):
        raise UsageError(f"--{kind} {folder} and {output} must not contain each other")
    manifest = open_dataset(output)
    if kind == "dali":
        files = write_dali(output, manifest, folder)
        print(f"dali     {folder}, {files} index file{'s' * (files != 1)}")
        return
    if kind == "array_record" and importlib.util.find_spec("array_record") is None:
        raise UsageError("--array_record needs pip install 'image-tfrecords[array_record]'")
    with trying(f"write --{kind} {folder}"):
        files, kept = write_records(output, manifest, folder, kind)
    was_there = f", {kept} of them from an earlier run" if kept else ""
    print(f"{kind:<8} {folder}, {quantity(files, 'file')}{was_there}")


def make_parser() -> OneLineParser:
    """The parser of `export`."""
    parser = OneLineParser(
        "export",
        "Writes the records of a dataset as files of another format, one for each\n"
        "shard; with --dali, only files with which its reader finds the records.",
        usage="OUT --FORMAT DIR [-v]",
        examples=(
            "out/photos --dali out/photos-dali",
            "gs://my-bucket/photos --parquet photos-parquet",
        ),
    )
    path = typed(not_empty)
    parser.add_argument("output", metavar="OUT", type=path, help="folder of a dataset")
    kinds = parser.add_mutually_exclusive_group(required=True)
    for kind, text in _FORMATS.items():
        kinds.add_argument(f"--{kind}", metavar="DIR", type=path, help=text)
    add_run_flags(parser, "verbose")
    return parser


def write_records(
    output: str, manifest: Mapping[str, Any], folder: str, kind: str
) -> tuple[int, int]:
    """Writes the records of a dataset, in their order, as one file for each shard.

    A file gets its name when it is whole; one that is there from an earlier run is kept.

    Args:
        output: the folder of the dataset.
        manifest: of the dataset.
        folder: where to write.
        kind: `webdataset`, `parquet` or `array_record`.

    Returns:
        how many files there are, and how many of them were kept.

    Raises:
        UsageError: the dataset has no index, or the folder holds files of another one.
        DatasetError: a record is damaged or cannot be read, or a file cannot be written.
    """
    from pipeline.random_access import open_index
    from pipeline.read import class_names
    from transforms.dataset import other_formats
    from transforms.dataset.manifest import manifest_shards
    from transforms.dataset.output_names import PARTIAL
    from transforms.examples.layouts import Feature
    from transforms.records.foreign_records import key_feature, key_problem
    from transforms.records.record_index import indexed_files, shard_of_index
    from transforms.storage.files import join, storage_of

    open_index(output, manifest, [each["file"] for each in manifest_shards(manifest)], alone=False)
    features = tuple(map(Feature.from_manifest, manifest["features"]))
    problem = functools.partial(key_problem, key_feature(manifest))
    described = other_formats.Described(features, class_names(output), problem)
    extension, write = {
        "webdataset": (".tar", other_formats.write_webdataset),
        "parquet": (".parquet", other_formats.write_parquet),
        "array_record": (".array_record", other_formats.write_array_record),
    }[kind]
    storage = storage_of(folder)
    made_of = {"dataset": manifest.get("digest", ""), "format": kind, "version": _VERSION}
    note, noted = join(folder, _MADE_OF), json.dumps(made_of)
    targets = {
        join(folder, shard_of_index(entry["file"]).removesuffix(".tfrecord") + extension): group
        for group in indexed_files(manifest)
        for entry in group[:1]
    }
    kept, found = {*filter(storage.exists, targets)}, storage.read_text(note)
    if found != noted and (found or kept):
        raise UsageError(f"--{kind} {folder} already holds another export: give another folder")
    storage.write_whole(note, noted.encode())
    for path, (entry, shards) in targets.items():
        if path not in kept:
            try:
                storage.remove(path + PARTIAL)
                with storage.open_writer(path + PARTIAL) as stream:
                    records = _records(output, manifest, entry, shards)
                    write(stream, records, described)
                storage.rename(path + PARTIAL, path)
            except (OSError, ValueError) as error:
                raise DatasetError(f"cannot write {path}: {one_line(error)}") from error
    return len(targets), len(kept)


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


def _records(
    output: str,
    manifest: Mapping[str, Any],
    entry: Mapping[str, Any],
    shards: Sequence[Mapping[str, Any]],
) -> Iterator[tuple[str, bytes]]:
    """Keys and records of the files that share an index, whose checksums are compared."""
    from pipeline.random_access import reading_index
    from transforms.dataset.record_checks import RecordVerifier
    from transforms.examples.tfrecord import TFRecordError
    from transforms.records.written_index import open_records, read_listed_index
    from transforms.storage.files import join

    with reading_index(output):
        keys = iter(read_listed_index(output, entry, ("key",)).column("key").to_pylist())
    most = RecordVerifier.of(manifest).largest_record
    for shard in shards:
        path = join(output, shard["file"])
        try:
            with open_records(path, follow_links=False, max_bytes=most) as records:
                for pair in itertools.zip_longest(
                    itertools.islice(keys, shard["records"]), records
                ):
                    if None in pair:
                        raise ValueError(f"it does not have {shard['records']} records")
                    yield pair
        except (TFRecordError, OSError, ValueError) as error:
            raise DatasetError(f"{path}: {one_line(error)}; see `verify {output}`") from error


if __name__ == "__main__":
    sys.exit(start("export", main))
