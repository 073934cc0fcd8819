"""Every option of `convert` and `plan`, declared once.

The table defines the parser and its help, the options in the manifest and in shard recipes,
the parameters of the Flex Template (`deploy/metadata.json`) and the reference (`docs/options.md`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pipeline.flags.input_options import BOXES, CARD, IMAGES_AND_LABELS
from pipeline.flags.option import NOT_RECORDED, Option
from pipeline.flags.output_options import (
    CHECKS,
    EMBEDDINGS,
    FILES_OF_THE_DATASET,
    OUTPUT,
    PIXELS,
    RUN,
)

if TYPE_CHECKING:
    from pipeline.config import ConvertConfig

GROUPS: Mapping[str, tuple[Option, ...]] = {
    "images and labels": IMAGES_AND_LABELS,
    "output": (*OUTPUT, *BOXES, *FILES_OF_THE_DATASET),
    "description": CARD,
    "pixels": PIXELS,
    "embeddings": EMBEDDINGS,
    "checks": CHECKS,
    "run": RUN,
}

OPTIONS: Mapping[str, Option] = {
    option.name: option for group in GROUPS.values() for option in group
}


def recorded_options(config: ConvertConfig) -> dict[str, Any]:
    """The options that affect output bytes, by name; equal options and inputs give equal files."""
    values = {
        option.name: option.recorded(config)
        for option in OPTIONS.values()
        if option.recorded is not None
    }
    return {name: value for name, value in values.items() if value is not NOT_RECORDED}
