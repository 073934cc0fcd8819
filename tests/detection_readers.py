"""What two readers of boxes parse: the default feature specifications of their decoders.

Both are of github.com/tensorflow/models (Apache-2.0), read there in November 2026:

- the Model Garden's `official/vision/dataloaders/tf_example_decoder.py` at 00d83f37e2de;
- the Object Detection API's `research/object_detection/data_decoders/tf_example_decoder.py` at
  015ec401bc54, and its label map, `protos/string_int_label_map.proto` at 23341a239100.
"""

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

from tests.lazy import LazyMapping, lazy_module

tf = lazy_module("tensorflow")


def _model_garden() -> dict[str, Any]:
    return {
        "image/encoded": tf.io.FixedLenFeature((), tf.string),
        "image/source_id": tf.io.FixedLenFeature((), tf.string),
        "image/height": tf.io.FixedLenFeature((), tf.int64, -1),
        "image/width": tf.io.FixedLenFeature((), tf.int64, -1),
        "image/object/bbox/xmin": tf.io.VarLenFeature(tf.float32),
        "image/object/bbox/xmax": tf.io.VarLenFeature(tf.float32),
        "image/object/bbox/ymin": tf.io.VarLenFeature(tf.float32),
        "image/object/bbox/ymax": tf.io.VarLenFeature(tf.float32),
        "image/object/class/label": tf.io.VarLenFeature(tf.int64),
        "image/object/area": tf.io.VarLenFeature(tf.float32),
        "image/object/is_crowd": tf.io.VarLenFeature(tf.int64),
    }


def _object_detection() -> dict[str, Any]:
    return {
        "image/encoded": tf.io.FixedLenFeature((), tf.string, ""),
        "image/format": tf.io.FixedLenFeature((), tf.string, "jpeg"),
        "image/filename": tf.io.FixedLenFeature((), tf.string, ""),
        "image/key/sha256": tf.io.FixedLenFeature((), tf.string, ""),
        "image/source_id": tf.io.FixedLenFeature((), tf.string, ""),
        "image/height": tf.io.FixedLenFeature((), tf.int64, 1),
        "image/width": tf.io.FixedLenFeature((), tf.int64, 1),
        "image/class/text": tf.io.VarLenFeature(tf.string),
        "image/class/label": tf.io.VarLenFeature(tf.int64),
        "image/neg_category_ids": tf.io.VarLenFeature(tf.int64),
        "image/not_exhaustive_category_ids": tf.io.VarLenFeature(tf.int64),
        "image/class/confidence": tf.io.VarLenFeature(tf.float32),
        "image/object/bbox/xmin": tf.io.VarLenFeature(tf.float32),
        "image/object/bbox/xmax": tf.io.VarLenFeature(tf.float32),
        "image/object/bbox/ymin": tf.io.VarLenFeature(tf.float32),
        "image/object/bbox/ymax": tf.io.VarLenFeature(tf.float32),
        "image/object/class/label": tf.io.VarLenFeature(tf.int64),
        "image/object/class/text": tf.io.VarLenFeature(tf.string),
        "image/object/area": tf.io.VarLenFeature(tf.float32),
        "image/object/is_crowd": tf.io.VarLenFeature(tf.int64),
        "image/object/difficult": tf.io.VarLenFeature(tf.int64),
        "image/object/group_of": tf.io.VarLenFeature(tf.int64),
        "image/object/weight": tf.io.VarLenFeature(tf.float32),
    }


MODEL_GARDEN = LazyMapping(_model_garden)
"""`TfExampleDecoder()` of the Model Garden."""

OBJECT_DETECTION = LazyMapping(_object_detection)
"""`TfExampleDecoder()` of the Object Detection API."""


def read_label_map(text: str) -> dict[str, int]:
    """Names and ids of a label map, parsed as the message `StringIntLabelMap` and checked as there.

    Raises:
        text_format.ParseError: it is not such a message.
        AssertionError: an id is that of the background.
    """
    file = descriptor_pb2.FileDescriptorProto(name="map.proto", package="m", syntax="proto2")
    item = file.message_type.add(name="StringIntLabelMapItem")
    types = descriptor_pb2.FieldDescriptorProto
    for number, (name, type_) in enumerate(
        [
            ("name", types.TYPE_STRING),
            ("id", types.TYPE_INT32),
            ("display_name", types.TYPE_STRING),
        ],
        1,
    ):
        item.field.add(name=name, number=number, type=type_, label=types.LABEL_OPTIONAL)
    file.message_type.add(name="StringIntLabelMap").field.add(
        name="item",
        number=1,
        type=types.TYPE_MESSAGE,
        type_name=".m.StringIntLabelMapItem",
        label=types.LABEL_REPEATED,
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    message: Any = message_factory.GetMessageClass(
        pool.FindMessageTypeByName("m.StringIntLabelMap")
    )()
    text_format.Parse(text, message)
    assert all(each.id > 0 for each in message.item), "the id 0 is reserved for the background"
    return {each.name: each.id for each in message.item}
