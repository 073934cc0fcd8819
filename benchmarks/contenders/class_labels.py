"""The labels that contenders read: of the standard library, since each has its own environment."""

from __future__ import annotations

import csv


def read_labels(path: str) -> dict[str, int]:
    """The class index of each id in a CSV with the columns `id` and `label`."""
    with open(path, encoding="utf-8", newline="") as table:
        names = {row["id"]: row["label"] for row in csv.DictReader(table)}
    index = {name: number for number, name in enumerate(sorted(set(names.values())))}
    return {key: index[name] for key, name in names.items()}
