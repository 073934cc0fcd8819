"""The program `image-tfrecords`: the same commands as `python -m pipeline.X`, from any folder."""

import email.message
import importlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline import __version__, command_line
from pipeline.command_line import COMMANDS
from pipeline.options import config_file
from pipeline.options import parser as one_line_parser
from pipeline.options import parser as options
from pipeline.options.parser import documentation
from tests.marks import cases, rest_slow
from tests.pipeline.commands import ROOT, Ran, arguments, make_dataset
from tests.pipeline.right_command import right_flags, write_inputs

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


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Runs the program in this process."""

    def called(*words: str) -> Ran:
        monkeypatch.setattr(command_line, "supervise", lambda run: run())
        monkeypatch.setattr(sys, "argv", ["/bin/image-tfrecords", *words])
        monkeypatch.setenv("PYTHONSAFEPATH", "1")
        try:
            code = command_line.main()
        except SystemExit as ended:
            code = int(ended.code or 0)
        return Ran(code, *capfd.readouterr())

    return called


def imported(ran: Ran) -> set[str]:
    """The packages that a program imported with `-X importtime`."""
    return {line.split("|")[-1].strip().split(".")[0] for line in ran.err.splitlines()}


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"], ["help"]])
def test_help_lists_the_commands(words: list[str], call: Callable[..., Ran]) -> None:
    ran = call(*words)
    lines = ran.out.splitlines()
    assert ran.code == 0 and all(lines[:2]) and lines[2] == ""
    assert lines[3] == "usage: image-tfrecords COMMAND [FLAGS]"
    assert [line.split()[0] for line in lines if line.startswith("  ")] == [*COMMANDS]
    assert lines[-1] == f"Documentation: {documentation()}"
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("name", [*COMMANDS, *options.TOPICS.split()])
def test_help_of_a_command_or_topic(name: str, call: Callable[..., Ran]) -> None:
    same = [name, "--help"] if name in COMMANDS else ["convert", "--help", name]
    shown = call("help", name)
    assert shown == call(*same) and shown.code == 0
    assert shown.out.startswith(f"usage: image-tfrecords {same[0]}")


@pytest.mark.parametrize("name", rest_slow(COMMANDS, 3))
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


@pytest.mark.parametrize(
    "words", [["--version"], ["version"], *([name, "--version"] for name in COMMANDS)]
)
def test_the_version(words: list[str], call: Callable[..., Ran]) -> None:
    """The same line for the program and for `python -m pipeline.X`, whose `main` is called here."""
    assert call(*words) == (0, f"image-tfrecords {__version__}\n", "")


def test_every_module_that_is_a_command_is_listed() -> None:
    modules = [
        path.stem
        for path in (ROOT / "pipeline").glob("*.py")
        if 'if __name__ == "__main__":' in path.read_text()
    ]
    assert sorted(modules) == sorted(COMMANDS)
    for name in COMMANDS:
        assert callable(importlib.import_module(f"pipeline.{name}").main)


PROGRAM = "image-tfrecords: "
NO_FLAGS = "no flags given; usage: image-tfrecords {} [IMAGES [LABELS] OUTPUT] [FLAGS]"


@cases(
    (["convrt"], f"{PROGRAM}unknown command 'convrt'; did you mean convert?\n"),
    (["verfy", "out"], f"{PROGRAM}unknown command 'verfy'; did you mean verify?\n"),
    (["Plan"], f"{PROGRAM}unknown command 'Plan'; did you mean plan?\n"),
    (["help", "shwo"], f"{PROGRAM}unknown command 'shwo'; did you mean show?\n"),
    (["help", "slits"], f"{PROGRAM}unknown command 'slits'; did you mean help splits?\n"),
    (["plan a b"], f"{PROGRAM}unknown command 'plan a b'; leave out the quotes around"),
    (["completion", "csh"], f"{PROGRAM}completion 'csh' is not one of bash, zsh, tcsh, fish, "
     "powershell\n"),
    (["xyz"], f"{PROGRAM}unknown command 'xyz'; see image-tfrecords --help\n"),
    (["--images", "*.jpg"], f"{PROGRAM}--images comes after a command, such as image-tfrecords "
     "convert; see image-tfrecords --help\n"),
    (["\x1b[2J"], f"{PROGRAM}unknown command '\\x1b[2J'; see image-tfrecords --help\n"),
    (["convert"], f"convert: {NO_FLAGS.format('convert')}"),
    (["plan"], f"plan: {NO_FLAGS.format('plan')}"),
)  # fmt: skip
def test_a_mistake_is_one_line(words: list[str], says: str, call: Callable[..., Ran]) -> None:
    code, out, err = call(*words)
    assert (code, out, err.count("\n"), err[: len(says)]) == (2, "", 1, says)


NONE = "no file matches --images 'none/*.jpg'; there is no folder 'none'"
CONVERT = ["convert", "--output=out"]


@cases(
    (["--help"], 0, ""),
    # Most mistakes are said in less than half a second: without Beam, and without NumPy.
    ([*CONVERT, "--images=none/*.jpg"], 2, NONE),
    ([*CONVERT, "--labels=none.csv"], 2, "no file matches --labels 'none.csv'"),
    ([*CONVERT, "--images=*", "--num_shards=1", "--shard_size=2MB"], 2,
     "cannot be used with --shard_size"),
    ([*CONVERT, "--images=*", "--projet=p"], 2, "did you mean --project?"),
    ([*CONVERT, "--images=*", "2.jpg", "3.jpg"], 2, "unexpected argument '2.jpg'"),
)  # fmt: skip
def test_what_needs_no_beam_imports_none(
    words: list[str], code: int, says: str, tmp_path: Path
) -> None:
    (tmp_path / "1.jpg").touch()
    ran = program(tmp_path, *words, cwd=tmp_path, python=("-X", "importtime"))
    assert ran.code == code and says in ran.err
    heavy = {"apache_beam", "tensorflow", "tensorflow_metadata", "pyarrow", "numpy", "PIL", "yaml"}
    assert "pipeline" in imported(ran) and not heavy & imported(ran)


@pytest.mark.slow
def test_the_program_runs_from_a_folder_with_packages_of_its_names(
    hostile_folder: Path, tmp_path: Path
) -> None:
    """`python -m pipeline.convert` would import what is there; its workers import what it did."""
    write_inputs(tmp_path)
    flags = [f"--{name}={value}" for name, value in right_flags(tmp_path).items()]
    words = ["convert", *flags, "--progress=off", "--workers=2"]
    ran = program(tmp_path, *words, cwd=hostile_folder)
    assert ran.code == 0, ran.err
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["ledger"]
    wrong = program(tmp_path, "convert", "--images=x", "--output=o", "--nope", cwd=hostile_folder)
    assert (wrong.code, wrong.error()) == (2, "convert: unknown flag --nope; see --help")


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
    assert len(examples) == (2 if command in ("export", "index", "report", "salvage") else 3)
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
    monkeypatch.setattr(command_line, "supervise", lambda _: supervised.append(command) or 0)
    monkeypatch.setattr(command_line, "run_command", lambda *_: 0)
    monkeypatch.setattr(sys, "argv", ["/bin/image-tfrecords", command, "x"])
    monkeypatch.setenv("PYTHONSAFEPATH", "1")
    assert command_line.main() == 0
    assert bool(supervised) == (command in ("convert", "plan", "verify", "report"))
    module = (ROOT / "pipeline" / f"{command}.py").read_text()
    assert module.endswith(f'    sys.exit(start("{command}", main))\n')


@cases(
    ("con", "convert"),
    ("convert --num_s", "--num_shards"),
    ("convert --compression ''", "none gzip"),
    ("convert --compression g", "gzip"),
    ("convert --files ''", "sharded per_image"),
    ("show --lim", "--limit"),
    ("verify --progress p", "plain"),
    # Bash itself completes files.
    ("convert photos", ""),
)
def test_bash_completes_commands_flags_and_values(
    words: str, completed: str, call: Callable[..., Ran]
) -> None:
    line = f"image-tfrecords {words}"
    script = f"""{call("completion", "bash").out}
COMP_WORDS=({line}); COMP_CWORD={len(shlex.split(line)) - 1}; _shtab_image_tfrecords
echo "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == (f"{completed}\n", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "tcsh", "powershell"])
def test_each_shell_knows_all_flags(shell: str, call: Callable[..., Ran]) -> None:
    script = call("completion", shell).out
    # These two write the names of flags behind a dash of their own.
    dashes = {"fish": "-l ", "tcsh": ""}.get(shell, "--")
    flags = [f"{dashes}{name}" for name in ("num_shards", "limit", "fast", "dali")]
    words = [*COMMANDS, *flags, "sharded\\W+per_image"]
    assert not [word for word in words if not re.search(rf"(?<!\w){word}\b", script)]
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)


def test_the_entry_point_is_declared() -> None:
    script = '"console_scripts": ["image-tfrecords=pipeline.command_line:main"]'
    assert script in (ROOT / "setup.py").read_text()


@pytest.mark.slow
@cases(
    # Threads of linear algebra.
    "assert 'numpy' not in sys.modules; import numpy; print(threads())",
    # Heaps of threads, each in 64 MB of addresses of its own.
    "with ThreadPoolExecutor(4) as pool: print(len({*pool.map(allocate, [1000] * 4)}))",
)
def test_a_command_has_no_threads_and_heaps_that_it_does_not_need(body: str) -> None:
    code = (
        "import ctypes, os, sys, threading\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "import pipeline.convert\n"
        "from pipeline.command_line import start\n"
        "together, malloc = threading.Barrier(4), ctypes.CDLL(None).malloc\n"
        "threads = lambda: len(os.listdir('/proc/self/task'))\n"
        "malloc.restype = ctypes.c_void_p\n"
        "allocate = lambda size: malloc(size + together.wait()) >> 26\n"
        f"def main():\n    {body}\n"
        "sys.exit(start('show', main))\n"
    )
    env = {name: value for name, value in os.environ.items() if "NUM_THREADS" not in name}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "1\n")


@pytest.mark.slow
@pytest.mark.parametrize("command", ["show", "convert"])
def test_a_reader_that_has_enough_ends_a_command_as_cat_would(
    command: str, photos: Path, tmp_path: Path
) -> None:
    """What `convert` made is there."""
    flags = {"images": f"{photos}/*/*.jpg", "label_from": "none"}
    words = arguments(output=tmp_path / "out", **flags)
    if command == "show":
        words = [str(make_dataset(tmp_path / "out", **flags).folder)]
    reads, writes = os.pipe()
    os.close(reads)
    start = [sys.executable, "-m", f"pipeline.{command}", *words]
    done = subprocess.run(start, cwd=ROOT, stdout=writes, stderr=subprocess.PIPE, text=True)
    os.close(writes)
    assert (done.returncode, done.stderr) == (141, "")
    assert (tmp_path / "out" / "manifest.json").exists()
