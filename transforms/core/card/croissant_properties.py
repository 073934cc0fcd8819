"""Further properties of `croissant.json` that a user gives: creators, dates, responsible AI.

The names are those of Croissant 1.0 (https://docs.mlcommons.org/croissant/docs/croissant-spec.html)
and of its extension for responsible AI (croissant-rai-spec.html).
"""

from __future__ import annotations

import contextlib
import datetime
import difflib
import json
from collections.abc import Mapping
from typing import Any, TypeAlias

from transforms.core.card.dataset_card import check_text

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
