"""One TFRecord file as it is written: frames, compression and checksum."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from apache_beam.io.filesystem import CompressedFile, CompressionTypes

from transforms.storage.checksummed_file import ChecksummedFile, Sha256File, Writable


class RecordStream:
    """Writes records with Beam's own sink."""

    def __init__(self, sink: Any, file: Writable, *, with_sha256: bool = False) -> None:
        """Begins a file.

        Args:
            sink: frames the records, and says whether they are compressed.
            file: gets the bytes; it is not closed.
            with_sha256: whether to compute the SHA-256 of the file.
        """
        self._sink = sink
        self._file = (Sha256File if with_sha256 else ChecksummedFile)(file)
        self._stream: Any = self._file
        if sink.compression_type == CompressionTypes.GZIP:
            self._stream = CompressedFile(self._file, CompressionTypes.GZIP)

    def write(self, records: Iterable[bytes]) -> None:
        """Writes further records."""
        for record in records:
            self._sink.write_record(self._stream, record)

    def close(self) -> ChecksummedFile:
        """Writes what is left in the compressor; returns the file with its size and checksum."""
        self._stream.close()
        return self._file


def write_records(sink: Any, file: Writable, records: Iterable[bytes]) -> ChecksummedFile:
    """Writes all records of a file at once; see `RecordStream`."""
    stream = RecordStream(sink, file)
    stream.write(records)
    return stream.close()
