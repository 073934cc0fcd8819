"""Flags of `convert` with a mistake, by their subject, and the files that they name.

`test_mistakes.py` types them in its folder; `@` and the like stand for flags that are right.
"""

from tests.images.packed import zipped

CONVERT_FILES = {
    "listed.csv": "image_uri,label\nphotos/cat/cat-0.jpg,cat\n",
    "uris.csv": "image_uri\nphotos/cat/cat-0.jpg\n",
    "web.csv": "image,label\nhttps://a.org/1.jpg,cat\n",
    "bytes.yaml": "features: {image: image.bytes}\n",
    "mask.yaml": "features: {image: image.bytes, mask: mask.bytes}\n",
    "height.yaml": "features: {pixels: image.pixels, b: image.height}\n",
    "shape.yaml": "features: {a: {source: image.pixels, shape: [8, 6, 3]}}\n",
    "size.yaml": "features: {a: csv.size}\n",
    "side.yaml": "features:\n  a: image.size\n",
    "label.yaml": "features: {a: label.id}\n",
    "object.yaml": "features: {a: object.texts}\n",
    "int16.yaml": "features:\n  x: {source: csv.label, type: int16}\n",
    "bool.yaml": "features:\n  x: {source: csv.label, type: bool, default: 5}\n",
    "blank.csv": "\n\n",
    "short.csv": "a,b\n1\n",
    "unnamed.csv": ",b\n1,2\n",
    "same.csv": "a,a\n1,2\n",
    "nul.csv": "a\n\0\n",
    "t.parquet": b"PAR1 PAR1",
    "a.jsonl": "id,label\n",
    "b.jsonl": '{"a": 1, "b": 2}',
    "c.jsonl": '{"id": "cat-0"}',
    "both/t.jsonl": '{"id": "cat-0", "label": 1}',
    "both/u.csv": "id,label\ncat-0,1",
    "keys/blank": "\n \n",
    "keys/bytes": b"\xff\n",
    "keys/stems": "cat-0\ncat-1\n",
    "bad.json": '{"images": [',
    "other.json": '{\n"a": 1}',
    "instances.json": '{"images": [{"id": 1, "file_name": "cat-0.jpg"}], "annotations": [{"bbox": '
    '[1, 1, 2, 2], "image_id": 1, "category_id": 1}], "categories": [{"id": 1, "name": "cat"}]}',
    "typo.csv": "id,label\ncat-0,7\ncat-1,8\ndog-0,9\ndog-1,10\ndog-2,1O\n",
    "sets.csv": "image,label,split\nphotos/cat/cat-0.jpg,a,train\nphotos/cat/cat-1.jpg,b,TEST\n",
    "voc/1.xml": "<annotation><filename>1.jpg</filename></annotation>",
    "none/0.txt": "",
    "a.zip": zipped({"cat/1.jpg": b"x", "dog/2.jpg": b"y"}),
    "long.zip": zipped({f"{number:04000}": b"" for number in range(1400)}),
    **dict.fromkeys(("a.tar.gz", "a.tgz", "broken.zip", "broken.tar"), b"no archive" * 200),
    "no.parquet": b"no Parquet" * 200,
}

UNKNOWN = "the shape of 'pixels' (image.pixels) is unknown"
NO_NAME = "is not a name of files in the folder"
FIELDS = "fields are {split}, {shard:05d} and {shards:05d}"
OF_RECORDS = "is not for images: the records of a dataset are named by its folder, 'out'"

CONTRADICTIONS = {
    "@images --labels typo.csv": "4 of 5 labels are integers, but '1O' (typo.csv:6) is not: "
    "correct or empty these cells, or give --label_kind text (every label is the name of a class) "
    "or --label_kind integer (rejects images with other labels)",
    "@images --label_from directory --label_kind text --dense_labels": (
        "--dense_labels cannot be used with --label_kind text: its class ids have no gaps"
    ),
    "@images --label_from directory --class_names names.txt --dense_labels": "--dense_labels is "
    "for integer labels; --class_names names.txt numbers its lines from 0 already: leave one out",
    "@images --label_from none --class_names names.txt": (
        "--class_names cannot be used with --label_from none: there are no labels"
    ),
    "@new --labels sets.csv --splits a=0.5,b=0.5": "--splits cannot be used with the column "
    "'split', which decides the split of every row: leave out --splits, or ignore it with "
    "--split_by hash",
    "@new --images 'split/*/*/*' --split_by folder --splits a=0.5,b=0.5": "--splits cannot be used "
    "with --split_by folder: the folders decide the split of every image; leave one of them out",
    "@new --images 'split/*/*/*' --strict": "--strict: the folders test, train look like splits "
    "and are not used: --split_by folder uses them, --split_by hash confirms that they are not "
    "splits; nothing published",
    "@new --images 'split/train/*/*' --images 'split/test/*/*' --root split/train": "--root "
    "split/train does not contain all files of --images 'split/test/*/*': give a folder above "
    "them, such as 'split'",
}

MASKS = {
    "@images --masks 'masks/*.tif'": "no file matches --masks",
    "@images --masks 'masks/*.png' --masks 'mask/*.png'": "matches --masks 'mask/*.png'",
    "@images --masks 'photos/cat/*.jpg'": "both match",
    "@images --masks 'masks/*.png' --key path": (
        "keys like 'cat/cat-0.jpg', but 'masks/cat-0.png' is for 'cat-0.jpg' (--key path)"
    ),
    "@new --images 'photos/dog/*.jpg' --masks 'masks/*.png'": (
        "images have keys like 'dog-0', but 'masks/cat-0.png' is for 'cat-0' (--key stem)"
    ),
    "@images --masks 'masks/*.png' --key uri": "--key uri cannot be used with --masks",
    "@new --labels listed.csv --masks 'photos/**'": "which a row of",
    "@new --masks 'masks/*.png'": "give --images GLOB, or --labels CSV",
    "@rows --labels listed.csv --masks 'masks/*.png'": "--masks",
    "@images --masks 'masks/*.png' --layout bytes.yaml": "no feature with the source mask.bytes",
    "@images --layout mask.yaml": "give --masks GLOB",
}

LAYOUTS = {
    "@images --layout detection --label_from none": "needs --labels CSV",
    "@ --layout detection": "it has no box columns; it has 'id', 'label'",
    "@ --boxes units=pixel": "--boxes cannot be used with --layout slim",
    "@ --label_separator '|'": "--layout slim has one label",
    "@ --label_separator '|' --layout detection": "a row is one object",
    "@ --layout size.yaml": "has no column 'size'",
    "@ --layout side.yaml": "line 2: unknown source 'image.size'",
    "@images --layout label.yaml --label_from none": (
        "the feature 'a' has the source label.id, but --label_from is none"
    ),
    "@ --layout pixels.yaml": UNKNOWN,
    "@ --layout pixels.yaml --resize 8x6": UNKNOWN,
    "@ --layout pixels.yaml --color rgb --resize 8x6,never_enlarge": UNKNOWN,
    "@ --layout height.yaml --color rgb": UNKNOWN,
    "@ --layout shape.yaml --color rgb --resize 8x6": (
        "the shape of 'a' is [8, 6, 3], but --resize and --color make it [6, 8, 3]"
    ),
}

LISTED = {
    "@new --labels web.csv": "'https://a.org/1.jpg': download the images, and give --images",
    "@new --labels uris.csv": "or number; or, without --images, --label_from none",
    "@new --labels listed.csv --label_from none --label_column label": (
        "--label_column cannot be used with --label_from none"
    ),
    "@new --labels listed.csv --label_from none --layout detection": (
        "has the source object.ids, but --label_from is none"
    ),
    "@new --labels listed.csv --label_from none --layout object.yaml": (
        "'a' has the source object.texts, but --label_from is none"
    ),
    "@ --label_from none": "--labels cannot be used with --label_from none",
}

ROWS = {
    "@rows --labels empty.csv": "is empty: give a file with rows to --labels",
    "@rows --labels blank.csv": "is empty: give a file with rows to --labels",
    "@rows --labels header.csv": "has no usable row: below the header, each row needs 2 cells",
    "@rows --labels short.csv": "has no usable row: below the header, each row needs 2 cells",
    "@rows --labels unnamed.csv": "column 1 has no name",
    "@rows --labels same.csv": "has several columns 'a' (1 and 2): rename all but one",
    "@rows --labels nul.csv": "NUL byte",
    "@new --labels labels.csv --layout size.yaml": "has no column 'size', which --layout",
    "@new --labels labels.csv --layout int16.yaml": "line 2: unknown type 'int16'",
    "@new --labels labels.csv --layout bool.yaml": "line 2: the default '5' is not of type bool",
    "@rows": "--layout rows makes records from rows: give --labels CSV",
    "@rows --labels labels.csv --images '*.jpg'": "leave out --images",
    "@rows --labels labels.csv --resize shorter=9": "--resize cannot be used with --layout rows",
    "@rows --labels labels.csv --label_column id": "--label_column cannot be used with --layout",
    "@rows --labels labels.csv --files per_image": "--files cannot be used with --layout rows",
    "@rows --labels labels.csv --quarantine q": "--quarantine cannot be used with --layout rows",
    "@rows --labels labels.csv --split_by folder": "--split_by folder needs --images",
    "@rows --labels labels.csv --label_key c": "has no column 'c' (--label_key)",
    "@rows --labels labels.csv --split_by column:c": "has no column 'c' (--split_by)",
    "@rows --labels labels.csv --keys names.txt": "--keys",
}

NAMES = {
    "@two {split}.tfrec": "gives all files one name: it needs {shard}",
    "@two {label}/x.tfrec": "gives all files one name: it needs {stem}",
    "@two {split}/{shard}.tfrec": "fields are {split}, {label}, {stem} and {key}",
    "@two {label}/{stem}.tfrec": "has a /: add --files per_image",
    "@two {shard}.tfrec": "gives files of 'a' and 'b' one name: it needs {split}",
    "@two {label}{shard}.tfrec": FIELDS,
    **{
        f"@two {field}.tfrec": "fields are"
        for field in ("{shard.real}", "{shard!r}", "'{shard:>99999999d}'", "{}")
    },
    "@two {shard.tfrec": "expected '}'",
    **{
        f"@two '{name}'": NO_NAME
        for name in (
            *("../{stem}.tfrec", "{split}/{label}/{stem}.tfrec", "/{stem}.tfrec", "{stem}/.tfrec"),
            *("index/{stem}.tfrec~", ".{split}{shard}.tfrec", "{split}{shard}.txt"),
            *("{split}{shard}.tfrec.partial", "{split}:{shard}.tfrec", "{split}{{{shard}.tfrec"),
            "{split}{shard}\n.tfrec",
        )
    },
    "@two {split}{shard}.tfrec.gz": "ends in .gz: add --compression gzip",
}

FORMATS = {
    "@images --labels t.parquet": "t.parquet is not Parquet, or is damaged",
    "@images --labels a.jsonl": "a.jsonl: it is not JSON (Expecting value): write one",
    "@images --labels b.jsonl": "cannot tell which column is --label_key",
    "@images --labels c.jsonl --csv_encoding cp949": "--csv_encoding is for CSV",
    "@images --labels 'both/*'": "t.jsonl is JSON Lines, but",
    "@images --labels bad.json --layout detection": (
        "is damaged JSON at character 13: the file ends"
    ),
    "@images --labels other.json --layout detection": (
        "not a COCO file with boxes: it has no images"
    ),
    "@images --labels instances.json --layout detection --dense_labels": (
        "--dense_labels cannot be used with COCO"
    ),
    "@images --labels instances.json --layout detection --csv_delimiter ';'": (
        "is for CSV files, but --labels is COCO"
    ),
    "@rows --labels instances.json": "--layout rows needs a table",
    "@new --labels 'voc/*.xml' --layout detection": (
        "Pascal VOC files do not say in which folder images are: give --images GLOB"
    ),
    "@images --labels 'yolo/*.txt'": "YOLO, whose labels are boxes: add --layout detection",
    "@images --labels 'yolo/*.txt' --layout detection --key path": "be used with YOLO labels",
    # An empty file alone is no label file of anything.
    "@images --labels none/0.txt": "0.txt is empty: give a file",
}

ARCHIVES = {
    "@new --images '*.zip'": "'*.zip' is an archive: write '*.zip!/**/*' for the images in it",
    "@new --images 'a.tar.gz!/**'": "decompress it to .tar, with gunzip 'a.tar.gz' or the like",
    "@new --images a.tgz": "a compressed tar, whose files can only be read one after the other",
    "@new --images 'absent.zip!/**'": "there is no archive 'absent.zip', or no file in it",
    "@new --images 'a.zip!/*.png'": "a file in an archive is 'a.zip!/cat/",
    "@new --images 'long.zip!/*.png'": "long.zip: names and labels of its 1400",
    "@new --images 'broken.zip!/**'": "broken.zip: it is not a zip archive, or a damaged one",
    "@new --images 'broken.tar!/**'": "broken.tar: it is not a tar archive, or a damaged one",
    "--images 'a.zip!/**/*.jpg' --output 'a.zip!/out'": "an archive is only read",
    "@new --images 'a.zip!/**' --label_from webdataset": "finds no image with a KEY.cls",
    "@new --images no.parquet": "no.parquet is not Parquet, or is damaged",
    "@new --images cut.parquet": "cut.parquet is not Parquet, or is damaged",
    "@new --images absent.parquet": "no file matches --images 'absent.parquet",
    "@new --images hf": "'hf'; it is a folder, which holds 1 .parquet: try 'hf/**/*.parquet'",
    "@new --images text.parquet": "text.parquet has no single column of images",
    "@new --images pipe.parquet": "no file matches --images 'pipe.parquet",
    "@new --images a.parquet --record_features image=photo": "a.parquet has no column 'photo'",
    "@new --images a.parquet --record_features photo": (
        "'photo' is not like image=NAME,label=NAME,key=NAME"
    ),
    "@images --record_features image=photo": "--record_features is for Parquet files",
    "@new --images a.parquet --label_from records": "--label_from records needs",
    "@new --images a.parquet": "labels come from: give --record_features label=COLUMN, --labels",
    "@new --images a.parquet --record_features label=label": "no column 'label' (a text or number)",
}

RECORDS = {
    "@dataset --key uri": "leave --key out",
    "@dataset --layout detection": "needs box.xmin",
    "@dataset --label_from directory": "whose records keep their labels",
    "@dataset --quarantine bad": "--quarantine copies image files",
    "@dataset --root .": "--root is for image files",
    "@new --images out/manifest.json": f"manifest.json' {OF_RECORDS}",
    "@new --images out/train-00000-of-00001.tfrecord": f"00001.tfrecord' {OF_RECORDS}",
    "@new --images 'out/*.tfrecord*'": f"*.tfrecord*' {OF_RECORDS}",
    "--images out --output out --overwrite": "is also --output",
    "--images current --output out --overwrite": "is also --output",
    "@images --keys keys/absent": "no such file: --keys keys/absent; list keys in a file",
    "@images --keys keys/blank": "--keys keys/blank lists no key: write one per line",
    "@images --keys keys/bytes": "--keys keys/bytes:1 is not UTF-8: write one key per line",
    "@images --keys keys/stems": "no image has a key in --keys keys/stems, such as 'cat-0'; images "
    "have keys like 'cat/cat-0.jpg' (--key path); try --key stem",
}

CONVERT = CONTRADICTIONS | MASKS | LAYOUTS | LISTED | ROWS | NAMES | FORMATS | ARCHIVES | RECORDS
