"""Messages hide secrets and stay on one line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.core.messages import HIDDEN, holds_secret, printable, redacted

SECRET = "0ecretE7-_.~%2F"


@pytest.mark.parametrize(
    "text",
    [
        "https://storage.googleapis.com/b/1.jpg?X-Goog-Algorithm=a&X-Goog-Signature={}",
        "https://storage.googleapis.com/b/1.jpg?GoogleAccessId=me%40x&Expires=1&Signature={}",
        "https://b.s3.amazonaws.com/1.jpg?X-Amz-Security-Token={}&X-Amz-Expires=9",
        "https://b.s3.amazonaws.com/1.jpg?AWSAccessKeyId={}&Expires=9",
        "https://a.blob.core.windows.net/c/1.jpg?sv=2020&sig={}&se=2030",
        "https://storage.googleapis.com/upload?uploadType=resumable&upload_id={}",
        "https://host/1.jpg?of_some_scheme_of_its_own={}: 403",
        "HTTPS://HOST/1.JPG?TOKEN={}",
        "gs://b/1.jpg?x-goog-signature={}: no such object",
        "gs://b/1.jpg#token={}",
        "gs://b/1.jpg#access_token={}&token_type=bearer",
        "gs://b/a#id_token={}: no such object",
        "/a/b;jsessionid={}",
        "/a/b;PHPSESSID={}",
        "az://c/1.jpg?sas={}",
        "az://c/1.jpg?sv=1&sas_token={}",
        "oss://b/1.jpg?OSSAccessKeyId={}",
        "s3://b/1.jpg?X-Amz-Credential={}&X-Amz-Expires=9",
        "s3://b/1.jpg?X-Amz-Signature={}",
        "/1.jpg?x-oss-signature={}",
        "/1.jpg?private_token={}",
        "/1.jpg?api-key={}",
        "/1.jpg?auth={}",
        "/1.jpg?passwd={}",
        "/fetch?of=https%3A%2F%2Fhost%2F1.jpg%3Fsig%3D{}",
        "https://{}@host/1.jpg",
        "Authorization: Basic {}",
        "('url: /1.jpg?key={}', 3)",
        "s3://AKIA:{}@bucket/1.jpg",
        "http://me:{}@host:80/1.jpg",
        "Authorization: Bearer {}",
    ],
)
def test_secrets_are_hidden_and_all_else_stays(text: str) -> None:
    secret = text.format(SECRET)
    shown = redacted(secret)
    assert holds_secret(secret)
    assert HIDDEN in shown and SECRET not in shown
    start, _, end = text.partition("{}")
    assert shown.startswith(start.partition("?")[0]) and shown.endswith(end.partition("&")[0])
    assert redacted(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        "photos/*/?ig=1.jpg",
        "gs://bucket/day=2024-01-01/?.jpg",
        "gs://bucket/a:b@c.jpg",
        "http://host:80/photos/1.jpg",
        "abfss://container@account.dfs.core.windows.net/1.jpg",
        "monkey=3&keys=2",
        "photos/#1;2.jpg",
        "photos/a;key=2.jpg",
        "token = 3, signature=4",
        "https://docs.host/page#section",
        "me@host.org",
        "gs://bucket/50%25/1.jpg",
        "",
    ],
)
def test_other_text_stays(text: str) -> None:
    assert redacted(text) == text
    assert not holds_secret(text)


def test_what_reads_like_a_token_is_hidden_though_it_is_none() -> None:
    assert redacted("a bearer of news") == f"a bearer {HIDDEN} news"
    assert holds_secret("a bearer of news")


@given(st.text())
def test_what_is_printable_stays_and_all_is_one_line(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    assert shown.splitlines() in ([], [shown])
    if text.isprintable():
        assert shown == text


def test_terminals_are_reported_nothing() -> None:
    assert printable("a\x1b[2Jb\udce9\u202e") == "a\\x1b[2Jb\\udce9\\u202e"
