"""Mistakes in images and label files, for `test_usage_errors.py`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


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


WRONG_INPUTS = {
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
    "integers_that_are_text": Case(
        ("--label_kind integer rejects every image", "is not an integer, nor is another label"),
        {"label_kind": "integer"},
    ),
    "integers_that_are_text_with_names": Case(
        ("--label_kind integer rejects every image", "is not an integer, nor is another label"),
        {"label_kind": "integer", "class_names": "{in}/names.txt"},
        {"names.txt": b"cat\ndog\n"},
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
}
