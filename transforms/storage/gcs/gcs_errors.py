"""Translates errors of Google's packages to an `OSError` that says in one line what to do."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from http import HTTPStatus

from transforms.core.file_errors import ChangedError, FinalError

# Seconds for which failed requests are retried, with growing pauses.
RETRY_SECONDS = 120

# Seconds for which a request is sent again that the service refuses because there are too many.
THROTTLED_SECONDS = 600

# Client errors (4xx) for which a retry may still help.
_MAY_PASS = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)


@contextlib.contextmanager
def translate_errors(uri: str, *, missing: str = "no such object") -> Iterator[None]:
    """Turns errors of Google's packages into an `OSError` of one line."""
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
    from google.auth.exceptions import DefaultCredentialsError, RefreshError

    text = first_line(error)
    if isinstance(error, exceptions.NotFound):
        is_bucket = "bucket does not exist" in text.lower()
        return FileNotFoundError(errno.ENOENT, "no such bucket" if is_bucket else missing, uri)
    if isinstance(error, exceptions.PreconditionFailed):
        return ChangedError(errno.ESTALE, "it was overwritten meanwhile", uri)
    if isinstance(error, (exceptions.Forbidden, exceptions.Unauthorized)):
        return PermissionError(errno.EACCES, f"no permission: {text}", uri)
    if isinstance(error, (DefaultCredentialsError, RefreshError)) and not error.retryable:
        # Without an errno: the error is not about the object, and a retry does not help.
        return OSError("no Google credentials: run `gcloud auth application-default login`")
    if isinstance(error, exceptions.RetryError):
        if status_of(error.cause) == HTTPStatus.TOO_MANY_REQUESTS:
            minutes = THROTTLED_SECONDS // 60
            detail = f"the bucket refused requests (429) for {minutes} minutes: try fewer workers"
            return OSError(errno.EBUSY, detail, uri)
        detail = f"no answer in {RETRY_SECONDS} s of retries: {first_line(error.cause)}"
        return OSError(errno.ETIMEDOUT, detail, uri)
    if isinstance(error, exceptions.ClientError) and error.code not in _MAY_PASS:
        # The service understood the request and will refuse it again.
        return FinalError(errno.EIO, text, uri)
    return OSError(errno.EIO, text, uri)


def status_of(error: BaseException | None) -> int:
    """The HTTP status of an exception of Google's packages, 0 if it has none."""
    response = getattr(error, "response", None)
    status = getattr(error, "code", None) or getattr(response, "status_code", None)
    return status if isinstance(status, int) else 0


def first_line(error: BaseException | None) -> str:
    """The message of a service, without the request."""
    text = str(getattr(error, "message", None) or error)
    if "requester pays" in text.lower():
        return "the bucket is requester-pays: copy the objects to a bucket of your own"
    return text.splitlines()[0] if text else type(error).__name__
