"""`-v` and `-q`, and colors: what a command prints beside its result."""

import errno
import io
import os
import sys
from pathlib import Path

import pytest

from pipeline.errors import UsageError, emphasized, run_command, show_logs
from pipeline.options.parser import PROGRAM, runnable
from tests.marks import rest_slow
from tests.pipeline.commands import convert, plan, show, verify
from tests.pipeline.right_command import right_flags


class Terminal(io.StringIO):
    """A stream on a terminal."""

    def isatty(self) -> bool:
        return True


def refuse() -> None:
    raise UsageError("no s3://me:secret@bucket") from ValueError("s3://me:secret@bucket")


def test_verbose_shows_where_an_error_comes_from(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(refuse, "convert") == 2
    quiet = capsys.readouterr().err
    assert quiet == "convert: no s3://me:[hidden]@bucket\n"
    show_logs()
    assert run_command(refuse, "convert") == 2
    err = capsys.readouterr().err
    assert err.endswith(quiet) and "Traceback" in err and "ValueError" in err
    assert "secret" not in err


def test_standard_output_that_takes_no_more(capsys: pytest.CaptureFixture[str]) -> None:
    def print_all() -> None:
        raise OSError(errno.EFBIG, "File too large")

    assert run_command(print_all, "diff") == 1
    said = "diff: cannot write: File too large; make room, or raise the limit"
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("flag", rest_slow(["--quiet", "-q"]))
def test_quiet_commands_print_their_final_line(flag: str, right_inputs: Path) -> None:
    flags = {**right_flags(right_inputs), "progress": "auto"}
    assert plan(flag, **flags) == (
        0,
        f"nothing written; convert would write {flags['output']}\n",
        "",
    )
    assert convert(flag, **flags) == (0, f"dataset  {flags['output']}\n", "")
    again = convert(flag, **flags)
    assert again == (0, f"up to date: {flags['output']} holds this dataset already\n", "")
    checked = verify(flag, flags["output"])
    assert checked.code == 0 and checked.err == ""
    assert checked.out == f"verified {flags['output']}: 1 shard, 4 records, every image decodes\n"
    (right_inputs / "out" / "labels.txt").write_text("x")
    ran = verify(flag, flags["output"])
    assert ran.code == 1 and all("labels.txt" in line for line in ran.out.splitlines())


def test_verbose_shows_what_steps_do(right_inputs: Path) -> None:
    ran = convert("-v", **right_flags(right_inputs))
    assert ran.code == 0 and "INFO transforms.write_shards: " in ran.err


def test_quiet_and_verbose_exclude_each_other(right_inputs: Path) -> None:
    ran = convert("-q", "-v", **right_flags(right_inputs))
    assert (ran.code, ran.out) == (2, "")
    says = "convert: --quiet cannot be used with --verbose: give one of them"
    assert ran.err.splitlines()[-1] == says


def test_the_summary_ends_with_the_next_command(
    right_inputs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = right_flags(right_inputs)
    script = program(right_inputs / "bin")
    monkeypatch.setattr(sys, "argv", [str(script)])
    monkeypatch.setenv("PATH", str(script.parent), prepend=os.pathsep)
    for _ in range(2):
        ran = convert(**flags)
        assert ran.out.splitlines()[-1] == f"next     image-tfrecords show {flags['output']}"
    assert show(flags["output"]).code == 0


def program(folder: Path, name: str = PROGRAM) -> Path:
    """A program in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).touch(0o755)
    return folder / name


def test_the_next_command_of_an_environment_that_is_not_active(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["pipeline/convert.py"])
    monkeypatch.setattr(sys, "executable", str(tmp_path / ".venv/bin/python"))
    assert runnable("show", "a b") == ".venv/bin/python -m pipeline.show 'a b'"
    program(tmp_path / ".venv/bin")
    assert runnable("show", "o") == ".venv/bin/image-tfrecords show o"
    monkeypatch.setenv("PATH", str(tmp_path / ".venv/bin"))
    program(tmp_path / ".venv/bin", "python")
    assert runnable("show", "o") == "python -m pipeline.show o"


def test_the_next_command_of_a_script_that_was_started_by_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = program(tmp_path / "its own" / "bin")
    monkeypatch.setattr(sys, "argv", [str(script)])
    monkeypatch.chdir(tmp_path)
    assert runnable("show", "o") == f"'its own/bin/{PROGRAM}' show o"
    monkeypatch.chdir(program(tmp_path / "other").parent)
    assert runnable("show", "o") == f"'{script}' show o"
    monkeypatch.setenv("PATH", str(script.parent), prepend=os.pathsep)
    assert runnable("show", "o") == f"{PROGRAM} show o"


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal that shows colors."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    return Terminal()


@pytest.mark.parametrize("line", ["warning  a split is empty", "leakage  1 group across splits"])
def test_what_needs_attention_is_colored_on_a_terminal(line: str, terminal: Terminal) -> None:
    assert emphasized(line, terminal) == f"\x1b[1;33m{line}\x1b[0m"
    assert emphasized("images   2 matched", terminal) == "images   2 matched"


@pytest.mark.parametrize(
    ("name", "value"), [("TERM", "dumb"), ("NO_COLOR", "1"), ("TERM", "xterm")]
)
def test_nothing_is_colored_where_nobody_wants_it(
    name: str, value: str, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    stream = io.StringIO() if value == "xterm" else terminal
    assert emphasized("warning  a split is empty", stream) == "warning  a split is empty"


def test_an_error_is_colored_on_a_terminal(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", terminal)
    run_command(refuse, "convert")
    assert terminal.getvalue().startswith("\x1b[1;31mconvert\x1b[0m: no s3://")
