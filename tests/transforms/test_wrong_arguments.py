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


@cases(
    (FindImages, ("photos/*/*.jpg",), {}, r"images is a sequence: write \['photos"),
    (FindImages, ([],), {}, "images is empty"),
    (FindImages, (["photos/*/*.gif"],), {}, r"no file matches 'photos/\*/\*.gif' of images"),
    (FindImages, ([*GLOB, "none/*.jpg"],), {}, "no file matches 'none"),
    (
        FindImages,
        (GLOB,),
        {"label_from": "folders"},
        "label_from 'folders' is not one of .*; did you mean directory",
    ),
    (FindImages, (GLOB,), {"label_from": "none", "labels": "labels.csv"}, "without labels"),
    (FindImages, (GLOB,), {"label_from": "regex:(a)", "labels": "labels.csv"}, "without labels"),
    (FindImages, (GLOB,), {"split_by": "column"}, "split_by column needs labels CSV"),
    (FindImages, (GLOB,), {"labels": "labels.csv", "csv_delimiter": 9}, "'9' cannot separate"),
    (FindImages, (GLOB,), {"labels": ["labels.csv"]}, "labels is a path"),
    (FindImages, (GLOB,), {"labels": "odd.csv"}, "whether its first line is a header"),
    (FindImages, (GLOB,), {"labels": "one.csv"}, r"has one column .*, give csv_delimiter '~'"),
    (
        FindImages,
        (GLOB,),
        {"labels": "labels.csv", "label_column": "lable"},
        r"no column 'lable' \(label_column\)",
    ),
    (FindImages, (GLOB,), {"splits": {"train": "x"}}, "splits 'train=x'"),
    (FindImages, (GLOB,), {"label_from": "records"}, "use ConvertDataset"),
    (FindImages, (GLOB,), {"split_by": "records"}, "use ConvertDataset"),
    (FindImages, (GLOB,), {"masks": ["m/*"]}, "FindImages has no option 'masks'"),
    (FindImages, (GLOB,), {"root": 3}, "root is a path"),
    (LabelImages, (), {"labelled": "no"}, "labelled is True or False"),
    (WriteDataset, (3,), {}, "output is a path"),
    (WriteDataset, ("",), {}, "output is empty"),
    (WriteDataset, (Path("gs://b/o"),), {}, "give it as a str"),
    (WriteDataset, ("out",), {"layout": 3}, "layout is a path"),
    (WriteDataset, ("out",), {"layout": "detection"}, "source box.xmin, which is neither an"),
    (WriteDataset, ("out",), {"layout": "embedding"}, "layout embedding needs model: a Keras"),
    (WriteDataset, ("out",), {"layout": "no.yaml"}, "no such file: layout no.yaml"),
    (WriteDataset, ("out",), {"layout": "slimm"}, "is neither one of .*did you mean slim"),
    (WriteDataset, ("out",), {"labelled": 1}, "labelled is True or False"),
    (WriteDataset, ("out",), {"class_names": "cat"}, r"class_names is a sequence: write \['cat"),
    (WriteDataset, ("out",), {"class_names": ["a", "a"]}, "given twice"),
    (WriteDataset, ("out",), {"num_shards": True}, "num_shards is text or a number, not True"),
    (WriteDataset, ("out",), {"shard_size": 64}, "'64B' is less than 1MB: did you mean 64MB"),
    (WriteDataset, ("out",), {"num_shards": 1, "shard_size": 2_000_000}, "give one of them"),
    (WriteDataset, ("out",), {"resize": 9}, "resize '9' is not a size: did you mean shorter=9"),
    (WriteDataset, ("out",), {"resize": "99x99", "max_pixels": 9}, "more than max_pixels 9"),
    (WriteDataset, ("out",), {"max_pixels": [1]}, "max_pixels is text or a number"),
    (WriteDataset, ("out",), {"model": "a.keras"}, "model has no effect with layout slim"),
    (
        WriteDataset,
        ("out",),
        {"layout": "embedding", "model": "labels.csv", "model_weights": "a.h5"},
        "model_weights is for a name of keras.applications; the file model labels.csv",
    ),
    (
        WriteDataset,
        ("out",),
        {"layout": "embedding", "model": "no/such.keras"},
        "cannot read model no/such.keras: ",
    ),
    (WriteDataset, ("out",), {"seed": None, "images": "a"}, "has no option 'images'"),
    (WriteDataset, ("out",), {"max_rejected": -1}, "max_rejected '-1' is neither"),
    (WriteDataset, ("out",), {"overwrite": "yes"}, "overwrite is True or False"),
    (WriteDataset, ("out",), {"strict": 1}, "strict is True or False"),
    (WriteDataset, ("out",), {"quarantine": "out/left"}, "contain each other"),
    (load, (3, "train"), {}, "output is a path"),
    (load, (LOADED, None), {}, "split is a str"),
    (load, (LOADED, "train"), {"batch_size": 0}, "batch_size is at least 1"),
    (load, (LOADED, "train"), {"image_size": "224"}, "image_size is a number, or a pair"),
    (load, (LOADED, "train"), {"image_size": 0}, "image_size is at least 1"),
    (load, (LOADED, "train"), {"image_size": True}, "image_size is an int"),
    (load, (LOADED, "train"), {"drop_remainder": True}, "drop_remainder is about batches"),
    (load, (LOADED, "train"), {"shuffle_buffer": 9}, "no effect without shuffle=True"),
    (load, (LOADED, "train"), {"shuffle_buffer": 0, "shuffle": True}, "at least 1"),
    (load, (LOADED, "train"), {"image_size": (0, 5)}, r"image_size\[0\] is at least 1"),
    (load, (LOADED, "train"), {"decode": "no"}, "decode is True or False"),
    (load, (LOADED, "train"), {"seed": None}, "seed is an int"),
    (EmbeddingModelHandler, (3,), {}, "model is a path"),
)
@pytest.mark.usefixtures("folder")
def test_wrong_arguments_fail_where_they_are_written(
    step: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any], says: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=says) as raised:
        step(*arguments, **options)
    assert "--" not in str(raised.value)
