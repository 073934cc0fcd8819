"""Archives for tests: zips, tars and Parquet files, also those that no program writes."""

import io
import json
import struct
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

MODIFIED = (2024, 1, 2, 3, 4, 6)


class _Unseekable(io.RawIOBase):
    """A target to which a zip is streamed: sizes and checksums follow the data of a member."""

    def __init__(self) -> None:
        self.data = b""

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self.data += data
        return len(data)


def zipped(
    files: Mapping[str, bytes], method: int = zipfile.ZIP_STORED, *, streamed: bool = False
) -> bytes:
    """A zip of these files, with the same bytes on each run."""
    target = _Unseekable() if streamed else io.BytesIO()
    with zipfile.ZipFile(target, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name, MODIFIED), data, method)
    return target.data if isinstance(target, _Unseekable) else target.getvalue()


def tarred(files: Mapping[str, bytes], *, links: Mapping[str, str] | None = None) -> bytes:
    """A tar of these files, then of these symbolic links to others."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        for name, linked in (links or {}).items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, linked
            archive.addfile(info)
    return target.getvalue()


def _entry(archive: bytes, name: str) -> int:
    """Where the directory of a zip describes a file."""
    at = archive.rindex(name.encode()) - 46
    assert archive[at : at + 4] == b"PK\x01\x02"
    return at


def with_size(archive: bytes, name: str, size: int) -> bytes:
    """A zip whose directory lies about the size of a file."""
    at = _entry(archive, name) + 24
    return archive[:at] + struct.pack("<I", size) + archive[at + 4 :]


def with_flag(archive: bytes, name: str, flag: int) -> bytes:
    """A zip whose directory sets a flag of a file, such as 1 if it is encrypted."""
    at = _entry(archive, name) + 8
    return archive[:at] + struct.pack("<H", flag) + archive[at + 2 :]


def damaged(archive: bytes, data: bytes) -> bytes:
    """An archive with a bit changed in the middle of this data, which is in it once."""
    assert archive.count(data) == 1
    at = archive.index(data) + len(data) // 2
    return archive[:at] + bytes([archive[at] ^ 1]) + archive[at + 1 :]


def write_parquet(
    path: Path,
    images: Mapping[Any, bytes | None],
    classes: Sequence[str] = (),
    *,
    labels: Sequence[Any] = (),
    columns: Mapping[str, Any] | None = None,
    **options: Any,
) -> None:
    """Images in Parquet as `datasets` writes them: paths and bytes, and what the schema says.

    Args:
        path: of the file.
        images: by their paths.
        classes: names of the labels; empty for other labels.
        labels: of the images; without them, there is no such column.
        columns: further ones, and others in place of these.
        options: of the writer.
    """
    known: dict[str, Any] = {"image": {"_type": "Image"}}
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    rows = [{"bytes": data, "path": name} for name, data in images.items()]
    table = {"image": pa.array(rows, kind)}
    if labels:
        table["label"] = pa.array(labels)
    if classes:
        known["label"] = {"names": list(classes), "_type": "ClassLabel"}
    metadata = {"huggingface": json.dumps({"info": {"features": known}})}
    made = pa.table({**table, **(columns or {})})
    pq.write_table(made.replace_schema_metadata(metadata), path, **options)
