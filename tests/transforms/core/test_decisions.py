"""Decisions are aligned for people, and come back from the manifest as they were."""

from __future__ import annotations

from transforms.core.decisions import (
    Decision,
    decision_lines,
    from_manifest,
    given,
    label_decisions,
    later,
    to_manifest,
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


def test_what_only_the_run_told_is_later() -> None:
    assert later([KEY, ROOT], [KEY]) == [ROOT]


def test_labels_are_integers_only_when_all_are() -> None:
    (integers,) = label_decisions(["-1", "7"], is_named=False, is_given=False)
    assert integers.value == "integers, 2 classes"
    (text,) = label_decisions(["007", "8"], is_named=True, is_given=False)
    assert text.value == "text, 2 classes"
    (named,) = label_decisions(["cat"], is_named=True, is_given=True)
    assert named[1:3] == ("text, 1 class", "ids count the lines of the file from 0")
    assert label_decisions([], is_named=False, is_given=False) == []
