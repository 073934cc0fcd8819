"""A row of the table of `test_decided.py`: inputs, flags, and what is printed and comes out."""

import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import tensorflow as tf

from tests.conftest import draw
from tests.pipeline.commands import Dataset, Ran

SLIM = ("image/filename", "image/class/label", "image/class/text")

_CSV = """
labels from csv --labels is given [--label_from]
label column 'label' a usual name for the label [--label_column]
"""
_TEXTS = """
splits from hash of the key shares train=1 [--splits]
labels text, 2 classes 'cat' is not an integer [--label_kind]
class ids 0 to 1 count the sorted labels [--class_names]
"""
_IMAGES = "root p the folder that all of --images share [--root]"
FOLDERS = f"""{_TEXTS}{_IMAGES}
labels from directory the images are in several folders [--label_from]
key path default without --labels [--key]
"""
LABELLED = f"""{_CSV}{_TEXTS}{_IMAGES}
key column 'id' a usual name for the key [--label_key]
key stem default with --labels and --images [--key]
"""
LISTED = f"""{_CSV}{_TEXTS}
key column 'path' a usual name for the key [--label_key]
key path default without --images [--key]
root . the folder of --labels [--root]
"""
"""What is usually decided: about images in folders, about images and their labels in a CSV, and
about a CSV that lists its images."""

_ORDER = (
    "labels from, extensions, separator, key column, key cells, label column, box columns, "
    "box form, box marks, box units, boxes are of, type of, key, splits from, empty splits, root, "
    "images, left out, labels, class ids, missing labels, unknown labels"
).split(", ")


class Row(NamedTuple):
    """Odd inputs, and what the tool makes of them.

    Attributes:
        name: of the case.
        images: paths, separated by spaces; a small picture is drawn for each.
        csvs: text of other files, by path.
        flags: as on a command line; `--output` is added.
        decided: the block that `plan` and `convert` print, without its title.
        records: a line `SPLIT VALUE VALUE ...` for each record, sorted.
        shown: the features whose values these lines have.
        features: lines `NAME TYPE` of some features, as the manifest lists them.
        warnings: a line for each warning that is printed below the block.
    """

    name: str
    images: str
    csvs: Mapping[str, str]
    flags: str
    decided: str
    records: str
    shown: tuple[str, ...] = SLIM
    features: str = ""
    warnings: str = ""


def row(
    name: str,
    images: str,
    csvs: Mapping[str, str],
    flags: str,
    decided: str,
    records: str,
    **more: Any,
) -> Row:
    """A row that says what is decided otherwise than usual, `no WHAT` for what is not decided.

    Its records are separated by ` | `.
    """
    usual = LABELLED if "--images" in flags else LISTED
    usual = usual if "--labels" in flags else FOLDERS
    lines = {_what(line): [line] for line in lines_of(usual) if line}
    said: dict[str, list[str]] = {}
    for line in filter(None, lines_of(decided)):
        if line.startswith("no "):
            for what in line.removeprefix("no ").split(", "):
                del lines[what]
        else:
            said.setdefault(_what(line), []).append(line)
    lines |= said
    block = "\n".join(line for what in _ORDER for line in lines.get(what, ()))
    return Row(name, images, csvs, flags, block, records.replace(" | ", "\n"), **more)


def _what(line: str) -> str:
    """What a line is about: the longest of the names that it begins with."""
    return max((what for what in _ORDER if line.startswith(f"{what} ")), key=len)


def few(of: int, **counts: int) -> str:
    """The warnings about small splits."""
    too_few = "fewer than 10 are too few to measure anything"
    return "\n".join(
        f"the split '{split}' has only {count} of {of} images: {too_few}"
        for split, count in counts.items()
    )


def lacking(**classes: str) -> str:
    """The warnings about splits in which one of two classes has no image."""
    return "\n".join(
        f"the split '{split}' has no image of 1 of 2 classes ('{name}')"
        for split, name in classes.items()
    )


def write_row(row: Row, folder: Path) -> None:
    """Writes the inputs of a row."""
    for seed, name in enumerate(row.images.split()):
        draw(folder / name, seed=seed)
    for name, text in row.csvs.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")


def words(row: Row) -> list[str]:
    """The flags of a row as words."""
    return shlex.split(row.flags)


def block(ran: Ran) -> list[str]:
    """The lines of all blocks "Decided" that a command printed, stripped."""
    found: list[str] = []
    is_inside = False
    for line in ran.out.splitlines():
        is_inside = line == "Decided" or (is_inside and line.startswith("  "))
        if is_inside and line != "Decided":
            found.append(line.strip())
    return found


def warnings(ran: Ran) -> list[str]:
    """The texts of the warnings that a command printed."""
    return [line[9:] for line in ran.out.splitlines() if line.startswith("warning  ")]


def lines_of(text: str) -> list[str]:
    """The lines of an indented text of the table, stripped."""
    return [line.strip() for line in text.strip().splitlines()]


def records(dataset: Dataset, shown: Iterable[str]) -> list[str]:
    """A line `SPLIT VALUE ...` for each record of a dataset, sorted."""
    return sorted(
        " ".join([split, *(_text(example, name) for name in shown)])
        for split in dataset.manifest["splits"]
        for example in _examples(dataset, split)
    )


def _examples(dataset: Dataset, split: str) -> list[tf.train.Example]:
    paths = [str(dataset.folder / name) for name in dataset.shards(split)]
    return [
        tf.train.Example.FromString(text)
        for text in tf.data.TFRecordDataset(paths).as_numpy_iterator()
    ]


def _text(example: tf.train.Example, name: str) -> str:
    """The values of a feature; `-` when there is none."""
    if name not in example.features.feature:
        return "-"
    feature = example.features.feature[name]
    kind = feature.WhichOneof("kind")
    values: list[Any] = [] if kind is None else list(getattr(feature, kind).value)
    texts = (
        value.decode()
        if isinstance(value, bytes)
        else f"{value:.6g}"
        if kind == "float_list"
        else str(value)
        for value in values
    )
    return ",".join(texts) or "-"


def features(dataset: Dataset) -> set[str]:
    """Lines `NAME TYPE` of all features of a dataset."""
    return {f"{each['name']} {each['dtype']}" for each in dataset.manifest["features"]}
