"""Rows of the table of `test_decided.py` about sources of labels, columns, keys, splits, roots."""

from tests.pipeline.decided_table import few, lacking, row

PETS = "p/cat/1.jpg p/cat/2.jpg p/dog/3.jpg"

SOURCES = [
    row(
        "a folder that also holds a list",
        f"{PETS} p/[4].PNG",
        {"p/a.csv": "name,animal\n1.jpg,cat\n2.jpg,cat\n3.jpg,dog\n[4].PNG,dog\n"},
        "--images p/ --labels p/a.csv --key name",
        """
        images *.PNG, *.jpg all below the folder 'p/'; other files: 1 [--images]
        key column 'name' a usual name for the key [--label_key]
        label column 'animal' the other of two columns [--label_column]
        key name given [--key]
        """,
        "train [4].PNG 1 dog | train cat/1.jpg 0 cat | train cat/2.jpg 0 cat | "
        "train dog/3.jpg 1 dog",
    ),
    row(
        "folders of classes",
        PETS,
        {},
        "--images 'p/*/*.jpg'",
        "",
        "train cat/1.jpg 0 cat | train cat/2.jpg 0 cat | train dog/3.jpg 1 dog",
    ),
    row(
        "several columns may name images, the cells of one do",
        PETS,
        {"a.csv": "id,image,kind,class\n7,1.jpg,x,10\n8,2.jpg,x,9\n9,3.jpg,y,9\n"},
        "--images 'p/*/*.jpg' --labels a.csv",
        """
        key column 'image' its cells name images [--label_key]
        label column 'class' a usual name for the label [--label_column]
        labels integers, 2 classes all 3 labels are integers [--label_kind]
        class ids 9 to 10 the labels themselves; 9 numbers below are unused [--dense_labels]
        """,
        "train cat/1.jpg 10 10 | train cat/2.jpg 9 9 | train dog/3.jpg 9 9",
    ),
    row(
        "no header, two columns, keys that are paths",
        PETS,
        {"a.csv": "b,cat/1.jpg\nb,cat/2.jpg\na,dog/3.jpg\n"},
        "--images 'p/*/*.jpg' --labels a.csv --key path --splits all=1",
        """
        key column 'column 2' its cells name images [--label_key]
        label column 'column 1' the other of two columns [--label_column]
        key path given [--key]
        splits from hash of the key shares all=1 [--splits]
        labels text, 2 classes 'b' is not an integer [--label_kind]
        """,
        "all cat/1.jpg 1 b | all cat/2.jpg 1 b | all dog/3.jpg 0 a",
    ),
    row(
        "rows that list images in the form of AutoML",
        PETS,
        {"a.csv": "TRAIN,p/cat/1.jpg,cat\nTEST,p/cat/2.jpg,cat\n,p/dog/3.jpg,dog\n"},
        "--labels a.csv --splits left=1",
        """
        key column 'column 2' rows split,image_uri,label, the form of AutoML [--label_key]
        label column 'column 3' rows split,image_uri,label, the form of AutoML [--label_column]
        splits from column 'column 1' rows split,image_uri,label, the form of AutoML \
            [--split_by]
        empty splits hash of the key shares left=1 [--splits]
        """,
        "left p/dog/3.jpg 1 dog | test p/cat/2.jpg 0 cat | train p/cat/1.jpg 0 cat",
        warnings=few(3, train=1, test=1, left=1)
        + "\n"
        + lacking(train="dog", test="dog", left="cat"),
    ),
    row(
        "splits of a column, of which one cell is empty",
        PETS,
        {"a.csv": "id;label;set\n1;cat;TEST\n2;cat;\n3;dog;dev\n"},
        "--images 'p/*/*.jpg' --labels a.csv --split_by column:set --splits open=1",
        """
        separator semicolon the first line of the file [--csv_delimiter]
        splits from column 'set' given [--split_by]
        empty splits hash of the key shares open=1 [--splits]
        """,
        "dev dog/3.jpg 1 dog | open cat/2.jpg 0 cat | test cat/1.jpg 0 cat",
        warnings=few(3, test=1, dev=1, open=1) + "\n" + lacking(test="dog", dev="cat", open="dog"),
    ),
    row(
        "folders of splits above those of classes",
        "p/TRAIN/cat/1.jpg p/val/dog/2.jpg",
        {},
        "--images 'p/*/*/*.jpg' --split_by folder",
        "splits from first folder given [--split_by]",
        "train TRAIN/cat/1.jpg 0 cat | val val/dog/2.jpg 1 dog",
        warnings=few(2, train=1, val=1) + "\n" + lacking(train="dog", val="cat"),
    ),
    row(
        "a root above two globs",
        "y/2024/cat/1.jpg y/2025/dog/2.jpg",
        {},
        "--images 'y/2024/*/*' --images y/2025/dog/2.jpg --root . --label_from directory",
        """
        labels from directory given [--label_from]
        root . given [--root]
        """,
        "train y/2024/cat/1.jpg 0 cat | train y/2025/dog/2.jpg 1 dog",
    ),
    row(
        "labels of a regular expression",
        "p/cat_1.jpg p/cat_2.jpg p/dog_3.jpg",
        {},
        "--images 'p/*' --label_from 'regex:([a-z]+)_\\d' --key stem --splits a=0.999,b=0.001",
        """
        labels from regex given [--label_from]
        key stem given [--key]
        splits from hash of the key shares a=0.999, b=0.001 [--splits]
        """,
        "a cat_1.jpg 0 cat | a cat_2.jpg 0 cat | a dog_3.jpg 1 dog",
        warnings="the split 'b' is empty, of 3 images: change --splits or --seed, or add data\n"
        + few(3, a=3),
    ),
    row(
        "rows that list images without labels, by group",
        "in/1.jpg in/2.jpg in/3.jpg",
        {"in/l.csv": "path,who\n1.jpg,x\n2.jpg,x\n3.jpg,y\n"},
        "--labels in/l.csv --label_from none --group_by who --splits only=1",
        """
        labels from none given [--label_from]
        splits from hash of column 'who' shares only=1 [--splits]
        root in the folder of --labels [--root]
        no label column, labels, class ids
        """,
        "only 1.jpg - - | only 2.jpg - - | only 3.jpg - -",
    ),
    row(
        "a separator that only the flag tells, and cells that stay as they are",
        PETS,
        {"a.csv": "id~a;b\ncat/1.jpg~x;y\ncat/2.jpg~x\n/p/dog/3.jpg~z\n"},
        "--images 'p/*/*.jpg' --labels a.csv --csv_delimiter '~' --key path --key_cells "
        "as_is --max_rejected 1",
        """
        separator '~' given [--csv_delimiter]
        key cells as they are given [--key_cells]
        label column 'a;b' the other of two columns [--label_column]
        key path given [--key]
        labels text, 2 classes 'x;y' is not an integer [--label_kind]
        """,
        "train cat/1.jpg 1 x;y | train cat/2.jpg 0 x",
    ),
]
