"""`--config`: options of a file are those of the command line, which wins."""

import argparse
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import UsageError
from pipeline.options.config_file import _one_glob
from pipeline.options.option_table import OPTIONS, RunOptions
from pipeline.options.parser import parse_flags
from tests.marks import cases
from tests.pipeline.commands import convert, digests, make_dataset
from tests.pipeline.right_command import right_flags
from transforms.core.option import declared
from transforms.labels.keys import expand_braces

NEEDED = ["--images=i", "--output=o"]


def parse(folder: Path, text: str, *words: str) -> tuple[argparse.Namespace, list[str]]:
    """The flags of a command line with a file."""
    path = folder / "my.yaml"
    path.write_text(text, "utf-8")
    flags, rest = parse_flags("convert", [f"--config={path}", *words])
    flags.config = None
    return flags, rest


@cases(
    ("num-shards: 4", ["--num_shards=4"]),
    ("num_shards: 4\nseed: -3", ["--num_shards=4", "--seed=-3"]),
    ("images: [a/*.jpg, 'b/*.{jpg,png}']", ["--images=a/*.jpg", "--images=b/*.{jpg,png}"]),
    ("images: a/*.jpg", ["--images=a/*.jpg"]),
    ("label_file: a=b.csv", ["--label_file=a=b.csv"]),
    ("labels: a=b", ["--label_file=a=b"]),
    ("splits: train=0.8,test=0.2", ["--splits=train=0.8,test=0.2"]),
    ("splits: [train=0.8, test=0.2]", ["--splits=train=0.8,test=0.2"]),
    ("splits: {train: 0.8, test: 20%}", ["--splits=train=0.8,test=20%"]),
    ("boxes: {form: xywh, units: pixel}", ["--boxes=form=xywh,units=pixel"]),
    ("overwrite: true\nstrict: yes", ["--overwrite", "--strict"]),
    ("overwrite: false\ndense-labels: off", []),
    # As they are written, not as YAML reads them.
    ("label_column: no\nlabel_key: 1e3", ["--label_column=no", "--label_key=1e3"]),
    ("csv_delimiter: ';'\ncompression: GZIP", ["--csv_delimiter=;", "--compression=gzip"]),
    ('{"seed": 7, "images": ["a", "b"]}', ["--seed=7", "--images=a", "--images=b"]),
    ("runner: FlinkRunner\nparallelism: 2", ["--runner=FlinkRunner", "--parallelism=2"]),
    ("experiments: [a, b=c]", ["--experiments=a", "--experiments=b=c"]),
    ("save-main-session: true", ["--save_main_session"]),
    ("use_public_ips: false", ["--no_use_public_ips"]),
    ("label: team=vision", ["--label=team=vision"]),
)
def test_options_of_a_file_are_words(text: str, words: list[str], tmp_path: Path) -> None:
    needed = ["--output=o"] if "images" in text else NEEDED
    assert parse(tmp_path, text, *needed) == parse_flags("convert", [*words, *needed])


@cases(
    ("seed: 1", ["--seed=2"], ["--seed=2"]),
    ("seed: 1", ["--seed", "0"], ["--seed=0"]),
    ("images: [a, b]", ["--images=c"], ["--images=c"]),
    ("labels: a.csv", ["--label-file=b.csv"], ["--labels=b.csv"]),
    ("label-file: a.csv", ["--labels=b.csv"], ["--labels=b.csv"]),
    ("runner: FlinkRunner", ["--runner=SparkRunner"], ["--runner=SparkRunner"]),
    # One does what the other does.
    ("num_shards: 3", ["--shard_size=2MB"], ["--shard_size=2MB"]),
    ("shard_size: 2MB", ["--num_shards=3"], ["--num_shards=3"]),
    ("class_names: [a]", ["--class_names=f"], ["--class_names=f"]),
    ("version: 1.0.0", ["--version", "1.2.0"], ["--dataset_version=1.2.0"]),
    ("version: 1.2.0", [], ["--dataset_version=1.2.0"]),
)
def test_the_command_line_wins(
    text: str, words: list[str], meant: list[str], tmp_path: Path
) -> None:
    assert parse(tmp_path, text, "--output=o", *words) == parse_flags(
        "convert", ["--output=o", *meant]
    )


def test_names_of_classes_may_be_a_list(tmp_path: Path) -> None:
    flags, _ = parse(tmp_path, "class_names: [cat, no, 3]", *NEEDED)
    assert flags.class_names == ("cat", "no", "3")


MISTAKES = {
    "num_shard: 3": "line 1: unknown option 'num_shard'; did you mean --num_shards",
    "seed: 1\nout: x": "line 2: unknown option 'out'; did you mean --output DIR?",
    "runer: x": "line 1: unknown option 'runer'; did you mean --runner?",
    "nope: x": "line 1: unknown option 'nope'; see --help",
    "seed: 1\n\nseed: 2": "line 3: seed is set twice, first in line 1",
    "num-shards: 1\nnum_shards: 2": "line 2: num_shards is set twice, first in line 1",
    "labels: a\nlabel_file: b": "line 2: label_file is set twice, first in line 1",
    "seed: x": "line 1: --seed 'x' is not a whole number",
    "seed:": "line 1: seed has no value",
    "seed: [1, 2]": "line 1: seed takes one value, not a list",
    "seed: {a: 1}": "line 1: seed takes one value, not names with values",
    "images: {a: 1}": "line 1: images takes a value or a list of values, not names with values",
    f"images: [{'a,' * 4001}]": "line 1: images has 4001 values, more than 4000",
    "images: [[a]]": "line 1: images has values inside of a value",
    "overwrite: 'true'": "line 1: overwrite is true or false, not 'true'",
    "overwrite: 1": "line 1: overwrite is true or false, not '1'",
    "overwrite: [true]": "line 1: overwrite takes true or false, not a list",
    "class_names: [a, '']": "line 1: class_names lists a name that is empty",
    "class_names: []": "line 1: class_names lists a name that is empty",
    "layout: slimm": "line 1: --layout 'slimm' is neither one of slim",
    "seed: 1\nlabels: [": "line 2: invalid YAML: ",
    "config: b.yaml": "line 1: config is only possible on the command line",
    "help: true": "line 1: help is only possible on the command line",
    "? [a]\n: 1": "line 1: '' is not the name of an option",
    "--seed: 1": "line 1: '--seed' is not the name of an option",
    "- seed": "holds no options: write one per line",
    "seed": "holds no options: write one per line",
    "": "is empty: write one option per line",
    "# nothing": "is empty: write one option per line",
    "{}": "is empty: write one option per line",
    "[" * 500: "",
    "gcs_custom_audit_entries: x": "line 1: Beam cannot read one of --gcs_custom_audit_entries",
    "dry_run: 'true'": "--dry_run is for tests of Beam",
    '{"format_version": 1}': "format version 1, this program reads",
    '{"format_version": 2}': "is not a manifest of this tool",
}


@pytest.mark.parametrize("text", MISTAKES, ids=range(len(MISTAKES)))
def test_a_mistake_is_one_line_with_its_place(text: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as raised:
        parse(tmp_path, text, *NEEDED)
    message = str(raised.value)
    assert MISTAKES[text] in message and "\n" not in message and len(message) < 300
    if "line" in MISTAKES[text][:5]:
        assert message.startswith(f"{tmp_path / 'my.yaml'} line ")


def test_a_file_that_is_none(tmp_path: Path) -> None:
    for path, says in {
        "nope.yaml": "no such file: --config",
        "": "is a folder: give a file, such as",
    }.items():
        with pytest.raises(UsageError, match=says):
            parse_flags("convert", [*NEEDED, "--config", str(tmp_path / path)])
    with pytest.raises(UsageError, match="--config is given twice"):
        parse_flags("convert", [*NEEDED, "--config=a", "--config=b"])


@given(st.lists(st.text("ab[*]?/.", min_size=1, max_size=6), min_size=1, unique=True))
def test_one_glob_stands_for_all_label_files(paths: list[str]) -> None:
    """The glob matches a single file or several, even with special characters in their names."""
    import glob

    assert sorted(expand_braces(_one_glob(paths))) == sorted(map(glob.escape, paths))


def test_a_run_of_a_file_is_the_run_of_its_words(right_inputs: Path, tmp_path: Path) -> None:
    right: dict[str, Any] = right_flags(right_inputs)
    output = right.pop("output")
    options = {**right, "seed": 5, "num_shards": 2, "class_names": ["dog", "cat"]}
    config = tmp_path / "my.yaml"
    config.write_text(json.dumps(options))
    made = make_dataset(Path(output), config=config)
    assert made.classes == ["dog", "cat"] and len(made.shards()) == 2
    assert made.manifest["options"]["seed"] == 5
    before = digests(made.folder)

    # The manifest repeats the run, where it is and elsewhere.
    ran = convert(config=made.folder / "manifest.json", output=output)
    assert ran.code == 0 and ran.out.startswith("up to date: ")
    assert digests(made.folder) == before
    again = make_dataset(tmp_path / "again", config=made.folder / "manifest.json")
    assert again.manifest["recipe"] == made.manifest["recipe"]
    assert digests(again.folder) | {"manifest.json": "", "report.html": ""} == before | {
        "manifest.json": "",
        "report.html": "",
    }


def test_what_a_manifest_leaves_to_the_command_line() -> None:
    """Permissions, limits of a run, and how it runs: they change no record."""
    left = {name for name, option in OPTIONS.items() if option.recorded is None}
    in_inputs = {"images", "keys", "labels", "masks"}
    assert left - in_inputs - {*declared(RunOptions)} == {
        *("allow_outside", "max_rejected", "output", "overwrite", "quarantine", "reuse", "root"),
        "strict",
    }
