"""`-v`: logs of libraries, and tracebacks of errors that are otherwise one line."""

from __future__ import annotations

import logging

from transforms.core.shown_text import redacted

_OURS = "pipeline"
_PACKAGES = (_OURS, "transforms")


class _Redacting(logging.Formatter):
    """Hides secrets, as messages do."""

    def format(self, record: logging.LogRecord) -> str:
        return redacted(super().format(record))


class _Plain(logging.Formatter):
    """Leaves our own warnings, which are lines for people, as they are."""

    def format(self, record: logging.LogRecord) -> str:
        if record.name.partition(".")[0] in _PACKAGES:
            return redacted(record.getMessage())
        return super().format(record)


def show_plain_warnings() -> None:
    """Writes our warnings without level and module; Beam's options have set up logging."""
    for handler in logging.getLogger().handlers:
        # Others have a form of their own.
        if type(handler) is logging.StreamHandler:
            handler.setFormatter(_Plain(logging.BASIC_FORMAT))


def show_logs() -> None:
    """Writes the logs of all libraries, from INFO, to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Redacting("%(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    logging.getLogger(_OURS).setLevel(logging.DEBUG)


def shows_logs() -> bool:
    """Whether `-v` is given."""
    return logging.getLogger(_OURS).isEnabledFor(logging.DEBUG)


def log_traceback(error: BaseException) -> None:
    """Logs where an error comes from, for `-v`."""
    logging.getLogger(_OURS).debug("where the error comes from", exc_info=error)
