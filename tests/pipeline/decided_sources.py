"""Rows of the table of `test_decided.py` about sources of labels, columns, keys, splits, roots."""

from __future__ import annotations

from tests.pipeline.decided_table import Row

PETS = "pets/cat/1.jpg pets/cat/2.jpg pets/dog/3.jpg"

SOURCES = [
    Row(
        "folders of classes",
        images=PETS,
        csvs={},
        flags="--images 'pets/*/*.jpg'",
        decided="""
            labels from    directory        the images are in several folders [--label_from]
            key            path             default without --labels [--key]
            splits from    hash of the key  shares train=1 [--splits]
            root           pets             the folder that all of --images share [--root]
            labels         text, 2 classes  'cat' is no integer [--label_kind]
            class ids      0 to 1           count the sorted labels [--class_names]
        """,
        records="""
            train cat/1.jpg 0 cat
            train cat/2.jpg 0 cat
            train dog/3.jpg 1 dog
        """,
    ),
    Row(
        "several columns may name images, the cells of one do",
        images=PETS,
        csvs={"a.csv": "id,image,kind,class\n7,1.jpg,x,10\n8,2.jpg,x,9\n9,3.jpg,y,9\n"},
        flags="--images 'pets/*/*.jpg' --labels a.csv",
        decided="""
            labels from    csv              --labels is given [--label_from]
            key column     'image'          its cells name images [--label_key]
            label column   'class'          a usual name for the label [--label_column]
            key            stem             default with --labels and --images [--key]
            splits from    hash of the key  shares train=1 [--splits]
            root           pets             the folder that all of --images share [--root]
            labels         integers, 2 classes  all 3 labels are integers [--label_kind]
            class ids      9 to 10          the labels themselves; \
                                            9 numbers below are unused [--dense_labels]
        """,
        records="""
            train cat/1.jpg 10 10
            train cat/2.jpg 9 9
            train dog/3.jpg 9 9
        """,
    ),
    Row(
        "no header, two columns, keys that are paths",
        images=PETS,
        csvs={"a.csv": "b,cat/1.jpg\nb,cat/2.jpg\na,dog/3.jpg\n"},
        flags="--images 'pets/*/*.jpg' --labels a.csv --key path --splits all=1",
        decided="""
            labels from    csv              --labels is given [--label_from]
            key column     'column 2'       its cells name images [--label_key]
            label column   'column 1'       the other of two columns [--label_column]
            key            path             given [--key]
            splits from    hash of the key  shares all=1 [--splits]
            root           pets             the folder that all of --images share [--root]
            labels         text, 2 classes  'b' is no integer [--label_kind]
            class ids      0 to 1           count the sorted labels [--class_names]
        """,
        records="""
            all cat/1.jpg 1 b
            all cat/2.jpg 1 b
            all dog/3.jpg 0 a
        """,
    ),
    Row(
        "rows that list images in the form of AutoML",
        images=PETS,
        csvs={"a.csv": "TRAIN,pets/cat/1.jpg,cat\nTEST,pets/cat/2.jpg,cat\n,pets/dog/3.jpg,dog\n"},
        flags="--labels a.csv --splits left=1",
        decided="""
            labels from    csv                --labels is given [--label_from]
            key column     'column 2'         rows split,image_uri,label, \
                                              the form of AutoML [--label_key]
            label column   'column 3'         rows split,image_uri,label, \
                                              the form of AutoML [--label_column]
            key            path               default without --images [--key]
            splits from    column 'column 1'  rows split,image_uri,label, \
                                              the form of AutoML [--split_column]
            root           .                  the folder of --labels [--root]
            labels         text, 2 classes    'cat' is no integer [--label_kind]
            class ids      0 to 1           count the sorted labels [--class_names]
        """,
        records="""
            left pets/dog/3.jpg 1 dog
            test pets/cat/2.jpg 0 cat
            train pets/cat/1.jpg 0 cat
        """,
    ),
]
