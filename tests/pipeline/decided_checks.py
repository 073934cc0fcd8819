"""Rows of the table of `test_decided.py` about what is left out, warned about, and refused."""

from __future__ import annotations

from tests.pipeline.decided_table import Row

CHECKS: list[Row] = [
    Row(
        "a CSV between the images",
        images="in/1.jpg in/2.jpg",
        csvs={"in/labels.csv": "id,label\n1,cat\n2,dog\n"},
        flags="--images 'in/*' --labels in/labels.csv",
        decided="""
            labels from    csv              --labels is given [--label_from]
            key column     'id'             a usual name for the key [--label_key]
            label column   'label'          a usual name for the label [--label_column]
            key            stem             default with --labels and --images [--key]
            splits from    hash of the key  shares train=1 [--splits]
            root           in               the folder that all of --images share [--root]
            left out       in/labels.csv    --images matches it, and another flag names it
            labels         text, 2 classes  'cat' is not an integer [--label_kind]
            class ids      0 to 1           count the sorted labels [--class_names]
        """,
        records="""
            train 1.jpg 0 cat
            train 2.jpg 1 dog
        """,
    ),
    Row(
        "names of classes and the output below one glob",
        images="cat/1.jpg dog/2.jpg",
        csvs={"names.txt": "dog\ncat\n"},
        flags="--images '**' --class_names names.txt --label_from directory",
        decided="""
            labels from    directory        given [--label_from]
            key            path             default without --labels [--key]
            splits from    hash of the key  shares train=1 [--splits]
            root           .                the folder that all of --images share [--root]
            left out       names.txt        --images matches it, and another flag names it
            left out       out/             --images matches files of --output
            labels         text, 2 classes  the lines of the file [--class_names]
            class ids      0 to 1           count the lines; labels are names or these numbers \
                                            [--class_names]
        """,
        records="""
            train cat/1.jpg 1 cat
            train dog/2.jpg 0 dog
        """,
    ),
    Row(
        "two globs, paths as keys, dense ids of integers with gaps",
        images="y/2024/cat/1.jpg y/2025/cat/1.jpg",
        csvs={"a.csv": "id,label\n2024/cat/1.jpg,40\n2025/cat/1.jpg,7\n"},
        flags="--images 'y/2024/*/*' --images 'y/2025/*/*' --root y --labels a.csv --key path"
        " --dense_labels",
        decided="""
            labels from    csv              --labels is given [--label_from]
            key column     'id'             a usual name for the key [--label_key]
            label column   'label'          a usual name for the label [--label_column]
            key            path             given [--key]
            splits from    hash of the key  shares train=1 [--splits]
            root           y                given [--root]
            labels         integers, 2 classes  all 2 labels are integers [--label_kind]
            class ids      0 to 1           count the integers in their order [--dense_labels]
        """,
        records="""
            train 2024/cat/1.jpg 1 40
            train 2025/cat/1.jpg 0 7
        """,
    ),
    Row(
        "one group and two splits",
        images="in/1.jpg in/2.jpg",
        csvs={"a.csv": "id,label,who\n1,cat,x\n2,dog,x\n"},
        flags="--images 'in/*' --labels a.csv --label_column label --group_by who"
        " --splits train=0.9999,val=0.0001",
        decided="""
            labels from    csv              --labels is given [--label_from]
            key column     'id'             a usual name for the key [--label_key]
            label column   'label'          given [--label_column]
            key            stem             default with --labels and --images [--key]
            splits from    hash of column 'who'  shares train=0.9999, val=0.0001 [--splits]
            root           in               the folder that all of --images share [--root]
            labels         text, 2 classes  'cat' is not an integer [--label_kind]
            class ids      0 to 1           count the sorted labels [--class_names]
        """,
        records="""
            train 1.jpg 0 cat
            train 2.jpg 1 dog
        """,
        warnings="""
            the split 'val' is empty, of 2 images; --group_by who keeps groups whole: \
                change --splits or --seed, or add data
            the split 'train' has only 2 of 2 images; --group_by who keeps groups whole: \
                fewer than 10 are too few to measure anything
        """,
    ),
    Row(
        "folders of splits that no flag uses",
        images="p/train/cat/1.jpg p/test/dog/2.jpg",
        csvs={},
        flags="--images 'p/*/*/*.jpg'",
        decided="""
            labels from    directory        the images are in several folders [--label_from]
            key            path             default without --labels [--key]
            splits from    hash of the key  shares train=1 [--splits]
            root           p                the folder that all of --images share [--root]
            labels         text, 2 classes  'dog' is not an integer [--label_kind]
            class ids      0 to 1           count the sorted labels [--class_names]
        """,
        records="""
            train test/dog/2.jpg 1 dog
            train train/cat/1.jpg 0 cat
        """,
        warnings="""
            the folders test, train look like splits and are not used: --split_from directory \
                uses them, --split_from hash confirms that they are not splits
        """,
    ),
]


def _refused(name: str, images: str, csvs: dict[str, str], flags: str, why: str) -> Row:
    return Row(name, images, csvs, flags, "", "", refused=why)


_FIVE = "p/a.jpg p/b.jpg p/c.jpg p/d.jpg p/e.jpg"
_FOLDERS = "d/train/cat/1.jpg d/test/dog/2.jpg"

REFUSED: list[Row] = [
    _refused(
        "integers and one typing error",
        _FIVE,
        {"a.csv": "id,label\na,7\nb,8\nc,9\nd,10\ne,1O\n"},
        "--images 'p/*.jpg' --labels a.csv",
        """
            4 of 5 labels are integers, but '1O' (a.csv:6) is not: correct or empty these cells, \
            or give --label_kind text (every label is the name of a class) or --label_kind integer \
            (rejects images with other labels)
        """,
    ),
    _refused(
        "dense ids of text",
        _FIVE,
        {},
        "--images 'p/*.jpg' --label_from directory --label_kind text --dense_labels",
        """
            --dense_labels cannot be used with --label_kind text: its class ids have no gaps
        """,
    ),
    _refused(
        "dense ids of given names",
        _FIVE,
        {"names.txt": "cat\n7\n"},
        "--images 'p/*.jpg' --label_from directory --class_names names.txt --dense_labels",
        """
            --dense_labels is for integer labels; --class_names names.txt numbers its lines from \
            0 already: leave one out
        """,
    ),
    _refused(
        "names of classes without labels",
        _FIVE,
        {"names.txt": "cat\n"},
        "--images 'p/*.jpg' --label_from none --class_names names.txt",
        """
            --class_names cannot be used with --label_from none: there are no labels
        """,
    ),
    _refused(
        "shares, and a column that decides every split",
        "p/1.jpg p/2.jpg",
        {"a.csv": "image_uri,label,split\np/1.jpg,a,train\np/2.jpg,b,TEST\n"},
        "--labels a.csv --splits a=0.5,b=0.5",
        """
            --splits cannot be used with the column 'split', which decides the split of every row: \
            leave out --splits, or add --split_from hash to ignore the column
        """,
    ),
    _refused(
        "shares, and folders that decide every split",
        _FOLDERS,
        {},
        "--images 'd/*/*/*.jpg' --split_from directory --splits a=0.5,b=0.5",
        """
            --splits cannot be used with --split_from directory: the folders decide the split of \
            every image; leave one of them out
        """,
    ),
    _refused(
        "unused folders of splits with --strict",
        _FOLDERS,
        {},
        "--images 'd/*/*/*.jpg' --strict",
        """
            --strict: the folders test, train look like splits and are not used: --split_from \
            directory uses them, --split_from hash confirms that they are not splits; nothing \
            published
        """,
    ),
    _refused(
        "a root below one of two globs",
        "y/2024/1.jpg y/2025/2.jpg",
        {},
        "--images 'y/2024/*' --images 'y/2025/*' --root y/2024 --label_from none",
        """
            --root y/2024 does not contain all files of --images 'y/2025/*': give a folder above \
            them, such as 'y'
        """,
    ),
    _refused(
        "labels of a CSV and of folders",
        "p/cat/1.jpg p/dog/2.jpg",
        {"a.csv": "id,label\n1,cat\n2,dog\n"},
        "--images 'p/*/*.jpg' --labels a.csv --label_from directory",
        "--labels cannot be used with --label_from directory",
    ),
]
