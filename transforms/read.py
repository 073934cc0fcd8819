"""Reading a finished dataset back: its shards' records, and whether they are as written."""

from __future__ import annotations

import contextlib
import gzip
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, NamedTuple, cast

from transforms import files
from transforms.core.tfrecord import TFRecordError, read_records
from transforms.core.verify import Problem, RecordCheck, RecordVerifier
from transforms.fetch import ReadAhead

# Problems told of one shard; a file of noise need not fill the screen.
_MAX_PROBLEMS = 20


@contextlib.contextmanager
def open_records(path: str) -> Iterator[Iterator[bytes]]:
    """The records of a TFRecord file; `.gz` is decompressed.

    Raises:
        TFRecordError: while reading, at the first record that is damaged.
        OSError: when the file cannot be opened.
    """
    with files.open_reader(path) as file:
        if path.endswith(".gz"):
            with gzip.open(file) as stream:
                yield read_records(cast(BinaryIO, stream))
        else:
            yield read_records(file)


class VerifiedShard(NamedTuple):
    """What reading one shard showed: its problems, and its records of each class."""

    problems: list[Problem]
    labels: Counter[str]


def verify_shard(output: str, shard: Mapping[str, Any], verifier: RecordVerifier) -> VerifiedShard:
    """Re-reads one shard: framing, schema, labels, pixels, count and checksum.

    Args:
        output: the dataset's folder.
        shard: the shard as the manifest lists it.
        verifier: checks its records, several at once.
    """
    name = shard["file"]
    path = files.join(output, name)
    if not files.exists(path):
        return VerifiedShard([Problem(name, None, "the file is missing")], Counter())
    problems: list[Problem] = []
    labels: Counter[str] = Counter()
    records = 0
    with open_records(path) as stream:
        undamaged = _until_damage(stream, name, problems)
        checks: Iterator[RecordCheck] = ReadAhead().map(verifier.check, undamaged, size=len)
        for record, check in enumerate(checks):
            problems += [Problem(name, record, detail) for detail in check.problems]
            labels.update(check.labels)
            records = record + 1
    problems += _file_problems(path, shard, records, is_damaged=bool(problems))
    return VerifiedShard(_shortened(problems), labels)


def _until_damage(stream: Iterator[bytes], name: str, problems: list[Problem]) -> Iterator[bytes]:
    try:
        yield from stream
    except TFRecordError as error:
        problems.append(Problem(name, error.record, error.problem))


def _file_problems(
    path: str, shard: Mapping[str, Any], records: int, *, is_damaged: bool
) -> Iterator[Problem]:
    name = shard["file"]
    if records != shard["records"]:
        detail = f"{records} records can be read, the manifest says {shard['records']}"
        yield Problem(name, None, detail)
    actual = files.checksum(path)
    if actual != shard["crc32c"]:
        where = "" if is_damaged else "; every record is sound: the rest of the file differs"
        detail = f"the file's CRC32C is {actual}, the manifest says {shard['crc32c']}{where}"
        yield Problem(name, None, detail)


def _shortened(problems: list[Problem]) -> list[Problem]:
    more = len(problems) - _MAX_PROBLEMS
    if more <= 0:
        return problems
    return [*problems[:_MAX_PROBLEMS], Problem(problems[0].file, None, f"{more} more problems")]
