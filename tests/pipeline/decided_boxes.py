"""Rows of the table of `test_decided.py` about boxes, and about CSV files and globs."""

from tests.pipeline.decided_table import few, lacking, row

PHOTOS = "p/a.jpg p/b.jpg"
"""Each is 16 pixels wide and 12 high."""

FOUND = (
    "image/filename",
    "image/object/class/label",
    *(f"image/object/bbox/{side}" for side in ("xmin", "ymin", "xmax", "ymax")),
)

BOXES = [
    row(
        "boxes of COCO",
        PHOTOS,
        {
            "a.csv": "file_name,category,x,y,w,h,iscrowd\na.jpg,cat,4,3,8,6,0\n"
            "b.jpg,dog,0,0,16,12,1\n"
        },
        "--images 'p/*.jpg' --labels a.csv --layout detection",
        """
        key column 'file_name' a usual name for the key [--label_key]
        label column 'category' a usual name for the label [--label_column]
        box columns x, y, w, h usual names for boxes [--boxes]
        box form xywh the columns are x, y, width, height [--boxes]
        box marks iscrowd usual names, stored for each object
        box units pixel width 8 in line 2 [--boxes]
        boxes are of stored pixels default: EXIF turns none of the first 2 images \
            [--boxes]
        class ids 1 to 2 count the sorted labels [--class_names]
        """,
        "train a.jpg 1 0.25 0.25 0.75 0.75 0 | train b.jpg 2 0 0 1 1 1",
        shown=(*FOUND, "image/object/is_crowd"),
    ),
    row(
        "AutoML's CSV for detection",
        PHOTOS,
        {
            "a.csv": "TRAINING,p/a.jpg,car,0.25,0.25,,,0.75,0.5,,\n"
            "TRAINING,p/a.jpg,bike,0,0,1,0,1,1,0,1\nTEST,p/b.jpg,,,,,,,,,\n"
        },
        "--labels a.csv --layout detection",
        """
        key column 'column 2' rows split,image_uri,label, the form of AutoML [--label_key]
        label column 'column 3' rows split,image_uri,label, the form of AutoML [--label_column]
        box columns column 4, column 5, column 8, column 9 11 cells a row, the form of AutoML \
            [--boxes]
        box form corners default for columns without such names [--boxes]
        box units normalized no number is above 1 in the first 2 boxes [--boxes]
        boxes are of stored pixels default: normalized boxes give no evidence [--boxes]
        splits from column 'column 1' rows split,image_uri,label, the form of AutoML \
            [--split_by]
        empty splits hash of the key shares train=1 [--splits]
        labels text, 2 classes 'car' is not an integer [--label_kind]
        class ids 1 to 2 count the sorted labels [--class_names]
        """,
        "test p/b.jpg - - - - - | train p/a.jpg 2,1 0.25,0 0.25,0 0.75,1 0.5,1",
        shown=FOUND,
        warnings=few(2, train=1, test=1)
        + "\n"
        + "the split 'test' has no image of 2 of 2 classes ('bike', 'car')",
    ),
]

FILES = [
    row(
        "rows list images, folders name their classes",
        "p/cat/1.jpg p/dog/2.jpg",
        {"a.csv": "image_uri,set\np/cat/1.jpg,TRAIN\np/dog/2.jpg,TEST\n"},
        "--labels a.csv --label_from directory --split_by column:set",
        """
        labels from directory given [--label_from]
        key column 'image_uri' a usual name for the key [--label_key]
        splits from column 'set' given [--split_by]
        empty splits hash of the key shares train=1 [--splits]
        no label column
        """,
        "test p/dog/2.jpg 1 dog | train p/cat/1.jpg 0 cat",
        warnings=few(2, train=1, test=1) + "\n" + lacking(train="dog", test="cat"),
    ),
    row(
        "rows list images, an expression finds their classes",
        "p/cat_1.jpg p/dog_2.jpg",
        {"a.csv": "p/cat_1.jpg\np/dog_2.jpg\n"},
        "--labels a.csv --label_key 1 --label_from 'regex:([a-z]+)_[0-9]'",
        """
        labels from regex given [--label_from]
        key column 'column 1' given [--label_key]
        no label column
        """,
        "train p/cat_1.jpg 0 cat | train p/dog_2.jpg 1 dog",
    ),
    row(
        "Excel with bars",
        "p/1.jpg p/2.jpg",
        {"a.csv": "sep=|\nid|label\n1|cat, big\n2|dog\n"},
        "--images 'p/*.jpg' --labels a.csv",
        """
        separator '|' its line 'sep=|' [--csv_delimiter]
        labels text, 2 classes 'cat, big' is not an integer [--label_kind]
        """,
        "train 1.jpg 0 cat, big | train 2.jpg 1 dog",
    ),
    row(
        "spaces below comments",
        "p/1.jpg p/2.jpg",
        {"a.csv": "# from the camera, 2024\n1.jpg 3\n2.jpg 4\n"},
        "--images 'p/*.jpg' --labels a.csv --label_column 2",
        """
        separator space the first line of the file [--csv_delimiter]
        key column 'column 1' its cells name images [--label_key]
        label column 'column 2' given [--label_column]
        labels integers, 2 classes all 2 labels are integers [--label_kind]
        class ids 3 to 4 the labels themselves; 3 numbers below are unused [--dense_labels]
        """,
        "train 1.jpg 3 3 | train 2.jpg 4 4",
    ),
    row(
        "paths of Windows",
        "p/cat/1.jpg p/dog/1.jpg",
        {"a.csv": "path,label\nC:\\data\\cat\\1.jpg,a\nC:\\data\\dog\\1.jpg,b\n"},
        "--images 'p/*/*.jpg' --labels a.csv --key path",
        """
        key column 'path' a usual name for the key [--label_key]
        key cells '\\' is '/', without 'C:/data/' the first rows then name images [--key_cells]
        key path given [--key]
        labels text, 2 classes 'a' is not an integer [--label_kind]
        """,
        "train cat/1.jpg 0 a | train dog/1.jpg 1 b",
    ),
    row(
        "rows list paths of Windows",
        "p/cat/1.jpg p/dog/1.jpg",
        {"a.csv": "path,label\n.\\p\\cat\\1.jpg,a\np\\dog\\1.jpg,b\n"},
        "--labels a.csv",
        """
        key cells '\\' is '/' the first rows then name images [--key_cells]
        labels text, 2 classes 'a' is not an integer [--label_kind]
        """,
        "train p/cat/1.jpg 0 a | train p/dog/1.jpg 1 b",
    ),
    row(
        "alternatives, and extensions in any case",
        "p/cat/1.jpg p/cat/2.JPG p/dog/3.png p/fox/4.jpg",
        {},
        "--images 'p/{cat,dog}/*.{jpg,png}' --label_from directory",
        """
        labels from directory given [--label_from]
        extensions in any case 1 of 3 images have it in another case than --images; write \
            *.jp[g] for one case [--images]
        """,
        "train cat/1.jpg 0 cat | train cat/2.JPG 0 cat | train dog/3.png 1 dog",
    ),
]
