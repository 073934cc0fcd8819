"""`python -m pipeline.index FOLDER`: indexes TFRecord files that another program wrote."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.command_line import begin, start
from pipeline.errors import UsageError, refusing, trying
from pipeline.open_dataset import has_manifest, is_indexed, record_files
from pipeline.options.parser import OneLineParser, add_run_flags, typed
from pipeline.resolve.path_flags import check_path
from transforms.core.messages import printable, quantity
from transforms.core.option import not_empty
from transforms.dataset.manifest import content_summary, names_of_ids, to_bytes
from transforms.dataset.output_names import INDEX, MANIFEST, index_file
from transforms.labels.keys import record_features
from transforms.labels.shards import ShardName
from transforms.storage.files import join, storage_of


def main(argv: Sequence[str] | None = None) -> None:
    """Reads all records, writes the index next to them, and prints what features mean.

    Raises:
        UsageError: there are no files, one of them is damaged, or two records have one key.
        DatasetError: a file cannot be read or written.
    """
    flags, _ = begin(make_parser(), argv)
    from pipeline.resolve.datasets import loose_dataset

    path = flags.path.rstrip("/") or "/"
    check_path("the path", path)
    with trying(f"read {path}"):
        files = record_files(path)
    folders = {each.rpartition("/")[0] or "." for each in files}
    if len(folders) != 1:
        why = (
            f"these files are in {len(folders)} folders" if files else "there are no TFRecord files"
        )
        raise UsageError(f"{path}: {why}: give one folder of TFRecord files, or a glob of them")
    [folder] = folders
    with trying(f"read {folder}"):
        is_taken = has_manifest(folder) and not is_indexed(folder)
    if is_taken:
        raise UsageError(f"{folder} holds a {MANIFEST}: its dataset has an index")
    dataset, decisions = loose_dataset(path, path, files, flags.record_features)
    for each in decisions:
        print(printable(f"{each.what:<8} {each.value}, {each.because}"))
    _write_index(folder, dataset.of_run().names, dict(dataset.manifest))
    records = dataset.count("records")
    print(f"indexed  {folder}: {quantity(len(files), 'file')}, {quantity(records, 'record')}")


def make_parser() -> OneLineParser:
    """The parser of `index`."""
    parser = OneLineParser(
        "index",
        "Writes manifest.json and an index of TFRecord files of another program\n"
        "next to them, with which Records, show, diff, export and convert read them.",
        usage="FOLDER [FLAGS]",
        examples=("old", "'old/train-*' --record_features image=jpg,key="),
    )
    add, path = parser.add_argument, typed(not_empty)
    add("path", metavar="FOLDER", type=path, help="folder of TFRecord files, or a glob of them")
    add(
        "--record_features",
        type=typed(record_features),
        metavar="image=NAME,...",
        help="features that hold the image, the label and the key; key= for file and number",
    )
    add_run_flags(parser, "verbose")
    return parser


def _write_index(folder: str, names: Mapping[str, str], manifest: dict[str, Any]) -> None:
    """Writes an index for each file, then the manifest, of which the counts are set."""
    from transforms.records.foreign_records import Noted, index_table, record_rows
    from transforms.records.record_index import RecordIndexError, index_bytes

    noted, classes = Noted(), names_of_ids(manifest)
    storage = storage_of(folder, follow_links=False)
    with trying(f"index {folder}"), refusing(RecordIndexError):
        storage.make_directory(join(folder, INDEX))
        for split, listed in manifest["splits"].items():
            noted.labels.clear()
            for number, shard in enumerate(listed["shards"]):
                path = join(folder, shard["file"])
                rows = record_rows(path, shard["file"], split, names, classes, noted)
                table = index_table(rows)
                data = index_bytes(table)
                index = index_file(str(ShardName(split, number, len(listed["shards"]))))
                storage.write_whole(join(folder, index), data)
                entry = {"file": index, "records": len(table), **content_summary(data)._asdict()}
                manifest["index"].append(entry)
                listed["records"] += len(table)
                crc32c = storage.checksum(path, size=shard["bytes"])
                shard |= {"records": len(table), "crc32c": crc32c}
            listed["classes"] = dict(noted.labels)
        if again := noted.repeated():
            raise UsageError(
                f"keys of records are repeated in {folder} ({again}): name another feature by "
                "--record_features key=NAME; key= takes file and number"
            )
        manifest["features"] = [each.to_manifest() for each in noted.features(names)]
        storage.write_whole(join(folder, MANIFEST), to_bytes(manifest))


if __name__ == "__main__":
    sys.exit(start("index", main))
