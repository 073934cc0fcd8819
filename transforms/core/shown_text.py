"""Text that people get to see: on one line, without control characters and without secrets."""

from __future__ import annotations

import re

HIDDEN = "[hidden]"
"""What stands in the place of a secret."""

# Parameters that let whoever has the address read or write, and what tells whose they are.
_PARAMETERS = (
    r"x-(?:goog|amz)-(?:signature|credential|security-token)|signature|sig|awsaccesskeyid"
    r"|googleaccessid|key|upload_id|password|api_?key|client_secret"
    r"|(?:access_|refresh_|id_)?token"
)
# What such a value ends before; a full stop or colon after it belongs to the sentence.
_VALUE = r"[^\s&'\"<>]*[^\s&'\"<>.,:;)]"
_SECRETS = (
    # Of an unknown web server, any parameter may be the secret.
    re.compile(r"(https?://[^\s?'\"<>]{1,1000}\?)[^\s'\"<>]*[^\s'\"<>.,:;)]", re.IGNORECASE),
    re.compile(rf"([?&](?:{_PARAMETERS})=){_VALUE}", re.IGNORECASE),
    re.compile(rf"(\bBearer\s+){_VALUE}", re.IGNORECASE),
    re.compile(r"(://[^\s/:@]*:)[^\s/@]+(?=@)"),
)


def redacted(text: str) -> str:
    """`text` without what would let a reader act as its writer.

    That is what follows the `?` of a web address, the signature of others (`X-Goog-Signature=`,
    `sig=`, `token=` ...), the password in an address, and bearer tokens.

    >>> redacted("https://host/a.jpg?size=2&X-Goog-Signature=abc: 403")
    'https://host/a.jpg?[hidden]: 403'
    >>> redacted("gs://bucket/a.jpg?X-Goog-Signature=abc")
    'gs://bucket/a.jpg?X-Goog-Signature=[hidden]'
    >>> redacted("s3://me:secret@bucket/a.jpg")
    's3://me:[hidden]@bucket/a.jpg'
    """
    for secret in _SECRETS:
        text = secret.sub(rf"\g<1>{HIDDEN}", text)
    return text


def holds_secret(text: str) -> bool:
    """Whether `redacted` would hide a part of `text`."""
    return any(secret.search(text) for secret in _SECRETS)


def printable(text: str) -> str:
    r"""`text` on one line, with what is not printable escaped: a name may hold anything.

    >>> printable("two\nlines")
    'two\\nlines'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def first_line(error: BaseException) -> str:
    """The first line of what an exception says; its type when it says nothing.

    >>> first_line(ValueError("no\\nmore")), first_line(TimeoutError())
    ('no', 'TimeoutError')
    """
    lines = (line.strip() for line in str(error).splitlines())
    return next(filter(None, lines), type(error).__name__)


def format_bytes(count: float) -> str:
    """A number of bytes for people.

    >>> format_bytes(123_456_789)
    '123.5 MB'
    """
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
