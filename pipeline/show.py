"""`python -m pipeline.show OUT`: prints records; `--images DIR` saves the pictures."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pipeline.dataset import open_dataset
from pipeline.errors import DatasetError, UsageError, run_command
from pipeline.options import OneLineParser, at_least_one, typed
from pipeline.summary import format_bytes
from transforms import files
from transforms.core.examples import decode_example
from transforms.core.image_files import file_stem
from transforms.core.manifest import manifest_shards
from transforms.core.tfrecord import TFRecordError
from transforms.read import open_records

# Characters of a bytes value that are shown as text.
_MAX_TEXT = 80

# Bytes of an image's name that a saved picture keeps, from its end; with shard and number before
# it, the name must still be one that file systems take.
_MAX_NAME = 100


class Record(NamedTuple):
    """One record of a dataset, decoded: see `decode_example`."""

    file: str
    number: int
    example: dict[str, Any]


def main(argv: Sequence[str] | None = None) -> None:
    """Prints the first records of a dataset.

    Raises:
        UsageError: there is no dataset, or no such split.
        DatasetError: a record cannot be read.
    """
    parser = OneLineParser(prog="python -m pipeline.show", allow_abbrev=False)
    parser.add_argument("output", metavar="OUT", help="folder of a dataset")
    parser.add_argument("--split", metavar="NAME", help="only this split")
    parser.add_argument("--limit", type=typed(at_least_one), default=5, metavar="N", help="records")
    parser.add_argument("--images", metavar="DIR", help="save the pictures there")
    flags = parser.parse_args(argv)
    manifest = open_dataset(flags.output)
    if flags.split is not None and flags.split not in manifest["splits"]:
        names = ", ".join(manifest["splits"])
        raise UsageError(f"there is no --split {flags.split}; the dataset has {names}")
    sources = {feature["source"]: feature["name"] for feature in manifest["features"]}
    if flags.images is not None and "image.bytes" not in sources:
        raise UsageError(f"--images {flags.images}: the records of {flags.output} hold no image")
    for record in read_dataset(flags.output, manifest, split=flags.split, limit=flags.limit):
        for line in record_lines(record):
            print(line)
        if flags.images is not None:
            print(f"  saved {save_image(record, Path(flags.images), sources)}")


def read_dataset(
    output: str, manifest: dict[str, Any], *, split: str | None, limit: int
) -> Iterator[Record]:
    """The first `limit` records, of one split or of all, in their order.

    Raises:
        DatasetError: a record cannot be read.
    """
    chosen = {split: manifest["splits"][split]} if split else manifest["splits"]
    for shard in manifest_shards({"splits": chosen}):
        try:
            with open_records(files.join(output, shard["file"])) as records:
                for number, record in enumerate(records):
                    if limit <= 0:
                        return
                    yield Record(shard["file"], number, decode_example(record))
                    limit -= 1
        except TFRecordError as error:
            raise DatasetError(f"{shard['file']}: {error}") from error
        except (OSError, ValueError) as error:
            raise DatasetError(f"cannot read {shard['file']}: {error}") from error


def record_lines(record: Record) -> Iterator[str]:
    """One record for people: each feature with its type, length and value."""
    yield f"{record.file} record {record.number}"
    for name, values in sorted(record.example.items()):
        kind = {"O": "bytes", "i": "int64", "f": "float"}[values.dtype.kind]
        shown = ", ".join(_shown(value) for value in values[:3])
        more = " ..." if len(values) > 3 else ""
        yield f"  {name:<24} {kind}[{len(values)}] {shown}{more}"


def _shown(value: Any) -> str:
    if not isinstance(value, bytes):
        return str(value)
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return f"<{format_bytes(len(value))}>"
    return repr(text) if len(text) <= _MAX_TEXT else f"<{format_bytes(len(value))} of text>"


def save_image(record: Record, directory: Path, sources: dict[str, str]) -> Path:
    """Saves the picture of one record as it is stored.

    Args:
        record: what to save.
        directory: made if it is not there.
        sources: feature name by source, as the manifest says.
    """
    data = record.example[sources["image.bytes"]][0]
    named = sources.get("image.path") or sources.get("image.key")
    given = record.example[named][0].decode() if named else "image"
    # A name out of a file must not lead out of the folder.
    safe = re.sub(r"[^\w.\-]+", "_", given.rsplit("/", 1)[-1])
    safe = safe.encode()[-_MAX_NAME:].decode(errors="ignore")
    shard = record.file.split(".tfrecord")[0].replace("/", "-")
    if len(shard.encode()) > _MAX_NAME:
        # A file of one image may have the longest of names.
        shard = file_stem(shard, max_bytes=_MAX_NAME)
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{shard}-{record.number:05d}-{safe}"
    path.write_bytes(data)
    return path


if __name__ == "__main__":
    sys.exit(run_command(main, "show"))
