"""What `plan --reuse` prints: images that are reused, originals that are read, and differences."""

from __future__ import annotations

import glob
import json
from collections.abc import Iterator, Sequence

from pipeline.config import ConvertConfig
from pipeline.diff import dataset_records
from pipeline.errors import DatasetError
from pipeline.open_dataset import open_dataset
from transforms.core.comparison.change_lines import Differences
from transforms.core.comparison.option_changes import option_changes
from transforms.core.comparison.planned_records import PlannedReads, read_part
from transforms.core.comparison.record_changes import Records, compare_records
from transforms.core.dataset.manifest import manifest_indexes
from transforms.core.shown_text import format_bytes
from transforms.storage.files import storage_of


def reuse_lines(config: ConvertConfig, folders: Sequence[str], path: str) -> Iterator[str]:
    """The lines of `plan` about `--reuse`.

    Args:
        config: of the run.
        folders: the values of `--reuse`.
        path: of the plan, next to which its parts are; they are removed.

    Raises:
        UsageError: a dataset of `--images` was removed meanwhile.
    """
    reads, records = _read_parts(path)
    options = json.loads(json.dumps(config.options))
    features = json.loads(json.dumps([feature.to_manifest() for feature in config.features]))
    now = {"options": options, "features": features}
    used = {base.folder for base in config.bases}
    indexes, lines = 0, []
    for folder in dict.fromkeys(folders):
        try:
            manifest, former = dataset_records(folder)
        except (DatasetError, OSError) as error:
            lines.append(f"diff     {folder} cannot be compared: {error}")
            continue
        indexes += 1 + len(manifest["index"]) if folder in used else 0
        found = Differences(compare_records(former, records), option_changes(manifest, now))
        lines.append(f"diff     {folder} -> {config.output}")
        lines += [f"  {line}" for line in found.planned_lines()]
    for source in config.sources.sources if config.sources else ():
        indexes += 1 + len(manifest_indexes(open_dataset(source.folder)))
    yield f"reused   {reads.reused} images from their records (--reuse)"
    records_too = f", and {reads.records} records of --images" if reads.records else ""
    yield f"read     {reads.originals} originals, {format_bytes(reads.bytes)}{records_too}"
    copied = f", {reads.copied} for copied shards" if reads.copied else ""
    yield (
        f"requests {reads.originals + reads.ranges + indexes + reads.copied}: "
        f"{reads.originals} for originals, {reads.ranges} for records, {indexes} for manifests and "
        f"indexes{copied}"
    )
    yield from lines


def _read_parts(path: str) -> tuple[PlannedReads, Records]:
    """The sums of all planned shards, and their records."""
    storage = storage_of(path)
    total = PlannedReads()

    def tables() -> Iterator[Records]:
        nonlocal total
        parts = sorted(file.uri for file in storage.list_files(f"{glob.escape(path)}.*"))
        for data in storage.for_each(storage.read_bytes, parts):
            table, reads = read_part(data)
            total = total.plus(reads)
            yield Records.of_index(table)
        for _ in storage.for_each(storage.remove, parts):
            pass

    records = Records.joined(tables())
    return total, records
