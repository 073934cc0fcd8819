"""Label files that tests write, and datasets with these labels."""

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tests.pipeline.commands import Dataset, make_dataset


def csv_text(rows: Iterable[Sequence[object]], header: Sequence[str] = ("id", "label")) -> str:
    """The text of a CSV with LF line ends."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows([*([header] if header else []), *rows])
    return text.getvalue()


def convert_rows(
    photos: Path, folder: Path, rows: Iterable[Sequence[object]], **flags: Any
) -> Dataset:
    """Converts the photos with these label rows; rejections are allowed."""
    (folder / "labels.csv").write_text(csv_text(rows), "utf-8")
    flags = {"images": f"{photos}/*/*.jpg", "max_rejected": "100%", **flags}
    return make_dataset(folder / "out", labels=folder / "labels.csv", **flags)
