"""Unknown words on a command line, and suggestions for what was probably meant."""

from __future__ import annotations

import argparse
import difflib
import os
from collections.abc import Sequence

from pipeline.errors import UsageError
from pipeline.flags.beam_flags import check_beam_flags, proposed
from pipeline.flags.flag_spelling import as_typed, flag_name
from pipeline.run.beam_import import logging_untouched

# Never suggested because of similar spelling: following a hint must not cost a dataset.
_DESTRUCTIVE = ("--overwrite",)

# What word processors make of two dashes.
_LONG_DASHES = "\u2013\u2014\u2212"

# From 0 to 1. Beam's flags are rarely used, so the spelling has to be closer.
_ALIKE = 0.7
_ALIKE_OF_BEAM = 0.85

# Names that other programs use for our flags. The key is the flag with its value.
_SYNONYMS = {
    "--images GLOB": (
        "input inputs input_dir input_path in image img imgs image_dir images_dir image_folder "
        "image_path image_glob photos data data_dir dataset_dir source src glob path root_dir"
    ),
    "--labels CSV": (
        "csv csv_file csv_path label_csv labels_csv labels_file label_path annotations annotation "
        "annotation_file metadata manifest input_csv"
    ),
    "--output DIR": (
        "o out out_dir outdir output_dir output_folder output_path output_file output_prefix dest "
        "destination dst target_dir save_dir to"
    ),
    "--label_column COL": "label_col class_column class_col target target_column target_col y_col",
    "--label_key COL": (
        "key_column id_column id_col image_column image_col filename_column filename_col x_col "
        "path_column"
    ),
    "--label_from directory": "class_mode infer_labels labels_from from_folders from_directory",
    "--keys FILE": "key_file key_list keys_file only only_keys select subset include ids id_file",
    "--class_names FILE": "classes class_list class_file class_map label_map label_names names",
    "--splits NAME=SHARE,...": (
        "split split_ratio split_ratios train_split val_split test_split train_size test_size "
        "val_size validation_split validation_size test_ratio val_ratio train_ratio holdout_ratio"
    ),
    "--num_shards N": "shards n_shards nshards shard_count shard_num train_shards",
    "--shard_size SIZE": "max_shard_size shard_bytes size_per_shard records_per_shard",
    "--seed N": "random_seed random_state shuffle shuffle_seed",
    "--layout NAME|FILE (features), or --transcode (image format)": "format output_format f",
    "--layout NAME|FILE": "features feature_spec schema",
    "--transcode auto|jpeg|png": "image_format encode encoding_format convert_to recode",
    "--resize WIDTHxHEIGHT": (
        "image_size img_size size target_size resolution width height dimensions dims scale shape "
        "image_shape max_side crop_size resize_to"
    ),
    "--color rgb|gray": "colour color_mode channels grayscale greyscale gray grey rgb mode",
    "--quality N": "jpeg_quality q",
    "--compression gzip": "gzip gz zip compress compression_type",
    "--csv_encoding ENC": "encoding charset codec",
    "--csv_delimiter CHAR": (
        "delimiter delim sep separator field_separator csv_sep csv_separator csv_delim"
    ),
    "--group_by COL": "group group_column groups",
    "--overwrite (it replaces a finished dataset)": "force f_overwrite replace clobber exist_ok",
    "--progress auto|plain|json|off": "no_progress progress_bar bar",
    "--quiet": "silent s no_output",
    "--verbose": "debug log_level logging vv loglevel traceback",
    "the command `plan`, which writes nothing": (
        "dryrun dry_run dry dry_run_only n no_op noop preview simulate check_only"
    ),
    "--workers N": (
        "n_workers num_workers j jobs n_jobs threads num_threads processes num_processes "
        "num_parallel_calls cores"
    ),
    "--limit N": "n num count head max_records records number first limits",
    "--fast": "quick header_only",
    "--max_rejected SHARE|COUNT": "max_errors ignore_errors skip_errors tolerance",
    "--dedupe drop": "deduplicate drop_duplicates remove_duplicates unique",
    "--check header": "no_check skip_check no_verify fast",
    "--label_from none": "no_labels unlabeled unlabelled without_labels",
    "--dedupe off": "no_dedupe keep_duplicates",
    "--version": "V",
    "--name NAME": "dataset_name title",
    "--dataset_version X.Y.Z": "data_version",
    "--description TEXT": "desc summary about",
    "--citation TEXT": "cite cite_as bibtex",
    "--license LICENSE": "licence",
    "--homepage URL": "website web_page",
    "--croissant FILE|JSON": "rai rai_file creator keywords date_published",
}

# The command `plan` takes the flags of `convert`, and no others.
_ONLY_CONVERT = "--splits"


def refuse_unknown(
    rest: Sequence[str], argv: Sequence[str], parser: argparse.ArgumentParser
) -> None:
    """Refuses words that neither a parser of ours nor Beam's options know.

    Args:
        rest: the words that our parser does not recognize.
        argv: the whole command line, as it was typed.
        parser: ours.

    Raises:
        UsageError: one of them is unknown, or would not do what its name says.
    """
    if not rest:
        return
    typed = [as_typed(word, argv) for word in rest]
    check_beam_flags(typed)
    unknown, beams = find_unknown(rest, parser, typed)
    check_words(unknown, argv, parser, beams)


def find_unknown(
    rest: Sequence[str], parser: argparse.ArgumentParser, typed: Sequence[str] | None = None
) -> tuple[list[str], list[str]]:
    """The words that Beam's options do not know either, and the flags of Beam for a hint.

    Args:
        rest: the words that our parser does not recognize.
        parser: ours.
        typed: the words as the user wrote them; None if that is how they are.

    Raises:
        UsageError: Beam cannot read a value.
    """
    # Importing Beam takes a second, and few runs have Beam options.
    from apache_beam.options.pipeline_options import PipelineOptions

    beams: list[str] = []
    unknown: list[str] = []

    def compare(beam_parser: argparse.ArgumentParser) -> None:
        # Beam's own error prints several pages of usage.
        beam_parser.error = parser.error  # type: ignore[method-assign]
        beams.extend(flags_of(beam_parser))
        unknown.extend(beam_parser.parse_known_args(rest)[1])

    try:
        with logging_untouched():
            PipelineOptions(list(rest)).get_all_options(
                add_extra_args_fn=compare, retain_unknown_options=True
            )
    except (TypeError, ValueError) as error:
        # An option with a JSON value, which argparse does not know about.
        shown = rest if typed is None else typed
        names = ", ".join(word.partition("=")[0] for word in shown if word.startswith("-"))
        raise UsageError(f"Beam cannot read one of {names}: {error}") from error
    return unknown, proposed(beams)


def check_words(
    unknown: Sequence[str],
    argv: Sequence[str],
    parser: argparse.ArgumentParser,
    beams: Sequence[str] = (),
) -> None:
    """Refuses words that no parser knows.

    Args:
        unknown: those words.
        argv: the whole command line, as it was typed.
        parser: ours, for its flags.
        beams: the flags of Beam, if the command takes them.

    Raises:
        UsageError: there is one; the message suggests the flag that was probably meant.
    """
    for word in unknown:
        if word == "--":
            continue
        if not word.startswith("-"):
            raise UsageError(_unexpected(word, argv, parser))
        flag = as_typed(word, argv).split("=")[0]
        raise UsageError(f"unknown flag {flag}; {suggestion(flag, flags_of(parser), beams)}")


def flags_of(parser: argparse.ArgumentParser) -> list[str]:
    """The flags that a parser knows."""
    return [string for action in parser._actions for string in action.option_strings]


def suggestion(flag: str, ours: Sequence[str], beams: Sequence[str] = ()) -> str:
    """A suggestion for an unknown flag.

    Our flags come before Beam's. A destructive flag is never suggested because of its spelling.

    >>> suggestion("--shards", ["--num_shards"])
    'did you mean --num_shards N?'
    >>> suggestion("--overwrit", ["--overwrite"])
    'see --help'
    """
    name = flag.lstrip("-").replace("-", "_")
    if f"--{name}" in ours and f"--{name}" not in _DESTRUCTIVE:
        return f"did you mean --{name}?"
    for spelled in (name, name.lower()):
        for meant, names in _SYNONYMS.items():
            named = [word for word in meant.split() if word.startswith("--")] or [_ONLY_CONVERT]
            if spelled in names.split() and {*named} <= {*ours, *beams}:
                return f"did you mean {meant}?"
    own = [other for other in ours if other.startswith("--") and other not in _DESTRUCTIVE]
    if name.startswith("no_") and f"--{name[3:]}" in ours:
        return f"leave --{name[3:]} out"
    for others, cutoff in ((own, _ALIKE), (beams, _ALIKE_OF_BEAM)):
        known = {other.removeprefix("--"): other for other in others}
        longer = [each for each in known if others is own and each.startswith(name)]
        alike = difflib.get_close_matches(name.lower(), known, n=1, cutoff=cutoff)
        close = longer[: len(name) > 3] or alike
        if close:
            return f"did you mean {known[close[0]]}?"
    return "see --help"


def _unexpected(word: str, argv: Sequence[str], parser: argparse.ArgumentParser) -> str:
    """What is wrong with a word that is neither a flag nor a flag's value."""
    words, ours = list(argv), flags_of(parser)
    before = words[words.index(word) - 1] if word in words[1:] else ""
    flag = "--" + word.lstrip(_LONG_DASHES).partition("=")[0].replace("-", "_")
    if flag in ours and (word[0] in _LONG_DASHES or "=" in word):
        why = " (a flag begins with two short dashes)" if word[0] in _LONG_DASHES else ""
        return f"unexpected argument {word!r}; did you mean {flag}?{why}"
    for action in parser._actions:
        if flag_name(before) in action.option_strings and action.nargs == 0:
            return f"unexpected argument {word!r}: {before} takes no value"
    if folders := sum(not action.option_strings for action in parser._actions):
        what = "one folder at a time" if folders == 1 else f"no more than {folders} folders"
        return f"unexpected argument {word!r}: give {what}"
    if before and not before.startswith("-") and _is_path(before) and _is_path(word):
        return (
            f"unexpected argument {word!r}: the shell expanded a glob. Quote it: "
            "--images 'photos/*.jpg'"
        )
    if "--images" in ours and os.path.isdir(word):
        pattern = os.path.join(word, "**", "*")
        return f"unexpected argument {word!r}; did you mean --images {pattern!r}?"
    return f"unexpected argument {word!r}; quote globs: --images 'photos/*.jpg'"


def _is_path(word: str) -> bool:
    return os.path.lexists(word)
