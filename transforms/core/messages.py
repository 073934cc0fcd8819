"""Words for people: sizes, lists, texts of errors, what was decided."""

from __future__ import annotations

import errno
import gc
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

# Prepares text for display: on one line, without control characters and secrets.

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
_SECRET_VALUE = r"[^\s&'\"<>]*[^\s&'\"<>.,:;)]"
_SECRETS = (
    # For an unknown web server, any parameter may be the secret.
    re.compile(r"(https?://[^\s?'\"<>]{1,1000}\?)[^\s'\"<>]*[^\s'\"<>.,:;)]", re.IGNORECASE),
    re.compile(
        rf"((?:(?:{_ANY})(?:{_NAMES})|(?:{_QUERY})(?:{_SHORT_NAMES}))(?:{_EQUALS})){_SECRET_VALUE}",
        re.IGNORECASE,
    ),
    re.compile(rf"(\bBearer\s+){_SECRET_VALUE}", re.IGNORECASE),
    re.compile(rf"(\bAuthorization:\s*(?:Basic|Digest)\s+){_SECRET_VALUE}", re.IGNORECASE),
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
    if not may_hold_secret(text):
        return text
    for secret in _SECRETS:
        text = secret.sub(rf"\g<1>{HIDDEN}", text)
    return text


def holds_secret(text: str) -> bool:
    """Whether `redacted` would hide a part of `text`."""
    return may_hold_secret(text) and any(secret.search(text) for secret in _SECRETS)


def may_hold_secret(text: str) -> bool:
    """A quick test for characters that every secret needs, because few of many paths have them."""
    lowered = text.lower()
    has_name = "bearer" in lowered or "authorization" in lowered
    return has_name or "=" in lowered or "%3d" in lowered or "://" in lowered


def printable(text: str) -> str:
    r"""`text` on one line, with unprintable characters escaped.

    >>> printable("two\nlines")
    'two\\nlines'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def is_utf8(text: str) -> bool:
    """Whether UTF-8 can hold a text: names with other bytes have halves of surrogate pairs.

    >>> is_utf8("한강.jpg"), is_utf8(chr(0xDCFF))
    (True, False)
    """
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def first_line(error: BaseException) -> str:
    """The first line of an exception's message, or its type without one.

    >>> first_line(ValueError("no\\nmore")), first_line(TimeoutError())
    ('no', 'TimeoutError')
    """
    lines = (line.strip() for line in str(error).splitlines())
    return next(filter(None, lines), type(error).__name__)


def quantity(number: int, noun: str, several: str = "") -> str:
    """A number of things.

    Args:
        number: how many.
        noun: for one.
        several: for another number, if an `s` does not make it.

    >>> quantity(1, "pair"), quantity(2, "pair"), quantity(3, "class", "classes")
    ('1 pair', '2 pairs', '3 classes')
    """
    return f"{number} {noun if number == 1 else several or f'{noun}s'}"


def and_more(texts: Sequence[str], total: int) -> str:
    """The first texts of several, and how many more there are.

    >>> and_more(["a", "b"], 2), and_more(["a", "b"], 5)
    ('a, b', 'a, b and 3 more')
    """
    more = f" and {total - len(texts)} more" if total > len(texts) else ""
    return ", ".join(texts) + more


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


# Decisions made by the tool: the value, the evidence for it, and the flag that sets it.
#
# Decisions are printed by `plan` and `convert` as the block "Decided", stored in the manifest
# under `decided` and shown in the report. They describe a dataset and never affect its bytes: no
# recipe and no digest of options contains them.

TITLE = "Decided"
"""The first line of the block."""

# Column widths of the block, in characters; longer text shifts the rest of its line.
_WHAT, _VALUE = 14, 19


class Decision(NamedTuple):
    """One decision.

    Attributes:
        what: its subject, such as `label column`; at most 14 characters keep the block
            aligned.
        value: what was chosen.
        because: the evidence, in a few words; see `given` for decisions of a flag.
        flag: the flag that sets it, such as `--label_column`; empty when there is none.
    """

    what: str
    value: str
    because: str
    flag: str = ""


def given(what: str, value: str, flag: str) -> Decision:
    """A decision that a flag made.

    >>> given("key", "path", "--key").because
    'given'
    """
    return Decision(what, value, "given", flag)


def decision_lines(decisions: Iterable[Decision]) -> list[str]:
    """The block as text: its title and a line for each decision; empty without decisions.

    >>> print(*decision_lines([Decision("key", "stem", "default", "--key")]), sep="|")
    Decided|  key            stem                 default [--key]
    """
    lines = [printable(_line(decision)).rstrip() for decision in decisions]
    return [TITLE, *lines] if lines else []


def _line(decision: Decision) -> str:
    flag = f" [{decision.flag}]" if decision.flag else ""
    return (
        f"  {decision.what:<{_WHAT}} {decision.value or '(nothing)':<{_VALUE}}  "
        f"{decision.because}{flag}"
    )


def entries_of(records: Iterable[NamedTuple]) -> list[dict[str, str]]:
    """Decisions or warnings as the entry `decided` or `warnings` of the manifest."""
    return [record._asdict() for record in records]


def from_manifest(manifest: Mapping[str, Any]) -> list[Decision]:
    """The decisions that a manifest lists; none if it has no such entry."""
    return [
        Decision(*(str(entry.get(name, "")) for name in Decision._fields))
        for entry in manifest.get("decided", ())
    ]


def later(decisions: Iterable[Decision], earlier: Iterable[Decision]) -> list[Decision]:
    """The decisions that are new since earlier ones: they needed all inputs."""
    known = {decision.what for decision in earlier}
    return [decision for decision in decisions if decision.what not in known]


# Reads JSON from untrusted sources.


MAX_VALUES = 10_000_000
"""The most commas and brackets in JSON: a manifest of a million files has eight million."""

MAX_ENTRIES = 25_000
"""The most commas and lines in YAML, which takes 0.2 ms for each, and for 100 characters."""

# A layout of 100 KB took minutes: aliases repeated one long shape in each of its features.
_MAX_REPEATED = 40 * MAX_ENTRIES


def parse_yaml(text: str, *, as_texts: bool = False) -> Any:
    """Reads YAML.

    Args:
        text: the whole.
        as_texts: whether to return lists, dicts and texts, not the root of nodes that know their
            lines.

    Raises:
        ValueError: it is not YAML, is nested too deeply to be read, or takes minutes; the message
            goes on behind its name.

    >>> parse_yaml("a: [no, 1]", as_texts=True)
    {'a': ['no', '1']}
    """
    # Few runs need it.
    import yaml

    if max(text.count(",") + len(text.splitlines()), len(text) // 100) > MAX_ENTRIES:
        raise ValueError(f"has over {MAX_ENTRIES} commas and lines, or 100 characters for each")
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        if root is not None and _yaml_size(root, {}) > _MAX_REPEATED:
            raise ValueError(f"has aliases that repeat {_MAX_REPEATED} values: leave some out")
        if root is None or not as_texts:
            return root
        return yaml.constructor.BaseConstructor().construct_document(root)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ValueError(f"line {line}: invalid YAML: {error.problem}") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(f"is not YAML, or is nested too deeply: {first_line(error)}") from error


def _yaml_size(node: Any, seen: dict[int, int]) -> int:
    """The values of a node, and of each 100 characters, also where they are an alias again."""
    if isinstance(node, tuple):
        return sum(_yaml_size(each, seen) for each in node)
    if id(node) not in seen:
        # A node that holds itself ends here.
        seen[id(node)] = 0
        parts = () if isinstance(node.value, str) else node.value
        seen[id(node)] = 1 + len(node.value) // 100 + sum(_yaml_size(each, seen) for each in parts)
    return seen[id(node)]


def parse_json(text: str | bytes, **readers: Any) -> Any:
    """Reads JSON.

    Args:
        text: the whole.
        readers: of numbers, as `json.loads` takes them.

    Raises:
        ValueError: it is not JSON, is nested too deeply to be read, or takes gigabytes.

    >>> parse_json("[1]")
    [1]
    """
    # An object counts twice: five million small ones take a gigabyte.
    marks: Any = ",[{{" if isinstance(text, str) else b",[{{"
    if sum(map(text.count, marks)) > MAX_VALUES:
        raise ValueError(f"it has more than {MAX_VALUES} values")
    try:
        return without_collecting(json.loads, text, **readers)
    except RecursionError as error:
        raise ValueError("its brackets are nested too deeply") from error


def without_collecting(decode: Callable[..., Any], *text: Any, **readers: Any) -> Any:
    """The result of a function, which decodes what holds no cycles.

    Of a million lists, Python would look for cycles again and again: six times as long.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return decode(*text, **readers)
    finally:
        if collects:
            gc.enable()


def one_line(error: Exception) -> str:
    """The cause of an error in one line, without Beam's wrapping."""
    cause: object = error
    while isinstance(cause, Exception):
        strerror = getattr(cause, "strerror", None)
        if strerror:
            return str(strerror)
        details = getattr(cause, "exception_details", None) or {}
        inner = next(iter(details.values()), None) or (cause.args[0] if cause.args else None)
        if not isinstance(inner, Exception):
            break
        cause = inner
    return first_line(error)


# Errors in label files.


class LabelsError(ValueError):
    """A label file cannot be used; one line: problem, file or flag, and what to do."""


# Classifies failures of a read as final or temporary.

# Errors that a retry would repeat: the file is missing, forbidden, or not a file; or, when writing,
# the disk is full.
_FINAL = frozenset(
    {
        errno.ENOENT,
        errno.EACCES,
        errno.EPERM,
        errno.EISDIR,
        errno.ENOTDIR,
        errno.ELOOP,
        errno.ENAMETOOLONG,
        errno.EINVAL,
        errno.EFBIG,
        errno.ENXIO,
        errno.ENODEV,
        errno.EOPNOTSUPP,
        errno.EEXIST,
        errno.EROFS,
        errno.ENOSPC,
        errno.EDQUOT,
    }
)


class FinalError(OSError):
    """The file itself is damaged, whatever the errno."""


class ChangedError(FinalError):
    """A file or an object is no longer the one that was listed."""


class TooLargeError(FinalError):
    """A file that is read whole has more bytes than allowed."""

    def __init__(self, size: int, most: int, path: str) -> None:
        name = path.rpartition("/")[2]
        problem = f"{name} has at least {size} bytes, more than {most}: it is not read"
        super().__init__(errno.EFBIG, problem, path)


class MemberError(FinalError):
    """A file in an archive is encrypted, damaged, or no file; the rest can be read."""

    def __init__(self, problem: str) -> None:
        super().__init__(errno.EIO, problem)


class WriteError(OSError):
    """A file cannot be written, for a reason that the user can remove; the message says how."""

    def __str__(self) -> str:
        return str(self.args[1])


class TransientError(OSError):
    """A read failed but may succeed later; the message says what to do."""


def is_final(error: OSError) -> bool:
    """Whether a retry would fail too, so that an image can be rejected for it.

    Everything else may be temporary: 429 and 5xx of a service, a time-out, expired credentials, the
    errors of a network file system, which reports many kinds of trouble as `EIO`.

    >>> is_final(FileNotFoundError(errno.ENOENT, "no such file"))
    True
    >>> is_final(TimeoutError(errno.ETIMEDOUT, "no answer")), is_final(OSError("no errno"))
    (False, False)
    """
    if isinstance(error, TransientError):
        return False
    return isinstance(error, FinalError) or error.errno in _FINAL


def check_final(error: OSError, uri: str) -> None:
    """Returns for a final error, and raises for a temporary one.

    Args:
        error: the reason why `uri` could not be read.
        uri: a path or a URL.

    Raises:
        TransientError: a retry may succeed.
    """
    if is_final(error):
        return
    if isinstance(error, TransientError):
        raise error
    raise TransientError(
        f"cannot read {uri}: {error.strerror or error}; run the same command again"
    ) from error
