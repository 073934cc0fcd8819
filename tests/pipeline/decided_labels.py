"""Rows of the table of `test_decided.py` about labels and types of columns."""

from tests.pipeline.decided_table import Row, row


def of_four(name: str, cells: str, flags: str, decided: str, records: str) -> Row:
    """A row whose four photos have these labels; `names.txt` has three classes."""
    rows = [f"{stem},{cell}" for stem, cell in zip("abcd", cells.split(","), strict=True)]
    return row(
        name,
        "p/a.jpg p/b.jpg p/c.jpg p/d.jpg",
        {"a.csv": "\n".join(["id,label", *rows]), "names.txt": "cat\ndog\nNA\n"},
        f"--images 'p/*.jpg' --labels a.csv --max_rejected 100% {flags}",
        decided,
        records,
    )


LABELS = [
    of_four(
        "integers as a data frame writes them",
        "14950.0,7.0,100000.0,nan",
        "",
        """
        labels integers, 3 classes all 3 labels are integers [--label_kind]
        class ids 7 to 100000 the labels themselves; 99998 numbers below are unused \
            [--dense_labels]
        missing labels 1 cell 'nan': not classes; their images are rejected [--label_kind]
        """,
        "train a.jpg 14950 14950 | train b.jpg 7 7 | train c.jpg 100000 100000",
    ),
    of_four(
        "codes read as integers",
        "007,x,12,+3",
        "--label_kind integer",
        """
        labels integers, 3 classes given [--label_kind]
        class ids 3 to 12 the labels themselves; 10 numbers below are unused [--dense_labels]
        unknown labels 1 of 4 'x' is not an integer: its image is rejected [--label_kind]
        """,
        "train a.jpg 7 7 | train c.jpg 12 12 | train d.jpg 3 3",
    ),
    of_four(
        "text, a number and what is missing",
        "cat,NA,7,null",
        "",
        """
        missing labels 2 cells 'NA', 'null': not classes; their images are rejected [--label_kind]
        """,
        "train a.jpg 1 cat | train c.jpg 0 7",
    ),
    of_four(
        "labels that are not among given classes",
        "dog,bird,nan,3",
        "--class_names names.txt",
        """
        labels text, 3 classes the lines of the file [--class_names]
        class ids 0 to 2 count the lines; labels are names or these numbers [--class_names]
        missing labels 1 cell 'nan': not classes; their images are rejected [--label_kind]
        unknown labels 2 of 3 '3', 'bird' are not in the file: their images are rejected \
            [--class_names]
        """,
        "train a.jpg 1 dog",
    ),
    row(
        "columns with missing cells, codes and a text",
        "",
        {
            "a.csv": "zip,age,weight,city\n01234,41,NA,Oslo\n00501,NA,2.5,NA\n90210,7,3,Lima\n",
            "my.yaml": "features:\n  zip: csv.zip\n  age: {source: csv.age, default: -1}\n  "
            "weight: {source: csv.weight, type: float}\n  city: csv.city\n",
        },
        "--labels a.csv --layout my.yaml --max_rejected 100%",
        """
        key column file and line no column is given [--label_key]
        type of zip int64 all are integers, first '01234' (line 2); '01234' (line 2) loses its \
            zeros [--layout]
        type of age int64 all are integers, first '-1' (default); 1 of 3 cells missing: read as \
            '-1' [--layout]
        type of weight float given; 1 of 3 cells missing: rejected without a default [--layout]
        type of city bytes 'Oslo' (line 2) is not a number [--layout]
        no labels from, label column, labels, class ids, key
        """,
        "train 501 -1 2.5 NA | train 90210 7 3 Lima",
        shown=("zip", "age", "weight", "city"),
        features="zip int64\nage int64\nweight float\ncity bytes",
    ),
    row(
        "columns of given types whose cells do not fit",
        "",
        {
            "a.csv": "age,size,box,tags\n41,NA,1|2,3\nold,1e9,1|2,NA\n300,2,,4|x\n7,NA,1|2,3\n"
            "8,1,1|2|3,5\n",
            "my.yaml": "features:\n  age: {source: csv.age, type: int32}\n"
            "  size: {source: csv.size, type: float, default: 0.5}\n"
            "  box: {source: csv.box, type: int64, separator: '|', shape: [2]}\n"
            "  tags: {source: csv.tags, type: int64, separator: '|'}\n",
        },
        "--labels a.csv --layout my.yaml --max_rejected 100%",
        """
        key column file and line no column is given [--label_key]
        type of age int32 given; 1 of 5 cells do not fit, first 'old' (line 3): rejected \
            [--layout]
        type of size float given; 2 of 5 cells missing: read as '0.5' [--layout]
        type of box int64 given; 1 of 5 cells missing: rejected without a default; 1 of 5 cells \
            do not fit, first '1|2|3' (line 6): rejected [--layout]
        type of tags int64 given; 1 of 5 cells missing: empty lists; 1 of 5 cells do not fit, \
            first '4|x' (line 4): rejected [--layout]
        no labels from, label column, labels, class ids, key
        """,
        "train 41 0.5 1,2 3 | train 7 0.5 1,2 3",
        shown=("age", "size", "box", "tags"),
    ),
    row(
        "a column of numbers of which one is a text",
        "p/a.jpg p/b.jpg",
        {
            "a.csv": "id,label,age\na,cat,41\nb,dog,n/k\n",
            "my.yaml": "features: {age: csv.age, name: image.key}\n",
        },
        "--images 'p/*.jpg' --labels a.csv --layout my.yaml",
        """
        type of age bytes 'n/k' (line 3) is not a number [--layout]
        no label column, labels, class ids
        """,
        "train a 41 | train b n/k",
        shown=("name", "age"),
        features="age bytes",
    ),
]
