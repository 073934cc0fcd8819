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
            labels         text, 2 classes  'cat' is not an integer [--label_kind]
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
            labels         text, 2 classes  'b' is not an integer [--label_kind]
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
            empty splits   hash of the key    shares left=1 [--splits]
            root           .                  the folder of --labels [--root]
            labels         text, 2 classes    'cat' is not an integer [--label_kind]
            class ids      0 to 1           count the sorted labels [--class_names]
        """,
        records="""
            left pets/dog/3.jpg 1 dog
            test pets/cat/2.jpg 0 cat
            train pets/cat/1.jpg 0 cat
        """,
        warnings="""
            the split 'train' has only 1 of 3 images: fewer than 10 are too few to measure anything
            the split 'test' has only 1 of 3 images: fewer than 10 are too few to measure anything
            the split 'left' has only 1 of 3 images: fewer than 10 are too few to measure anything
            the split 'train' has no image of 1 of 2 classes ('dog')
            the split 'test' has no image of 1 of 2 classes ('dog')
            the split 'left' has no image of 1 of 2 classes ('cat')
        """,
    ),
    Row(
        "splits of a column, of which one cell is empty",
        images=PETS,
        csvs={"a.csv": "id;label;set\n1;cat;TEST\n2;cat;\n3;dog;dev\n"},
        flags="--images 'pets/*/*.jpg' --labels a.csv --split_column set --splits open=1",
        decided="""
            labels from    csv              --labels is given [--label_from]
            separator      semicolon        the first line of the file [--csv_delimiter]
            key column     'id'             a usual name for the key [--label_key]
            label column   'label'          a usual name for the label [--label_column]
            key            stem             default with --labels and --images [--key]
            splits from    column 'set'     given [--split_column]
            empty splits   hash of the key  shares open=1 [--splits]
            root           pets             the folder that all of --images share [--root]
            labels         text, 2 classes  'cat' is not an integer [--label_kind]
            class ids      0 to 1           count the sorted labels [--class_names]
        """,
        records="""
            dev dog/3.jpg 1 dog
            open cat/2.jpg 0 cat
            test cat/1.jpg 0 cat
        """,
        warnings="""
            the split 'test' has only 1 of 3 images: fewer than 10 are too few to measure anything
            the split 'dev' has only 1 of 3 images: fewer than 10 are too few to measure anything
            the split 'open' has only 1 of 3 images: fewer than 10 are too few to measure anything
            the split 'test' has no image of 1 of 2 classes ('dog')
            the split 'dev' has no image of 1 of 2 classes ('cat')
            the split 'open' has no image of 1 of 2 classes ('dog')
        """,
    ),
    Row(
        "folders of splits above those of classes",
        images="d/TRAIN/cat/1.jpg d/val/dog/2.jpg",
        csvs={},
        flags="--images 'd/*/*/*.jpg' --split_from directory",
        decided="""
            labels from    directory        the images are in several folders [--label_from]
            key            path             default without --labels [--key]
            splits from    first folder     given [--split_from]
            root           d                the folder that all of --images share [--root]
            labels         text, 2 classes  'cat' is not an integer [--label_kind]
            class ids      0 to 1           count the sorted labels [--class_names]
        """,
        records="""
            train TRAIN/cat/1.jpg 0 cat
            val val/dog/2.jpg 1 dog
        """,
        warnings="""
            the split 'train' has only 1 of 2 images: fewer than 10 are too few to measure anything
            the split 'val' has only 1 of 2 images: fewer than 10 are too few to measure anything
            the split 'train' has no image of 1 of 2 classes ('dog')
            the split 'val' has no image of 1 of 2 classes ('cat')
        """,
    ),
    Row(
        "a root above two globs",
        images="y/2024/cat/1.jpg y/2025/dog/2.jpg",
        csvs={},
        flags="--images 'y/2024/*/*' --images y/2025/dog/2.jpg --root . --label_from directory",
        decided="""
            labels from    directory        given [--label_from]
            key            path             default without --labels [--key]
            splits from    hash of the key  shares train=1 [--splits]
            root           .                given [--root]
            labels         text, 2 classes  'cat' is not an integer [--label_kind]
            class ids      0 to 1           count the sorted labels [--class_names]
        """,
        records="""
            train y/2024/cat/1.jpg 0 cat
            train y/2025/dog/2.jpg 1 dog
        """,
    ),
    Row(
        "labels of a regular expression",
        images="in/cat_1.jpg in/cat_2.jpg in/dog_3.jpg",
        csvs={},
        flags=r"--images 'in/*' --label_regex '([a-z]+)_\d' --key stem --splits a=0.999,b=0.001",
        decided="""
            labels from    regex            --label_regex is given [--label_from]
            key            stem             given [--key]
            splits from    hash of the key  shares a=0.999, b=0.001 [--splits]
            root           in               the folder that all of --images share [--root]
            labels         text, 2 classes  'cat' is not an integer [--label_kind]
            class ids      0 to 1           count the sorted labels [--class_names]
        """,
        records="""
            a cat_1.jpg 0 cat
            a cat_2.jpg 0 cat
            a dog_3.jpg 1 dog
        """,
        warnings="""
            the split 'b' is empty, of 3 images: change --splits or --seed, or add data
            the split 'a' has only 3 of 3 images: fewer than 10 are too few to measure anything
        """,
    ),
    Row(
        "rows that list images without labels, by group",
        images="in/1.jpg in/2.jpg in/3.jpg",
        csvs={"in/l.csv": "path,who\n1.jpg,x\n2.jpg,x\n3.jpg,y\n"},
        flags="--labels in/l.csv --label_from none --group_by who --splits only=1",
        decided="""
            labels from    none                  given [--label_from]
            key column     'path'                a usual name for the key [--label_key]
            key            path                  default without --images [--key]
            splits from    hash of column 'who'  shares only=1 [--splits]
            root           in                    the folder of --labels [--root]
        """,
        records="""
            only 1.jpg - -
            only 2.jpg - -
            only 3.jpg - -
        """,
    ),
    Row(
        "a separator that only the flag tells, and cells that stay as they are",
        images=PETS,
        csvs={"a.csv": "id~a;b\ncat/1.jpg~x;y\ncat/2.jpg~x\n/pets/dog/3.jpg~z\n"},
        flags="--images 'pets/*/*.jpg' --labels a.csv --csv_delimiter '~' --key path"
        " --key_cells as_is --max_rejected 1",
        decided="""
            labels from    csv              --labels is given [--label_from]
            separator      '~'              given [--csv_delimiter]
            key column     'id'             a usual name for the key [--label_key]
            key cells      as they are      given [--key_cells]
            label column   'a;b'            the other of two columns [--label_column]
            key            path             given [--key]
            splits from    hash of the key  shares train=1 [--splits]
            root           pets             the folder that all of --images share [--root]
            labels         text, 2 classes  'x;y' is not an integer [--label_kind]
            class ids      0 to 1           count the sorted labels [--class_names]
        """,
        records="""
            train cat/1.jpg 1 x;y
            train cat/2.jpg 0 x
        """,
    ),
]
