"""The metadata that TensorFlow Datasets reads: `tfds.builder_from_directory(FOLDER)`.

The files are those of `tfds.folder_dataset.write_metadata`, written as plain JSON, so converting
does not need tensorflow-datasets. Numbers of 64 bits are strings in them, as in protobuf's JSON.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from transforms.core.card.dataset_card import DEFAULT_VERSION, Card
from transforms.core.dataset.ledger import ShardSummary
from transforms.core.dataset.output_names import CLASS_NAMES, FEATURES, INFO, PARTIAL
from transforms.core.features.feature_sources import Role
from transforms.core.features.layouts import Feature
from transforms.core.planning.shards import ShardName

# Formats that `tfds.features.Image` decodes to pixels of one rank and the given channels. GIF and
# WebP get one more dimension there; a JPEG XL is refused unless it has that many channels.
DECODED = frozenset({"bmp", "jpeg", "png"})

# The name of a dataset without one.
_NO_NAME = "image_tfrecords"

_MODULE = "tensorflow_datasets.core.features."
_DTYPES = {"bytes": "string", "int64": "int64", "float": "float32"}
# Of a file's name, in bytes; while it is written, `.partial` follows it.
_LONGEST_NAME = 255 - len(PARTIAL)


def tfds_files(
    features: Sequence[Feature],
    shards: Sequence[ShardSummary],
    splits: Sequence[str],
    *,
    class_names: Sequence[str] | None,
    id_count: int | None,
    formats: Collection[str],
    image_shape: tuple[int | None, int | None, int],
    card: Card | None = None,
    depth: int = 8,
) -> dict[str, bytes]:
    """The files by name; none if TensorFlow Datasets cannot read the records.

    It does not read compressed shards or files named after keys.

    Args:
        features: of the Examples.
        shards: sorted by split and number.
        splits: names in their order.
        class_names: of the class ids from 0, or None when ids leave gaps.
        id_count: lines of `labels.txt`, or None when the ids have none.
        formats: the formats of the images.
        image_shape: height, width and channels that images are decoded to, None for any.
        card: name, version and what is said about the dataset; None without a name.
        depth: bits of the samples to which they are decoded, 8 or 16.
    """
    if not is_tfds(shards):
        return {}
    described = {
        feature.name: _feature(feature, formats, id_count, image_shape, depth)
        for feature in features
    }
    files = {
        FEATURES: _to_bytes(_connector("features_dict.FeaturesDict", featuresDict=described)),
        INFO: _to_bytes({**_info(features, shards, splits), **_said(card)}),
    }
    for feature in features:
        name = f"{feature.name.replace('/', '.')}{CLASS_NAMES}"
        if feature.role is Role.CLASS_ID and class_names and len(name.encode()) <= _LONGEST_NAME:
            files[name] = "".join(f"{each}\n" for each in class_names).encode()
    return files


def is_tfds(shards: Iterable[ShardSummary]) -> bool:
    """Whether TensorFlow Datasets reads shards: neither compressed ones nor single images."""
    return not any(ShardName.parse(each.file).gzip or each.files is not None for each in shards)


def _connector(name: str, **content: Any) -> dict[str, Any]:
    # `features` is the field of a FeaturesDict; the others contain their data directly.
    if "featuresDict" in content:
        content = {"featuresDict": {"features": content["featuresDict"]}}
    return {"pythonClassName": _MODULE + name, **content}


def _feature(
    feature: Feature,
    formats: Collection[str],
    id_count: int | None,
    image_shape: tuple[int | None, ...],
    depth: int,
) -> dict[str, Any]:
    if feature.encoding:
        # Pixels of images that differ in size stay flat.
        return _tensor(feature.encoding, feature.shape or (None,), encoding="bytes")
    if feature.shape:
        return _tensor(_DTYPES[feature.dtype], feature.shape)
    if feature.role is Role.IMAGE:
        decoded = _image(formats, image_shape, depth)
        return decoded if DECODED.issuperset(formats) else _tensor("string")
    if feature.role is Role.MASK:
        return _image(("png",), (*image_shape[:2], 1), 8)
    if feature.role is Role.FURTHER_IMAGE:
        # Their formats are not counted.
        return _tensor("string")
    if feature.role is Role.OBJECT_MASK:
        single = _image(("png",), (*image_shape[:2], 1), 8)
    else:
        single = _single(feature, id_count)
    if not feature.is_list:
        return single
    return _connector("sequence_feature.Sequence", sequence={"feature": single, "length": "-1"})


def _single(feature: Feature, id_count: int | None) -> dict[str, Any]:
    if feature.role is Role.CLASS_ID and id_count:
        # Without a file of names, the name of a class is its number.
        label = {"numClasses": str(id_count)}
        return _connector("class_label_feature.ClassLabel", classLabel=label)
    if feature.dtype == "bytes":
        return _connector("text_feature.Text", text={})
    return _tensor(_DTYPES[feature.dtype], name="scalar.Scalar")


def _tensor(
    dtype: str,
    shape: Sequence[int | None] = (),
    *,
    encoding: str = "none",
    name: str = "tensor_feature.Tensor",
) -> dict[str, Any]:
    content = {"dtype": dtype, "encoding": encoding, "shape": _dimensions(shape)}
    return _connector(name, tensor=content)


def _image(formats: Collection[str], shape: tuple[int | None, ...], depth: int) -> dict[str, Any]:
    image: dict[str, Any] = {"dtype": f"uint{depth}", "shape": _dimensions(shape)}
    # TensorFlow Datasets reads JPEGs as uint16 only if the format is left open.
    for only in ("jpeg", "png") if depth == 8 else ("png",):
        if set(formats) == {only}:
            image["encodingFormat"] = only
    return _connector("image_feature.Image", image=image)


def _dimensions(shape: Sequence[int | None]) -> dict[str, Any]:
    return {"dimensions": ["-1" if size is None else str(size) for size in shape]}


def _info(
    features: Sequence[Feature], shards: Sequence[ShardSummary], splits: Sequence[str]
) -> dict[str, Any]:
    info: dict[str, Any] = {
        "name": _NO_NAME,
        "version": DEFAULT_VERSION,
        "fileFormat": "tfrecord",
        "splits": [_split(split, shards) for split in splits],
    }
    keys = supervised_keys(features)
    if keys is not None:
        info["supervisedKeys"] = {"tuple": {"items": [{"featureKey": key} for key in keys]}}
    return info


def _said(card: Card | None) -> dict[str, Any]:
    """What a publisher says about a dataset, in the fields of `dataset_info.proto`."""
    if card is None:
        return {}
    said = {
        "name": card.name,
        "version": card.dataset_version,
        "description": card.description,
        "citation": card.citation,
        "location": {"urls": [card.homepage]} if card.homepage else None,
        "redistributionInfo": {"license": card.license} if card.license else None,
    }
    return {name: value for name, value in said.items() if value}


def _split(split: str, shards: Sequence[ShardSummary]) -> dict[str, Any]:
    own = [shard for shard in shards if ShardName.parse(shard.file).split == split]
    return {
        "name": split,
        "filepathTemplate": "{SPLIT}-{SHARD_X_OF_Y}.{FILEFORMAT}",
        "shardLengths": [str(shard.records) for shard in own],
        "numBytes": str(sum(shard.bytes for shard in own)),
    }


def supervised_keys(features: Sequence[Feature]) -> tuple[str, str] | None:
    """The names of a model's input and target features, if there is one of each.

    The target is the class id, or else the mask.

    >>> from transforms.core.features.layouts import LAYOUTS
    >>> supervised_keys(LAYOUTS["slim"])
    ('image/encoded', 'image/class/label')
    """
    seen = [f.name for f in features if f.role in (Role.IMAGE, Role.PIXELS, Role.EMBEDDING)]
    learnt = single_class_ids(features) or [f.name for f in features if f.role is Role.MASK]
    if len(seen) != 1 or len(learnt) != 1:
        return None
    return seen[0], learnt[0]


def single_class_ids(features: Sequence[Feature]) -> list[str]:
    """The names of the features that hold one class id of a record."""
    return [f.name for f in features if f.role is Role.CLASS_ID and not f.is_list]


def _to_bytes(content: Mapping[str, Any]) -> bytes:
    return (json.dumps(content, indent=1, sort_keys=True) + "\n").encode()
