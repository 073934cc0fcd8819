"""The DAGs of `examples/airflow`, read without Airflow; `tests/scheduling` runs them with it."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

import pytest

from pipeline.options.parser import parse_flags
from tests.conftest import draw
from tests.pipeline.commands import ROOT, arguments, make_dataset
from transforms.storage import files

DAGS = ROOT / "examples" / "airflow"
OURS = ("image_tfrecords_tasks", "image_tfrecords", "image_tfrecords_flex")


class AirflowException(Exception):
    """A failure that Airflow retries."""


class AirflowFailException(AirflowException):
    """A failure that it does not retry."""


class Base:
    """In the place of an operator or a hook: keeps what it is given."""

    def __init__(self, **given: Any) -> None:
        vars(self).update(given)

    def __rshift__(self, other: Any) -> Any:
        return other

    def _init_pipeline_options(self) -> str:
        return "options"


def task_decorator(**options: Any) -> Callable[[Any], Any]:
    """In the place of `@task.external_python`: keeps the options of the task."""

    def decorate(function: Any) -> Any:
        return MagicMock(options=options, function=function)

    return decorate


@pytest.fixture
def dags(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, ModuleType]]:
    """The modules of the folder by name, with stand-ins for the classes of Airflow."""
    sdk = MagicMock(BaseOperator=Base)
    sdk.task.external_python = task_decorator
    beam = "airflow.providers.apache.beam"
    stand_ins: dict[str, Any] = {
        "airflow.sdk": sdk,
        "airflow.sdk.exceptions": MagicMock(
            AirflowException=AirflowException, AirflowFailException=AirflowFailException
        ),
        f"{beam}.hooks.beam": MagicMock(
            BeamHook=Base,
            beam_options_to_args=lambda flags: [f"--{name}={flags[name]}" for name in flags],
        ),
        f"{beam}.operators.beam": MagicMock(BeamRunPythonPipelineOperator=Base),
        "airflow.providers.standard.hooks.subprocess": MagicMock(),
        "airflow.providers.google.cloud.operators.dataflow": MagicMock(),
    }
    for name in stand_ins:
        parts = name.split(".")
        for end in range(1, len(parts)):
            monkeypatch.setitem(sys.modules, ".".join(parts[:end]), MagicMock())
    for name, module in stand_ins.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.syspath_prepend(str(DAGS))
    yield {name: importlib.import_module(name) for name in OURS}
    for name in OURS:
        del sys.modules[name]


def raised_by(run: Callable[[], None]) -> type[Exception] | None:
    """The type of the exception that a task ends with."""
    try:
        run()
    except AirflowException as error:
        return type(error)
    return None


@pytest.mark.parametrize(
    ("code", "ends"),
    [(0, None), (1, AirflowException), (2, AirflowFailException), (3, AirflowFailException)],
)
def test_the_exit_code_decides_whether_a_task_is_retried(
    code: int, ends: type[Exception] | None, dags: dict[str, ModuleType]
) -> None:
    tasks = dags["image_tfrecords_tasks"]
    operator = tasks.PipelineOperator(task_id="plan", command="plan", runner="FnApiRunner")
    operator.process.run_command.return_value = MagicMock(exit_code=code, output="return code 2")
    assert operator._init_pipeline_options() == "options"
    verify = tasks.VerifyOperator(task_id="verify", dataset="/data/2024-01-02")
    command = [operator.py_interpreter, *operator.py_options, operator.py_file]

    assert raised_by(lambda: operator.beam_hook._start_pipeline({"seed": 7}, command)) is ends
    assert raised_by(lambda: verify.execute({})) is ends
    started = [call.args[0] for call in operator.process.run_command.call_args_list]
    assert started == [
        [tasks.PYTHON, "-m", "pipeline.plan", "--runner=FnApiRunner", "--seed=7"],
        [tasks.PYTHON, "-m", "pipeline.verify", "/data/2024-01-02"],
    ]


def test_a_killed_task_ends_its_command(dags: dict[str, ModuleType]) -> None:
    verify = dags["image_tfrecords_tasks"].VerifyOperator(task_id="verify", dataset="/data")
    verify.on_kill()
    verify.process.send_sigterm.assert_called_once_with()


def test_dags_have_tags_time_outs_a_time_zone_and_an_asset(dags: dict[str, ModuleType]) -> None:
    tasks = dags["image_tfrecords_tasks"]
    made = [call.kwargs for call in dags["image_tfrecords"].DAG.call_args_list]
    assert len(made) == 2
    for options in made:
        assert options["tags"][0] == "image-tfrecords" and len(options["tags"]) == 2
        assert options["start_date"].utcoffset() == timedelta(0)
        assert options["dagrun_timeout"] == timedelta(days=1)
        assert options["default_args"] is tasks.DEFAULT_ARGS
        assert options["max_active_runs"] == 1
    assert tasks.DEFAULT_ARGS["execution_timeout"] < timedelta(days=1)
    assert tasks.publish.options["outlets"] == [tasks.DATASET]
    assert tasks.Asset.call_args.kwargs["uri"] == "gs://my-bucket/datasets/images"


def test_the_former_version_is_the_newest_one_before(
    dags: dict[str, ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "read_manifest", lambda path: {"options": {"key": "path"}})
    find = dags["image_tfrecords_tasks"].find_former.function
    base = str(tmp_path / "[versions]")
    assert find(base, "2024-01-02") == {}
    for day in ("2023-12-31", "2024-01-02", "2024-01-05", "2024-02-01", "2024-01-04-test"):
        (tmp_path / "[versions]" / day).mkdir(parents=True)
        (tmp_path / "[versions]" / day / "manifest.json").touch()
        (tmp_path / "[versions]" / day / "labels.txt").write_text("cat\n")
    # An unfinished version.
    (tmp_path / "[versions]" / "2024-01-03").mkdir()
    former = {day: find(base, day) for day in ("2023-12-31", "2024-01-02", "2024-01-04")}
    assert former == {
        "2023-12-31": {},
        "2024-01-02": {name: f"{base}/2023-12-31" for name in ("reuse", "class_names")},
        "2024-01-04": {name: f"{base}/2024-01-02" for name in ("reuse", "class_names")},
    }
    # Integers that labels.txt cannot list are their own ids; without labels there is no file.
    labels = tmp_path / "[versions]" / "2024-01-02" / "labels.txt"
    labels.write_text("")
    assert find(base, "2024-01-04") == {"reuse": f"{base}/2024-01-02"}
    labels.unlink()
    assert find(base, "2024-01-04") == {"reuse": f"{base}/2024-01-02"}


def test_records_of_another_format_are_not_reused(
    dags: dict[str, ModuleType], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    draw(tmp_path / "in" / "cat" / "1.jpg")
    dataset = make_dataset(
        tmp_path / "2024-01-01", images=f"{tmp_path}/in/*/*.jpg", label_from="directory"
    )
    find = dags["image_tfrecords_tasks"].find_former.function
    flags = {"class_names": str(dataset.folder)}
    assert find(str(tmp_path), "2024-01-02") == {**flags, "reuse": str(dataset.folder)}
    manifest = dataset.folder / "manifest.json"
    manifest.write_text(
        re.sub('"format_version": [0-9]+', '"format_version": 99', manifest.read_text())
    )
    capsys.readouterr()
    assert find(str(tmp_path), "2024-01-02") == flags
    assert "no record is reused: " in capsys.readouterr().out


def test_rows_without_images_are_not_reused(dags: dict[str, ModuleType], tmp_path: Path) -> None:
    """`convert` refuses --reuse for any layout of columns alone."""
    layout, table = tmp_path / "columns.yaml", tmp_path / "a.csv"
    layout.write_text("features: {a: csv.a}\n")
    table.write_text("a,b\n1,2\n")
    make_dataset(tmp_path / "2024-01-01", labels=table, layout=layout)
    assert dags["image_tfrecords_tasks"].find_former.function(str(tmp_path), "2024-01-02") == {}


BOTH = {"reuse": "b/1", "class_names": "b/1"}
REUSE = {"reuse": "b/1"}


@pytest.mark.parametrize(
    ("former", "own", "flags"),
    [
        (BOTH, {"seed": 1}, {**BOTH, "new_classes": "append", "seed": 1}),
        (BOTH, {"new_classes": "refuse"}, {**BOTH, "new_classes": "refuse"}),
        (BOTH, {"class_names": None}, {**REUSE, "class_names": None}),
        (BOTH, {"label_from": "none"}, {**REUSE, "label_from": "none"}),
        (BOTH, {"reuse": None}, {**BOTH, "reuse": None, "new_classes": "append"}),
        (REUSE, {"new_classes": "refuse"}, REUSE),
        (BOTH, {"layout": "rows"}, {"layout": "rows"}),
        ({}, {"new_classes": "refuse", "seed": 1}, {"seed": 1}),
        ({}, {"class_names": "a"}, {"class_names": "a"}),
    ],
)
def test_the_version_before_gives_ids_and_records_unless_the_flags_say_otherwise(
    dags: dict[str, ModuleType],
    former: dict[str, str],
    own: dict[str, Any],
    flags: dict[str, Any],
) -> None:
    task = MagicMock(xcom_pull=lambda task_ids: {"find_former": former}[task_ids])
    context = {"params": {"flags": own}, "ti": task}
    assert dags["image_tfrecords"].with_former_version(context) == flags


def test_beam_knows_the_options_of_each_runner(dags: dict[str, ModuleType]) -> None:
    for runner, options in dags["image_tfrecords"].RUNNERS.items():
        given = {"project": "p", "region": "r", "images": "/in/*.jpg", "output": "/out"}
        words = arguments(**options, runner=runner, **given)
        _, beam_flags = parse_flags("convert", words)
        assert {f"--{name}={value}" for name, value in options.items()} <= set(beam_flags)


@pytest.mark.parametrize(
    "path", [ROOT / "docs" / "airflow.md", *sorted(DAGS.glob("*.py"))], ids=lambda path: path.name
)
def test_the_version_of_airflow_is_said_at_the_top(path: Path) -> None:
    assert "Airflow 3" in "".join(path.read_text("utf-8").splitlines()[:3])
