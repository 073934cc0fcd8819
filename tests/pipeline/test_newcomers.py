"""What newcomers do with photos and the CSV of a competition: each mistake has a good answer.

They type in a folder with `photos/IMG_0000.jpg` to `IMG_0011.jpg`, `train.csv` and wrong files;
`@` stands for what is right. An answer says what is wrong, where, and what to do, in one line; its
parts are separated by ` ... `. Permissions and full disks are in `test_permissions.py`, further
mistakes in `test_mistakes.py`.
"""

import contextlib
import json
import shlex
import shutil
import sys
import zipfile
from pathlib import Path

import pytest

import pipeline.command_line
from tests.conftest import draw
from tests.marks import rest_slow
from tests.pipeline.commands import Ran, run

RIGHT = "photos train.csv new"
IDS = [f"IMG_{at:04d}" for at in range(12)]
CLASSES = ["cat", "dog", "wolf"]
LABELS = dict(zip(IDS, CLASSES * 4, strict=True))


def rows(header: str = "id,label", line: str = "{0},{1}") -> str:
    """A CSV of all photos; a line has key, label, the numbers of both, and one-hot cells."""
    lines = []
    for at, (key, label) in enumerate(LABELS.items()):
        ones = ",".join(str(int(label == each)) for each in CLASSES)
        lines.append(line.format(key, label, at, CLASSES.index(label), ones))
    return "\n".join([header, *lines]) + "\n"


FILES = {
    "train.csv": rows(),
    "onehot.csv": rows("id,cat,dog,wolf", "{0},{4}"),
    "object.json": '{"a": 1}',
    "list.json": json.dumps([{"id": key, "label": label} for key, label in LABELS.items()]),
    "utf16.csv": rows().encode("utf-16"),
    "latin.csv": rows(line="{0},ch\u00e4t").encode("latin-1"),
    "words.csv": rows("foo,bar,baz", "{0},{1},x"),
    "keys.csv": rows("id", "{0}"),
    "lower.csv": rows().replace("IMG", "img"),
    "numbers.csv": rows(line="{2},{1}"),
    "quote.csv": rows().replace(",dog", ',"dog', 1),
    "page.csv": "<!DOCTYPE html>\n<title>Sign in</title>\n",
    "pointer.csv": "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
    "names.txt": "cat\ndog\nwolf\n",
    "data.yaml": "# Photos\npath: .\ntrain: images/train\nnames: [cat, dog, wolf]\n",
    "folds.csv": rows("id,label,fold", "{0},{1},{3}"),
    "two.txt": "cat\ndog\n",
    "docs/read.txt": "",
    "mine/notes.txt": "",
    "nan.csv": rows().replace("dog", "nan", 2),
    "twice.csv": rows() + "IMG_0000,wolf\n",
    # Too many rejected.
    "half.csv": "id,label\nIMG_0000,cat\n",
    "ones.csv": rows(line="{0},{3}").replace(",2", ",3"),
    "ragged.csv": rows(line="{0},{1},x"),
    **{f"empty_files/{key}.jpg": "" for key in IDS},
    **{f"pages/{key}.jpg": "<html>" for key in IDS},
    **{f"phone/{key}.heic": b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" for key in IDS},
}

# Each becomes a dataset of 12 records.
GOOD_FILES = {
    "semicolon.csv": rows("id;label", "{0};{1}"),
    "tab.csv": rows("id\tlabel", "{0}\t{1}"),
    "mark.csv": "\ufeff" + rows(),
    "names.csv": rows(line="{0}.jpg,{1}"),
    "other.csv": rows(line="{0}.PNG,{1}"),
    "kaggle.csv": rows(line="/kaggle/input/photos/{0}.jpg,{1}"),
    "windows.csv": rows(line="C:\\data\\photos\\{0}.jpg,{1}"),
    "lines.json": "".join(json.dumps({"id": key, "label": LABELS[key]}) + "\n" for key in IDS),
    "pandas.csv": rows(",id,label", "{2},{0},{1}"),
    "bare.csv": rows().partition("\n")[2],
}

INPUTS = {
    "photo train.csv new": "--images 'photo'; there is ... did you mean 'photos'?",
    "photos tain.csv new": "--labels 'tain.csv'; there is ... did you mean 'train.csv'?",
    "photos data/train.csv new": "there is no folder 'data'; the working directory is {0}",
    "--images 'photos/*.png' --labels train.csv --output new": (
        "check the pattern; 'photos' holds 12 .jpg: try 'photos/**/*.jpg'"
    ),
    "--images 'photos/*/*.jpg' --labels train.csv --output new": "'photos' holds 12 .jpg: try",
    "photos/IMG_0000.jpg photos/IMG_0001.jpg train.csv new": "--images 'photos/*.jpg'",
    "photos train.csv new --output other": "--output is given twice: words before the flags are",
    "train.csv new": "--images 'train.csv' names labels: give it to --labels",
    "photos photos/IMG_0000.jpg new": "photos/IMG_0000.jpg is an image: give a table of labels",
    "empty train.csv new": "'empty'; it is a folder, which holds no images, and nothing else",
    "docs train.csv new": "'docs'; it is a folder, which holds no images, but 1 .txt",
    "photos new": "cannot tell where labels come from: give --labels CSV, or --label_from",
    "photos train.csv mine": "--output mine holds something else ('notes.txt'): give an empty or",
    "Photos train.csv new": "--images 'Photos'; there is ... did you mean 'photos'?",
    "train.csv photos new": "names labels: give it to --labels, or write images, labels",
    "photos train.csv .": "--output . holds something else ('",
    "docs/read.txt train.csv new": "train.csv names an image: column 'id' holds 'IMG_0000', images",
    "classes new --split_by folder": "splits above those of the classes ... or give --splits NAME=",
    "'photos train.csv new'": "'photos train.csv new' is one word: leave out the quotes around all",
    "@ --keys IMG_0000,IMG_0001": "no such file: --keys IMG_0000,IMG_0001; list keys in a file",
    "@ --split_by folder": "split (train/, test/); below ... at 'IMG_00 ... move them, or give",
    "@ --keys train.csv": "such as 'id,label'; images ... 'IMG_0000' ... write one such key a line",
    "classes train.csv new --label_from directory": "--labels cannot be used with --label_from",
}

TABLES = {
    "photos onehot.csv new": "looks one-hot: in each row, one of 'cat', 'dog', 'wolf' is 1",
    "photos object.json new": "object.json is neither COCO (an object with images and categories)",
    "photos list.json new": "list.json is JSON: write one object per line, or a CSV",
    "photos utf16.csv new": "utf16.csv is not utf-8 at line 1: try --csv_encoding utf-16",
    "photos latin.csv new": "latin.csv is not utf-8 at line 2: try --csv_encoding cp1252",
    "photos words.csv new": "('foo', 'bar', 'baz'): name its columns with --label_key and --label",
    "photos keys.csv new": "cannot tell which column is --label_column ('id'): give",
    "photos lower.csv new": "'img_0000' and 'IMG_0000' differ in upper and lower case",
    "photos numbers.csv new": "'0', images have keys like 'IMG_0000' ... begin with 'IMG_0",
    "photos ragged.csv new": "ragged.csv has no usable row: ragged.csv:2: 3 cells for 2 columns",
    "photos quote.csv new": "quote.csv line 3: a quote is not closed",
    "photos page.csv new": "page.csv is a web page: download the file itself",
    "'C:\\data\\photos' train.csv new": "a path of Windows: WSL has it as '/mnt/c/data/photos'",
    "photos data.yaml new": "data.yaml is YAML, for --class_names: give YOLO's *.txt",
    "photos folds.csv new --split_by column:fold": "'0', which cannot ... write folds as fold_0",
    "photos pointer.csv new": "pointer.csv is a pointer of Git LFS: run git lfs pull",
    "@ --label_key image_id": "no column 'image_id' (--label_key); it has 'id', 'label'",
    "@ --class_names cat,dog": "no such file: --class_names cat,dog; write one class name per line",
    "@ --class_names train.csv": "train.csv is a table: write one class name per line",
}

FLAGS = {
    "@ --labels_column label": "unknown flag --labels_column; did you mean --label_column?",
    "@ --imgsz 64": "unknown flag --imgsz; did you mean --resize WIDTHxHEIGHT?",
    "-i photos -l train.csv -o new": "unknown flag -i; did you mean --images GLOB?",
    "@ --limit 10": "unknown flag --limit; did you mean --keys FILE?",
    "@ --train 0.8 --val 0.2": "unknown flag --train; did you mean --splits NAME=SHARE,...?",
    "@ --regression": "did you mean --layout FILE, in which csv.COLUMN is a number",
    "@ --multilabel": "unknown flag --multilabel; did you mean --label_separator TEXT?",
    "@ --augment": "unknown flag --augment; did you mean a step of your training, after `load`?",
    "@ --epochs 5": "unknown flag --epochs; did you mean a step of your training, after `load`?",
    "@ --num_classes 3": "unknown flag --num_classes; did you mean --class_names FILE?",
    "@ --dedupe": "--dedupe needs a value, off or report or drop",
    "@ --boxes xywh": "--boxes 'xywh' is not like form=xywh,units=pixel,columns=x,y,w,h",
    "@ --boxes units=px": "--boxes 'px' is not one of pixel, normalized; did you mean pixel?",
}

REJECTED = {
    "photos half.csv new": "11 no_label ... IMG_0001.jpg: no row has the key 'IMG_0001'",
    "photos ones.csv new --class_names names.txt --max_rejected 0": (
        "4 unknown_label ... The first is IMG_0002.jpg: the label '3' is not in --class_names"
    ),
    "@ --class_names two.txt --max_rejected 0": "IMG_0002.jpg: the label 'wolf' is not in --class",
    "empty_files train.csv new": "12 empty_file ... The first is IMG_0000.jpg: 0 bytes",
    "pages train.csv new": "12 not_an_image ... The first is IMG_0000.jpg: ",
    "phone train.csv new": "12 not_an_image ... The first is IMG_0000.heic: ",
    "phone train.csv new --transcode auto": "12 no_decoder ... pillow-heif",
}

UNDERSTOOD = {
    **{f"photos {name} new": "12 matched = 12 to convert" for name in GOOD_FILES},
    "photos nan.csv new": "missing labels 2 cells ... 'nan': not classes",
    "photos twice.csv new": "label_conflict: its rows have different labels ... --layout detection",
    "classes train.csv new": "labels from    csv ... --labels is given",
    "classes new": "labels from    directory",
    "splits new": "the folders train, val look like splits and are not used: --split_by",
    "./mixed new": "val in 'mixed/cat' and 2 more look like splits ... move them above these",
    "mixed new --split_by folder --label_from none": "val in 'mixed/cat' and 2 more look like",
    "photos.zip train.csv new": "all below the folder 'photos.zip!' ... 12 matched = 12 to convert",
    "./photos.zip!/photos train.csv new": "12 used + 0 repeated",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The photos and the files, also in folders of classes and of splits."""
    made = tmp_path_factory.mktemp("newcomers")
    for name, content in {**FILES, **GOOD_FILES}.items():
        (made / name).parent.mkdir(exist_ok=True)
        (made / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    (made / "empty").mkdir()
    with zipfile.ZipFile(made / "photos.zip", "w") as archive:
        for at, (key, label) in enumerate(LABELS.items()):
            photo = made / "photos" / f"{key}.jpg"
            draw(photo, seed=at)
            archive.write(photo, f"photos/{key}.jpg")
            split = "train" if at < 6 else "val"
            for other in (f"classes/{label}", f"splits/{split}/{label}", f"mixed/{label}/{split}"):
                (made / other).mkdir(parents=True, exist_ok=True)
                shutil.copy(photo, made / other)
    return made


def type_in(folder: Path, line: str, command: str = "convert") -> Ran:
    """Runs a command in the folder, without what an earlier one wrote."""
    shutil.rmtree(folder / "new", ignore_errors=True)
    with contextlib.chdir(folder):
        return run(command, *shlex.split(line.replace("@", RIGHT)), "--progress=off")


def lacking(answer: str, said: str) -> list[str]:
    """The parts of an answer that were not said."""
    return [part for part in answer.split(" ... ") if part not in said]


@pytest.mark.usefixtures("no_run")
@pytest.mark.parametrize("line", {**INPUTS, **TABLES, **FLAGS})
def test_a_refusal(line: str, folder: Path) -> None:
    ran = type_in(folder, line)
    answer = {**INPUTS, **TABLES, **FLAGS}[line].format(folder)
    assert (ran.code, ran.out, lacking(answer, ran.error())) == (2, "", []), ran.err
    assert len(ran.error().replace(str(folder), "")) < 300
    assert not (folder / "new").exists()


@pytest.mark.parametrize("line", rest_slow(REJECTED, 3))
def test_too_many_are_rejected(line: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pillow_heif", "pi_heif"):
        monkeypatch.setitem(sys.modules, name, None)
    ran = type_in(folder, line)
    assert (ran.code, lacking(REJECTED[line], ran.error())) == (3, []), ran.err
    assert not (folder / "new" / "manifest.json").exists()


@pytest.mark.parametrize("line", rest_slow(reversed(UNDERSTOOD), 5))
def test_what_is_understood(line: str, folder: Path) -> None:
    ran = type_in(folder, line, "plan")
    assert (ran.code, lacking(UNDERSTOOD[line], ran.out)) == (0, []), ran.out + ran.err


def test_two_rows_without_a_label_are_shown(folder: Path) -> None:
    ran = type_in(folder, "photos nan.csv new")
    shown = "such as IMG_0001 (the label is missing in nan.csv:3), IMG_0004 (the label is missing"
    assert ran.code == 0 and shown in ran.out


def test_the_command_is_left_out(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["image-tfrecords", *shlex.split(RIGHT)])
    monkeypatch.setenv("PYTHONSAFEPATH", "1")
    assert pipeline.command_line.main() == 2
    assert "did you mean image-tfrecords convert photos?" in capsys.readouterr().err
