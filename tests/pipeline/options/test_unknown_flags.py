"""Flags in both spellings; one that does not exist is named with the one that was meant."""

import contextlib
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline import report, show, verify
from pipeline.errors import UsageError
from pipeline.options import beam_flags as unknown_flags
from pipeline.options.beam_flags import (
    as_typed,
    flag_name,
    flags_of,
    refuse_unknown,
    suggestion,
    underscored,
)
from pipeline.options.option_table import OPTIONS
from pipeline.options.parser import OneLineParser, make_parser, parse_flags
from tests.marks import cases
from tests.pipeline.options.test_beam_flags import by_flag

# Flags that do not exist are named, with the one that was probably meant.

NEEDED = ["--images=i-m_g", "--output=o-u_t"]

MEANT = {
    # What other programs call our flags.
    "--input": "--images GLOB",
    "--data_dir": "--images GLOB",
    "--image": "--images GLOB",
    "--csv": "--labels CSV",
    "--annotations": "--labels CSV",
    "--output_dir": "--output DIR",
    "--out": "--output DIR",
    "-o": "--output DIR",
    "--force": "--overwrite (it replaces a finished dataset)",
    "--format": "--layout NAME|FILE (features), or --transcode (image format)",
    "--image_size": "--resize WIDTHxHEIGHT",
    "--target_size": "--resize WIDTHxHEIGHT",
    "--debug": "--verbose",
    "--log-level": "--verbose",
    "--silent": "--quiet",
    "--no_progress": "--progress auto|plain|json|off",
    "-V": "--version",
    "--dryrun": "the command `plan`, which writes nothing",
    "-n": "the command `plan`, which writes nothing",
    "--jobs": "--workers N",
    "--split": "--splits NAME=SHARE,...",
    "--shards": "--num_shards N",
    "--gzip": "--compression gzip",
    "--classes": "--class_names FILE",
    "--random_seed": "--seed N",
    "--grayscale": "--color rgb|gray",
    # Ours, misspelt.
    "--num_shardz": "--num_shards",
    "--lable_key": "--label_key",
    "--outptu": "--output",
    "--compress_": "--compression",
    "--resise": "--resize",
    "--csv_encode": "--csv_encoding",
    "--delimiter": "--csv_delimiter CHAR",
    "--sep": "--csv_delimiter CHAR",
    # Beam's, misspelt.
    "--runer": "--runner",
    "--direct_num_worker": "--direct_num_workers",
    "--temp_locaton": "--temp_location",
    # Nobody knows.
    "--overwrit": None,
    "--updat": None,
    "--stream": None,
    "--batch_size": "batch_size of `load`, in Python",
    "--nope": None,
    "--epoch_count": None,
    "-x": None,
}


@pytest.mark.parametrize("flag", MEANT)
def test_the_flag_that_was_meant(flag: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_flags("convert", [*NEEDED, flag, "3"])
    meant = MEANT[flag]
    hint = f"did you mean {meant}?" if meant else "see --help"
    assert str(raised.value) == f"unknown flag {flag}; {hint}"


@cases(
    # An unknown flag comes before a missing one.
    *((["--images=i", flag, "out"], f"unknown flag {flag}")
      for flag in ("--output_dir", "-o", "--outptu")),
    (["--images=i"], "--output DIR is missing: give the folder of the dataset"),
    (["--output=o", "--images", "a.jpg", "b.jpg"],
     "'b.jpg': the shell expanded a glob. Quote it: --images"),
    # Messages name what was typed.
    ([*NEEDED, "--dry-run"], "--dry-run is for tests of Beam"),
    ([*NEEDED, "--allow-outside", "yes"],
     "unexpected argument 'yes': --allow-outside takes no value"),
    ([*NEEDED, "--label-file=a.csv", "--labels=b.csv"], "--labels is given twice"),
    ([*NEEDED, "--gcs-custom-audit-entries=x"],
     "Beam cannot read one of --gcs-custom-audit-entries"),
    ([*NEEDED, "--num-shardz=3"], "unknown flag --num-shardz; did you mean --num_shards?"),
)  # fmt: skip
def test_wrong_words(words: list[str], says: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.jpg", "b.jpg"):
        (tmp_path / name).touch()
    with pytest.raises(UsageError, match=re.escape(says)):
        parse_flags("convert", words)


def test_every_synonym_names_flags_that_are_there() -> None:
    parsers = (make_parser("convert"), show.make_parser(), verify.make_parser())
    for meant, names in unknown_flags._SYNONYMS.items():
        named = {word.rstrip(",") for word in meant.split() if word.startswith("--")}
        mine = {flag for flag in named if not flag.startswith("--direct_")}
        has = [flags_of(parser) for parser in parsers if mine <= {*flags_of(parser)}]
        assert has
        assert not [name for name in names.split() if f"--{name}" in has[0]]


def test_no_hint_leads_to_what_is_refused() -> None:
    """`--dry_run` did, and so did `--verbose`, which led to --overwrite."""
    refused = ["--dry_run", "--streaming", "--update", "--label", "--labels", "--overwrite"]
    for flag in ("--dryrn", "--dry_ru", "--streamin", "--updates", "--lable", "--overwrites"):
        assert suggestion(flag, ["--overwrite"]) == "see --help"
        with pytest.raises(UsageError) as raised:
            refuse_unknown([flag], [flag], OneLineParser())
        assert not any(f"mean {name}?" in str(raised.value) for name in refused)


# `--num-shards` is `--num_shards`: for our flags, Beam's and every command; values stay.

# One word of each kind of option; texts of a user have both characters.
WORDS = (
    "--label_from=directory --label_key=a-b_c --label_column=--x-y_z --num_shards=8 "
    "--splits=a_b=0.5,c_d=0.5 --dense_labels --allow_outside --job_name=a-b "
    "--direct_num_workers=2 --experiments=use_x-y=a_b --number_of_worker_harness_threads=2 "
    "--labels=team=a-b_c --no_save_main_session"
).split()


@st.composite
def spelled(draw: st.DrawFn, words: Sequence[str] = tuple(WORDS)) -> tuple[list[str], list[str]]:
    """Some words, and the same with dashes for some underscores of their names."""
    chosen = draw(st.lists(st.sampled_from(words), unique=True))
    typed = []
    for word in chosen:
        name, equals, value = word[2:].partition("=")
        parts = name.split("_")
        marks = draw(st.lists(st.sampled_from("-_"), min_size=len(parts), max_size=len(parts)))
        mixed = "".join(map("".join, zip(parts, marks, strict=True)))[:-1]
        typed.append(f"--{mixed}{equals}{value}")
    return chosen, typed


@given(spelled())
def test_both_spellings_parse_to_the_same(words: tuple[list[str], list[str]]) -> None:
    right, typed = words
    assert parse_flags("convert", [*NEEDED, *typed]) == parse_flags("convert", [*NEEDED, *right])


@given(st.lists(st.text("-_=a /.", max_size=9) | st.text(max_size=9)))
def test_only_names_change(words: list[str]) -> None:
    made = underscored(words)
    assert len(made) == len(words) and underscored(made) == made
    end = words.index("--") if "--" in words else len(words)
    assert made[end:] == words[end:]
    for word, new in zip(words, made, strict=True):
        name, equals, value = word.partition("=")
        if new != word:
            assert re.fullmatch(r"--\w[\w-]*", name)
            assert new == f"--{name[2:].replace('-', '_')}{equals}{value}"


@given(spelled(tuple(f"--{name}_nope=a-b" for name in OPTIONS)))
def test_an_unknown_flag_is_shown_as_it_is_typed(words: tuple[list[str], list[str]]) -> None:
    _, typed = words
    with contextlib.nullcontext() if not typed else pytest.raises(UsageError) as raised:
        parse_flags("convert", [*NEEDED, *typed])
    if typed:
        first = typed[0].partition("=")[0]
        assert str(raised.value).startswith(f"unknown flag {first}; ")  # type: ignore[union-attr]


@cases(
    *((main, "--no-such_flag=a-b", "unknown flag --no-such_flag; see --help")
      for main in (show.main, verify.main, report.main)),
    (verify.main, "--max-num-workers=2", "--max-num-workers needs --runner DataflowRunner"),
)  # fmt: skip
def test_the_other_commands_show_what_was_typed(
    main: Callable[[list[str]], None], word: str, says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        main(["out", word])


def test_no_option_is_known_with_a_dash_alone() -> None:
    """Else the spelling with underscores would be unknown to Beam."""
    known = {*by_flag(), *(flag for option in OPTIONS.values() for flag in option.flags)}
    assert {flag_name(flag) for flag in known} <= known


def test_words_that_keep_their_dashes() -> None:
    words = ["-n-x", "a-b", "---a-b", "--", "--a-b", "--c-d=e"]
    assert underscored(words) == words
    assert as_typed("--a_b=c-d", ["--a-b=c-d", "--a_b=c"]) == "--a-b=c-d"
    assert as_typed("--label=team=x", ["--labels=team=x"]) == "--label=team=x"
