"""The golden conversions: a table of flags, small enough to run all of them in seconds."""

from collections.abc import Mapping
from typing import Any, NamedTuple


class Conversion(NamedTuple):
    """One conversion.

    Attributes:
        flags: of `convert` without `--output`; paths are below the folder of the inputs.
        of: the conversion whose flags it takes over, which `flags` change; empty for none.
        by_library: whether versions of libraries decide its bytes: pixels that are changed, models
            and gzip.
    """

    flags: Mapping[str, Any]
    of: str = ""
    by_library: bool = False


def flags_of(name: str) -> dict[str, Any]:
    """All flags of a conversion."""
    flags, base, _ = CONVERSIONS[name]
    return {**(flags_of(base) if base else {}), **flags}


QUICK = (
    "dense integers",
    "listed, automl",
    "key stem",
    "rows as they are",
    "one file an image",
    "tutorial",
    "turned boxes",
    "coco",
    "coco, masks",
    "several labels",
    "pixels",
    "rows",
    "rows of columns",
    "bfloat16",
    "damaged",
    "equal, left out",
)
"""Conversions that together have every layout and most options. The others are `slow`."""

_ALL = {"max_rejected": "100%"}
_PHOTOS = {"images": "photos/*/*.jpg"}

CONVERSIONS = {
    # where labels come from
    "folders": Conversion(_PHOTOS),
    "no labels": Conversion({"label_from": "none"}, "folders"),
    "label by regex": Conversion({"label_from": r"regex:-(\d)\."}, "folders"),
    "class names": Conversion({"class_names": "classes.txt"}, "folders"),
    "other class names": Conversion({"class_names": "foxes.txt", **_ALL}, "folders"),
    "masks": Conversion({"masks": "masks/*.png"}, "no labels", by_library=True),
    "new classes": Conversion({"new_classes": "append"}, "other class names"),
    "csv": Conversion({**_PHOTOS, **_ALL, "labels": "packed.csv.gz", "strict": True}),
    "other label column": Conversion({"label_column": "kind"}, "csv"),
    "other key column": Conversion({"label_key": "other"}, "csv"),
    "wrong encoding": Conversion({**_PHOTOS, "labels": "korean.csv", "csv_encoding": "latin-1"}),
    "encoding": Conversion({"csv_encoding": "cp949"}, "wrong encoding"),
    "separator found": Conversion({**_PHOTOS, "labels": "separators.csv"}),
    "separator given": Conversion({"csv_delimiter": ";"}, "separator found"),
    "integers": Conversion({"labels": "numbers.csv"}, "csv"),
    "integers as text": Conversion({"label_kind": "text"}, "integers"),
    "dense integers": Conversion({"dense_labels": True}, "integers"),
    "keys": Conversion({"keys": "keys.txt", "strict": None}, "csv"),
    # images that rows list
    "listed, automl": Conversion({"labels": "automl.csv", "seed": 7}),
    "listed": Conversion({"labels": "rows/listed.csv", **_ALL}),
    "listed outside": Conversion({"allow_outside": True}, "listed"),
    # images in archives
    "archive": Conversion({"images": "packed/photos.zip!/*/*.jpg", "label_from": "directory"}),
    "webdataset": Conversion({"images": "packed/*.tar!/*.jpg", "label_from": "webdataset"}),
    # keys and paths
    "landmark": Conversion(
        {"images": ["photos/cat/*.jpg", "photos/[df]*/*.jp*"], "layout": "landmark"}
    ),
    "fewer images": Conversion({"images": "photos/[cd]*/*.jpg"}, "landmark"),
    "key stem": Conversion({"key": "stem"}, "landmark"),
    "key uri": Conversion({"key": "uri"}, "landmark"),
    "rows with names": Conversion({"labels": "names.csv", "key": "name"}, "landmark"),
    "rows of another folder": Conversion({**_PHOTOS, **_ALL, "labels": "moved.csv", "key": "path"}),
    "rows as they are": Conversion({"key_cells": "as_is"}, "rows of another folder"),
    "root": Conversion({"root": "."}, "folders"),
    # splits and shards
    "other splits": Conversion({"splits": "fit=0.5,eval=0.25,last=0.25"}, "folders"),
    "overwritten": Conversion({"overwrite": True, "seed": 5}, "folders"),
    "stratify": Conversion({"stratify": "label"}, "other splits"),
    "splits of folders": Conversion({"split_by": "folder"}, "no labels"),
    "places": Conversion({**_PHOTOS, "labels": "places.csv", "splits": "train=0.5,test=0.5"}),
    "groups": Conversion({"group_by": "who"}, "places"),
    "stratify groups": Conversion({"stratify": "label"}, "groups"),
    "splits of rows": Conversion({**_PHOTOS, "labels": "places.csv", "split_by": "column:set"}),
    "other splits of rows": Conversion({"split_by": "column:fold"}, "splits of rows"),
    "shards": Conversion({"num_shards": 3}, "folders"),
    "file names": Conversion({"file_name": "{split}_{shard}.record-{shards:02d}"}, "shards"),
    "shard by records": Conversion({"shard_by": "records"}, "shards"),
    "large": Conversion({"images": "large/*.png", "label_from": "none", "check": "header"}),
    "shard size": Conversion({"shard_size": "1MB"}, "large"),
    "one file an image": Conversion({"files": "per_image"}, "other splits"),
    "gzip": Conversion({"compression": "gzip"}, "other splits", by_library=True),
    # layouts
    "tutorial": Conversion({"layout": "tutorial"}, "folders"),
    "detection": Conversion(
        {**_PHOTOS, "labels": "boxes.csv", "layout": "detection", "boxes": "units=pixel"}
    ),
    "other boxes": Conversion({"boxes": "units=pixel,columns=a,b,c,d"}, "detection"),
    "normalized boxes": Conversion({"boxes": "units=normalized,columns=a,b,c,d"}, "other boxes"),
    "centers": Conversion({"boxes": "form=center,units=normalized,columns=a,b,c,d"}, "other boxes"),
    "stored boxes": Conversion(
        {"images": "kinds/*/*exif*", "labels": "turned.csv", "layout": "detection"}
    ),
    "upright boxes": Conversion({"boxes": "orientation=upright"}, "stored boxes"),
    "turned boxes": Conversion({"exif_orientation": "apply"}, "upright boxes", by_library=True),
    "coco": Conversion({**_PHOTOS, "labels": "instances.json", "layout": "detection"}),
    "coco, other ids": Conversion({"class_names": "classes.txt"}, "coco"),
    "coco, masks": Conversion(
        {"labels": "segmented.json", "layout": "detection_masks"}, "coco", by_library=True
    ),
    "voc": Conversion({"labels": "voc/*.xml"}, "coco"),
    "yolo": Conversion({"labels": "yolo/*.txt"}, "coco, other ids"),
    "objects": Conversion({"layout": "objects.yaml"}, "detection"),
    "yaml": Conversion({**_PHOTOS, **_ALL, "labels": "many.csv", "layout": "many.yaml"}),
    "several labels": Conversion({"label_separator": "|"}, "yaml"),
    "stratify several labels": Conversion(
        {"splits": "train=0.5,test=0.5", "stratify": "label"}, "several labels"
    ),
    "pixels": Conversion(
        {
            **_PHOTOS,
            "label_from": "directory",
            "layout": "pixels.yaml",
            "resize": "8x6",
            "color": "rgb",
        },
        by_library=True,
    ),
    "rows": Conversion({"labels": "table.csv", "layout": "rows", **_ALL}),
    "rows of columns": Conversion(
        {"layout": "table.yaml", "label_key": "id", "split_by": "column:set"}, "rows"
    ),
    "embedding": Conversion(
        {**_PHOTOS, "label_from": "directory", "layout": "embedding", "model": "pool4.keras"},
        by_library=True,
    ),
    "other model": Conversion({"model": "pool2.keras"}, "embedding", by_library=True),
    "bfloat16": Conversion({"embed_dtype": "bfloat16"}, "embedding", by_library=True),
    # pixels
    "kinds": Conversion(
        {"images": "kinds/*/*", "label_from": "directory", "dedupe": "off", **_ALL}
    ),
    "transcode auto": Conversion({"transcode": "auto"}, "kinds", by_library=True),
    "transcode jpeg": Conversion({"transcode": "jpeg"}, "kinds", by_library=True),
    "transcode png": Conversion({"transcode": "png"}, "kinds", by_library=True),
    "quality": Conversion({"quality": 30}, "transcode jpeg", by_library=True),
    "resize": Conversion({"resize": "shorter=16"}, "kinds", by_library=True),
    "never enlarged": Conversion({"resize": "longer=40,never_enlarge"}, "kinds", by_library=True),
    "gray": Conversion({"color": "gray"}, "kinds", by_library=True),
    "depth": Conversion({"depth": 16}, "gray", by_library=True),
    "exif": Conversion({"exif_orientation": "apply"}, "kinds", by_library=True),
    "stripped": Conversion({"strip_metadata": True}, "kinds"),
    # what is said about a dataset
    "named": Conversion(
        {
            "name": "pets",
            "dataset_version": "1.2.0",
            "description": "Photos of pets, 애완동물.\n\nThree kinds.",
            "citation": "@misc{pets,\n title = {Pets}\n}",
            "license": "CC-BY-4.0",
            "homepage": "https://example.org/pets",
            "croissant": '{"creator": "Ann Lee", "rai:dataBiases": ["cats"]}',
        },
        "other splits",
    ),
    # what is checked and left out
    "damaged": Conversion(
        {"images": "damaged/*/*", "label_from": "directory", "quarantine": "left/out", **_ALL}
    ),
    "header": Conversion({"check": "header"}, "damaged"),
    "fewer pixels": Conversion({"max_pixels": 12 * 16}, "kinds"),
    "fewer bytes": Conversion({"max_bytes": "1kB"}, "kinds"),
    "equal": Conversion({"images": "equal/*/*.jpg", "label_from": "directory", **_ALL}),
    "equal, left out": Conversion({"dedupe": "drop"}, "equal"),
}
