"""Plants faults into copies of the tree, one at a time, and says which of them the tests notice.

    python -m tests.planted_faults [--only TEXT] [--jobs N] [--slow]

`planted_faults.txt` lists the faults. A fault is found by the text of its line and by the function
that the line is in, a test module by its name: files may move.
"""

import argparse
import ast
import functools
import importlib.util
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, TypeVar

Result = TypeVar("Result")

ROOT = Path(__file__).parent.parent
TABLE = Path(__file__).with_suffix(".txt")
PRODUCT = ("pipeline", "transforms")
MODULE = "-"
# In place of a test module: the doctests of the module with the line.
DOCTESTS = "doctests"
SECONDS = 600
NOTICED, UNNOTICED = "noticed", "NOT NOTICED"
# What pytest returns.
PASSED, FAILED = 0, 1
LEFT_OUT = (".git", ".venv*", ".mypy_cache", ".ruff_cache", ".hypothesis", "build", "*.egg-info")


class Fault(NamedTuple):
    """One line of the product that is wrong.

    Attributes:
        room: what the line is about.
        function: the end of the qualified name of the function that holds it, or `MODULE`.
        tests: names of test modules, some with `::` and a test; or `DOCTESTS`.
        subject: what a user would see.
        line: what is replaced, which occurs once in the function; parts of lines are enough.
        fault: what replaces it.
        is_slow: whether only a slow test notices it.
    """

    room: str
    function: str
    tests: tuple[str, ...]
    subject: str
    line: str
    fault: str
    is_slow: bool


class FaultError(Exception):
    """A fault cannot be planted."""


def read_faults(text: str) -> Iterator[Fault]:
    """Reads the table: blocks of a header, lines that begin with `- `, and others with `+ `."""
    blocks = [block.splitlines() for block in text.split("\n\n")]
    for header, *lines in (block for block in blocks if block[0].startswith("@")):
        room, function, tests, subject = (part.strip() for part in header[1:].split("|", 3))
        line, fault = (
            "\n".join(each[2:] for each in lines if each[:1] == sign) for sign in ("-", "+")
        )
        name = room.removesuffix(" (slow)")
        yield Fault(name, function, tuple(tests.split()), subject, line, fault, name != room)


class Planted(NamedTuple):
    """Where a fault is planted: a module, and its text with the fault."""

    path: Path
    text: str


class Function(NamedTuple):
    """A function of a module: the text between its first line and the one after its last."""

    name: str
    path: Path
    start: int
    end: int


@functools.cache
def modules(root: Path) -> dict[Path, str]:
    """The modules of the product, with their texts."""
    found = sorted(each for name in PRODUCT for each in (root / name).rglob("*.py"))
    return {path: path.read_text() for path in found}


@functools.cache
def functions(root: Path) -> list[Function]:
    """All functions of the product; a module is the function `MODULE`."""
    found = []
    for path, text in modules(root).items():
        starts = [0]
        for line in text.splitlines(keepends=True):
            starts.append(starts[-1] + len(line))
        found.append(Function(MODULE, path, 0, len(text)))
        todo: list[tuple[str, ast.AST]] = [("", ast.parse(text))]
        while todo:
            outer, node = todo.pop()
            for each in ast.iter_child_nodes(node):
                if isinstance(each, ast.expr):
                    continue
                name = outer
                if isinstance(each, ast.FunctionDef | ast.ClassDef):
                    name = f"{outer}.{each.name}"
                if isinstance(each, ast.FunctionDef):
                    assert each.end_lineno is not None
                    place = starts[each.lineno - 1], starts[each.end_lineno]
                    found.append(Function(name, path, *place))
                todo.append((name, each))
    return found


def plant(fault: Fault, root: Path = ROOT) -> Planted:
    """Finds the place of a fault.

    Raises:
        FaultError: no function has its line, or there are several such lines.
    """
    texts, suffix = modules(root), f".{fault.function}"
    found = {
        (path, at)
        for name, path, start, end in functions(root)
        if name == fault.function or name.endswith(suffix)
        for at in _places(texts[path], fault.line, start, end)
    }
    if len(found) != 1:
        problem = "not unique" if found else "anchor not found"
        raise FaultError(f"{problem}: {fault.function}: {fault.line}")
    [(path, at)] = found
    text = texts[path]
    return Planted(path, text[:at] + fault.fault + text[at + len(fault.line) :])


def _places(text: str, line: str, start: int, end: int) -> Iterator[int]:
    while (at := text.find(line, start, end)) >= 0:
        yield at
        start = at + 1


@functools.cache
def _test_files(root: Path) -> list[Path]:
    """The files below the tests."""
    return sorted((root / "tests").rglob("*.py"))


def paths_of(names: Sequence[str], root: Path = ROOT) -> list[str]:
    """The paths of test modules, searched by their names.

    Raises:
        FaultError: there is no module of this name.
    """
    found: list[str] = []
    for name in names:
        if name == DOCTESTS:
            continue
        module, separator, test = name.partition("::")
        paths = [path for path in _test_files(root) if path.match(module)]
        if not paths:
            raise FaultError(f"no such test module: {module}")
        found += [f"{path.relative_to(root)}{separator}{test}" for path in paths]
    return found


def run_tests(folder: Path, *arguments: str) -> tuple[int, str]:
    """Runs pytest in a copy of the tree.

    Returns:
        Its exit code, and what it printed. Tests that do not end count as failed.
    """
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    # Processes of tests, which may begin elsewhere, import the copy as well.
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        return FAILED, f"no end within {SECONDS} s"
    return done.returncode, done.stdout + done.stderr


def _marks(is_slow: bool) -> list[str]:
    return ["-m", "slow or not slow"] if is_slow else []


def try_fault(fault: Fault, folder: Path) -> str:
    """Plants a fault into a copy of the tree, runs the tests, and restores the copy.

    Returns:
        `NOTICED`, `UNNOTICED`, or why it is neither.
    """
    try:
        planted = plant(fault)
        tests = paths_of(fault.tests)
        if DOCTESTS in fault.tests:
            tests.append(str(planted.path.relative_to(ROOT)))
    except FaultError as error:
        return str(error)
    path = folder / planted.path.relative_to(ROOT)
    _write(path, planted.text)
    try:
        code, said = run_tests(folder, "-x", *_marks(fault.is_slow), *tests)
    finally:
        _write(path, modules(ROOT)[planted.path])
    if code in (PASSED, FAILED):
        return NOTICED if code else UNNOTICED
    return f"no test ran: {said.strip().splitlines()[-1]}"


def _write(path: Path, text: str) -> None:
    """Writes a module. A compiled one of the same second and size would be taken for it."""
    path.write_text(text)
    Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)


def chosen(only: str, *, with_slow: bool) -> list[Fault]:
    """The faults whose header holds a text."""
    faults = read_faults(TABLE.read_text())
    return [
        each
        for each in faults
        if only in " ".join((each.room, each.function, *each.tests, each.subject))
        and (with_slow or not each.is_slow)
    ]


def main() -> int:
    """Tries the faults. Returns 1 if one is not noticed, 2 if there are none or tests fail."""
    parser = argparse.ArgumentParser(description="Plants faults, and runs the tests for each.")
    parser.add_argument("--only", default="", metavar="TEXT", help="faults with this text")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="tests at a time")
    parser.add_argument("--slow", action="store_true", help="those of slow tests, too")
    flags = parser.parse_args()
    started = time.monotonic()
    faults = chosen(flags.only, with_slow=flags.slow)
    if not faults:
        more = "" if flags.slow else "; --slow also tries those of slow tests"
        print(f"no fault has {flags.only!r} in its header{more}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(flags.jobs) as pool:
        idle: queue.SimpleQueue[Path] = queue.SimpleQueue()
        ignored = shutil.ignore_patterns(*LEFT_OUT)
        for number in range(flags.jobs):
            idle.put(shutil.copytree(ROOT, Path(scratch) / str(number), ignore=ignored))

        def in_copy(work: Callable[[Path], Result]) -> Result:
            folder = idle.get()
            try:
                return work(folder)
            finally:
                idle.put(folder)

        def tried(fault: Fault) -> str:
            return in_copy(functools.partial(try_fault, fault))

        every = {name for each in faults for name in each.tests}
        several = ["-n", str(flags.jobs), "--dist", "loadscope", *_marks(flags.slow)]
        code, said = in_copy(lambda copy: run_tests(copy, *several, *paths_of(sorted(every))))
        if code != PASSED:
            print(f"{said}\nthe tests fail without a fault", file=sys.stderr)
            return 2
        counts: Counter[str] = Counter()
        for fault, result in zip(faults, pool.map(tried, faults), strict=True):
            counts[result if result in (NOTICED, UNNOTICED) else "other"] += 1
            print(f"{result:<12} {fault.room:<12} {fault.subject}", flush=True)
    seconds = time.monotonic() - started
    print(f"{counts[NOTICED]} of {len(faults)} faults noticed, in {seconds:.0f} s")
    return 0 if counts[NOTICED] == len(faults) else 1


if __name__ == "__main__":
    sys.exit(main())
