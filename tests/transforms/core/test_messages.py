"""Texts that people see: secrets, texts of others, and errors of files."""

import errno
import gc
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import UsageError
from pipeline.options.parser import parse_flags
from tests.marks import cases, rest_slow
from transforms.core.messages import (
    HIDDEN,
    MAX_ENTRIES,
    ChangedError,
    Decision,
    FinalError,
    LabelsError,
    TransientError,
    check_final,
    decision_lines,
    entries_of,
    from_manifest,
    holds_secret,
    is_final,
    later,
    parse_json,
    printable,
    redacted,
)
from transforms.core.messages import given as given_by
from transforms.dataset.output_names import ForeignNameError
from transforms.examples.encoder import table_features
from transforms.examples.layout_files import LayoutError, parse_layout
from transforms.labels.annotations import yaml_class_names
from transforms.labels.label_tables import json_lines_table
from transforms.report.card_files import PropertiesError, parse_properties

# Messages hide secrets and stay on one line.

SECRET = "0ecretE7-_.~%2F"


@cases(
    "https://storage.googleapis.com/b/1.jpg?X-Goog-Algorithm=a&X-Goog-Signature={}",
    "https://storage.googleapis.com/b/1.jpg?GoogleAccessId=me%40x&Expires=1&Signature={}",
    "https://b.s3.amazonaws.com/1.jpg?X-Amz-Security-Token={}&X-Amz-Expires=9",
    "https://b.s3.amazonaws.com/1.jpg?AWSAccessKeyId={}&Expires=9",
    "https://a.blob.core.windows.net/c/1.jpg?sv=2020&sig={}&se=2030",
    "https://storage.googleapis.com/upload?uploadType=resumable&upload_id={}",
    "https://host/1.jpg?of_some_scheme_of_its_own={}: 403",
    *("HTTPS://HOST/1.JPG?TOKEN={}", "gs://b/1.jpg?x-goog-signature={}: no such object"),
    *("gs://b/1.jpg#token={}", "gs://b/1.jpg#access_token={}&token_type=bearer"),
    *("gs://b/a#id_token={}: no such object", "/a/b;jsessionid={}", "/a/b;PHPSESSID={}"),
    *("az://c/1.jpg?sas={}", "az://c/1.jpg?sv=1&sas_token={}", "oss://b/1?OSSAccessKeyId={}"),
    *("s3://b/1?X-Amz-Credential={}&X-Amz-Expires=9", "s3://b/1.jpg?X-Amz-Signature={}"),
    *("/1.jpg?x-oss-signature={}", "/1.jpg?private_token={}", "/1.jpg?api-key={}"),
    *("/1.jpg?auth={}", "/1.jpg?passwd={}", "/fetch?of=https%3A%2F%2Fhost%2F1%3Fsig%3D{}"),
    *("https://{}@host/1.jpg", "http://me:{}@host:80/1.jpg", "s3://AKIA:{}@bucket/1.jpg"),
    *("Authorization: Basic {}", "Authorization: Bearer {}", "('url: /1.jpg?key={}', 3)"),
)
def test_secrets_are_hidden_and_all_else_stays(text: str) -> None:
    secret = text.format(SECRET)
    shown = redacted(secret)
    assert holds_secret(secret)
    assert HIDDEN in shown
    assert SECRET not in shown
    start, _, end = text.partition("{}")
    assert shown.startswith(start.partition("?")[0])
    assert shown.endswith(end.partition("&")[0])
    assert redacted(shown) == shown


@cases(
    *("photos/*/?ig=1.jpg", "gs://bucket/day=2024-01-01/?.jpg", "gs://bucket/a:b@c.jpg"),
    *("http://host:80/photos/1.jpg", "abfss://a@b.dfs.core.windows.net/1.jpg"),
    *("monkey=3&keys=2", "photos/#1;2.jpg", "photos/a;key=2.jpg", "token = 3, signature=4"),
    *("https://docs.host/page#section", "me@host.org", "gs://bucket/50%25/1.jpg", ""),
)
def test_other_text_stays(text: str) -> None:
    assert redacted(text) == text
    assert not holds_secret(text)


def test_what_reads_like_a_token_or_moves_a_terminal_is_hidden() -> None:
    assert redacted("a bearer of news") == f"a bearer {HIDDEN} news"
    assert holds_secret("a bearer of news")
    assert printable("a\x1b[2Jb\udce9\u202e") == "a\\x1b[2Jb\\udce9\\u202e"


@given(st.text())
def test_what_is_printable_stays_and_all_is_one_line(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    assert shown.splitlines() in ([], [shown])
    if text.isprintable():
        assert shown == text


# Texts of JSON and YAML that are made to take gigabytes or minutes.


@pytest.mark.parametrize(("item", "millions"), [("[]", 6), ("{}", 4), ("1.5", 11)])
@pytest.mark.parametrize("encode", rest_slow([str.encode, str]))
def test_json_of_millions_of_values_is_refused(
    item: str, millions: int, encode: Callable[[str], Any]
) -> None:
    text = f"[{','.join([item] * millions * 1_000_000)}]"
    with pytest.raises(ValueError, match="it has more than 10000000 values"):
        parse_json(encode(text))


@cases(
    (parse_layout, LayoutError),
    (yaml_class_names, LabelsError),
    (lambda _, path: parse_flags("convert", ["--config", path]), UsageError),
    (lambda text, _: parse_properties(text), PropertiesError),
)
def test_yaml_of_thousands_of_lines_is_refused(
    read: Callable[[str, str], object],
    error: type[Exception],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    texts = ["a: 1\n" * 30_000, "a: 1\r" * 30_000, f"a: [{'b,' * 30_000}]", "b" * 3_000_000]
    for text in (*texts, f"a: &a [{'x,' * 2_000}]\nb: [{'*a,' * 600}]"):
        Path("a.yaml").write_text(text)
        with pytest.raises(error, match=f"{MAX_ENTRIES} commas and lines|aliases that repeat"):
            read(text, "a.yaml")


def test_a_table_of_thousands_of_columns_is_refused() -> None:
    names = [f"c{at}" for at in range(10_001)]
    with pytest.raises(LabelsError, match="a.csv has 10001 columns, more than 10000: name those"):
        table_features(names, None, path="a.csv")
    assert len(table_features(names[1:], None, path="a.csv")) == 10_000


# What rejects an image, and what fails its shard.


@cases(
    *(FileNotFoundError(errno.ENOENT, "gone"), IsADirectoryError(errno.EISDIR, "a folder")),
    *(PermissionError(errno.EACCES, "no permission"), OSError(errno.EPERM, "no permission")),
    *(OSError(errno.ELOOP, "links"), OSError(errno.ENAMETOOLONG, "name")),
    ChangedError(errno.ESTALE, "it was overwritten meanwhile"),
    FinalError(errno.EIO, "its gzip encoding is damaged"),
    ForeignNameError("../me is not the name of a shard"),
)
def test_what_another_try_ends_with_again(error: OSError) -> None:
    assert is_final(error)
    check_final(error, "1.jpg")


@cases(
    *(errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.ECONNRESET, errno.EHOSTDOWN),
    *(errno.EMFILE, errno.ENOMEM, errno.EAGAIN, None),
)
def test_what_may_pass_names_file_reason_and_remedy(number: int | None) -> None:
    error = OSError("no answer") if number is None else OSError(number, "no answer", "1.jpg")
    with pytest.raises(TransientError) as raised:
        check_final(error, "a/1.jpg")
    assert str(raised.value) == ("cannot read a/1.jpg: no answer; run the same command again")
    assert not is_final(raised.value)
    with pytest.raises(TransientError) as again:
        check_final(raised.value, "other")
    assert again.value is raised.value


# Decisions are aligned for people, and come back from the manifest as they were.

KEY = Decision("key", "stem", "default", "--key")
ROOT = Decision("root", "a/very/long/folder/of/pictures", "shared", "")


def test_decisions_are_aligned_and_name_the_flag() -> None:
    column = given_by("label column", "'kind'", "--label_column")
    assert decision_lines([KEY, column, ROOT, Decision("key column", "'a\nb'", "given")]) == [
        "Decided",
        "  key            stem                 default [--key]",
        "  label column   'kind'               given [--label_column]",
        "  root           a/very/long/folder/of/pictures  shared",
        "  key column     'a\\nb'                given",
    ]
    assert decision_lines([]) == []


def test_decisions_of_a_manifest_and_of_a_run() -> None:
    assert from_manifest({"decided": entries_of([KEY, ROOT])}) == [KEY, ROOT]
    assert from_manifest({}) == []
    assert later([KEY, ROOT], [KEY]) == [ROOT]


@pytest.mark.parametrize("collects", [True, False])
def test_what_has_no_cycles_is_decoded_without_collecting(collects: bool) -> None:
    """A line of JSON with a million lists took two seconds; who had it off keeps it off."""
    file = io.BytesIO(b'{"id": [' + b"[]," * 100_000 + b"[]]}")
    before = gc.get_stats()[0]["collections"]
    (gc.enable if collects else gc.disable)()
    try:
        [(_, cells, problem)] = json_lines_table(file, ["id"], path="a.jsonl").rows
        assert (cells, "nested" in problem, gc.isenabled()) == ([""], True, collects)
    finally:
        gc.enable()
    assert gc.get_stats()[0]["collections"] < before + 5
