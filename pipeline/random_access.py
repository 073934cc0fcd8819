"""Records of a finished dataset by number or key: `Records("out/photos", "train")[7]`."""

from __future__ import annotations

import contextlib
import html
import operator
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, SupportsIndex, overload

from pipeline.errors import DatasetError, UsageError
from pipeline.open_dataset import open_dataset, split_ranges
from pipeline.resolve.path_flags import check_path
from transforms.core.messages import FinalError, one_line
from transforms.core.option import path_text, truth
from transforms.core.rejections import RejectedImageError
from transforms.dataset.output_names import MANIFEST
from transforms.examples.decoder import RecordParser
from transforms.examples.layouts import Feature
from transforms.images.pixel_options import DEFAULT_LIMITS, Limits, stored_depth, stored_shape
from transforms.labels.keys import nfc
from transforms.records.foreign_records import key_feature, key_problem
from transforms.records.record_index import RecordIndexError
from transforms.records.written_index import IndexReader, RecordKeys, UnreadableRecordError
from transforms.storage.files import join, storage_of

# Errors of files that a run removed or replaced; others, such as permissions, say nothing of them.
_OF_OTHER_FILES = (FileNotFoundError, FinalError)

# Records that a notebook shows, and characters of a value.
_SHOWN, _LONGEST = 12, 40


class Records:
    """The records of a split, each by its number or its key, without TensorFlow.

    A record is a dict by feature name with the values that `load` gives: `bytes`, NumPy scalars and
    arrays. Its checksums are checked. A slice is a `Records` of its records and reads nothing. The
    order is that of the files: Grain and PyTorch shuffle the numbers.

    Several threads may read, and a pickled copy reads in another process. In memory, the index has
    12 bytes for each record, and after the first look-up of a key its key and 12 bytes more.
    """

    def __init__(self, output: str | os.PathLike[str], split: str, *, decode: bool = False) -> None:
        """Opens the index of a split.

        Args:
            output: the folder of a dataset, local or `gs://`; not one with `--compression gzip`.
            split: one of its splits, slices of them, or several, as for `load`: `train`,
                `train[:10%]`, `train+validation`, `all`.
            decode: images to uint8 `[height, width, 3]` (uint16 after `--depth 16`; 1 channel after
                `--color gray`; of an animation, the first frame), masks to uint8 `[height, width,
                1]`, those of objects to `[objects, height, width, 1]`, packed arrays to their dtype
                and shape. Otherwise all stay bytes.

        Raises:
            UsageError: there is no finished dataset, no such split or slice, or no index that can
                be read in any order.
            DatasetError: the index is damaged.
            TypeError: an argument has the wrong type.
        """
        output = path_text("output", output).rstrip("/") or "/"
        if not isinstance(split, str):
            raise TypeError(f"split is a str such as 'train', not {split!r}")
        self._name = f"{output!r}, {split!r}{', decode=True' if truth('decode', decode) else ''}"
        check_path("the folder", output)
        storage = storage_of(output)
        # In a bucket, each shard would take a further request.
        listed = None if storage.is_remote else storage.find(join(output, MANIFEST))
        manifest = open_dataset(output)
        self._folder = output
        self._ranges = tuple(split_ranges(output, split, manifest))
        self._index = open_index(output, manifest, [each.file for each in self._ranges])
        options = manifest["options"]
        self._parser = RecordParser(
            tuple(map(Feature.from_manifest, manifest["features"])),
            channels=stored_shape(options)[2],
            depth=stored_depth(options),
            limits=Limits(
                max_pixels=options.get("max_pixels") or DEFAULT_LIMITS.max_pixels,
                max_bytes=options.get("max_bytes") or DEFAULT_LIMITS.max_bytes,
            ),
            decode=decode,
        )
        with reading_index(output):
            self._files = self._index.files(self._ranges, listed)
        self._keyed = key_feature(manifest)
        self._keys: RecordKeys | None = None
        self._chosen = range(len(self._files.offsets))

    def __len__(self) -> int:
        return len(self._chosen)

    def __repr__(self) -> str:
        # Without addresses: Grain compares it when a checkpoint is restored.
        is_whole = self._chosen == range(len(self._files.offsets))
        of = "" if is_whole else f", {self._chosen!r}"
        return f"<Records({self._name}): {len(self)} records{of}>"

    @overload
    def __getitem__(self, chosen: SupportsIndex | str) -> dict[str, Any]: ...

    @overload
    def __getitem__(self, chosen: slice) -> Records: ...

    def __getitem__(self, chosen: SupportsIndex | str | slice) -> dict[str, Any] | Records:
        """One record by its number (below 0 from the end) or key, or the records of a slice.

        Raises:
            IndexError: there is no such number.
            KeyError: there is no such key.
            DatasetError: the record cannot be read, or is damaged.
            TypeError: `chosen` is something else.
        """
        if isinstance(chosen, slice):
            return self._part(self._chosen[chosen])
        place = self._place_of_key(chosen) if isinstance(chosen, str) else self._place(chosen)
        with self._reading():
            record = self._files.read(place)
        parsed = self._parsed(place, record)
        # The index may have been edited.
        if isinstance(chosen, str) and (problem := key_problem(self._keyed, chosen, parsed)):
            path, number = self._files.path(place), self._files.number(place)
            index = self._index.path(path.removeprefix(f"{self._folder}/"))
            raise self._damaged(f"{path}: record {number}: {problem} {index}")
        return parsed

    def __getitems__(self, numbers: Sequence[SupportsIndex]) -> list[dict[str, Any]]:
        """Several records by their numbers, in parallel from a bucket; PyTorch calls it."""
        places = [self._place(number) for number in numbers]
        with self._reading():
            records = self._files.read_many(places)
        return list(map(self._parsed, places, records))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """All records in order; neighbors are read at once."""
        records = self._files.read_ahead(self._chosen)
        for place in self._chosen:
            with self._reading():
                record = next(records)
            yield self._parsed(place, record)

    def __contains__(self, key: object) -> bool:
        """Whether a record has this key."""
        return isinstance(key, str) and self._find(key) is not None

    def __getstate__(self) -> dict[str, Any]:
        # Another process reads the keys again if it needs them.
        return {**self.__dict__, "_keys": None}

    def _repr_html_(self) -> str:
        """The first records with their pictures, for a notebook."""
        figures = []
        for record in self[:_SHOWN]:
            shown = ", ".join(_in_html(name, value) for name, value in record.items())
            figures.append(f'<p style="width:160px;overflow-wrap:anywhere">{shown}</p>')
        style = "display:flex;flex-wrap:wrap;gap:1em"
        return f'{html.escape(repr(self))}<div style="{style}">{"".join(figures)}</div>'

    def _part(self, chosen: range) -> Records:
        part = object.__new__(type(self))
        part.__dict__.update(self.__dict__, _chosen=chosen)
        return part

    def _place(self, number: SupportsIndex) -> int:
        """The place of a record among those of the split."""
        try:
            return self._chosen[operator.index(number)]
        except IndexError:
            raise IndexError(f"there is no record {number}: {self!r}") from None
        except TypeError:
            raise TypeError(f"a record has a number or a key, not {number!r}") from None

    def _place_of_key(self, key: str) -> int:
        place = self._find(key)
        if place is not None:
            return place
        near = self._opened_keys().closest(key)
        is_there = near is not None and near in self
        raise KeyError(f"no record has the key {key!r}" + f"; did you mean {near!r}?" * is_there)

    def _find(self, key: str) -> int | None:
        """The place of the record with a key, if it is one of those chosen."""
        keys = self._opened_keys()
        place = keys.find(key, self._chosen)
        # Keys are in NFC, names of files on a Mac in NFD.
        return keys.find(nfc(key), self._chosen) if place is None else place

    def _opened_keys(self) -> RecordKeys:
        if self._keys is None:
            with reading_index(self._folder):
                self._keys = self._index.keys(self._ranges)
        return self._keys

    def _parsed(self, place: int, record: bytes) -> dict[str, Any]:
        try:
            return self._parser.parse(record)
        except (ValueError, RejectedImageError) as error:
            number = self._files.number(place)
            detail = error.detail if isinstance(error, RejectedImageError) else error
            raise self._damaged(f"{self._files.path(place)}: record {number}: {detail}") from error

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except UnreadableRecordError as error:
            cause = error.__cause__
            if isinstance(cause, OSError) and not isinstance(cause, _OF_OTHER_FILES):
                raise DatasetError(str(error)) from error
            raise self._damaged(str(error)) from error

    def _damaged(self, problem: str) -> DatasetError:
        problem = problem.removesuffix(".")
        return DatasetError(
            f"{problem}. The dataset is damaged, or was replaced since it was opened: "
            f"see `verify {self._folder}`"
        )


def _in_html(name: str, value: Any) -> str:
    """A feature as a small picture, or with the begin of its text."""
    # Readers without a notebook do not wait for these.
    import simplejpeg

    from transforms.report.thumbnails import thumbnail

    picture = value if isinstance(value, bytes) else b""
    if getattr(value, "ndim", 0) == 3 and value.dtype.kind == "u":
        pixels = (value if value.dtype.itemsize == 1 else value >> 8).astype("uint8", order="C")
        color = "RGB" if pixels.shape[2] == 3 else "GRAY"
        picture = simplejpeg.encode_jpeg(pixels, colorspace=color)
    if found := thumbnail(picture, edge=160, max_bytes=20_000):
        return f'<img src="{found["uri"]}"><br>'
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    return html.escape(f"{name.rpartition('/')[2]} {text[:_LONGEST]}")


def open_index(
    output: str, manifest: Mapping[str, Any], files: Collection[str], *, alone: bool = True
) -> IndexReader:
    """What reads the indexes of some files of a dataset.

    Args:
        output: its folder.
        manifest: of the dataset.
        files: shards, or files of one record each.
        alone: whether single records are to be read, which compressed files do not allow.

    Raises:
        UsageError: the files are compressed, or have no index.
    """
    if alone and any(name.endswith(".gz") for name in files):
        raise UsageError(
            f"{output} has gzip shards, in which no record can be read alone: use `load`, or "
            "convert with --compression none"
        )
    index = IndexReader(output, manifest)
    if not index.has_index(files):
        raise UsageError(f"{output} has no index of its records: convert again")
    return index


@contextlib.contextmanager
def reading_index(output: str) -> Iterator[None]:
    """Reads an index of a dataset, or raises `DatasetError` if it cannot be read or is damaged."""
    try:
        yield
    except RecordIndexError as error:
        raise DatasetError(f"{error}; see `verify {output}`") from error
    except OSError as error:
        raise DatasetError(f"cannot read the index of {output}: {one_line(error)}") from error
