"""Wrong flags and inputs: exit code 2 and one line that names them, before anything is done."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.marks import rest_slow
from tests.pipeline.commands import convert, plan, run_process, snapshot
from tests.pipeline.right_command import check_usage, right_flags


class Case(NamedTuple):
    """One mistake.

    Attributes:
        says: parts of the line that must come out.
        flags: what differs from a command that is right; `{in}` stands for the folder of it all.
        files: what differs from the files that command needs, by name.
        words: more words of the command line.
    """

    says: tuple[str, ...]
    flags: Mapping[str, Any] = {}
    files: Mapping[str, bytes] = {}
    words: tuple[str, ...] = ()


HALVES = {"splits": "train=0.5,test=0.5", "stratify": "label"}

CASES = {
    # images
    "no_images": Case(("give --images GLOB", "--labels CSV"), {"images": None, "labels": None}),
    "rows_that_list_no_image": Case(
        ("--labels {in}/labels.csv list the images", "'{in}/cat-0'", "give --images"),
        {"images": None},
    ),
    "listing_without_an_image_column": Case(
        ("labels.csv", "--label_key"),
        {"images": None},
        {"labels.csv": b"u,v\nw,x\n"},
    ),
    "empty_glob": Case(
        ("no file matches --images", "*.gif", "check the pattern"),
        {"images": "{in}/photos/*/*.gif"},
    ),
    "one_glob_of_two_is_empty": Case(
        ("no file matches --images", "dgo"),
        {"images": ["{in}/photos/cat/*.jpg", "{in}/photos/dgo*/*.jpg"]},
    ),
    "folder_instead_of_glob": Case(
        ("--images", "it is a folder: try '{in}/photos/**/*.jpg'"), {"images": "{in}/photos/"}
    ),
    "missing_folder": Case(
        ("--images", "there is no folder '{in}/phtos'"), {"images": "{in}/phtos/*.jpg"}
    ),
    "unquoted_glob": Case(("unexpected argument 'b.jpg'", "quote globs"), words=("b.jpg",)),
    "unknown_scheme": Case(("--images 'nope://x/*.jpg'",), {"images": "nope://x/*.jpg"}),
    # labels
    "no_label_source": Case(
        ("--labels", "--label_from"), {"labels": None, "images": "{in}/photos/cat/*.jpg"}
    ),
    "missing_csv": Case(
        ("no file matches --labels '{in}/nope.csv'", "there is no such file in '{in}'"),
        {"labels": "{in}/nope.csv"},
    ),
    "missing_image": Case(
        ("there is no such file in '{in}/photos'",), {"images": "{in}/photos/nope.jpg"}
    ),
    "folder_of_one_csv": Case(
        ("--labels", "it is a folder: try '{in}/labels.csv'"), {"labels": "{in}"}
    ),
    "folder_of_several_csvs": Case(
        ("--labels", "it is a folder: try '{in}/*.csv'"),
        {"labels": "{in}/"},
        {"more.csv": b"id,label\n"},
    ),
    "folder_without_a_csv": Case(
        ("--labels", "it is a folder: give a file; it holds no *.csv"), {"labels": "{in}/photos"}
    ),
    "home_in_quotes": Case(
        ("--images '~/photos/*.jpg': the shell does not expand ~ in quotes; write '/",),
        {"images": "~/photos/*.jpg"},
    ),
    "output_in_a_quoted_home": Case(("--output '~/out'", "write '/"), {"output": "~/out"}),
    "s3_without_the_extra": Case(
        ("--images 's3://b/*.jpg' needs an extra of Beam: pip install 'apache-beam[aws]'",),
        {"images": "s3://b/*.jpg"},
    ),
    "hdfs_without_the_extra": Case(
        ("--output 'hdfs://b/o'", "pip install 'apache-beam[hadoop]'"), {"output": "hdfs://b/o"}
    ),
    "azure_without_the_extra": Case(
        ("--labels 'azfs://a/b/l.csv'", "pip install 'apache-beam[azure]'"),
        {"labels": "azfs://a/b/l.csv"},
    ),
    "switch_with_a_value": Case(
        ("unexpected argument 'yes': --overwrite takes no value",), words=("--overwrite", "yes")
    ),
    "shares_without_names": Case(
        ("convert: --splits '0.8,0.2': '0.8' has no name; write it like train=0.8",),
        {"splits": "0.8,0.2"},
    ),
    "empty_csv": Case(("labels.csv", "empty"), files={"labels.csv": b""}),
    "csv_with_a_header_only": Case(
        ("labels.csv", "no usable row"), files={"labels.csv": b"id,label\n"}
    ),
    "csv_without_the_column": Case(
        ("no column 'lable' (--label_column)", "'id', 'label'", "did you mean 'label'?"),
        {"label_column": "lable"},
    ),
    "csv_without_the_key_column": Case(
        ("no column 'photo' (--label_key)",), {"label_key": "photo"}
    ),
    "csv_with_fewer_columns": Case(("no column 3",), {"label_column": 3}),
    "one_column_twice": Case(
        ("--label_key", "--label_column", "the same column"),
        {"label_key": "label", "label_column": 2},
    ),
    "ambiguous_label_column": Case(
        ("several columns may be --label_column ('label', 'category')",),
        files={"labels.csv": b"id,label,category\ncat-0,a,b\n"},
    ),
    "ambiguous_key_column": Case(
        ("several columns may be --label_key ('id', 'name')",),
        files={"labels.csv": b"id,name,label\ncat-0,cat-0,a\n"},
    ),
    "unknown_columns": Case(
        ("cannot tell which column is --label_column ('id', 'x', 'y')",),
        files={"labels.csv": b"id,x,y\ncat-0,a,b\n"},
    ),
    "no_header_to_be_seen": Case(
        ("cannot tell whether its first line is a header", "--label_key N"),
        files={"labels.csv": b"u,v\nw,x\n"},
    ),
    "undecodable_csv": Case(
        ("labels.csv is not utf-8 at line 2", "--csv_encoding cp949"),
        files={"labels.csv": "id,label\ncat-0,고양이\n".encode("cp949")},
    ),
    "one_column": Case(
        ("labels.csv has one column ('id~label')", "give --csv_delimiter '~'"),
        files={"labels.csv": b"id~label\ncat-0~a\n"},
    ),
    "a_letter_as_separator": Case(
        ("--csv_delimiter 't' cannot separate cells", "or tab"), {"csv_delimiter": "t"}
    ),
    "a_separator_without_a_csv": Case(
        ("--csv_delimiter needs --labels CSV",), {"csv_delimiter": ";", "labels": None}
    ),
    "an_encoding_without_a_csv": Case(
        ("--csv_encoding needs --labels CSV",), {"csv_encoding": "cp949", "labels": None}
    ),
    "cells_that_stay_without_a_csv": Case(
        ("--key_cells needs --labels CSV",), {"key_cells": "as_is", "labels": None}
    ),
    "cells_that_stay_below_another_folder": Case(
        ("column 'id' holds '/old/cat/cat-0.jpg'",),
        {"key_cells": "as_is", "key": "path"},
        files={"labels.csv": b"id,label\n/old/cat/cat-0.jpg,a\n"},
    ),
    "unknown_encoding": Case(("--csv_encoding 'cp94'",), {"csv_encoding": "cp94"}),
    "workbook": Case(("save it as CSV",), files={"labels.csv": b"PK\3\4\x14\0"}),
    "damaged_gzip": Case(("damaged gzip",), files={"labels.csv": b"\x1f\x8b\x08\0\0\0"}),
    "second_csv_without_the_column": Case(
        ("part-2.csv has no column 'label'; it has 'id', 'kind'",),
        {"labels": "{in}/part-*.csv"},
        {"part-1.csv": b"id,label\ncat-0,a\n", "part-2.csv": b"id,kind\ncat-1,b\n"},
    ),
    "labels_that_match_nothing": Case(
        ("'wolf-0'", "'cat-0'", "--key stem", "check --label_key and --key"),
        files={"labels.csv": b"id,label\nwolf-0,a\n"},
    ),
    "labels_that_another_key_would_match": Case(
        ("'cat-0'", "'cat/cat-0.jpg'", "--key path", "try --key stem"), {"key": "path"}
    ),
    "labels_with_folders_as_labels": Case(
        ("--labels cannot be used with --label_from directory",), {"label_from": "directory"}
    ),
    "label_kind_without_labels": Case(
        ("--label_kind text cannot be used with --label_from none",),
        {"labels": None, "label_from": "none", "label_kind": "text"},
    ),
    "dense_ids_of_text": Case(
        ("--dense_labels cannot be used with", "--label_kind text"),
        {"label_kind": "text", "dense_labels": True},
    ),
    "label_from_csv_without_labels": Case(
        ("--label_from csv needs --labels",), {"label_from": "csv", "labels": None}
    ),
    "label_key_without_labels": Case(
        ("--label_key needs --labels",), {"label_key": "id", "labels": None}
    ),
    "label_regex_that_is_none": Case(
        ("--label_regex", "'(' is not a valid regular expression"),
        {"labels": None, "label_regex": "("},
    ),
    "label_regex_without_a_group": Case(
        ("--label_regex", "'cat' has no group"), {"labels": None, "label_regex": "cat"}
    ),
    "label_regex_that_is_not_utf8": Case(
        ("--label_regex", "not valid UTF-8"), {"labels": None, "label_regex": "(cat|\udcff)"}
    ),
    "label_regex_that_finds_nothing": Case(
        ("--label_regex '(wolf)'", "in any of 4 paths, such as ", "'{in}/photos'"),
        {"labels": None, "label_regex": "(wolf)"},
    ),
    "label_from_regex_without_it": Case(
        ("--label_from regex needs --label_regex",), {"labels": None, "label_from": "regex"}
    ),
    "label_regex_and_another_source": Case(
        ("--label_regex cannot be used with --label_from none",),
        {"labels": None, "label_from": "none", "label_regex": "(cat)"},
    ),
    "label_regex_and_labels": Case(
        ("--label_regex cannot be used with --labels",), {"label_regex": "(cat)"}
    ),
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
        ("cannot read --model nope://x/m.keras",),
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


def filled(text: Any, folder: Path) -> Any:
    """`text` with the folder in its place."""
    if isinstance(text, list):
        return [filled(each, folder) for each in text]
    return text.replace("{in}", str(folder)) if isinstance(text, str) else text


@pytest.fixture(autouse=True)
def _without_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    """Machines differ in what they have installed."""
    for package in ("boto3", "hdfs", "azure.storage.blob"):
        monkeypatch.setitem(sys.modules, package, None)


@pytest.mark.usefixtures("no_run")
@pytest.mark.parametrize("name", CASES)
def test_a_mistake_is_one_line_before_any_work(name: str, right_inputs: Path) -> None:
    case = CASES[name]
    for file, content in case.files.items():
        (right_inputs / file).parent.mkdir(exist_ok=True)
        (right_inputs / file).write_bytes(content)
    flags = {key: filled(value, right_inputs) for key, value in case.flags.items()}
    before = snapshot(right_inputs)
    ran = convert(*case.words, **{**right_flags(right_inputs), **flags})
    assert snapshot(right_inputs) == before
    check_usage(ran, *(filled(part, right_inputs) for part in case.says))


@pytest.mark.usefixtures("no_run")
@pytest.mark.parametrize(
    "name", ["empty_glob", "missing_csv", "unknown_flag", "seed_that_is_too_large"]
)
def test_plan_refuses_the_same(name: str, right_inputs: Path) -> None:
    case = CASES[name]
    flags = {key: filled(value, right_inputs) for key, value in case.flags.items()}
    ran = plan(*case.words, **{**right_flags(right_inputs), **flags})
    assert (ran.code, ran.out) == (2, "")
    assert all(filled(part, right_inputs) in ran.error() for part in case.says)


@pytest.mark.parametrize("name", rest_slow(["missing_folder", "unknown_flag", "output_is_a_file"]))
def test_a_process_ends_with_the_code_and_the_line(name: str, right_inputs: Path) -> None:
    case = CASES[name]
    flags = {key: filled(value, right_inputs) for key, value in case.flags.items()}
    ran = run_process("pipeline.convert", *case.words, **{**right_flags(right_inputs), **flags})
    check_usage(ran, *(filled(part, right_inputs) for part in case.says))
