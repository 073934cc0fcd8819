"""Measures reading objects behind latency: `python benchmarks/latency.py`.

A Google Cloud Storage server runs on loopback behind a link that delivers every request late.
The product's read-ahead, with its whole check, reads against plain Beam, which opens one object
after the other. The link counts the requests.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from report import markdown_table, round_numbers, spread
from slow_link import Link, slow_link

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.servers.gcs import HOST, GcsServer, serve_gcs

if TYPE_CHECKING:
    from transforms.core.records import PlannedImage

_BUCKET = "photos"


class Reading(NamedTuple):
    """One pass over the objects.

    Attributes:
        seconds: wall time.
        objects: how many were read.
        requests: for each object, as the link counted them.
    """

    seconds: float
    objects: int
    requests: float

    @property
    def rate(self) -> float:
        """Objects a second."""
        return self.objects / self.seconds


def fill_bucket(server: GcsServer, count: int) -> list[PlannedImage]:
    """Uploads JPEGs of a few kilobytes, and returns their plan."""
    import io

    from PIL import Image

    from transforms.core.records import PlannedImage

    server.make_bucket(_BUCKET)
    planned = []
    for number in range(count):
        buffer = io.BytesIO()
        Image.effect_noise((64, 64), 20 + number % 50).save(buffer, "JPEG")
        name = f"{number:06d}.jpg"
        generation = server.put(_BUCKET, name, buffer.getvalue())
        planned.append(PlannedImage(number, name, name, len(buffer.getvalue()), generation, "", 0))
    return planned


@contextmanager
def measured(link: Link, objects: int) -> Iterator[list[Reading]]:
    """Times a block and counts its requests into the list."""
    taken: list[Reading] = []
    before = link.requests()
    start = time.perf_counter()
    yield taken
    seconds = time.perf_counter() - start
    taken.append(Reading(seconds, objects, (link.requests() - before) / objects))


def read_ahead(link: Link, planned: Sequence[PlannedImage]) -> Reading:
    """Reads and checks all images as a shard does."""
    from transforms.convert_images import ImageConverter
    from transforms.images.checked_images import CheckedImage
    from transforms.images.pixel_options import CheckOptions
    from transforms.records.image_origins import Origins

    converter = ImageConverter(
        origins=Origins(f"gs://{_BUCKET}"),
        features=(),
        checks=CheckOptions(max_pixels=10**8, max_bytes=10**8, dedupe="off"),
    )
    converter.setup()
    with measured(link, len(planned)) as taken:
        results = list(converter.load(planned))
    assert all(isinstance(result, CheckedImage) for result in results)
    return taken[0]


def read_plain(link: Link, planned: Sequence[PlannedImage]) -> Reading:
    """Reads one object after the other, as a DoFn with `FileSystems.open` does."""
    from apache_beam.io.filesystems import FileSystems

    with measured(link, len(planned)) as taken:
        for image in planned:
            with FileSystems.open(f"gs://{_BUCKET}/{image.path}") as file:
                assert len(file.read()) == image.size
    return taken[0]


def run_rounds(args: argparse.Namespace) -> tuple[list[Reading], list[Reading]]:
    """Both readers in turn; the first round, which also imports and connects, is not counted."""
    ours: list[Reading] = []
    beam: list[Reading] = []
    with tempfile.TemporaryDirectory() as folder, serve_gcs(Path(folder)) as server:
        planned = fill_bucket(server, args.count)
        with slow_link(args.latency_ms, server.upstream_port) as link:
            here = {"STORAGE_EMULATOR_HOST": f"http://{HOST}:{link.port}"}
            server.set_external_url(here["STORAGE_EMULATOR_HOST"])
            os.environ.update(server.environment | here)
            for number in round_numbers(args.rounds):
                one = read_ahead(link, planned)
                other = read_plain(link, planned[: args.plain])
                if number:
                    ours.append(one)
                    beam.append(other)
    return ours, beam


def main(argv: Sequence[str] | None = None) -> int:
    """Prints both rates and what the width of the read-ahead allows."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--count", type=int, default=1000, help="objects (1000)")
    parser.add_argument("--plain", type=int, default=200, help="of them for plain Beam (200)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds that count (3)")
    parser.add_argument("--latency_ms", type=int, default=30, help="of every request (30)")
    args = parser.parse_args(argv)
    if min(args.count, args.plain, args.rounds, args.latency_ms) < 1:
        parser.error("all of them start at 1")
    ours, beam = run_rounds(args)
    from transforms.storage.interface import READERS

    rows = []
    for name, readings in (("read-ahead, checked", ours), ("FileSystems.open in turn", beam)):
        low, middle, high = spread([reading.rate for reading in readings])
        row = [name, f"{middle:.0f}", f"{low:.0f} to {high:.0f}", f"{readings[0].requests:.2f}"]
        rows.append(row)
    header = ["", "objects/s", "lowest to highest", "requests an object"]
    print(
        f"{args.count} objects, {args.latency_ms} ms a request\n\n{markdown_table(header, rows)}\n"
    )
    ratios = [one.rate / other.rate for one, other in zip(ours, beam, strict=True)]
    allowed = READERS / (args.latency_ms / 1000)
    share = spread([one.rate / allowed for one in ours])[1]
    print(f"times as fast as plain Beam: {spread(ratios)[1]:.1f} (wanted: at least 10)")
    print(f"share of what {READERS} readers allow: {share:.2f} (wanted: at least 0.8)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
