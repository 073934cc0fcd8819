"""WriteReport: writes `report.html` from the files of a finished dataset."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import apache_beam as beam

from transforms.core.dataset.manifest import content_digest, manifest_shards
from transforms.core.dataset.output_names import MANIFEST, REJECTED, REPORT, STATISTICS
from transforms.core.json_text import parse_json
from transforms.core.rejections import Rejection
from transforms.core.report.report_tables import MAX_LISTED
from transforms.core.shown_text import first_line
from transforms.report_images import picture_records, picture_rejected
from transforms.storage.files import join, read_manifest, storage_of
from transforms.stored_records import stored_lines

# Errors caused by statistics without the expected structure.
_DAMAGE = (ArithmeticError, AttributeError, LookupError, StopIteration, TypeError, ValueError)

_LOGGER = logging.getLogger(__name__)


class WriteReport(beam.PTransform):
    """Writes the report of a dataset that was just published or has no report.

    Input: the output of `PublishDataset`. Output: `written`, `there` or `failed`. A failed report
    is only logged: the dataset is complete without it.
    """

    def __init__(self, output: str) -> None:
        super().__init__()
        self._fn = _WriteReportFn(output)

    def expand(self, published: beam.PCollection[str]) -> beam.PCollection[str]:
        return published | "Write the page" >> beam.ParDo(self._fn).with_output_types(str)


class _WriteReportFn(beam.DoFn):
    def __init__(self, output: str) -> None:
        self._output = output

    def process(self, published: str) -> Iterator[str]:
        if published != "published" and storage_of(self._output).exists(join(self._output, REPORT)):
            yield "there"
            return
        try:
            # Read before the manifest: another run may replace the dataset and its report.
            found = storage_of(self._output).find(join(self._output, REPORT))
            former = found.version if found else 0
            manifest = read_manifest(join(self._output, MANIFEST))
            write_report(self._output, manifest or {}, former)
        except Exception as error:  # any error; the dataset is published
            _LOGGER.warning(
                "%s could not be written (%s): %s", REPORT, self._output, first_line(error)
            )
            yield "failed"
        else:
            yield "written"


def write_report(output: str, manifest: Mapping[str, Any], former: int | None = None) -> int:
    """Writes `report.html` from a dataset's folder, replacing a former one.

    Args:
        output: the folder.
        manifest: the dataset's.
        former: the generation of the report that it replaces, 0 for a new one, None for any.

    Returns:
        its size in bytes.

    Raises:
        OSError: it cannot be written.
    """
    page = make_report(output, manifest).encode()
    storage_of(output).write_whole(join(output, REPORT), page, generation=former)
    return len(page)


def make_report(output: str, manifest: Mapping[str, Any]) -> str:
    """The report of a dataset; unreadable parts become notes in the page.

    Args:
        output: its folder.
        manifest: the dataset's.
    """
    # These modules import Jinja2 and Pillow, which are not needed before.
    from transforms.core.report.page import Sources, page_template, render

    notes: list[str] = []
    there = set(storage_of(output).names_below(output))
    missing = [s["file"] for s in manifest_shards(manifest) if s["file"] not in there]
    statistics = _read_statistics(output, manifest, notes)
    rejections = read_rejections(output, manifest, notes)
    with ThreadPoolExecutor(2) as pool:
        # Runs in another process, while this one reads the shards.
        rejected = pool.submit(picture_rejected, rejections, manifest["root"])
        # Importing Jinja2 takes as long as the pictures, which other threads make.
        prepared = pool.submit(page_template)
        try:
            pictures = picture_records(output, manifest, statistics, notes)
        except _DAMAGE as error:
            statistics, pictures = _without(statistics, error, notes), {}
        sources = Sources(
            dataset_name(output),
            manifest,
            statistics,
            rejections,
            pictures,
            rejected.result(),
            missing,
            notes,
        )
        prepared.result()
    try:
        return render(sources)
    except _DAMAGE as error:
        return render(sources._replace(statistics=_without(statistics, error, notes)))


def dataset_name(output: str) -> str:
    """The name of the dataset in a folder: that of the folder or the bucket."""
    return storage_of(output).absolute(output).rstrip("/").rpartition("/")[2] or "/"


def _without(
    statistics: Mapping[str, Any], error: Exception, notes: list[str]
) -> Mapping[str, Any]:
    """Returns empty statistics instead of unusable ones, with a note."""
    if not statistics:
        raise error
    notes.append(f"{STATISTICS} is ignored because it is not valid ({error!r:.100}).")
    return {}


def _read_statistics(
    output: str, manifest: Mapping[str, Any], notes: list[str]
) -> Mapping[str, Any]:
    try:
        text = storage_of(output).read_text(join(output, STATISTICS), follow_links=False)
        if text is None:
            if STATISTICS in manifest["files"]:
                notes.append(
                    f"{STATISTICS} is missing, so the page has no sizes, samples and duplicates."
                )
            return {}
        return dict(parse_json(text))
    except (OSError, TypeError, ValueError) as error:
        notes.append(f"{STATISTICS} cannot be read ({error!s:.100}).")
        return {}


def _rejection(fields: Any) -> Rejection:
    """A line of `rejected.jsonl`.

    Raises:
        TypeError, ValueError: the line is not valid.
    """
    rejection = Rejection(**fields)
    if not all(isinstance(field, str) for field in rejection):
        raise ValueError("a line is not a rejection")
    return rejection


def read_rejections(output: str, manifest: Mapping[str, Any], notes: list[str]) -> list[Rejection]:
    """The first lines of each reason; the file may have one for every image.

    An edited file is not used, because the files that it lists are opened for thumbnails.

    Args:
        output: the dataset's folder.
        manifest: of the dataset.
        notes: takes what cannot be read.
    """
    wanted = {reason: min(count, MAX_LISTED) for reason, count in manifest["rejected"].items()}
    words = {reason: f'"{reason}"'.encode() for reason in wanted}
    left = sum(wanted.values())
    found: list[Rejection] = []
    if not left:
        return found
    path = join(output, REJECTED)
    try:
        listed = manifest["files"].get(REJECTED, {"bytes": 0, "crc32c": None})
        found_crc32c = storage_of(path).checksum(path, size=listed["bytes"])
        if content_digest(manifest) != manifest.get("digest") or found_crc32c != listed["crc32c"]:
            notes.append(
                f"{REJECTED} is ignored because it or {MANIFEST} is missing or was edited."
            )
            return found
        for line in stored_lines(path, listed["bytes"]):
            # Millions of lines may have a reason of which enough are found.
            if not any(map(line.__contains__, words.values())):
                continue
            rejection = _rejection(parse_json(line))
            if wanted.get(rejection.reason, 0):
                wanted[rejection.reason] -= 1
                left -= 1
                found.append(rejection)
                if not wanted[rejection.reason]:
                    words.pop(rejection.reason)
            if not left:
                break
    except (OSError, TypeError, ValueError) as error:
        notes.append(f"{REJECTED} cannot be read to its end ({error!s:.100}).")
    return found
