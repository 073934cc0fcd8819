"""Every error of Google's packages is an `OSError` whose class says whether a retry may help."""

from __future__ import annotations

import errno
from http import HTTPStatus

import pytest
import requests
from google.api_core import exceptions
from google.auth.exceptions import DefaultCredentialsError, RefreshError, TransportError
from google.cloud.storage.exceptions import InvalidResponse

from transforms.core.messages import is_final
from transforms.storage.gcs_requests import translate_errors

URI = "gs://bucket/1.jpg"


def translated(error: Exception) -> OSError:
    """What the caller of a request gets for an error."""
    with pytest.raises(OSError) as raised, translate_errors(URI):
        raise error
    assert raised.value.__cause__ is error
    return raised.value


@pytest.mark.parametrize(
    ("status", "kind", "number", "says"),
    [
        (404, FileNotFoundError, errno.ENOENT, "no such object"),
        (412, OSError, errno.ESTALE, "it was overwritten meanwhile"),
        (401, PermissionError, errno.EACCES, "no permission: the reason"),
        (403, PermissionError, errno.EACCES, "no permission: the reason"),
        # The service understood these, and refuses them again.
        (400, OSError, errno.EIO, "the reason"),
        (405, OSError, errno.EIO, "the reason"),
        (409, OSError, errno.EIO, "the reason"),
        (416, OSError, errno.EIO, "the reason"),
    ],
)
def test_refusals_are_final(status: int, kind: type[OSError], number: int, says: str) -> None:
    error = translated(exceptions.from_http_status(status, "the reason\nand more"))
    assert isinstance(error, kind)
    assert (error.errno, error.strerror, error.filename) == (number, says, URI)
    assert is_final(error)


@pytest.mark.parametrize(
    "error",
    [
        *(
            exceptions.from_http_status(status, "the reason")
            for status in (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS, 500, 502, 503)
        ),
        TransportError("the reason"),
        requests.ConnectionError("the reason"),
        requests.exceptions.ChunkedEncodingError("the reason"),
    ],
)
def test_what_may_pass_is_not_final(error: Exception) -> None:
    made = translated(error)
    assert (made.errno, made.strerror, made.filename) == (errno.EIO, "the reason", URI)
    assert not is_final(made)


def test_retries_that_end_name_their_time_and_the_last_error() -> None:
    last = exceptions.ServiceUnavailable("the reason")
    error = translated(exceptions.RetryError("Timeout of 120.0s exceeded", cause=last))
    assert (error.errno, error.filename) == (errno.ETIMEDOUT, URI)
    assert error.strerror == "no answer in 120 s of retries: the reason"
    assert not is_final(error)


def test_refusals_of_ten_minutes_say_what_helps() -> None:
    last = exceptions.TooManyRequests("the reason")
    error = translated(exceptions.RetryError("Timeout of 120.0s exceeded", cause=last))
    assert error.strerror == "the bucket refused requests (429) for 10 minutes: try fewer workers"
    assert not is_final(error)


def test_refusals_of_uploads_say_the_same() -> None:
    response = requests.Response()
    response.status_code = 429
    last = InvalidResponse(response, "the reason")
    error = translated(exceptions.RetryError("Timeout of 120.0s exceeded", cause=last))
    assert error.strerror == "the bucket refused requests (429) for 10 minutes: try fewer workers"


def test_an_answer_that_is_no_json_is_an_error_of_its_status() -> None:
    response = requests.Response()
    response.status_code = 404
    response.request = requests.Request("GET", "http://storage/1.jpg").prepare()
    with pytest.raises(FileNotFoundError, match="no such object"), translate_errors(URI):
        raise InvalidResponse(response)


def test_a_bucket_that_is_missing_is_named_as_one() -> None:
    error = translated(exceptions.NotFound("The specified bucket does not exist."))
    assert error.strerror == "no such bucket"
    with pytest.raises(FileNotFoundError, match="no such bucket"):
        with translate_errors(URI, missing="no such bucket"):
            raise exceptions.NotFound("Not Found")


@pytest.mark.parametrize("kind", [DefaultCredentialsError, RefreshError])
def test_missing_credentials_say_the_command(kind: type[Exception]) -> None:
    error = translated(kind("the reason"))
    assert str(error) == "no Google credentials: run `gcloud auth application-default login`"
    passing = kind("the reason", retryable=True)  # type: ignore[call-arg]
    assert translated(passing).strerror == "the reason"


def test_a_bucket_whose_requester_pays_says_what_to_do() -> None:
    refusal = exceptions.BadRequest("Bucket is a requester pays bucket but no user project")
    assert translated(refusal).strerror == (
        "the bucket is requester-pays: copy the objects to a bucket of your own"
    )


def test_an_error_without_a_message_is_named() -> None:
    assert translated(requests.ConnectionError()).strerror == "ConnectionError"
