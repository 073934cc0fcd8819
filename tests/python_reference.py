"""`python -m tests.python_reference`: writes `docs/python_reference.md` from the code."""

import ast
import dataclasses
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pipeline
import transforms
from pipeline.options.option_table import OPTIONS
from tests.pipeline.commands import ROOT
from transforms.core import option_types
from transforms.core.option import Group, own_words

DOCUMENT = ROOT / "docs" / "python_reference.md"

_HEAD = """# Python reference

This page is made from signatures and docstrings by `python -m tests.python_reference`.
[Python API](python_api.md) explains the steps with examples, [Readers](readers.md) the loader.
"""

# What most programs use comes first.
_FIRST = ("FindImages", "LabelImages", "WriteDataset", "load", "ConvertDataset")

# A longer default is shown by its type.
_LONGEST_DEFAULT = 40

_SECTION = re.compile(r"^(Args|Attributes|Returns|Yields|Raises|Raises in the job):$", re.MULTILINE)
_ENTRY = re.compile(r"^(?P<name>[A-Za-z_]\w*): (?P<text>.*)$")


def reference() -> str:
    """The whole page."""
    lines = [_HEAD]
    for package in (transforms, pipeline):
        lines += [f"## `{package.__name__}`", ""]
        for name in sorted(package.__all__, key=lambda name: (_place(name), name)):
            lines += _described(package.__name__, name, getattr(package, name))
    return "\n".join(lines).rstrip() + "\n"


def _place(name: str) -> int:
    return _FIRST.index(name) if name in _FIRST else len(_FIRST)


def _described(package: str, name: str, value: Any) -> Iterator[str]:
    """One class or function."""
    is_class = inspect.isclass(value)
    yield f"### `{name}`"
    yield ""
    yield f"`from {package} import {name}`"
    yield ""
    text, sections = _sections(value.__doc__)
    yield from _text(text)
    if is_class and issubclass(value, Exception):
        return
    if is_class and issubclass(value, Group):
        rows = ((field.name, str(field.type)) for field in dataclasses.fields(value))
        yield from _options(rows)
        return
    typed = getattr(option_types, f"{name}Options", None)
    made = _maker(value) if is_class else value
    if made is not None:
        _, own = _sections(made.__doc__) if is_class else ("", sections)
        yield from _arguments(made, own.get("Args", {}))
        if typed is not None:
            order = list(OPTIONS)
            yield from _options(
                iter(sorted(_typed(typed.__name__), key=lambda each: order.index(each[0])))
            )
        sections = {**sections, **own}
    if "Attributes" in sections and (made is None or "Args" not in sections):
        rows = (f"| `{each}` | {meaning} |" for each, meaning in sections["Attributes"].items())
        yield from _table("| attribute | meaning |", rows)
    for title in ("Returns", "Raises", "Raises in the job"):
        for each, meaning in sections.get(title, {}).items():
            yield f"- {title}: {f'`{each}`: ' if each else ''}{meaning}"
    if set(sections) & {"Returns", "Raises", "Raises in the job"}:
        yield ""


def _maker(value: type) -> Any:
    """The function whose arguments a class takes; None if they are its attributes or Beam's."""
    for name in ("__init__", "__new__"):
        made = vars(value).get(name)
        if made is not None and getattr(made, "__module__", "").startswith(("transforms", "pipe")):
            return made
    return None


def _arguments(made: Any, meanings: dict[str, str]) -> Iterator[str]:
    parameters = [
        each
        for each in inspect.signature(made).parameters.values()
        if each.name not in ("self", "cls", "options")
    ]
    head = "| argument | type | default |"
    rows = [
        f"| `{each.name}` | {_code(_annotation(each))} | {_default(each)} |" for each in parameters
    ]
    if meanings:
        head += " meaning |"
        rows = [
            f"{row} {meanings.get(each.name, '')} |"
            for row, each in zip(rows, parameters, strict=True)
        ]
    yield from _table(head, iter(rows))


def _annotation(parameter: inspect.Parameter) -> str:
    annotation = parameter.annotation
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _default(parameter: inspect.Parameter) -> str:
    if parameter.default is inspect.Parameter.empty:
        return ""
    shown = repr(parameter.default)
    return f"`{shown}`" if len(shown) <= _LONGEST_DEFAULT else f"a `{shown.partition('(')[0]}`"


def _typed(name: str) -> Iterator[tuple[str, str]]:
    """The names and the types of the options of a step."""
    tree = ast.parse(Path(option_types.__file__).read_text("utf-8"))
    for made in tree.body:
        if isinstance(made, ast.ClassDef) and made.name == name:
            for base in made.bases:
                yield from _typed(ast.unparse(base))
            for node in made.body:
                if isinstance(node, ast.AnnAssign):
                    yield ast.unparse(node.target), ast.unparse(node.annotation)


def _options(typed: Iterator[tuple[str, str]]) -> Iterator[str]:
    """Options with their types, and the help of their flags."""
    yield (
        "[Options](options.md) has the defaults and rules. `PathText` is "
        "`str | os.PathLike[str]`, `Several` is `Sequence[str] | str`, and `Size` is `int | str`."
    )
    yield ""
    yield from _table(
        "| option | type | meaning |",
        (
            f"| `{name}` | {_code(kind)} | {_cell(own_words(OPTIONS[name].help))} |"
            for name, kind in typed
        ),
    )


def _table(head: str, rows: Iterator[str]) -> Iterator[str]:
    listed = list(rows)
    if listed:
        yield head
        yield "|" + " :--- |" * (head.count("|") - 1)
        yield from listed
        yield ""


def _code(text: str) -> str:
    return f"`{_cell(text)}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _text(text: str) -> Iterator[str]:
    if text:
        yield text
        yield ""


def _sections(doc: str | None) -> tuple[str, dict[str, dict[str, str]]]:
    """The text of a docstring, and the entries of its sections by name."""
    before, *rest = _SECTION.split(inspect.cleandoc(doc or "").split("\n>>> ")[0])
    named = dict(zip(rest[::2], rest[1::2], strict=True))
    return before.strip(), {title: _entries(text) for title, text in named.items()}


def _entries(text: str) -> dict[str, str]:
    """The entries of a section; one without a name if it is only text."""
    indented = re.match(r"\n((?: +.*\n?|\n)*)", text)
    entries: dict[str, str] = {}
    name = ""
    for line in textwrap.dedent(indented[1] if indented else text).strip().split("\n"):
        entry = _ENTRY.match(line)
        if entry:
            name = entry["name"]
            entries[name] = _cell(entry["text"])
        else:
            entries[name] = f"{entries.get(name, '')} {_cell(line.strip())}".strip()
    return entries


if __name__ == "__main__":
    DOCUMENT.write_text(reference(), "utf-8")
