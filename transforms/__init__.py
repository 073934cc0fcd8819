"""The steps of the graph: Beam transforms around the pure functions of `transforms.core`.

`from transforms import FindImages, LabelImages, WriteDataset` imports a step, and Apache Beam with
it, when its name is first used: a command that needs no Beam does not pay for it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transforms.embed_images import EmbeddingModelHandler as EmbeddingModelHandler
    from transforms.images.check import check_image as check_image
    from transforms.images.pixel_options import Limits as Limits
    from transforms.images.pixel_options import PixelOptions as PixelOptions
    from transforms.images.pixel_options import Resize as Resize
    from transforms.images.pixels import change_pixels as change_pixels
    from transforms.join_labels import JoinedImages as JoinedImages
    from transforms.plan_shards import TotalLabels as TotalLabels
    from transforms.publish_dataset import NotPublishedError as NotPublishedError
    from transforms.stage_images import StageImages as StageImages
    from transforms.write_dataset import EncodeExamples as EncodeExamples
    from transforms.write_dataset import FindImages as FindImages
    from transforms.write_dataset import LabelImages as LabelImages
    from transforms.write_dataset import WriteDataset as WriteDataset

_MODULES = {
    "EmbeddingModelHandler": "embed_images",
    "EncodeExamples": "write_dataset",
    "FindImages": "write_dataset",
    "JoinedImages": "join_labels",
    "LabelImages": "write_dataset",
    "Limits": "images.pixel_options",
    "NotPublishedError": "publish_dataset",
    "PixelOptions": "images.pixel_options",
    "Resize": "images.pixel_options",
    "StageImages": "stage_images",
    "TotalLabels": "plan_shards",
    "WriteDataset": "write_dataset",
    "change_pixels": "images.pixels",
    "check_image": "images.check",
}

__all__ = [*_MODULES]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
