"""The files of a data card: `README.md` and `croissant.json`."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from transforms.core.messages import (
    format_bytes,
    parse_json,
    parse_yaml,
    printable,
    quantity,
)
from transforms.core.option import alike
from transforms.dataset.dataset_options import (
    Card,
    check_text,
    hub_license,
    is_address,
    license_address,
)
from transforms.dataset.manifest import DataFile, manifest_shards
from transforms.dataset.output_names import CARD, CROISSANT, LABELS
from transforms.examples.layouts import MASK, Feature, Role
from transforms.examples.row_features import row_requirements
from transforms.labels.vocabulary import class_order

# Further properties of `croissant.json` that a user gives: creators, dates, responsible AI.
#
# The names are those of Croissant 1.0
# (https://docs.mlcommons.org/croissant/docs/croissant-spec.html) and of its extension for
# responsible AI (croissant-rai-spec.html).

Value: TypeAlias = "str | dict[str, str] | list[str | dict[str, str]]"

RAI = "rai:"
"""The prefix of properties about responsible AI."""

_AGENTS = ("creator", "publisher")
_DATES = ("datePublished", "dateCreated", "dateModified")
# The specification and its checker spell it in two ways; the checker wants dates: start and end.
_TIME_FRAMES = ("dataCollectionTimeFrame", "dataCollectionTimeframe")
_OTHERS = ("keywords", "inLanguage", "sameAs", "sdLicense")

# Properties that are filled from elsewhere, and from where.
_FILLED = {
    "name": "--name",
    "version": "--dataset_version",
    "description": "--description",
    "citeAs": "--citation",
    "citation": "--citation",
    "license": "--license",
    "url": "--homepage",
    **dict.fromkeys(
        ("@context", "@type", "@id", "conformsTo", "dct:conformsTo", "distribution", "recordSet"),
        "the dataset itself",
    ),
}

_RAI_NAMES = (
    *("annotationsPerItem", "annotatorDemographics", "dataAnnotationAnalysis"),
    *("dataAnnotationPlatform", "dataAnnotationProtocol", "dataBiases", "dataCollection"),
    *("dataCollectionMissingData", "dataCollectionRawData", *_TIME_FRAMES, "dataCollectionType"),
    *("dataImputationProtocol", "dataLimitations", "dataManipulationProtocol"),
    *("dataPreprocessingProtocol", "dataReleaseMaintenancePlan", "dataSocialImpact"),
    *("dataUseCases", "machineAnnotationTools", "personalSensitiveInformation"),
)

_NAMES = (*_AGENTS, *_DATES, *_OTHERS, *(f"{RAI}{name}" for name in _RAI_NAMES))


class PropertiesError(ValueError):
    """The properties cannot be used; the message is one line."""


def parse_properties(text: str) -> str:
    """The properties in a YAML or JSON text, as JSON that is the same for the same properties.

    Raises:
        PropertiesError: it is neither, or holds something that Croissant does not know.

    >>> parse_properties("creator: Ann Lee")
    '{"creator": {"@type": "sc:Person", "name": "Ann Lee"}}'
    """
    found = None
    # YAML reads no tabs, and an escaped emoji of JSON as two halves.
    with contextlib.suppress(ValueError):
        found = parse_json(text, parse_int=str, parse_float=str, parse_constant=str)
    try:
        found = parse_yaml(text, as_texts=True) if found is None else found
    except ValueError as error:
        raise PropertiesError(f"its text {error}") from error
    if not isinstance(found, dict) or not found:
        raise PropertiesError("it holds no properties: write one per line, such as creator: NAME")
    values = {_name(key): value for key, value in found.items()}
    made = {name: _checked(name, value) for name, value in sorted(values.items())}
    return json.dumps(made, ensure_ascii=False)


def properties_of(text: str) -> dict[str, Value]:
    """The properties in the result of `parse_properties`; none in an empty text."""
    return dict(json.loads(text)) if text else {}


def _name(key: object) -> str:
    """The name of a property, if it may be given."""
    name = str(key)
    if name in _FILLED:
        raise PropertiesError(f"{name!r} is filled from {_FILLED[name]}: leave it out")
    if name not in _NAMES:
        near = alike(name, _NAMES)
        own = ", ".join((*_AGENTS, *_DATES, *_OTHERS))
        hint = f"did you mean {near[0]}?" if near else f"it may be {own}, or one of {RAI}..."
        raise PropertiesError(f"{name!r:.100} is not a property that can be given; {hint}")
    return name


def _checked(name: str, value: Any) -> Value:
    """The value of a property, with the types of persons."""
    values = [_item(name, each) for each in (value if isinstance(value, list) else [value])]
    if not values:
        raise PropertiesError(f"{name!r} has no value")
    return values if isinstance(value, list) else values[0]


def _item(name: str, item: Any) -> str | dict[str, str]:
    """One value of a property."""
    if isinstance(item, Mapping) and name in (*_AGENTS, "sdLicense"):
        if not all(isinstance(text, str) for each in item.items() for text in each):
            raise PropertiesError(f"{name!r} has values inside of values")
        kind = {} if "@type" in item or name not in _AGENTS else {"@type": "sc:Person"}
        return {**kind, **{_text(name, key): _text(name, text) for key, text in item.items()}}
    if not isinstance(item, str):
        raise PropertiesError(f"{name!r} must be a text or a list of texts")
    item = _text(name, item)
    if name in _DATES or name.removeprefix(RAI) in _TIME_FRAMES:
        try:
            datetime.datetime.fromisoformat(item)
        except ValueError:
            wrong = f"{name!r} is {item!r:.100}, which is not a date such as 2026-01-31"
            raise PropertiesError(wrong) from None
    return {"@type": "sc:Person", "name": item} if name in _AGENTS else item


def _text(name: str, text: str) -> str:
    """A text that every file of the dataset can hold, without blanks around it."""
    if not text.strip():
        raise PropertiesError(f"{name!r} has an empty value")
    try:
        return check_text(text)
    except ValueError as error:
        raise PropertiesError(f"{name!r}: {error}") from error


# `croissant.json`: the dataset in the vocabulary of Croissant 1.0, which search engines read.
#
# No reader of Croissant knows TFRecord files. They are listed with their SHA-256, and the records
# are described by their index: those are Parquet files, which `mlcroissant` reads.

CONFORMS_TO = "http://mlcommons.org/croissant/1.0"
_CONFORMS_TO_RAI = "http://mlcommons.org/croissant/RAI/1.0"

RECORDS = "records"
"""The identifier of the only set of records."""

_INDEX = "index-files"
_PARQUET = "application/x-parquet"
_TFRECORD = "application/x-tfrecord"
_GZIP = "application/gzip"
_TEXT, _INTEGER = "sc:Text", "sc:Integer"

# That of the specification, with the two names that mlcroissant also expects.
_OF_CROISSANT = (
    *("citeAs", "column", "equivalentProperty", "extract", "field", "fileObject", "fileProperty"),
    *("fileSet", "format", "includes", "isLiveDataset", "jsonPath", "key", "md5", "parentField"),
    *("path", "recordSet", "references", "regex", "repeated", "replace", "samplingRate"),
    *("separator", "source", "subField", "transform"),
)
_CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "rai": "http://mlcommons.org/croissant/RAI/",
    "sc": "https://schema.org/",
    **{name: f"cr:{name}" for name in _OF_CROISSANT},
}


def croissant_json(
    card: Card,
    content: DatasetContent,
    *,
    data: Iterable[DataFile],
    indexes: Iterable[DataFile],
    labels: bytes,
) -> bytes:
    """The file; the same for the same dataset.

    Args:
        card: what its publisher says.
        content: of the dataset.
        data: the files of records, with their SHA-256 unless every record has a file of its own.
        indexes: of the shards.
        labels: the content of `labels.txt`.
    """
    further = properties_of(card.croissant)
    has_rai = any(name.startswith(RAI) for name in further)
    described: dict[str, Any] = {
        "@context": dict(sorted(_CONTEXT.items())),
        "@type": "sc:Dataset",
        "conformsTo": [CONFORMS_TO, _CONFORMS_TO_RAI] if has_rai else CONFORMS_TO,
        "name": card.name,
        "version": card.dataset_version,
        "description": card.description or content.summary(),
    }
    said = {
        "license": license_address(card.license),
        "citeAs": card.citation,
        "url": card.homepage,
        **further,
    }
    described |= {name: value for name, value in said.items() if value}
    table = "A table with a row for each record, in the order of the records."
    records = (
        _file(each.file, each.bytes, each.sha256, _GZIP if each.file.endswith(".gz") else _TFRECORD)
        for each in data
    )
    described["distribution"] = [
        *(records if content.in_shards else _folders(content)),
        *(_file(each.file, each.bytes, each.sha256, _PARQUET) for each in indexes),
        _file_set(_INDEX, table, _PARQUET, "index/*.parquet"),
        _file(LABELS, len(labels), hashlib.sha256(labels).hexdigest(), "text/plain"),
    ]
    described["recordSet"] = [_records(content)]
    return (json.dumps(described, indent=1, ensure_ascii=False) + "\n").encode()


def _folders(content: DatasetContent) -> Iterator[dict[str, Any]]:
    for name in content.splits:
        single = "A TFRecord file for each record."
        yield _file_set(f"{name}-files", single, _TFRECORD, f"{name}/*")


def _file(name: str, size: int, sha256: str, encoding: str) -> dict[str, Any]:
    content = {"contentSize": f"{size} B", "encodingFormat": encoding, "sha256": sha256}
    return _node("FileObject", name, contentUrl=name, **content)


def _file_set(name: str, description: str, encoding: str, includes: str) -> dict[str, Any]:
    content = {"description": description, "encodingFormat": encoding, "includes": includes}
    return _node("FileSet", name, **content)


def _node(kind: str, name: str, **content: Any) -> dict[str, Any]:
    return {"@type": f"cr:{kind}", "@id": name, "name": name, **content}


def _records(content: DatasetContent) -> dict[str, Any]:
    key = {} if content.of_rows else {"key": {"@id": f"{RECORDS}/key"}}
    place = ": record R of the file SHARD" if content.in_shards else ""
    described = f"The records, as the index describes them{place}."
    fields = [_field(*each) for each in _fields(content)]
    return _node("RecordSet", RECORDS, description=described, **key, field=fields)


def _fields(content: DatasetContent) -> Iterable[tuple[str, str, str, bool]]:
    """Name, type and meaning of each column, and whether it holds lists."""
    yield "key", _TEXT, "Name of the record.", False
    if not content.of_rows:
        yield "split", _TEXT, "Split of the record.", False
        if content.classes:
            many = row_requirements(content.features).many_labels
            yield "label", _TEXT, "Label of the image.", many
            yield "label_id", _INTEGER, "Class id of the label.", many
        yield "path", _TEXT, "Path of the original image.", False
        yield "format", _TEXT, "Format of the stored image.", False
        yield "height", _INTEGER, "Height of the stored image in pixels.", False
        yield "width", _INTEGER, "Width of the stored image in pixels.", False
        yield "channels", _INTEGER, "Channels of the stored image.", False
    if content.in_shards:
        yield "shard", _TEXT, "File that holds the record.", False
        yield "record", _INTEGER, "Number of the record in its file, from 0.", False
    if content.in_shards and content.has_offsets:
        yield "offset", _INTEGER, "First byte of the record in its file.", False
    yield "length", _INTEGER, "Bytes of the data of the record.", False


def _field(name: str, kind: str, meaning: str, is_list: bool) -> dict[str, Any]:
    return {
        "@type": "cr:Field",
        "@id": f"{RECORDS}/{name}",
        "name": name,
        "description": meaning,
        "dataType": kind,
        **({"repeated": True} if is_list else {}),
        "source": {"fileSet": {"@id": _INDEX}, "extract": {"column": name}},
    }


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
    data: Sequence[DataFile],
    indexes: Sequence[DataFile],
    labels: bytes,
    *,
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
