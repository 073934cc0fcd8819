"""Croissant metadata."""

from __future__ import annotations

import contextlib
import datetime
import difflib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from transforms.dataset.dataset_card import Card, check_text, license_address

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
    "annotationsPerItem",
    "annotatorDemographics",
    "dataAnnotationAnalysis",
    "dataAnnotationPlatform",
    "dataAnnotationProtocol",
    "dataBiases",
    "dataCollection",
    "dataCollectionMissingData",
    "dataCollectionRawData",
    *_TIME_FRAMES,
    "dataCollectionType",
    "dataImputationProtocol",
    "dataLimitations",
    "dataManipulationProtocol",
    "dataPreprocessingProtocol",
    "dataReleaseMaintenancePlan",
    "dataSocialImpact",
    "dataUseCases",
    "machineAnnotationTools",
    "personalSensitiveInformation",
)

_NAMES = (*_AGENTS, *_DATES, *_OTHERS, *(f"{RAI}{name}" for name in _RAI_NAMES))

# From 0 to 1.
_ALIKE = 0.7


class PropertiesError(ValueError):
    """The properties cannot be used; the message is one line."""


def parse_properties(text: str) -> str:
    """The properties in a YAML or JSON text, as JSON that is the same for the same properties.

    Raises:
        PropertiesError: it is neither, or holds something that Croissant does not know.

    >>> parse_properties("creator: Ann Lee")
    '{"creator": {"@type": "sc:Person", "name": "Ann Lee"}}'
    """
    # Few datasets need it.
    import yaml

    try:
        found = _loaded(text)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise PropertiesError(f"line {line}: invalid YAML: {error.problem}") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise PropertiesError("it is neither YAML nor JSON") from error
    if not isinstance(found, dict) or not found:
        raise PropertiesError("it holds no properties: write one per line, such as creator: NAME")
    values = {_name(key): value for key, value in found.items()}
    made = {name: _checked(name, value) for name, value in sorted(values.items())}
    return json.dumps(made, ensure_ascii=False)


def _loaded(text: str) -> Any:
    """The content of a YAML or JSON text; dates and numbers stay texts."""
    import yaml

    if text.lstrip().startswith("{"):
        # YAML reads no tabs, and an escaped emoji of JSON as two halves.
        with contextlib.suppress(ValueError):
            return json.loads(text, parse_int=str, parse_float=str, parse_constant=str)
    return yaml.load(text, Loader=yaml.BaseLoader)


def properties_of(text: str) -> dict[str, Value]:
    """The properties in the result of `parse_properties`; none in an empty text."""
    return dict(json.loads(text)) if text else {}


def _name(key: object) -> str:
    """The name of a property, if it may be given."""
    name = str(key)
    if name in _FILLED:
        raise PropertiesError(f"{name!r} is filled from {_FILLED[name]}: leave it out")
    if name not in _NAMES:
        near = difflib.get_close_matches(name, _NAMES, n=1, cutoff=_ALIKE)
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
        _check_date(name, item)
    return {"@type": "sc:Person", "name": item} if name in _AGENTS else item


def _text(name: str, text: str) -> str:
    """A text that every file of the dataset can hold, without blanks around it."""
    if not text.strip():
        raise PropertiesError(f"{name!r} has an empty value")
    try:
        return check_text(text)
    except ValueError as error:
        raise PropertiesError(f"{name!r}: {error}") from error


def _check_date(name: str, text: str) -> None:
    try:
        datetime.datetime.fromisoformat(text)
    except ValueError:
        raise PropertiesError(
            f"{name!r} is {text!r:.100}, which is not a date such as 2026-01-31"
        ) from None


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
_CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}


class HashedFile(NamedTuple):
    """A file of a dataset.

    Attributes:
        name: its path below the dataset's folder.
        bytes: its size.
        sha256: of its content, 64 hexadecimal digits.
    """

    name: str
    bytes: int
    sha256: str


class IndexColumns(NamedTuple):
    """The columns of the index that have values.

    Attributes:
        of_rows: whether records are made of rows: only their places and keys are known.
        labelled: whether records have labels.
        many_labels: whether a record may have several.
        has_offsets: whether the records in a file can be read alone.
        in_shards: whether a file holds more than one record. Otherwise an index is that of a group
            of files, and names no file.
    """

    of_rows: bool = False
    labelled: bool = True
    many_labels: bool = False
    has_offsets: bool = True
    in_shards: bool = True


def croissant_json(
    card: Card,
    *,
    summary: str,
    shards: Sequence[HashedFile],
    folders: Iterable[str],
    indexes: Sequence[HashedFile],
    labels: HashedFile,
    columns: IndexColumns,
) -> bytes:
    """The file; the same for the same dataset.

    Args:
        card: what its publisher says.
        summary: one sentence, if that is nothing.
        shards: empty if every record has a file of its own.
        folders: those of such files, below the dataset's folder.
        indexes: of the shards.
        labels: the file of the class names.
        columns: of the indexes.
    """
    further = properties_of(card.croissant)
    described: dict[str, Any] = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": _conforms_to(further),
        "name": card.name,
        "version": card.dataset_version,
        "description": card.description or summary,
    }
    said = {
        "license": license_address(card.license),
        "citeAs": card.citation,
        "url": card.homepage,
        **further,
    }
    described |= {name: value for name, value in said.items() if value}
    described["distribution"] = [
        *(_file(shard, _GZIP if shard.name.endswith(".gz") else _TFRECORD) for shard in shards),
        *(_files_of(folder) for folder in folders),
        *(_file(index, _PARQUET) for index in indexes),
        {
            "@type": "cr:FileSet",
            "@id": _INDEX,
            "name": _INDEX,
            "description": "A table with a row for each record, in the order of the records.",
            "encodingFormat": _PARQUET,
            "includes": "index/*.parquet",
        },
        _file(labels, "text/plain"),
    ]
    described["recordSet"] = [_records(columns)]
    return (json.dumps(described, indent=1, ensure_ascii=False) + "\n").encode()


def _conforms_to(further: dict[str, Value]) -> str | list[str]:
    has_rai = any(name.startswith(RAI) for name in further)
    return [CONFORMS_TO, _CONFORMS_TO_RAI] if has_rai else CONFORMS_TO


def _file(file: HashedFile, encoding: str) -> dict[str, Any]:
    return {
        "@type": "cr:FileObject",
        "@id": file.name,
        "name": file.name,
        "contentUrl": file.name,
        "contentSize": f"{file.bytes} B",
        "encodingFormat": encoding,
        "sha256": file.sha256,
    }


def _files_of(folder: str) -> dict[str, Any]:
    return {
        "@type": "cr:FileSet",
        "@id": f"{folder}-files",
        "name": f"{folder}-files",
        "description": "A TFRecord file for each record.",
        "encodingFormat": _TFRECORD,
        "includes": f"{folder}/*",
    }


def _records(columns: IndexColumns) -> dict[str, Any]:
    key = {} if columns.of_rows else {"key": {"@id": f"{RECORDS}/key"}}
    place = ": record R of the file SHARD" if columns.in_shards else ""
    return {
        "@type": "cr:RecordSet",
        "@id": RECORDS,
        "name": RECORDS,
        "description": f"The records, as the index describes them{place}.",
        **key,
        "field": [_field(*each) for each in _fields(columns)],
    }


def _fields(columns: IndexColumns) -> Iterable[tuple[str, str, str, bool]]:
    """Name, type and meaning of each column, and whether it holds lists."""
    yield "key", _TEXT, "Name of the record.", False
    if not columns.of_rows:
        yield "split", _TEXT, "Split of the record.", False
        if columns.labelled:
            yield "label", _TEXT, "Label of the image.", columns.many_labels
            yield "label_id", _INTEGER, "Class id of the label.", columns.many_labels
        yield "path", _TEXT, "Path of the original image.", False
        yield "format", _TEXT, "Format of the stored image.", False
        yield "height", _INTEGER, "Height of the stored image in pixels.", False
        yield "width", _INTEGER, "Width of the stored image in pixels.", False
        yield "channels", _INTEGER, "Channels of the stored image.", False
    if columns.in_shards:
        yield "shard", _TEXT, "File that holds the record.", False
        yield "record", _INTEGER, "Number of the record in its file, from 0.", False
    if columns.in_shards and columns.has_offsets:
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
