"""Lists a bucket behind latency, by one worker and in ranges by several."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest import mock

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue
from report import markdown_table

if TYPE_CHECKING:
    from tests.servers.gcs_listing import ListingServer

_GLOB = "gs://many/photos/*/*.jpg"
_ROOT = "gs://many/photos"

# Beam's integers have 64 bits with a sign.
_MODULUS = 2**63


class Listed(NamedTuple):
    """How a bucket was listed.

    Attributes:
        names: how many were found.
        digest: of all of them, in any order.
        seconds: wall time.
        pages: requests for pages.
        probes: requests for single names, which cut the list.
        widest: requests at the same time.
        widest_pages: of these, requests for pages.
    """

    names: int
    digest: int
    seconds: float
    pages: int
    probes: int
    widest: int
    widest_pages: int


def _digest(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest())


class _SumUpFn(beam.DoFn):
    """The number of the names of a bundle, and the sum of their hashes."""

    def start_bundle(self) -> None:
        self._names = self._sum = 0

    def process(self, side: tuple[str, Any]) -> None:
        self._names += 1
        self._sum += _digest(side[1].path)

    def finish_bundle(self) -> Iterator[WindowedValue]:
        yield GlobalWindows.windowed_value((self._names, self._sum % _MODULUS))


def _write(parts: Iterable[tuple[int, int]], path: str) -> None:
    every = list(parts)
    names, total = (sum(values) for values in zip(*every, strict=True))
    Path(path).write_text(f"{names} {total % _MODULUS}")


def list_in_ranges(workers: int, result: Path) -> tuple[int, int]:
    """Lists through the step of the product, on several workers.

    Args:
        workers: processes; 0 for this one.
        result: a file for the outcome.
    """
    from cluster_runner import run_graph

    from transforms.input_readers import ImageFinder
    from transforms.join_labels import ReadInputs
    from transforms.labels.label_rules import PathRules
    from transforms.storage.gcs_requests import client

    # That of another listing has another server.
    client.cache_clear()
    finder = ImageFinder(root=_ROOT, key="path", rules=PathRules())

    def construct(pipeline: beam.Pipeline) -> None:
        found = pipeline | ReadInputs([_GLOB], finder, [], None)
        _ = (
            found.sides
            | "Sum up" >> beam.ParDo(_SumUpFn()).with_output_types(tuple[int, int])
            | "One key" >> beam.WithKeys(0)
            | "Together" >> beam.GroupByKey()
            | "Sums" >> beam.Values()
            | "Write" >> beam.Map(_write, str(result))
        )

    run_graph(construct, workers=workers)
    names, total = result.read_text().split()
    return int(names), int(total)


def list_in_turn() -> tuple[int, int]:
    """Lists page by page."""
    from transforms.storage.gcs_storage import GcsStorage

    names = total = 0
    for file in GcsStorage().list_files(_GLOB):
        names += 1
        total += _digest(file.uri.removeprefix(f"{_ROOT}/"))
    return names, total % _MODULUS


@contextmanager
def _client_of(server: ListingServer) -> Iterator[None]:
    """Points this process to a server, and leaves no client of it to those that follow."""
    from transforms.storage.gcs_requests import client

    client.cache_clear()
    try:
        with mock.patch.dict(os.environ, server.environment):
            yield
    finally:
        if client.cache_info().currsize:
            client().close()
        client.cache_clear()


def measure_listing(
    count: int, latency_ms: int, workers: int, work: Path
) -> tuple[Listed, Listed, float]:
    """Lists a bucket in turn and in ranges; also gives the seconds that workers take to start."""
    from tests.servers.gcs_listing import serve_names

    work.mkdir(parents=True, exist_ok=True)
    found = []
    for ways in (list_in_turn, lambda: list_in_ranges(workers, work / "listed.txt")):
        with serve_names(count, work, latency_ms=latency_ms) as server, _client_of(server):
            started = time.perf_counter()
            names, digest = ways()
            seconds = time.perf_counter() - started
            counted = server.counted()
        requests = (counted.pages, counted.probes, counted.widest, counted.widest_pages)
        found.append(Listed(names, digest, seconds, *requests))
    with serve_names(10, work) as server, _client_of(server):
        started = time.perf_counter()
        list_in_ranges(workers, work / "listed.txt")
        start_up = time.perf_counter() - started
    return found[0], found[1], start_up


def listing_lines(in_turn: Listed, in_ranges: Listed, start_up: float, workers: int) -> str:
    """The table, and how the two compare."""
    titles = ("one worker, page by page", f"in ranges, {workers or 1} worker processes")
    rows = [
        [title, f"{each.names:,}", f"{each.pages:,}", f"{each.probes:,}"]
        + [str(each.widest_pages), str(each.widest), f"{each.seconds:.1f}"]
        for title, each in zip(titles, (in_turn, in_ranges), strict=True)
    ]
    header = [
        "listing",
        "names",
        "pages",
        "requests that cut",
        "pages at once",
        "requests at once",
        "seconds",
    ]
    less = in_ranges.seconds - start_up
    return "\n".join(
        [
            markdown_table(header, rows),
            "",
            f"start of the workers: {start_up:.1f} s; without it, in ranges takes "
            f"{less:.1f} s, which is {less / in_turn.seconds:.2f} of one worker's time",
        ]
    )
