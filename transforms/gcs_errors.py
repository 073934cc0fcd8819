"""What Google's packages raise, as an `OSError` that says in one line what to do."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator

# Seconds that failed requests are repeated for, with growing pauses.
RETRY_SECONDS = 120


class ChangedError(OSError):
    """A precondition on a generation failed."""


@contextlib.contextmanager
def told(uri: str, *, missing: str = "no such object") -> Iterator[None]:
    """Turns what Google's packages raise into an `OSError` of one line."""
    from google.api_core.exceptions import GoogleAPIError, from_http_response
    from google.auth.exceptions import GoogleAuthError
    from google.cloud.storage.exceptions import InvalidResponse
    from requests import RequestException

    try:
        yield
    except InvalidResponse as error:
        raise _as_os_error(from_http_response(error.response), uri, missing) from error
    except (GoogleAPIError, GoogleAuthError, RequestException) as error:
        raise _as_os_error(error, uri, missing) from error


def _as_os_error(error: Exception, uri: str, missing: str) -> OSError:
    from google.api_core import exceptions
    from google.auth.exceptions import DefaultCredentialsError

    text = first_line(error)
    if isinstance(error, exceptions.NotFound):
        is_bucket = "bucket does not exist" in text.lower()
        return FileNotFoundError(errno.ENOENT, "no such bucket" if is_bucket else missing, uri)
    if isinstance(error, exceptions.PreconditionFailed):
        return ChangedError(errno.ESTALE, "it was overwritten meanwhile", uri)
    if isinstance(error, (exceptions.Forbidden, exceptions.Unauthorized)):
        return PermissionError(errno.EACCES, f"no permission: {text}", uri)
    if isinstance(error, DefaultCredentialsError):
        advice = "run `gcloud auth application-default login`"
        return PermissionError(errno.EACCES, f"no Google credentials: {advice}", uri)
    if isinstance(error, exceptions.RetryError):
        detail = f"no answer in {RETRY_SECONDS} s of retries: {first_line(error.cause)}"
        return OSError(errno.ETIMEDOUT, detail, uri)
    return OSError(errno.EIO, text, uri)


def first_line(error: BaseException | None) -> str:
    """What a service says, without the request."""
    text = str(getattr(error, "message", None) or error)
    if "requester pays" in text.lower():
        return "the bucket is requester-pays: copy the objects to a bucket of your own"
    return text.splitlines()[0] if text else type(error).__name__
