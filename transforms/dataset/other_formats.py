"""Records as other readers take them: WebDataset, Parquet of Hugging Face, ArrayRecord."""

from __future__ import annotations

import base64
import dataclasses
import functools
import importlib
import io
import json
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from transforms.dataset.output_names import file_stem
from transforms.examples.decoder import RecordParser
from transforms.examples.layouts import Feature, Role
from transforms.images.headers import image_format
from transforms.images.pixel_options import DEFAULT_LIMITS
from transforms.labels.vocabulary import BACKGROUND

if TYPE_CHECKING:
    import pyarrow as pa

IMAGE, LABEL, KEY = "image", "label", "key"
"""The columns of the image, its only class and its key; the others are named as their features."""

# A key of a tar, in bytes: the header of a member holds 100, with the extension.
_MOST_KEY = 80

# A row group is held in memory.
_GROUP_BYTES, _GROUP_ROWS = 32 << 20, 1000

_FILES = (Role.IMAGE, Role.FURTHER_IMAGE, Role.MASK, Role.OBJECT_MASK)

Records = Iterable[tuple[str, bytes]]
"""Keys and serialized Examples."""


@dataclasses.dataclass(frozen=True)
class Described:
    """What records hold.

    Attributes:
        features: of the manifest.
        classes: the names of classes by their ids.
        problem: what is wrong with a key by the values of its record, or an empty text.
    """

    features: Sequence[Feature]
    classes: Mapping[int, str]
    problem: Callable[[str, Mapping[str, Any]], str]

    @functools.cached_property
    def columns(self) -> dict[str, Feature]:
        """The features by the names that they get."""
        named: dict[str, Feature] = {}
        for feature in self.features:
            name = {Role.IMAGE: IMAGE, Role.CLASS_ID: LABEL}.get(feature.role, "")
            if not name or feature.is_list or name in named:
                name = feature.name
                while name in (*named, IMAGE, LABEL, KEY):
                    name += "_"
            named[name] = feature
        return named

    def values(self, records: Records) -> Iterator[dict[str, Any]]:
        """The key and the values of each record; bytes are text unless they are files or arrays.

        Raises:
            ValueError: a record does not hold its features.
        """
        parser = RecordParser(self.features, channels=3, limits=DEFAULT_LIMITS, decode=False)
        for key, record in records:
            found = parser.parse(record)
            if problem := self.problem(key, found):
                raise ValueError(f"a record is damaged: {problem} the index")
            values = {name: _plain(each, found[each.name]) for name, each in self.columns.items()}
            if IMAGE in values:
                values[IMAGE]["path"] = key
            yield {KEY: key, **values}

    @property
    def names(self) -> list[str]:
        """The names of ids from 0, if none is missing; of ids from 1, 0 is the background."""
        names = dict(self.classes)
        if 1 in names and 0 not in names and BACKGROUND not in names.values():
            names[0] = BACKGROUND
        dense = sorted(names) == [*range(len(names))]
        return [names[number] for number in sorted(names)] if dense else []


def write_webdataset(stream: Any, records: Records, described: Described) -> None:
    """Writes a tar of `KEY.jpg`, `KEY.cls` with the class id, and `KEY.json` with all the rest.

    Files of a record follow each other, sorted by their names. WebDataset splits a name at its
    first dot: in keys, dots and characters that are special in names are `%` and hexadecimal
    digits, and a long key ends in a digest; `key` in the JSON is the key itself.
    """
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for values in described.values(records):
            image, label = values.pop(IMAGE, None), values.get(LABEL)
            members = {} if image is None else {_extension(image["bytes"]): image["bytes"]}
            if label is not None:
                members["cls"] = str(label).encode()
                values[LABEL] = described.classes.get(label, str(label))
            members["json"] = json.dumps(values, ensure_ascii=False, default=_encoded).encode()
            for extension, data in sorted(members.items()):
                entry = tarfile.TarInfo(f"{tar_key(values[KEY])}.{extension}")
                entry.size = len(data)
                tar.addfile(entry, io.BytesIO(data))


def write_parquet(stream: Any, records: Records, described: Described) -> None:
    """Writes a Parquet file whose metadata say to Hugging Face what are images and classes."""
    import pyarrow as pa
    from pyarrow import parquet

    schema = _schema(described)
    with parquet.ParquetWriter(stream, schema, use_dictionary=False) as writer:
        for group in _groups(records):
            rows = list(described.values(group))
            writer.write_table(pa.Table.from_pylist(rows, schema))


def write_array_record(stream: Any, records: Records, described: Described) -> None:
    """Writes an ArrayRecord of the serialized Examples."""
    # Of the extra `array_record`; it writes local files only.
    module = importlib.import_module("array_record.python.array_record_module")
    with tempfile.NamedTemporaryFile() as file:
        writer = module.ArrayRecordWriter(file.name, "group_size:1")
        for _, record in records:
            writer.write(record)
        writer.close()
        with open(file.name, "rb") as written:
            shutil.copyfileobj(written, stream)


def tar_key(key: str) -> str:
    """A key as WebDataset reads it back from the name of a file; different ones stay different.

    >>> tar_key("cat/1.5.jpg"), tar_key("__a__")
    ('cat%2F1%2E5%2Ejpg', '__a__')
    """
    return file_stem(key, max_bytes=_MOST_KEY).replace(".", "%2E")


def _plain(feature: Feature, value: Any) -> Any:
    """A value or a list in Python's types: `{bytes, path}` of a file, text of other bytes."""
    if feature.holds_many:
        one = feature._replace(shape=())
        return [_plain(one, each) for each in np.ravel(value).tolist()]
    if feature.role in _FILES:
        return {"bytes": value, "path": None}
    if isinstance(value, bytes):
        return value if feature.encoding else value.decode()
    return value.item() if isinstance(value, np.generic) else value


def _extension(image: bytes) -> str:
    found = image_format(image)
    return {"jpeg": "jpg", "": "bin"}.get(found, found)


def _encoded(value: bytes) -> str:
    """Bytes in JSON."""
    return base64.b64encode(value).decode()


def _groups(records: Records) -> Iterator[list[tuple[str, bytes]]]:
    """Records that are held at once."""
    group, held = [], 0
    for key, record in records:
        group.append((key, record))
        held += len(record)
        if held >= _GROUP_BYTES or len(group) == _GROUP_ROWS:
            yield group
            group, held = [], 0
    if group:
        yield group


def _schema(described: Described) -> pa.Schema:
    import pyarrow as pa

    kinds = {"int64": pa.int64(), "float": pa.float32(), "bytes": pa.string()}
    file = pa.struct({"bytes": pa.binary(), "path": pa.string()})
    fields, known = {KEY: pa.string()}, {}
    for name, feature in described.columns.items():
        kind: pa.DataType = pa.binary() if feature.encoding else kinds[feature.dtype]
        said: dict[str, Any] | None = None
        if feature.role in _FILES:
            kind, said = file, {"_type": "Image"}
        elif feature.role is Role.CLASS_ID and described.names:
            said = {"names": described.names, "_type": "ClassLabel"}
        if feature.holds_many:
            kind, said = pa.list_(kind), said and {"feature": said, "_type": "Sequence"}
        fields[name] = kind
        if said:
            known[name] = said
    text = json.dumps({"info": {"features": known}}, ensure_ascii=False)
    return pa.schema(fields, metadata={"huggingface": text})
