"""Mistakes in splits, outputs and values of flags, for `test_usage_errors.py`."""

from __future__ import annotations

from tests.pipeline.wrong_inputs import Case

HALVES = {"splits": "train=0.5,test=0.5", "stratify": "label"}

WRONG_OPTIONS = {
    # splits
    "group_by_without_the_column": Case(
        ("no column 'lable' (--group_by)", "did you mean 'label'?"), {"group_by": "lable"}
    ),
    "group_by_without_labels": Case(
        ("--group_by needs --labels CSV",),
        {"labels": None, "label_from": "none", "group_by": "id"},
    ),
    "split_column_without_the_column": Case(
        ("no column 'set' (--split_column)", "'id', 'label'"), {"split_column": "set"}
    ),
    "split_column_without_labels": Case(
        ("--split_column needs --labels CSV",),
        {"labels": None, "label_from": "directory", "split_column": "set"},
    ),
    "split_column_that_holds_no_splits": Case(
        ("has values such as '1 a', which cannot be splits", "--split_column"),
        {"split_column": "set"},
        {"labels.csv": b"id,label,set\ncat-0,a,1 a\n"},
    ),
    "split_column_and_folders": Case(
        ("--split_column cannot be used with --split_from directory",),
        {"split_column": "label", "split_from": "directory"},
    ),
    "split_from_csv_without_a_column": Case(
        ("no column 'split'", "--split_column"), {"split_from": "csv"}
    ),
    "split_from_csv_without_labels": Case(
        ("--split_from csv needs --labels CSV",),
        {"labels": None, "label_from": "directory", "split_from": "csv"},
    ),
    "split_from_folders_that_are_not_there": Case(
        ("--split_from directory needs a folder for each split", "'{in}/photos/cat'", "'cat-"),
        {"images": "{in}/photos/cat/*.jpg", "split_from": "directory"},
    ),
    "split_from_folders_that_are_classes": Case(
        ("the splits above those of the classes", "'{in}/photos'"),
        {"labels": None, "label_from": "directory", "split_from": "directory"},
    ),
    "split_from_folders_by_group": Case(
        ("--group_by cannot be used with --split_from directory",),
        {"split_from": "directory", "group_by": "id"},
    ),
    "stratify_one_split": Case(("--stratify needs --splits NAME=SHARE",), {"stratify": "label"}),
    "stratify_without_labels": Case(
        ("--stratify label cannot be used with --label_from none: there are no labels",),
        {**HALVES, "labels": None, "label_from": "none"},
    ),
    "stratify_without_a_label_column": Case(
        (
            "--stratify label needs labels, but no column of --labels {in}/labels.csv",
            "--label_column",
        ),
        {**HALVES, "layout": "{in}/l.yaml"},
        {"l.yaml": b"features: {name: image.path}\n"},
    ),
    "stratify_masks_without_labels": Case(
        ("--stratify label needs labels, but the images have none: add --labels",),
        {**HALVES, "labels": None, "masks": "{in}/photos/*/*.png"},
        {"photos/cat/cat-0.png": b""},
    ),
    "stratify_splits_of_a_column": Case(
        ("--stratify label cannot be used with --split_column: the column names the splits",),
        {**HALVES, "split_column": "label"},
    ),
    "stratify_splits_of_rows_that_list_images": Case(
        ("--stratify label cannot be used with splits from a column: add --split_from hash",),
        {**HALVES, "images": None},
        {"labels.csv": b"TRAIN,photos/cat/cat-0.jpg,cat\n,photos/cat/cat-1.jpg,cat\n"},
    ),
    "equal_shards_of_single_files": Case(
        ("--shard_by records cannot be used with --files per_image",),
        {"shard_by": "records", "files": "per_image"},
    ),
    "unknown_split_source": Case(("--split_from", "'json'"), {"split_from": "json"}),
    "missing_class_names": Case(
        ("no such file: --class_names {in}/nope.txt",), {"class_names": "{in}/nope.txt"}
    ),
    "empty_class_names": Case(
        ("--class_names is empty",), {"class_names": "{in}/names"}, {"names": b"\n \n"}
    ),
    "class_name_twice": Case(
        ("--class_names line 3 repeats 'cat' of line 1",),
        {"class_names": "{in}/names"},
        {"names": b"cat\ndog\ncat\n"},
    ),
    "undecodable_class_names": Case(
        ("cannot read --class_names {in}/names",), {"class_names": "{in}/names"}, {"names": b"\xff"}
    ),
    "deep_jpegs": Case(
        ("--depth 16 cannot be used with --transcode jpeg: a JPEG has 8 bits",),
        {"depth": 16, "transcode": "jpeg"},
    ),
    "deep_pixels_of_a_layout": Case(
        ("--depth 16 cannot be used with image.pixels of a layout, which has 8 bits",),
        {"depth": 16, "layout": "{in}/l.yaml", "resize": "8x6", "color": "rgb"},
        {"l.yaml": b"features: {pixels: image.pixels, label: label.id}\n"},
    ),
    "unknown_depth": Case(("--depth", "'12' is neither 8 nor 16"), {"depth": 12}),
    # output
    "no_bucket": Case(("--output 'gs:///out' names no bucket",), {"output": "gs:///out"}),
    "nothing_but_the_scheme": Case(("--images 'gs://' names no bucket",), {"images": "gs://"}),
    "unknown_scheme_of_model": Case(
        ("--model 'nope://x/m.keras' has a scheme that no installed file system of Beam reads",),
        {"model": "nope://x/m.keras", "layout": "embedding"},
    ),
    "no_output": Case(("--output",), {"output": None}),
    "empty_output": Case(("--output", "empty"), {"output": ""}),
    "output_is_a_file": Case(
        ("--output {in}/labels.csv is a file",), {"output": "{in}/labels.csv"}
    ),
    "output_below_a_file": Case(
        ("cannot write to --output {in}/labels.csv/out: Not a directory",),
        {"output": "{in}/labels.csv/out"},
    ),
    "output_holds_something_else": Case(
        ("--output {in}/photos holds something else ('cat')",), {"output": "{in}/photos"}
    ),
    "overwrite_of_something_else": Case(
        ("--output {in}/photos holds something else ('cat')",),
        {"output": "{in}/photos", "overwrite": True},
    ),
    "manifest_of_something_else": Case(
        ("manifest.json is not a manifest", "--output"),
        {"output": "{in}/site"},
        {"site/manifest.json": b'{"name": "page"}'},
    ),
    "manifest_of_another_version": Case(
        ("manifest.json has format version 99",),
        {"output": "{in}/site"},
        {"site/manifest.json": b'{"format_version": 99}'},
    ),
    # values
    "unknown_flag": Case(
        ("unknown flag --num_shardz", "did you mean --num_shards?"), words=("--num_shardz=3",)
    ),
    "unknown_flag_with_a_space": Case(
        ("unknown flag --lable_key", "did you mean --label_key?"), words=("--lable_key", "id")
    ),
    "abbreviated_flag": Case(("unknown flag --compress",), words=("--compress=gzip",)),
    "flag_without_its_value": Case(("--seed",), words=("--seed",)),
    "splits_that_are_no_shares": Case(("--splits 'train'",), {"splits": "train"}),
    "splits_that_do_not_add_up": Case(
        ("--splits", "add up to 0.9"), {"splits": "train=0.8,test=0.1"}
    ),
    "split_twice": Case(("--splits", "twice"), {"splits": "train=0.5,train=0.5"}),
    "split_with_a_bad_name": Case(("--splits", "'a/b'"), {"splits": "a/b=1"}),
    "no_shards": Case(("--num_shards", "'0'"), {"num_shards": 0}),
    "too_many_shards": Case(("--num_shards", "99999"), {"num_shards": 100000}),
    "shards_that_are_no_number": Case(("--num_shards", "'few'"), {"num_shards": "few"}),
    "shard_size_without_meaning": Case(("--shard_size", "150MB"), {"shard_size": "big"}),
    "shard_size_without_a_unit": Case(
        ("--shard_size", "'64' has no unit: did you mean 64MB?"), {"shard_size": 64}
    ),
    "shard_size_and_num_shards": Case(
        ("--num_shards cannot be used with --shard_size",), {"shard_size": "150MB", "num_shards": 4}
    ),
    "max_bytes_without_a_unit": Case(("--max_bytes", "did you mean 64MB?"), {"max_bytes": 64}),
    "shard_size_of_nothing": Case(("--shard_size", "'0MB'"), {"shard_size": "0MB"}),
    "max_rejected_over_all": Case(("--max_rejected", "'200%'"), {"max_rejected": "200%"}),
    "negative_max_rejected": Case(("--max_rejected", "'-1'"), {"max_rejected": -1}),
    "max_pixels_of_nothing": Case(("--max_pixels", "'0'"), {"max_pixels": 0}),
    "max_bytes_without_meaning": Case(("--max_bytes", "'lots'"), {"max_bytes": "lots"}),
    "seed_that_is_no_number": Case(("--seed", "'lucky'"), {"seed": "lucky"}),
    "seed_that_is_too_large": Case(("--seed",), {"seed": 2**127}),
    "unknown_layout": Case(("--layout", "'slimm'", "slim"), {"layout": "slimm"}),
    "unknown_compression": Case(("--compression", "'zip'"), {"compression": "zip"}),
    "unknown_check": Case(("--check", "'none'"), {"check": "none"}),
    "unknown_key": Case(("--key", "'id'"), {"key": "id"}),
    "unknown_label_source": Case(("--label_from", "'json'"), {"label_from": "json"}),
    "unknown_progress": Case(("--progress", "'loud'"), {"progress": "loud"}),
}
