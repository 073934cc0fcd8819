"""The options of the dataset's folder, its files and its card."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from transforms.core.option import (
    Group,
    Need,
    Parameter,
    as_it_is,
    if_any,
    not_empty,
    option,
)
from transforms.dataset.dataset_card import (
    DEFAULT_VERSION,
    check_homepage,
    check_name,
    check_text,
    check_version,
)
from transforms.dataset.output_names import FILES
from transforms.labels.label_options import ShardOptions
from transforms.labels.shards import ShardPlan


@dataclasses.dataclass(frozen=True)
class DatasetOptions(Group, title="output"):
    """The folder of the dataset."""

    output: str = option(
        metavar="DIR",
        help="folder of the dataset",
        is_required=True,
        is_path=True,
        parameter=Parameter("Output folder"),
    )
    overwrite: bool = option(
        is_switch=True, help="replace an existing dataset", parameter=Parameter("Overwrite")
    )


@dataclasses.dataclass(frozen=True)
class FileOptions(Group, title="output", recorded=as_it_is):
    """The files that hold the records."""

    files: str = option(
        "sharded",
        choices=FILES,
        help="shards, or one file per image, named after its key",
        of_images=True,
        parameter=Parameter("Files"),
    )
    compression: str = option(
        "none",
        choices=("none", "gzip"),
        help="compression of the shards",
        parameter=Parameter("Compression"),
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
    )


_NAME = Need("--name NAME")
_NUMBER = "(0|[1-9][0-9]*)"
# Also of several lines, which a point would not match.
_TEXT = "^[^ ]([^ ]| )*$"


@dataclasses.dataclass(frozen=True)
class CardOptions(Group, title="description", needs=(_NAME,), recorded=if_any):
    """What is said about the dataset."""

    name: str | None = option(
        metavar="NAME",
        parse=check_name,
        needs=(),
        help="name of the dataset: adds README.md, croissant.json and the name that tfds.load uses",
        parameter=Parameter("Name", "^[a-z][a-z0-9_]*$"),
    )
    dataset_version: str | None = option(
        metavar="X.Y.Z",
        parse=check_version,
        help=f"version of the dataset, also as --version X.Y.Z; if omitted: {DEFAULT_VERSION}",
        parameter=Parameter(
            "Version",
            f"^{_NUMBER}[.]{_NUMBER}[.]{_NUMBER}$",
            help=f"version of the dataset; if omitted: {DEFAULT_VERSION}",
        ),
    )
    description: str | None = option(
        metavar="TEXT",
        parse=check_text,
        help="what the dataset is, as text or Markdown",
        parameter=Parameter("Description", _TEXT),
    )
    citation: str | None = option(
        metavar="TEXT",
        parse=check_text,
        help="how to cite the dataset, such as BibTeX",
        parameter=Parameter("Citation", _TEXT),
    )
    license: str | None = option(
        metavar="LICENSE",
        parse=check_text,
        help="license of the dataset: an SPDX identifier (CC-BY-4.0), a web address or a text",
        parameter=Parameter("License", _TEXT),
    )
    homepage: str | None = option(
        metavar="URL",
        parse=check_homepage,
        help="web page of the dataset",
        parameter=Parameter("Homepage", "^https?://[^ /]+[^ ]*$"),
    )
    croissant: str | None = option(
        metavar="FILE|JSON",
        parse=not_empty,
        help="further properties of croissant.json, as YAML or JSON: creator, datePublished, "
        "keywords, rai:dataBiases and others of responsible AI",
        parameter=Parameter("Properties of croissant.json", "^(gs://[a-z0-9._-]+/.+|[{].*[}])$"),
    )
