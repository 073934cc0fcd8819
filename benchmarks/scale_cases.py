"""Graphs of large datasets whose images do not exist: `scale_cases.py CASE COUNT WORKERS DIR`.

Each case is a process of its own, because peak memory is that of a process. The last line is JSON.
The inputs are made before, by `inputs` in `scale_memory.py`.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

if TYPE_CHECKING:
    import apache_beam as beam
    from cluster_runner import Ran

    from transforms.core.records import FingerprintBatch

# A shard of 150 MB has this many images of 110 KB.
SHARD_IMAGES = 1364
_CLASSES = 1000
_IMAGE_BYTES = 110_000


def rows(count: int, work: Path) -> Ran:
    """Rows that no image has, as with a wrong key: all of them are left out."""
    from pipeline.graph import build

    folder = work / "rows"
    flags = ["--images", f"{folder}/photos/*.jpg", "--labels", f"{folder}/labels.csv"]
    flags += ["--label_key", "id", "--label_column", "label", "--output", f"{folder}/out"]
    config = _config("convert", flags)
    return _run(lambda pipeline: build(pipeline, config))


def names(count: int, work: Path) -> Ran:
    """Small images in ten folders of a bucket, which are planned and not opened."""
    return _planned(count, work)


def classes(count: int, work: Path) -> Ran:
    """As many classes as `count`, with two images each."""
    return _planned(2 * count, work)


def _planned(count: int, work: Path) -> Ran:
    from pipeline import dry_run

    taken: list[Ran] = []

    def run_here(
        construct: Callable[[beam.Pipeline], Any], *_: object, **__: object
    ) -> dict[str, int]:
        taken.append(_run(construct))
        return {}

    flags = ["--images", "gs://many/photos/*/*.jpg", "--label_from", "directory"]
    flags += ["--num_shards", str(-(-count // SHARD_IMAGES)), "--output", f"{work}/none"]
    summary = work / "plan.json"
    with mock.patch.object(dry_run, "run_pipeline", run_here):
        dry_run.plan_dataset(_config("plan", flags), str(summary), [], progress="off")
    planned = json.loads(summary.read_text())["splits"]["train"][0]
    assert planned == count, f"{planned} of {count} names planned"
    return taken[0]


def equal(count: int, work: Path) -> Ran:
    """Images of one content, of which only the fingerprints exist."""
    return _compared(count, is_equal=True)


def distinct(count: int, work: Path) -> Ran:
    """Images of which no two are equal, of which only the fingerprints exist."""
    return _compared(count, is_equal=False)


def _compared(count: int, *, is_equal: bool) -> Ran:
    import apache_beam as beam

    from transforms.core.records import FingerprintBatch
    from transforms.dataset.ledger import ShardSummary
    from transforms.drop_duplicates import FindEqualImages
    from transforms.packing import Gather

    shards = -(-count // SHARD_IMAGES)
    batch = tuple[int, FingerprintBatch]

    def construct(pipeline: beam.Pipeline) -> None:
        numbers = pipeline | "Shards" >> beam.Create(range(shards)) | beam.Reshuffle()
        prints = beam.FlatMap(_fingerprints, shards, is_equal).with_output_types(batch)
        summaries = beam.Map(_empty_summary, shards).with_output_types(ShardSummary)
        find = FindEqualImages(numbers | "Summaries" >> summaries)
        found = numbers | "Fingerprints" >> prints | "Find duplicates" >> find
        _ = {"duplicates": found} | "Gather" >> Gather()

    return _run(construct)


def _name(number: int, shards: int) -> str:
    return f"train-{number:05d}-of-{shards:05d}.tfrecord"


def _empty_summary(number: int, shards: int) -> Any:
    from transforms.dataset.ledger import ShardSummary

    return ShardSummary(_name(number, shards), "", records=SHARD_IMAGES)


def _fingerprints(
    number: int, shards: int, is_equal: bool
) -> Iterable[tuple[int, FingerprintBatch]]:
    from transforms.records.record_index import content_hash
    from transforms.selection.duplicates import MANY_BUCKETS, fingerprint_batches

    images = range(number * SHARD_IMAGES, (number + 1) * SHARD_IMAGES)
    contents = [content_hash(b"" if is_equal else str(image).encode()) for image in images]
    name = _name(number, shards)
    return fingerprint_batches(index_of(name, contents), name, MANY_BUCKETS)


def index_of(name: str, contents: Sequence[str]) -> Any:
    """The index of a shard with an image of each content; an empty one was not compared."""
    from transforms.core.records import PlannedImage
    from transforms.images.checked_images import CheckedImage, ImageInfo, Seen
    from transforms.images.pixel_options import Original
    from transforms.records.record_index import IndexRows

    rows, info, original = IndexRows(), ImageInfo("jpeg", 300, 400, 3), Original(300, 400, 1)
    for record, content in enumerate(contents):
        image = PlannedImage(record, str(record), f"{record}.jpg", _IMAGE_BYTES, 1, "cat", 0)
        hash_ = int(content[:16], 16) if content else None
        rows.add(
            CheckedImage(
                b"",
                info,
                original,
                seen=Seen(hash_),
                image=image,
                content=content,
                stored_content=content,
            )
        )
        rows.lengths.append(_IMAGE_BYTES)
    return rows.table(name)


def shards(count: int, work: Path) -> Ran:
    """Staged shards of 1,364 images in 1,000 classes, with tiny files, which are published."""
    import apache_beam as beam

    from transforms.core.records import Count
    from transforms.core.rejections import Rejection, RejectionLimit
    from transforms.dataset.dataset_options import DatasetOptions
    from transforms.dataset.ledger import PlanTotals
    from transforms.dataset.manifest import Dataset
    from transforms.dataset_files import DatasetTarget
    from transforms.examples.layouts import LAYOUTS
    from transforms.images.pixel_options import CheckOptions
    from transforms.publish_dataset import PublishDataset

    output = work / "shards"
    (output / ".staging").mkdir(parents=True)
    images = count * SHARD_IMAGES
    totals = PlanTotals(label_kind="text")
    totals.images["train"] = images
    totals.bytes["train"] = images * _IMAGE_BYTES
    totals.labels.update({name: number * count for name, number in _shard_labels().items()})
    dataset = Dataset({"dedupe": "off"}, {}, "/photos", LAYOUTS["slim"], ("train",))
    target = DatasetTarget(
        DatasetOptions(output=str(output)),
        CheckOptions(max_rejected=RejectionLimit.parse("0"), dedupe="off"),
        dataset,
        converter=None,  # type: ignore[arg-type]
        plan=None,  # type: ignore[arg-type]
    )

    def construct(pipeline: beam.Pipeline) -> None:
        def made(name: str, element: Any) -> Any:
            return pipeline | name >> beam.Create([element]).with_output_types(type(element))

        staged = (
            pipeline
            | "Shards" >> beam.Create(range(count))
            | "Spread shards" >> beam.Reshuffle()
            | "Stage" >> beam.Map(_staged, count, str(output)).with_output_types(_summary_type())
        )
        rejections = pipeline | "No rejection" >> beam.Create([]).with_output_types(Rejection)
        _ = staged | PublishDataset(
            target,
            totals=made("Totals", totals),
            rejections=rejections,
            counts=made("Counts", Count("images_found", images)),
        )

    taken = _run(construct)
    manifest = json.loads((output / "manifest.json").read_text())
    assert manifest["ledger"]["records_written"] == images
    return taken


def _summary_type() -> Any:
    from transforms.dataset.ledger import ShardSummary

    return ShardSummary


def _shard_labels() -> dict[str, int]:
    return {f"class {at:04}": (SHARD_IMAGES + at) // _CLASSES for at in range(_CLASSES)}


def _staged(number: int, count: int, output: str) -> Any:
    """Writes the files of a staged shard, with statistics as large as those of real images."""
    from transforms.dataset.image_statistics import Sample, Statistics
    from transforms.dataset.ledger import ShardSummary
    from transforms.dataset.manifest import crc32c_hex
    from transforms.images.checked_images import ImageInfo
    from transforms.records.record_index import index_bytes
    from transforms.storage.files import sidecar_path

    file = f"train-{number:05d}-of-{count:05d}.tfrecord"
    recipe, data = f"{number:032x}", f"{number:016}".encode()
    labels, statistics = _shard_labels(), Statistics()
    infos = [ImageInfo("jpeg", 300 + 7 * at, 400 + 9 * at, 3) for at in range(32)]
    statistics.add(infos, range(60_000, 188_000, 4000), [0] * 32)
    for record, label in enumerate(labels):
        statistics.samples.add(label, Sample(number * SHARD_IMAGES + record, file, record))
    statistics.samples.shrink()
    summary = ShardSummary(
        file,
        recipe,
        records=SHARD_IMAGES,
        bytes=len(data),
        crc32c=crc32c_hex(data),
        image_bytes=SHARD_IMAGES * _IMAGE_BYTES,
        labels=labels,
        statistics=statistics.to_json(),
    )
    # The samples are in the first shard; the others' indexes are not read.
    index = b"index" if number else index_bytes(index_of(file, [""] * SHARD_IMAGES))
    summary = dataclasses.replace(summary, index_bytes=len(index), index_crc32c=crc32c_hex(index))
    Path(output, ".staging", summary.staged_index).write_bytes(index)
    Path(output, ".staging", f"{file}.{recipe}").write_bytes(data)
    sidecar = ShardSummary(file, recipe).to_sidecar()
    Path(sidecar_path(output, file, recipe)).write_text(sidecar)
    return summary


CASES: dict[str, Callable[[int, Path], Ran]] = {
    "rows": rows,
    "equal": equal,
    "distinct": distinct,
    "classes": classes,
    "shards": shards,
    "names": names,
}

_workers = 0


def _run(construct: Callable[[beam.Pipeline], Any]) -> Ran:
    from cluster_runner import run_graph

    return run_graph(construct, workers=_workers)


def _config(command: str, flags: list[str]) -> Any:
    from pipeline.options.parser import parse_flags
    from pipeline.resolve import preflight

    parsed, _ = parse_flags(command, [*flags, "--progress", "off"])
    return preflight.check_flags(parsed)


def run_case(name: str, count: int, workers: int, work: Path) -> Ran:
    """Runs a case here.

    Args:
        name: of `CASES`.
        count: its elements.
        workers: processes; 0 for this one.
        work: a folder for its files.
    """
    global _workers
    _workers = workers
    from transforms.storage.gcs_requests import client

    # That of another case has another server.
    client.cache_clear()
    return CASES[name](count, work)


def main() -> None:
    """Runs the case of the command line."""
    from pipeline.run.beam_compat import import_beam

    # A worker process imports what this one imports.
    import_beam([])
    name, count, workers, work = sys.argv[1:]
    ran = run_case(name, int(count), int(workers), Path(work))
    print(json.dumps({**ran._asdict(), "crossed": [tuple(each) for each in ran.crossed]}))


if __name__ == "__main__":
    main()
