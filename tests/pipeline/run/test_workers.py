"""A local run gets as many worker processes as it can use, and says so."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam import coders
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions, S3Options
from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.runners.portability.fn_api_runner.execution import GroupingBuffer
from apache_beam.runners.worker import sdk_worker_main
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import GlobalWindows
from google.protobuf import json_format

import pipeline
from pipeline.resolve.samples import JobSize, sample_images
from pipeline.run import beam_import, launch, supervise
from pipeline.run import launch as workers_of
from pipeline.run.launch import (
    choose_workers,
    decide_workers,
    machine_shared,
    runner_with,
    show_warnings,
)
from tests.conftest import draw
from tests.pipeline.commands import convert, make_dataset
from tests.transforms.beam import make_config
from transforms.core.machine import PROCESSES_VARIABLE
from transforms.images.embeddings import Embedding
from transforms.input_readers import LeftOut
from transforms.records import other_datasets as read_base

GB = 1 << 30
LARGE = JobSize(20_000, 0)


@pytest.fixture
def roomy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large machine."""
    monkeypatch.setattr(workers_of, "usable_cores", lambda: 32)
    monkeypatch.setattr(workers_of, "usable_memory", lambda: 256 * GB)


@pytest.mark.parametrize(
    ("size", "cores", "memory", "shards", "workers"),
    [
        pytest.param(LARGE, 7, 256, None, 1, id="few cores"),
        pytest.param(LARGE, 8, 256, None, 2, id="8 cores"),
        pytest.param(LARGE, 32, 256, None, 8, id="32 cores"),
        pytest.param(LARGE, 96, None, None, 24, id="96 cores, memory unknown"),
        pytest.param(JobSize(19_999, 10**9, True), 32, 256, None, 1, id="few images"),
        pytest.param(JobSize(500, 4 * 10**9, True), 32, 256, 27, 7, id="large files"),
        pytest.param(LARGE, 96, 4, None, 4, id="memory of a container"),
        pytest.param(LARGE, 96, 0, None, 1, id="no memory"),
        pytest.param(LARGE, 32, 256, 3, 3, id="fewer shards"),
        pytest.param(LARGE, 32, 256, 9, 5, id="two turns, of five and four shards"),
        pytest.param(LARGE, 32, 256, 1, 1, id="one shard"),
        pytest.param(LARGE, 32, 256, 1000, 8, id="many shards"),
    ],
)
def test_workers_for_a_job(
    size: JobSize, cores: int, memory: int | None, shards: int | None, workers: int
) -> None:
    usable = None if memory is None else memory * GB
    assert choose_workers(size, cores, usable, shards=shards) == workers


MODEL = Embedding("EfficientNetB0", None, "float32", ("", ""), (224, 224, 3), (1280,))


@pytest.mark.usefixtures("roomy")
@pytest.mark.parametrize(
    ("changes", "words", "is_finished", "workers"),
    [
        pytest.param({"sampled": LARGE}, [], False, 8, id="large"),
        pytest.param({"sampled": LARGE, "num_shards": 3}, [], False, 3, id="three shards"),
        pytest.param({"sampled": LARGE}, [], True, 1, id="finished"),
        pytest.param({"sampled": LARGE, "of_rows": True}, [], False, 1, id="rows"),
        pytest.param({"sampled": LARGE, "embedding": MODEL}, [], False, 1, id="model"),
        pytest.param({"sampled": LARGE}, ["--runner=DirectRunner"], False, 1, id="runner"),
        pytest.param({"sampled": LARGE}, ["--direct-num-workers", "2"], False, 1, id="Beam's"),
        pytest.param({"sampled": LARGE}, ["--job_name=a"], False, 8, id="other flags of Beam"),
        pytest.param({"sampled": JobSize(10, 10, True)}, [], False, 1, id="small"),
        pytest.param({"sampled": LARGE, "workers": 1}, [], False, 1, id="--workers 1"),
        pytest.param({"workers": 3}, [], True, 3, id="--workers 3"),
    ],
)
def test_workers_of_a_run(
    changes: dict[str, Any], words: list[str], is_finished: bool, workers: int
) -> None:
    config = make_config(Path("in"), Path("out"), **{"num_shards": None, **changes})
    processes, decisions = decide_workers(config, words, is_finished=is_finished)
    assert processes == workers
    # Defaults are reported.
    assert bool(decisions) == (workers > 1 and config.workers is None)


@pytest.mark.usefixtures("roomy")
def test_the_decision_names_its_evidence() -> None:
    config = make_config(Path("in"), Path("out"), num_shards=None, sampled=LARGE)
    _, [decision] = decide_workers(config, [], is_finished=False)
    assert decision == (
        *("workers", "8 processes"),
        *("at least 20,000 images; 4 of 32 cores for each", "--workers"),
    )


def test_convert_prints_its_workers_and_records_nothing_of_them(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, started = launch._convert, []

    def convert_here(*args: Any, workers: int, **named: Any) -> Any:
        started.append(workers)
        return original(*args, workers=1, **named)

    monkeypatch.setattr(launch, "_convert", convert_here)
    monkeypatch.setattr(workers_of, "usable_cores", lambda: 8)
    monkeypatch.setattr(workers_of, "_WORTH_SECONDS", 0.0)
    ran = convert(images=f"{photos}/*/*.jpg", num_shards=2, output=tmp_path / "out")
    assert (ran.code, started) == (0, [2])
    line = "  workers        2 processes          18 images; 4 of 8 cores for each [--workers]"
    assert line in ran.out.splitlines()
    assert "workers" not in (tmp_path / "out" / "manifest.json").read_text()


@pytest.mark.usefixtures("roomy")
def test_a_csv_that_lists_images_counts_by_its_size(tmp_path: Path) -> None:
    lists = tmp_path / "labels.csv"
    rows = {"images": (), "csv_paths": (str(lists),)}
    config = make_config(tmp_path, tmp_path / "out", num_shards=None, **rows)
    for size, workers in ((1_000_000, 1), (1_300_000, 8)):
        lists.write_bytes(b"x" * size)
        processes, _ = decide_workers(config, [], is_finished=False)
        assert processes == workers


def test_a_sample_has_the_size_of_its_files(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.jpg" for number in range(3)]
    for seed, path in enumerate(paths):
        draw(path, seed=seed)
    sample = sample_images([f"{tmp_path}/*.jpg"], str(tmp_path), LeftOut())
    assert sample.size == JobSize(3, sum(path.stat().st_size for path in paths), True)


def test_processes_know_how_many_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    beams = ["--direct_num_workers=3", "--direct_running_mode=multi_processing"]
    threads = ["--direct_num_workers=3", "--direct_running_mode=multi_threading"]
    for words, workers, expected in (
        ([], 4, "4"),
        ([], 1, "1"),
        (beams, 1, "3"),
        (threads, 1, "1"),
    ):
        monkeypatch.setenv(PROCESSES_VARIABLE, "7")
        with machine_shared(PipelineOptions(words), workers):
            assert os.environ[PROCESSES_VARIABLE] == expected
        assert os.environ[PROCESSES_VARIABLE] == "7"
        monkeypatch.delenv(PROCESSES_VARIABLE)
        with machine_shared(PipelineOptions(words), workers):
            pass
        assert PROCESSES_VARIABLE not in os.environ


def test_workers_import_what_their_launcher_did(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beam_import, "_left_out", ["pandas", "google.cloud"])
    command = runner_with(PipelineOptions([]))._default_environment.command_string
    assert command.endswith(" -m pipeline.run.beam_import pandas google.cloud")
    assert command.startswith("exec ")


def test_workers_get_the_options_of_the_run() -> None:
    """Beam's own get none: they found no `s3://` at another endpoint."""
    options = PipelineOptions(["--s3_endpoint_url=http://minio", "--direct_num_workers=2"])
    given = runner_with(options)._provision_info.provision_info.pipeline_options
    there = sdk_worker_main._parse_pipeline_options(json_format.MessageToJson(given))
    assert there.view_as(S3Options).s3_endpoint_url == "http://minio"
    assert there.view_as(DirectOptions).direct_num_workers == 2


@pytest.mark.parametrize(("shards", "workers"), [(8, 4), (9, 5), (3, 2)])
def test_beam_deals_shards_out_to_workers_in_turn(shards: int, workers: int) -> None:
    """However few they are: the speed of several processes depends on it."""
    key, value = coders.StrUtf8Coder(), coders.VarIntCoder()
    window = GlobalWindows().get_window_coder()
    before = coders.WindowedValueCoder(coders.TupleCoder((key, value)), window)
    after = coders.WindowedValueCoder(coders.TupleCoder((key, coders.IterableCoder(value))), window)
    buffer = GroupingBuffer(before, after, Windowing(GlobalWindows()))
    for number in range(100 * shards):
        element = GlobalWindows.windowed_value((f"shard {number % shards}", number))
        buffer.append(before.encode(element))
    dealt = [b"".join(part).count(b"shard") for part in buffer.partition(workers)]
    assert sum(dealt) == shards and max(dealt) == -(-shards // workers)


def test_a_crash_of_a_worker_ends_the_launcher_likewise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its parent then continues without the image, as after its own crash."""
    sent: list[int] = []
    monkeypatch.setenv(supervise.RUN_VARIABLE, "of no process")
    monkeypatch.setattr(supervise.os, "kill", lambda _, number: sent.append(number))
    monkeypatch.setattr(supervise.resource, "setrlimit", lambda *_: None)
    for code in (-signal.SIGSEGV, 128 + signal.SIGABRT, -signal.SIGKILL, 137, 1, 0):
        supervise._end_likewise(f"Worker subprocess exited with return code {code}")
    supervise._end_likewise("no code")
    assert sent == [signal.SIGSEGV, signal.SIGABRT]


def entry(message: str, module: str, severity: str = "WARN") -> Any:
    return beam_fn_api_pb2.LogEntry(
        severity=getattr(beam_fn_api_pb2.LogEntry.Severity, severity),
        message=message,
        log_location=f"{module}:7",
    )


def test_our_warnings_are_shown_once(caplog: pytest.LogCaptureFixture) -> None:
    bundles = [
        beam_fn_api_pb2.LogEntry.List(log_entries=entries)
        for entries in (
            [entry("damaged", read_base.__file__)],
            [
                # Of another process.
                entry("damaged", read_base.__file__),
                entry("gone", pipeline.__file__, "ERROR"),
                entry("written", read_base.__file__, "INFO"),
                entry("Beam's", beam.transforms.core.__file__),
            ],
        )
    ]
    assert list(show_warnings(bundles, set())) == bundles
    assert caplog.messages == ["damaged", "gone"]


@pytest.mark.slow
def test_a_warning_of_a_worker_reaches_the_user(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(4):
        draw(tmp_path / "in" / f"{number}.jpg", seed=number)
    flags = {"images": f"{tmp_path}/in/*.jpg", "label_from": "none"}
    base = make_dataset(tmp_path / "base", **flags)
    shard = base.folder / base.shards()[0]
    data = bytearray(shard.read_bytes())
    data[300] ^= 1
    shard.write_bytes(data)
    for name in ("one", "two"):
        make_dataset(tmp_path / name, reuse=base.folder, workers=2, num_shards=2, **flags)
        [line] = caplog.messages
        assert line.startswith(f"originals are read instead of some records of {shard}: ")
        caplog.clear()
