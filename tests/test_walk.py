"""The walk of an image and its row in architecture.md names what is called and made for each."""

from __future__ import annotations

import re
import sys
import threading
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tests.transforms.beam import convert, make_config, make_images
from transforms.core.tables.csv_rows import CsvColumns
from transforms.storage.read_ahead import _shared_pool

ROOT = Path(__file__).parent.parent
FEW, MANY = 2, 7


def section() -> str:
    text = (ROOT / "docs" / "architecture.md").read_text()
    return text.partition("## The walk of one image and one row\n")[2].partition("\n## ")[0]


def walked() -> set[str]:
    """The functions in the table, as `module.function`."""
    rows = [line.split("|") for line in section().splitlines() if line.startswith("| `")]
    return {
        f"{room.strip(' `').rpartition('/')[2]}.{name}"
        for _, room, functions, _, _ in rows
        for name in re.findall(r"`([\w.]+)`", functions)
    }


OURS = f"{ROOT / 'transforms'}/"

# Of the module: threads that read ahead outlive a conversion, and keep the function that counts.
COUNTED: Counter[str] = Counter()


def count(frame: FrameType, event: str, _: Any) -> None:
    code = frame.f_code
    if event == "call" and code.co_filename.startswith(OURS):
        COUNTED[f"{Path(code.co_filename).stem}.{code.co_qualname}"] += 1
    elif event == "call" and code.co_varnames[:1] == ("_cls",):
        # The constructor that a `NamedTuple` generates.
        record = frame.f_locals["_cls"]
        if record.__module__.startswith("transforms."):
            COUNTED[record.__name__] += 1


def calls(folder: Path, images: int) -> Counter[str]:
    """How often a conversion of so many images and rows calls each function, or makes a record."""
    make_images(folder / "in", [f"{number}.jpg" for number in range(images)])
    rows = [f"{number}.jpg,cat" for number in range(images)]
    (folder / "labels.csv").write_text("\n".join(["id,label", *rows]))
    config = make_config(
        folder / "in",
        folder / "out",
        label_from="csv",
        csv_paths=(str(folder / "labels.csv"),),
        columns=CsvColumns(",", True, 0, 1, "id", "label", 2),
        num_shards=1,
    )
    COUNTED.clear()
    convert(config)
    return COUNTED.copy()


@pytest.fixture(scope="module")
def each(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The functions that are called for each further image, and the records that are made."""
    folder = tmp_path_factory.mktemp("walk")
    # Its threads last as long as the process; others count nothing.
    _shared_pool.cache_clear()
    threading.setprofile(count)
    sys.setprofile(count)
    try:
        few, many = calls(folder / "few", FEW), calls(folder / "many", MANY)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        _shared_pool.cache_clear()
    return {name for name, number in many.items() if number - few[name] >= MANY - FEW}


def test_every_function_of_the_walk_is_called_for_each_further_image(each: set[str]) -> None:
    assert len(walked()) >= 30
    assert walked() <= each


def test_the_records_of_each_further_image_are_listed(each: set[str]) -> None:
    below = section().rpartition("|\n")[2]
    listed = set(re.findall(r"`(\w+)`", below))
    assert listed == {name for name in each if "." not in name}
