"""How large a job is, as far as it is known before it starts."""

from __future__ import annotations

from typing import NamedTuple


class JobSize(NamedTuple):
    """The size of a job.

    Attributes:
        images: their number, at least.
        bytes: of their files, at least; 0 if unknown.
        is_all: whether there are no more.
    """

    images: int = 0
    bytes: int = 0
    is_all: bool = False

    def __str__(self) -> str:
        """The size in words.

        >>> print(JobSize(30000, 10**9, True), JobSize(20000), sep=", ")
        30,000 images, at least 20,000 images
        """
        return f"{'' if self.is_all else 'at least '}{self.images:,} images"
