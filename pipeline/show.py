"""image-tfrecords show: prints records."""

from __future__ import annotations

import argparse
import glob
import itertools
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pipeline.command_line import begin, start
from pipeline.errors import DatasetError, UsageError, input_error
from pipeline.open_dataset import has_manifest, open_dataset, record_files
from pipeline.options.parser import OneLineParser, add_run_flags, typed
from pipeline.resolve.path_flags import check_path
from transforms.core.messages import format_bytes, one_line, printable
from transforms.core.option import alike, at_least_one, not_empty
from transforms.dataset.manifest import INDEXED, names_of_ids
from transforms.dataset.output_names import LABELS, MANIFEST, file_stem
from transforms.dataset.record_checks import RecordVerifier
from transforms.examples.decoder import RecordFields, decode_example
from transforms.examples.layouts import Feature
from transforms.examples.tfrecord import LARGEST_RECORD, TFRecordError
from transforms.labels.keys import IMAGE_EXTENSIONS
from transforms.labels.vocabulary import parse_labels
from transforms.records.written_index import open_records
from transforms.storage.files import join, storage_of
from transforms.storage.local_storage import new_file

# The records that `show` prints, from a dataset or from any TFRecord files of Examples.


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
    labels = names_of_ids(manifest)
    if INDEXED not in manifest:
        text = storage_of(output, follow_links=False).read_text(join(output, LABELS))
        labels = parse_labels(text or "")
    found = {join(output, name): name for name in names}
    return Selection(found, RecordFields(sources, labels), manifest)


def _loose_files(paths: Sequence[str]) -> Iterator[tuple[str, str]]:
    for path in paths:
        found = record_files(path)
        if not found and not glob.has_magic(path):
            # The manifest explains what this folder is.
            open_dataset(path, "dataset and no TFRecord files")
        if not found:
            raise UsageError(f"no TFRecord file matches {path}")
        yield from ((uri, uri.rpartition("/")[2]) for uri in found)


def read_records(
    selection: Selection, matches: Callable[[dict[str, Any]], bool]
) -> Iterator[Record]:
    """The records of files that match, in their order.

    Raises:
        DatasetError: a record cannot be read.
    """
    # Links that the user names are followed, links in a dataset are not.
    manifest, follow_links = selection.manifest, selection.manifest is None
    max_bytes = RecordVerifier.of(manifest).largest_record if manifest else LARGEST_RECORD
    for path, name in selection.files.items():
        number = 0
        try:
            with open_records(path, follow_links=follow_links, max_bytes=max_bytes) as records:
                for number, record in enumerate(records):
                    example = decode_example(record)
                    if matches(example):
                        yield Record(name, number, example)
        except TFRecordError as error:
            why = "; it is not a TFRecord file, or its beginning is missing"
            raise DatasetError(f"{name}: {error}{'' if error.offset else why}") from error
        except ValueError as error:
            raise DatasetError(f"{name}: record {number}: {error}") from error
        except OSError as error:
            raise DatasetError(f"cannot read {name}: {one_line(error)}") from error


# `python -m pipeline.show OUT`: prints records; `--images DIR` saves their images.
#
# OUT is a dataset, or TFRecord files of Examples from any program.

# Characters of a bytes value that are shown as text.
_MAX_TEXT = 80

# Characters of a feature's name that are shown.
_MAX_FEATURE = 200

# Classes in a message.
_MAX_CLASSES = 10

# Bytes of an image's name that a saved image keeps, from its end; with shard and number before
# it, the name must still be valid on common file systems.
_MAX_NAME = 100


def main(argv: Sequence[str] | None = None) -> None:
    """Prints the first records that match.

    Raises:
        UsageError: there is no such dataset, file, split or class, or records have no such feature.
        DatasetError: a record cannot be read, or no record matches.
    """
    flags, _ = begin(make_parser(), argv)

    is_there = flags.images is not None and os.path.lexists(flags.images)
    if is_there and not os.path.isdir(flags.images):
        raise UsageError(f"--images {flags.images} is a file: give a folder")
    selection = select(flags.paths, flags.split)
    if flags.spec:
        _show_spec(flags.paths[0], selection.manifest)
        return
    _check_filters(flags, selection)
    fields = selection.fields
    read = 0

    def matches(example: dict[str, Any]) -> bool:
        nonlocal read
        read += 1
        is_class = flags.class_ is None or fields.has_class(example, flags.class_)
        return is_class and (flags.key is None or fields.has_key(example, flags.key))

    shown = 0
    for record in itertools.islice(read_records(selection, matches), flags.limit):
        _show(record, flags, selection)
        shown += 1
    if read and not shown:
        given = {"--class": flags.class_, "--key": flags.key}
        filters = (f"{flag} {value}" for flag, value in given.items() if value is not None)
        raise DatasetError(
            f"none of {read} records has {' and '.join(filters)}{_classes(flags, selection)}"
        )


def make_parser() -> OneLineParser:
    """The parser of `show`."""
    parser = OneLineParser(
        "show",
        "Prints records of a dataset, or of TFRecord files of any program.\n"
        "Saves their images with --images.",
        usage="OUT [OUT ...] [FLAGS]",
        examples=(
            "out/photos --limit 1",
            "out/photos --class dog --images pictures",
            "'out/photos/train-*' --key cat-4",
        ),
    )
    add, path = parser.add_argument, typed(not_empty)
    held = "folder of a dataset, or TFRecord files, globs"
    add("paths", metavar="OUT", nargs="+", type=path, help=held)
    add("--split", metavar="NAME", help="only this split")
    add("--class", dest="class_", metavar="TEXT|ID", help="only records of this class")
    add("--key", metavar="KEY", help="only this key, file name, or file name without extension")
    add("--limit", type=typed(at_least_one), default=5, metavar="N", help="number of records")
    add("--images", metavar="DIR", type=path, help="save the images in this folder")
    add("--spec", action="store_true", help="print the features for tf.io.parse_example")
    add_run_flags(parser, "verbose")
    return parser


def _show_spec(path: str, manifest: Mapping[str, Any] | None) -> None:
    """Prints what `pipeline.feature_spec` returns, as Python."""
    if manifest is None:
        raise UsageError(f"--spec is for a dataset with a {MANIFEST}; verify describes {path}")
    print("features = {")
    for feature in map(Feature.from_manifest, manifest["features"]):
        dtype, shape = feature.tensor
        spec = f"FixedLenFeature({shape}, tf.{dtype})"
        if shape is None:
            spec = f"RaggedFeature(tf.{dtype}, row_splits_dtype=tf.int64)"
        print(f"    {feature.name!r}: tf.io.{spec},")
    print("}")


def _check_filters(flags: argparse.Namespace, selection: Selection) -> None:
    """Refuses filters that no record of the dataset can match."""
    manifest = selection.manifest
    if manifest is None:
        return
    where = f"the records of {flags.paths[0]} (layout {manifest['options'].get('layout')})"
    names = [feature["name"] for feature in manifest["features"]]
    if flags.images is not None and selection.fields.image_feature({}) is None:
        raise UsageError(f"--images {flags.images}: {where} hold no image")
    if flags.class_ is not None and not selection.fields.class_features(names):
        raise UsageError(f"--class {flags.class_}: {where} hold no class")
    if flags.key is not None and not selection.fields.key_features(names):
        raise UsageError(
            f"--key {flags.key}: {where} hold neither a key nor a path; a layout file of your own "
            "can add image.key"
        )


def _classes(flags: argparse.Namespace, selection: Selection) -> str:
    """The classes of a dataset, if one of them may have been meant."""
    names = [*selection.fields.labels.values()]
    if flags.class_ is None or flags.key is not None or not names:
        return ""
    near = alike(flags.class_.lower(), [name.lower() for name in names])
    meant = [name for name in names if near and name.lower() == near[0] and name != flags.class_]
    if meant:
        return f"; did you mean --class {shlex.quote(meant[0])}?"
    more = ", ..." if len(names) > _MAX_CLASSES else ""
    return f"; the classes are {', '.join(names[:_MAX_CLASSES])}{more}"


def _show(record: Record, flags: argparse.Namespace, selection: Selection) -> None:
    # On a terminal, wrapped lines would spoil the table; a pipe gets full lines.
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for line in record_lines(record):
        print(line[:width])
    if flags.images is None:
        return
    image = selection.fields.image_feature(record.example)
    if image is None:
        raise UsageError(
            f"--images {flags.images}: {record.file} record {record.number} holds no image"
        )
    named = selection.fields.name_feature()
    folder = Path(flags.images)
    for feature, partner in {image: "", **selection.fields.partner_features()}.items():
        print(f"  saved {save_image(record, folder, image=feature, named=named, partner=partner)}")


def record_lines(record: Record) -> Iterator[str]:
    """One record as text: each feature with its type, number of values, and the first ones."""
    yield f"{printable(record.file)} record {record.number}"
    if not record.example:
        yield "  no features"
        return
    rows = [_row(name, values) for name, values in sorted(record.example.items())]
    wide, kinds = max(24, *(len(row[0]) for row in rows)), max(len(row[1]) for row in rows)
    for name, kind, value in rows:
        yield f"  {name:<{wide}} {kind:<{kinds}} {value}"


def _row(name: str, values: Any) -> tuple[str, str, str]:
    # Lines are padded to the longest name.
    name = printable(name[:_MAX_FEATURE]) + ("..." if len(name) > _MAX_FEATURE else "")
    if values is None:
        return name, "unset", ""
    kind = {"O": "bytes", "i": "int64", "f": "float"}[values.dtype.kind]
    shown = ", ".join(_shown(value) for value in values[:3])
    return name, f"{kind}[{len(values)}]", shown + (" ..." if len(values) > 3 else "")


def _shown(value: Any) -> str:
    if not isinstance(value, bytes):
        return str(value)
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return f"<{format_bytes(len(value))}{_image_size(value)}>"
    return repr(text) if len(text) <= _MAX_TEXT else f"<{format_bytes(len(value))} of text>"


def _image_size(data: bytes) -> str:
    """Format, height x width x channels of an image; empty if the bytes are not an image."""
    from transforms.core.rejections import RejectedImageError
    from transforms.images.headers import image_format, read_header

    kind = image_format(data)
    if not kind:
        return ""
    try:
        header = read_header(data, kind)
    except RejectedImageError:
        return f", a broken {kind}"
    return f", {kind} {header.height}x{header.width}x{header.channels}"


def save_image(
    record: Record, directory: Path, *, image: str, named: str | None, partner: str = ""
) -> Path:
    """Saves the image of one record as it is stored.

    Args:
        record: the record.
        directory: the folder; created if it does not exist.
        image: the feature that holds the image.
        named: the feature that holds its name, or None.
        partner: the name of a mask or further image; empty for the image itself.
    """
    from transforms.images.headers import image_format

    data = record.example[image][0]
    given = record.example[named][0].decode() if named else "image"
    # A name from a file must not lead out of the folder.
    safe = re.sub(r"[^\w.\-]+", "_", given.rsplit("/", 1)[-1])
    safe = safe.encode()[-_MAX_NAME:].decode(errors="ignore")
    if partner:
        safe = f"{safe}.{partner}"
    if Path(safe).suffix[1:].lower() not in IMAGE_EXTENSIONS:
        # Records of other programs may have no name: viewers need an extension.
        safe += {"": ".bin", "jpeg": ".jpg"}.get(kind := image_format(data), f".{kind}")
    shard = record.file.split(".tfrec")[0].replace("/", "-")
    if len(shard.encode()) > _MAX_NAME:
        # The name of a single-image file may have the maximum length.
        shard = file_stem(shard, max_bytes=_MAX_NAME)
    path = directory / f"{shard}-{record.number:05d}-{safe}"
    with new_file(str(path)) as file:
        file.write(data)
    return path


if __name__ == "__main__":
    sys.exit(start("show", main))
