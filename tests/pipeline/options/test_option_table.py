"""The table of options: its entries agree with each other, and its rules are applied."""

import argparse
import contextlib
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.convert import main
from pipeline.errors import UsageError
from pipeline.options.option_table import GROUPS, OPTIONS
from pipeline.options.parser import is_given, make_parser, parse_flags
from tests.marks import cases
from transforms.core.option import Conflict, Need, Option, check_combinations, declared

# A value for each option that has no closed set of them, other than its default.
VALUES = {
    "csv_delimiter": ";",
    "dataset_version": "1.2.0",
    "file_name": "{shard}.tfrec",
    "homepage": "https://example.org/pets",
    "label_from": "regex:(x)",
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


def kinds(option: Option) -> set[str]:
    """Its choices, without the texts that some take."""
    return {choice.partition(":")[0] for choice in option.choices}


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
        assert set(conflict.values) <= kinds(OPTIONS[conflict.name])
    for need in option.needs:
        assert need.name in OPTIONS and set(need.values) <= kinds(option)


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
    check_combinations(OPTIONS, vars(parsed(**{**words, need.name: VALUES.get(need.name, "x")})))


def _flags() -> Iterator[str]:
    shown = (each for each in make_parser("convert")._actions if each.help != argparse.SUPPRESS)
    for action in shown:
        yield next(flag for flag in action.option_strings if flag.startswith("--"))


@pytest.mark.parametrize("words", [["--version", "1.2.0"], ["--version=1.2.0"]])
def test_a_version_with_a_value_is_that_of_the_dataset(words: list[str]) -> None:
    given = ["--output=o", "--images=i", "--name=pets"]
    assert parse_flags("convert", [*words, *given]) == parse_flags(
        "convert", ["--dataset_version=1.2.0", *given]
    )


@cases(
    ("--box-form xywh --box_units=pixel", "--boxes=form=xywh,units=pixel"),
    ("--box_columns a,b,c,d", "--boxes=columns=a,b,c,d"),
    ("--split_from directory", "--split_by=folder"),
    ("--split_column X --split_from CSV", "--split_by=column:X"),
    ("--label_from regex --label_regex (x)", "--label_from=regex:(x)"),
)
@pytest.mark.parametrize("is_file", [False, True])
def test_former_flags_are_those_that_replace_them(
    former: str, words: str, is_file: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = former.split()
    if is_file:
        lines = re.sub(r"--([\w-]+)[ =](\S+) ?", r"\1: \2\n", former)
        (tmp_path / "my.yaml").write_text(lines)
        given = [f"--config={tmp_path}/my.yaml"]
    flags, _ = parse_flags("convert", ["--images=i", "--output=o", *given])
    flags.config = None
    name, _, text = words.partition("=")
    note = f"write {name}='{text}': its former spelling goes in the next version\n"
    assert capsys.readouterr().err == note
    assert flags == parse_flags("convert", ["--images=i", "--output=o", words])[0]


def test_what_replaces_a_former_flag_of_a_file_wins(tmp_path: Path) -> None:
    (tmp_path / "my.yaml").write_text("box_form: xywh\nsplit_column: a")
    words = ["--images=i", "--output=o", "--boxes=units=pixel", "--split_from=hash"]
    flags, _ = parse_flags("convert", [f"--config={tmp_path}/my.yaml", *words])
    assert (flags.boxes.form, flags.boxes.units, flags.split_by) == ("", "pixel", "hash")


@cases(
    ("i o", "--images=i --output=o"),
    ("i l o", "--images=i --labels=l --output=o"),
    ("i l --output=o", "--images=i --labels=l --output=o"),
    ("l o --images=i", "--images=i --labels=l --output=o"),
    ("o --images=i --num_shards 3", "--images=i --output=o --num_shards=3"),
    ("~/i=1/*.jpg ~/o --model=~/m", "--images=/me/i=1/*.jpg --output=/me/o --model=/me/m"),
    ("~you/i ~", "--images=~you/i --output=~"),
)
def test_first_words_are_places(words: str, flags: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/me")
    assert parse_flags("convert", words.split()) == parse_flags("convert", flags.split())


def test_plan_has_the_flags_of_convert() -> None:
    described = [
        [(action.option_strings, action.default, action.help) for action in parser._actions]
        for parser in (make_parser("convert"), make_parser("plan"))
    ]
    assert described[0] == described[1][:-1] and described[1][-1][0] == ["--json"]


def helped(*words: str) -> str:
    """What `--help` prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), pytest.raises(SystemExit) as ended:
        main(["--help", *words])
    assert ended.value.code == 0
    assert out.getvalue().startswith("usage: python -m pipeline.convert")
    return out.getvalue()


def test_help_has_few_flags_and_topics_the_others() -> None:
    def flags(text: str) -> set[str]:
        return set(re.findall(r"^  (?:-\w, )?(--\w+)", text, re.MULTILINE)) - {
            "--help",
            "--version",
        }

    shown = helped()
    assert len(flags(shown)) == 10 and len(shown.splitlines()) < 80
    topics = shown.partition("The topics:\n")[2].partition("\n")[0].split()
    assert set.union(*(flags(helped(topic)) for topic in topics[:-1])) == flags(helped("all"))
    assert "--stratify" in flags(helped("splits")) and "--images" not in flags(helped("splits"))
    with pytest.raises(UsageError, match="--help 'nope' is no topic: give one of labels output"):
        main(["--help", "nope"])


def test_help_names_every_flag() -> None:
    out = helped("all")
    assert all(flag in out for flag in _flags())
    words = " ".join(out.split())
    assert "(default: None)" not in words and "(default: False)" not in words
    assert "(default: slim)" in words


def test_compression_as_tensorflow_spells_it() -> None:
    flags, _ = parse_flags("convert", ["--images=i", "--output=o", "--compression=GZIP"])
    assert flags.compression == "gzip"
