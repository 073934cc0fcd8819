"""What each flag of `convert` changes: the table that `test_option_table.py` goes through."""

from __future__ import annotations

import gzip
import json
from typing import Any

import tensorflow as tf

from tests.pipeline.commands import digests
from tests.pipeline.option_rows import (
    Made,
    Row,
    content,
    has,
    needed,
    places,
    reasons,
    says,
    shapes,
    stems,
    turns,
)
from tests.pipeline.reading import (
    LANDMARK,
    feature_names,
    filenames,
    label_ids,
    labels,
    read,
    read_lists,
)

STEMS = {"cat-0", "cat-1", "dog-0", "dog-1"}


def by_stem(*values: Any) -> dict[str, Any]:
    """A value for each image, in the order of the stems."""
    return dict(zip(sorted(STEMS), values, strict=True))


LETTERS = by_stem("a", "b", "c", "d")
IDS = by_stem(0, 0, 1, 1)


def _labels(made: Made) -> dict[str, str]:
    return labels(made.dataset)


def _ids(made: Made) -> dict[str, int]:
    return label_ids(made.dataset)


def _cat(made: Made) -> str:
    return labels(made.dataset)["cat-0"]


def _shards(made: Made) -> int:
    return len(made.dataset.shards())


def _ended(made: Made) -> int:
    return made.ran.code


def _formats(made: Made) -> set[bytes]:
    return {record["image/format"] for record in read(made.dataset)}


def _names(made: Made) -> set[str]:
    return feature_names(made.dataset)


def _classes(made: Made) -> list[str]:
    return made.dataset.classes


def _sides(made: Made) -> list[list[float]]:
    """The two corners of the first box."""
    names = ("xmin", "ymin", "xmax", "ymax")
    features = {f"image/object/bbox/{name}": tf.io.VarLenFeature(tf.float32) for name in names}
    record = read_lists(made.dataset, features)[0]
    left, top, right, bottom = (record[f"image/object/bbox/{name}"][0] for name in names)
    return [[left, top], [right, bottom]]


def _output(without: Made, made: Made) -> None:
    assert made.dataset.folder.name == "elsewhere"
    assert digests(made.dataset.folder) == digests(without.dataset.folder)
    assert f"dataset  {made.dataset.folder}" in made.ran.out


def _label_kind(without: Made, made: Made) -> None:
    assert _ids(without) == {"cat-0": 7, "cat-1": 100000, "dog-0": 10}
    assert reasons(without) == ["no_label"]
    assert _ids(made) == by_stem(2, 1, 0, 3)
    assert labels(made.dataset)["dog-1"] == "nan"


def _dense_labels(without: Made, made: Made) -> None:
    assert _ids(without) == {"cat-0": 7, "cat-1": 100000, "dog-0": 10}
    assert _ids(made) == {"cat-0": 0, "cat-1": 2, "dog-0": 1}
    assert _labels(made) == {"cat-0": "7", "cat-1": "100000", "dog-0": "10"}
    assert (made.dataset.folder / "labels.txt").read_text() == "7\n10\n100000\n"


def _reuse(without: Made, made: Made) -> None:
    assert "from their records" not in without.ran.out
    assert "reused   4 images from their records (--reuse)" in made.ran.out
    assert digests(made.dataset.folder) == digests(without.dataset.folder)


def _group_by(without: Made, made: Made) -> None:
    """The seed puts the two cats, who are one group, into two splits."""
    cats = {"cat-0", "cat-1"}
    assert [len(stems & cats) for stems in places(without).values()] == [1, 1]
    assert [stems & cats for stems in places(made).values() if stems & cats] == [cats]


def _stratify(without: Made, made: Made) -> None:
    """The seed puts both dogs into one split."""
    dogs = {"dog-0", "dog-1"}
    assert any(stems >= dogs for stems in places(without).values())
    kinds = [sorted(stem[:3] for stem in stems) for stems in places(made).values()]
    assert kinds == [["cat", "dog"], ["cat", "dog"]]


def _seed(without: Made, made: Made) -> None:
    assert filenames(without.dataset) != filenames(made.dataset)
    assert stems(without) == stems(made)


def _shard_by(without: Made, made: Made) -> None:
    sizes = [
        sorted(shard["records"] for shard in each.dataset.manifest["splits"]["train"]["shards"])
        for each in (without, made)
    ]
    assert sizes[0] != sizes[1] == [1, 1, 2]
    assert "shards   train 1 to 2 records each (--shard_by records)" in made.ran.out


def _compression(without: Made, made: Made) -> None:
    (plain,), (packed,) = without.dataset.shards(), made.dataset.shards()
    assert packed == f"{plain}.gz"
    data = gzip.decompress((made.dataset.folder / packed).read_bytes())
    assert data == (without.dataset.folder / plain).read_bytes()


def _name(without: Made, made: Made) -> None:
    """Records, and all other files, are those of a dataset without a name."""
    others = {"manifest.json": "", "dataset_info.json": "", "report.html": ""}
    one, other = ({**digests(each.dataset.folder), **others} for each in (without, made))
    assert other.keys() - one.keys() == {"README.md", "croissant.json"}
    assert one.items() <= other.items()
    assert content(made, "dataset_info.json")["name"] == "pets"


def card(value: str, text: str, field: str, info_field: str, info: Any, told: Any = None) -> Row:
    """A flag that adds a text to the card, and fields to the Croissant and the TFDS metadata."""

    def said(made: Made) -> tuple[bool, bool, Any]:
        in_card = text in (made.dataset.folder / "README.md").read_text("utf-8")
        is_told = content(made, "croissant.json").get(field) == (told or value)
        return in_card, is_told, content(made, "dataset_info.json").get(info_field)

    before = "1.0.0" if field == "version" else None
    return Row(value, turns(said, (False, False, before), (True, True, info)), {"name": "pets"})


def _quality(without: Made, made: Made) -> None:
    best, worst = (read(each.dataset) for each in (without, made))
    for one, other in zip(best, worst, strict=True):
        assert len(other["image/encoded"]) < len(one["image/encoded"])


def _depth(made: Made) -> str:
    """The bytes stay, because nothing changes pixels; readers get all bits."""
    features = content(made, "features.json")["featuresDict"]["features"]
    return str(features["image/encoded"]["image"]["dtype"])


def _strip_metadata(without: Made, made: Made) -> None:
    """The orientation stays, and so does every pixel."""
    assert shapes(without) == shapes(made) == {(12, 16, 3)}
    for one, other in zip(read(without.dataset), read(made.dataset), strict=True):
        before, after = one["image/encoded"], other["image/encoded"]
        assert (b"Ann" in before, b"Ann" in after) == (True, False)
        assert after.endswith(before[before.index(b"\xff\xdb") :])


def _embed_dtype(made: Made) -> tuple[str, str | None]:
    feature = made.dataset.manifest["features"][0]
    return feature["dtype"], feature.get("encoding")


def _strict(without: Made, made: Made) -> None:
    assert without.ran.code == 2, without.ran
    assert "--strict: the split 'b' is empty" in without.ran.error()
    assert "warning  the split 'b' is empty" in made.ran.out


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
    assert (totals.get("converting", 4), totals.get("listing", 0)) == (4, 0)


def _workers(without: Made, made: Made) -> None:
    """The files are the same, whatever the number of processes; the page has its folder's name."""
    expected = {**digests(without.dataset.folder), "report.html": ""}
    assert {**digests(made.dataset.folder), "report.html": ""} == expected


def _quiet(without: Made, made: Made) -> None:
    assert len(without.ran.out.splitlines()) > 5
    assert made.ran.out.splitlines() == [f"dataset  {made.dataset.folder}"]


def _verbose(without: Made, made: Made) -> None:
    assert "INFO transforms.write_shards: " in made.ran.err
    assert "INFO" not in without.ran.err
    assert digests(made.dataset.folder) == digests(without.dataset.folder)


ALL = {"max_rejected": "100%"}
DIRECTORY = {"label_from": "directory"}
DETECTION = {"layout": "detection"}
EMBEDDING = {"layout": "embedding"}
NUMBERS = {"labels": "{in}/numbers.csv", "max_rejected": 1}
COLUMNS = {"labels": "{in}/columns.csv"}
PLACES = {"labels": "{in}/places.csv"}
TWO = {"labels": "{in}/two.csv", **DETECTION}
TURNED = {"images": "{in}/turned/*/*.jpg"}
EMPTY = {"images": "{in}/empty/*/*.jpg", **DIRECTORY}
PAGE = "https://example.org/pets"
PETS = "Pets, 애완동물."
ROWS = {
    "--images": Row(
        "{in}/photos/*/dog-*.jpg",
        turns(stems, STEMS, {"dog-0", "dog-1"}),
        DIRECTORY,
        "{in}/photos/*/*.jpg",
    ),
    "--labels": Row(
        "{in}/letters.csv", turns(_labels, by_stem("cat", "cat", "dog", "dog"), LETTERS)
    ),
    "--masks": Row(
        "{in}/masks/*.png",
        turns(has("image/segmentation/class/encoded"), False, True),
        {"label_from": "none"},
    ),
    "--label_from": Row("none", turns(has("image/class/text"), True, False)),
    "--label_regex": Row(r"-(\d)\.", turns(_ids, IDS, by_stem(0, 1, 0, 1))),
    "--label_key": Row("other", turns(_cat, "a", "d"), COLUMNS),
    "--label_column": Row("kind", turns(_cat, "a", "x"), COLUMNS),
    "--label_kind": Row("text", _label_kind, NUMBERS),
    "--dense_labels": Row(True, _dense_labels, NUMBERS),
    "--key": Row(
        "name",
        turns(
            lambda made: min(record["id"] for record in read(made.dataset, LANDMARK)),
            b"cat-0",
            b"cat-0.jpg",
        ),
        {"labels": "{in}/names.csv", "layout": "landmark"},
    ),
    "--root": Row(
        "{in}",
        turns(lambda made: min(filenames(made.dataset)), "cat/cat-0.jpg", "photos/cat/cat-0.jpg"),
    ),
    "--keys": Row("{in}/keys.txt", turns(stems, STEMS, {"cat-1", "dog-0"})),
    "--reuse": Row("{out}/base", _reuse),
    "--record_features": Row(
        "image=left,label=kind,key=",
        needed("several features hold images (left, right)", stems, {"two"}),
        {"images": "{in}/two.tfrecord"},
    ),
    "--csv_encoding": Row(
        "cp949",
        needed("--csv_encoding cp949", _labels, dict.fromkeys(STEMS, "고양이")),
        {"labels": "{in}/korean.csv"},
    ),
    "--csv_delimiter": Row(
        "~", needed("has one column", _labels, LETTERS), {"labels": "{in}/tildes.csv"}
    ),
    "--key_cells": Row(
        "as_is",
        turns(lambda made: len(labels(made.dataset)), 4, 1),
        {"labels": "{in}/old.csv", "key": "path", **ALL},
    ),
    # There is no such file.
    "--allow_outside": Row(
        True,
        turns(reasons, ["outside_root"], ["unreadable"]),
        {"images": None, "labels": "{in}/outside.csv", **ALL},
    ),
    "--class_names": Row("{in}/classes.txt", turns(_ids, IDS, by_stem(1, 1, 0, 0))),
    "--new_classes": Row(
        "append",
        turns(_ids, {"dog-0": 0, "dog-1": 0}, by_stem(1, 1, 0, 0)),
        {"class_names": "{in}/dogs.txt", **ALL},
    ),
    "--output": Row("{out}/elsewhere", _output, before="{out}/first"),
    "--splits": Row(
        "fit=0.5,eval=0.5", turns(lambda made: [*places(made)], ["train"], ["fit", "eval"])
    ),
    "--group_by": Row("who", _group_by, {**PLACES, "splits": "train=0.5,test=0.5"}),
    "--split_from": Row(
        "directory",
        turns(places, {"train": STEMS}, {"cat": {"cat-0", "cat-1"}, "dog": {"dog-0", "dog-1"}}),
        {"label_from": "none"},
    ),
    "--split_column": Row(
        "set",
        turns(places, {"train": STEMS}, {"test": {"cat-0", "dog-0"}, "dev": {"cat-1", "dog-1"}}),
        PLACES,
    ),
    "--stratify": Row("label", _stratify, {"splits": "train=0.5,test=0.5", **DIRECTORY}),
    "--seed": Row(5, _seed),
    "--num_shards": Row(3, turns(_shards, 1, 3)),
    "--shard_size": Row(
        "1MB", turns(_shards, 1, 3), {"images": "{in}/large/*.png", "label_from": "none"}
    ),
    "--shard_by": Row("records", _shard_by, {"num_shards": 3, "seed": 0}),
    "--layout": Row("tutorial", turns(has("depth"), False, True)),
    "--box_columns": Row("a,b,c,d", turns(_sides, [[0, 0], [1, 0.5]], [[0.5, 0.5], [1, 1]]), TWO),
    "--box_form": Row(
        "center",
        turns(_sides, [[0.5, 0.5], [1, 1]], [[0, 0], [1, 1]]),
        {**TWO, "box_columns": "a,b,c,d"},
    ),
    # The picture is turned to the right: its left edge is the lower one of the stored pixels.
    "--box_orientation": Row(
        "upright",
        turns(_sides, [[0, 0], [0.25, 1]], [[0, 0.75], [1, 1]]),
        {**TURNED, "labels": "{in}/side.csv", **DETECTION},
    ),
    "--box_units": Row(
        "pixel",
        turns(lambda made: _sides(made)[1][0], 1, 1 / 16),
        {"labels": "{in}/boxes.csv", **DETECTION},
    ),
    "--label_separator": Row(
        "|",
        turns(_classes, ["a", "a|b", "b"], ["a", "b"]),
        {"labels": "{in}/many.csv", "layout": "{in}/many.yaml"},
    ),
    "--files": Row(
        "per_image",
        turns(
            lambda made: {path.name for path in made.dataset.folder.glob("train/*")},
            set(),
            {f"{stem[:3]}%2F{stem}.jpg.tfrecord" for stem in STEMS},
        ),
    ),
    "--compression": Row("gzip", _compression),
    "--file_name": Row(
        "{split}_{shard:02d}.tfrec",
        turns(lambda made: [*made.dataset.folder.glob("train_00.tfrec")] != [], False, True),
    ),
    "--name": Row("pets", _name),
    "--dataset_version": card("1.2.0", "- Version: 1.2.0", "version", "version", "1.2.0"),
    "--description": card(PETS, f"\n\n{PETS}\n\n", "description", "description", PETS),
    "--citation": card(
        "@misc{pets}", "```bibtex\n@misc{pets}\n```", "citeAs", "citation", "@misc{pets}"
    ),
    "--license": card(
        "CC-BY-4.0",
        "\nlicense: cc-by-4.0\n",
        "license",
        "redistributionInfo",
        {"license": "CC-BY-4.0"},
        "https://spdx.org/licenses/CC-BY-4.0.html",
    ),
    "--homepage": card(PAGE, f"<{PAGE}>", "url", "location", {"urls": [PAGE]}),
    "--croissant": Row(
        '{"creator": "Ann Lee"}',
        turns(
            lambda made: content(made, "croissant.json").get("creator"),
            None,
            {"@type": "sc:Person", "name": "Ann Lee"},
        ),
        {"name": "pets"},
    ),
    "--overwrite": Row(True, turns(_ended, 2, 0), {"output": "{out}/finished", "seed": 3}),
    "--transcode": Row("png", turns(_formats, {b"jpeg"}, {b"png"})),
    "--resize": Row("8x6", turns(shapes, {(12, 16, 3)}, {(6, 8, 3)})),
    "--color": Row("gray", turns(shapes, {(12, 16, 3)}, {(12, 16, 1)})),
    "--quality": Row(30, _quality, {"resize": "64x48"}),
    "--exif_orientation": Row(
        "apply", turns(shapes, {(12, 16, 3)}, {(16, 12, 3)}), {**TURNED, **DIRECTORY}
    ),
    "--depth": Row(16, turns(_depth, "uint8", "uint16")),
    "--strip_metadata": Row(True, _strip_metadata, {**TURNED, **DIRECTORY}),
    "--model": Row(
        "{in}/small.keras",
        needed("--layout embedding needs --model", _names, {"Feature", "Label"}),
        EMBEDDING,
    ),
    "--model_weights": Row(
        "{in}/b0.weights.h5",
        needed(
            "give --model_weights FILE",
            lambda made: made.dataset.manifest["features"][0]["shape"],
            [7, 7, 1280],
        ),
        {"model": "EfficientNetB0", **EMBEDDING},
    ),
    "--embed_dtype": Row(
        "bfloat16",
        turns(_embed_dtype, ("float", None), ("bytes", "bfloat16")),
        {"model": "{in}/small.keras", **EMBEDDING},
    ),
    "--check": Row(
        "header",
        turns(reasons, ["corrupt_image"], []),
        {"images": "{in}/cut/*/*.png", **ALL, **DIRECTORY},
    ),
    "--max_pixels": Row(
        12 * 16 - 1, turns(reasons, [], ["too_many_pixels"] * 4), ALL, before=12 * 16
    ),
    "--max_bytes": Row("100B", turns(reasons, [], ["too_many_bytes"] * 4), ALL),
    "--max_rejected": Row("50%", turns(_ended, 3, 0), EMPTY, before="1%"),
    "--strict": Row(None, _strict, {"splits": "a=0.999,b=0.001"}, before=True),
    "--holdout": Row(
        "{out}/base",
        turns(says("holdout  4 groups of exact duplicates with images of --holdout"), False, True),
    ),
    "--dedupe": Row(
        "drop",
        turns(reasons, [], ["duplicate_image"]),
        {"images": "{in}/equal/*/*.jpg", **DIRECTORY},
    ),
    "--quarantine": Row("{out}/rejected", _quarantine, {**EMPTY, **ALL}),
    "--config": Row("{in}/seed.yaml", _seed),
    "--workers": Row(2, _workers, {"num_shards": 3}),
    "--quiet": Row(True, _quiet),
    "--verbose": Row(True, _verbose),
    "--progress": Row("json", _progress_json, before="off"),
}
