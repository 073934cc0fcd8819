"""`--num-shards` is `--num_shards`: for our flags, Beam's and every command; values stay."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.flex_main import command_line
from pipeline import report, show, verify
from pipeline.errors import UsageError
from pipeline.options.beam_flags import as_typed, flag_name, underscored
from pipeline.options.option_table import OPTIONS
from pipeline.options.parser import parse_flags
from tests.pipeline.options.test_beam_flags import by_flag

NEEDED = ["--images=i-m_g", "--output=o-u_t"]

# One word of each kind of option; texts of a user have both characters.
WORDS = [
    "--label_from=directory",
    "--label_key=a-b_c",
    "--label_column=--x-y_z",
    "--num_shards=8",
    "--splits=a_b=0.5,c_d=0.5",
    "--dense_labels",
    "--allow_outside",
    "--job_name=a-b",
    "--direct_num_workers=2",
    "--experiments=use_x-y=a_b",
    "--number_of_worker_harness_threads=2",
    "--labels=team=a-b_c",
    "--no_save_main_session",
]


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


@pytest.mark.parametrize("main", [show.main, verify.main, report.main])
def test_the_other_commands_show_what_was_typed(main: Callable[[list[str]], None]) -> None:
    with pytest.raises(UsageError, match="unknown flag --no-such_flag; see --help"):
        main(["out", "--no-such_flag=a-b"])


def test_verify_takes_beams_flags_in_both_spellings() -> None:
    with pytest.raises(UsageError, match=r"--max-num-workers needs --runner DataflowRunner"):
        verify.main(["out", "--max-num-workers=2"])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--dry-run"], "--dry-run is for tests of Beam"),
        (["--allow-outside", "yes"], "unexpected argument 'yes': --allow-outside takes no value"),
        (["--label-file=a.csv", "--labels=b.csv"], "--labels is given twice"),
        (["--gcs-custom-audit-entries=x"], "Beam cannot read one of --gcs-custom-audit-entries"),
        (["--num-shardz=3"], "unknown flag --num-shardz; did you mean --num_shards?"),
    ],
)
def test_messages_name_what_was_typed(words: list[str], says: str) -> None:
    with pytest.raises(UsageError, match=re.escape(says)):
        parse_flags("convert", [*NEEDED, *words])


def test_the_template_takes_both() -> None:
    assert list(command_line(["--dense-labels=true", "--allow-outside=false"])) == [
        "--dense_labels"
    ]


def test_no_option_is_known_with_a_dash_alone() -> None:
    """Else the spelling with underscores would be unknown to Beam."""
    known = {*by_flag(), *(flag for option in OPTIONS.values() for flag in option.flags)}
    assert {flag_name(flag) for flag in known} <= known


def test_words_that_keep_their_dashes() -> None:
    words = ["-n-x", "a-b", "---a-b", "--", "--a-b", "--c-d=e"]
    assert underscored(words) == words
    assert as_typed("--a_b=c-d", ["--a-b=c-d", "--a_b=c"]) == "--a-b=c-d"
    assert as_typed("--label=team=x", ["--labels=team=x"]) == "--label=team=x"
