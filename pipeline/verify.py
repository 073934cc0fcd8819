"""`python -m pipeline.verify OUT`: re-reads every shard and compares it with the manifest.

TFRecord files without a manifest, of any program, are read and described.
"""

from __future__ import annotations

import argparse
import errno
import glob
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipeline.command_line import begin, start
from pipeline.errors import DatasetError, UsageError, trying
from pipeline.open_dataset import has_manifest, is_indexed, open_dataset
from pipeline.options.parser import BEAM_NOTE, OneLineParser, add_run_flags, progress_style, typed
from pipeline.show import select
from transforms.core.messages import first_line, format_bytes, one_line, printable, quantity
from transforms.core.option import not_empty
from transforms.dataset.manifest import content_digest, manifest_shards
from transforms.dataset.output_names import INDEX, MANIFEST, REJECTED, ForeignNameError
from transforms.dataset.record_checks import (
    Problem,
    RecordVerifier,
    Verified,
    ledger_problems,
    rejected_problems,
)
from transforms.examples.layouts import COLUMN, Role, with_role
from transforms.examples.tfrecord import Part
from transforms.images.pixel_options import DEFAULT_LIMITS
from transforms.records.loose_records import Looked, LooseRecords, look_at
from transforms.records.record_index import index_list_problems
from transforms.records.stored_images import COMPRESSED
from transforms.records.written_index import scan_stored, stored_lines
from transforms.storage.files import join, storage_of
from transforms.storage.interface import MAX_DATASET_FILE

# Maximum number of problems to print, so that a damaged disk does not fill the screen.
_MAX_LINES = 100

# Bytes of a rejection: its key, its file and why.
_MOST_LINE = 1 << 16

# Images in compressed files that are decoded in any case, and the bytes for each further one:
# 0.4 MB can hold 100,000 that take 20 s, and honest ones have a hundred bytes.
_PACKED, _BYTES_OF_PACKED = 1 << 15, 40

_EXTRA = "is not a file of this dataset; remove it"


def main(argv: Sequence[str] | None = None) -> None:
    """Verifies a dataset or TFRecord files, and prints the result.

    Raises:
        UsageError: there is no dataset and no file.
        DatasetError: it differs from its manifest, or a file is damaged.
    """
    flags, beam_flags = begin(make_parser(), argv, takes_beams=True)
    output, *others = flags.output
    with trying(f"read {output}"):
        is_dataset = any(map(has_manifest, flags.output)) or output.endswith(f"/{MANIFEST}")
    if is_dataset and others:
        raise UsageError(f"unexpected argument {others[0]!r}: give one folder at a time")
    if not is_dataset or is_indexed(output):
        _verify_files([*select(flags.output, None).files], flags)
        return
    manifest = open_dataset(output)
    problems, splits = check_dataset(
        output,
        manifest,
        fast=flags.fast,
        beam_flags=beam_flags,
        progress=progress_style(flags),
    )
    table = () if flags.quiet else table_lines(manifest, splits, problems)
    for line in (*table, *_shortened(problems, splits)):
        print(printable(line))
    if problems:
        number = len(problems) + sum(split.more for split in splits.values())
        raise DatasetError(f"{output} differs from its manifest: {quantity(number, 'problem')}")
    shards = quantity(sum(split.shards for split in splits.values()), _unit(manifest))
    records = quantity(sum(split.records for split in splits.values()), "record")
    print(f"verified {output}: {shards}, {records}, {_checked(manifest, fast=flags.fast)}")


def make_parser() -> OneLineParser:
    """The parser of `verify`."""
    parser = OneLineParser(
        "verify",
        "Reads every shard of a dataset again and compares it with its manifest.\n"
        "Exits with 1 if anything differs, and names the file and the record.",
        usage="OUT [--full | --fast] [FLAGS]",
        examples=("out/photos", "out/photos --fast", "'other/*.tfrecord' --json"),
        notes=BEAM_NOTE,
    )
    add = parser.add_argument
    held = "folder of a dataset, or TFRecord files of any program, globs"
    add("output", metavar="OUT", nargs="+", type=typed(not_empty), help=held)
    extent = parser.add_mutually_exclusive_group()
    extent.add_argument(
        "--full",
        action="store_true",
        help="every record: features, labels, decoded pixels (this is the default)",
    )
    extent.add_argument(
        "--fast", action="store_true", help="files: sizes, checksums, counts; decodes nothing"
    )
    add("--json", action="store_true", help="print what files without a manifest hold as JSON")
    add_run_flags(parser, "progress", "quiet", "verbose")
    return parser


def _verify_files(paths: Sequence[str], flags: argparse.Namespace) -> None:
    """Verifies files that have no manifest.

    Raises:
        DatasetError: something is wrong in one of them.
    """
    # These import Pillow.
    from pipeline.run.progress import show_progress
    from transforms.images.check import check_image
    from transforms.images.guard import DecoderGuard, is_again
    from transforms.storage.metrics import PROGRESS
    from transforms.storage.read_ahead import TOGETHER, ReadAhead

    guard = DecoderGuard(DEFAULT_LIMITS.max_pixels, isolates=is_again())

    def check(image: bytes) -> object:
        return guard.call("", check_image, image, limits=DEFAULT_LIMITS)

    def look(placed: tuple[str, Part]) -> tuple[str, Part, Looked]:
        path, part = placed
        return path, part._replace(payload=b""), look_at(part, None if flags.fast else check)

    held, problems, unread = LooseRecords(), Verified(), []

    def parts() -> Iterator[tuple[str, Part]]:
        for path in paths:
            held.files += 1
            try:
                for part in scan_stored(path):
                    yield path, part
            except OSError as error:
                unread.append(Problem(path, None, f"cannot be read: {one_line(error)}"))

    def found() -> Iterator[Problem]:
        # To hand a small record to another thread takes as long as to look at it.
        ahead = ReadAhead(together=TOGETHER)
        for path, part, looked in ahead.map(look, parts(), size=lambda each: 2 * each[1].length):
            PROGRESS.count("verifying")
            yield from held.add(path, part, looked)

    with show_progress(progress_style(flags)):
        problems.add_problems(found())
    problems.add_problems([*unread, *held.differing()])
    if flags.json:
        listed = [problem._asdict() for problem in problems.problems]
        print(json.dumps({**held.to_json(), "problems": listed, "more": problems.more}))
    else:
        for line in (*held.lines(), *_shortened(problems.problems, {"": problems})):
            print(printable(line))
    number, files = len(problems.problems) + problems.more, quantity(held.files, "file")
    if number:
        raise DatasetError(f"{quantity(number, 'problem')} in {files}")
    if not flags.json:
        checked = "no image was decoded (--fast)" if flags.fast else "every image decodes"
        print(f"verified {files}: {quantity(held.records, 'record')}, {checked}")


def table_lines(
    manifest: Mapping[str, Any], splits: Mapping[str, Verified], problems: Sequence[Problem]
) -> Iterator[str]:
    """The table: one line for the files of each split, and one for the other files."""
    yield f"{'split':<12} {_unit(manifest) + 's':>7} {'records':>9} {'bytes':>10}  status"
    for name, found in splits.items():
        size = format_bytes(found.bytes)
        status = f"{found.damaged} of {found.shards} damaged" if found.damaged else "ok"
        yield f"{name:<12} {found.shards:>7} {found.records:>9} {size:>10}  {status}"
    small = {"manifest.json", *manifest["files"]}
    damaged = len(small & {problem.file for problem in problems})
    status = f"{damaged} of {len(small)} damaged" if damaged else "ok"
    size = format_bytes(sum(file.get("bytes", 0) for file in manifest["files"].values()))
    yield f"{'other files':<12} {len(small):>7} {'':>9} {size:>10}  {status}"


def _unit(manifest: Mapping[str, Any]) -> str:
    return "file" if manifest["options"].get("files") == "per_image" else "shard"


def _shortened(problems: Sequence[Problem], splits: Mapping[str, Verified]) -> Iterator[str]:
    yield from map(str, problems[:_MAX_LINES])
    rest = problems[_MAX_LINES:]
    if len(rest) > 1:
        found = splits.values()
        number = len(rest) - 1 + sum(each.more for each in found)
        # Of shards whose problems are not listed, all.
        hidden = (max(0, each.damaged - len({one.file for one in each.problems})) for each in found)
        files = len({each.file for each in rest}) + sum(hidden)
        yield f"... and {number} more problems in {files} files"
    # The last may say that the rest of a file is not read.
    yield from map(str, rest[-1:])


def _checked(manifest: Mapping[str, Any], *, fast: bool) -> str:
    if fast:
        return "sizes, checksums and counts agree (--fast: nothing was decoded)"
    if with_role(manifest["features"], Role.IMAGE):
        return "every image decodes"
    if any(feature.get("shape") for feature in manifest["features"]):
        return "all arrays are whole and finite"
    is_of_rows = all(feature["source"].startswith(COLUMN) for feature in manifest["features"])
    return "every value has its type" if is_of_rows else "every record has its features"


def check_dataset(
    output: str,
    manifest: Mapping[str, Any],
    *,
    fast: bool = False,
    beam_flags: Sequence[str] = (),
    progress: str = "off",
) -> tuple[list[Problem], dict[str, Verified]]:
    """Lists the differences between a folder and its manifest, and what each split contains.

    Of very many problems in a split, `Verified.more` counts those that are not listed.

    Args:
        output: the folder.
        manifest: its manifest.
        fast: whether to skip the content of the records.
        beam_flags: options of Beam.
        progress: see `show_progress`.

    Raises:
        UsageError: the runner's workers cannot hand back what they find.
        DatasetError: the run failed.
    """
    # A wrong flag does not wait for Beam.
    from pipeline.run.launch import results_path, run_pipeline
    from transforms.verify_shards import VerifyShards, read_results

    try:
        details = [*ledger_problems(manifest), *index_list_problems(manifest)]
        if manifest.get("digest") != content_digest(manifest):
            details.insert(0, "was edited since the dataset was written")
        problems = [Problem(MANIFEST, None, detail) for detail in details]
        problems += _folder_problems(output, manifest)
        problems += _small_file_problems(output, manifest)
        problems += _extra_files(output, manifest)
        problems += (packed := [*_packed_problems(output, manifest)])
        verifier = RecordVerifier.of(manifest)
    except (KeyError, TypeError, AttributeError) as error:
        if manifest.get("digest") == content_digest(manifest):
            raise
        path = join(output, MANIFEST)
        raise DatasetError(f"{path} was edited and cannot be used any more: {error!r}") from error
    fast = fast or bool(packed)
    with results_path("verify", beam_flags) as results:
        records = sum(split["records"] for split in manifest["splits"].values())
        transform = VerifyShards(output, verifier, fast=fast, records=records, results=results)
        run_pipeline(
            lambda p: p | transform,
            beam_flags,
            progress=progress,
            left="the dataset was not verified",
        )
        splits = read_results(results, manifest["splits"])
    return [*problems, *(each for split in splits.values() for each in split.problems)], splits


def _folder_problems(output: str, manifest: Mapping[str, Any]) -> Iterator[Problem]:
    """Whether folders of the dataset are links, through which other files would be replaced."""
    files = (*manifest_shards(manifest), *manifest["index"])
    try:
        storage_of(output).check_folders(output, {entry["file"] for entry in files})
    except ForeignNameError as error:
        yield Problem(output, None, first_line(error))


def _packed_problems(output: str, manifest: Mapping[str, Any]) -> Iterator[Problem]:
    """Whether compressed files hold far more images than bytes, which then are not decoded."""
    shards = [shard for shard in manifest_shards(manifest) if shard["file"].endswith(COMPRESSED)]
    images = sum(shard["records"] for shard in shards)
    found = (storage_of(output).find(join(output, shard["file"])) for shard in shards)
    size = sum(file.size for file in found if file is not None)
    if images > _PACKED + size // _BYTES_OF_PACKED and with_role(manifest["features"], Role.IMAGE):
        yield Problem(MANIFEST, None, f"lists {images} images in {size} bytes: none is decoded")


def _small_file_problems(output: str, manifest: Mapping[str, Any]) -> Iterator[Problem]:
    for name, listed in manifest["files"].items():
        path = join(output, name)
        lines = sum(manifest["rejected"].values()) if name == REJECTED else 0
        try:
            # A sparse file of a terabyte costs nothing to make, and may be listed as such.
            if listed["bytes"] > (most := MAX_DATASET_FILE + lines * _MOST_LINE):
                raise OSError(errno.EFBIG, f"it has more than {most} bytes", path)
            found = storage_of(output).checksum(path, size=listed["bytes"])
            if found is None:
                yield Problem(name, None, "the file is missing")
            elif found != listed["crc32c"]:
                yield Problem(name, None, "was changed since the dataset was written")
            elif name == REJECTED:
                for detail in rejected_problems(manifest, stored_lines(path, listed["bytes"])):
                    yield Problem(name, None, detail)
        except (OSError, UnicodeDecodeError) as error:
            yield Problem(name, None, f"cannot be read: {one_line(error)}")


def _extra_files(output: str, manifest: Mapping[str, Any]) -> Iterator[Problem]:
    """TFRecords and indexes of other datasets; a reader's glob would match them too."""
    shards = [shard["file"] for shard in manifest_shards(manifest)]
    listed = {*shards, *(entry["file"] for entry in manifest["index"])}
    folders = {f"{name.rpartition('/')[0]}/".lstrip("/") for name in shards} | {""}
    patterns = [(folder, "*.tfrecord*") for folder in sorted(folders)]
    for folder, pattern in (*patterns, (f"{INDEX}/", "*.parquet")):
        found = join(glob.escape(output), glob.escape(folder) + pattern)
        for file in storage_of(output).list_files(found):
            name = folder + file.uri.rsplit("/", 1)[-1]
            if name not in listed:
                yield Problem(name, None, _EXTRA)


if __name__ == "__main__":
    sys.exit(start("verify", main))
