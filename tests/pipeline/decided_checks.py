"""Rows of the table of `test_decided.py` about what is left out, warned about, and refused."""

from collections.abc import Mapping

from tests.pipeline.decided_table import Row, row

CHECKS = [
    row(
        "a CSV between the images",
        "p/1.jpg p/2.jpg",
        {"p/labels.csv": "id,label\n1,cat\n2,dog\n"},
        "--images 'p/*' --labels p/labels.csv",
        "left out p/labels.csv --images matches it, and another flag names it",
        "train 1.jpg 0 cat | train 2.jpg 1 dog",
    ),
    row(
        "names of classes and the output below one glob",
        "cat/1.jpg dog/2.jpg",
        {"names.txt": "dog\ncat\n"},
        "--images '**' --class_names names.txt --label_from directory",
        """
        labels from directory given [--label_from]
        root . the folder that all of --images share [--root]
        left out names.txt --images matches it, and another flag names it
        left out out/ --images matches files of --output
        labels text, 2 classes the lines of the file [--class_names]
        class ids 0 to 1 count the lines; labels are names or these numbers [--class_names]
        """,
        "train cat/1.jpg 1 cat | train dog/2.jpg 0 dog",
    ),
    row(
        "one group and two splits",
        "p/1.jpg p/2.jpg",
        {"a.csv": "id,label,who\n1,cat,x\n2,dog,x\n"},
        "--images 'p/*' --labels a.csv --label_column label --group_by who --splits "
        "train=0.9999,val=0.0001",
        """
        label column 'label' given [--label_column]
        splits from hash of column 'who' shares train=0.9999, val=0.0001 [--splits]
        """,
        "train 1.jpg 0 cat | train 2.jpg 1 dog",
        warnings="the split 'val' is empty, of 2 images; --group_by who keeps groups whole: change "
        "--splits or --seed, or add data\nthe split 'train' has only 2 of 2 images; "
        "--group_by who keeps groups whole: fewer than 10 are too few to measure anything",
    ),
    row(
        "folders of splits below another folder",
        "x/train/cat/1.jpg x/test/dog/2.jpg 1/cat/3.jpg",
        {},
        "--images '**/*.jpg'",
        """
        root . the folder that all of --images share [--root]
        labels text, 2 classes 'cat' is not an integer [--label_kind]
        """,
        "train 1/cat/3.jpg 0 cat | train x/test/dog/2.jpg 1 dog | train x/train/cat/1.jpg 0 cat",
        warnings="the folders test, train in 'x' look like splits and are not used: --images x "
        "--split_by folder uses them, --split_by hash confirms that they are not splits",
    ),
]


def refused(name: str, images: str, csvs: Mapping[str, str], flags: str, why: str) -> Row:
    return Row(name, images, csvs, flags, "", "", refused=why)


FIVE = "p/a.jpg p/b.jpg p/c.jpg p/d.jpg p/e.jpg"
FOLDERS = "d/train/cat/1.jpg d/test/dog/2.jpg"
REFUSED = [
    refused(
        "integers and one typing error",
        FIVE,
        {"a.csv": "id,label\na,7\nb,8\nc,9\nd,10\ne,1O\n"},
        "--images 'p/*.jpg' --labels a.csv",
        "4 of 5 labels are integers, but '1O' (a.csv:6) is not: correct or empty these "
        "cells, or give --label_kind text (every label is the name of a class) or "
        "--label_kind integer (rejects images with other labels)",
    ),
    refused(
        "dense ids of text",
        FIVE,
        {},
        "--images 'p/*.jpg' --label_from directory --label_kind text --dense_labels",
        "--dense_labels cannot be used with --label_kind text: its class ids have no gaps",
    ),
    refused(
        "dense ids of given names",
        FIVE,
        {"names.txt": "cat\n7\n"},
        "--images 'p/*.jpg' --label_from directory --class_names names.txt --dense_labels",
        "--dense_labels is for integer labels; --class_names names.txt numbers its lines "
        "from 0 already: leave one out",
    ),
    refused(
        "names of classes without labels",
        FIVE,
        {"names.txt": "cat\n"},
        "--images 'p/*.jpg' --label_from none --class_names names.txt",
        "--class_names cannot be used with --label_from none: there are no labels",
    ),
    refused(
        "shares, and a column that decides every split",
        "p/1.jpg p/2.jpg",
        {"a.csv": "image_uri,label,split\np/1.jpg,a,train\np/2.jpg,b,TEST\n"},
        "--labels a.csv --splits a=0.5,b=0.5",
        "--splits cannot be used with the column 'split', which decides the split of every "
        "row: leave out --splits, or ignore it with --split_by hash",
    ),
    refused(
        "shares, and folders that decide every split",
        FOLDERS,
        {},
        "--images 'd/*/*/*.jpg' --split_by folder --splits a=0.5,b=0.5",
        "--splits cannot be used with --split_by folder: the folders decide the split "
        "of every image; leave one of them out",
    ),
    refused(
        "unused folders of splits with --strict",
        FOLDERS,
        {},
        "--images 'd/*/*/*.jpg' --strict",
        "--strict: the folders test, train look like splits and are not used: --split_by "
        "folder uses them, --split_by hash confirms that they are not splits; nothing "
        "published",
    ),
    refused(
        "a root below one of two globs",
        "y/2024/1.jpg y/2025/2.jpg",
        {},
        "--images 'y/2024/*' --images 'y/2025/*' --root y/2024 --label_from none",
        "--root y/2024 does not contain all files of --images 'y/2025/*': give a folder "
        "above them, such as 'y'",
    ),
    refused(
        "labels of a CSV and of folders",
        "p/cat/1.jpg p/dog/2.jpg",
        {"a.csv": "id,label\n1,cat\n2,dog\n"},
        "--images 'p/*/*.jpg' --labels a.csv --label_from directory",
        "--labels cannot be used with --label_from directory",
    ),
]
