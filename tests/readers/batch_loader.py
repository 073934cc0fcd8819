"""What PyTorch's `DataLoader` does in its processes; PyTorch is too large to be installed."""

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


def fetch(
    dataset: Any, collate: Callable[[Sequence[Any]], Any], numbers: Sequence[int]
) -> tuple[int, Any]:
    """What a worker of PyTorch's `DataLoader` does with a batch of a map-style dataset."""
    if hasattr(dataset, "__getitems__"):
        return os.getpid(), collate(dataset.__getitems__(numbers))
    return os.getpid(), collate([dataset[number] for number in numbers])


def stacked(batch: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """As `default_collate`: arrays and numbers are stacked, bytes are listed."""
    columns = {name: [record[name] for record in batch] for name in batch[0]}
    return {
        name: column if isinstance(column[0], bytes) else np.stack(column)
        for name, column in columns.items()
    }
