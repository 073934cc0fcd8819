"""Rows of the table of `test_decided.py` about what is left out and warned about."""

from tests.pipeline.decided_table import row

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
