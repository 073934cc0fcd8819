"""The records that `show` prints, from a dataset or from any TFRecord files of Examples."""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from pipeline.errors import DatasetError, UsageError, input_error, one_line
from pipeline.open_dataset import has_manifest, open_dataset
from pipeline.resolve.path_flags import check_path
from transforms.core.dataset.output_names import LABELS, MANIFEST
from transforms.core.examples.decoder import decode_example
from transforms.core.examples.record_fields import RecordFields
from transforms.core.examples.tfrecord import TFRecordError, largest_record
from transforms.core.labels.vocabulary import parse_labels
from transforms.storage.files import join, storage_of
from transforms.stored_records import open_records


class Record(NamedTuple):
    """One record of a file, decoded: see `decode_example`."""

    file: str
    number: int
    example: dict[str, Any]


class Selection(NamedTuple):
    """Files of records, and how to read them.

    Attributes:
        files: their names by path, in the order in which they are read.
        fields: the meaning of the features.
        manifest: of the dataset; None for loose files.
    """

    files: dict[str, str]
    fields: RecordFields
    manifest: dict[str, Any] | None


def select(paths: Sequence[str], split: str | None) -> Selection:
    """The files that paths name.

    Args:
        paths: one folder, or any number of TFRecord files and globs.
        split: only the files of this split, or None.

    Raises:
        UsageError: there is nothing, or no such split.
    """
    for path in paths:
        check_path("the path", path)
    try:
        if len(paths) == 1 and has_manifest(paths[0]):
            return _of_dataset(paths[0], open_dataset(paths[0]), split)
        found = dict(_loose_files(paths))
    except (OSError, ValueError) as error:
        raise input_error(f"cannot read {paths[0]}", error) from error
    if split is not None:
        found = {path: name for path, name in found.items() if name.startswith(f"{split}-")}
        if not found:
            raise UsageError(
                f"there is no --split {split}: no file is called {split}-..., and there is no "
                f"{MANIFEST} that lists the splits"
            )
    return Selection(found, RecordFields(), None)


def _of_dataset(output: str, manifest: dict[str, Any], split: str | None) -> Selection:
    splits = manifest["splits"]
    if split is not None and split not in splits:
        raise UsageError(f"there is no --split {split}; the dataset has {', '.join(splits)}")
    chosen = splits if split is None else {split: splits[split]}
    names = [shard["file"] for each in chosen.values() for shard in each["shards"]]
    sources = {feature["name"]: feature["source"] for feature in manifest["features"]}
    text = storage_of(output).read_text(join(output, LABELS), follow_links=False)
    labels = parse_labels(text or "")
    found = {join(output, name): name for name in names}
    return Selection(found, RecordFields(sources, labels), manifest)


def _loose_files(paths: Sequence[str]) -> Iterator[tuple[str, str]]:
    for path in paths:
        if storage_of(path).find(path) is not None:
            yield path, path.rpartition("/")[2]
            continue
        found = sorted(file.uri for file in _matches(path))
        if not found and len(paths) == 1 and not glob.has_magic(path):
            # The manifest explains what this folder is.
            open_dataset(path)
        if not found:
            raise UsageError(f"there is no {path}")
        for uri in found:
            yield uri, uri.rpartition("/")[2]


def _matches(path: str) -> Iterator[Any]:
    storage = storage_of(path)
    if glob.has_magic(path):
        return storage.list_files(path)
    folder = glob.escape(path)
    # TF-Slim's shards end with their number.
    patterns = ("*.tfrec*", "*-?????-of-?????")
    below = (storage.list_files(join(folder, pattern)) for pattern in patterns)
    return (file for each in below for file in each)


def _largest_record(manifest: dict[str, Any] | None) -> int:
    """The most bytes that a record may have."""
    options = {} if manifest is None else manifest["options"]
    limits = [options.get(name) for name in ("max_pixels", "max_bytes")]
    return largest_record(*(each if isinstance(each, int) else 0 for each in limits))


def read_records(
    selection: Selection, matches: Callable[[dict[str, Any]], bool]
) -> Iterator[Record]:
    """The records of files that match, in their order.

    Raises:
        DatasetError: a record cannot be read.
    """
    # Links that the user names are followed, links in a dataset are not.
    follow_links = selection.manifest is None
    max_bytes = _largest_record(selection.manifest)
    for path, name in selection.files.items():
        number = 0
        try:
            opened = open_records(path, follow_links=follow_links, max_bytes=max_bytes)
            with opened as records:
                for number, record in enumerate(records):
                    example = decode_example(record)
                    if matches(example):
                        yield Record(name, number, example)
        except TFRecordError as error:
            hint = (
                "; it is not a TFRecord file, or its beginning is missing"
                if error.offset == 0
                else ""
            )
            raise DatasetError(f"{name}: {error}{hint}") from error
        except ValueError as error:
            raise DatasetError(f"{name}: record {number}: {error}") from error
        except OSError as error:
            raise DatasetError(f"cannot read {name}: {one_line(error)}") from error
