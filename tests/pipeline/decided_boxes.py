"""Rows of the table of `test_decided.py` about boxes."""

from __future__ import annotations

from tests.pipeline.decided_table import Row

PHOTOS = "p/a.jpg p/b.jpg"
"""Each is 16 pixels wide and 12 high."""

FOUND = (
    "image/filename",
    "image/object/class/label",
    *(f"image/object/bbox/{side}" for side in ("xmin", "ymin", "xmax", "ymax")),
)

BOXES: list[Row] = [
    Row(
        "boxes of COCO",
        images=PHOTOS,
        csvs={
            "a.csv": "file_name,category,x,y,w,h,iscrowd\na.jpg,cat,4,3,8,6,0\n"
            "b.jpg,dog,0,0,16,12,1\n"
        },
        flags="--images 'p/*.jpg' --labels a.csv --layout detection",
        decided="""
            labels from    csv                  --labels is given [--label_from]
            key column     'file_name'          a usual name for the key [--label_key]
            label column   'category'           a usual name for the label [--label_column]
            box columns    x, y, w, h           usual names for boxes [--box_columns]
            box form       xywh                 the columns are x, y, width, height [--box_form]
            box marks      iscrowd              usual names, stored for each object
            box units      pixel                width 8 in line 2 [--box_units]
            boxes are of   stored pixels        default: EXIF turns none of the first 2 \
                                    images [--box_orientation]
            key            stem                 default with --labels and --images [--key]
            splits from    hash of the key      shares train=1 [--splits]
            root           p                    the folder that all of --images share [--root]
            labels         text, 2 classes      'cat' is no integer [--label_kind]
            class ids      1 to 2               count the sorted labels [--class_names]
        """,
        records="""
            train a.jpg 1 0.25 0.25 0.75 0.75 0
            train b.jpg 2 0 0 1 1 1
        """,
        shown=(*FOUND, "image/object/is_crowd"),
    ),
    Row(
        "corners behind the size of the image",
        images=PHOTOS,
        csvs={
            "a.csv": "filename,width,height,class,xmin,ymin,xmax,ymax\n"
            "a.jpg,16,12,3,4,3,12,9\nb.jpg,16,12,1,0,0,16,12\n"
        },
        flags="--images 'p/*.jpg' --labels a.csv --layout detection",
        decided="""
            labels from    csv                  --labels is given [--label_from]
            key column     'filename'           a usual name for the key [--label_key]
            label column   'class'              a usual name for the label [--label_column]
            box columns    xmin, ymin, xmax, ymax usual names for boxes [--box_columns]
            box form       corners              the columns are xmin, ymin, xmax, ymax \
                                    [--box_form]
            box units      pixel                xmax 12 in line 2 [--box_units]
            boxes are of   stored pixels        default: EXIF turns none of the first 2 \
                                    images [--box_orientation]
            key            stem                 default with --labels and --images [--key]
            splits from    hash of the key      shares train=1 [--splits]
            root           p                    the folder that all of --images share [--root]
            labels         integers, 2 classes  all 2 labels are integers [--label_kind]
            class ids      1 to 3               the labels themselves; 1 numbers below \
                                    are unused [--dense_labels]
        """,
        records="""
            train a.jpg 3 0.25 0.25 0.75 0.75
            train b.jpg 1 0 0 1 1
        """,
        shown=FOUND,
    ),
    Row(
        "AutoML's CSV for detection",
        images=PHOTOS,
        csvs={
            "a.csv": "TRAINING,p/a.jpg,car,0.25,0.25,,,0.75,0.5,,\n"
            "TRAINING,p/a.jpg,bike,0,0,1,0,1,1,0,1\nTEST,p/b.jpg,,,,,,,,,\n"
        },
        flags="--labels a.csv --layout detection",
        decided="""
            labels from    csv                  --labels is given [--label_from]
            key column     'column 2'           rows split,image_uri,label, the form of \
                                    AutoML [--label_key]
            label column   'column 3'           rows split,image_uri,label, the form of \
                                    AutoML [--label_column]
            box columns    column 4, column 5, column 8, column 9 11 cells a row, the \
                                    form of AutoML [--box_columns]
            box form       corners              default for columns without such names \
                                    [--box_form]
            box units      normalized           no number is above 1 in the first 2 boxes \
                                    [--box_units]
            boxes are of   stored pixels        default: normalized boxes show nothing of \
                                    it [--box_orientation]
            key            path                 default without --images [--key]
            splits from    column 'column 1'    rows split,image_uri,label, the form of \
                                    AutoML [--split_column]
            empty splits   hash of the key      shares train=1 [--splits]
            root           .                    the folder of --labels [--root]
            labels         text, 2 classes      'car' is no integer [--label_kind]
            class ids      1 to 2               count the sorted labels [--class_names]
        """,
        records="""
            test p/b.jpg - - - - -
            train p/a.jpg 2,1 0.25,0 0.25,0 0.75,1 0.5,1
        """,
        shown=FOUND,
    ),
    Row(
        "centers of YOLO",
        images=PHOTOS,
        csvs={
            "a.csv": "image,label,x_center,y_center,width,height\n"
            "a,cat,.5,.5,.5,.5\nb,cat,.25,.5,.5,1\n"
        },
        flags="--images 'p/*.jpg' --labels a.csv --layout detection",
        decided="""
            labels from    csv                  --labels is given [--label_from]
            key column     'image'              a usual name for the key [--label_key]
            label column   'label'              a usual name for the label [--label_column]
            box columns    x_center, y_center, width, height usual names for boxes \
                                    [--box_columns]
            box form       center               the columns are center x, center y, \
                                    width, height [--box_form]
            box units      normalized           no number is above 1 in the first 2 boxes \
                                    [--box_units]
            boxes are of   stored pixels        default: normalized boxes show nothing of \
                                    it [--box_orientation]
            key            stem                 default with --labels and --images [--key]
            splits from    hash of the key      shares train=1 [--splits]
            root           p                    the folder that all of --images share [--root]
            labels         text, 1 class        'cat' is no integer [--label_kind]
            class ids      1                    count the sorted labels [--class_names]
        """,
        records="""
            train a.jpg 1 0.25 0.25 0.75 0.75
            train b.jpg 1 0 0 0.5 1
        """,
        shown=FOUND,
    ),
    Row(
        "columns without names of boxes",
        images=PHOTOS,
        csvs={"a.csv": "a.jpg,cat,0,0,8,12\nb.jpg,dog,8,6,8,6\n"},
        flags="--images 'p/*.jpg' --labels a.csv --layout detection --label_key 1 --label_column 2"
        " --box_columns 3,4,5,6 --box_form xywh --box_units pixel --box_orientation stored",
        decided="""
            labels from    csv                  --labels is given [--label_from]
            key column     'column 1'           given [--label_key]
            label column   'column 2'           given [--label_column]
            box columns    column 3, column 4, column 5, column 6 given [--box_columns]
            box form       xywh                 given [--box_form]
            box units      pixel                given [--box_units]
            boxes are of   stored pixels        given [--box_orientation]
            key            stem                 default with --labels and --images [--key]
            splits from    hash of the key      shares train=1 [--splits]
            root           p                    the folder that all of --images share [--root]
            labels         text, 2 classes      'cat' is no integer [--label_kind]
            class ids      1 to 2               count the sorted labels [--class_names]
        """,
        records="""
            train a.jpg 1 0 0 0.5 1
            train b.jpg 2 0.5 0.5 1 1
        """,
        shown=FOUND,
    ),
]
