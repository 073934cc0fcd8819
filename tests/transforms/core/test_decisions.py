"""Decisions are aligned for people, and come back from the manifest as they were."""

from __future__ import annotations

from transforms.core.messages import (
    Decision,
    decision_lines,
    from_manifest,
    given,
    later,
)
from transforms.core.messages import (
    decisions_to_json as to_manifest,
)

KEY = Decision("key", "stem", "default", "--key")
ROOT = Decision("root", "a/very/long/folder/of/pictures", "shared", "")


def test_lines_are_aligned_and_name_the_flag() -> None:
    column = given("label column", "'kind'", "--label_column")
    assert decision_lines([KEY, column, ROOT]) == [
        "Decided",
        "  key            stem                 default [--key]",
        "  label column   'kind'               given [--label_column]",
        "  root           a/very/long/folder/of/pictures shared",
    ]
    assert decision_lines([]) == []


def test_a_value_stays_on_one_line() -> None:
    (_, line) = decision_lines([Decision("key column", "'a\nb'", "given")])
    assert line == "  key column     'a\\nb'                given"


def test_a_manifest_gives_them_back() -> None:
    manifest = {"decided": to_manifest([KEY, ROOT])}
    assert from_manifest(manifest) == [KEY, ROOT]
    assert from_manifest({}) == []


def test_later_decisions_are_those_of_the_run() -> None:
    assert later([KEY, ROOT], [KEY]) == [ROOT]
