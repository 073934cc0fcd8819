"""Classes keep their ids from one version of a dataset to the next."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import draw
from tests.marks import rest_slow
from tests.pipeline.commands import convert, digests, make_dataset, plan
from tests.pipeline.reading import label_ids
from tests.servers.gcs import GcsServer


def test_day_by_day(tmp_path: Path) -> None:
    draw(tmp_path / "in" / "dog" / "d.jpg", seed=1)
    draw(tmp_path / "in" / "fox" / "f.jpg", seed=2)
    images = f"{tmp_path}/in/*/*.jpg"
    first = make_dataset(tmp_path / "1", images=images)
    draw(tmp_path / "in" / "cat" / "c.jpg", seed=3)
    draw(tmp_path / "in" / "ant" / "a.jpg", seed=4)
    known = {"images": images, "class_names": first.folder}

    refused = convert(**known, new_classes="refuse", output=tmp_path / "2")
    assert refused.code == 2
    assert refused.error() == (
        "convert: 2 labels are not in --class_names, with the number of images: 'ant' (1), 'cat' "
        "(1). Correct them, or use --new_classes append; nothing published"
    )
    assert plan(**known, new_classes="refuse", output=tmp_path / "2").code == 2

    planned = plan(**known, new_classes="append", output=tmp_path / "2")
    assert "known classes  2 classes            keep their ids in" in planned.out
    assert "new classes    2 classes            'ant', 'cat': after the known" in planned.out
    second = make_dataset(tmp_path / "2", **known, new_classes="append")
    assert label_ids(second) == {"d": 0, "f": 1, "a": 2, "c": 3}
    assert second.classes == ["dog", "fox", "ant", "cat"]
    assert second.manifest["options"]["new_classes"] == "append"

    # Images of a class may go; its id stays.
    (tmp_path / "in" / "dog" / "d.jpg").unlink()
    third = make_dataset(
        tmp_path / "3", images=images, class_names=second.folder, new_classes="append"
    )
    assert label_ids(third) == {"f": 1, "a": 2, "c": 3}
    refusing = {"class_names": second.folder, "new_classes": "refuse"}
    assert (
        "new_classes"
        not in make_dataset(tmp_path / "4", images=images, **refusing).manifest["options"]
    )

    # The manifest has the names: the earlier version may be gone.
    config = tmp_path / "3" / "manifest.json"
    again = make_dataset(tmp_path / "5", config=config)
    described = {"manifest.json": "", "report.html": ""}
    assert {**digests(again.folder), **described} == {**digests(third.folder), **described}


def test_a_number_is_a_new_class_and_a_missing_cell_is_not(tmp_path: Path) -> None:
    for name in "abc":
        draw(tmp_path / "in" / f"{name}.jpg", seed=ord(name))
    rows = tmp_path / "labels.csv"
    flags = {"images": f"{tmp_path}/in/*.jpg", "labels": rows, "max_rejected": 1}
    rows.write_text("id,label\na,cat\nb,dog\nc,NA\n")
    first = make_dataset(tmp_path / "1", **flags)
    rows.write_text("id,label\na,cat\nb,0\nc,NA\n")
    second = make_dataset(tmp_path / "2", **flags, class_names=first.folder, new_classes="append")
    assert label_ids(second) == {"a": 0, "b": 2}
    assert second.classes == ["cat", "dog", "0"]
    assert [line["reason"] for line in second.rejected] == ["no_label"]
    # With the same names from a file, a number is the index of a name.
    third = make_dataset(tmp_path / "3", **flags, class_names=first.folder / "labels.txt")
    assert label_ids(third) == {"a": 0, "b": 0}


@pytest.mark.parametrize("kind", rest_slow([None, "text"]))
def test_a_repeated_run_reads_missing_cells_and_numbers_as_the_first(
    kind: str | None, tmp_path: Path
) -> None:
    for name in "abcd":
        draw(tmp_path / "in" / f"{name}.jpg", seed=ord(name))
    rows = tmp_path / "labels.csv"
    flags = {"images": f"{tmp_path}/in/*.jpg", "labels": rows, "max_rejected": 1}
    # As lines of a file, these would be the numbers of classes.
    rows.write_text("id,label\na,0:cat\nb,1:dog\nc,1:dog\nd,1:dog\n")
    first = make_dataset(tmp_path / "1", **flags)
    rows.write_text("id,label\na,0:cat\nb,0\nc,NA\nd,1:dog\n")
    known = {"class_names": first.folder, "new_classes": "append", "label_kind": kind}
    second = make_dataset(tmp_path / "2", **flags, **known)
    added = ["0"] if kind is None else ["0", "NA"]
    assert second.classes == ["0:cat", "1:dog", *added]
    assert [line["reason"] for line in second.rejected] == ([] if kind else ["no_label"])
    for number in (3, 4):
        config = tmp_path / str(number - 1) / "manifest.json"
        again = make_dataset(tmp_path / str(number), config=config)
        assert again.manifest["options"] == second.manifest["options"]
        described = {"manifest.json": "", "report.html": ""}
        assert {**digests(again.folder), **described} == {**digests(second.folder), **described}


def test_the_classes_of_a_dataset_in_a_bucket(tmp_path: Path, gcs: GcsServer) -> None:
    draw(tmp_path / "fox" / "f.jpg", seed=2)
    draw(tmp_path / "ant" / "a.jpg", seed=1)
    gcs.make_bucket("base")
    names = {"images": f"{tmp_path}/*/*.jpg", "output": "gs://base/1"}
    assert convert(**{**names, "images": f"{tmp_path}/f*/*.jpg"}, label_from="directory").code == 0
    second = make_dataset(
        tmp_path / "2",
        images=names["images"],
        class_names="gs://base/1",
        new_classes="append",
    )
    assert label_ids(second) == {"f": 0, "a": 1}
    missing = convert(**names | {"class_names": "gs://base/0"})
    assert missing.error() == "convert: no such file: --class_names gs://base/0"
