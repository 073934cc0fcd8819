"""What a run starts with on this machine: its worker processes, Beam's options and buffers."""

import os
import pickle
import runpy
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import (
    DirectOptions,
    GoogleCloudOptions,
    PipelineOptions,
    S3Options,
    StandardOptions,
    TypeOptions,
)
from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.runners.portability.fn_api_runner import FnApiRunner, worker_handlers
from apache_beam.runners.worker import data_plane, sdk_worker_main
from google.protobuf import json_format

import pipeline
from pipeline.errors import DatasetError, UsageError
from pipeline.resolve.samples import JobSize, sample_images
from pipeline.run import beam_compat, launch, supervise
from pipeline.run.launch import (
    JobOptions,
    choose_workers,
    decide_workers,
    machine_shared,
    make_buffers_sound,
    run_pipeline,
    runner_with,
)
from tests.conftest import draw
from tests.marks import cases, rest_slow
from tests.pipeline.commands import (
    ROOT,
    arguments,
    check_ended,
    convert,
    make_dataset,
    plan,
    run_process,
)
from tests.transforms.beam import make_config
from transforms.core.machine import PROCESSES_VARIABLE
from transforms.examples.layouts import Embedding
from transforms.input_readers import LeftOut
from transforms.records import other_datasets as read_base

# As many worker processes as a run can use.

GB = 1 << 30
LARGE = JobSize(20_000, 0)


@pytest.fixture
def roomy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large machine."""
    monkeypatch.setattr(launch, "usable_cores", lambda: 32)
    monkeypatch.setattr(launch, "usable_memory", lambda: 256 * GB)


@cases(
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
    pytest.param(JobSize(20_000, 20_000 * 4096), 2, 256, 8, 2, id="small images"),
    pytest.param(JobSize(20_000, 20_000 * 4097), 2, 256, 8, 1, id="larger ones"),
    pytest.param(JobSize(20_000, 1), 2, 256, None, 1, id="perhaps one shard"),
    pytest.param(LARGE, 32, 256, 1000, 8, id="many shards"),
)
def test_workers_for_a_job(
    size: JobSize, cores: int, memory: int | None, shards: int | None, workers: int
) -> None:
    usable = None if memory is None else memory * GB
    assert choose_workers(size, cores, usable, shards=shards) == workers


MODEL = Embedding("EfficientNetB0", None, "float32", ("", ""), (224, 224, 3), (1280,))


@pytest.mark.usefixtures("roomy")
@cases(
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
)
def test_workers_of_a_run(
    changes: dict[str, Any], words: list[str], is_finished: bool, workers: int
) -> None:
    config = make_config(Path("in"), Path("out"), **{"num_shards": None, **changes})
    processes, decisions = decide_workers(config, words, is_finished=is_finished)
    assert processes == workers
    # Defaults are reported with their evidence.
    assert bool(decisions) == (workers > 1 and config.workers is None)
    if workers == 8:
        because = "at least 20,000 images; 4 of 32 cores for each"
        assert [*decisions] == [("workers", "8 processes", because, "--workers")]


def test_convert_prints_its_workers_and_records_nothing_of_them(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, started = launch._convert, []

    def convert_here(*args: Any, workers: int, **named: Any) -> Any:
        started.append(workers)
        return original(*args, workers=1, **named)

    monkeypatch.setattr(launch, "_convert", convert_here)
    monkeypatch.setattr(launch, "usable_cores", lambda: 8)
    monkeypatch.setattr(launch, "_WORTH_SECONDS", 0.0)
    ran = convert(images=f"{photos}/*/*.jpg", num_shards=2, output=tmp_path / "out")
    line = "  workers        2 processes          18 images; 4 of 8 cores for each [--workers]\n"
    check_ended(ran, 0, line)
    assert started == [2]
    assert "workers" not in (tmp_path / "out" / "manifest.json").read_text()


@pytest.mark.usefixtures("roomy")
@pytest.mark.parametrize(("size", "workers"), [(1_000_000, 1), (1_300_000, 8)])
def test_a_csv_that_lists_images_counts_by_its_size(
    size: int, workers: int, tmp_path: Path
) -> None:
    (tmp_path / "labels.csv").write_bytes(b"x" * size)
    rows = {"images": (), "csv_paths": (f"{tmp_path}/labels.csv",), "num_shards": None}
    config = make_config(tmp_path, tmp_path / "out", **rows)
    assert decide_workers(config, [], is_finished=False)[0] == workers


def test_a_sample_has_the_size_of_its_files(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.jpg" for number in range(3)]
    for seed, path in enumerate(paths):
        draw(path, seed=seed)
    sample = sample_images([f"{tmp_path}/*.jpg"], str(tmp_path), LeftOut())
    assert sample.size == JobSize(3, sum(path.stat().st_size for path in paths), True)


@pytest.mark.parametrize(
    ("mode", "workers", "expected"),
    [("", 4, "4"), ("", 1, "1"), ("multi_processing", 1, "3"), ("multi_threading", 1, "1")],
)
def test_processes_know_how_many_they_are(
    mode: str, workers: int, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["--direct_num_workers=3", f"--direct_running_mode={mode}"] if mode else []
    monkeypatch.setenv(PROCESSES_VARIABLE, "7")
    with machine_shared(PipelineOptions(words), workers):
        assert os.environ[PROCESSES_VARIABLE] == expected
    assert os.environ[PROCESSES_VARIABLE] == "7"
    monkeypatch.delenv(PROCESSES_VARIABLE)
    with machine_shared(PipelineOptions(words), workers):
        pass
    assert PROCESSES_VARIABLE not in os.environ


def test_workers_import_what_their_launcher_did(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beam_compat, "_left_out", ["pandas", "google.cloud"])
    command = runner_with(PipelineOptions([]))._default_environment.command_string
    assert command.startswith("exec ")
    assert command.endswith(" -m pipeline.run.beam_compat pandas google.cloud")


def test_workers_get_the_options_of_the_run() -> None:
    """Beam's own get none: they found no `s3://` at another endpoint."""
    options = PipelineOptions(["--s3_endpoint_url=http://minio", "--direct_num_workers=2"])
    given = runner_with(options)._provision_info.provision_info.pipeline_options
    there = sdk_worker_main._parse_pipeline_options(json_format.MessageToJson(given))
    assert there.view_as(S3Options).s3_endpoint_url == "http://minio"
    assert there.view_as(DirectOptions).direct_num_workers == 2


# What workers say, and how they end.


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


@cases(
    # The text is that of Beam's data plane, in whatever error it is wrapped.
    ("Channel closed prematurely.", DatasetError, "^a worker process on this machine was killed"
     ".*; kept$"),
    ("a bug", ValueError, "^a bundle failed$"),
)  # fmt: skip
def test_a_worker_that_was_killed_is_one_line(
    cause: str, raised: type[Exception], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise ValueError("a bundle failed") from RuntimeError(cause)

    monkeypatch.setattr(FnApiRunner, "run_pipeline", fail)
    with pytest.raises(raised, match=says):
        run_pipeline(lambda _: None, (), progress="off", left="kept")


def entry(message: str, module: str, severity: str = "WARN") -> Any:
    level, place = getattr(beam_fn_api_pb2.LogEntry.Severity, severity), f"{module}:7"
    return beam_fn_api_pb2.LogEntry(severity=level, message=message, log_location=place)


def test_our_warnings_are_shown_once(caplog: pytest.LogCaptureFixture) -> None:
    damaged = entry("damaged", read_base.__file__)
    of_another_process = [
        damaged,
        entry("gone", pipeline.__file__, "ERROR"),
        entry("written", read_base.__file__, "INFO"),
        entry("Beam's", beam.transforms.core.__file__),
    ]
    bundles = [
        beam_fn_api_pb2.LogEntry.List(log_entries=entries)
        for entries in ([damaged], of_another_process)
    ]
    assert list(beam_compat.show_warnings(bundles, set())) == bundles
    assert caplog.messages == ["damaged", "gone"]


@pytest.fixture
def four(tmp_path: Path) -> dict[str, Any]:
    """Flags for four images."""
    for number in range(4):
        draw(tmp_path / "in" / f"{number}.jpg", seed=number)
    return {"images": f"{tmp_path}/in/*.jpg", "label_from": "none"}


@pytest.mark.slow
def test_a_known_error_of_a_worker_is_one_line(four: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "in" / "bad.jpg").write_bytes(b"no image")
    flags = {**four, "num_shards": 2, "workers": 2, "max_rejected": 0, "output": tmp_path / "out"}
    ran = run_process("pipeline.convert", **flags)
    said = "convert: 1 of 5 images rejected, more than --max_rejected (0)"
    assert ran.code == 3 and ran.error().startswith(said)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_warning_is_a_line_without_its_module(
    workers: int, four: dict[str, Any], tmp_path: Path
) -> None:
    base = make_dataset(tmp_path / "base", **four).folder
    index = base / "index" / "train-00000-of-00001.parquet"
    index.write_bytes(index.read_bytes()[:-1])
    flags = {**four, "output": tmp_path / "out", "workers": workers, "reuse": base}
    ran = run_process("pipeline.convert", **flags)
    said = f"--reuse {base} is not used further: {index} was changed since the dataset was written"
    assert (ran.code, ran.error()) == (0, said)


# Beam's options: views are made once, and share their values.

FLAGS = ["--runner=FnApiRunner", "--project=p", "--labels=a=b", "--labels=c=d"]


def test_values_of_a_job_are_those_of_beams_options() -> None:
    options, beams = JobOptions(FLAGS), PipelineOptions(FLAGS)
    for kind in (StandardOptions, GoogleCloudOptions, TypeOptions):
        values, expected = (each.view_as(kind)._visible_options for each in (options, beams))
        assert vars(values) == vars(expected)
    assert options.get_all_options() == beams.get_all_options()


def test_views_and_copies_share_their_values() -> None:
    options = JobOptions(FLAGS)
    options.view_as(StandardOptions).runner = "other"
    assert options.view_as(TypeOptions).view_as(StandardOptions).runner == "other"
    copy = pickle.loads(pickle.dumps(options))
    assert copy.view_as(StandardOptions).runner == "other"
    assert copy.view_as(GoogleCloudOptions).labels == ["a=b", "c=d"]


# No element is lost between runner and workers: Beam's buffers with a timer lose some.

LOCAL_MODES = {
    "in process": [],
    "threads": ["--direct_num_workers=2", "--direct_running_mode=multi_threading"],
    "processes": ["--direct_num_workers=2", "--direct_running_mode=multi_processing"],
}


@pytest.mark.parametrize("mode", rest_slow(["in process", "threads"]))
def test_no_local_mode_flushes_by_a_timer(
    mode: str, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[type] = []

    def noting(init: Callable[..., None]) -> Callable[..., None]:
        def init_and_note(self: Any, *args: Any, **named: Any) -> None:
            made.append(type(self))
            init(self, *args, **named)

        return init_and_note

    for kind in ("Time", "Size"):
        buffer = getattr(data_plane, f"{kind}BasedBufferingClosableOutputStream")
        monkeypatch.setattr(buffer, "__init__", noting(buffer.__init__))
    monkeypatch.setattr(worker_handlers, "DATA_BUFFER_TIME_LIMIT_MS", 1000)
    images, output = f"{photos}/*/*", tmp_path / "out"
    ran = plan(*LOCAL_MODES[mode], images=images, label_from="directory", output=output)
    assert ran.code == 0, ran.err
    assert set(made) == {data_plane.SizeBasedBufferingClosableOutputStream}


@cases(
    ["--experiments=data_buffer_time_limit_ms=200"],
    ["--experiments=use_runner_v2,data_buffer_time_limit_ms=1"],
    ["--experiments=a", "--experiments=data_buffer_time_limit_ms=1"],
    ["--environment_config=state_cache_size=1,data_buffer_time_limit_ms=1"],
)
def test_a_timer_is_refused(words: list[str]) -> None:
    with pytest.raises(UsageError, match="data_buffer_time_limit_ms=.* is refused"):
        make_buffers_sound(PipelineOptions(words))


@cases(
    [],
    ["--experiments=data_buffer_time_limit_ms=0"],
    ["--experiments=use_runner_v2"],
    ["--environment_config=localhost:50000"],
)
def test_a_limit_of_zero_is_none(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_handlers, "DATA_BUFFER_TIME_LIMIT_MS", 1000)
    make_buffers_sound(PipelineOptions(words))
    assert worker_handlers.DATA_BUFFER_TIME_LIMIT_MS == 0


def test_beam_still_loses_what_a_timer_flushes(monkeypatch: pytest.MonkeyPatch) -> None:
    """When this fails, Beam is fixed: `flush_buffers_by_size` and its page can go."""
    script = runpy.run_path(str(ROOT / "docs" / "development" / "beam_data_buffer.py"))
    monkeypatch.setitem(script["lost_bytes"].__globals__, "RECORDS", 200_000)
    assert script["lost_bytes"](0) == 0
    assert script["lost_bytes"](1) > 0


# Its timer would fire all the time; noise that is read as a length must not take all memory.
START = """
from apache_beam.runners.portability.fn_api_runner import worker_handlers as handlers
import pipeline.plan, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
handlers.DATA_BUFFER_TIME_LIMIT_MS = 1
pipeline.plan.main(sys.argv[1:])
"""


@pytest.mark.slow
def test_many_names_pass_all_limits(tmp_path: Path) -> None:
    """More than the 10 MB of a buffer."""
    names = 60_000
    (tmp_path / "photo.jpg").write_bytes(b"x")
    rows = (f"{number:0200},cat\n" for number in range(names))
    (tmp_path / "labels.csv").write_text("id,label\nphoto,cat\n" + "".join(rows))
    given = {"images": tmp_path / "*.jpg", "labels": tmp_path / "labels.csv"}
    flags = arguments(output=tmp_path / "out", **given)
    command = [sys.executable, "-c", START, *LOCAL_MODES["processes"], *flags]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    said = f"{names + 1} read = 1 used + 0 repeated + {names} without an image + 0 rejected"
    assert said in done.stdout
