"""`--config FILE`: options from a YAML file, or from the `manifest.json` of a dataset.

Options of a file become words of a command line, so they are parsed, checked and refused as typed
ones are. An option that is also on the command line is not taken from the file.
"""

from __future__ import annotations

import argparse
import contextlib
import glob
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import yaml

from pipeline.errors import UsageError, refusing
from pipeline.options.beam_flags import find_unknown, flag_name, flags_of, suggestion
from pipeline.options.option_table import OPTIONS
from transforms.core.messages import parse_json, parse_yaml
from transforms.core.option import FORMER, Option, unite
from transforms.dataset.manifest import ManifestError, parse_manifest
from transforms.images.pixel_options import DEFAULT_QUALITY
from transforms.labels.keys import MAX_GLOBS, images_in_parquet
from transforms.labels.label_rows import CSV, FORMATS
from transforms.labels.label_rules import KNOWN_CLASSES, KnownClasses
from transforms.labels.shards import DEFAULT_SHARD_SIZE

_OPTIONS = {name: option for option in OPTIONS.values() for name in (option.name, *option.aliases)}

# They say what the command line is, not what to convert.
_OF_THE_COMMAND_LINE = ("config", "help")

_BOOL, _NULL = "tag:yaml.org,2002:bool", "tag:yaml.org,2002:null"
_TRUE = ("true", "yes", "on")


class _Entry(NamedTuple):
    """One option of a file.

    Attributes:
        name: of the option, or of an option of Beam, with underscores.
        words: of a command line.
        where: the file and the line, for messages.
        texts: the items of a list of class names, which has no words; or the classes of a dataset.
    """

    name: str
    words: Sequence[str]
    where: str
    texts: tuple[str, ...] | KnownClasses = ()


def read_config(
    path: str, given: argparse.Namespace, words: Sequence[str], parser: argparse.ArgumentParser
) -> tuple[list[str], tuple[str, ...] | KnownClasses | None]:
    """Reads the options of a file.

    Args:
        path: YAML, or the manifest of a dataset.
        given: the flags of the command line.
        words: the command line, whose options win.
        parser: of the command, in which nothing is required.

    Returns:
        words of a command line; and the names of classes that the file lists, instead of naming a
        file of them.

    Raises:
        UsageError: the file cannot be read, or an option in it is unknown or has a wrong value;
            the message names the file and the line.
    """
    # A command line without the flag does not wait for these.
    from pipeline.resolve.path_flags import check_path, read_flag_file

    check_path("--config", path)
    if os.path.isdir(path):
        manifest = os.path.join(path, "manifest.json")
        raise UsageError(f"--config {path} is a folder: give a file, such as {manifest}")
    entries = _entries(read_flag_file("--config", path), path)
    for entry in entries:
        _check(entry, parser)
    typed = {_option_of(word) for word in words if word.startswith("--")}
    # Those with one letter, too.
    typed |= {name for name, each in OPTIONS.items() if getattr(given, name) != each.default_value}
    left = [entry for entry in entries if not _is_replaced(_option_of(f"--{entry.name}"), typed)]
    names = [entry.texts for entry in left if entry.texts]
    return [word for entry in left for word in entry.words], names[0] if names else None


def _canonical(word: str) -> str:
    """The name of a flag; that of an option if the flag is another name of it."""
    name = flag_name(word)[2:]
    return _OPTIONS[name].name if name in _OPTIONS else name


def _option_of(word: str) -> str:
    """The name of the option that a flag sets, under its former name, too."""
    name = _canonical(word)
    return FORMER[name][0] if name in FORMER else name


def _is_replaced(name: str, typed: set[str]) -> bool:
    """Whether the command line has this option, or the one that it is an alternative to."""
    mine = OPTIONS[name].conflicts if name in OPTIONS else ()
    others = [each for other in typed & {*OPTIONS} for each in OPTIONS[other].conflicts]
    return (
        name in typed
        or any(each.name in typed for each in mine if not each.values)
        or any(each.name == name for each in others if not each.values)
    )


def _check(entry: _Entry, parser: argparse.ArgumentParser) -> None:
    with refusing(UsageError, because=f"{entry.where}: "):
        rest = parser.parse_known_args(list(entry.words))[1]
        unknown, beams = find_unknown(rest, parser) if rest else ([], [])
    if unknown:
        hint = suggestion(f"--{entry.name}", flags_of(parser), beams)
        raise UsageError(f"{entry.where}: unknown option {entry.name!r}; {hint}")


def _entries(text: str, path: str) -> list[_Entry]:
    # YAML would read a manifest, too, but takes minutes for a large one.
    manifest: Any = None
    with contextlib.suppress(ValueError):
        manifest = parse_json(text)
    if isinstance(manifest, dict) and "format_version" in manifest:
        return list(_of_manifest(text, path))
    with refusing(ValueError, because=f"{path} "):
        root = parse_yaml(text)
    if root is None or root.value in ([], ""):
        raise UsageError(f"--config {path} is empty: write one option per line, such as seed: 1")
    return list(_of_yaml(root, path))


def _of_yaml(root: yaml.Node, path: str) -> Iterator[_Entry]:
    if not isinstance(root, yaml.MappingNode):
        raise UsageError(f"--config {path} holds no options: write one per line, such as seed: 1")
    lines: dict[str, int] = {}
    for key, value in root.value:
        line = key.start_mark.line + 1
        where = f"{path} line {line}"
        name = str(key.value) if isinstance(key, yaml.ScalarNode) else ""
        if not re.fullmatch(r"\w[\w-]*", name):
            raise UsageError(f"{where}: {name!r} is not the name of an option: write OPTION: VALUE")
        name = name.replace("-", "_")
        if name == "version":
            name = "dataset_version"
        if name in _OF_THE_COMMAND_LINE:
            raise UsageError(f"{where}: {name} is only possible on the command line")
        first = lines.setdefault(_canonical(f"--{name}"), line)
        if first != line:
            raise UsageError(f"{where}: {name} is set twice, first in line {first}: keep one")
        yield _entry(name, value, where)


def _entry(name: str, value: yaml.Node, where: str) -> _Entry:
    option = _OPTIONS.get(name)
    if value.tag == _NULL:
        raise UsageError(f"{where}: {name} has no value: give one, or leave the line out")
    if isinstance(value, yaml.MappingNode):
        if option is None or "=" not in (option.metavar or ""):
            raise UsageError(f"{where}: {name} takes {_expected(option)}, not names with values")
        pairs = [
            f"{_text(key, name, where)}={_text(each, name, where)}" for key, each in value.value
        ]
        return _Entry(name, [f"--{name}={','.join(pairs)}"], where)
    if isinstance(value, yaml.SequenceNode):
        return _list(name, option, [_text(each, name, where) for each in value.value], where)
    text = _text(value, name, where)
    is_true = text.lower() in _TRUE
    if option is not None and option.is_switch:
        if value.tag != _BOOL:
            raise UsageError(f"{where}: {name} is true or false, not {text!r}")
        return _Entry(name, [f"--{name}"] if is_true else [], where)
    if option is None and value.tag == _BOOL:
        # Beam has a flag of its own for what is off.
        return _Entry(name, [f"--{name}" if is_true else f"--no_{name}"], where)
    return _Entry(name, [f"--{name}={text}"], where)


def _list(name: str, option: Option | None, texts: Sequence[str], where: str) -> _Entry:
    if name == "class_names":
        if not texts or any(re.search(r"[\r\n]", text) or not text.strip() for text in texts):
            raise UsageError(f"{where}: class_names lists a name that is empty or has two lines")
        return _Entry(name, (), where, tuple(texts))
    if len(texts) > MAX_GLOBS:
        raise UsageError(f"{where}: {name} has {len(texts)} values, more than {MAX_GLOBS}")
    if option is None or option.is_repeatable:
        return _Entry(name, [f"--{name}={text}" for text in texts], where)
    if "," not in (option.metavar or ""):
        raise UsageError(f"{where}: {name} takes {_expected(option)}, not a list")
    return _Entry(name, [f"--{name}={','.join(texts)}"], where)


def _expected(option: Option | None) -> str:
    if option is None or option.is_repeatable:
        return "a value or a list of values"
    return "true or false" if option.is_switch else "one value"


def _text(node: yaml.Node, name: str, where: str) -> str:
    """A single value as it is written: `no` and `1e3` stay texts."""
    if not isinstance(node, yaml.ScalarNode):
        raise UsageError(f"{where}: {name} has values inside of a value")
    return str(node.value)


def _of_manifest(text: str, path: str) -> Iterator[_Entry]:
    """The options that a dataset was made with, as they were resolved."""
    with refusing(ManifestError, because="--config "):
        manifest = parse_manifest(text, path)
    for name, value in _recorded(manifest).items():
        option = OPTIONS[name]
        if name == "class_names":
            names = tuple(map(str, value))
            known = KnownClasses(names, {}, path, _category_ids(manifest, names, path))
            yield _Entry(name, (), path, known if _are_known(manifest) else names)
        else:
            values = value if option.is_repeatable else [value]
            written = (f"--{name}={_written(each, option)}" for each in values)
            yield _Entry(name, [f"--{name}"] if option.is_switch else [*written], path)


def _recorded(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a manifest that a command line needs; others follow from these."""
    options, inputs = manifest["options"], manifest["inputs"]
    given = {each["flag"] for each in manifest["decided"] if each["because"] == "given"}
    of_rows = options["key"] == "row"
    values = {
        name: value
        for name, value in options.items()
        if name in OPTIONS
        and value not in (None, False)
        and not (of_rows and OPTIONS[name].of_images)
    }
    if values.get("shard_size") == DEFAULT_SHARD_SIZE:
        # Also where another option gives the number of shards.
        del values["shard_size"]
    if values.get("quality") == DEFAULT_QUALITY and not options.get("reencode"):
        del values["quality"]
    follows = "--label_kind" not in given if _are_known(manifest) else "categories" in options
    if follows:
        # It follows from the names: given, it would make labels of missing cells, too.
        values.pop("label_kind", None)
    values |= unite(options)[0]
    if "--csv_delimiter" not in given:
        # Each file may have its own.
        values.pop("csv_delimiter", None)
    named = ("masks", "keys", "model", "model_weights")
    values |= {name: inputs[name] for name in named if inputs.get(name)}
    if inputs["images"]:
        # The columns of images in Parquet are in `record_features`, too.
        inside = images_in_parquet(".parquet", options.get("record_features"))
        values["images"] = [each.replace(inside, ".parquet") for each in inputs["images"]]
    if inputs["labels"]:
        values["labels"] = _one_glob(inputs["labels"], inputs.get("label_format", CSV))
    if "--root" in given or len(inputs["labels"]) > 1:
        values["root"] = manifest["root"] or "."
    return values


def _are_known(manifest: Mapping[str, Any]) -> bool:
    """Whether the class names are those of a dataset, which is not needed again."""
    return any(decision["what"] == KNOWN_CLASSES for decision in manifest["decided"])


def _category_ids(
    manifest: Mapping[str, Any], names: Sequence[str], path: str
) -> tuple[int, ...] | None:
    """The ids of class names, if categories of label files gave them."""
    ids = manifest["options"].get("categories")
    if ids is None:
        return None
    if set(ids) != set(names):
        raise UsageError(f"--config {path} was edited: its categories are not its class_names")
    return tuple(ids[name] for name in names)


def _one_glob(paths: Sequence[str], format_: str = CSV) -> str:
    """A glob that matches these files, or the files of these globs."""
    if format_ in FORMATS and FORMATS[format_].is_per_image:
        return paths[0] if len(paths) == 1 else f"{{{','.join(paths)}}}"
    common = os.path.commonprefix(list(paths)).rpartition("/")
    folder = "".join(common[:2])
    names = [glob.escape(path.removeprefix(folder)) for path in paths]
    return glob.escape(folder) + (names[0] if len(names) == 1 else f"{{{','.join(names)}}}")


def _written(value: Any, option: Option) -> str:
    if isinstance(value, int) and option.metavar == "SIZE":
        return f"{value}B"
    if isinstance(value, dict):
        return ",".join(f"{name}={each}" for name, each in value.items())
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
