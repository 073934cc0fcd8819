"""The table of options: its entries agree with each other, and its rules are applied."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import pytest

from pipeline.options.option_table import GROUPS, OPTIONS
from pipeline.options.parser import is_given, make_parser
from transforms.core.option import Conflict, Need, Option, check_combinations, declared

# A value for each option that has no closed set of them, other than its default.
VALUES = {
    "csv_delimiter": ";",
    "dataset_version": "1.2.0",
    "homepage": "https://example.org/pets",
    "label_regex": "(x)",
    "num_shards": "3",
    "shard_size": "2MB",
    "splits": "train=0.5,test=0.5",
}


def parsed(**values: Any) -> argparse.Namespace:
    words = [
        f"--{name}" if value is True else f"--{name}={value}" for name, value in values.items()
    ]
    return make_parser("convert").parse_args(["--output=o", *words])


def value_of(option: Option) -> Any:
    """A value that is not the default."""
    others = [choice for choice in option.choices if choice != option.default]
    return True if option.is_switch else VALUES.get(option.name) or (others or ["x"])[0]


def conflicts() -> Iterator[tuple[Option, Conflict, Any]]:
    for option in OPTIONS.values():
        for conflict in option.conflicts:
            other = OPTIONS[conflict.name]
            for value in conflict.values or [value_of(other)]:
                yield option, conflict, value


def needs() -> Iterator[tuple[Option, Need, Any]]:
    for option in OPTIONS.values():
        for need in option.needs:
            for value in need.values or [value_of(option)]:
                yield option, need, value


def test_no_name_stands_twice() -> None:
    flags = [
        flag for group in GROUPS for option in declared(group).values() for flag in option.flags
    ]
    assert len(flags) == len(set(flags))


@pytest.mark.parametrize("option", OPTIONS.values(), ids=lambda option: option.name)
def test_an_option_agrees_with_itself(option: Option) -> None:
    assert option.is_switch or option.choices or option.metavar
    assert not (option.choices and option.metavar)
    assert option.help.endswith("...") or not option.help.endswith(".")
    assert not is_given(parsed(), option.name) or option.is_required
    for conflict in option.conflicts:
        assert set(conflict.values) <= set(OPTIONS[conflict.name].choices)
    for need in option.needs:
        assert need.name in OPTIONS and set(need.values) <= set(option.choices)


@pytest.mark.parametrize(("option", "conflict", "value"), list(conflicts()))
def test_a_conflict_is_refused(option: Option, conflict: Conflict, value: Any) -> None:
    words = {option.name: value_of(option), conflict.name: value}
    with pytest.raises(
        ValueError, match=f"--{option.name}.* cannot be used with --{conflict.name}"
    ):
        check_combinations(OPTIONS, vars(parsed(**words)))


@pytest.mark.parametrize(("option", "need", "value"), list(needs()))
def test_a_need_is_refused(option: Option, need: Need, value: Any) -> None:
    words = {option.name: value}
    with pytest.raises(ValueError, match=f"--{option.name}.* needs {need.flag}"):
        check_combinations(OPTIONS, vars(parsed(**words)))
    check_combinations(OPTIONS, vars(parsed(**words, **{need.name: VALUES.get(need.name, "x")})))
