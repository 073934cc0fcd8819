"""ConvertConfig: everything a conversion needs to know, resolved and valid. No Beam."""

from __future__ import annotations

import dataclasses
from typing import Any

from transforms.core.check import Limits
from transforms.core.csv_rows import CsvColumns
from transforms.core.embeddings import Embedding
from transforms.core.layouts import Feature, layout_features, with_embedding
from transforms.core.limits import RejectionLimit
from transforms.core.manifest import Dataset
from transforms.core.pixel_options import AS_THEY_ARE, PixelOptions
from transforms.core.shards import ShardPlan


@dataclasses.dataclass(frozen=True)
class ConvertConfig:
    """A conversion.

    Attributes:
        images: globs.
        root: their longest common folder; record paths are below it.
        output: the dataset's folder.
        label_from: `csv`, `directory` or `none`.
        csv_paths: the label files.
        columns: where key and label stand in them; None without label files.
        csv_encoding: a Python codec name.
        key: `stem`, `name`, `path` or `uri`.
        class_names: the classes in the order of their ids, or None for sorted labels.
        splits: name and share of each split.
        seed: of the order and of the splits.
        num_shards: shards of each split, or None to plan them from the bytes.
        shard_size: bytes.
        layout: name of the feature layout.
        gzip: whether shards are compressed.
        check: `full` or `header`.
        limits: bytes and pixels an image may have.
        max_rejected: images that may be rejected.
        quarantine: folder for copies of rejected images, or None.
        overwrite: whether a former dataset may be replaced.
        pixels: what is done to the pixels of every image.
        embedding: the model for a layout that needs one, or None.
    """

    images: tuple[str, ...]
    root: str
    output: str
    label_from: str
    csv_paths: tuple[str, ...]
    columns: CsvColumns | None
    csv_encoding: str
    key: str
    class_names: tuple[str, ...] | None
    splits: tuple[tuple[str, float], ...]
    seed: int
    num_shards: int | None
    shard_size: int
    layout: str
    gzip: bool
    check: str
    limits: Limits
    max_rejected: RejectionLimit
    quarantine: str | None
    overwrite: bool
    pixels: PixelOptions = AS_THEY_ARE
    embedding: Embedding | None = None

    @property
    def shard_plan(self) -> ShardPlan:
        """How the dataset is cut into shards."""
        names = tuple(name for name, _ in self.splits)
        return ShardPlan(names, self.shard_size, self.num_shards, self.gzip)

    @property
    def features(self) -> tuple[Feature, ...]:
        """The features of the Examples."""
        features = layout_features(self.layout, labelled=self.label_from != "none")
        if self.embedding is None:
            return features
        return with_embedding(features, self.embedding.shape, self.embedding.dtype)

    @property
    def options(self) -> dict[str, Any]:
        """The options that decide bytes, by flag name; equal options and inputs, equal files."""
        return {
            "label_from": self.label_from,
            "label_key": self.columns.key_name if self.columns else None,
            "label_column": self.columns.label_name if self.columns else None,
            "csv_encoding": self.csv_encoding,
            "key": self.key,
            "class_names": list(self.class_names) if self.class_names is not None else None,
            "splits": {name: share for name, share in self.splits},
            "seed": self.seed,
            "num_shards": self.num_shards,
            "shard_size": self.shard_size,
            "layout": self.layout,
            "compression": "gzip" if self.gzip else "none",
            "check": self.check,
            "max_pixels": self.limits.max_pixels,
            "max_bytes": self.limits.max_bytes,
            "transcode": self.pixels.transcode,
            "resize": str(self.pixels.resize) if self.pixels.resize else None,
            "color": self.pixels.color,
            "quality": self.pixels.quality,
            "exif_orientation": self.pixels.exif_orientation,
            **self._model_options,
        }

    @property
    def _model_options(self) -> dict[str, Any]:
        """The name, or what is in the files: where they lie decides no bytes."""
        if self.embedding is None:
            return {}
        model, weights = self.embedding.digests
        return {
            "model": model or self.embedding.model,
            "model_weights": weights or None,
            "embed_dtype": self.embedding.dtype,
        }

    @property
    def _inputs(self) -> dict[str, Any]:
        inputs: dict[str, Any] = {"images": list(self.images), "labels": list(self.csv_paths)}
        if self.embedding is not None:
            inputs["model"] = self.embedding.model
            if self.embedding.weights is not None:
                inputs["model_weights"] = self.embedding.weights
        return inputs

    @property
    def dataset(self) -> Dataset:
        """The description of the dataset that goes into its manifest."""
        return Dataset(
            options=self.options,
            inputs=self._inputs,
            root=self.root,
            features=self.features,
            splits=self.shard_plan.splits,
        )
