"""Prepares text for display: on one line, without control characters and secrets."""

from __future__ import annotations

import re
from typing import Any

# Characters of an option's value that a message shows.
_MAX_WRITTEN = 100

HIDDEN = "[hidden]"
"""The replacement for a secret."""

# Names of parameters that grant access to whoever has the address, or that identify the user.
_NAMES = (
    r"[\w.-]{0,40}(?:signature|credential|token|secret|passw(?:or)?d|passphrase|sess(?:ion)?_?id"
    r"|session|api[_-]?key|access[_-]?key|private[_-]?key|authorization|jwt)[\w.-]{0,40}"
    r"|sas|sig|sid|pwd|upload_id|googleaccessid|hdnea|hdnts"
)
# Names that are often used for something else: only matched where parameters begin.
_SHORT_NAMES = r"key|auth|code"
# Beginning and end of a parameter's name, also percent-encoded, for an address inside another.
_QUERY, _ANY, _EQUALS = r"[?&]|%3f|%26", r"[?&#;]|%3f|%26|%23|%3b", r"=|%3d"
# Characters that end such a value; a full stop or colon after it belongs to the sentence.
_VALUE = r"[^\s&'\"<>]*[^\s&'\"<>.,:;)]"
_SECRETS = (
    # For an unknown web server, any parameter may be the secret.
    re.compile(r"(https?://[^\s?'\"<>]{1,1000}\?)[^\s'\"<>]*[^\s'\"<>.,:;)]", re.IGNORECASE),
    re.compile(
        rf"((?:(?:{_ANY})(?:{_NAMES})|(?:{_QUERY})(?:{_SHORT_NAMES}))(?:{_EQUALS})){_VALUE}",
        re.IGNORECASE,
    ),
    re.compile(rf"(\bBearer\s+){_VALUE}", re.IGNORECASE),
    re.compile(rf"(\bAuthorization:\s*(?:Basic|Digest)\s+){_VALUE}", re.IGNORECASE),
    re.compile(r"(://[^\s/:@]*:)[^\s/@]+(?=@)"),
    # A web address may have only a token before its host; a bucket has its own name there.
    re.compile(r"(https?://)(?!\[hidden\])[^\s/:@?#]+(?=@)", re.IGNORECASE),
)


def shown_size(height: int, width: int) -> str:
    """The size of an image, with its unit.

    >>> shown_size(480, 640)
    '480 x 640 pixels (height x width)'
    """
    return f"{height} x {width} pixels (height x width)"


_MARKS = ("=", "%3d", "://", "bearer", "authorization")


def redacted(text: str) -> str:
    """`text` without secrets that would let a reader act as its writer.

    Secrets are the query of a web address; parameters of any address that are named like a
    secret (`X-Goog-Signature=`, `sig=`, `#access_token=`, `;jsessionid=` ...); the password in an
    address, the user of a web address; and tokens in the header of a request.

    >>> redacted("https://host/a.jpg?size=2&X-Goog-Signature=abc: 403")
    'https://host/a.jpg?[hidden]: 403'
    >>> redacted("gs://bucket/a.jpg?X-Goog-Signature=abc")
    'gs://bucket/a.jpg?X-Goog-Signature=[hidden]'
    >>> redacted("s3://me:secret@bucket/a.jpg")
    's3://me:[hidden]@bucket/a.jpg'
    """
    if not _may_hold_secret(text):
        return text
    for secret in _SECRETS:
        text = secret.sub(rf"\g<1>{HIDDEN}", text)
    return text


def holds_secret(text: str) -> bool:
    """Whether `redacted` would hide a part of `text`."""
    return _may_hold_secret(text) and any(secret.search(text) for secret in _SECRETS)


def _may_hold_secret(text: str) -> bool:
    """A quick test for characters that every secret needs, because few of many paths have them."""
    lowered = text.lower()
    return any(mark in lowered for mark in _MARKS)


def printable(text: str) -> str:
    r"""`text` on one line, with unprintable characters escaped.

    >>> printable("two\nlines")
    'two\\nlines'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def first_line(error: BaseException) -> str:
    """The first line of an exception's message, or its type without one.

    >>> first_line(ValueError("no\\nmore")), first_line(TimeoutError())
    ('no', 'TimeoutError')
    """
    lines = (line.strip() for line in str(error).splitlines())
    return next(filter(None, lines), type(error).__name__)


def format_bytes(count: float) -> str:
    """A number of bytes as readable text.

    >>> format_bytes(123_456_789)
    '123.5 MB'
    """
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def as_written(value: Any) -> str:
    """The value of an option as written on a command line.

    >>> as_written({"train": 0.9, "test": 0.1}), as_written(None)
    ('train=0.9,test=0.1', 'not given')
    >>> as_written({"out/photos:test": "4f53cda1"})
    'out/photos:test=4f53cda1'
    >>> len(as_written("Photos of pets. " * 99))
    104
    """
    if isinstance(value, dict):
        texts = (each if isinstance(each, str) else f"{each:.12g}" for each in value.values())
        return ",".join(map("=".join, zip(value, texts, strict=True)))
    if isinstance(value, list):
        return ",".join(map(str, value[:5])) + (" ..." if len(value) > 5 else "")
    text = "not given" if value is None else str(value)
    return text if len(text) <= _MAX_WRITTEN else f"{text[:_MAX_WRITTEN]} ..."
