"""Options about images, labels, boxes and the dataset itself: one half of `option_table.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pipeline.options.option import (
    NOT_RECORDED,
    Conflict,
    Need,
    Option,
    Parameter,
    label_regex,
    not_blank,
    not_empty,
)
from transforms.dataset.dataset_card import (
    DEFAULT_VERSION,
    check_homepage,
    check_name,
    check_text,
    check_version,
)
from transforms.examples.box_columns import parse_box_columns
from transforms.examples.boxes import FORMS, ORIENTATIONS, UNITS
from transforms.labels.csv_tables import delimiter_text, parse_delimiter
from transforms.labels.keys import KEY_KINDS
from transforms.labels.label_rows import KEY_CELLS
from transforms.labels.label_rules import NEW_CLASSES
from transforms.labels.vocabulary import LABEL_KINDS

if TYPE_CHECKING:
    from pipeline.resolve.config import ConvertConfig

LABELS = Need("--labels CSV")

GCS_PATH = "^gs://[a-z0-9._-]+/.+$"
COLUMN = "^.+$"

IMAGES_AND_LABELS = (
    Option(
        name="images",
        metavar="GLOB|DATASET",
        parse=not_empty,
        help="image glob, also of files in archives ('photos.zip!/**/*.jpg'), or the folder of a "
        "dataset, whose records are images; repeatable; if omitted, the CSV lists the images",
        is_repeatable=True,
        is_path=True,
        parameter=Parameter(
            "Images",
            GCS_PATH,
            help="one image glob, in which ** is any depth of folders; if omitted, the CSV lists "
            "the images",
        ),
    ),
    Option(
        name="masks",
        metavar="GLOB",
        parse=not_empty,
        help="glob of masks, one for each image, joined by --key: 'masks/*_mask.png' finds "
        "1_mask.png for 1.jpg; repeatable",
        is_repeatable=True,
        is_path=True,
        of_images=True,
        parameter=Parameter("Masks", GCS_PATH, help="one glob of masks, joined by --key"),
    ),
    Option(
        name="labels",
        # Airflow's Beam operator reserves the name `labels`.
        aliases=("label_file",),
        metavar="CSV",
        parse=not_empty,
        help="labels, a path or a glob: CSV, Parquet, JSON Lines, or boxes of COCO, Pascal VOC or "
        "YOLO; text may be compressed (.gz)",
        is_path=True,
        parameter=Parameter("Label file", GCS_PATH),
    ),
    Option(
        name="label_from",
        choices=("csv", "directory", "regex", "webdataset", "records", "none"),
        help="source of labels; if omitted: csv with --labels, records of datasets, webdataset if "
        "archives hold labels, else directory if there are folders",
        of_images=True,
        needs=(LABELS._replace(values=("csv",)), Need("--label_regex EXPR", ("regex",))),
        recorded=lambda config: config.label_from,
        parameter=Parameter("Source of labels"),
    ),
    Option(
        name="label_regex",
        metavar="EXPR",
        parse=label_regex,
        help="finds the label in an image's path: its group 'label', or its only group",
        of_images=True,
        conflicts=(Conflict("label_from", ("csv", "directory", "webdataset", "records", "none")),),
        recorded=lambda config: config.label_regex or None,
        parameter=Parameter("Expression that finds labels", "^.*[(].*[)].*$"),
    ),
    Option(
        name="label_key",
        metavar="COL",
        help="column that identifies the image: its name, or 1, 2, ...",
        needs=(LABELS,),
        recorded=lambda config: config.columns.key_name or None if config.columns else None,
        parameter=Parameter("Key column", COLUMN),
    ),
    Option(
        name="label_column",
        metavar="COL",
        help="column that holds the label: its name, or 1, 2, ...",
        of_images=True,
        needs=(LABELS,),
        conflicts=(
            Conflict("label_from", ("directory", "regex", "webdataset", "records", "none")),
        ),
        recorded=lambda config: config.columns.label_name if config.columns else None,
        parameter=Parameter("Label column", COLUMN),
    ),
    Option(
        name="label_separator",
        metavar="TEXT",
        parse=not_blank,
        help="separates several labels in one cell, such as |",
        of_images=True,
        # That of lists in a file is no option.
        recorded=lambda config: config.label_separator.strip() or None,
        parameter=Parameter("Separator of labels", "^.*[^ ].*$"),
    ),
    Option(
        name="label_kind",
        choices=LABEL_KINDS,
        default="auto",
        help="type of the labels; auto: integers if all of them are",
        of_images=True,
        conflicts=(Conflict("label_from", ("none",), "there are no labels"),),
        recorded=lambda config: config.label_kind,
        parameter=Parameter("Kind of labels"),
    ),
    Option(
        name="dense_labels",
        is_switch=True,
        help="number integer labels from 0 without gaps",
        of_images=True,
        conflicts=(
            Conflict("label_from", ("none",), "there are no labels"),
            Conflict("label_kind", ("text",), "its class ids have no gaps"),
        ),
        recorded=lambda config: config.dense_labels,
        parameter=Parameter("Dense class ids"),
    ),
    Option(
        name="key",
        choices=KEY_KINDS,
        help="how CSV rows identify images: stem, name, relative path or URI",
        of_images=True,
        recorded=lambda config: config.key,
        parameter=Parameter("Key of images"),
    ),
    Option(
        name="root",
        metavar="DIR",
        parse=not_empty,
        help="folder that record paths and keys are relative to; if omitted, the common folder "
        "of --images",
        is_path=True,
        parameter=Parameter("Root folder", GCS_PATH),
    ),
    Option(
        name="keys",
        metavar="FILE",
        parse=not_empty,
        help="keep only images with these keys, one per line; - for standard input",
        is_path=True,
        of_images=True,
        parameter=Parameter(
            "Keys to keep", GCS_PATH, help="keep only images with these keys, one per line"
        ),
    ),
    Option(
        name="reuse",
        metavar="DIR",
        parse=not_empty,
        help="take unchanged images from the records of this dataset; repeatable",
        is_repeatable=True,
        is_path=True,
        of_images=True,
        parameter=Parameter("Datasets to reuse", GCS_PATH),
    ),
    Option(
        name="key_cells",
        choices=KEY_CELLS,
        default="auto",
        help="how rows spell keys; auto: also with backslashes, or relative to another folder",
        of_images=True,
        needs=(LABELS,),
        recorded=lambda config: config.key_cells,
        parameter=Parameter("Spelling of keys"),
    ),
    Option(
        name="csv_delimiter",
        metavar="CHAR",
        parse=parse_delimiter,
        help="separator of cells, such as ; or tab; if omitted, inferred from the first line of "
        "each file",
        needs=(LABELS,),
        recorded=lambda config: (
            delimiter_text(config.columns.delimiter) if config.columns else None
        ),
        parameter=Parameter(
            "Separator of the label file", '^([^A-Za-z0-9"]|tab|space|comma|semicolon)$'
        ),
    ),
    Option(
        name="csv_encoding",
        metavar="ENC",
        default="utf-8",
        help="text encoding of the label file, such as cp949 or utf-16",
        needs=(LABELS,),
        recorded=lambda config: config.csv_encoding,
        parameter=Parameter("Encoding of the label file", "^[A-Za-z0-9_.-]+$"),
    ),
    # Not a parameter of the template: remote workers cannot read local files.
    Option(
        name="allow_outside",
        is_switch=True,
        help="let rows list local files anywhere, not only where the CSV and its first images are",
    ),
    Option(
        name="class_names",
        metavar="FILE|DATASET",
        parse=not_empty,
        help="class names in the order of their ids, one per line; or the folder of a dataset, "
        "whose ids are kept",
        is_path=True,
        of_images=True,
        conflicts=(Conflict("label_from", ("none",), "there are no labels"),),
        recorded=lambda config: (
            # Those of label files are no option.
            list(config.class_names)
            if config.class_names is not None and (config.known_ids or config.class_ids is None)
            else None
        ),
        parameter=Parameter("Class names", GCS_PATH),
    ),
    Option(
        name="new_classes",
        choices=NEW_CLASSES,
        help="labels that --class_names lacks: new classes after the known ones (append), or an "
        "error (refuse); if omitted, their images are rejected",
        of_images=True,
        needs=(Need("--class_names FILE|DATASET"),),
        recorded=lambda config: "append" if config.new_classes == "append" else NOT_RECORDED,
        parameter=Parameter("New classes"),
    ),
)

BOXES = (
    Option(
        name="box_columns",
        metavar="COL,COL,COL,COL",
        parse=parse_box_columns,
        help="columns of boxes, names or numbers; if omitted, found by their headers",
        of_images=True,
        recorded=lambda config: list(config.boxes.columns) if config.boxes else None,
        parameter=Parameter("Columns of boxes", "^[^,]+,[^,]+,[^,]+,[^,]+$"),
    ),
    Option(
        name="box_form",
        choices=tuple(FORMS),
        help="what the columns hold: two corners, x,y,w,h (COCO), or center and size (YOLO)",
        of_images=True,
        recorded=lambda config: config.boxes.form if config.boxes else None,
        parameter=Parameter("Form of boxes"),
    ),
    Option(
        name="box_units",
        choices=UNITS,
        help="box coordinate units; inferred from the first rows if omitted",
        of_images=True,
        recorded=lambda config: config.boxes.units if config.boxes else None,
        parameter=Parameter("Units of boxes"),
    ),
    Option(
        name="box_orientation",
        choices=ORIENTATIONS,
        help="whether boxes refer to the stored pixels, or to the image after EXIF rotation",
        of_images=True,
        recorded=lambda config: config.boxes.orientation if config.boxes else None,
        parameter=Parameter("Orientation of boxes"),
    ),
)

_NAME = Need("--name NAME")
_NUMBER = "(0|[1-9][0-9]*)"
# Also of several lines, which a point would not match.
_TEXT = "^[^ ]([^ ]| )*$"


def _field(name: str) -> Callable[[ConvertConfig], object]:
    """What is recorded of a field: nothing without a value, so that older datasets stay valid."""
    return lambda config: (config.card and getattr(config.card, name)) or NOT_RECORDED


CARD = (
    Option(
        name="name",
        metavar="NAME",
        parse=check_name,
        help="name of the dataset: adds README.md, croissant.json and the name that tfds.load uses",
        recorded=_field("name"),
        parameter=Parameter("Name", "^[a-z][a-z0-9_]*$"),
    ),
    # `--version` without a value prints that of the program.
    Option(
        name="dataset_version",
        metavar="X.Y.Z",
        parse=check_version,
        help=f"version of the dataset, also as --version X.Y.Z; if omitted: {DEFAULT_VERSION}",
        needs=(_NAME,),
        recorded=_field("dataset_version"),
        parameter=Parameter(
            "Version",
            f"^{_NUMBER}[.]{_NUMBER}[.]{_NUMBER}$",
            help=f"version of the dataset; if omitted: {DEFAULT_VERSION}",
        ),
    ),
    Option(
        name="description",
        metavar="TEXT",
        parse=check_text,
        help="what the dataset is, as text or Markdown",
        needs=(_NAME,),
        recorded=_field("description"),
        parameter=Parameter("Description", _TEXT),
    ),
    Option(
        name="citation",
        metavar="TEXT",
        parse=check_text,
        help="how to cite the dataset, such as BibTeX",
        needs=(_NAME,),
        recorded=_field("citation"),
        parameter=Parameter("Citation", _TEXT),
    ),
    Option(
        name="license",
        metavar="LICENSE",
        parse=check_text,
        help="license of the dataset: an SPDX identifier (CC-BY-4.0), a web address or a text",
        needs=(_NAME,),
        recorded=_field("license"),
        parameter=Parameter("License", _TEXT),
    ),
    Option(
        name="homepage",
        metavar="URL",
        parse=check_homepage,
        help="web page of the dataset",
        needs=(_NAME,),
        recorded=_field("homepage"),
        parameter=Parameter("Homepage", "^https?://[^ /]+[^ ]*$"),
    ),
    Option(
        name="croissant",
        metavar="FILE|JSON",
        parse=not_empty,
        help="further properties of croissant.json, as YAML or JSON: creator, datePublished, "
        "keywords, rai:dataBiases and others of responsible AI",
        needs=(_NAME,),
        recorded=_field("croissant"),
        parameter=Parameter("Properties of croissant.json", "^(gs://[a-z0-9._-]+/.+|[{].*[}])$"),
    ),
)
