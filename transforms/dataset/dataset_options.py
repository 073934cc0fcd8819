"""The options of the dataset's folder, its files and its card."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from transforms.core.option import (
    Group,
    Need,
    as_it_is,
    if_any,
    not_empty,
    option,
)
from transforms.dataset.output_names import DEFAULT_FILE_NAME, FILE_ENDING, FILES, check_file_name
from transforms.examples.layouts import EmbeddingOptions, LayoutOptions
from transforms.images.pixel_options import CheckOptions, PixelOptions
from transforms.labels.label_options import InputOptions, ShardOptions, SplitOptions
from transforms.labels.shards import ShardPlan

# The card of a dataset: name, version and what its publisher says about it.
#
# Its fields are options of the command line, by the same names. They decide files next to the
# shards, and no record: shards of datasets that differ in nothing else have the same recipes.

DEFAULT_VERSION = "1.0.0"

# What `tfds.load` finds as a folder: it turns other names into these.
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_VERSION = re.compile(r"(?:0|[1-9][0-9]*)(?:\.(?:0|[1-9][0-9]*)){2}")
_WEB_ADDRESS = re.compile(r"""https?://[^\s/<>"]+[^\s<>"]*""", re.IGNORECASE)


class Card(NamedTuple):
    """What is said about a dataset; a text is empty if nothing is said.

    Attributes:
        name: in lower case, with digits and `_`.
        dataset_version: three numbers.
        description: text or Markdown.
        citation: how to cite it, usually BibTeX.
        license: an SPDX identifier, a web address, or a text.
        homepage: a web address.
        croissant: further properties of `croissant.json`, as JSON, see `parse_properties`.
    """

    name: str
    dataset_version: str = DEFAULT_VERSION
    description: str = ""
    citation: str = ""
    license: str = ""
    homepage: str = ""
    croissant: str = ""


def card_of(options: Mapping[str, Any]) -> Card | None:
    """The card among the options of a dataset; None for one without a name.

    >>> card_of({"name": "pets", "license": "MIT", "seed": 0})._asdict()["dataset_version"]
    '1.0.0'
    """
    if not options.get("name"):
        return None
    return Card(**{field: options[field] for field in Card._fields if field in options})


def record_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that decide records, in their order: all but those of the card.

    >>> record_options({"name": "pets", "seed": 0})
    {'seed': 0}
    """
    return {name: value for name, value in options.items() if name not in Card._fields}


def check_name(text: str) -> str:
    """The name of a dataset.

    Raises:
        ValueError: `tfds.load` would not find a dataset of this name.
    """
    if _NAME.fullmatch(text):
        return text
    near = re.sub("[^a-z0-9]+", "_", text.lower()).strip("_").lstrip("0123456789_")
    hint = f", such as {near}" if near else ""
    raise ValueError(f"{text!r:.100} is not a name: use a-z, 0-9 and _, beginning with a-z{hint}")


def check_version(text: str) -> str:
    """The version of a dataset.

    Raises:
        ValueError: TensorFlow Datasets does not read it.
    """
    if _VERSION.fullmatch(text):
        return text
    raise ValueError(f"{text!r:.100} is not a version: write three numbers, such as 1.2.0")


def check_homepage(text: str) -> str:
    """The address of a web page, without blanks around it.

    Raises:
        ValueError: it is something else.
    """
    stripped = check_text(text)
    if is_address(stripped):
        return stripped
    raise ValueError(f"{text!r:.100} is not a web address, such as https://example.org/pets")


def is_address(text: str) -> bool:
    """Whether a text is a web address."""
    return _WEB_ADDRESS.fullmatch(text) is not None


def check_text(text: str) -> str:
    r"""A text of any length, without blanks around it.

    Raises:
        ValueError: it is blank, not valid UTF-8, or holds control characters.

    >>> check_text(" two\nlines ")
    'two\nlines'
    """
    stripped = text.strip()
    if not stripped:
        raise ValueError("it is blank: give a text, or leave the flag out")
    for character in stripped:
        if "\ud800" <= character <= "\udfff":
            raise ValueError(f"{stripped[:40]!r} is not valid UTF-8")
        if (character < " " and character not in "\t\r\n") or "\x7f" <= character <= "\x9f":
            raise ValueError(f"{stripped[:40]!r} holds the control character {character!r}")
    return stripped.replace("\r\n", "\n").replace("\r", "\n")


# Identifiers of licenses: the Hugging Face Hub and SPDX write the same license differently.

# Those of data, by the identifier of the Hub: that of SPDX, mostly in lower case.
_SPDX = {
    each.lower(): each
    for each in (
        "Apache-2.0 BSD-2-Clause BSD-3-Clause CC0-1.0 CC-BY-2.0 CC-BY-2.5 CC-BY-3.0 CC-BY-4.0"
        " CC-BY-SA-3.0 CC-BY-SA-4.0 CC-BY-NC-2.0 CC-BY-NC-3.0 CC-BY-NC-4.0 CC-BY-ND-4.0"
        " CC-BY-NC-ND-3.0 CC-BY-NC-ND-4.0 CC-BY-NC-SA-2.0 CC-BY-NC-SA-3.0 CC-BY-NC-SA-4.0"
        " CDLA-Permissive-1.0 CDLA-Permissive-2.0 CDLA-Sharing-1.0 MIT Unlicense"
    ).split()
} | {"c-uda": "C-UDA-1.0", "odbl": "ODbL-1.0", "odc-by": "ODC-By-1.0", "pddl": "PDDL-1.0"}
_HUB = {spdx.lower(): hub for hub, spdx in _SPDX.items()}
_CREATIVE_COMMONS = re.compile(
    r"https?://creativecommons\.org/(?:licenses/(by(?:-[a-z]+)*)/([0-9.]+)"
    r"|publicdomain/(zero)/1\.0)(?:/(?:deed(?:\.\w+)?|legalcode(?:\.\w+)?)?)?",
    re.IGNORECASE,
)


def hub_license(text: str) -> str:
    """The identifier that the Hugging Face Hub has for a license; empty if it has none.

    Args:
        text: an identifier of SPDX or of the Hub in any case, or an address of Creative Commons.

    >>> hub_license("CC-BY-4.0"), hub_license("ODbL-1.0"), hub_license("ask Ann")
    ('cc-by-4.0', 'odbl', '')
    >>> hub_license("https://creativecommons.org/licenses/by-nc/4.0/")
    'cc-by-nc-4.0'
    """
    if found := _CREATIVE_COMMONS.fullmatch(text):
        text = "cc0-1.0" if found[3] else f"cc-{found[1]}-{found[2]}"
    text = text.lower()
    return text if text in _SPDX else _HUB.get(text, "")


def license_address(text: str) -> str:
    """The web address of a license, which Croissant wants; the text itself if none is known.

    >>> license_address("cc-by-4.0"), license_address("ask Ann")
    ('https://spdx.org/licenses/CC-BY-4.0.html', 'ask Ann')
    """
    if is_address(text):
        return text
    known = hub_license(text)
    return f"https://spdx.org/licenses/{_SPDX[known]}.html" if known else text


# The options of the folder, the files and the card.


@dataclasses.dataclass(frozen=True)
class DatasetOptions(Group, title="output"):
    """The folder of the dataset."""

    output: str = option(
        metavar="DIR",
        is_usual=True,
        help="folder of the dataset",
        is_required=True,
        is_path=True,
    )
    overwrite: bool = option(
        is_switch=True,
        is_usual=True,
        help="replace an existing dataset",
    )


@dataclasses.dataclass(frozen=True)
class FileOptions(Group, title="shards", recorded=as_it_is):
    """The files that hold the records."""

    files: str = option(
        "sharded",
        choices=FILES,
        help="shards, or one file per image, named after its key",
        of_images=True,
    )
    compression: str = option(
        "none",
        choices=("none", "gzip"),
        help="compression of the shards",
    )
    file_name: str | None = option(
        metavar="NAME",
        parse=check_file_name,
        help="names of the shards, of {split}, {shard:05d} and {shards:05d}, or of the files of "
        f"images, as {{label}}/{{stem}}.tfrecords; if omitted: {DEFAULT_FILE_NAME}",
        regex=f"^[^/]+(/[^/]+)?{FILE_ENDING}$",
        recorded=if_any,
    )

    @property
    def gzip(self) -> bool:
        """Whether shards are compressed."""
        return self.compression == "gzip"

    @property
    def per_image(self) -> bool:
        """Whether every image gets a file of its own."""
        return self.files == "per_image"


def shard_plan(
    shards: ShardOptions, files: FileOptions, splits: Iterable[str] = (), partners: int = 0
) -> ShardPlan:
    """How the dataset is cut into shards.

    Args:
        shards: the options of shards.
        files: the options of files.
        splits: their names, if they are known before all rows are read.
        partners: the number of masks and further images of each image.
    """
    return ShardPlan(
        tuple(splits),
        shards.size,
        shards.num_shards,
        files.gzip,
        files.per_image,
        partners,
        shards.shard_by == "records",
        files.file_name or "",
    )


_WITH_NAME = Need("--name NAME")
_NUMBER = "(0|[1-9][0-9]*)"
# Also of several lines, which a point would not match.
_TEXT = "^[^ ]([^ ]| )*$"


@dataclasses.dataclass(frozen=True)
class CardOptions(Group, title="card", needs=(_WITH_NAME,), recorded=if_any):
    """What is said about the dataset."""

    name: str | None = option(
        metavar="NAME",
        parse=check_name,
        needs=(),
        help="name of the dataset: adds README.md, croissant.json and the name that tfds.load uses",
        regex="^[a-z][a-z0-9_]*$",
    )
    dataset_version: str | None = option(
        metavar="X.Y.Z",
        parse=check_version,
        help=f"version of the dataset, also as --version X.Y.Z; if omitted: {DEFAULT_VERSION}",
        regex=f"^{_NUMBER}[.]{_NUMBER}[.]{_NUMBER}$",
        template_help=f"version of the dataset; if omitted: {DEFAULT_VERSION}",
    )
    description: str | None = option(
        metavar="TEXT",
        parse=check_text,
        help="what the dataset is, as text or Markdown",
        regex=_TEXT,
    )
    citation: str | None = option(
        metavar="TEXT",
        parse=check_text,
        help="how to cite the dataset, such as BibTeX",
        regex=_TEXT,
    )
    license: str | None = option(
        metavar="LICENSE",
        parse=check_text,
        help="license of the dataset: an SPDX identifier (CC-BY-4.0), a web address or a text",
        regex=_TEXT,
    )
    homepage: str | None = option(
        metavar="URL",
        parse=check_homepage,
        help="web page of the dataset",
        regex="^https?://[^ /]+[^ ]*$",
    )
    croissant: str | None = option(
        metavar="FILE|JSON",
        parse=not_empty,
        help="further properties of croissant.json, as YAML or JSON: creator, datePublished, "
        "keywords, rai:dataBiases and others of responsible AI",
        regex="^(gs://[a-z0-9._-]+/.+|[{].*[}])$",
    )


DATASET_GROUPS: tuple[type[Group], ...] = (
    InputOptions,
    DatasetOptions,
    SplitOptions,
    ShardOptions,
    LayoutOptions,
    FileOptions,
    CardOptions,
    PixelOptions,
    EmbeddingOptions,
    CheckOptions,
)
"""All options of a dataset and its inputs, in the order in which the help has them."""
