"""Options for what is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pipeline.options.input_options import BOXES, CARD, COLUMN, GCS_PATH, IMAGES_AND_LABELS, LABELS
from pipeline.options.option import (
    LAYOUT_NAMES,
    NOT_RECORDED,
    Conflict,
    Need,
    Option,
    Parameter,
    at_least_one,
    image_depth,
    jpeg_quality,
    layout_name,
    not_empty,
    parse_shard_size,
    parse_size,
    seed_value,
    shard_number,
)
from transforms.core.rejections import DEFAULT_LIMIT, RejectionLimit
from transforms.dataset.output_names import FILES
from transforms.images.pixel_options import (
    CHECK_MODES,
    COLORS,
    DEDUPE_MODES,
    DEFAULT_LIMITS,
    DEFAULT_QUALITY,
    DEPTHS,
    EMBED_DTYPES,
    ORIENTATIONS,
    TRANSCODINGS,
    Resize,
)
from transforms.labels.shards import SHARD_BY
from transforms.labels.splits import SPLIT_SOURCES, parse_splits

if TYPE_CHECKING:
    from pipeline.resolve.config import ConvertConfig


# Options about splits, records, pixels and checks: one half of the table in `option_table.py`.

PROGRESS_STYLES = ("auto", "plain", "json", "off")

_PER_IMAGE = Conflict("files", ("per_image",), "every image is a file of its own")

_SHARE = "[A-Za-z][A-Za-z0-9_]*=[0-9.]+%?"
_LAYOUT = f"^({'|'.join(LAYOUT_NAMES)}|gs://[a-z0-9._-]+/.+[.]ya?ml)$"
_SIDE = "[1-9][0-9]{0,4}"

OUTPUT = (
    Option(
        name="output",
        metavar="DIR",
        parse=not_empty,
        help="folder of the dataset",
        is_required=True,
        is_path=True,
        parameter=Parameter("Output folder", GCS_PATH),
    ),
    Option(
        name="splits",
        metavar="NAME=SHARE,...",
        parse=parse_splits,
        default="train=1",
        help="splits and their shares, assigned by a hash of the key",
        recorded=lambda config: dict(config.splits),
        parameter=Parameter("Splits", f"^{_SHARE}(,{_SHARE})*$"),
    ),
    Option(
        name="group_by",
        metavar="COL",
        help="column whose equal cells stay together in one split",
        needs=(LABELS,),
        conflicts=(Conflict("split_from", ("directory",)),),
        recorded=lambda config: config.columns.group_name if config.columns else None,
        parameter=Parameter("Group column", COLUMN),
    ),
    Option(
        name="split_from",
        choices=(*SPLIT_SOURCES, "records"),
        help="source of the split; if omitted: csv with --split_column, records of datasets "
        "without --splits, else hash",
        needs=(LABELS._replace(values=("csv",)),),
        recorded=lambda config: config.split_from,
        parameter=Parameter("Source of the split"),
    ),
    Option(
        name="split_column",
        metavar="COL",
        help="column that holds the split: its name, or 1, 2, ...",
        needs=(LABELS,),
        conflicts=(Conflict("split_from", ("hash", "directory", "records")),),
        recorded=lambda config: config.columns.split_name if config.columns else None,
        parameter=Parameter("Split column", COLUMN),
    ),
    Option(
        name="stratify",
        choices=("label",),
        help="give each class its share of each split, within one image",
        of_images=True,
        needs=(Need("--splits NAME=SHARE,..."),),
        conflicts=(
            Conflict("label_from", ("none",), "there are no labels"),
            Conflict("split_from", ("csv", "directory", "records"), "the inputs name the splits"),
            Conflict("split_column", why="the column names the splits"),
        ),
        recorded=lambda config: config.stratify or NOT_RECORDED,
        parameter=Parameter("Stratified splits"),
    ),
    Option(
        name="seed",
        metavar="N",
        parse=seed_value,
        default=0,
        help="seed for record order and split assignment",
        recorded=lambda config: config.seed,
        parameter=Parameter("Seed", "^-?[0-9]{1,38}$"),
    ),
    Option(
        name="num_shards",
        metavar="N",
        parse=shard_number,
        help="number of shards of each split",
        conflicts=(Conflict("shard_size", why="give one of them"), _PER_IMAGE),
        recorded=lambda config: config.num_shards,
        parameter=Parameter("Shards of each split", "^[1-9][0-9]{0,4}$"),
    ),
    Option(
        name="shard_size",
        metavar="SIZE",
        parse=parse_shard_size,
        help="approximate size of a shard, at least 1MB; if omitted: 150MB",
        conflicts=(_PER_IMAGE,),
        recorded=lambda config: config.shard_size,
        parameter=Parameter(
            "Size of a shard", "^([1-9][0-9]*([.][0-9]+)?[MG]i?B|[1-9][0-9]{3,}Ki?B)$"
        ),
    ),
    Option(
        name="shard_by",
        choices=SHARD_BY,
        default="hash",
        help="shards are equal ranges of the hash of the key, or have equal numbers of records",
        conflicts=(_PER_IMAGE,),
        recorded=lambda config: "records" if config.shard_by == "records" else NOT_RECORDED,
        parameter=Parameter("Division into shards"),
    ),
    Option(
        name="layout",
        metavar="NAME|FILE",
        parse=layout_name,
        default="slim",
        help=f"features of the Examples: {', '.join(LAYOUT_NAMES)}, or your own .yaml file",
        is_path=True,
        recorded=lambda config: config.layout,
        parameter=Parameter("Features", _LAYOUT),
    ),
)

FILES_OF_THE_DATASET = (
    Option(
        name="files",
        choices=FILES,
        default="sharded",
        help="shards, or one file per image, named after its key",
        of_images=True,
        recorded=lambda config: config.files,
        parameter=Parameter("Files"),
    ),
    Option(
        name="compression",
        choices=("none", "gzip"),
        default="none",
        help="compression of the shards",
        recorded=lambda config: "gzip" if config.gzip else "none",
        parameter=Parameter("Compression"),
    ),
    Option(
        name="overwrite",
        is_switch=True,
        help="replace an existing dataset",
        parameter=Parameter("Overwrite"),
    ),
)

PIXELS = (
    Option(
        name="transcode",
        choices=TRANSCODINGS,
        default="keep",
        help="keep formats, convert what TensorFlow cannot read (auto), or convert every image",
        of_images=True,
        recorded=lambda config: config.pixels.transcode,
        parameter=Parameter("Image formats"),
    ),
    Option(
        name="resize",
        metavar="SIZE",
        parse=Resize.parse,
        help="shorter=N, longer=N or WIDTHxHEIGHT; with ,never_enlarge small images stay as they "
        "are",
        of_images=True,
        recorded=lambda config: str(config.pixels.resize) if config.pixels.resize else None,
        parameter=Parameter(
            "Image sizes", f"^((shorter|longer)={_SIDE}|{_SIDE}x{_SIDE})(,never_enlarge)?$"
        ),
    ),
    Option(
        name="color",
        choices=COLORS,
        default="keep",
        help="keep the channels, or convert to three (rgb) or one (gray)",
        of_images=True,
        recorded=lambda config: config.pixels.color,
        parameter=Parameter("Channels"),
    ),
    Option(
        name="quality",
        metavar="N",
        parse=jpeg_quality,
        help=f"quality of re-encoded JPEGs, 1 to 100; if omitted: {DEFAULT_QUALITY}",
        of_images=True,
        recorded=lambda config: config.pixels.quality,
        parameter=Parameter("Quality of JPEGs", "^([1-9][0-9]?|100)$"),
    ),
    Option(
        name="exif_orientation",
        choices=ORIENTATIONS,
        default="keep",
        help="keep the EXIF tag, or apply it by rotating the pixels",
        of_images=True,
        recorded=lambda config: config.pixels.exif_orientation,
        parameter=Parameter("EXIF orientation"),
    ),
    Option(
        name="depth",
        metavar="8|16",
        parse=image_depth,
        default=DEPTHS[0],
        help="bits of changed PNGs, TIFFs and HEICs with more than 8: 8 for color, or 16",
        of_images=True,
        # Without it, datasets of earlier versions are up to date.
        recorded=lambda config: 16 if config.pixels.depth == 16 else NOT_RECORDED,
        parameter=Parameter("Bits of images", "^(8|16)$"),
    ),
    Option(
        name="strip_metadata",
        is_switch=True,
        help="remove GPS, EXIF, XMP, IPTC and texts from image files, without touching pixels; "
        "orientation and color profile stay",
        of_images=True,
        # Without it, datasets of earlier versions are up to date.
        recorded=lambda config: True if config.strip_metadata else NOT_RECORDED,
        parameter=Parameter("Strip metadata"),
    ),
)

EMBEDDINGS = (
    Option(
        name="model",
        metavar="MODEL",
        parse=not_empty,
        help="Keras file, SavedModel folder or keras.applications name, for --layout embedding",
        is_path=True,
        of_images=True,
        recorded=lambda config: config.model_digest or NOT_RECORDED,
        parameter=Parameter("Model", "^(gs://[a-z0-9._-]+/.+|[A-Za-z][A-Za-z0-9_]*)$"),
    ),
    Option(
        name="model_weights",
        metavar="FILE",
        parse=not_empty,
        help="weights for a keras.applications name",
        is_path=True,
        of_images=True,
        recorded=lambda config: (
            config.embedding.digests[1] or None if config.embedding else NOT_RECORDED
        ),
        parameter=Parameter("Weights of the model", GCS_PATH),
    ),
    Option(
        name="embed_dtype",
        choices=EMBED_DTYPES,
        help="type of the embeddings; bfloat16 takes half the size; if omitted: float32",
        of_images=True,
        recorded=lambda config: config.embedding.dtype if config.embedding else NOT_RECORDED,
        parameter=Parameter("Type of embeddings"),
    ),
)

CHECKS = (
    Option(
        name="check",
        choices=CHECK_MODES,
        default="full",
        help="decode every pixel, or read only the headers",
        of_images=True,
        recorded=lambda config: config.check,
        parameter=Parameter("Check"),
    ),
    Option(
        name="max_pixels",
        metavar="N",
        parse=at_least_one,
        default=DEFAULT_LIMITS.max_pixels,
        help="reject images with more pixels before they are decoded",
        of_images=True,
        recorded=lambda config: config.limits.max_pixels,
        parameter=Parameter("Maximum pixels", "^[1-9][0-9]*$"),
    ),
    Option(
        name="max_bytes",
        metavar="SIZE",
        parse=parse_size,
        default=f"{DEFAULT_LIMITS.max_bytes // 10**6}MB",
        help="reject larger files before they are read",
        of_images=True,
        recorded=lambda config: config.limits.max_bytes,
        parameter=Parameter(
            "Maximum bytes", "^([1-9][0-9]*([.][0-9]+)?(B|[KMG]i?B)|[1-9][0-9]{3,})$"
        ),
    ),
    Option(
        name="max_rejected",
        metavar="SHARE|COUNT",
        parse=RejectionLimit.parse,
        default=DEFAULT_LIMIT,
        help="publish nothing if more images are rejected; with 'or', the larger limit counts",
        parameter=Parameter(
            "Maximum rejected images",
            "^([0-9]+|(0?[.][0-9]+|1[.]0+|[0-9]{1,2}([.][0-9]+)?%|100%)( or [0-9]+)?)$",
        ),
    ),
    Option(
        name="strict",
        is_switch=True,
        help="publish nothing if there are warnings",
        parameter=Parameter("Strict"),
    ),
    Option(
        name="dedupe",
        choices=DEDUPE_MODES,
        default="report",
        help="off; report exact and near-duplicates; drop exact duplicates, keeping one",
        of_images=True,
        # A report changes no record.
        recorded=lambda config: "drop" if config.dedupe == "drop" else NOT_RECORDED,
        parameter=Parameter("Duplicates"),
    ),
    Option(
        name="holdout",
        metavar="DIR[:SPLIT]",
        parse=not_empty,
        help="report images equal or similar to those of this dataset, or of one of its splits, "
        "like duplicates; repeatable",
        is_repeatable=True,
        is_path=True,
        of_images=True,
        conflicts=(Conflict("dedupe", ("off",), "it searches for duplicates"),),
        recorded=lambda config: config.held_out or NOT_RECORDED,
        parameter=Parameter("Datasets to hold out", GCS_PATH),
    ),
    Option(
        name="quarantine",
        metavar="DIR",
        parse=not_empty,
        help="copy rejected images to DIR/REASON/PATH",
        is_path=True,
        of_images=True,
        parameter=Parameter("Folder for rejected images", GCS_PATH),
    ),
)

# Not parameters of the template: its launcher ends before the job begins, on other machines.
RUN = (
    Option(
        name="config",
        metavar="FILE",
        parse=not_empty,
        help="YAML file of options, or the manifest.json of a dataset to repeat; flags win",
        is_path=True,
    ),
    Option(
        name="workers",
        metavar="N",
        parse=at_least_one,
        help="worker processes on this machine; if omitted: 1; for large jobs, 1 for every 4 cores",
    ),
    Option(
        name="progress",
        choices=PROGRESS_STYLES,
        default="auto",
        help="a bar on a terminal, plain lines otherwise",
    ),
    Option(
        name="quiet",
        short="q",
        is_switch=True,
        help="print only errors and the final line; --progress auto shows nothing",
        conflicts=(Conflict("verbose", why="give one of them"),),
    ),
    Option(
        name="verbose",
        short="v",
        is_switch=True,
        help="also print logs of libraries, and the traceback of an error",
    ),
)


# Every option of `convert` and `plan`, declared once.
#
# The table defines the parser and its help, the options in the manifest and in shard recipes, the
# parameters of the Flex Template (`deploy/metadata.json`) and the reference (`docs/options.md`).

GROUPS: Mapping[str, tuple[Option, ...]] = {
    "images and labels": IMAGES_AND_LABELS,
    "output": (*OUTPUT, *BOXES, *FILES_OF_THE_DATASET),
    "description": CARD,
    "pixels": PIXELS,
    "embeddings": EMBEDDINGS,
    "checks": CHECKS,
    "run": RUN,
}

OPTIONS: Mapping[str, Option] = {
    option.name: option for group in GROUPS.values() for option in group
}


def recorded_options(config: ConvertConfig) -> dict[str, Any]:
    """The options that affect output bytes, by name; equal options and inputs give equal files."""
    values = {
        option.name: option.recorded(config)
        for option in OPTIONS.values()
        if option.recorded is not None
    }
    return {name: value for name, value in values.items() if value is not NOT_RECORDED}
