"""Command lines with a mistake: each is refused in one line that says what was meant.

They are typed in a folder with `photos/`, `labels.csv`, a finished dataset `out` and wrong files;
`@` stands for flags that are right, `@images` and the like for some of them.
Parts of the answer are separated by ` ... `.
"""

import contextlib
import os
import shlex
import shutil
import signal
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from tests.images.packed import write_parquet
from tests.marks import cases
from tests.pipeline.commands import Ran, make_dataset, run, snapshot
from tests.pipeline.mistaken_flags import CONVERT, CONVERT_FILES
from tests.pipeline.right_command import write_inputs

RIGHT = {
    "@images": "--images 'photos/*/*.jpg' --output new",
    "@labels": "--labels labels.csv --output new",
    "@rows": "--layout rows --output new",
    "@two": "--images 'photos/*/*.jpg' --splits a=.7,b=.3 --num_shards 2 --output new --file_name",
    "@dataset": "--images out --output new",
    "@new": "--output new",
    "@": "--images 'photos/*/*.jpg' --labels labels.csv --output new",
}

WRONG_FILES = {
    "uvw.csv": "u,v\nw,x\n",
    "tables/a.csv": "id,label\n",
    "tables/b.csv": "id,label\n",
    "yolo/a.txt": "0 .5 .5 .1 .1\n",
    "empty.csv": "",
    "header.csv": "id,label\n",
    "dtd.xml": "<!DOCTYPE annotation>",
    "labels2.csv": "id,label,category\ncat-0,a,b\n",
    "keys2.csv": "id,name,label\ncat-0,cat-0,a\n",
    "idxy.csv": "id,x,y\ncat-0,a,b\n",
    "cp949.csv": "id,label\ncat-0,고양이\n".encode("cp949"),
    "tilde.csv": "id~label\ncat-0~a\n",
    "old.csv": "id,label\n/old/cat/cat-0.jpg,a\n",
    "wolf.csv": "id,label\nwolf-0,a\n",
    "set.csv": "id,label,set\ncat-0,a,1 a\n",
    "part-1.csv": "id,label\ncat-0,a\n",
    "part-2.csv": "id,kind\ncat-1,b\n",
    "automl.csv": "TRAIN,photos/cat/cat-0.jpg,cat\n,photos/cat/cat-1.jpg,cat\n",
    "book.csv": b"PK\3\4\x14\0",
    "gzip.csv": b"\x1f\x8b\x08\0\0\0",
    "coco.json": '{"images": []}',
    "names.txt": "cat\ndog\n",
    "blank.txt": "\n \n",
    "twice.txt": "cat\ndog\ncat\n",
    "ff.txt": b"\xff",
    "new.keras": "",
    "name.yaml": "features: {name: image.path}\n",
    "pixels.yaml": "features: {pixels: image.pixels, label: label.id}\n",
    "masks/cat-0.png": "",
    "sets/a/manifest.json": "",
    "sets/b/manifest.json": "",
    "site/manifest.json": '{"name": "page"}',
    "later/manifest.json": '{"format_version": 99}',
    **CONVERT_FILES,
}

# Those of the list that began it, with what each must say.
FIRST = {
    "convert @ --label labels.csv": "did you mean --labels labels.csv?",
    "convert @ --dry_run": "give the same flags to the command `plan`",
    "convert --input 'photos/*/*.jpg' --output new": "--input; did you mean --images GLOB?",
    "convert photos labels.csv": "--output labels.csv is a file: give a folder",
    "convert photos labels.csv new more": "unexpected argument 'more': images, labels and",
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
    "convert photos": "--output DIR is missing: give the folder of the dataset",
    "convert images=photos/*.jpg": "'images=photos/*.jpg'; did you mean --images?",
    "convert \u2014images x --output new": "did you mean --images? (a flag begins with two short",
    "convert \u2013images x --output new": "did you mean --images? (a flag begins with two short",
    "convert -images x --output new": "unknown flag -images; did you mean --images?",
    "convert --Images x --output new": "unknown flag --Images; did you mean --images?",
    "convert --images": "--images needs a value, FOLDER|GLOB",
    "convert --images=": "--images: it is empty: give a path",
    "convert --images x --labels ''": "--labels: it is empty: give a path",
    "convert @ --overwrite=true": "convert: --overwrite takes no value",
    "convert @ --no-strict": "--no-strict; leave --strict out",
    "convert @ --no_overwrite": "--no_overwrite; leave --overwrite out",
    "convert @ --no_labels": "did you mean --label_from none?",
    "plan --images x": "plan: --output DIR is missing",
    "verify": "verify: OUT is missing: give the folder of a dataset",
    "show": "show: OUT is missing: give the folder of a dataset",
    "verify out --fast --full": "--full cannot be used with --fast",
    "show out -n 3": "unknown flag -n; did you mean --limit N?",
    "show out --count 3": "unknown flag --count; did you mean --limit N?",
    "export --webdatset new": "unknown flag --webdatset; did you mean --webdataset?",
    "report out --overwrit": "unknown flag --overwrit; see --help",
}

VALUES = {
    "convert @ --compression gz": "--compression 'gz' is not one of none, gzip; did you mean gzip?",
    "convert @ --compression zip": "did you mean gzip?",
    "convert @ --key filename": "did you mean name?",
    "convert @ --label_from folder": "did you mean directory?",
    "convert @ --label_from JSON": "is not one of csv, directory, regex:EXPR, webdataset, records",
    "convert @ --transcode jpg": "did you mean jpeg?",
    "convert @ --color greyscale": "did you mean gray?",
    "convert @ --stratify species": "--stratify 'species' is not label, its only value; see --help",
    "convert @ --check false": "--check 'false' is not one of full, header; see --help",
    "convert @ --dedupe remove": "did you mean drop?",
    "convert @ --progress none": "did you mean off?",
    "convert @ --exif_orientation true": "did you mean apply?",
    "convert @ --files separate": "did you mean per_image?",
    "convert @ --boxes form=yolo": "did you mean center?",
    "convert @ --boxes form=voc": "did you mean corners?",
    "convert @ --boxes form=coco": "did you mean xywh?",
    "convert @ --layout slimm": "did you mean slim?",
    "convert @ --layout YOLO": "did you mean detection?",
    "convert @ --layout my.json": "'my.json' is neither one of slim, tutorial,",
    "convert @ --shard_size 64M": "'64M' is not a size: did you mean 64MB?",
    "convert @ --max_bytes 10k": "'10k' is not a size: did you mean 10KB?",
    "convert @ --shard_size 1Gi": "did you mean 1GiB?",
    "convert @ --resize 224": "did you mean shorter=224, or 224x224 (width x height)?",
    "convert @ --resize 640,480": "did you mean 640x480 (width x height)?",
    "convert @ --resize 224x224x3": "did you mean 224x224 (width x height)?",
    "convert @ --splits train=80,val=20": "did you mean train=80%,val=20%?",
    "convert @ --splits train=0.8 val=0.2": "did you mean train=0.8,validation=0.2?",
    "convert @ --splits validation=0.2": "did you mean validation=0.2,test=0.8?",
    "convert @ --quality 95%": "--quality '95%' is not a whole number",
    "convert @ --seed 1.5": "--seed '1.5' is not a whole number",
}

FILES = {
    "convert @ --output photos": "--output photos holds something else ('cat')",
    "convert --images 'new/**/*' --output new": "there is no folder 'new'",
    "convert --images 'photos/**/*' --output photos": "its files are in --output, or",
    "convert --images 'photos/*' --output new": "it matches folders: try 'photos/*/**/*'",
    "convert --images 'C:\\photos\\*.jpg' --output new": "of Windows: WSL has it as '/mnt/c/p",
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
    "convert @ --layout my.yaml": "no such file: --layout my.yaml",
    "convert @ --config photos": "--config photos is a folder: give a file, such as photos/",
    "verify nothing": "nothing holds no dataset and no TFRecord files: there is no such folder",
    "verify photos": "photos holds no dataset and no TFRecord files: there is no photos/mani",
    "verify out/manifest.json": "it is a file; give its folder, out",
    "convert --images sets --output new": "matches --images 'sets'; did you mean sets/a or sets/b?",
    **{
        f"{command} sets": "sets holds no dataset ... : there is no sets/manifest.json; did "
        "you mean sets/a or sets/b?"
        for command in ("show", "verify", "report", "diff out", "export --dali new")
    },
    "salvage photos --output new": "photos holds no dataset and no TFRecord files: there is no",
    "show no.tfrecord": "no.tfrecord holds no dataset and no TFRecord files: there is no such file",
    "show no.tfrecords/2025": "there is no such folder",
    "salvage out": "salvage: --output is missing: give the folder of the copies",
    "report out/labels.txt": "it is a file; give its folder, out",
    "show out --split val": "there is no --split val; the dataset has train",
    "show out --images labels.csv": "--images labels.csv is a file: give a folder",
}

IMAGES = {
    "convert --output new": "give --images GLOB, or --labels CSV",
    "convert @labels": "--labels labels.csv list the images ... 'cat-0': give --images",
    "convert --labels uvw.csv --output new": "uvw.csv ... --label_key",
    "convert @labels --images 'photos/*/*.gif'": "--images 'photos/*/*.gif'; check the pattern",
    "convert @labels --images 'photos/cat/*.jpg' --images 'photos/dgo*/*.jpg'": (
        "no file matches --images 'photos/dgo"
    ),
    "convert @labels --images 'phtos/*.jpg'": "--images 'phtos/*.jpg'; there is no folder 'phtos'",
    "convert @ b.jpg": "unexpected argument 'b.jpg'; quote globs",
    "convert @labels --images 'nope://x/*.jpg'": "--images 'nope://x/*.jpg'",
}

LABELS = {
    "convert @labels --images photos/nope.jpg": "there is no such file in 'photos'",
    "convert @images --labels tables": "--labels 'tables' ... holds 2 .csv: try 'tables/*.csv'",
    "convert @images --labels yolo": "which holds 1 .txt: try 'yolo/a.txt'",
    "convert @images --labels photos": "'photos'; it is a folder, which holds no *.csv, but 4 .jpg",
    "convert @ --output hdfs://b/o": "--output 'hdfs://b/o' ... pip install 'apache-beam[hadoop]'",
    "convert @images --labels azfs://a/b/l.csv": "pip install 'apache-beam[azure]'",
    "convert @images --labels empty.csv": "empty.csv is empty: give a file with rows to --labels",
    "convert @images --labels header.csv": "header.csv has no row below its header",
    "convert @images --labels '*.xml' --layout detection": "no usable row: dtd.xml:1: it has a doc",
    "convert @ --label_column 3": "no column 3, only 2 ('id', 'label'): give --label_column a",
    "convert @ --label_key label --label_column 2": "and --label_column name the same column",
    "convert @images --labels labels2.csv": "columns may be --label_column ('label', 'category')",
    "convert @images --labels keys2.csv": "several columns may be --label_key ('id', 'name')",
    "convert @images --labels idxy.csv": "tell which column is --label_column ('id', 'x', 'y')",
    "convert @images --labels uvw.csv": "whether its first line is a header ... --label_key N",
    "convert @images --labels cp949.csv": "is not utf-8 at line 2: try --csv_encoding cp949",
    "convert @images --labels tilde.csv": "one column ('id~label') ... give --csv_delimiter '~'",
    "convert @ --csv_delimiter t": "--csv_delimiter 't' cannot separate cells ... or tab",
    "convert @images --csv_delimiter ';'": "--csv_delimiter needs --labels CSV",
    "convert @images --csv_encoding cp949": "--csv_encoding needs --labels CSV",
    "convert @images --key_cells as_is": "--key_cells needs --labels CSV",
    "convert @images --labels old.csv --key_cells as_is --key path": (
        "column 'id' holds '/old/cat/cat-0.jpg'"
    ),
    "convert @ --csv_encoding cp94": "--csv_encoding 'cp94' is not an encoding Python knows",
    "convert @images --labels book.csv": "save it as CSV",
    "convert @images --labels gzip.csv": "is damaged gzip after line 0",
    "convert @images --labels 'part-*.csv'": "has no column 'label'; it has 'id', 'kind'",
    "convert @images --labels wolf.csv": "'wolf-0' ... 'cat-0' ... check --label_key and --key",
    "convert @ --key path": "'cat-0' ... 'cat/cat-0.jpg' (--key path); try --key stem",
    "convert @ --label_kind integer": "(labels.csv:2) is not an integer, nor is another label",
    "convert @ --label_kind integer --class_names names.txt": (
        "--label_kind integer rejects every image ... is not an integer, nor is another label"
    ),
    "convert @images --label_from none --label_kind text": "cannot be used with --label_from none",
    "convert @images --label_from csv": "--label_from csv needs --labels",
    "convert @images --label_key id": "--label_key needs --labels",
    "convert @images --label_from 'regex:('": "--label_from '(' is not a valid regular expression",
    "convert @images --label_from regex:cat": "--label_from 'cat' has no group",
    "convert @images --label_from 'regex:(cat|\udcff)'": "'(cat|\\udcff)' is not valid UTF-8",
    "convert @images --label_from 'regex:(wolf)'": "no label in any of 4 paths, such as",
    "convert @images --label_from regex": "--label_from regex needs --label_from regex:EXPR",
    "convert @images --label_from none --label_regex '(cat)'": (
        "--label_regex cannot be used with another --label_from: give one"
    ),
    "convert @ --label_from 'regex:(cat)'": "--labels cannot be used with --label_from regex:",
}

SPLITS = {
    "convert @ --group_by lable": "no column 'lable' (--group_by) ... did you mean 'label'?",
    "convert @images --label_from none --group_by id": "--group_by needs --labels CSV",
    "convert @ --split_by column:set": "no column 'set' (--split_by); it has 'id', 'label'",
    "convert @images --label_from directory --split_by column:set": (
        "--split_by column:set needs --labels CSV"
    ),
    "convert @images --labels set.csv --split_by column:set": "as '1 a', which cannot be splits",
    "convert @ --split_column label --split_from directory": "be used with another --split_by",
    "convert @ --split_by fold": "did you mean folder or column:fold?",
    "convert @ --split_by dir": "did you mean folder?",
    "convert @ --split_by column": "no column 'split' ... --split_by column:NAME",
    "convert @labels --images 'photos/cat/*.jpg' --split_by folder": (
        "--split_by folder needs a folder for each split ... 'photos/cat' ... 'cat-"
    ),
    "convert @images --label_from directory --split_by folder": (
        "the splits above those of the classes ... 'photos'"
    ),
    "convert @ --split_by folder --group_by id": "cannot be used with --split_by folder",
    "convert @ --stratify label": "--stratify needs --splits NAME=SHARE",
    "convert @images --splits a=.5,b=.5 --stratify label --label_from none": (
        "--stratify label cannot be used with --label_from none: there are no labels"
    ),
    "convert @ --splits a=.5,b=.5 --stratify label --layout name.yaml": (
        "--stratify label needs labels, and there are none: add --label_column"
    ),
    "convert @images --splits a=.5,b=.5 --stratify label --masks 'masks/*.png'": (
        "--stratify label needs labels, and there are none: add --label_column or --label_from"
    ),
    "convert @ --splits a=.5,b=.5 --stratify label --split_by column:label": (
        "--stratify label cannot be used with --split_by column:label: the inputs name the splits"
    ),
    "convert --labels automl.csv --output new --splits a=.5,b=.5 --stratify label": (
        "--stratify label cannot be used with splits from a column: add --split_by hash"
    ),
    "convert @ --shard_by records --files per_image": "cannot be used with --files per_image",
    "convert @ --class_names blank.txt": "--class_names is empty: write one class name per line",
    "convert @ --class_names twice.txt": "--class_names line 3 repeats 'cat' of line 1",
    "convert @ --class_names ff.txt": "ff.txt: it is not UTF-8: save it as UTF-8",
    "convert @ --depth 16 --transcode jpeg": "be used with --transcode jpeg: a JPEG has 8 bits",
    "convert @ --depth 16 --layout pixels.yaml --resize 8x6 --color rgb": (
        "--depth 16 cannot be used with image.pixels of a layout, which has 8 bits"
    ),
    "convert @ --depth 12": "--depth '12' is neither 8 nor 16",
}

OUTPUTS = {
    "convert @ --output gs:///out": "--output 'gs:///out' names no bucket",
    "convert @labels --images gs://": "--images 'gs://' names no bucket",
    "convert @ --model nope://x/m.keras --layout embedding": "installed file system of Beam reads",
    "convert @ --output labels.csv/out": "cannot write to --output labels.csv/out: Not a directory",
    "convert @ --output photos --overwrite": "--output photos holds something else ('cat')",
    "convert @ --output site": "manifest.json is not a manifest ... --output",
    "convert @ --output later": "manifest.json has format version 99",
    "convert @ --compress=gzip": "unknown flag --compress; did you mean --compression gzip?",
    "convert @ --seed": "--seed needs a value, N; see --help",
    "convert @ --splits train=0.5,train=0.5": "--splits ... twice",
    "convert @ --splits a/b=1": "--splits 'a/b=1': 'a/b' is not a name; use a letter, then",
    "convert @ --num_shards 0": "--num_shards '0' is not a whole number above 0; see --help",
    "convert @ --num_shards 100000": "--num_shards: 100000 is more than 99999",
    "convert @ --max_rejected 200%": "--max_rejected '200%' is neither a share such as 0.01 or 1%",
    "convert @ --seed 170141183460469231731687303715884105728": (
        "--seed: 170141183460469231731687303715884105728 takes more"
    ),
}

PIXELS = {
    "convert @ --quality 90": "--quality applies only to re-encoded JPEGs; add --transcode jpeg",
    "convert @ --quality 90 --transcode png": "--quality cannot be used with --transcode png",
    "convert @ --quality 101": "--quality: 101 is more than 100",
    "convert @ --resize 0x5": "--resize '0x5': a side has 1 to 65500 pixels",
    "convert @ --resize 50x50 --max_pixels 2499": "50x50 is more than --max_pixels 2499",
    "convert @ --layout embedding": "--layout embedding needs --model",
    "convert @ --layout embedding --model EfficientNetB0": "give --model_weights FILE",
    "convert @ --layout embedding --model no/such.keras": "cannot read --model no/such.keras",
    "convert @ --layout embedding --model EfficientNetB9 --model_weights ff.txt": "did you mean",
    "convert @ --layout embedding --model ResNet50 --model_weights no": (
        "cannot read --model_weights"
    ),
    "convert @ --layout embedding --model new.keras --model_weights ff.txt": "is for a name",
    "convert @ --model new.keras": "--model has no effect with --layout slim",
    "convert @ --embed_dtype bfloat16": "--embed_dtype has no",
}

CARD = {
    "convert @ --name 'My Pets'": "--name 'My Pets' is not a name: use a-z, 0-9 and _",
    "convert @ --name pets --version 1.2": "--dataset_version '1.2' is not a version",
    "convert @ --dataset_version 1.2.0 --license MIT": "_version needs --name NAME",
    "convert @ --name pets --description ' '": "--description: it is blank",
    "convert @ --name pets --homepage example.org": "'example.org' is not a web address",
    "convert @ --name pets --croissant nowhere.yaml": "no such file: --croissant nowhere.yaml",
    'convert @ --name pets --croissant \'{"name": "x"}\'': "'name' is filled from --name",
}

MISTAKES = FIRST | WORDS | VALUES | FILES | IMAGES | LABELS | SPLITS | OUTPUTS | PIXELS | CARD
MISTAKES |= {f"convert {flags}": says for flags, says in CONVERT.items()}

# Found after a search: the exit code is 1.
NOT_FOUND = {
    "show out --class Cat": "none of 4 records has --class Cat; did you mean --class cat?",
    "show out --class wolf": "none of 4 records has --class wolf; the classes are cat, dog",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Photos, labels, a finished dataset and wrong files."""
    made = tmp_path_factory.mktemp("mistakes")
    write_inputs(made)
    for name, content in WRONG_FILES.items():
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    (made / "current").symlink_to("out")
    for split in ("train", "test"):
        shutil.copytree(made / "photos", made / "split" / split)
    os.mkfifo(made / "pipe.parquet")
    (made / "hf").mkdir()
    for name in ("a.parquet", "hf/train-0.parquet"):
        write_parquet(made / name, {"cat/1.jpg": b"x", "cat/2.jpg": b"y"}, labels=[[1], [2]])
    (made / "cut.parquet").write_bytes((made / "a.parquet").read_bytes()[:-20])
    write_parquet(made / "text.parquet", {}, columns={"image": pa.array(["a.jpg"])})
    with contextlib.chdir(made):
        make_dataset(Path("out"), images="photos/*/*.jpg", labels="labels.csv")
    return made


def type_in(folder: Path, line: str, monkeypatch: pytest.MonkeyPatch) -> Ran:
    """Runs a command line in the folder."""
    monkeypatch.chdir(folder)
    for short, flags in RIGHT.items():
        line = line.replace(short, flags)
    command, *words = shlex.split(line)
    return run(command, *words)


@pytest.fixture(autouse=True)
def _without_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    """Machines differ in what they have installed."""
    for package in ("boto3", "hdfs", "azure.storage.blob"):
        monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr(signal, "alarm", lambda s: signal.setitimer(signal.ITIMER_REAL, s / 10))


@pytest.mark.usefixtures("no_run")
@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_is_answered(line: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = snapshot(folder)
    ran = type_in(folder, line, monkeypatch)
    assert (ran.code, ran.out) == (2, "")
    said = ran.error()
    assert said.startswith(f"{line.split()[0]}: ") and len(said) < 300
    assert [part for part in MISTAKES[line].split(" ... ") if part not in said] == [], said
    assert "?;" not in said and "?:" not in said
    assert snapshot(folder) == before


@pytest.mark.usefixtures("no_run")
@cases(
    "convert @labels --images 'photos/*/*.gif'",
    "convert @images --labels nope.csv",
    "convert @ --num_shardz=3",
    "convert @ --seed 170141183460469231731687303715884105728",
)
def test_plan_refuses_the_same(line: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = type_in(folder, line.replace("convert", "plan"), monkeypatch)
    assert (ran.code, ran.out) == (2, "")
    assert ran.error() == type_in(folder, line, monkeypatch).error().replace("convert", "plan")


def test_a_long_value_is_shown_in_part(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(type_in(folder, f"convert @ --seed {'9' * 5000}", monkeypatch).error()) < 1500


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
