"""Everything that can be wrong with flags and inputs, found before a job starts."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import itertools
import os
from collections.abc import Iterator
from typing import Any, BinaryIO

from apache_beam.io.filesystem import BeamIOError

from pipeline.config import ConvertConfig
from pipeline.errors import UsageError, one_line
from pipeline.layouts import Layout, read_layout
from pipeline.path_flags import check_path
from transforms import files, gcs
from transforms.core.check import Limits
from transforms.core.csv_lines import LabelsError
from transforms.core.csv_rows import CsvColumns, LabelRow, first_rows, read_rows
from transforms.core.globs import glob_regex
from transforms.core.keys import KEY_KINDS, fixed_root, image_key, relative_path, row_key
from transforms.core.labels import read_class_names, resolve_columns
from transforms.core.layouts import is_layout_file
from transforms.core.manifest import MANIFEST, ManifestError
from transforms.core.pixel_options import DEFAULT_QUALITY, PixelOptions
from transforms.match import is_local, list_files

# Images looked at before the job: enough to meet a row of any sorted or shuffled CSV.
_SAMPLE = 20_000

# Rows shown to the column search.
_FIRST_ROWS = 20


@dataclasses.dataclass(frozen=True)
class ImageSample:
    """The first images that the globs match.

    Attributes:
        uris: at most `_SAMPLE` of them.
        root: the globs' common folder.
        is_all: whether there are no more.
    """

    uris: list[str]
    root: str
    is_all: bool
    _keys: dict[str, set[str]] = dataclasses.field(default_factory=dict, repr=False)

    def keys(self, kind: str) -> set[str]:
        """The images' keys of one kind."""
        if kind not in self._keys:
            keys = {image_key(uri, kind=kind, root=self.root) for uri in self.uris}
            self._keys[kind] = keys
        return self._keys[kind]


def check_flags(flags: argparse.Namespace) -> ConvertConfig:
    """Resolves flags and inputs into a configuration.

    Args:
        flags: what `parse_flags` gives.

    Raises:
        UsageError: when something is missing, unreadable, ambiguous or in the way.
    """
    _check_paths(flags)
    pixels = _pixel_options(flags)
    sample = _sample_images(flags.images)
    label_from = _label_source(flags, sample)
    layout = read_layout(flags, label_from)
    key = flags.key or ("stem" if label_from == "csv" else "path")
    try:
        csv_paths: tuple[str, ...] = ()
        columns: CsvColumns | None = None
        if label_from == "csv":
            csv_paths, columns, layout = _label_files(flags, sample, key, layout)
        class_names = _class_names(flags.class_names)
    except LabelsError as error:
        raise UsageError(str(error)) from error
    config = ConvertConfig(
        images=tuple(flags.images),
        root=sample.root,
        output=flags.output.rstrip("/") or "/",
        label_from=label_from,
        csv_paths=csv_paths,
        columns=columns,
        csv_encoding=flags.csv_encoding,
        key=key,
        class_names=class_names,
        splits=flags.splits,
        seed=flags.seed,
        num_shards=flags.num_shards,
        shard_size=flags.shard_size,
        layout=flags.layout,
        gzip=flags.compression == "gzip",
        check=flags.check,
        limits=Limits(max_pixels=flags.max_pixels, max_bytes=flags.max_bytes),
        max_rejected=flags.max_rejected,
        quarantine=_quarantine(flags, sample),
        overwrite=flags.overwrite,
        pixels=pixels,
        layout_features=layout.features,
        box_columns=layout.box_columns,
        box_units=layout.box_units,
        label_separator=layout.label_separator,
    )
    _check_output(config)
    return config


def _pixel_options(flags: argparse.Namespace) -> PixelOptions:
    pixels = PixelOptions(
        transcode=flags.transcode,
        resize=flags.resize,
        color=flags.color,
        quality=flags.quality or DEFAULT_QUALITY,
        exif_orientation=flags.exif_orientation,
    )
    if flags.quality is not None and not pixels.may_write_jpeg:
        why = (
            "does not go with --transcode png, which writes no JPEG"
            if flags.transcode == "png"
            else "changes nothing alone: it is of the JPEGs that another flag, such as --resize "
            "or --transcode, makes it write anew"
        )
        raise UsageError(f"--quality {why}")
    resize = pixels.resize
    if resize and resize.rule == "exact" and resize.height * resize.width > flags.max_pixels:
        raise UsageError(f"--resize {resize} is more than --max_pixels {flags.max_pixels}")
    return pixels


def _check_paths(flags: argparse.Namespace) -> None:
    for pattern in flags.images:
        check_path("--images", pattern)
    for name in ("labels", "class_names", "output", "quarantine"):
        if getattr(flags, name) is not None:
            check_path(f"--{name}", getattr(flags, name))


def _sample_images(globs: list[str]) -> ImageSample:
    uris: list[str] = []
    is_all = True
    for pattern in globs:
        found = [file.uri for file in itertools.islice(_list(pattern, "--images"), _SAMPLE + 1)]
        if not found:
            raise UsageError(f"no file matches --images {pattern!r}; {_why_empty(pattern)}")
        is_all = is_all and len(found) <= _SAMPLE
        uris += found[:_SAMPLE]
    return ImageSample(uris, fixed_root(globs), is_all)


def _list(pattern: str, flag: str) -> Iterator[Any]:
    try:
        yield from list_files(pattern)
    except (BeamIOError, OSError, ValueError) as error:
        if isinstance(error, PermissionError) and is_local(pattern):
            raise UsageError(
                f"no permission to read the folder {error.filename!r}, "
                f"which {flag} {pattern!r} needs"
            ) from error
        raise UsageError(f"cannot list {flag} {pattern!r}: {one_line(error)}") from error


def _why_empty(pattern: str) -> str:
    """What keeps a glob from matching, as far as it can be seen."""
    if gcs.is_gcs(pattern) and next(list_files(files.join(pattern, "**")), None):
        return f"it is a folder: try '{files.join(pattern, '**', '*.jpg')}'"
    if not is_local(pattern):
        return "check the bucket and the path"
    if os.path.isdir(pattern):
        return f"it is a folder: try '{pattern.rstrip('/')}/**/*.jpg'"
    folder = fixed_root([pattern]) or "."
    if not os.path.isdir(folder):
        return f"there is no folder {folder!r}"
    if not os.access(folder, os.R_OK | os.X_OK):
        return f"no permission to read the folder {folder!r}"
    if os.path.lexists(pattern):
        return "it is no regular file"
    return "check the pattern; quote it so that the shell leaves it alone"


def _label_source(flags: argparse.Namespace, sample: ImageSample) -> str:
    csv_flags = ("labels", "label_key", "label_column")
    given = [f"--{name}" for name in csv_flags if getattr(flags, name) is not None]
    if flags.label_from not in (None, "csv") and given:
        raise UsageError(f"{given[0]} does not go with --label_from {flags.label_from}")
    if flags.label_from == "csv" and flags.labels is None:
        raise UsageError("--label_from csv needs --labels CSV")
    if flags.labels is not None:
        return "csv"
    if given:
        raise UsageError(f"{given[0]} needs --labels CSV")
    if flags.label_from is not None:
        return str(flags.label_from)
    folders = {os.path.dirname(relative_path(uri, sample.root)) for uri in sample.uris}
    if len(folders) > 1 and "" not in folders:
        return "directory"
    raise UsageError(
        "cannot tell where labels come from: give --labels CSV, or --label_from directory "
        "(a folder for each class) or none"
    )


def _label_files(
    flags: argparse.Namespace, sample: ImageSample, key: str, layout: Layout
) -> tuple[tuple[str, ...], CsvColumns, Layout]:
    paths = tuple(sorted(file.uri for file in _list(flags.labels, "--labels")))
    if not paths:
        raise UsageError(f"no file matches --labels {flags.labels!r}; {_why_empty(flags.labels)}")
    for path in paths:
        check_path("--labels", path)
    keys = sample.keys(key)
    with _open_csv(paths[0]) as file:
        first = first_rows(file, _FIRST_ROWS, encoding=flags.csv_encoding, path=paths[0])
    columns = resolve_columns(
        first,
        key=flags.label_key,
        label=flags.label_column,
        is_image_key=lambda cell: row_key(cell, kind=key) in keys,
        path=paths[0],
        label_required=layout.needs_label,
    )
    layout, columns = layout.asking(columns, first, paths[0])
    for path in paths[1:]:
        next(_rows(path, columns, flags.csv_encoding), None)
    if sample.is_all:
        _check_any_match(flags, sample, key, paths, columns)
    rows = itertools.chain.from_iterable(_rows(path, columns, flags.csv_encoding) for path in paths)
    return paths, columns, layout.resolved(rows, flags.box_units)


@contextlib.contextmanager
def _open_csv(path: str) -> Iterator[BinaryIO]:
    try:
        with files.open_reader(path) as file:
            yield file
    except (BeamIOError, OSError) as error:
        raise UsageError(f"cannot read --labels {path}: {one_line(error)}") from error


def _rows(path: str, columns: CsvColumns, encoding: str) -> Iterator[LabelRow]:
    with _open_csv(path) as file:
        for row in read_rows(file, columns, encoding=encoding, path=path):
            if isinstance(row, LabelRow):
                yield row


def _check_any_match(
    flags: argparse.Namespace,
    sample: ImageSample,
    key: str,
    paths: tuple[str, ...],
    columns: CsvColumns,
) -> None:
    """Refuses labels of which not one names an image; the first that does ends the search."""
    keys = sample.keys(key)
    cells: list[str] = []
    for path in paths:
        for row in _rows(path, columns, flags.csv_encoding):
            if row_key(row.key, kind=key) in keys:
                return
            cells = cells or [row.key]
    if not cells:
        raise UsageError(f"--labels {flags.labels} has no usable row: check its columns")
    other = next((kind for kind in KEY_KINDS if _matches(cells[0], kind, sample)), None)
    hint = f"try --key {other}" if other else "check --label_key and --key"
    raise UsageError(
        f"no row of --labels {flags.labels} names an image: column {columns.key_name!r} holds "
        f"{cells[0][:60]!r}, images have keys like {min(keys)!r} (--key {key}); {hint}"
    )


def _matches(cell: str, kind: str, sample: ImageSample) -> bool:
    return row_key(cell, kind=kind) in sample.keys(kind)


def _class_names(path: str | None) -> tuple[str, ...] | None:
    if path is None:
        return None
    try:
        text = files.read_text(path)
    except (BeamIOError, OSError, ValueError) as error:
        raise UsageError(f"cannot read --class_names {path}: {one_line(error)}") from error
    if text is None:
        raise UsageError(f"there is no file --class_names {path}")
    names = read_class_names(text.removeprefix("\ufeff"))
    if not names:
        raise UsageError(f"--class_names {path} names no class: write one name a line")
    return names


def _quarantine(flags: argparse.Namespace, sample: ImageSample) -> str | None:
    if flags.quarantine is None:
        return None
    folder = str(flags.quarantine).rstrip("/")
    inner, outer = _absolute(folder) + "/", _absolute(flags.output.rstrip("/")) + "/"
    if inner.startswith(outer) or outer.startswith(inner):
        raise UsageError(f"--quarantine {folder} and --output {flags.output} lie in each other")
    copied = files.join(folder, "reason", relative_path(sample.uris[0], sample.root))
    for glob in flags.images:
        if glob_regex(_absolute(glob)).fullmatch(_absolute(copied)):
            raise UsageError(
                f"--images {glob!r} would match the copies in --quarantine {folder}: "
                "choose another folder"
            )
    return folder


def _absolute(path: str) -> str:
    return os.path.abspath(path) if is_local(path) else path


def _check_output(config: ConvertConfig) -> None:
    path = files.join(config.output, MANIFEST)
    try:
        if is_local(config.output):
            _check_local_output(config.output)
        former = files.read_manifest(path)
    except ManifestError as error:
        raise UsageError(f"{error}; or choose another --output") from error
    except (BeamIOError, OSError, ValueError) as error:
        raise UsageError(f"cannot read --output {config.output}: {one_line(error)}") from error
    if former is None and gcs.is_gcs(config.output):
        _check_bucket_output(config.output)
    if former is not None and not config.overwrite:
        _check_same_options(config, former)


def _check_local_output(output: str) -> None:
    if not os.path.lexists(output):
        return
    if not os.path.isdir(output):
        raise UsageError(f"--output {output} is a file: give a folder")
    entries = sorted(os.listdir(output))
    if entries and MANIFEST not in entries and files.STAGING not in entries:
        raise UsageError(
            f"--output {output} holds something else ({entries[0]!r}): give an empty or new folder"
        )


def _check_bucket_output(output: str) -> None:
    """Refuses a folder of a bucket that holds something else."""
    other = next(_list(files.join(output, "**"), "--output"), None)
    is_ours = next(_list(files.join(output, files.STAGING, "**"), "--output"), None) is not None
    if other and not is_ours:
        raise UsageError(
            f"--output {output} holds something else ({other.uri!r}): give an empty or new folder"
        )


def _check_same_options(config: ConvertConfig, former: dict[str, Any]) -> None:
    if former["options_digest"] == config.dataset.digest:
        return
    was, now = former["options"], config.options
    changed = [
        f"--{name} is {now.get(name)}, was {was.get(name)}"
        for name in sorted({*was, *now})
        if now.get(name) != was.get(name)
    ]
    is_own = is_layout_file(config.layout)
    other = f"--layout {config.layout} has changed" if is_own else "another format"
    raise UsageError(
        f"--output {config.output} holds a dataset made with other options: "
        f"{'; '.join(changed) or other}. Use --overwrite or another --output"
    )


def check_writable(config: ConvertConfig) -> None:
    """Writes and removes a file in every folder that the run writes to.

    Raises:
        UsageError: one cannot be written to.
    """
    if not files.exists(files.join(config.output, MANIFEST)):
        _probe("--output", config.output, files.join(config.output, files.STAGING))
    if config.quarantine is not None:
        _probe("--quarantine", config.quarantine, config.quarantine)


def _probe(flag: str, folder: str, inner: str) -> None:
    probe = files.join(inner, "probe")
    try:
        files.make_directory(inner)
        files.write_whole(probe, b"")
        files.remove(probe)
    except (BeamIOError, OSError) as error:
        raise UsageError(f"cannot write to {flag} {folder}: {one_line(error)}") from error
