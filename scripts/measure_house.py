"""Prints how large the house is: `python scripts/measure_house.py [CHECKOUT]`.

Code is counted in lines without imports, docstrings, comments and blank lines. The budgets of the
rooms are in `pyproject.toml`; `tests/test_house.py` holds them, so a feature pays for itself.
"""

from __future__ import annotations

import ast
import collections
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

PACKAGES = ("pipeline", "transforms", "image_tfrecords")

# Options and subjects whose words are counted in files of the product.
SUBJECTS = ("dedupe", "stratify", "resize", "holdout", "quarantine", "reuse", "runs_in_process")

_GENERATED = re.compile(r"python_reference|options\.md")
# What `from a.b import c, d` and `from a.b import (c, d)` import from the product.
_IMPORTED = re.compile(
    rf"^ *from (?:{'|'.join(PACKAGES)})[\w.]* import (\([^)]*\)|.*)", re.MULTILINE
)

_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_STRINGS = (ast.Constant, ast.JoinedStr)
_COUNTED = (ast.Import, ast.ImportFrom, *_STRINGS, *_DOCUMENTED)


class House(NamedTuple):
    """What is counted.

    Attributes:
        code: lines of code of each room, a folder with modules such as `transforms/labels`.
        modules: modules with code in each room.
        widest: the most files in one room, with its `__init__.py`.
        classes: of the product.
        functions: of the product, methods and nested ones among them.
        single_importers: modules that only one other module imports.
        subjects: files of the product in which a word of `SUBJECTS` begins.
        tests: lines of tests.
        private_names: private names of the product that tests import, each file counted.
        words: of the documents, without generated references and the changelog.
    """

    code: dict[str, int]
    modules: dict[str, int]
    widest: int
    classes: int
    functions: int
    single_importers: int
    subjects: dict[str, int]
    tests: int
    private_names: int
    words: int

    def totals(self) -> dict[str, int]:
        """The figures that have a budget for the whole house."""
        return {
            "code": sum(self.code.values()),
            "modules": sum(self.modules.values()),
            "folders": len(self.code),
            "widest": self.widest,
            "classes": self.classes,
            "single_importers": self.single_importers,
            "tests": self.tests,
            "private_names": self.private_names,
            "words": self.words,
        }


def code_lines(text: str) -> int:
    """The lines of a module that are code.

    >>> code_lines('import os\\n\\n\\ndef f():\\n    "What."\\n    # Why.\\n    return os\\n')
    2
    """
    return _code_lines(text, _nodes(text))


def _nodes(text: str) -> list[ast.AST]:
    return [node for node in ast.walk(ast.parse(text)) if isinstance(node, _COUNTED)]


def _code_lines(text: str, nodes: list[ast.AST]) -> int:
    shown = [line.strip() for line in text.split("\n")]
    skipped: set[int] = set()
    lines = {at for at, line in enumerate(shown, 1) if line and line[0] != "#"}
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            skipped |= set(range(node.lineno, (node.end_lineno or 0) + 1))
        elif isinstance(node, _STRINGS):
            within = range(node.lineno, (node.end_lineno or 0) + 1)
            # Each line of a text of several lines is code, also an empty one.
            if len(within) > 1 and any('"""' in shown[at - 1] for at in within):
                lines |= set(within)
        elif isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            skipped |= set(range(first.lineno, (first.end_lineno or 0) + 1))
    return len(lines - skipped)


def measure(root: Path) -> House:
    """Counts the files of a checkout that git lists, with what is not committed yet."""
    product = [path for path in _listed(root, "*.py") if path.split("/")[0] in PACKAGES]
    texts = {path: (root / path).read_text("utf-8") for path in product}
    nodes = {path: _nodes(text) for path, text in texts.items()}
    code: dict[str, int] = collections.Counter()
    modules: dict[str, int] = collections.Counter()
    files: dict[str, int] = collections.Counter()
    for path, text in texts.items():
        room, lines = str(Path(path).parent), _code_lines(text, nodes[path])
        code[room] += lines
        modules[room] += lines > 0
        files[room] += 1
    tests = [root / path for path in _listed(root, "tests/*.py", "tests/**/*.py")]
    documents = _listed(
        root, "README.md", "CONTRIBUTING.md", "docs/*.md", "docs/**/*.md", "benchmarks/README.md"
    )
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return House(
        code=dict(sorted(code.items())),
        modules=dict(sorted(modules.items())),
        widest=max(files.values(), default=0),
        classes=_count(nodes, ast.ClassDef),
        functions=_count(nodes, *functions),
        single_importers=_single_importers(nodes),
        subjects={
            subject: sum(bool(re.search(rf"\b{subject}", text)) for text in texts.values())
            for subject in SUBJECTS
        },
        tests=sum(path.read_text("utf-8").count("\n") for path in tests),
        private_names=sum(_private_names(path.read_text("utf-8")) for path in tests),
        words=sum(
            len((root / path).read_text("utf-8").split())
            for path in documents
            if not _GENERATED.search(path)
        ),
    )


def budgets(root: Path) -> dict[str, dict[str, int]]:
    """The budgets in `pyproject.toml`: `totals`, `rooms` and `subjects`."""
    table = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["tool"]["house"]
    return {name: table[name] for name in ("totals", "rooms", "subjects")}


def over_budget(house: House, allowed: dict[str, dict[str, int]]) -> list[str]:
    """A line for each figure above its budget, and for each room without one."""
    figures = {"totals": house.totals(), "rooms": house.code, "subjects": house.subjects}
    lines = []
    for table, measured in figures.items():
        for name, figure in measured.items():
            if name not in allowed[table]:
                lines.append(f"{name} has no budget in [tool.house.{table}] of pyproject.toml")
            elif figure > allowed[table][name]:
                lines.append(f"{table} {name}: {figure}, allowed {allowed[table][name]}")
    return lines


def _listed(root: Path, *patterns: str) -> list[str]:
    command = ["git", "-C", str(root), "ls-files", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run([*command, *patterns], check=True, capture_output=True, text=True)
    return sorted({path for path in done.stdout.splitlines() if (root / path).is_file()})


def _count(nodes: dict[str, list[ast.AST]], *kinds: type[ast.AST]) -> int:
    return sum(isinstance(node, kinds) for each in nodes.values() for node in each)


def _single_importers(nodes: dict[str, list[ast.AST]]) -> int:
    names = {path.removesuffix(".py").replace("/", "."): path for path in nodes}
    importers: dict[str, set[str]] = collections.defaultdict(set)
    for path, each in nodes.items():
        for node in each:
            if isinstance(node, ast.ImportFrom):
                wanted = [f"{node.module}.{alias.name}" for alias in node.names]
                for name in {str(node.module), *wanted} & names.keys():
                    importers[name].add(path)
    return sum(len(paths) == 1 for paths in importers.values())


def _private_names(text: str) -> int:
    return sum(len(re.findall(r"\b_[A-Za-z]\w*", names)) for names in _IMPORTED.findall(text))


def main() -> None:
    """Prints the figures beside their budgets."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    house, allowed = measure(root), budgets(root)
    print(f"{'room':24} {'modules':>8} {'code':>8} {'budget':>8}")
    for room, lines in house.code.items():
        print(f"{room:24} {house.modules[room]:8} {lines:8} {allowed['rooms'].get(room, 0):8}")
    print(f"\n{'house':24} {'':8} {'figure':>8} {'budget':>8}")
    for name, figure in house.totals().items():
        print(f"{name:24} {'':8} {figure:8} {allowed['totals'].get(name, 0):8}")
    print(f"{'functions':24} {'':8} {house.functions:8}")
    print(f"\n{'files with the word':24} {'':8} {'figure':>8} {'budget':>8}")
    for name, figure in house.subjects.items():
        print(f"{name:24} {'':8} {figure:8} {allowed['subjects'].get(name, 0):8}")
    print("\n".join(["", *over_budget(house, allowed)]).rstrip())


if __name__ == "__main__":
    main()
