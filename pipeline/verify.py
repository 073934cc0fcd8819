"""`python -m pipeline.verify OUT`: re-reads every shard and compares it with the manifest."""

from __future__ import annotations

import glob
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from apache_beam.io.filesystem import BeamIOError

from pipeline.dataset import open_dataset
from pipeline.errors import DatasetError, one_line, run_command
from pipeline.options import OneLineParser
from transforms import files
from transforms.core.layouts import COLUMN
from transforms.core.manifest import LABELS, REJECTED, crc32c_hex, manifest_shards
from transforms.core.shards import ShardName
from transforms.core.verify import (
    Problem,
    RecordVerifier,
    class_problems,
    ledger_problems,
    rejected_problems,
)
from transforms.match import is_local, list_files
from transforms.read import verify_shard


def main(argv: Sequence[str] | None = None) -> None:
    """Verifies a dataset and prints what was read.

    Raises:
        UsageError: there is no dataset.
        DatasetError: it differs from its manifest.
    """
    parser = OneLineParser(prog="python -m pipeline.verify", allow_abbrev=False)
    parser.add_argument("output", metavar="OUT", help="folder of a dataset")
    output = parser.parse_args(argv).output
    manifest = open_dataset(output)
    problems = list(find_problems(output, manifest))
    for problem in problems:
        print(problem)
    shards = manifest_shards(manifest)
    records = sum(shard["records"] for shard in shards)
    if problems:
        raise DatasetError(f"{output} differs from its manifest: {len(problems)} problems")
    kind = "shards" if manifest["options"].get("files") != "per_image" else "files"
    print(f"verified {output}: {len(shards)} {kind}, {records} records, {_checked(manifest)}")


def _checked(manifest: dict[str, Any]) -> str:
    sources = {feature["source"] for feature in manifest["features"]}
    if "image.bytes" in sources:
        return "every image decodes"
    is_of_rows = all(source.startswith(COLUMN) for source in sources)
    return "every value has its type" if is_of_rows else "all arrays are whole and finite"


def find_problems(output: str, manifest: dict[str, Any]) -> Iterator[Problem]:
    """Everything in which a folder differs from its manifest."""
    for detail in ledger_problems(manifest):
        yield Problem("manifest.json", None, detail)
    yield from _small_file_problems(output, manifest)
    yield from _extra_shards(output, manifest)
    labels = (files.read_text(files.join(output, LABELS)) or "").split("\n")[:-1]
    verifier = RecordVerifier.of(manifest, labels)
    for name, split in manifest["splits"].items():
        classes: Counter[str] = Counter()
        is_whole = True
        for shard in split["shards"]:
            verified = verify_shard(output, shard, verifier)
            yield from verified.problems
            is_whole = is_whole and not verified.problems
            classes += verified.labels
        if is_whole and verifier.tells_classes:
            for detail in class_problems(name, classes, split["classes"]):
                yield Problem("manifest.json", None, detail)


def _small_file_problems(output: str, manifest: dict[str, Any]) -> Iterator[Problem]:
    for name, listed in manifest["files"].items():
        try:
            text = files.read_text(files.join(output, name))
        except (BeamIOError, OSError, UnicodeDecodeError) as error:
            yield Problem(name, None, f"cannot be read: {one_line(error)}")
            continue
        if text is None:
            yield Problem(name, None, "the file is missing")
        elif crc32c_hex(text.encode()) != listed["crc32c"]:
            yield Problem(name, None, "was changed since the dataset was written")
        elif name == REJECTED:
            for detail in rejected_problems(manifest, text):
                yield Problem(name, None, detail)


def _extra_shards(output: str, manifest: dict[str, Any]) -> Iterator[Problem]:
    listed = {shard["file"] for shard in manifest_shards(manifest)}
    folder = glob.escape(output) if is_local(output) else output
    for file in list_files(files.join(folder, "*.tfrecord*")):
        name = file.uri.rsplit("/", 1)[-1]
        if name not in listed and _is_shard(name):
            yield Problem(name, None, "is no file of this dataset; remove it")
    if manifest["options"].get("files") == "per_image":
        for file in list_files(files.join(folder, "*", "*.tfrecord*")):
            name = "/".join(file.uri.rsplit("/", 2)[-2:])
            if name not in listed and name.split("/")[0] in manifest["splits"]:
                yield Problem(name, None, "is no file of this dataset; remove it")


def _is_shard(name: str) -> bool:
    try:
        ShardName.parse(name)
    except ValueError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(run_command(main, "verify"))
