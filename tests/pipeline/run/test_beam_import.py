"""Beam comes without its optional packages where a command needs none of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

# Each imports Beam in a process of its own.
pytestmark = pytest.mark.slow

OPTIONAL = (
    *("pandas", "pyarrow", "pymongo", "google.cloud.storage", "google.cloud.bigquery", "apitools"),
    *("apache_beam.io.gcp.bigquery", "beartype", "google.auth", "requests"),
)


def run(code: str) -> str:
    """What a new process prints; it must not write to standard error."""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


def loaded(arguments: list[str]) -> set[str]:
    """Which optional packages come with Beam for these arguments."""
    out = run(
        "import sys\n"
        "from pipeline.run.beam_import import import_beam\n"
        f"import_beam({arguments!r})\n"
        "import apache_beam\n"
        f"print(*[name for name in {OPTIONAL!r} if name in sys.modules])"
    )
    return set(out.split())


def test_local_files_need_no_optional_package() -> None:
    assert loaded(["--images", "photos/*.jpg", "--output", "out"]) == set()


@pytest.mark.parametrize("url", ["gs://bucket/*.jpg", "s3://bucket/*.jpg"])
def test_a_url_brings_the_cloud_packages(url: str) -> None:
    there = loaded([f"--images={url}"])
    assert "google.cloud.storage" in there
    assert not there & {"beartype", "pandas", "pyarrow", "pymongo"}


def test_what_was_left_out_can_be_imported_afterwards() -> None:
    out = run(
        "import gc, logging\n"
        "from pipeline.run.beam_import import import_beam\n"
        "import_beam([])\n"
        "import pandas, pyarrow, pymongo, google.cloud.storage, apitools, beartype.door\n"
        "import apache_beam.io.gcp.bigquery\n"
        "print(gc.isenabled(), logging.root.isEnabledFor(logging.WARNING))"
    )
    assert out == "True True\n"


def test_beam_still_compares_types() -> None:
    out = run(
        "import sys\n"
        "from typing import Callable\n"
        "from pipeline.run.beam_import import import_beam\n"
        "import_beam([])\n"
        "from apache_beam.typehints.typehints import is_consistent_with\n"
        "from apache_beam.typehints import typehints\n"
        "print(is_consistent_with(bool, int), is_consistent_with(int, str))\n"
        "print(typehints.is_consistent_with(1, 2), 'beartype' in sys.modules)\n"
    )
    assert out.splitlines() == ["True False", "False True"]


def test_a_stage_does_not_wait_for_the_next_sample_of_its_steps() -> None:
    # Joining the thread that samples takes up to one period.
    out = run(
        "from pipeline.run.beam_import import import_beam\n"
        "import_beam([])\n"
        "from apache_beam.runners.worker.statesampler import StateSampler\n"
        "from pipeline.run.beam_import import end_stages_soon\n"
        "print(StateSampler('stage', None).sampling_period_ms)\n"
        "StateSampler.__init__.__defaults__ = (300,)\n"
        "end_stages_soon()\n"
        "print(StateSampler('stage', None).sampling_period_ms)"
    )
    # A Beam with another default is left alone.
    assert out.splitlines() == ["5", "300"]


def test_reading_options_of_beam_does_not_set_up_logging() -> None:
    # With a handler, every warning of a package is a line on stderr next to our own.
    out = run(
        "import logging\n"
        "from pipeline.run.beam_import import import_beam\n"
        "from pipeline.options.parser import parse_flags\n"
        "words = ['--images=i', '--output=o', '--temp_location=t']\n"
        "_, beam_flags = parse_flags('convert', words)\n"
        "import_beam(words, beam_flags)\n"
        "print(beam_flags, logging.root.handlers)"
    )
    assert out == "['--temp_location=t'] []\n"


def test_beam_that_is_imported_stays_as_it_is() -> None:
    out = run(
        "import sys, apache_beam\n"
        "from pipeline.run.beam_import import import_beam\n"
        "before = dict(sys.modules)\n"
        "import_beam([])\n"
        "print(sys.modules == before)"
    )
    assert out == "True\n"


def test_a_conversion_of_local_files_never_loads_pandas_or_tensorflow(tmp_path: Path) -> None:
    """They cost 0.3 s and 3 s of start-up, 25 and 400 MB."""
    (tmp_path / "photos").mkdir()
    Image.new("RGB", (20, 30), "red").save(tmp_path / "photos" / "1.jpg")
    flags = ["--images", f"{tmp_path}/photos/*", "--label_from", "none"]
    flags += ["--output", f"{tmp_path}/out", "--progress", "off"]
    out = run(
        "import sys\n"
        "from pipeline.convert import main\n"
        f"main({flags!r})\n"
        "print(*[name for name in ('pandas', 'tensorflow') if name in sys.modules])"
    )
    assert out.splitlines()[-1] == ""


# Prints how often the method of a step is inspected for two steps, and what is found.
_INSPECTED = """
import apache_beam as beam
from apache_beam.transforms import core
from apache_beam.typehints import decorators
seen = []
class Inspect:
    def __getattr__(self, name):
        return getattr(inspect, name)
    def signature(self, function, *rest, **named):
        seen.append(getattr(function, "__func__", None))
        return inspect.signature(function, *rest, **named)
inspect, decorators.inspect = decorators.inspect, Inspect()
class Mine(beam.DoFn):
    def process(self, element, side=beam.DoFn.WindowParam):
        yield element
pipeline = beam.Pipeline()
elements = pipeline | beam.Create([1])
for name in "ab":
    elements | name >> beam.ParDo(Mine())
print(seen.count(Mine.process), *core.get_function_args_defaults(Mine().process))
"""


def test_methods_of_steps_are_inspected_once_and_as_beam_does_it() -> None:
    """If Beam itself inspects them once, `keep_signatures` can go."""
    kept = "from pipeline.run.beam_import import import_beam\nimport_beam([])\n"
    [alone, found], [once, same] = (run(code + _INSPECTED).split(" ", 1) for code in ("", kept))
    assert int(alone) > 4 and once == "1"
    assert same == found
