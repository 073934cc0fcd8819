"""Times one epoch of a reader in its own environment, after one that is not counted."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from typing import Any


def time_epoch(open_dataset: Callable[[], Iterable[Any]], count: Callable[[Any], int]) -> None:
    """Prints records, bytes of images, wall time and time of all cores of an epoch as JSON.

    Args:
        open_dataset: opens a new epoch; that is part of the time.
        count: bytes of the images of one element, which keeps a reader from leaving them out.
    """
    for _ in open_dataset():
        pass
    start, cores = time.perf_counter(), time.process_time()
    elements = size = 0
    for element in open_dataset():
        elements += 1
        size += count(element)
    seconds, used = time.perf_counter() - start, time.process_time() - cores
    print(json.dumps({"elements": elements, "bytes": size, "seconds": seconds, "cores": used}))
