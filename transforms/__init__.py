"""The steps of the graph: Beam transforms around the pure functions of `transforms.core`.

`from transforms import FindImages, LabelImages, WriteDataset` imports a step, and Apache Beam with
it, when its name is first used: a command that needs no Beam does not pay for it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transforms.copy_rejected import CopyRejected
    from transforms.core.images.check import Limits, check_image
    from transforms.core.images.pixel_options import PixelOptions, Resize
    from transforms.core.images.pixels import change_pixels
    from transforms.dataset import FindImages
    from transforms.embed_images import EmbeddingModelHandler
    from transforms.join_labels import JoinedImages, JoinLabels, ReadInputs
    from transforms.label_images import LabelImages
    from transforms.plan_shards import PlanShards, TotalLabels
    from transforms.publish_dataset import NotPublishedError, PublishDataset
    from transforms.stage_images import StageImages
    from transforms.write_dataset import WriteDataset
    from transforms.write_shards import WriteShards

__all__ = [
    "CopyRejected",
    "EmbeddingModelHandler",
    "FindImages",
    "JoinLabels",
    "JoinedImages",
    "LabelImages",
    "Limits",
    "NotPublishedError",
    "PixelOptions",
    "PlanShards",
    "PublishDataset",
    "ReadInputs",
    "Resize",
    "StageImages",
    "TotalLabels",
    "WriteDataset",
    "WriteShards",
    "change_pixels",
    "check_image",
]

_MODULES = {
    "CopyRejected": "copy_rejected",
    "EmbeddingModelHandler": "embed_images",
    "FindImages": "dataset",
    "JoinLabels": "join_labels",
    "JoinedImages": "join_labels",
    "LabelImages": "label_images",
    "Limits": "core.images.check",
    "NotPublishedError": "publish_dataset",
    "PixelOptions": "core.images.pixel_options",
    "PlanShards": "plan_shards",
    "PublishDataset": "publish_dataset",
    "ReadInputs": "join_labels",
    "Resize": "core.images.pixel_options",
    "StageImages": "stage_images",
    "TotalLabels": "plan_shards",
    "WriteDataset": "write_dataset",
    "WriteShards": "write_shards",
    "change_pixels": "core.images.pixels",
    "check_image": "core.images.check",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
