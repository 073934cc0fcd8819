"""A source needs an entry in the registry and the function of its value: readers follow."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from pipeline.read import load
from tests.images import picture, saved
from tests.pipeline.commands import check_sound, make_dataset, show, write_layout
from transforms.examples import encoder
from transforms.examples.layouts import SOURCES, Role, Source

LAYOUT = """\
  picture: image.bytes
  ratio: image.aspect
  is_wide: image.wide
"""


def test_a_source_that_is_registered_is_written_described_verified_and_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for source in (
        Source("image.aspect", "float"),
        Source("image.wide", "int64", Role.MARK),
    ):
        monkeypatch.setitem(SOURCES, source.name, source)
    monkeypatch.setitem(encoder.VALUES, "image.aspect", lambda each: each.info.width / 8)
    monkeypatch.setitem(encoder.VALUES, "image.wide", lambda each: int(each.info.width > 8))
    (tmp_path / "a.png").write_bytes(saved(picture("RGB", 8, 10), "PNG"))
    dataset = make_dataset(
        tmp_path / "out",
        images=f"{tmp_path}/*.png",
        layout=write_layout(tmp_path, LAYOUT),
        label_from="none",
        splits="train=1",
    )
    assert [(f["name"], f["dtype"]) for f in dataset.manifest["features"]] == [
        ("picture", "bytes"),
        ("ratio", "float"),
        ("is_wide", "int64"),
    ]
    check_sound(dataset.folder)
    assert "ratio" in show(dataset.folder).out
    (record,) = load(str(dataset.folder), "train").as_numpy_iterator()
    assert (record["ratio"], record["is_wide"], record["picture"].shape) == (1.25, 1, (8, 10, 3))
    described = json.loads((dataset.folder / "features.json").read_text())
    kinds = described["featuresDict"]["features"]
    assert kinds["ratio"]["tensor"]["dtype"] == "float32"
    text = (dataset.folder / "schema.pbtxt").read_text()
    schema = text_format.Parse(text, schema_pb2.Schema())
    ratio, is_wide = schema.feature[1:]
    assert (ratio.name, ratio.type) == ("ratio", schema_pb2.FLOAT)
    assert (is_wide.int_domain.min, is_wide.int_domain.max) == (0, 1)
