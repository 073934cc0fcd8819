"""The flags of `convert` and `plan`. Whatever is not ours is Beam's, or an error.

Our flags have a parser of their own: Beam's Dataflow options already claim `--labels` (labels of
the job, also spelt `--label`), and one argparse parser cannot hold both.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from pipeline.errors import UsageError
from pipeline.flags import flag_values
from pipeline.flags.job_labels import job_labels_apart
from pipeline.flags.one_line_parser import HelpFormatter, OneLineParser, typed
from pipeline.flags.sizes import parse_shard_size, parse_size
from pipeline.flags.unknown_flags import refuse_unknown
from transforms.core.dataset.image_file_names import FILES
from transforms.core.duplicates.equal_images import MODES as DEDUPE_MODES
from transforms.core.features.box_columns import parse_box_columns
from transforms.core.features.boxes import FORMS, UNITS
from transforms.core.features.boxes import ORIENTATIONS as BOX_ORIENTATIONS
from transforms.core.images.check import DEFAULT_LIMITS, MODES
from transforms.core.images.embeddings import DTYPES
from transforms.core.images.pixel_options import (
    COLORS,
    DEFAULT_QUALITY,
    ORIENTATIONS,
    TRANSCODINGS,
    Resize,
)
from transforms.core.labels.label_kinds import LABEL_KINDS
from transforms.core.planning.keys import KEY_KINDS
from transforms.core.planning.rejection_limit import DEFAULT_LIMIT, RejectionLimit
from transforms.core.planning.split_assignment import SPLIT_SOURCES
from transforms.core.planning.splits import parse_splits
from transforms.core.tables.csv_starts import parse_delimiter
from transforms.core.tables.key_cells import KEY_CELLS

PROGRESS_STYLES = ("auto", "plain", "json", "off")


def make_parser(command: str) -> argparse.ArgumentParser:
    """The parser of `convert` or `plan`."""
    parser = OneLineParser(
        prog=f"python -m pipeline.{command}",
        allow_abbrev=False,
        formatter_class=HelpFormatter,
        epilog="Any option of Apache Beam passes through, such as --runner DataflowRunner.",
    )
    _add_inputs(parser.add_argument_group("images and labels"))
    _add_output(parser.add_argument_group("output"))
    _add_pixels(parser.add_argument_group("pixels"))
    _add_model(parser.add_argument_group("embeddings"))
    _add_checks(parser.add_argument_group("checks"))
    return parser


def _add_inputs(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--images",
        action="append",
        metavar="GLOB",
        help="images; repeatable; without: those of the rows",
    )
    # Airflow's Beam operator keeps the name `labels` to itself.
    add(
        "--labels",
        "--label_file",
        metavar="CSV",
        help="label file, a path or a glob; .gz is fine",
    )
    add(
        "--label_from",
        choices=("csv", "directory", "regex", "none"),
        help="where labels are; without it: csv with --labels, directory if there are folders",
    )
    add(
        "--label_regex",
        type=typed(flag_values.label_regex),
        metavar="EXPR",
        help="finds the label in an image's path: its group 'label', or its only group",
    )
    add("--label_key", metavar="COL", help="column that names the image; a name, or 1, 2 ...")
    add("--label_column", metavar="COL", help="column that holds the label; likewise")
    add(
        "--label_separator",
        type=typed(flag_values.not_blank),
        metavar="TEXT",
        help="between several labels in one cell, such as |",
    )
    add(
        "--label_kind",
        choices=LABEL_KINDS,
        default="auto",
        help="what labels are; auto: integers if all of them are",
    )
    add("--dense_labels", action="store_true", help="number integer labels from 0 without gaps")
    add("--key", choices=KEY_KINDS, help="what of an image's path a row must name")
    _add_csv(group)
    add(
        "--root",
        type=typed(flag_values.not_empty),
        metavar="DIR",
        help="folder below which paths and keys begin; if omitted, the common folder of --images",
    )
    add(
        "--allow_outside",
        action="store_true",
        help="let rows list local files anywhere, not only where the CSV and its first images are",
    )
    add("--class_names", metavar="FILE", help="class names in the order of their ids, one a line")


def _add_csv(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--key_cells",
        choices=KEY_CELLS,
        default="auto",
        help="how rows spell keys; auto: also with \\, or below another folder",
    )
    add("--csv_encoding", default="utf-8", metavar="ENC", help="such as cp949 or utf-16")
    add(
        "--csv_delimiter",
        type=typed(parse_delimiter),
        metavar="CHAR",
        help="between cells, such as ; or tab; if omitted, the first line of each file shows it",
    )


def _add_output(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--output",
        type=typed(flag_values.not_empty),
        required=True,
        metavar="DIR",
        help="folder of the dataset",
    )
    _add_splits(group)
    add(
        "--num_shards",
        type=typed(flag_values.shard_number),
        metavar="N",
        help="shards of each split",
    )
    add(
        "--shard_size",
        type=typed(parse_shard_size),
        metavar="SIZE",
        help="plan shards of about this size, at least 1MB; if omitted: 150MB",
    )
    add(
        "--layout",
        type=typed(flag_values.layout_name),
        default="slim",
        metavar="NAME|FILE",
        help=f"features of the Examples: {', '.join(flag_values.LAYOUT_NAMES)}, or a .yaml file of "
        "your own",
    )
    _add_boxes(group)
    add(
        "--files",
        choices=FILES,
        default="sharded",
        help="shards, or one file for each image, called after its key",
    )
    # TensorFlow spells it GZIP.
    add(
        "--compression",
        type=str.lower,
        choices=("none", "gzip"),
        default="none",
        help="of the shards",
    )
    add("--overwrite", action="store_true", help="replace a dataset that is there already")


def _add_splits(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--splits",
        type=typed(parse_splits),
        default="train=1",
        metavar="NAME=SHARE,...",
        help="splits by a hash of the key",
    )
    add("--group_by", metavar="COL", help="column whose cells stay together in one split")
    add(
        "--split_from",
        choices=SPLIT_SOURCES,
        help="what decides the split; without it: csv with --split_column, else hash",
    )
    add("--split_column", metavar="COL", help="column that names the split; a name, or 1, 2 ...")
    add(
        "--seed",
        type=typed(flag_values.seed_value),
        default=0,
        metavar="N",
        help="of the order and the splits",
    )


def _add_boxes(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--box_columns",
        type=typed(parse_box_columns),
        metavar="COL,COL,COL,COL",
        help="columns of boxes, names or numbers; found by their headers if omitted",
    )
    add(
        "--box_form",
        choices=tuple(FORMS),
        help="what the columns hold: two corners, x,y,w,h (COCO), or center and size (YOLO)",
    )
    add(
        "--box_units",
        choices=UNITS,
        help="box coordinate units; inferred from the first rows if omitted",
    )
    add(
        "--box_orientation",
        choices=BOX_ORIENTATIONS,
        help="boxes are of the stored pixels, or of the picture after EXIF rotation",
    )


def _add_pixels(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--transcode",
        choices=TRANSCODINGS,
        default="keep",
        help="formats: as they are, what TensorFlow cannot read converted, or all in one",
    )
    add(
        "--resize",
        type=typed(Resize.parse),
        metavar="SIZE",
        help="shorter=N, longer=N or WIDTHxHEIGHT; ,never_enlarge leaves small images small",
    )
    add("--color", choices=COLORS, default="keep", help="channels: as they are, three or one")
    add(
        "--quality",
        type=typed(flag_values.jpeg_quality),
        metavar="N",
        help=f"1 to 100, of JPEGs that are written anew; without it: {DEFAULT_QUALITY}",
    )
    add(
        "--exif_orientation",
        choices=ORIENTATIONS,
        default="keep",
        help="keep the tag, or apply it by turning the pixels",
    )


def _add_model(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--model",
        type=typed(flag_values.not_empty),
        metavar="MODEL",
        help="Keras file, SavedModel folder or keras.applications name, for --layout embedding",
    )
    add(
        "--model_weights",
        type=typed(flag_values.not_empty),
        metavar="FILE",
        help="weights of such a name",
    )
    add(
        "--embed_dtype",
        choices=DTYPES,
        help="floats, or bytes of half the size; without it: float32",
    )


def _add_checks(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--check", choices=MODES, default="full", help="decode every pixel, or read headers only")
    add(
        "--max_pixels",
        type=typed(flag_values.at_least_one),
        default=DEFAULT_LIMITS.max_pixels,
        metavar="N",
        help="reject larger images before they are decoded",
    )
    add(
        "--max_bytes",
        type=typed(parse_size),
        default=f"{DEFAULT_LIMITS.max_bytes // 10**6}MB",
        metavar="SIZE",
        help="reject larger files before they are read",
    )
    add(
        "--max_rejected",
        type=typed(RejectionLimit.parse),
        default=DEFAULT_LIMIT,
        metavar="SHARE|COUNT",
        help="publish nothing if more images are rejected; of two joined by 'or', the larger",
    )
    add(
        "--strict",
        action="store_true",
        help="publish nothing if there are warnings",
    )
    add(
        "--dedupe",
        choices=DEDUPE_MODES,
        default="report",
        help="equal and similar images: not looked for, told of, or one of equal ones kept",
    )
    add(
        "--quarantine",
        type=typed(flag_values.not_empty),
        metavar="DIR",
        help="copy rejected images to DIR/REASON/PATH",
    )
    add(
        "--progress",
        choices=PROGRESS_STYLES,
        default="auto",
        help="a bar on a terminal, plain lines otherwise",
    )


def parse_flags(command: str, argv: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Our flags, and the rest, which Beam knows.

    Raises:
        UsageError: when a flag is wrong, missing, or known to neither.
    """
    parser = make_parser(command)
    # A flag that is missing is often there, misspelt: that one is named first.
    required = [action for action in parser._actions if action.required]
    for action in required:
        action.required = False
    words = list(job_labels_apart(argv))
    flags, rest = parser.parse_known_args(words)
    refuse_unknown(rest, words, parser)
    for action in required:
        if getattr(flags, action.dest) is None:
            name = f"{action.option_strings[0]} {action.metavar}"
            raise UsageError(f"{name} is missing: give the {action.help}; see --help")
    _check_once(words, ("--labels", "--label_file"))
    return flags, rest


def _check_once(words: Sequence[str], names: Sequence[str]) -> None:
    """Refuses a flag that is given twice, of which argparse would take the last."""
    given = [word for word in words if word.partition("=")[0] in names]
    if len(given) > 1:
        raise UsageError(f"{names[0]} is given twice: give a glob, which names several files")


def default_of(name: str) -> Any:
    """What a flag of `convert` is when it is not given."""
    return make_parser("convert").parse_args(["--output", "-"]).__dict__[name]
