"""A command that is right, for tests that make one mistake in it."""

from pathlib import Path
from typing import Any

from tests.conftest import draw
from tests.pipeline.commands import Ran


def write_inputs(folder: Path) -> None:
    """Four photos and their labels."""
    rows = ["id,label"]
    for at, stem in enumerate(["cat-0", "cat-1", "dog-0", "dog-1"]):
        draw(folder / "photos" / stem[:3] / f"{stem}.jpg", seed=at)
        rows.append(f"{stem},{stem[:3]}")
    (folder / "labels.csv").write_text("\n".join(rows))


def right_flags(folder: Path) -> dict[str, Any]:
    """The flags of a command that is right."""
    return {
        "images": f"{folder}/photos/*/*.jpg",
        "labels": f"{folder}/labels.csv",
        "output": f"{folder}/out",
    }


def check_usage(ran: Ran, *says: str) -> None:
    """Checks that a command ended with exit code 2 and one line with these parts."""
    assert (ran.code, ran.out) == (2, ""), ran
    line = ran.error()
    assert line.startswith("convert: "), line
    for part in says:
        assert part in line, f"{part!r} is not in {line!r}"
    assert len(line) < 400, line
