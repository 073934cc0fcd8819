"""Classes keep their ids from one version of a dataset to the next."""

from pathlib import Path

import pytest

from tests.conftest import draw
from tests.pipeline.commands import Dataset, convert, digests, make_dataset, plan
from tests.pipeline.reading import label_ids

pytestmark = pytest.mark.slow


def drawn(folder: Path, *names: str) -> str:
    """Draws images; gives the glob that matches all of them."""
    for name in names:
        draw(folder / "in" / f"{name}.jpg", seed=ord(name[-1]))
    return f"{folder}/in/**/*.jpg"


def check_repeated(dataset: Dataset, folder: Path) -> None:
    """Makes a dataset again by its manifest, and compares every file."""
    again = make_dataset(folder, config=dataset.folder / "manifest.json")
    described = {"manifest.json": "", "report.html": ""}
    assert {**digests(again.folder), **described} == {**digests(dataset.folder), **described}
    assert again.manifest["options"] == dataset.manifest["options"]


def test_day_by_day(tmp_path: Path) -> None:
    images = drawn(tmp_path, "dog/d", "fox/f")
    first = make_dataset(tmp_path / "1", images=images, label_from="directory")
    drawn(tmp_path, "cat/c", "ant/a")
    known = {"images": images, "class_names": first.folder, "label_from": "directory"}
    refused = convert(**known, new_classes="refuse", output=tmp_path / "2")
    assert refused.code == 2
    assert refused.error() == (
        "convert: 2 labels are not in --class_names, with the number of images: 'ant' (1), 'cat' "
        "(1). Correct them, or use --new_classes append; nothing published"
    )

    planned = plan(**known, new_classes="append", output=tmp_path / "2")
    assert "known classes  2 classes            keep their ids in" in planned.out
    assert "new classes    2 classes            'ant', 'cat': after the known" in planned.out
    second = make_dataset(tmp_path / "2", **known, new_classes="append")
    assert label_ids(second) == {"d": 0, "f": 1, "a": 2, "c": 3}
    assert second.classes == ["dog", "fox", "ant", "cat"]
    assert second.manifest["options"]["new_classes"] == "append"

    # Images of a class may go; its id stays.
    (tmp_path / "in" / "dog" / "d.jpg").unlink()
    known["class_names"] = second.folder
    third = make_dataset(tmp_path / "3", **known, new_classes="append")
    assert label_ids(third) == {"f": 1, "a": 2, "c": 3}
    fourth = make_dataset(tmp_path / "4", **known, new_classes="refuse")
    assert "new_classes" not in fourth.manifest["options"]
    # The manifest has the names: the earlier version may be gone.
    check_repeated(third, tmp_path / "5")
    last = make_dataset(tmp_path / "6", images=third.folder, class_names=third.folder)
    assert "left out" not in {each["what"] for each in last.manifest["decided"]}


def test_a_number_is_a_new_class_and_a_missing_cell_is_not(tmp_path: Path) -> None:
    rows = tmp_path / "labels.csv"
    flags = {"images": drawn(tmp_path, *"abc"), "labels": rows, "max_rejected": 1}
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


@pytest.mark.parametrize(
    ("kind", "added", "reasons"), [(None, ["0"], ["no_label"]), ("text", ["0", "NA"], [])]
)
def test_a_repeated_run_reads_missing_cells_and_numbers_as_the_first(
    kind: str | None, added: list[str], reasons: list[str], tmp_path: Path
) -> None:
    rows = tmp_path / "labels.csv"
    flags = {"images": drawn(tmp_path, *"abcd"), "labels": rows, "max_rejected": 1}
    # As lines of a file, these would be the numbers of classes.
    rows.write_text("id,label\na,0:cat\nb,1:dog\nc,1:dog\nd,1:dog\n")
    first = make_dataset(tmp_path / "1", **flags)
    rows.write_text("id,label\na,0:cat\nb,0\nc,NA\nd,1:dog\n")
    known = {"class_names": first.folder, "new_classes": "append", "label_kind": kind}
    second = make_dataset(tmp_path / "2", **flags, **known)
    assert second.classes == ["0:cat", "1:dog", *added]
    assert [line["reason"] for line in second.rejected] == reasons
    check_repeated(second, tmp_path / "3")
