"""The faults of `planted_faults.txt` can be planted."""

import sys

import pytest

from tests.planted_faults import TABLE, Fault, FaultError, main, paths_of, plant, read_faults

TEXT = """\
A table.

@ planning | join_group | test_joins.py test_keys.py::test_x | two | labels
- a line
-     and another
+ a fault

@ runs (slow) | - | test_killed.py | a file is lost
- a line
+"""


def test_the_table_is_read() -> None:
    tests = ("test_joins.py", "test_keys.py::test_x")
    lines = "a line\n    and another", "a fault"
    assert list(read_faults(TEXT)) == [
        Fault("planning", "join_group", tests, "two | labels", *lines, is_slow=False),
        Fault("runs", "-", ("test_killed.py",), "a file is lost", "a line", "", is_slow=True),
    ]


def test_a_text_that_no_fault_has_runs_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["planted_faults", "--only", "no such fault"])
    assert main() == 2
    assert capsys.readouterr().err.startswith("no fault has 'no such fault' in its header")


def test_each_fault_has_its_line_and_its_tests() -> None:
    """After lines, functions or test modules were renamed, the table is to be corrected."""
    faults = list(read_faults(TABLE.read_text()))
    problems = []
    for fault in faults:
        try:
            plant(fault)
            paths_of(fault.tests)
            assert fault.fault != fault.line
        except FaultError as error:
            problems.append(f"{fault.subject}: {error}")
    assert len(faults) >= 120
    assert problems == []
