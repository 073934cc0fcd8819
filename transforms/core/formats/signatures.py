"""Names formats that TensorFlow does not read, by a file's first bytes, with a remedy."""

from __future__ import annotations

import re

# Bytes to inspect: the box with the brands of HEIC and AVIF is seldom longer.
_START = 64

_READ = ", which --transcode auto reads"
_HEIC = "HEIC" + _READ + " after pip install 'image-tfrecords[heic]'"

# Some files begin with a brand of both formats, so the brand of AVIF is searched for.
_AVIF_START = rb".{4}ftyp(?=.*avi[fs])"
_HEIC_START = rb".{4}ftyp(?!.*avi[fs])(hei[cxms]|hev[cxms]|mif1|msf1)"

_SIGNATURES = [
    (re.compile(pattern, re.DOTALL | re.IGNORECASE), name)
    for pattern, name in (
        (rb"II\*\0|MM\0\*", "TIFF" + _READ),
        (_AVIF_START, "AVIF" + _READ),
        (_HEIC_START, _HEIC),
        (rb".{4}ftyp", "a video of the MP4 family"),
        (rb"\0\0\0\x0cjP  \r\n\x87\n|\xff\x4f\xff\x51", "JPEG 2000" + _READ),
        (rb"8BPS", "PSD: export it as PNG"),
        (rb"%PDF-", "PDF"),
        (rb"PK\x03\x04", "a ZIP archive"),
        (rb"\x1f\x8b", "gzip"),
        (rb"\s*<(!doctype html|html)", "a web page"),
        (rb"\s*<(\?xml|svg)", "SVG or other XML"),
        (rb"version https://git-lfs", "a pointer of Git LFS: run git lfs pull"),
    )
]
_HEIC_PATTERN = re.compile(_HEIC_START, re.DOTALL)


def is_heic(data: bytes) -> bool:
    """Whether a file begins like a HEIC, not like an AVIF, which has the same container."""
    return _HEIC_PATTERN.match(data[:_START]) is not None


def describe_start(data: bytes) -> str:
    r"""The first bytes of a file and its format, if known, for the detail of a rejection.

    >>> describe_start(b"II*\0rest")
    'begins with the bytes 49 49 2a 00 72 65 73 74: TIFF, which --transcode auto reads'
    >>> describe_start(b"text")
    'begins with the bytes 74 65 78 74'
    """
    start = f"begins with the bytes {data[:8].hex(' ')}"
    name = next((name for pattern, name in _SIGNATURES if pattern.match(data[:_START])), "")
    return f"{start}: {name}" if name else start
