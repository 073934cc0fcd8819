"""What an operator watches: one namespace of counters, and the progress of this process.

| metric | unit | counted by |
|---|---|---|
| images_found | images | List images and read rows |
| rows_read | rows | List images and read rows |
| images_written | images | Convert and write each shard |
| images_rejected | images | Convert and write each shard |
| bytes_read | bytes | Convert and write each shard |
| bytes_written | bytes | Convert and write each shard |
| shards_written | shards | Convert and write each shard |
| shards_reused | shards | Convert and write each shard |
| shard_msec | milliseconds for one shard, a distribution | Convert and write each shard |
| images_quarantined | images | Copy rejected images |
| images_not_quarantined | images that cannot be read | Copy rejected images |

In `dataset.LabelImages`, `images_found` is counted by "Look images up".
"""

from __future__ import annotations

import threading
from typing import Any

from apache_beam.metrics import Metrics

NAMESPACE = "image_tfrecords"


def counter(name: str) -> Any:
    """A Beam counter in the project's namespace."""
    return Metrics.counter(NAMESPACE, name)


def distribution(name: str) -> Any:
    """A Beam distribution in the project's namespace."""
    return Metrics.distribution(NAMESPACE, name)


class Progress:
    """What this process has converted so far; a launcher in the same process shows it.

    Counters of Beam cannot be read while the in-process runner runs, and these can.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.planned = 0
        self.done = 0
        self.rejected = 0

    def plan(self, images: int) -> None:
        """Sets how many images there are to convert, and that none of them is yet."""
        with self._lock:
            self.planned = images
            self.done = self.rejected = 0

    def advance(self, images: int, rejected: int = 0) -> None:
        """Counts images that are written or rejected."""
        with self._lock:
            self.done += images
            self.rejected += rejected


PROGRESS = Progress()
