"""Wrong arguments of the Python API fail where they are written, with one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline import load
from tests.conftest import draw
from transforms import (
    CopyRejected,
    EmbeddingModelHandler,
    FindImages,
    JoinLabels,
    LabelImages,
    PlanShards,
    ReadInputs,
    WriteDataset,
)
from transforms.labels.shards import ShardPlan


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder to be in: an image, and `labels.csv`."""
    draw(tmp_path / "photos/cat/cat0.jpg", seed=0)
    (tmp_path / "labels.csv").write_text("id,label\ncat0,cat\ndog0,dog")
    monkeypatch.chdir(tmp_path)
    return tmp_path


GLOB = ["photos/*/*.jpg"]
LOADED = "out/chosen"


@pytest.mark.parametrize(
    ("step", "arguments", "options", "says"),
    [
        (FindImages, ("photos/*/*.jpg",), {}, r"images is a sequence: write \['photos"),
        (FindImages, ([],), {}, "images is empty"),
        (FindImages, (["photos/*/*.gif"],), {}, r"no file matches 'photos/\*/\*.gif' of images"),
        (FindImages, ([*GLOB, "none/*.jpg"],), {}, "no file matches 'none"),
        (
            FindImages,
            (GLOB,),
            {"label_from": "folders"},
            "label_from is one of 'directory', 'regex', 'webdataset', 'none'",
        ),
        (FindImages, (GLOB,), {"label_from": "none", "labels": "labels.csv"}, "without labels"),
        (FindImages, (GLOB,), {"label_regex": "(a)", "labels": "labels.csv"}, "without labels"),
        (
            FindImages,
            (GLOB,),
            {"label_regex": "("},
            "label_regex '.' is not a valid regular expression",
        ),
        (FindImages, (GLOB,), {"label_regex": "(a)", "label_from": "none"}, "label_from 'regex'"),
        (FindImages, (GLOB,), {"label_from": "regex"}, "label_regex goes with label_from 'regex'"),
        (FindImages, (GLOB,), {"split_column": "set"}, "split_column is a column of labels"),
        (FindImages, (GLOB,), {"group_by": "who"}, "group_by is a column of labels"),
        (FindImages, (GLOB,), {"split_from": "csv"}, "split_from 'csv' reads a column"),
        (FindImages, (GLOB,), {"split_from": "rows"}, "split_from is one of 'hash'"),
        (
            FindImages,
            (GLOB,),
            {"split_from": "hash", "split_column": "set"},
            "split_column cannot be used with split_from 'hash'",
        ),
        (
            FindImages,
            (GLOB,),
            {"split_from": "directory", "group_by": "who"},
            "group_by cannot be used with split_from 'directory'",
        ),
        (FindImages, (GLOB,), {"label_key": "id"}, "label_key is a column of labels"),
        (
            FindImages,
            (GLOB,),
            {"csv_delimiter": ";"},
            "csv_delimiter is between the cells",
        ),
        (
            FindImages,
            (GLOB,),
            {"labels": "labels.csv", "csv_delimiter": "t"},
            "csv_delimiter 't' cannot separate cells",
        ),
        (FindImages, (GLOB,), {"labels": "labels.csv", "csv_delimiter": 9}, "is one character"),
        (FindImages, (GLOB,), {"labels": ["labels.csv"]}, "labels is a path"),
        (FindImages, (GLOB,), {"key": "id"}, "key is one of 'stem', 'name'"),
        (FindImages, (GLOB,), {"splits": {"train": 1}}, "splits is a str: write 'train=1'"),
        (FindImages, (GLOB,), {"seed": "3"}, "seed is an int, not the str '3'"),
        (FindImages, (GLOB,), {"root": 3}, "root is a path"),
        (LabelImages, (), {"splits": "train"}, "splits 'train': 'train' has no '='"),
        (LabelImages, (), {"splits": {"a": 0.5, "b": 0.5}}, "write 'a=0.5,b=0.5'"),
        (LabelImages, (), {"labelled": "no"}, "labelled is True or False"),
        (LabelImages, (), {"key": "id"}, "key is one of"),
        (LabelImages, (), {"seed": 1.5}, "seed is an int"),
        (WriteDataset, (3,), {}, "output is a path"),
        (WriteDataset, ("",), {}, "output is empty"),
        (WriteDataset, (Path("gs://b/o"),), {}, "give it as a str"),
        (WriteDataset, ("out",), {"layout": 3}, "layout is a path"),
        (WriteDataset, ("out",), {"labelled": 1}, "labelled is True or False"),
        (
            WriteDataset,
            ("out",),
            {"class_names": "cat"},
            r"class_names is a sequence: write \['cat",
        ),
        (WriteDataset, ("out",), {"class_names": ["a", "a"]}, "given twice"),
        (
            WriteDataset,
            ("out",),
            {"dense_labels": True, "label_kind": "text"},
            "dense_labels numbers integers",
        ),
        (WriteDataset, ("out",), {"num_shards": 0}, "num_shards is at least 1"),
        (WriteDataset, ("out",), {"num_shards": "4"}, "num_shards is an int"),
        (WriteDataset, ("out",), {"shard_size": 0}, "shard_size is at least 1"),
        (WriteDataset, ("out",), {"shard_size": "64MB"}, "shard_size is an int"),
        (WriteDataset, ("out",), {"shard_size": 64}, "64 is less than 1MB: did you mean 64000000"),
        (WriteDataset, ("out",), {"num_shards": 1, "shard_size": 9}, "exclude each other"),
        (WriteDataset, ("out",), {"compression": "zip"}, "compression is one of 'none', 'gzip'"),
        (WriteDataset, ("out",), {"resize": "big"}, "resize 'big' is not a size"),
        (WriteDataset, ("out",), {"resize": 9}, "resize is a Resize or None, not the int 9"),
        (WriteDataset, ("out",), {"resize": "99x99", "max_pixels": 9}, "more than max_pixels 9"),
        (WriteDataset, ("out",), {"quality": 9}, "quality applies only to re-encoded JPEGs"),
        (WriteDataset, ("out",), {"quality": "9", "transcode": "jpeg"}, "quality is an int"),
        (WriteDataset, ("out",), {"color": "blue"}, "color is one of 'keep', 'rgb', 'gray'"),
        (WriteDataset, ("out",), {"max_pixels": "1"}, "max_pixels is an int"),
        (WriteDataset, ("out",), {"max_bytes": 0}, "max_bytes is at least 1"),
        (WriteDataset, ("out",), {"model": "a.keras"}, "model has no effect with layout slim"),
        (WriteDataset, ("out",), {"embed_dtype": "float32"}, "embed_dtype has no effect"),
        (
            WriteDataset,
            ("out",),
            {"layout": "embedding", "model": "labels.csv", "model_weights": "a.h5"},
            "model_weights goes with a model of keras.applications",
        ),
        (
            WriteDataset,
            ("out",),
            {"layout": "embedding", "model": "no/such.keras"},
            "cannot read model no/such.keras: ",
        ),
        (
            WriteDataset,
            ("out",),
            {"layout": "embedding", "model": "labels.csv", "embed_dtype": "int8"},
            "embed_dtype is one of 'float32', 'bfloat16'",
        ),
        (WriteDataset, ("out",), {"splits": "train"}, "splits 'train': 'train' has no '='"),
        (WriteDataset, ("out",), {"seed": "3"}, "seed is an int"),
        (WriteDataset, ("out",), {"check": "ful"}, "check is one of 'full', 'header', not 'ful'"),
        (WriteDataset, ("out",), {"max_rejected": 0.1}, "max_rejected is a str.* write '0.1'"),
        (WriteDataset, ("out",), {"max_rejected": "all"}, "max_rejected 'all' is neither"),
        (WriteDataset, ("out",), {"overwrite": "yes"}, "overwrite is True or False"),
        (WriteDataset, ("out",), {"strict": 1}, "strict is True or False"),
        (WriteDataset, ("out",), {"dedupe": "all"}, "dedupe is one of 'off'"),
        (WriteDataset, ("out",), {"files": "all"}, "files is one of 'sharded'"),
        (WriteDataset, ("out",), {"files": "per_image", "num_shards": 2}, "do not go with files"),
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
        (ReadInputs, ("*.jpg", None, [], None), {}, "globs is a sequence"),
        (ReadInputs, ([], None, "a.csv", None), {}, "csv_paths is a sequence"),
        (JoinLabels, (), {"label_from": "folders", "assigner": None}, "label_from is one of"),
        (CopyRejected, ("r", ""), {"rejections": None}, "folder is empty"),
        (PlanShards, (ShardPlan((), 9, 0, False), None), {}, "num_shards is at"),
        (PlanShards, (ShardPlan((), 0, 1, False), None), {}, "shard_size is at"),
        (EmbeddingModelHandler, (3,), {}, "model is a path"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_wrong_arguments_fail_where_they_are_written(
    step: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any], says: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=says) as raised:
        step(*arguments, **options)
    assert "--" not in str(raised.value)
