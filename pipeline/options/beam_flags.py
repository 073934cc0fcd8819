"""Flags of Beam, and flags that nobody knows."""

from __future__ import annotations

import argparse
import difflib
import importlib.util
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pipeline.errors import UsageError
from pipeline.run.beam_compat import logging_untouched
from transforms.core.option import alike

# Names of flags with dashes: `--num-shards` is `--num_shards`, also for Beam's flags.

_NAME = re.compile(r"--\w[\w-]*")


def flag_name(word: str) -> str:
    """The name of a flag with underscores; other words as they are.

    >>> flag_name("--num-shards=8"), flag_name("photos-a"), flag_name("--")
    ('--num_shards', 'photos-a', '--')
    """
    name = word.partition("=")[0]
    return f"--{name[2:].replace('-', '_')}" if _NAME.fullmatch(name) else word


def underscored(words: Iterable[str]) -> list[str]:
    """A command line in which the names of flags have underscores.

    Values, and all words after `--`, stay as they are.

    >>> underscored(["--label-key=image-id", "--seed", "1", "--", "--my-folder"])
    ['--label_key=image-id', '--seed', '1', '--', '--my-folder']
    """
    made: list[str] = []
    rest = iter(words)
    for word in rest:
        made.append(_underscored(word))
        if word == "--":
            made += rest
    return made


def as_typed(word: str, words: Sequence[str]) -> str:
    """A word of `underscored(words)` as it is in `words`, for messages."""
    return next((each for each in words if _underscored(each) == word), word)


def _underscored(word: str) -> str:
    name, equals, value = word.partition("=")
    return f"{flag_name(name)}{equals}{value}"


# Labels of a Dataflow job, which launchers pass under the name of our `--labels`.

# The spelling of a Google Cloud label; a path with neither `.` nor `/` has the same form.
_OF_THE_JOB = re.compile(r"--labels=([a-z][a-z0-9_-]{0,62}=[a-z0-9_-]{0,63}|\{.*\})", re.DOTALL)
# The same for any script, since a label may contain letters of all of them.
_KEY_AND_VALUE = re.compile(r"[^\W\d_][\w-]{0,62}=[\w-]{0,63}")


def job_labels_apart(words: Iterable[str]) -> Iterator[str]:
    """The words of a command line, with job labels renamed to Beam's other name for them.

    Airflow's Beam operator adds `--labels=airflow-version=v3-3-2` to every command, and the
    launcher of a Flex Template `--labels={...}`. Beam treats `--label` the same.

    >>> list(job_labels_apart(["--labels=team=vision", "--labels={}", "--labels=/d/a=b.csv"]))
    ['--label=team=vision', '--label={}', '--labels=/d/a=b.csv']
    """
    for word in words:
        found = _OF_THE_JOB.fullmatch(word)
        yield f"--label={found[1]}" if found else word


def is_job_label(text: str) -> bool:
    """Whether a text is a label of a job: KEY=VALUE, or several of them as JSON.

    >>> is_job_label("team=vision"), is_job_label("labels.csv")
    (True, False)
    """
    is_json = text.startswith("{") and text.endswith("}")
    return is_json or (_KEY_AND_VALUE.fullmatch(text) is not None and text == text.lower())


# Options of Apache Beam on our command lines: most pass, some do not do what their names say.
#
# tests/pipeline/options/test_beam_flags.py classifies every option of the installed Beam.

_TESTS = "is for tests of Beam itself: leave it out"
_BATCH = "is for streaming jobs, and this is a batch job: leave it out"

# What each does here, and what to use instead.
_REFUSED = {
    "--dry_run": (
        "is for tests of Beam and would not prevent the conversion. To see what `convert` would "
        "do, and write nothing, give the same flags to the command `plan`"
    ),
    **dict.fromkeys(("--on_success_matcher", "--pubsub_root_url"), _TESTS),
    **dict.fromkeys(("--direct_runner_bundle_repeat", "--direct_test_splits"), _TESTS),
    "--wait_until_finish_duration": (
        "is for tests of Beam and limits nothing: put `timeout SECONDS` before the command"
    ),
    "--streaming": _BATCH,
    "--transform_name_mapping": _BATCH,
    "--create_from_snapshot": _BATCH,
    "--update": (
        "replaces a streaming job, and this is a batch job: leave it out "
        "(--overwrite replaces a dataset)"
    ),
    "--no_wait_until_finish": (
        "has no effect: the command waits for its job, which decides the exit code. "
        "Ctrl-C leaves a Dataflow job running"
    ),
    "--output_executable_path": (
        "would write a jar and convert nothing: leave it out (--output DIR names the dataset)"
    ),
}

# The default runner ignores these: a user who gives one means another runner.
_ELSEWHERE = {
    **dict.fromkeys(("--num_workers", "--max_num_workers"), "DataflowRunner"),
    **dict.fromkeys(("--worker_machine_type", "--machine_type"), "DataflowRunner"),
    **dict.fromkeys(("--flink_master", "--parallelism", "--max_parallelism"), "FlinkRunner"),
    "--spark_master_url": "SparkRunner",
    "--job_endpoint": "PortableRunner",
}

RUNNERS = tuple(
    f"{name}Runner"
    for name in (
        "Dataflow Flink Spark Portable Prism Direct FnApi BundleBasedDirect SwitchingDirect "
        "Interactive KafkaStreams TestDataflow TestDirect PythonRPCDirect"
    ).split()
)
"""The runners that Beam knows by their names, the usual ones first."""

# Without a project, Dataflow takes no job. Beam finds the others on some machines.
_OF_DATAFLOW = {
    "--project": "PROJECT",
    "--region": "REGION",
    "--temp_location": "gs://BUCKET/tmp",
}

# The in-process runner. `DirectRunner` first tries to download another runner's binary.
DEFAULT_RUNNER = "FnApiRunner"
"""The runner without `--runner`, which this may also name."""

# Runners whose workers are on this machine.
_LOCAL_RUNNERS = {DEFAULT_RUNNER, "DirectRunner", "PrismRunner", "SwitchingDirectRunner"}

_OWN_WORKERS = (
    "--direct_num_workers",
    "--direct_running_mode",
    "--environment_type",
    "--environment_config",
    "--sdk_worker_parallelism",
)

DECIDE_WORKERS = frozenset({"--runner", *_OWN_WORKERS})
"""The options that decide about workers, as `--workers` does."""

# Beam's two names of one option. `convert` and `plan` have a --labels of their own.
_JOB_LABELS = ("--label", "--labels")


def check_beam_flags(words: Sequence[str]) -> None:
    """Refuses options of Beam that would not do what their names say.

    Args:
        words: the command line without our flags, as it was typed.

    Raises:
        UsageError: there is such an option; the message names the likely intended one.
    """
    given = list(_options(words))
    names = {flag_name(typed) for typed, _ in given}
    _check_runner({flag_name(typed): value for typed, value in given})
    for typed, value in given:
        name = flag_name(typed)
        if name in _REFUSED:
            raise UsageError(f"{typed} {_REFUSED[name]}")
        if name in _JOB_LABELS and not is_job_label(value):
            meant = f"; did you mean --labels {value}?" if name == "--label" and value else ""
            raise UsageError(f"{name} {value!r}: a label of the job is KEY=VALUE{meant}")
        if name in _ELSEWHERE and "--runner" not in names:
            of_workers = "workers" in name or "parallelism" in name
            local = "; on this machine: --workers N" if of_workers else ""
            raise UsageError(
                f"{typed} needs --runner {_ELSEWHERE[name]}: without it the job runs on this "
                f"machine, which ignores {typed}{local}"
            )


def _check_runner(given: Mapping[str, str]) -> None:
    """Refuses a runner that Beam does not know, and one of Dataflow without what it needs.

    Beam would say so after the inputs were listed.
    """
    runner = given.get("--runner", "")
    if "." in runner or not runner:
        return
    # Beam compares names like this.
    known = {name.lower(): name for name in RUNNERS}
    name = known.get(runner.lower()) or known.get(f"{runner.lower()}runner")
    if name is None:
        stems = {name.removesuffix("runner"): name for name in known}
        near = [stems.get(each, each) for each in alike(runner.lower(), [*known, *stems])]
        hint = f"did you mean {known[near[0]]}?" if near else f"Beam has {', '.join(RUNNERS)}"
        raise UsageError(f"--runner {runner}: unknown runner; {hint}")
    # A stand-in for Dataflow on this machine needs none.
    is_local = "localhost" in given.get("--dataflow_endpoint", "")
    if name == "DataflowRunner" and "--project" not in given and not is_local:
        missing = [f"{flag} {value}" for flag, value in _OF_DATAFLOW.items() if flag not in given]
        raise UsageError(f"--runner {runner} needs {', '.join(missing)}; see docs/dataflow.md")


def check_workers(workers: int | None, words: Sequence[str]) -> None:
    """Refuses `--workers` with options of Beam that decide about workers, too.

    Args:
        workers: the value of the flag; None without it.
        words: the command line without our flags, as it was typed.

    Raises:
        UsageError: there is such an option.
    """
    for typed, value in () if workers is None else _options(words):
        name = flag_name(typed)
        if name in _OWN_WORKERS:
            raise UsageError(f"--workers cannot be used with {typed}: give one of them")
        if name == "--runner" and value.rpartition(".")[2] != DEFAULT_RUNNER:
            raise UsageError(
                f"--workers cannot be used with --runner {value}: it sets the worker processes of "
                "the default runner, on this machine"
            )


def runner_of(beam_flags: Sequence[str]) -> str:
    """The name of the runner that these options of Beam choose."""
    from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions

    runner = PipelineOptions(list(beam_flags)).view_as(StandardOptions).runner or DEFAULT_RUNNER
    return str(runner).rpartition(".")[2]


def has_local_workers(beam_flags: Sequence[str]) -> bool:
    """Whether these options of Beam run a job on this machine."""
    return runner_of(beam_flags) in _LOCAL_RUNNERS


def _options(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Every option with its value; the value of a switch is empty, or the word that follows."""
    for at, word in enumerate(words):
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            follows = words[at + 1] if at + 1 < len(words) else ""
            yield name, value if equals else ("" if follows.startswith("--") else follows)


# Unknown words on a command line, and suggestions for what was probably meant.

# Never suggested because of similar spelling: following a hint must not cost a dataset.
_DESTRUCTIVE = ("--overwrite",)

LONG_DASHES = "\u2013\u2014\u2212"
"""What word processors make of two dashes."""

# From 0 to 1. Beam's flags are rarely used, so the spelling has to be closer.
_ALIKE = 0.7
_ALIKE_OF_BEAM = 0.85

# Names that other programs use for our flags. The key is the flag with its value.
_SYNONYMS = {
    "--images GLOB": (
        "i input inputs input_dir input_path in image img imgs image_dir images_dir image_folder "
        "image_path image_glob photos data data_dir dataset_dir source src glob path root_dir"
    ),
    "--labels CSV": (
        "l csv csv_file csv_path label_csv labels_csv labels_file label_path annotations "
        "annotation annotation_file metadata manifest input_csv"
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
    "--keys FILE": "key_file key_list keys_file only only_keys select subset include ids limit",
    "--class_names FILE": "classes class_file class_map label_map label_names names num_classes",
    "--splits NAME=SHARE,...": (
        "split split_ratio split_ratios train_split val_split test_split train_size test_size "
        "val_size validation_split validation_size test_ratio val_ratio train_ratio holdout_ratio "
        "train val validation test"
    ),
    "--num_shards N": "shards n_shards nshards shard_count shard_num train_shards",
    "--shard_size SIZE": "max_shard_size shard_bytes size_per_shard records_per_shard",
    "--seed N": "random_seed random_state shuffle shuffle_seed",
    "--layout NAME|FILE (features), or --transcode (image format)": "format output_format f",
    "--layout NAME|FILE": "features feature_spec schema",
    "--transcode auto|jpeg|png": "image_format encode encoding_format convert_to recode",
    "--resize WIDTHxHEIGHT": (
        "image_size img_size size target_size resolution width height dimensions dims scale shape "
        "image_shape max_side crop_size resize_to imgsz"
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
    "batch_size of `load`, in Python": "batch batch_size bs",
    "a step of your training, after `load`": "augment flip normalize one_hot epochs device gpu",
    "--layout FILE, in which csv.COLUMN is a number (docs/layouts.md)": "regression target_type",
    "--label_separator TEXT": "multilabel multi_label multi_class label_sep label_delimiter",
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
    rest: Sequence[str], parser: argparse.ArgumentParser, typed: Sequence[str] = ()
) -> tuple[list[str], list[str]]:
    """The words that Beam's options do not know either, and the flags of Beam for a hint.

    Args:
        rest: the words that our parser does not recognize.
        parser: ours.
        typed: the words as the user wrote them; empty if that is how they are.

    Raises:
        UsageError: Beam cannot read a value.
    """
    # Importing Beam takes a second, which a typo does not have to wait for.
    known = _names_in_source()
    flags = [word for word in rest if re.match("--?[a-zA-Z]", word)]
    unknown = [word for word in flags or rest if word.partition("=")[0] not in known]
    beams = sorted(known - {*_REFUSED, *_JOB_LABELS})
    if unknown:
        return unknown, beams
    from apache_beam.options.pipeline_options import PipelineOptions

    def compare(beam_parser: argparse.ArgumentParser) -> None:
        # Beam's own error prints several pages of usage.
        beam_parser.error = parser.error  # type: ignore[method-assign]
        unknown.extend(beam_parser.parse_known_args(rest)[1])

    try:
        with logging_untouched():
            PipelineOptions(list(rest)).get_all_options(
                add_extra_args_fn=compare, retain_unknown_options=True
            )
    except (TypeError, ValueError) as error:
        # An option with a JSON value, which argparse does not know about.
        names = ", ".join(word.partition("=")[0] for word in typed or rest if word[:1] == "-")
        raise UsageError(f"Beam cannot read one of {names}: {error}") from error
    return unknown, beams


def _names_in_source() -> set[str]:
    """The flags of Beam, which is not imported for them."""
    spec = importlib.util.find_spec("apache_beam")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("no Beam", name="apache_beam")
    source = os.path.join(os.path.dirname(spec.origin), "options", "pipeline_options.py")
    with open(source, encoding="utf-8") as file:
        return set(re.findall(r"""["'](--[\w-]+)["']""", file.read()))


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
    shown = (each for each in parser._actions if each.help != argparse.SUPPRESS)
    return [string for action in shown for string in action.option_strings]


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
    flag = "--" + word.lstrip(LONG_DASHES).partition("=")[0].replace("-", "_")
    if flag in ours and (word[0] in LONG_DASHES or "=" in word):
        why = " (a flag begins with two short dashes)" if word[0] in LONG_DASHES else ""
        return f"unexpected argument {word!r}; did you mean {flag}?{why}"
    for action in parser._actions:
        if flag_name(before) in action.option_strings and action.nargs == 0:
            return f"unexpected argument {word!r}: {before} takes no value"
    if folders := sum(not action.option_strings for action in parser._actions):
        what = "one folder at a time" if folders == 1 else f"no more than {folders} folders"
        return f"unexpected argument {word!r}: give {what}"
    if before and not before.startswith("-") and all(map(os.path.lexists, (before, word))):
        return (
            f"unexpected argument {word!r}: the shell expanded a glob. Quote it: "
            "--images 'photos/*.jpg'"
        )
    if "--images" in ours and os.path.isdir(word):
        pattern = os.path.join(word, "**", "*")
        return f"unexpected argument {word!r}; did you mean --images {pattern!r}?"
    return f"unexpected argument {word!r}; quote globs: --images 'photos/*.jpg'"
