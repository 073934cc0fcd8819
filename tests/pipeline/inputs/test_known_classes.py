"""`--class_names` takes the classes of a dataset with their ids, and says what is in the way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import UsageError
from pipeline.inputs.known_classes import KnownClasses, known_classes
from tests.conftest import draw
from tests.pipeline.commands import convert, make_dataset
from transforms.core.decisions import Decision
from transforms.core.labels.vocabulary import LabelRules


def dataset(folder: Path, labels: list[str], **flags: Any) -> str:
    """A dataset with an image of each label."""
    rows = ["id,label"]
    for number, label in enumerate(labels):
        draw(folder / "in" / f"{number}.jpg", seed=number)
        rows.append(f"{number},{label}")
    (folder / "labels.csv").write_text("\n".join(rows))
    given = {"images": f"{folder}/in/*.jpg", "labels": folder / "labels.csv", **flags}
    return str(make_dataset(folder / "out", **given).folder)


def test_a_file_and_a_list_have_names_without_ids(tmp_path: Path) -> None:
    (tmp_path / "classes.txt").write_text("dog\ncat\n")
    assert known_classes(str(tmp_path / "classes.txt")) == KnownClasses(("dog", "cat"))
    assert known_classes(("dog", "cat")) == KnownClasses(("dog", "cat"))
    assert known_classes(None) == KnownClasses()
    assert KnownClasses(("dog",)).decisions("text") == ()
    KnownClasses(("dog",)).check_ids(LabelRules(first_id=1))


def test_the_classes_of_a_dataset_keep_their_ids(tmp_path: Path) -> None:
    # As a file, these lines would be those of TF-Slim.
    folder = dataset(tmp_path, ["0:dog", "1:cat"])
    found = known_classes(f"{folder}/")
    assert found == KnownClasses(("0:dog", "1:cat"), {"0:dog": 0, "1:cat": 1}, folder)
    because = f"keep their ids in {folder}"
    known = Decision("known classes", "2 classes", because, "--class_names")
    assert found.decisions("auto") == (known,)
    kind = Decision("kind of labels", "text", "given", "--label_kind")
    assert found.decisions("text") == (known, kind)
    found.check_ids(LabelRules(class_names=found.names))


def test_a_dataset_that_is_replaced_is_refused_before_its_manifest_is_read(tmp_path: Path) -> None:
    # Its manifest is staged after a run that was killed while it published.
    out = str(tmp_path / "out")
    flags = {"images": "none/*.jpg", "label_from": "directory", "class_names": f"{out}/"}
    (tmp_path / "in" / "cat").mkdir(parents=True)
    draw(tmp_path / "in" / "cat" / "1.jpg", seed=1)
    flags["images"] = f"{tmp_path}/in/*/*.jpg"
    assert convert(**flags, output=out, overwrite=True).error() == (
        f"convert: --class_names {out}/ is also --output, whose manifest is removed while it is "
        "replaced: copy its labels.txt to a file, or write to another folder"
    )


@pytest.mark.parametrize(
    ("kind", "names", "resolved"),
    [
        ("auto", ("cat", "7"), "text"),
        ("auto", ("7", "9"), "auto"),
        ("integer", ("cat", "dog"), "integer"),
    ],
)
def test_labels_are_names_if_the_classes_of_a_dataset_are(
    kind: str, names: tuple[str, ...], resolved: str
) -> None:
    known = KnownClasses(names, {name: at for at, name in enumerate(names)}, "old")
    assert known.kind(kind) == resolved
    assert KnownClasses(names).kind(kind) == kind
    assert KnownClasses().kind(kind) == kind


@pytest.mark.parametrize(
    ("ids", "rules", "hint"),
    [
        ({"7": 7, "9": 9}, LabelRules(dense=True), "leave out --dense_labels"),
        ({"7": 0, "9": 1}, LabelRules(), "add --dense_labels"),
        ({"10": 0, "7": 1}, LabelRules("integer"), "add --dense_labels"),
        ({"7": 7}, LabelRules("text"), "leave out --label_kind text"),
        ({"cat": 0}, LabelRules(first_id=1), "only ids of --layout detection begin at 1"),
        ({"cat": 1}, LabelRules(), "only ids of --layout detection begin at 1"),
        ({"cat": 1, "dog": 3}, LabelRules(first_id=1), "there are gaps between them, which only"),
    ],
)
def test_ids_that_cannot_be_kept(ids: dict[str, int], rules: LabelRules, hint: str) -> None:
    known = KnownClasses(tuple(ids), ids, "old")
    with pytest.raises(UsageError) as caught:
        known.check_ids(rules._replace(class_names=known.names))
    said = str(caught.value)
    assert said.startswith("--class_names old: its class ids cannot be kept: ")
    assert hint in said


def test_folders_whose_classes_cannot_be_used(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(UsageError, match=f"^--class_names: {empty} holds no dataset: there is no"):
        known_classes(str(empty))
    with pytest.raises(UsageError, match="^no such file: --class_names"):
        known_classes(str(tmp_path / "absent"))
    folder = dataset(tmp_path, ["-7", "9"])
    with pytest.raises(UsageError, match="its labels.txt is empty, since its integer labels"):
        known_classes(folder)
    with pytest.raises(UsageError, match=f"^--class_names {folder}/ is also --output, whose"):
        known_classes(f"{folder}/", replaced=folder)
    (tmp_path / "current").symlink_to(folder)
    with pytest.raises(UsageError, match="/current is also --output, whose"):
        known_classes(str(tmp_path / "current"), replaced=folder)
    Path(folder, "labels.txt").write_text("dog\n")
    with pytest.raises(UsageError, match=f"^--class_names: {folder}/labels.txt was changed"):
        known_classes(folder)
    Path(folder, "labels.txt").unlink()
    with pytest.raises(UsageError, match=f"^cannot read --class_names {folder}/labels.txt"):
        known_classes(folder)
    manifest = json.loads(Path(folder, "manifest.json").read_text())
    del manifest["files"]["labels.txt"]
    Path(folder, "manifest.json").write_text(json.dumps(manifest))
    edited = f"^--class_names: {folder}/manifest.json was edited: it lists no labels.txt$"
    with pytest.raises(UsageError, match=edited):
        known_classes(folder)
    unlabelled = str(tmp_path / "unlabelled")
    flags = {"images": f"{tmp_path}/in/*.jpg", "label_from": "none", "output": unlabelled}
    assert convert(**flags).code == 0
    with pytest.raises(UsageError, match="unlabelled: this dataset has no labels$"):
        known_classes(unlabelled)
