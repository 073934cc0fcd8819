"""Wrong arguments of the Python API fail where they are written, with one line."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline import load
from tests.conftest import draw
from tests.marks import cases
from transforms import (
    EmbeddingModelHandler,
    FindImages,
    LabelImages,
    WriteDataset,
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder to be in: an image, and `labels.csv`."""
    draw(tmp_path / "photos/cat/cat0.jpg", seed=0)
    (tmp_path / "labels.csv").write_text("id,label\ncat0,cat\ndog0,dog")
    (tmp_path / "odd.csv").write_text("a,b,c\n1,2,3\n")
    (tmp_path / "one.csv").write_text("id~label\ncat0~cat\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


GLOB = ["photos/*/*.jpg"]
LOADED = "out/chosen"
# Options of these steps, and what is said of them.
FIND: list[tuple[dict[str, Any], str]] = [
    ({"label_from": "folders"}, "label_from 'folders' is not one of .*; did you mean directory"),
    ({"label_from": "none", "labels": "labels.csv"}, "without labels"),
    ({"label_from": "regex:(a)", "labels": "labels.csv"}, "without labels"),
    ({"split_by": "column"}, "split_by column needs labels CSV"),
    (
        {"split_from": "hash", "split_column": "set"},
        "split_column cannot be used with another split_by",
    ),
    ({"labels": "labels.csv", "csv_delimiter": 9}, "'9' cannot separate"),
    ({"labels": ["labels.csv"]}, "labels is a path"),
    ({"labels": "odd.csv"}, "whether its first line is a header"),
    ({"labels": "one.csv"}, r"has one column .*, give csv_delimiter '~'"),
    ({"labels": "labels.csv", "label_column": "lable"}, r"no column 'lable' \(label_column\)"),
    ({"splits": {"train": "x"}}, "splits 'train=x'"),
    ({"label_from": "records"}, "use ConvertDataset"),
    ({"split_by": "records"}, "use ConvertDataset"),
    ({"masks": ["m/*"]}, "FindImages has no option 'masks'"),
    ({"root": 3}, "root is a path"),
]
WRITE: list[tuple[dict[str, Any], str]] = [
    ({"layout": 3}, "layout is a path"),
    ({"layout": "detection"}, "source box.xmin, which is neither an"),
    ({"layout": "embedding"}, "layout embedding needs model: a Keras"),
    ({"layout": "no.yaml"}, "no such file: layout no.yaml"),
    ({"layout": "slimm"}, "is neither one of .*did you mean slim"),
    ({"labelled": 1}, "labelled is True or False"),
    ({"class_names": "cat"}, r"class_names is a sequence: write \['cat"),
    ({"class_names": ["a", "a"]}, "given twice"),
    ({"num_shards": True}, "num_shards is text or a number, not True"),
    ({"shard_size": 64}, "'64B' is less than 1MB: did you mean 64MB"),
    ({"num_shards": 1, "shard_size": 2_000_000}, "give one of them"),
    ({"resize": 9}, "resize '9' is not a size: did you mean shorter=9"),
    ({"resize": "99x99", "max_pixels": 9}, "more than max_pixels 9"),
    ({"max_pixels": [1]}, "max_pixels is text or a number"),
    ({"splits": 5}, "splits '5': '5' has no name"),
    ({"model": "a.keras"}, "model has no effect with layout slim"),
    (
        {"layout": "embedding", "model": "labels.csv", "model_weights": "a.h5"},
        "model_weights is for a name of keras.applications; the file model labels.csv",
    ),
    ({"layout": "embedding", "model": "no/such.keras"}, "cannot read model no/such.keras: "),
    ({"seed": None, "images": "a"}, "has no option 'images'"),
    ({"max_rejected": -1}, "max_rejected '-1' is neither"),
    ({"overwrite": "yes"}, "overwrite is True or False"),
    ({"strict": 1}, "strict is True or False"),
    ({"quarantine": "out/left"}, "contain each other"),
]
LOAD: list[tuple[dict[str, Any], str]] = [
    ({"batch_size": 0}, "batch_size is at least 1"),
    ({"image_size": "224"}, "image_size is a number, or a pair"),
    ({"image_size": 0}, "image_size is at least 1"),
    ({"image_size": True}, "image_size is an int"),
    ({"drop_remainder": True}, "drop_remainder is about batches"),
    ({"shuffle_buffer": 9}, "no effect without shuffle=True"),
    ({"shuffle_buffer": 0, "shuffle": True}, "at least 1"),
    ({"image_size": (0, 5)}, r"image_size\[0\] is at least 1"),
    ({"decode": "no"}, "decode is True or False"),
    ({"seed": None}, "seed is an int"),
]


@cases(
    (FindImages, ("photos/*/*.jpg",), {}, r"images is a sequence: write \['photos"),
    (FindImages, ([],), {}, "images is empty"),
    (FindImages, (["photos/*/*.gif"],), {}, r"no file matches 'photos/\*/\*.gif' of images"),
    (FindImages, ([*GLOB, "none/*.jpg"],), {}, "no file matches 'none"),
    (LabelImages, (), {"labelled": "no"}, "labelled is True or False"),
    (WriteDataset, (3,), {}, "output is a path"),
    (WriteDataset, ("",), {}, "output is empty"),
    (WriteDataset, (Path("gs://b/o"),), {}, "give it as a str"),
    (load, (3, "train"), {}, "output is a path"),
    (load, (LOADED, None), {}, "split is a str"),
    (EmbeddingModelHandler, (3,), {}, "model is a path"),
    *((FindImages, (GLOB,), *row) for row in FIND),
    *((WriteDataset, ("out",), *row) for row in WRITE),
    *((load, (LOADED, "train"), *row) for row in LOAD),
)
@pytest.mark.usefixtures("folder")
def test_wrong_arguments_fail_where_they_are_written(
    step: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any], says: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=says) as raised:
        step(*arguments, **options)
    assert "--" not in str(raised.value)
