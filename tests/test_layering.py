"""What the packages may import, and how rooms are laid out."""

from __future__ import annotations

import ast
import functools
import graphlib
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from setuptools import find_packages

import transforms

ROOT = Path(transforms.__file__).parents[1]

# The rooms below the steps, in the order in which they may import each other: only upwards in this
# list. The steps are in `transforms` itself.
ROOMS = (
    "core",
    "labels",
    "images",
    "examples",
    "dataset",
    "storage",
    "records",
    "selection",
    "report",
)
# These bring no Beam, whatever they import.
WITHOUT_BEAM = ("core", "labels", "images", "examples", "dataset")

TRANSFORMS = sorted((ROOT / "transforms").rglob("*.py"))
STORAGE = sorted((ROOT / "transforms/storage").rglob("*.py"))
PURE = sorted({*TRANSFORMS} - {*STORAGE, *(ROOT / "transforms").glob("*.py")})
PIPELINE = sorted((ROOT / "pipeline").rglob("*.py"))
MODULES = [path for path in [*TRANSFORMS, *PIPELINE] if path.name != "__init__.py"]


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


NAMES = {name_of(path) for path in MODULES}


def room_of(name: str) -> str:
    """The package of a module."""
    return name.rpartition(".")[0]


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def at_run_time(path: Path) -> Iterator[ast.stmt]:
    """The statements of a file without the blocks that only the type checker reads."""
    for node in parsed(path).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) in (
            "TYPE_CHECKING",
            "typing.TYPE_CHECKING",
        ):
            yield from node.orelse
        else:
            yield node


@functools.cache
def imported(path: Path) -> set[str]:
    """The modules that a file imports, anywhere in it."""
    names: set[str] = set()
    for node in (inner for each in at_run_time(path) for inner in ast.walk(each)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            names.add(str(node.module))
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def top_levels(path: Path) -> set[str]:
    return {name.split(".")[0] for name in imported(path)}


def test_only_steps_and_storage_import_beam() -> None:
    assert [name_of(path) for path in PURE if "apache_beam" in top_levels(path)] == []


def test_rooms_import_each_other_one_way() -> None:
    places = {f"transforms.{room}": place for place, room in enumerate(ROOMS)}
    places["transforms"] = len(ROOMS)
    assert {room_of(name_of(path)) for path in MODULES if path in TRANSFORMS} == set(places)
    wrong = [
        f"{name_of(path)} imports {name}"
        for path in MODULES
        if path in TRANSFORMS
        for name in ours_in(path)
        if places[room_of(name)] > places[room_of(name_of(path))]
    ]
    assert wrong == []


def test_modules_import_each_other_one_way() -> None:
    graph = {name_of(path): ours_in(path) - {name_of(path)} for path in MODULES}
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError


@pytest.mark.slow
def test_pure_rooms_bring_neither_beam_nor_tensorflow() -> None:
    script = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
    for heavy in ("apache_beam", "tensorflow", "pillow_heif"):
        assert heavy not in sys.modules, f"{name} imports {heavy}"
"""
    rooms = tuple(f"transforms.{room}" for room in WITHOUT_BEAM)
    names = [name_of(path) for path in PURE if name_of(path).startswith(rooms)]
    done = subprocess.run([sys.executable, "-c", script, *names], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_modules_import_tensorflow_where_they_call_it() -> None:
    """Its import takes seconds, which a command that decodes nothing does not spend."""
    at_top = {
        name_of(path)
        for path in MODULES
        for node in at_run_time(path)
        if isinstance(node, ast.Import | ast.ImportFrom)
        and re.match(r"(import|from) (tensorflow|keras)\b", ast.unparse(node))
    }
    assert at_top == set()


def ours_in(path: Path) -> set[str]:
    """The modules of ours that a file imports."""
    return imported(path) & NAMES


def test_no_two_modules_have_the_same_name() -> None:
    counted = Counter(path.stem for path in MODULES)
    assert [name for name, count in counted.items() if count > 1] == []


def test_every_room_is_a_package_and_every_data_file_is_packaged() -> None:
    """What `setup.py` does not name is missing from a wheel, and so on Dataflow."""
    [call] = (
        node.value
        for node in parsed(ROOT / "setup.py").body
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func) == "setup"
    )
    words = {keyword.arg: keyword.value for keyword in call.keywords}
    data = ast.literal_eval(words["package_data"])
    for top in ("transforms", "pipeline"):
        packages = [top, *(f"{top}.{name}" for name in find_packages(str(ROOT / top)))]
        packaged = {
            file
            for package in packages
            for pattern in ["*.py", *data.get(package, [])]
            for file in ROOT.joinpath(*package.split(".")).glob(pattern)
        }
        there = {
            path
            for path in (ROOT / top).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }
        assert there == packaged


def test_transforms_know_nothing_of_commands() -> None:
    knowing = [path for path in TRANSFORMS if top_levels(path) & {"pipeline", "argparse"}]
    assert knowing == []


def calls(path: Path) -> Iterator[str]:
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func)


def test_only_commands_print_and_exit() -> None:
    ends = {"print", "exit", "quit", "sys.exit", "os._exit", "input"}
    assert [path for path in TRANSFORMS if ends & set(calls(path))] == []
    assert [path for path in TRANSFORMS if "SystemExit" in path.read_text()] == []


def declared() -> set[str]:
    """The distributions of setup.py, normalised."""
    source = parsed(ROOT / "setup.py")
    [requires] = (
        node.value
        for node in source.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "INSTALL_REQUIRES"
    )
    return {re.split(r"[\[<>=~]", text)[0].lower() for text in ast.literal_eval(requires)}


def test_everything_imported_is_declared() -> None:
    distributions = metadata.packages_distributions()
    ours = {"pipeline", "transforms"}
    for path in [*TRANSFORMS, *PIPELINE]:
        for name in top_levels(path) - sys.stdlib_module_names - ours:
            owners = {re.sub("[-_.]+", "-", owner).lower() for owner in distributions[name]}
            assert owners & declared(), f"{path.name} imports {name}, which setup.py does not list"
