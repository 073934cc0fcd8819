"""Flags that do not exist are named, with the one that was probably meant."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from pipeline import show, verify
from pipeline.errors import UsageError
from pipeline.options import beam_flags as unknown_flags
from pipeline.options.beam_flags import check_beam_flags, flags_of, refuse_unknown, suggestion
from pipeline.options.parser import OneLineParser, make_parser, parse_flags

NEEDED = ["--images=i", "--output=o"]

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
    "--batch_size": None,
    "--nope": None,
    "--epochs": None,
    "-x": None,
}


@pytest.mark.parametrize("flag", MEANT)
def test_the_flag_that_was_meant(flag: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_flags("convert", [*NEEDED, flag, "3"])
    meant = MEANT[flag]
    hint = f"did you mean {meant}?" if meant else "see --help"
    assert str(raised.value) == f"unknown flag {flag}; {hint}"


@pytest.mark.parametrize("flag", ["--output_dir", "-o", "--outptu"])
def test_an_unknown_flag_comes_before_a_missing_one(flag: str) -> None:
    with pytest.raises(UsageError, match=f"unknown flag {flag}"):
        parse_flags("convert", ["--images=i", flag, "out"])


def test_a_missing_flag_is_named() -> None:
    with pytest.raises(UsageError, match="--output DIR is missing: give the folder of the dataset"):
        parse_flags("convert", ["--images=i"])


def test_every_synonym_names_flags_that_are_there() -> None:
    parsers = (make_parser("convert"), show.make_parser(), verify.make_parser())
    for meant, names in unknown_flags._SYNONYMS.items():
        named = {word.rstrip(",") for word in meant.split() if word.startswith("--")}
        mine = {flag for flag in named if not flag.startswith("--direct_")}
        has = [flags_of(parser) for parser in parsers if mine <= {*flags_of(parser)}]
        assert has
        assert not [name for name in names.split() if f"--{name}" in has[0]]


def test_no_name_has_two_meanings() -> None:
    """Within one command: `-n` is `--limit` in show, and a dry run elsewhere."""
    of_show = ("--limit N", "--fast")
    for is_of_show in (False, True):
        names = [
            name
            for meant, names in unknown_flags._SYNONYMS.items()
            for name in names.split()
            if (meant in of_show) == is_of_show
        ]
        assert len(names) == len(set(names))


def test_no_hint_leads_to_what_is_refused() -> None:
    """`--dry_run` did, and so did `--verbose`, which led to --overwrite."""
    refused = ["--dry_run", "--streaming", "--update", "--label", "--labels", "--overwrite"]
    for flag in ("--dryrn", "--dry_ru", "--streamin", "--updates", "--lable", "--overwrites"):
        assert suggestion(flag, ["--overwrite"]) == "see --help"
        with pytest.raises(UsageError) as raised:
            refuse_unknown([flag], [flag], OneLineParser())
        assert not any(f"mean {name}?" in str(raised.value) for name in refused)
    check_beam_flags(["--temp_location", "gs://b/t"])


def test_a_glob_that_the_shell_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.jpg", "b.jpg"):
        (tmp_path / name).touch()
    with pytest.raises(UsageError, match=r"'b.jpg': the shell expanded a glob. Quote it: --images"):
        parse_flags("convert", ["--output=o", "--images", "a.jpg", "b.jpg"])


def test_a_parser_without_flags() -> None:
    assert flags_of(argparse.ArgumentParser(add_help=False)) == []
