"""The values of options about images, without NumPy: flags are read before it is needed."""

from __future__ import annotations

CHECK_MODES = ("full", "header")
"""How an image is checked, see `check.check_image`."""

DEDUPE_MODES = ("off", "report", "drop")
"""What happens to duplicates."""

EMBED_DTYPES = ("float32", "bfloat16")
"""Types of the numbers of an embedding."""
