"""The walk of an image and its row in architecture.md: its functions exist and are called."""

from __future__ import annotations

import re
import sys
import threading
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

from tests.transforms.beam import convert, make_config, make_images
from transforms.core.tables.csv_rows import CsvColumns
from transforms.storage.read_ahead import _shared_pool

ROOT = Path(__file__).parent.parent
FEW, MANY = 2, 7


def walked() -> set[str]:
    """The functions in the table, as `module.function`."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    section = text.partition("## The walk of one image and one row\n")[2].partition("\n## ")[0]
    rows = [line.split("|") for line in section.splitlines() if line.startswith("| `")]
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


def calls(folder: Path, images: int) -> Counter[str]:
    """How often each function of ours is called by the conversion of this many images and rows."""
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


def test_every_function_of_the_walk_is_called_for_each_further_image(tmp_path: Path) -> None:
    # Its threads last as long as the process; others count nothing.
    _shared_pool.cache_clear()
    threading.setprofile(count)
    sys.setprofile(count)
    try:
        few, many = calls(tmp_path / "few", FEW), calls(tmp_path / "many", MANY)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        _shared_pool.cache_clear()
    each = {name for name, number in many.items() if number - few[name] >= MANY - FEW}
    assert len(walked()) >= 30
    assert walked() <= each
