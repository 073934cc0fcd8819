"""What each flag of `convert` changes: the table that `test_option_table.py` goes through."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import tensorflow as tf

from tests.pipeline.card_effects import CARD_ROWS
from tests.pipeline.commands import digests
from tests.pipeline.label_effects import ALL, LABEL_ROWS
from tests.pipeline.option_rows import Made, Row, reasons, stems
from tests.pipeline.reading import (
    feature_names,
    filenames,
    read,
    read_lists,
    shape,
)


def _images(without: Made, made: Made) -> None:
    assert stems(without) == {"cat-0", "cat-1", "dog-0", "dog-1"}
    assert stems(made) == {"dog-0", "dog-1"}


def _output(without: Made, made: Made) -> None:
    assert made.dataset.folder.name == "elsewhere"
    assert digests(made.dataset.folder) == digests(without.dataset.folder)
    assert f"dataset  {made.dataset.folder}" in made.ran.out


def _splits(without: Made, made: Made) -> None:
    assert {name.split("-")[0] for name in without.dataset.shards()} == {"train"}
    assert {name.split("-")[0] for name in made.dataset.shards()} == {"fit", "eval"}


def _places(made: Made) -> dict[str, set[str]]:
    dataset = made.dataset
    return {
        split: {Path(name).stem for name in filenames(dataset, split)}
        for split in dataset.manifest["splits"]
    }


def _group_by(without: Made, made: Made) -> None:
    """The seed puts the two cats, who are one group, into two splits."""
    cats = {"cat-0", "cat-1"}
    assert all(len(stems & cats) == 1 for stems in _places(without).values())
    assert [stems & cats for stems in _places(made).values() if stems & cats] == [cats]


def _split_from(without: Made, made: Made) -> None:
    assert list(_places(without)) == ["train"]
    assert _places(made) == {"cat": {"cat-0", "cat-1"}, "dog": {"dog-0", "dog-1"}}


def _split_column(without: Made, made: Made) -> None:
    assert list(_places(without)) == ["train"]
    assert _places(made) == {"test": {"cat-0", "dog-0"}, "dev": {"cat-1", "dog-1"}}


def _stratify(without: Made, made: Made) -> None:
    """The seed puts both dogs into one split."""
    dogs = {"dog-0", "dog-1"}
    assert any(stems >= dogs for stems in _places(without).values())
    kinds = [sorted(stem[:3] for stem in stems) for stems in _places(made).values()]
    assert kinds == [["cat", "dog"], ["cat", "dog"]]


def _seed(without: Made, made: Made) -> None:
    assert filenames(without.dataset) != filenames(made.dataset)
    assert stems(without) == stems(made)


def _shards(without: Made, made: Made) -> None:
    assert len(without.dataset.shards()) == 1
    assert len(made.dataset.shards()) == 3


def _shard_by(without: Made, made: Made) -> None:
    sizes = [
        sorted(shard["records"] for shard in each.dataset.manifest["splits"]["train"]["shards"])
        for each in (without, made)
    ]
    assert sizes[0] != sizes[1] == [1, 1, 2]
    assert "shards   train 1 to 2 records each (--shard_by records)" in made.ran.out


def _layout(without: Made, made: Made) -> None:
    assert "image/encoded" in feature_names(without.dataset)
    assert feature_names(made.dataset) == {"height", "width", "depth", "label", "image_raw"}


def _box_units(without: Made, made: Made) -> None:
    features = {"image/object/bbox/xmax": tf.io.VarLenFeature(tf.float32)}
    whole, small = (read_lists(each.dataset, features)[0] for each in (without, made))
    assert whole["image/object/bbox/xmax"] == [1]
    assert small["image/object/bbox/xmax"] == [1 / 16]


def _box_columns(without: Made, made: Made) -> None:
    assert _sides(without) == [[0, 0], [1, 0.5]]
    assert _sides(made) == [[0.5, 0.5], [1, 1]]


def _box_form(without: Made, made: Made) -> None:
    assert _sides(without) == [[0.5, 0.5], [1, 1]]
    assert _sides(made) == [[0, 0], [1, 1]]


def _box_orientation(without: Made, made: Made) -> None:
    """The picture is turned to the right: its left edge is the lower one of the stored pixels."""
    assert _sides(without) == [[0, 0], [0.25, 1]]
    assert _sides(made) == [[0, 0.75], [1, 1]]


def _sides(made: Made) -> list[list[float]]:
    """The two corners of the first box."""
    names = ("xmin", "ymin", "xmax", "ymax")
    features = {f"image/object/bbox/{name}": tf.io.VarLenFeature(tf.float32) for name in names}
    record = read_lists(made.dataset, features)[0]
    left, top, right, bottom = (record[f"image/object/bbox/{name}"][0] for name in names)
    return [[left, top], [right, bottom]]


def _label_separator(without: Made, made: Made) -> None:
    assert without.dataset.classes == ["a", "a|b", "b"]
    assert made.dataset.classes == ["a", "b"]


def _files(without: Made, made: Made) -> None:
    assert len(without.dataset.shards()) == 1
    names = {path.name for path in (made.dataset.folder / "train").iterdir()}
    assert names == {
        f"{label}%2F{label}-{n}.jpg.tfrecord" for label in ("cat", "dog") for n in (0, 1)
    }


def _compression(without: Made, made: Made) -> None:
    (plain,), (packed,) = without.dataset.shards(), made.dataset.shards()
    assert packed == f"{plain}.gz"
    data = gzip.decompress((made.dataset.folder / packed).read_bytes())
    assert data == (without.dataset.folder / plain).read_bytes()


def _overwrite(without: Made, made: Made) -> None:
    assert without.ran.code == 2
    assert made.ran.code == 0


def _shapes(made: Made) -> set[tuple[int, ...]]:
    return {shape(record["image/encoded"]) for record in read(made.dataset)}


def _transcode(without: Made, made: Made) -> None:
    assert {record["image/format"] for record in read(without.dataset)} == {b"jpeg"}
    assert {record["image/format"] for record in read(made.dataset)} == {b"png"}


def _resize(without: Made, made: Made) -> None:
    assert _shapes(without) == {(12, 16, 3)}
    assert _shapes(made) == {(6, 8, 3)}


def _color(without: Made, made: Made) -> None:
    assert _shapes(without) == {(12, 16, 3)}
    assert _shapes(made) == {(12, 16, 1)}


def _quality(without: Made, made: Made) -> None:
    best, worst = (read(each.dataset) for each in (without, made))
    for one, other in zip(best, worst, strict=True):
        assert len(other["image/encoded"]) < len(one["image/encoded"])


def _exif_orientation(without: Made, made: Made) -> None:
    assert _shapes(without) == {(12, 16, 3)}
    assert _shapes(made) == {(16, 12, 3)}


def _depth(without: Made, made: Made) -> None:
    """The bytes stay, because nothing changes pixels; readers get all bits."""
    for each, dtype in ((without, "uint8"), (made, "uint16")):
        content = json.loads((each.dataset.folder / "features.json").read_text("utf-8"))
        features = content["featuresDict"]["features"]
        assert features["image/encoded"]["image"]["dtype"] == dtype


def _strip_metadata(without: Made, made: Made) -> None:
    """The orientation stays, and so does every pixel."""
    assert _shapes(without) == _shapes(made) == {(12, 16, 3)}
    for one, other in zip(read(without.dataset), read(made.dataset), strict=True):
        before, after = one["image/encoded"], other["image/encoded"]
        assert b"Ann" in before and b"Ann" not in after
        assert after.endswith(before[before.index(b"\xff\xdb") :])


def _model(without: Made, made: Made) -> None:
    assert without.ran.code == 2 and "--layout embedding needs --model" in without.ran.error()
    assert feature_names(made.dataset) == {"Feature", "Label"}


def _model_weights(without: Made, made: Made) -> None:
    assert without.ran.code == 2 and "give --model_weights FILE" in without.ran.error()
    assert made.dataset.manifest["features"][0]["shape"] == [7, 7, 1280]


def _embed_dtype(without: Made, made: Made) -> None:
    exact, rounded = (each.dataset.manifest["features"][0] for each in (without, made))
    assert (exact["dtype"], exact.get("encoding")) == ("float", None)
    assert (rounded["dtype"], rounded["encoding"]) == ("bytes", "bfloat16")


def _check(without: Made, made: Made) -> None:
    assert reasons(without) == ["corrupt_image"]
    assert reasons(made) == []


def _max_pixels(without: Made, made: Made) -> None:
    assert reasons(without) == []
    assert reasons(made) == ["too_many_pixels"] * 4


def _max_bytes(without: Made, made: Made) -> None:
    assert reasons(without) == []
    assert reasons(made) == ["too_many_bytes"] * 4


def _max_rejected(without: Made, made: Made) -> None:
    assert without.ran.code == 3
    assert (made.ran.code, len(made.dataset.rejected)) == (0, 1)


def _strict(without: Made, made: Made) -> None:
    assert without.ran.code == 2 and "--strict: the split 'b' is empty" in without.ran.error()
    assert "warning  the split 'b' is empty" in made.ran.out


def _holdout(without: Made, made: Made) -> None:
    held = "holdout  4 groups of exact duplicates with images of --holdout"
    assert held not in without.ran.out
    assert held in made.ran.out


def _dedupe(without: Made, made: Made) -> None:
    assert reasons(without) == []
    assert reasons(made) == ["duplicate_image"]


def _quarantine(without: Made, made: Made) -> None:
    copies = made.dataset.folder.parent / "rejected"
    assert [path.name for path in copies.rglob("*.*")] == ["empty.jpg"]


def _progress_json(without: Made, made: Made) -> None:
    assert without.ran.err == ""
    lines = [json.loads(line) for line in made.ran.err.splitlines()]
    assert lines
    for line in lines:
        assert {"stage", "unit", "done", "planned", "rejected", "seconds"} <= set(line)
        assert 0 <= line["done"] <= 4
    assert [line["done"] for line in lines if line["stage"] == "converting"][-1] == 4
    totals = {line["stage"]: line["planned"] for line in lines}
    assert totals.get("converting", 4) == 4 and totals.get("listing", 0) == 0


def _workers(without: Made, made: Made) -> None:
    """The files are the same, whatever the number of processes."""
    # The page has its own folder's name.
    expected = {**digests(without.dataset.folder), "report.html": ""}
    assert {**digests(made.dataset.folder), "report.html": ""} == expected


def _quiet(without: Made, made: Made) -> None:
    assert len(without.ran.out.splitlines()) > 5
    assert made.ran.out.splitlines() == [f"dataset  {made.dataset.folder}"]


def _verbose(without: Made, made: Made) -> None:
    assert "INFO transforms.write_shards: " in made.ran.err
    assert "INFO" not in without.ran.err
    assert digests(made.dataset.folder) == digests(without.dataset.folder)


DIRECTORY = {"label_from": "directory"}
DETECTION = {"layout": "detection"}
TURNED = {"images": "{in}/turned/*/*.jpg"}
ROWS = {
    "--images": Row("{in}/photos/*/dog-*.jpg", _images, DIRECTORY, "{in}/photos/*/*.jpg"),
    **LABEL_ROWS,
    "--output": Row("{out}/elsewhere", _output, before="{out}/first"),
    "--splits": Row("fit=0.5,eval=0.5", _splits),
    "--group_by": Row(
        "who", _group_by, {"labels": "{in}/places.csv", "splits": "train=0.5,test=0.5"}
    ),
    "--split_from": Row("directory", _split_from, {"label_from": "none"}),
    "--split_column": Row("set", _split_column, {"labels": "{in}/places.csv"}),
    "--stratify": Row("label", _stratify, {"splits": "train=0.5,test=0.5", **DIRECTORY}),
    "--seed": Row(5, _seed),
    "--num_shards": Row(3, _shards),
    "--shard_size": Row("1MB", _shards, {"images": "{in}/large/*.png", "label_from": "none"}),
    "--shard_by": Row("records", _shard_by, {"num_shards": 3, "seed": 0}),
    "--layout": Row("tutorial", _layout),
    "--box_columns": Row("a,b,c,d", _box_columns, {"labels": "{in}/two.csv", **DETECTION}),
    "--box_form": Row(
        "center", _box_form, {"labels": "{in}/two.csv", "box_columns": "a,b,c,d", **DETECTION}
    ),
    "--box_orientation": Row(
        "upright",
        _box_orientation,
        {**TURNED, "labels": "{in}/side.csv", **DETECTION},
    ),
    "--box_units": Row("pixel", _box_units, {"labels": "{in}/boxes.csv", "layout": "detection"}),
    "--label_separator": Row(
        "|", _label_separator, {"labels": "{in}/many.csv", "layout": "{in}/many.yaml"}
    ),
    "--files": Row("per_image", _files),
    "--compression": Row("gzip", _compression),
    **CARD_ROWS,
    "--overwrite": Row(True, _overwrite, {"output": "{out}/finished", "seed": 3}),
    "--transcode": Row("png", _transcode),
    "--resize": Row("8x6", _resize),
    "--color": Row("gray", _color),
    "--quality": Row(30, _quality, {"resize": "64x48"}),
    "--exif_orientation": Row("apply", _exif_orientation, {**TURNED, **DIRECTORY}),
    "--depth": Row(16, _depth),
    "--strip_metadata": Row(True, _strip_metadata, {**TURNED, **DIRECTORY}),
    "--model": Row("{in}/small.keras", _model, {"layout": "embedding"}),
    "--model_weights": Row(
        "{in}/b0.weights.h5", _model_weights, {"layout": "embedding", "model": "EfficientNetB0"}
    ),
    "--embed_dtype": Row(
        "bfloat16", _embed_dtype, {"layout": "embedding", "model": "{in}/small.keras"}
    ),
    "--check": Row("header", _check, {"images": "{in}/cut/*/*.png", **ALL, **DIRECTORY}),
    "--max_pixels": Row(12 * 16 - 1, _max_pixels, ALL, 12 * 16),
    "--max_bytes": Row("100B", _max_bytes, ALL),
    "--max_rejected": Row(
        "50%", _max_rejected, {"images": "{in}/empty/*/*.jpg", **DIRECTORY}, before="1%"
    ),
    "--strict": Row(None, _strict, {"splits": "a=0.999,b=0.001"}, before=True),
    "--holdout": Row("{out}/base", _holdout),
    "--dedupe": Row("drop", _dedupe, {"images": "{in}/equal/*/*.jpg", **DIRECTORY}),
    "--quarantine": Row(
        "{out}/rejected", _quarantine, {"images": "{in}/empty/*/*.jpg", **ALL, **DIRECTORY}
    ),
    "--config": Row("{in}/seed.yaml", _seed),
    "--workers": Row(2, _workers, {"num_shards": 3}),
    "--quiet": Row(True, _quiet),
    "--verbose": Row(True, _verbose),
    "--progress": Row("json", _progress_json, before="off"),
}
