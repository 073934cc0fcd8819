"""Wrong flags and inputs: exit code 2 and one line that names them, before anything is done."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.marks import rest_slow
from tests.pipeline.commands import convert, plan, run_process, snapshot
from tests.pipeline.right_command import check_usage, right_flags
from tests.pipeline.wrong_inputs import WRONG_INPUTS
from tests.pipeline.wrong_options import WRONG_OPTIONS

CASES = {**WRONG_INPUTS, **WRONG_OPTIONS}


def filled(text: Any, folder: Path) -> Any:
    """`text` with the folder in its place."""
    if isinstance(text, list):
        return [filled(each, folder) for each in text]
    return text.replace("{in}", str(folder)) if isinstance(text, str) else text


@pytest.fixture(autouse=True)
def _without_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    """Machines differ in what they have installed."""
    for package in ("boto3", "hdfs", "azure.storage.blob"):
        monkeypatch.setitem(sys.modules, package, None)


@pytest.mark.usefixtures("no_run")
@pytest.mark.parametrize("name", CASES)
def test_a_mistake_is_one_line_before_any_work(name: str, right_inputs: Path) -> None:
    case = CASES[name]
    for file, content in case.files.items():
        (right_inputs / file).parent.mkdir(exist_ok=True)
        (right_inputs / file).write_bytes(content)
    flags = {key: filled(value, right_inputs) for key, value in case.flags.items()}
    before = snapshot(right_inputs)
    ran = convert(*case.words, **{**right_flags(right_inputs), **flags})
    assert snapshot(right_inputs) == before
    check_usage(ran, *(filled(part, right_inputs) for part in case.says))


@pytest.mark.usefixtures("no_run")
@pytest.mark.parametrize(
    "name", ["empty_glob", "missing_csv", "unknown_flag", "seed_that_is_too_large"]
)
def test_plan_refuses_the_same(name: str, right_inputs: Path) -> None:
    case = CASES[name]
    flags = {key: filled(value, right_inputs) for key, value in case.flags.items()}
    ran = plan(*case.words, **{**right_flags(right_inputs), **flags})
    assert (ran.code, ran.out) == (2, "")
    assert all(filled(part, right_inputs) in ran.error() for part in case.says)


@pytest.mark.parametrize("name", rest_slow(["missing_folder", "unknown_flag", "output_is_a_file"]))
def test_a_process_ends_with_the_code_and_the_line(name: str, right_inputs: Path) -> None:
    case = CASES[name]
    flags = {key: filled(value, right_inputs) for key, value in case.flags.items()}
    ran = run_process("pipeline.convert", *case.words, **{**right_flags(right_inputs), **flags})
    check_usage(ran, *(filled(part, right_inputs) for part in case.says))
