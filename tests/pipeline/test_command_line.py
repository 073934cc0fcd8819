"""The program `image-tfrecords`: the same commands as `python -m pipeline.X`, from any folder."""

from __future__ import annotations

import ast
import email.message
import importlib
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import shtab

from pipeline import __version__, command_line
from pipeline.command_line import COMMANDS
from pipeline.options import config_file
from pipeline.options import parser as one_line_parser
from pipeline.options import parser as options
from pipeline.options.parser import documentation
from tests.pipeline.commands import ROOT, Ran, arguments, make_dataset
from tests.pipeline.right_command import right_flags, write_inputs

# The program `image-tfrecords`: the same commands as `python -m pipeline.X`, from any folder.

# What `pip install` makes of the entry point.
SCRIPT = """import sys
from pipeline.command_line import main
if __name__ == "__main__":
    sys.exit(main())
"""


def program(folder: Path, *words: str, cwd: Path, python: tuple[str, ...] = ()) -> Ran:
    """Runs the installed script in a process, in a folder."""
    script = folder / "bin" / "image-tfrecords"
    script.parent.mkdir(exist_ok=True)
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, *python, str(script), *words],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def call(words: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    """Runs the program in this process."""
    monkeypatch.setattr(sys, "argv", ["/bin/image-tfrecords", *words])
    monkeypatch.setenv("PYTHONSAFEPATH", "1")
    return command_line.main()


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"]])
def test_help_lists_the_commands(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(words, monkeypatch) == 0
    lines = capsys.readouterr().out.splitlines()
    about, usage = lines[:2], lines[3]
    assert all(about) and lines[2] == ""
    assert usage == "usage: image-tfrecords COMMAND [FLAGS]"
    listed = [line.split()[0] for line in lines if line.startswith("  ")]
    assert listed == [*COMMANDS]
    assert lines[-1] == f"Documentation: {documentation()}"
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command(
    name: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command_line, "supervise", lambda run: run())
    shown = []
    for words in (["help", name], [name, "--help"]):
        with pytest.raises(SystemExit) as ended:
            call(words, monkeypatch)
        assert ended.value.code == 0
        shown.append(capfd.readouterr().out)
    assert shown[0] == shown[1] and shown[0].startswith(f"usage: image-tfrecords {name}")


def test_help_alone_and_of_an_unknown_command(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert call(["help"], monkeypatch) == 0
    assert "usage: image-tfrecords COMMAND [FLAGS]" in capfd.readouterr().out
    assert call(["help", "shwo"], monkeypatch) == 2
    assert "did you mean show?" in capfd.readouterr().err


@pytest.mark.parametrize("name", ["convert", "plan"])
def test_no_flags_at_all_are_answered_with_the_usage(
    name: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command_line, "supervise", lambda run: run())
    assert call([name], monkeypatch) == 2
    [line] = capfd.readouterr().err.splitlines()
    usage = f"usage: image-tfrecords {name} [--images GLOB] --output DIR [FLAGS]"
    assert line.startswith(f"{name}: no flags given; {usage}")


@pytest.mark.parametrize("name", COMMANDS)
def test_without_the_packages_a_command_says_so_in_one_line(name: str) -> None:
    """As a Python that is not that of the environment starts it."""
    words = {"diff": ["a", "b"], "export": ["a", "--dali", "b"]}.get(name, ["a"])
    if name in ("convert", "plan"):
        words = ["--images", "a/*", "--output", "b"]
    command = [sys.executable, "-S", "-m", f"pipeline.{name}", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    [line] = done.stderr.splitlines()
    assert line.startswith(f"{sys.executable} has no package ")
    assert "source .venv/bin/activate" in line and "pip install ." in line


@pytest.mark.parametrize("words", [["--version"], *([name, "--version"] for name in COMMANDS)])
def test_the_version(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The same line for the program and for `python -m pipeline.X`, whose `main` is called here."""
    monkeypatch.setattr(command_line, "supervise", lambda run: run())
    if words[0] in COMMANDS:
        with pytest.raises(SystemExit) as ended:
            call(words, monkeypatch)
        assert ended.value.code == 0
    else:
        assert call(words, monkeypatch) == 0
    assert capfd.readouterr() == (f"image-tfrecords {__version__}\n", "")


def declared(keyword: str) -> Any:
    """The value of an argument of `setup` in setup.py."""
    [value] = [
        each.value
        for node in ast.walk(ast.parse((ROOT / "setup.py").read_text()))
        if isinstance(node, ast.Call)
        for each in node.keywords
        if each.arg == keyword
    ]
    return ast.literal_eval(value)


def test_every_module_that_is_a_command_is_listed() -> None:
    modules = [
        path.stem
        for path in (ROOT / "pipeline").glob("*.py")
        if 'if __name__ == "__main__":' in path.read_text()
    ]
    assert sorted(modules) == sorted(COMMANDS)
    for name in COMMANDS:
        assert callable(importlib.import_module(f"pipeline.{name}").main)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["convrt"], "unknown command 'convrt'; did you mean convert?"),
        (["verfy", "out"], "unknown command 'verfy'; did you mean verify?"),
        (["Plan"], "unknown command 'Plan'; did you mean plan?"),
        (["shwo"], "unknown command 'shwo'; did you mean show?"),
        (["xyz"], "unknown command 'xyz'; see image-tfrecords --help"),
        (
            ["--images", "*.jpg"],
            "--images comes after a command, such as image-tfrecords convert; "
            "see image-tfrecords --help",
        ),
        (["\x1b[2J"], "unknown command '\\x1b[2J'; see image-tfrecords --help"),
    ],
)
def test_an_unknown_command_is_one_line(
    words: list[str],
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert call(words, monkeypatch) == 2
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"image-tfrecords: {says}\n")


@pytest.mark.parametrize("words", [["--help"], ["--version"]])
def test_help_and_version_import_neither_beam_nor_numpy(words: list[str], tmp_path: Path) -> None:
    ran = program(tmp_path, *words, cwd=tmp_path, python=("-X", "importtime"))
    assert ran.code == 0
    imported = {line.split("|")[-1].strip() for line in ran.err.splitlines()}
    assert "pipeline.command_line" in imported
    heavy = {"apache_beam", "numpy", "tensorflow", "PIL"}
    assert not heavy & {name.split(".")[0] for name in imported}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ["--images=none/*.jpg"],
            "no file matches --images 'none/*.jpg'; there is no folder 'none'",
        ),
        (["--labels=none.csv"], "no file matches --labels 'none.csv'"),
        (["--images=*", "--num_shards=1", "--shard_size=2MB"], "cannot be used with --shard_size"),
    ],
)
def test_what_most_mistakes_are_is_said_without_beam(
    words: list[str], says: str, tmp_path: Path
) -> None:
    (tmp_path / "1.jpg").touch()
    flags = ("convert", *words, "--output=out")
    ran = program(tmp_path, *flags, cwd=tmp_path, python=("-X", "importtime"))
    assert ran.code == 2 and says in ran.err
    imported = {line.split("|")[-1].strip().split(".")[0] for line in ran.err.splitlines()}
    assert "pipeline" in imported and not {"apache_beam", "pyarrow", "tensorflow"} & imported


@pytest.mark.slow
def test_a_command_of_the_program_runs_from_a_folder_with_packages_of_its_names(
    hostile_folder: Path, tmp_path: Path
) -> None:
    """`python -m pipeline.convert` would import what is there."""
    write_inputs(tmp_path)
    flags = [f"--{name}={value}" for name, value in right_flags(tmp_path).items()]
    ran = program(tmp_path, "convert", *flags, "--progress=off", cwd=hostile_folder)
    assert ran.code == 0, ran.err
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["ledger"]
    wrong = program(tmp_path, "convert", "--images=x", "--output=o", "--nope", cwd=hostile_folder)
    assert (wrong.code, wrong.error()) == (2, "convert: unknown flag --nope; see --help")


@pytest.mark.slow
def test_its_workers_import_the_packages_that_it_did(hostile_folder: Path, tmp_path: Path) -> None:
    write_inputs(tmp_path)
    flags = [f"--{name}={value}" for name, value in right_flags(tmp_path).items()]
    flags += ["--progress=off", "--workers=2"]
    ran = program(tmp_path, "convert", *flags, cwd=hostile_folder)
    assert ran.code == 0, ran.err


@pytest.mark.parametrize("name", ["/bin/image-tfrecords", "pipeline/convert.py"])
@pytest.mark.parametrize("command", COMMANDS)
def test_help_begins_with_the_command_and_ends_with_the_documentation(
    command: str, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "argv", [name])
    with pytest.raises(SystemExit):
        importlib.import_module(f"pipeline.{command}").main(["--help"])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    usage, empty, *about, second = lines[:5]
    assert usage.startswith("usage: ") and (empty, second) == ("", "") and all(about)
    own = f"  {one_line_parser.program(command)} "
    examples = [line for line in lines[lines.index("examples:") :] if line.startswith(own)]
    assert len(examples) == (2 if command in ("export", "report") else 3)
    assert lines[-1] == f"Documentation: {documentation()}" and lines[-2] == ""


def test_examples_of_the_help_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """They parse, but for the files that they name."""
    monkeypatch.setattr(config_file, "read_config", lambda *_: ([], None))
    for example in options._EXAMPLES:
        flags, rest = options.parse_flags("convert", shlex.split(example.replace("\\\n", "")))
        assert flags.output and not rest


def test_what_is_required_is_marked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        options.parse_flags("convert", ["--help"])
    marked = [line for line in capsys.readouterr().out.splitlines() if "(required)" in line]
    assert [line.split()[0] for line in marked] == ["--output"]


def test_a_release_names_its_documentation(monkeypatch: pytest.MonkeyPatch) -> None:
    built = email.message.Message()
    built["Project-URL"] = "Source, https://host/a"
    built["Project-URL"] = "Documentation, https://host/a/docs"
    monkeypatch.setattr("importlib.metadata.metadata", lambda _: built)
    assert documentation() == "https://host/a/docs"


@pytest.mark.parametrize("command", COMMANDS)
def test_both_ways_supervise_the_same_commands(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands that write or decode run in a child process, however they are started."""
    supervised: list[str] = []

    def note(_: object) -> int:
        supervised.append(command)
        return 0

    monkeypatch.setattr(command_line, "supervise", note)
    monkeypatch.setattr(command_line, "run_command", lambda *_: 0)
    assert call([command, "x"], monkeypatch) == 0
    assert bool(supervised) == (command in ("convert", "verify", "report"))
    module = (ROOT / "pipeline" / f"{command}.py").read_text()
    assert module.endswith(f'    sys.exit(start("{command}", main))\n')


def test_a_shell_can_complete_commands_and_flags() -> None:
    script = shtab.complete(command_line.all_commands(), "bash")
    words = [*COMMANDS, "--num_shards", "--limit", "--fast", "per_image"]
    assert not [word for word in words if not re.search(rf"[\s('\"]{word}[\s)'\"]", script)]


def test_the_entry_point_is_declared() -> None:
    assert declared("entry_points") == {
        "console_scripts": ["image-tfrecords=pipeline.command_line:main"]
    }


@pytest.mark.slow
def test_a_command_starts_no_threads_for_linear_algebra() -> None:
    code = (
        "import os, sys\n"
        "import pipeline.convert\n"
        "from pipeline.command_line import start\n"
        "def main():\n"
        "    assert 'numpy' not in sys.modules\n"
        "    import numpy\n"
        "    print(len(os.listdir('/proc/self/task')))\n"
        "sys.exit(start('plan', main))\n"
    )
    env = {name: value for name, value in os.environ.items() if "NUM_THREADS" not in name}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "1\n")


# The helpers that run the commands.


def test_flags_are_written_as_a_shell_would() -> None:
    assert arguments(images=["a", "b"], overwrite=True, labels=None) == [
        "--progress=off",
        "--images=a",
        "--images=b",
        "--overwrite",
    ]


# `command | head`: a reader that has enough ends the command without a traceback.


def run_unread(module: str, *words: str) -> tuple[int, str]:
    """Runs a command whose output nobody reads; its exit code and what it said on stderr."""
    reads, writes = os.pipe()
    os.close(reads)
    command = [sys.executable, "-m", module, *words]
    try:
        done = subprocess.run(
            command, cwd=ROOT, stdout=writes, stderr=subprocess.PIPE, text=True, check=False
        )
    finally:
        os.close(writes)
    return done.returncode, done.stderr


@pytest.mark.slow
def test_show_stops_as_cat_would(photos: Path, tmp_path: Path) -> None:
    dataset = make_dataset(tmp_path / "out", images=f"{photos}/*/*.jpg", label_from="none")
    assert run_unread("pipeline.show", str(dataset.folder)) == (141, "")


@pytest.mark.slow
def test_what_convert_made_is_there(photos: Path, tmp_path: Path) -> None:
    flags = [f"--images={photos}/*/*.jpg", "--label_from=none", f"--output={tmp_path}/out"]
    assert run_unread("pipeline.convert", *flags, "--progress=off") == (141, "")
    assert (tmp_path / "out" / "manifest.json").exists()
