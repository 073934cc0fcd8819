"""`python -m tests.option_documents`: writes the files generated from the options.

These are `deploy/metadata.json`, the parameters of the Flex Template, `docs/options.md`, and
`transforms/core/option_types.py`, the types of the options in Python.
"""

import argparse
import importlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.options.option_table import GROUPS, OPTIONS, RunOptions
from tests.pipeline.commands import ROOT
from transforms.core.option import Option, declared, declared_in
from transforms.dataset.dataset_options import FileOptions
from transforms.examples.layouts import EmbeddingOptions
from transforms.images.pixel_options import CheckOptions, PixelOptions
from transforms.labels.label_options import ShardOptions

# The commands that do not take the options of the table.
_OTHER_COMMANDS = ("verify", "show", "salvage", "index", "export", "diff", "report")

_TEMPLATE = {
    "name": "Images to TFRecords",
    "description": "Turns images and a label CSV in Cloud Storage into sharded TFRecords.",
}

_OF_BEAM = (
    {
        "name": "sdk_container_image",
        "label": "Image of the workers",
        "helpText": "the image that this template was built with",
        "regexes": ["^[^ ]+/[^ ]+(:[A-Za-z0-9_.-]+|@sha256:[0-9a-f]{64})$"],
    },
    {
        "name": "number_of_worker_harness_threads",
        "label": "Threads of a worker process",
        "helpText": "shards that a process converts at a time",
        "isOptional": True,
        "regexes": ["^[1-9][0-9]*$"],
    },
)

# POSIX pattern of a path in a parameter.
_GCS_PATH = "^gs://[a-z0-9._-]+/.+$"

_WRITTEN = (ShardOptions, FileOptions, PixelOptions, EmbeddingOptions, CheckOptions)

_PLACES = ("root", "splits", "seed")
_ROWS = (
    *("labels", "label_from", "label_key", "label_column", "key"),
    *("csv_delimiter", "csv_encoding", "group_by", "split_by"),
)

_STEPS: Mapping[str, Sequence[str]] = {
    "Place": _PLACES,
    "Row": _ROWS,
    "LabelImages": (*_PLACES, "key"),
    "FindImages": (*_PLACES, *_ROWS, "label_kind"),
    "WriteDataset": (
        *("label_kind", "dense_labels", "root", "overwrite", "splits", "seed", "layout"),
        *(name for name in declared_in(_WRITTEN) if name != "holdout"),
    ),
    "ConvertDataset": [name for name in OPTIONS if name not in declared(RunOptions)],
}
"""The options that each step takes in Python, in addition to the arguments of its own."""

# Where the types of other options come from: those of several steps, or of another one.
_BASES = {
    "LabelImages": ("Place",),
    "FindImages": ("Place", "Row"),
    "WriteDataset": ("Place",),
    "ConvertDataset": ("WriteDataset", "Row"),
}

_TYPES = '''"""The options of the steps in Python, by the names of the flags.

Made by `python -m tests.option_documents`.
"""

# Without postponed annotations: `Required` has no effect in them.

import os
from collections.abc import Mapping, Sequence
from typing import Literal, Required, TypedDict

PathText = str | os.PathLike[str]
"""A path or URL; a URL is always a `str`."""

Several = Sequence[str] | str
"""Several names, or one text with commas between them."""

Size = int | str
"""Bytes, or text such as `64MB`."""'''

_REFERENCE = """# Command-line reference

This page is made from the commands and the groups of options by
`python -m tests.option_documents`. `image-tfrecords COMMAND` and
`python -m pipeline.COMMAND` are the same. The options up to *Run* are those of `convert` and
`plan`; [`verify`](#verify), [`show`](#show), [`export`](#export), [`diff`](#diff) and
[`report`](#report) are at the end.

*Recorded* options decide bytes of a dataset: its manifest holds them, and a finished dataset is
only kept by a run with the same ones. Any option of Apache Beam passes through in addition.

## A file of options

`--config FILE` reads options from a YAML file, by their names with underscores or dashes:

```yaml
images: [photos/cats/*.jpg, photos/dogs/*.jpg]
labels: labels.csv
splits: {train: 0.8, validation: 0.2}
num-shards: 8
class_names: [cat, dog]
strict: true
runner: FlinkRunner
```

- Repeatable options take a list, switches `true` or `false`. `class_names` takes a file or a list
  of names. Options of Beam are allowed, too. Unknown names and wrong values are errors with file
  and line.
- Flags win: an option that is also on the command line is not taken from the file.
- Relative paths are relative to the working directory, not to the file.
- The `manifest.json` of a dataset is such a file, with the inputs and the *recorded* options as
  they were resolved: `--config out/photos/manifest.json --output out/again` writes the same records
  again. Options that change no record are not in it, such as `--max_rejected`, `--strict`,
  `--allow_outside`, `--overwrite`, `--quarantine` and Beam's, which may be credentials. Give them
  on the command line.
"""


def documents() -> dict[Path, str]:
    """The files generated from the table, and their texts."""
    return {
        ROOT / "deploy" / "metadata.json": template_metadata(),
        ROOT / "docs" / "options.md": option_reference(),
        ROOT / "transforms" / "core" / "option_types.py": option_types(),
    }


def template_metadata() -> str:
    """The metadata of the Flex Template."""
    parameters = [parameter for option in OPTIONS.values() for parameter in _parameter(option)]
    content = {**_TEMPLATE, "parameters": [*parameters, *_OF_BEAM]}
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _parameter(option: Option) -> Iterator[Mapping[str, Any]]:
    if not option.is_parameter:
        return
    values = ("true", "false") if option.is_switch else option.choices
    usual = _GCS_PATH if option.is_path else f"^({'|'.join(values)})$"
    shown = f" (default: {option.default})" if option.default not in (None, "") else ""
    yield {
        "name": option.name,
        "label": option.name.replace("_", " ").capitalize(),
        "helpText": f"{option.template_help or option.help}{shown}",
        **({} if option.is_required else {"isOptional": True}),
        "regexes": [option.regex or usual],
    }


def option_types() -> str:
    """The options that each step takes in Python, with types for editors and type checkers."""
    lines = [_TYPES]
    for step, names in _STEPS.items():
        bases = _BASES.get(step, ())
        own = [name for name in names if not any(name in _STEPS[base] for base in bases)]
        parents = ", ".join(f"{base}Options" for base in bases) or "TypedDict"
        of = f"of `{step}`" if bases else "that several steps take"
        lines += ["", "", f"class {step}Options({parents}, total=False):"]
        lines += [f'    """The options {of}; None omits one."""', ""]
        lines += [f"    {name}: {_python_type(OPTIONS[name])}" for name in own]
    return "\n".join(lines) + "\n"


def _python_type(option: Option) -> str:
    if option.is_switch:
        return "bool"
    values = ", ".join(f'"{value}"' for value in option.choices)
    returned = getattr(option.parse, "__annotations__", {}).get("return")
    found = option.python or ("Size" if option.unit else "int" if returned == "int" else "str")
    if not option.python and (option.is_path or values):
        literal = "str" if ":" in values else f"Literal[{values}]"
        found = "PathText" if option.is_path else literal
    if option.is_repeatable:
        found = f"Sequence[{found}] | {found}"
    return f"Required[{found}]" if option.is_required else f"{found} | None"


def option_reference() -> str:
    """All options as tables in Markdown, one for each part of the help."""
    lines = [_REFERENCE]
    for title in dict.fromkeys(group.title for group in GROUPS):
        options = declared_in(group for group in GROUPS if group.title == title)
        lines += [f"## {title.capitalize()}", "", "| option | meaning | default | recorded |"]
        lines += ["| :--- | :--- | :--- | :--- |", *map(_row, options.values()), ""]
    for command in _OTHER_COMMANDS:
        lines += _command(command)
    return "\n".join(lines)


def _command(name: str) -> Iterator[str]:
    """A command that has a parser of its own."""
    parser: argparse.ArgumentParser = importlib.import_module(f"pipeline.{name}").make_parser()
    usage = (parser.usage or "").removeprefix(parser.prog)
    yield from (f"## `{name}`", "", f"`image-tfrecords {name}{usage}`", "")
    yield from (str(parser.description), "")
    for action in parser._actions:
        if not isinstance(action, argparse._HelpAction | argparse._VersionAction):
            names = ", ".join(f"`{flag}`" for flag in action.option_strings)
            choices = "|".join(map(str, action.choices or ()))
            value = "" if action.nargs == 0 else f"`{action.metavar or choices}`"
            has_default = action.default is not None and action.nargs != 0
            has_default = has_default and "if omitted" not in (action.help or "")
            default = f" (default: `{action.default}`)" if has_default else ""
            yield f"- {' '.join(filter(None, (names, value)))}: {action.help}{default}"
    yield ""


def _row(option: Option) -> str:
    value = option.metavar or "|".join(option.choices)
    flags = ", ".join(
        f"`{flag}`" for flag in sorted(option.flags, key=lambda flag: flag[:2] != "--")
    )
    cells = [
        f"{flags} `{value}`" if value else flags,
        "; ".join([option.help, *_rules(option)]),
        "" if option.default in (None, "") else f"`{option.default}`",
        "yes" if option.recorded is not None else "",
    ]
    escaped = [cell.replace("|", "\\|") for cell in cells]
    return f"| {' | '.join(escaped)} |"


def _rules(option: Option) -> Iterator[str]:
    if option.is_required:
        yield "required"
    for need in option.needs:
        values = f"`{'`, `'.join(map(str, need.values))}` " if need.values else ""
        yield f"{values}needs `{need.flag}`"
    for conflict in option.conflicts:
        value = f" {'|'.join(map(str, conflict.values))}" if conflict.values else ""
        yield f"not with `--{conflict.name}{value}`"


if __name__ == "__main__":
    for path, text in documents().items():
        path.write_text(text, "utf-8")
