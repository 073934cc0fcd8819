"""What each flag about labels and label files changes."""

from __future__ import annotations

from tests.pipeline.commands import digests
from tests.pipeline.option_rows import Made, Row, reasons
from tests.pipeline.reading import (
    LANDMARK,
    feature_names,
    filenames,
    label_ids,
    labels,
    read,
)

ALL = {"max_rejected": "100%"}


def _labels(without: Made, made: Made) -> None:
    assert set(labels(without.dataset).values()) == {"cat", "dog"}
    assert labels(made.dataset) == {"cat-0": "a", "cat-1": "b", "dog-0": "c", "dog-1": "d"}


def _masks(without: Made, made: Made) -> None:
    added = {"image/segmentation/class/encoded", "image/segmentation/class/format"}
    assert feature_names(made.dataset) - feature_names(without.dataset) == added


def _label_from(without: Made, made: Made) -> None:
    assert "image/class/text" in feature_names(without.dataset)
    assert "image/class/text" not in feature_names(made.dataset)


def _label_regex(without: Made, made: Made) -> None:
    assert label_ids(without.dataset) == {"cat-0": 0, "cat-1": 0, "dog-0": 1, "dog-1": 1}
    assert labels(made.dataset) == {"cat-0": "0", "cat-1": "1", "dog-0": "0", "dog-1": "1"}


def _label_key(without: Made, made: Made) -> None:
    assert labels(without.dataset)["cat-0"] == "a"
    assert labels(made.dataset)["cat-0"] == "d"


def _label_column(without: Made, made: Made) -> None:
    assert labels(without.dataset)["cat-0"] == "a"
    assert labels(made.dataset)["cat-0"] == "x"


def _label_kind(without: Made, made: Made) -> None:
    assert label_ids(without.dataset) == {"cat-0": 7, "cat-1": 100000, "dog-0": 10}
    assert reasons(without) == ["no_label"]
    assert label_ids(made.dataset) == {"cat-0": 2, "cat-1": 1, "dog-0": 0, "dog-1": 3}
    assert labels(made.dataset)["dog-1"] == "nan"


def _dense_labels(without: Made, made: Made) -> None:
    assert label_ids(without.dataset) == {"cat-0": 7, "cat-1": 100000, "dog-0": 10}
    assert label_ids(made.dataset) == {"cat-0": 0, "cat-1": 2, "dog-0": 1}
    assert labels(made.dataset) == {"cat-0": "7", "cat-1": "100000", "dog-0": "10"}
    assert (made.dataset.folder / "labels.txt").read_text() == "7\n10\n100000\n"


def _key(without: Made, made: Made) -> None:
    assert {r["id"] for r in read(without.dataset, LANDMARK)} >= {b"cat-0", b"dog-1"}
    assert {r["id"] for r in read(made.dataset, LANDMARK)} >= {b"cat-0.jpg", b"dog-1.jpg"}


def _root(without: Made, made: Made) -> None:
    assert filenames(without.dataset)[0].count("/") == 1
    assert sorted(filenames(made.dataset))[0] == "photos/cat/cat-0.jpg"


def _keys(without: Made, made: Made) -> None:
    assert set(labels(without.dataset)) == {"cat-0", "cat-1", "dog-0", "dog-1"}
    assert set(labels(made.dataset)) == {"cat-1", "dog-0"}


def _reuse(without: Made, made: Made) -> None:
    assert "from their records" not in without.ran.out
    assert "reused   4 images from their records (--reuse)" in made.ran.out
    assert digests(made.dataset.folder) == digests(without.dataset.folder)


def _csv_encoding(without: Made, made: Made) -> None:
    assert without.ran.code == 2 and "--csv_encoding cp949" in without.ran.error()
    assert set(labels(made.dataset).values()) == {"고양이"}


def _class_names(without: Made, made: Made) -> None:
    assert label_ids(without.dataset) == {"cat-0": 0, "cat-1": 0, "dog-0": 1, "dog-1": 1}
    assert label_ids(made.dataset) == {"cat-0": 1, "cat-1": 1, "dog-0": 0, "dog-1": 0}


def _new_classes(without: Made, made: Made) -> None:
    assert label_ids(without.dataset) == {"dog-0": 0, "dog-1": 0}
    assert reasons(without) == ["unknown_label", "unknown_label"]
    assert label_ids(made.dataset) == {"dog-0": 0, "dog-1": 0, "cat-0": 1, "cat-1": 1}


def _csv_delimiter(without: Made, made: Made) -> None:
    assert without.ran.code == 2 and "has one column" in without.ran.error()
    assert labels(made.dataset) == {"cat-0": "a", "cat-1": "b", "dog-0": "c", "dog-1": "d"}


def _key_cells(without: Made, made: Made) -> None:
    assert "key cells      without '/old/'" in without.ran.out
    assert len(labels(without.dataset)) == 4
    assert len(labels(made.dataset)) == 1


def _allow_outside(without: Made, made: Made) -> None:
    assert reasons(without) == ["outside_root"]
    assert reasons(made) == ["unreadable"]  # there is no such file


LABEL_ROWS = {
    "--labels": Row("{in}/letters.csv", _labels),
    "--masks": Row("{in}/masks/*.png", _masks, {"label_from": "none"}),
    "--label_from": Row("none", _label_from),
    "--label_regex": Row(r"-(\d)\.", _label_regex),
    "--label_key": Row("other", _label_key, {"labels": "{in}/columns.csv"}),
    "--label_column": Row("kind", _label_column, {"labels": "{in}/columns.csv"}),
    "--label_kind": Row("text", _label_kind, {"labels": "{in}/numbers.csv", "max_rejected": 1}),
    "--dense_labels": Row(True, _dense_labels, {"labels": "{in}/numbers.csv", "max_rejected": 1}),
    "--key": Row("name", _key, {"labels": "{in}/names.csv", "layout": "landmark"}),
    "--root": Row("{in}", _root),
    "--keys": Row("{in}/keys.txt", _keys),
    "--reuse": Row("{out}/base", _reuse),
    "--csv_encoding": Row("cp949", _csv_encoding, {"labels": "{in}/korean.csv"}),
    "--csv_delimiter": Row("~", _csv_delimiter, {"labels": "{in}/tildes.csv"}),
    "--key_cells": Row("as_is", _key_cells, {"labels": "{in}/old.csv", "key": "path", **ALL}),
    "--allow_outside": Row(
        True, _allow_outside, {"images": None, "labels": "{in}/outside.csv", **ALL}
    ),
    "--class_names": Row("{in}/classes.txt", _class_names),
    "--new_classes": Row("append", _new_classes, {"class_names": "{in}/dogs.txt", **ALL}),
}
