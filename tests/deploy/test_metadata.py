"""The template's parameters are the flags of `convert`: none is missing, and none has drifted."""

import argparse
import re
from pathlib import Path
from typing import NamedTuple

import pytest
from google.cloud.dataflow_v1beta3.types import ParameterMetadata, TemplateMetadata

from pipeline.errors import UsageError
from pipeline.options.parser import make_parser, parse_flags

METADATA = Path(__file__).parents[2] / "deploy" / "metadata.json"

# The client refuses a field that the API does not know.
TEMPLATE = TemplateMetadata.from_json(METADATA.read_text("utf-8"))
PARAMETERS: dict[str, ParameterMetadata] = {each.name: each for each in TEMPLATE.parameters}
SHOWN = [each for each in make_parser("convert")._actions if each.help != argparse.SUPPRESS]
ACTIONS: dict[str, argparse.Action] = {each.dest: each for each in SHOWN}

NOT_HERE = {
    "help": "a template has no shell",
    "version": "as help",
    "allow_outside": "it is about local files, which workers elsewhere cannot read",
    "config": "the parameters are one; the launcher would need to read it",
    "workers": "the machine type decides",
    "quiet": "as progress",
    "verbose": "as progress",
    "progress": "nobody watches the launcher, which ends before the job begins",
}
OF_BEAM = {"sdk_container_image", "number_of_worker_harness_threads"}


class Values(NamedTuple):
    """Values of a parameter.

    Attributes:
        right: taken by the parser, so the template must take them.
        wrong: refused by the parser, so the template must refuse them.
        local: taken by the parser only; the workers could not do anything with them.
    """

    right: list[str]
    wrong: list[str] = []
    local: list[str] = []


PATHS = Values(["gs://b/a b/*.jpg", "gs://my-b.x_1/d"], [], ["d/*.jpg", "/d", "s3://b/d", "gs://b"])
SIZES = Values(
    ["150MB", "64MiB", "1.5GB", "10KB", "1000B", "150000000"],
    ["", "0", "0MB", "-1MB", "MB", "150 TB", "1e6", "64M", "1,5GB", "64"],
)
VALUES = {
    "images": PATHS,
    "masks": PATHS,
    "labels": PATHS,
    "class_names": PATHS,
    "keys": PATHS,
    "reuse": PATHS,
    "holdout": PATHS,
    "root": PATHS._replace(wrong=[""]),
    "output": PATHS,
    "layout": Values(
        ["slim", "tutorial", "landmark", "detection", "rows", "gs://b/a b/my.yaml", "gs://b/l.yml"],
        ["", "else", "gs://b/my.json"],
        ["my.yaml", "/d/my.yaml"],
    ),
    "label_separator": Values(["|", ", ", " "], [""]),
    "record_features": Values(["image=jpg,key=", "label=a/b"], ["", "jpg", "image=a,,key="]),
    "label_key": Values(["id", "2", "image name", "이름"]),
    "label_column": Values(["label", "2"]),
    "label_from": Values(
        ["none", "regex:([a-z]+)_[0-9]+", "regex:/(?P<label>[^/]+)/[^/]+$", "regex:(한강|남산)"],
        ["", "regex:", "regex:cat", "regex:cat)", "csv:a"],
    ),
    "boxes": Values(
        ["form=xywh,units=pixel", "columns=X Min,y1,x2,y2,orientation=upright", "columns=4,5,8,9"],
        ["xywh", "form=", "columns=x,y,w", "columns=x,y,w,,", "colums=x,y,w,h"],
    ),
    "group_by": Values(["patient id", "3"]),
    "split_by": Values(["hash", "folder", "records", "column", "column:set", "column:1"], ["set"]),
    "csv_encoding": Values(["utf-8", "cp949", "UTF_16"], [], ["utf 8"]),
    "csv_delimiter": Values([";", "|", " ", "tab", "semicolon"], ["", "t", "||", '"', "bar"]),
    "splits": Values(
        ["train=1", "train=0.8,validation=0.1,test=0.1", "train=80%,test=20%", "a_1=.5,b=.5"],
        ["", "train", "train=", "=1", "1a=1", "train=1,", "train=x", "a-b=1", "train=0.5 test=0.5"],
    ),
    "seed": Values(["0", "-7", "123456789012345678"], ["", "x", "1.5", "--1", "9" * 39]),
    "num_shards": Values(["1", "64", "99999"], ["", "0", "-1", "x", "1.5", "100000"]),
    "shard_size": Values(
        ["150MB", "64MiB", "1.5GB", "2000KB"], [*SIZES.wrong, "150000000", "100KB", "1000B"]
    ),
    "file_name": Values(
        ["{split}-{shard:05d}-of-{shards:05d}.tfrecord", "a {shard}.tfrec", "{shard}.tfrecords.gz"],
        ["", "{shard}", "../{split}/{stem}.tfrecord", "{shard}.doc"],
    ),
    "max_bytes": SIZES,
    "resize": Values(
        ["shorter=256", "longer=9", "640x480", "65500x1,never_enlarge", "shorter=1,never_enlarge"],
        ["", "256", "shorter", "shorter=0", "0x5", "5x", "1x1x1", "wide=5", "5x5,enlarge", "5 x 5"],
    ),
    "depth": Values(["8", "16"], ["", "12", "-8", "x"]),
    "quality": Values(["1", "10", "95", "100"], ["", "0", "101", "-1", "x", "9.5"]),
    "overwrite": Values(["true", "false"], [], ["", "yes", "1"]),
    "dense_labels": Values(["true", "false"], [], ["", "yes", "1"]),
    "strict": Values(["true", "false"], [], ["", "yes", "1"]),
    "strip_metadata": Values(["true", "false"], [], ["", "yes", "1"]),
    "max_pixels": Values(["1", "178956970"], ["", "0", "-1", "x", "1.5"]),
    "max_rejected": Values(
        ["0", "25", "1%", "0.5%", "100%", "0.01", ".5", "1.0", "1% or 10"],
        ["", "-1", "101%", "1.5", "x", "%", "1%%", "10 or 1%", "1% or 2%"],
    ),
    "quarantine": PATHS._replace(wrong=[""]),
    "name": Values(["pets", "pets_2"], ["", "Pets", "2pets", "my-pets", "my pets", "애완"]),
    "dataset_version": Values(
        ["1.0.0", "0.10.22"], ["", "1", "1.2", "1.02.3", "v1.2.3", "1.2.3-rc1", "1.*.*"]
    ),
    "description": Values(["Photos of pets.", "사진,\n\n두 줄"], ["", " "]),
    "citation": Values(["@misc{pets, title = {Pets}}"], [""]),
    "license": Values(["CC-BY-4.0", "https://example.org/license", "ask Ann"], [""]),
    "homepage": Values(["https://example.org/pets", "http://a"], ["", "example.org", "ftp://a/b"]),
    "croissant": Values(
        ["gs://b/rai.yaml", '{"creator": "Ann Lee"}'], [""], ["rai.yaml", "/d/rai.yaml"]
    ),
    "model": Values(["gs://b/m.keras", "EfficientNetB0"], [""], ["m.keras", "/m", "s3://b/m"]),
    "model_weights": PATHS._replace(wrong=[""]),
}
VALUES |= {
    name: Values([str(choice) for choice in action.choices], ["", "else", f"{action.choices}"])
    for name, action in ACTIONS.items()
    if action.choices and name not in {*NOT_HERE, *VALUES}
}


def accepts(name: str, value: str) -> bool:
    """Whether the template takes the value of a parameter."""
    return all(re.search(regex, value) for regex in PARAMETERS[name].regexes)


def parses(name: str, value: str) -> bool:
    """Whether the parser takes it."""
    words = {f"--{each}": "gs://b/d" for each in ("images", "output")} | {f"--{name}": value}
    try:
        parse_flags("convert", [f"{flag}={value}" for flag, value in words.items()])
    except UsageError:
        return False
    return True


def test_every_flag_is_a_parameter() -> None:
    assert set(PARAMETERS) == set(ACTIONS) - set(NOT_HERE) | OF_BEAM
    assert len(TEMPLATE.parameters) == len(PARAMETERS)


def test_parameters_of_beam_are_known_to_it() -> None:
    for name in OF_BEAM:
        parse_flags("convert", ["--images=i", "--output=o", f"--{name}=1"])


def test_the_image_of_the_workers_must_be_given() -> None:
    """Without it a worker would start from an image that does not have this project."""
    assert not PARAMETERS["sdk_container_image"].is_optional
    for image in ("europe-docker.pkg.dev/p/r/convert:1.0", f"gcr.io/p/c@sha256:{'a' * 64}"):
        assert accepts("sdk_container_image", image)
    for image in ("", "convert", "gcr.io/p/convert", "gcr.io/p/c:", "gcr.io/a b:1"):
        assert not accepts("sdk_container_image", image)
    assert accepts("number_of_worker_harness_threads", "2")
    assert not accepts("number_of_worker_harness_threads", "0")


def test_every_parameter_has_values_here() -> None:
    assert set(VALUES) == set(PARAMETERS) - OF_BEAM


@pytest.mark.parametrize("name", sorted(VALUES))
def test_a_regex_takes_what_the_parser_takes(name: str) -> None:
    values = VALUES[name]
    assert values.right
    for value in values.right:
        assert accepts(name, value), value
        # A switch of the shell is a word of the template; see flex_main.
        assert ACTIONS[name].nargs == 0 or parses(name, value), value
    for value in values.wrong:
        assert not parses(name, value), value
        assert not accepts(name, value), value
    for value in values.local:
        assert not accepts(name, value), value


@pytest.mark.parametrize("name", sorted(PARAMETERS))
def test_regexes_are_whole_and_portable(name: str) -> None:
    """The service reads them as POSIX does, which has no \\d and no (?:)."""
    for regex in PARAMETERS[name].regexes:
        assert regex.startswith("^") and regex.endswith("$")
        assert "\\" not in regex and "(?" not in regex
