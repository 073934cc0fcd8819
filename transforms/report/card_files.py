"""The files of a data card."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from transforms.core.messages import format_bytes, printable, quantity
from transforms.dataset.dataset_card import Card, hub_license, is_address
from transforms.dataset.manifest import DataFile, manifest_shards
from transforms.dataset.output_names import CARD, CROISSANT
from transforms.examples.layouts import MASK, Feature, Role
from transforms.examples.row_features import row_requirements
from transforms.labels.vocabulary import class_order
from transforms.report.croissant import croissant_json

# `README.md` of a dataset: the card that the Hugging Face Hub shows, and people read.

# More would be as long as the text of the dataset.
_MAX_CLASS_NAME = 80


class DatasetContent(NamedTuple):
    """The content of a dataset.

    Attributes:
        splits: in their order, as the manifest has them.
        features: of the Examples.
        rejected: left out inputs of each reason.
        changed: images of each change to the pixels.
        of_rows: whether records are made of rows, without images.
        in_shards: whether a file holds more than one record.
        has_tfds: whether TensorFlow Datasets reads it.
        has_offsets: whether single records can be read alone.
    """

    splits: Mapping[str, Mapping[str, Any]]
    features: Sequence[Feature]
    rejected: Mapping[str, int]
    changed: Mapping[str, int]
    of_rows: bool = False
    in_shards: bool = True
    has_tfds: bool = True
    has_offsets: bool = True

    @property
    def records(self) -> int:
        """All records."""
        return sum(split["records"] for split in self.splits.values())

    @property
    def filled_splits(self) -> Iterator[str]:
        """The names of those with records."""
        return (name for name, split in self.splits.items() if split["records"])

    @property
    def classes(self) -> list[str]:
        """All labels, in order."""
        found = {name for split in self.splits.values() for name in split["classes"]} - {""}
        return sorted(found, key=class_order)

    @property
    def has_many_labels(self) -> bool:
        """Whether a record may have several labels."""
        return row_requirements(self.features).many_labels

    def summary(self) -> str:
        """One sentence."""
        unit = "record" if self.of_rows else "image"
        classes = len(self.classes)
        of_classes = f" of {quantity(classes, 'class', 'classes')}" if classes else ""
        splits = quantity(len(self.splits), "split")
        names = ", ".join(self.splits)
        return f"{quantity(self.records, unit)}{of_classes} as TFRecords, in {splits} ({names})."


def card_text(card: Card, content: DatasetContent) -> bytes:
    """The file; the same for the same dataset, with no date and no path of a machine."""
    # Few datasets need them.
    import jinja2
    import yaml

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "report_page"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"bytes": format_bytes, "type": _type}
    environment.filters |= {"cell": _cell, "escaped": _escaped, "fenced": _fenced}
    environment.tests["address"] = is_address
    text = environment.get_template("card.md.jinja").render(
        card=card,
        content=content,
        header=yaml.safe_dump(
            _header(card, content), sort_keys=False, allow_unicode=True, width=1 << 16
        ),
        title=_title(card),
        classes=content.classes,
        first=next(content.filled_splits, "train"),
    )
    return f"{text.rstrip()}\n".encode()


def _header(card: Card, content: DatasetContent) -> dict[str, Any]:
    """The fields that the Hub reads."""
    header: dict[str, Any] = {"pretty_name": _title(card)}
    if card.license:
        known = hub_license(card.license)
        header["license"] = known or "other"
        if not known:
            is_link = is_address(card.license)
            header["license_link" if is_link else "license_name"] = card.license
    if task := _task(content.features):
        header["task_categories"] = [task]
    header["size_categories"] = [_size_category(content.records)]
    header["tags"] = ["tfrecord"]
    # Otherwise the Hub would take all JSON and Parquet files for data.
    header["configs"] = [
        {
            "config_name": "default",
            "data_files": [
                {"split": name, "path": f"index/{name}-*.parquet"} for name in content.filled_splits
            ],
        }
    ]
    return header


def _title(card: Card) -> str:
    return card.name.replace("_", " ").strip().title()


def _task(features: Sequence[Feature]) -> str:
    """The task of the Hub that a dataset is for; empty if it is not known."""
    roles = {feature.role for feature in features}
    if not roles & {Role.IMAGE, Role.PIXELS}:
        return ""
    has_mask = any(feature.source.startswith(f"{MASK}.") for feature in features)
    if Role.OBJECT_MASK in roles or (has_mask and Role.COORDINATE not in roles):
        return "image-segmentation"
    if Role.COORDINATE in roles:
        return "object-detection"
    return "image-classification" if roles & {Role.CLASS_ID, Role.CLASS_TEXT} else ""


def _size_category(records: int) -> str:
    """The Hub's category of a number of records.

    >>> _size_category(999), _size_category(1000), _size_category(2_000_000_000_000)
    ('n<1K', '1K<n<10K', 'n>1T')
    """
    names = ["1K", "10K", "100K", "1M", "10M", "100M", "1B", "10B", "100B", "1T"]
    at = len(str(records)) - 3
    if at < 1:
        return "n<1K"
    return f"{names[at - 1]}<n<{names[at]}" if at < len(names) else "n>1T"


def _type(feature: Feature) -> str:
    if feature.encoding:
        shape = " × ".join(map(str, feature.shape or ())) or "height × width × channels"
        return f"`bytes`: {feature.encoding}, {shape}"
    if feature.is_list:
        return f"list of `{feature.dtype}`"
    shape = " × ".join(map(str, feature.shape or ()))
    return f"`{feature.dtype}`{f', {shape}' if shape else ''}"


def _cell(text: str) -> str:
    """A text from the data, in a cell of a table."""
    shown = printable(text)
    if len(shown) > _MAX_CLASS_NAME:
        shown = f"{shown[: _MAX_CLASS_NAME - 1]}…"
    return _escaped(shown)


def _escaped(text: str) -> str:
    """A text in which no character is one of Markdown or HTML."""
    return "".join(f"\\{each}" if each in "\\`*_[]<>|#~$&" else each for each in text)


def _fenced(text: str) -> str:
    """A block of code, maybe of BibTeX; its fence is longer than any in the text."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{'bibtex' if text.startswith('@') else ''}\n{text}\n{fence}"


# CardFiles: `README.md` and `croissant.json` of a dataset with a name.


def card_files(
    card: Card,
    manifest: Mapping[str, Any],
    *,
    data: Sequence[DataFile],
    indexes: Sequence[DataFile],
    labels: bytes,
    has_tfds: bool,
) -> dict[str, bytes]:
    """The files by name.

    Args:
        card: what its publisher says about the dataset.
        manifest: of the dataset.
        data: the files of records, with their SHA-256s.
        indexes: of the shards.
        labels: the content of `labels.txt`.
        has_tfds: whether TensorFlow Datasets reads it.
    """
    options = manifest["options"]
    content = DatasetContent(
        splits=manifest["splits"],
        features=[Feature.from_manifest(each) for each in manifest["features"]],
        rejected=manifest["rejected"],
        changed=manifest.get("pixels", {}),
        of_rows=options.get("key") == "row",
        in_shards=options.get("files") != "per_image",
        has_tfds=has_tfds,
        has_offsets=not any(shard["file"].endswith(".gz") for shard in manifest_shards(manifest)),
    )
    croissant = croissant_json(card, content, data=data, indexes=indexes, labels=labels)
    return {CARD: card_text(card, content), CROISSANT: croissant}
