"""Command lines as people mistype them: each is refused in one line that says what was meant.

They are typed in a folder with `photos/`, `labels.csv` and a finished dataset `out`; `@` stands for
flags that are right.
"""

from __future__ import annotations

import contextlib
import importlib
import shlex
import sys
from pathlib import Path

import pytest

from tests.pipeline.commands import Ran, make_dataset, run_here, snapshot
from tests.pipeline.right_command import write_inputs

RIGHT = "--images 'photos/*/*.jpg' --labels labels.csv --output new"

# Those of the list that began it, with what each must say.
FIRST = {
    "convert @ --label labels.csv": "did you mean --labels labels.csv?",
    "convert @ --dry_run": "give the same flags to the command `plan`",
    "convert @ --dry-run": "give the same flags to the command `plan`",
    "convert --input 'photos/*/*.jpg' --output new": "--input; did you mean --images GLOB?",
    "convert @ --force": "--force; did you mean --overwrite (it replaces a finished dataset)?",
    "convert @ --format png": "did you mean --layout NAME|FILE (features), or --transcode",
    "convert @ --image_size 224": "--image_size; did you mean --resize",
    "convert @ --image-size 224": "--image-size; did you mean --resize",
    "convert --images 'photos/*/*.jpg' --output_dir new": "did you mean --output DIR?",
    "convert --images 'photos/*/*.jpg' --out new": "did you mean --output DIR?",
    "convert --images 'photos/*/*.jpg' -o new": "unknown flag -o; did you mean --output DIR?",
    "convert @ --classes names.txt": "--classes; did you mean --class_names FILE?",
    "convert --images 'photos/*/*.jpg' --labels . --output new": "a folder: try './labels.csv'",
    "convert --images 'photos/*/*.jpg' --labels nope.csv --output new": "there is no such file",
    "convert --images '~/*.jpg' --output new": "the shell does not expand ~ in quotes; write '/",
    "verify out other": "unexpected argument 'other': give one folder at a time",
    "verify ''": "verify: OUT: it is empty: give a path",
    "report ''": "report: OUT: it is empty: give a path",
    "show ' '": "show: OUT: it is empty: give a path",
    "show out --images ''": "show: --images: it is empty: give a path",
    "diff out ''": "diff: B: it is empty: give a path",
    "export '' --dali new": "export: OUT: it is empty: give a path",
    "export out --dali ''": "export: --dali: it is empty: give a path",
    "diff out other third": "unexpected argument 'third': give no more than 2 folders",
    "convert @ --overwrite yes": "'yes': --overwrite takes no value",
    "convert @ --splits 0.8,0.2": "convert: --splits '0.8,0.2': '0.8' has no name",
    "show out --limits 3": "--limits; did you mean --limit",
    "convert --images 's3://b/*.jpg' --output new": "pip install 'apache-beam[aws]'",
    "convert @ --num_shards 4 --shard_size 64MB": "--num_shards cannot be used with --shard_size",
    "convert @ --shard_size 64": "'64' has no unit: did you mean 64MB?",
    "convert @ --output out --splits train=0.7,test=0.3": (
        "--splits is train=0.7,test=0.3, was train=1. Use --overwrite or another --output"
    ),
}

WORDS = {
    "convert photos": "did you mean --images 'photos/**/*'?",
    "convert photos/": "did you mean --images 'photos/**/*'?",
    "convert images=photos/*.jpg": "'images=photos/*.jpg'; did you mean --images?",
    "convert \u2014images x --output new": "did you mean --images? (a flag begins with two short",
    "convert \u2013images x --output new": "did you mean --images? (a flag begins with two short",
    "convert -images x --output new": "unknown flag -images; did you mean --images?",
    "convert --Images x --output new": "unknown flag --Images; did you mean --images?",
    "convert --images": "--images needs a value, GLOB",
    "convert @ --label_key": "--label_key needs a value, COL",
    "convert --images=": "--images: it is empty: give a path",
    "convert --images x --labels ''": "--labels: it is empty: give a path",
    "convert @ --overwrite=true": "convert: --overwrite takes no value",
    "convert @ --strict false": "'false': --strict takes no value",
    "convert @ --no-strict": "--no-strict; leave --strict out",
    "convert @ --no_overwrite": "--no_overwrite; leave --overwrite out",
    "convert @ --no_labels": "did you mean --label_from none?",
    "plan --images x": "plan: --output DIR is missing",
    "verify": "verify: OUT is missing: give the folder of a dataset",
    "show": "show: OUT is missing: give the folder of a dataset",
    "verify out --fast --full": "--full cannot be used with --fast",
    "show out -n 3": "unknown flag -n; did you mean --limit N?",
    "show out --count 3": "unknown flag --count; did you mean --limit N?",
    "convert @ -n": "unknown flag -n; did you mean the command `plan`",
    "report out --overwrit": "unknown flag --overwrit; see --help",
}

VALUES = {
    "convert @ --compression gz": "--compression 'gz' is not one of none, gzip; did you mean gzip?",
    "convert @ --compression zip": "did you mean gzip?",
    "convert @ --key filename": "did you mean name?",
    "convert @ --label_from folder": "did you mean directory?",
    "convert @ --label_from folders": "did you mean directory?",
    "convert @ --label_from JSON": "is not one of csv, directory, regex, webdataset, records, none",
    "convert @ --transcode jpg": "did you mean jpeg?",
    "convert @ --color greyscale": "did you mean gray?",
    "convert @ --stratify species": "--stratify 'species' is not label, its only value; see --help",
    "convert @ --check false": "--check 'false' is not one of full, header; see --help",
    "convert @ --dedupe remove": "did you mean drop?",
    "convert @ --progress none": "did you mean off?",
    "convert @ --exif_orientation true": "did you mean apply?",
    "convert @ --files separate": "did you mean per_image?",
    "convert @ --box_units pixels": "did you mean pixel?",
    "convert @ --box_form yolo": "did you mean center?",
    "convert @ --box_form voc": "did you mean corners?",
    "convert @ --box_form coco": "did you mean xywh?",
    "convert @ --layout slimm": "did you mean slim?",
    "convert @ --layout my.json": "'my.json' is neither one of slim, tutorial,",
    "convert @ --shard_size 64M": "'64M' is not a size: did you mean 64MB?",
    "convert @ --max_bytes 10k": "'10k' is not a size: did you mean 10KB?",
    "convert @ --shard_size 1Gi": "did you mean 1GiB?",
    "convert @ --resize 224": "did you mean shorter=224, or 224x224 (width x height)?",
    "convert @ --resize 640,480": "did you mean 640x480 (width x height)?",
    "convert @ --resize '(224, 224)'": "did you mean 224x224 (width x height)?",
    "convert @ --resize 224x224x3": "did you mean 224x224 (width x height)?",
    "convert @ --splits train=80,val=20": "did you mean train=80%,val=20%?",
    "convert @ --splits train=0.8 val=0.2": "did you mean train=0.8,validation=0.2?",
    "convert @ --splits validation=0.2": "did you mean validation=0.2,test=0.8?",
    "convert @ --splits 80/20": "'80/20' has no '='",
    "convert @ --quality 95%": "--quality '95%' is not a whole number",
    "convert @ --seed 1.5": "--seed '1.5' is not a whole number",
}

FILES = {
    "convert @ --output photos": "--output photos holds something else ('cat')",
    "convert --images 'new/**/*' --output new": "there is no folder 'new'",
    "convert --images 'photos/**/*' --output photos": "its files are in --output, or",
    "convert --images 'photos/*' --output new": "it matches folders: try 'photos/*/**/*'",
    "convert --images 'C:\\photos\\*.jpg' --output new": "write / instead of \\",
    "convert --images 'gs:/b/*.jpg' --output new": "did you mean 'gs://b/*.jpg'?",
    "convert --images 'gcs://b/*.jpg' --output new": "did you mean 'gs://b/*.jpg'?",
    "convert --images 's3a://b/*.jpg' --output new": "did you mean 's3://b/*.jpg'?",
    "convert --images 'http://a/b.jpg' --output new": "is a web address, which cannot be read",
    "convert --images 'file:///a/*.jpg' --output new": "a local file: write '/a/*.jpg'",
    "convert @ --output file:///a": "--output 'file:///a' is the URL of a local file: write '/a'",
    "convert @ --keys ftp://a/keys.txt": "--keys 'ftp://a/keys.txt' has a scheme that no installed",
    "diff ftp://a/b out": "the folder 'ftp://a/b' has a scheme that no installed file system",
    "convert --images 'photos/*/*.jpg' --labels coco.json --output new": "coco.json is JSON",
    "convert @ --label_column class": "no column 'class' (--label_column); it has 'id', 'label'",
    "convert @ --label_column 0": "no column 0, only 2",
    "convert @ --class_names cat,dog": "no such file: --class_names cat,dog",
    "convert @ --layout my.yaml": "no such file: --layout my.yaml",
    "convert @ --config photos": "--config photos is a folder: give a file, such as photos/",
    "verify nothing": "nothing holds no dataset: there is no such folder",
    "verify photos": "photos holds no dataset: there is no photos/manifest.json",
    "verify out/manifest.json": "it is a file; give its folder, out",
    "report out/labels.txt": "it is a file; give its folder, out",
    "show out --split val": "there is no --split val; the dataset has train",
    "show out --images labels.csv": "--images labels.csv is a file: give a folder",
}

MISTAKES = {**FIRST, **WORDS, **VALUES, **FILES}

# Found after a search: the exit code is 1.
NOT_FOUND = {
    "show out --class Cat": "none of 4 records has --class Cat; did you mean --class cat?",
    "show out --class wolf": "none of 4 records has --class wolf; the classes are cat, dog",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Photos, labels and a finished dataset."""
    made = tmp_path_factory.mktemp("mistakes")
    write_inputs(made)
    (made / "coco.json").write_text('{"images": []}')
    with contextlib.chdir(made):
        make_dataset(Path("out"), images="photos/*/*.jpg", labels="labels.csv")
    return made


def type_in(folder: Path, line: str, monkeypatch: pytest.MonkeyPatch) -> Ran:
    """Runs a command line in the folder."""
    monkeypatch.chdir(folder)
    command, *words = shlex.split(line.replace("@", RIGHT))
    return run_here(importlib.import_module(f"pipeline.{command}").main, command, words)


@pytest.mark.usefixtures("no_run")
@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_is_answered(line: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Machines differ in what they have installed.
    monkeypatch.setitem(sys.modules, "boto3", None)
    before = snapshot(folder)
    ran = type_in(folder, line, monkeypatch)
    assert (ran.code, ran.out) == (2, "")
    assert MISTAKES[line] in ran.error() and len(ran.error()) < 300
    assert "?;" not in ran.error() and "?:" not in ran.error()
    assert snapshot(folder) == before


@pytest.mark.parametrize("line", NOT_FOUND)
def test_what_is_not_found(line: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = type_in(folder, line, monkeypatch)
    assert (ran.code, ran.out) == (1, "") and NOT_FOUND[line] in ran.error()


@pytest.mark.usefixtures("no_run")
@pytest.mark.parametrize(
    "value", ["--color=RGB", "--compression=GZIP", "--dedupe=Drop", "--label_from=CSV"]
)
def test_values_in_any_case(value: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AssertionError, match="a graph was run"):
        type_in(folder, f"convert @ {value}", monkeypatch)
