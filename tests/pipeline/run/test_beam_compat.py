"""Beam comes without its optional packages where a command needs none; what is replaced in it."""

import subprocess
import sys

import pytest

# Each imports Beam in a process of its own.
pytestmark = pytest.mark.slow

OPTIONAL = (
    *("pandas", "pyarrow", "pymongo", "google.cloud.storage", "google.cloud.bigquery", "apitools"),
    *("apache_beam.io.gcp.bigquery", "beartype", "google.auth", "requests"),
)
IMPORT = "from pipeline.run.beam_compat import import_beam\nimport_beam([])\n"


def run(code: str) -> str:
    """What a new process prints; it must not write to standard error."""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


@pytest.mark.parametrize("images", ["photos/*.jpg", "gs://bucket/*.jpg", "s3://bucket/*.jpg"])
def test_only_a_url_brings_the_cloud_packages(images: str) -> None:
    code = (
        "import sys\nfrom pipeline.run.beam_compat import import_beam\n"
        f"import_beam(['--images={images}', '--output', 'out'])\nimport apache_beam\n"
        f"print(*[name for name in {OPTIONAL!r} if name in sys.modules])"
    )
    there = set(run(code).split())
    if ":" in images:
        assert "google.cloud.storage" in there
        assert not there & {"beartype", "pandas", "pyarrow", "pymongo"}
    else:
        assert there == set()


CODE = {
    "Beam still compares types": (
        "import sys\n"
        "from apache_beam.typehints.typehints import is_consistent_with\n"
        "from apache_beam.typehints import typehints\n"
        "print(is_consistent_with(bool, int), is_consistent_with(int, str))\n"
        "print(typehints.is_consistent_with(1, 2), 'beartype' in sys.modules)\n",
        ["True False", "False True"],
    ),
    # Joining the thread that samples takes up to one period; a Beam with another is left alone.
    "a stage does not wait for the next sample of its steps": (
        "from apache_beam.runners.worker.statesampler import StateSampler\n"
        "from pipeline.run.beam_compat import end_stages_soon\n"
        "print(StateSampler('stage', None).sampling_period_ms)\n"
        "StateSampler.__init__.__defaults__ = (300,)\n"
        "end_stages_soon()\n"
        "print(StateSampler('stage', None).sampling_period_ms)",
        ["5", "300"],
    ),
    # With a handler, every warning of a package is a line on stderr next to our own.
    "reading options of Beam does not set up logging": (
        "import logging\n"
        "from pipeline.options.parser import parse_flags\n"
        "words = ['--images=i', '--output=o', '--temp_location=t']\n"
        "_, beam_flags = parse_flags('convert', words)\n"
        "import_beam(words, beam_flags)\n"
        "print(beam_flags, logging.root.handlers)",
        ["['--temp_location=t'] []"],
    ),
    "what was left out can be imported afterwards": (
        "import gc, logging\n"
        "import pandas, pyarrow, pymongo, google.cloud.storage, apitools, beartype.door\n"
        "import apache_beam.io.gcp.bigquery\n"
        "print(gc.get_threshold()[0], logging.root.isEnabledFor(logging.WARNING))",
        ["10000 True"],
    ),
}


def test_an_imported_beam_works() -> None:
    """One process does all of it, in this order."""
    printed = [line for _, lines in CODE.values() for line in lines]
    assert run(IMPORT + "\n".join(code for code, _ in CODE.values())).splitlines() == printed


def test_beam_that_is_imported_stays_as_it_is() -> None:
    start, call = IMPORT.splitlines()
    code = [start, "import sys, apache_beam", "before = dict(sys.modules)", call]
    assert run("\n".join([*code, "print(sys.modules == before)"])) == "True\n"


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
    [alone, found], [once, same] = (run(code + _INSPECTED).split(" ", 1) for code in ("", IMPORT))
    assert int(alone) > 4 and once == "1"
    assert same == found
