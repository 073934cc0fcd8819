"""`python -m pipeline.report OUT`: writes `report.html` of a finished dataset again."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from pipeline.command_line import begin, start
from pipeline.errors import DatasetError
from pipeline.options.parser import OneLineParser, add_run_flags, typed
from transforms.core.messages import format_bytes, one_line
from transforms.core.option import not_empty


def main(argv: Sequence[str] | None = None) -> None:
    """Writes the report and prints its path.

    Raises:
        UsageError: there is no dataset.
        DatasetError: the report cannot be written.
    """
    flags, _ = begin(make_parser(), argv)
    output = flags.output
    from pipeline.open_dataset import open_dataset
    from transforms.dataset.output_names import REPORT
    from transforms.storage.files import join
    from transforms.write_report import write_report

    manifest = open_dataset(output)
    path = join(output, REPORT)
    try:
        size = write_report(output, manifest)
    except OSError as error:
        raise DatasetError(f"cannot write {path}: {one_line(error)}") from error
    print(f"report   {path}, {format_bytes(size)}")


def make_parser() -> OneLineParser:
    """The parser of `report`."""
    parser = OneLineParser(
        "report",
        "Writes report.html of a finished dataset again, as convert does at its end:\n"
        "an HTML summary with sample images.",
        usage="OUT [-v]",
        examples=("out/photos", "gs://my-bucket/datasets/photos"),
    )
    add = parser.add_argument
    add("output", metavar="OUT", type=typed(not_empty), help="folder of a dataset")
    add_run_flags(parser, "verbose")
    return parser


if __name__ == "__main__":
    sys.exit(start("report", main))
