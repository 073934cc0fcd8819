"""`--class_names` takes the classes of a dataset with their ids, and says what is in the way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import UsageError
from pipeline.resolve.label_flags import check_ids, classes_of_records, known_classes
from tests.conftest import draw
from tests.pipeline.commands import convert, make_dataset
from transforms.core.messages import Decision
from transforms.dataset.manifest import crc32c_hex
from transforms.labels.label_rules import KnownClasses, LabelRules


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
    (tmp_path / "data.YAML").write_text("nc: 2\nnames: {0: dog, 1: cat}\n")
    assert known_classes(str(tmp_path / "data.YAML")) == KnownClasses(("dog", "cat"))
    assert known_classes(None) == KnownClasses()
    assert KnownClasses(("dog",)).decisions("text") == ()
    check_ids(KnownClasses(("dog",)), LabelRules(first_id=1))


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
    check_ids(found, LabelRules(class_names=found.names))


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
        check_ids(known, rules._replace(class_names=known.names))
    said = str(caught.value)
    assert said.startswith("--class_names old: its class ids cannot be kept: ")
    assert hint in said


def test_ids_that_categories_gave_are_kept_with_their_gaps() -> None:
    known = KnownClasses(("cat", "dog"), {"cat": 0, "dog": 3}, "old", (0, 3))
    assert known.kind("auto") == "text"
    rules = LabelRules("text", known.names, known_ids=True, class_ids=known.numbers)
    check_ids(known, rules)
    with pytest.raises(UsageError, match="'cat' is 0 there, which readers of --layout detection"):
        check_ids(known, rules._replace(first_id=1))


def described(folder: Path, labels: str, **options: Any) -> dict[str, Any]:
    """The part of a manifest that describes classes; their names are in a file."""
    folder.mkdir()
    (folder / "labels.txt").write_text(labels)
    listed = {"bytes": len(labels), "crc32c": crc32c_hex(labels.encode())}
    return {"options": options, "files": {"labels.txt": listed}}


def test_the_classes_of_records_are_those_of_categories_that_agree(tmp_path: Path) -> None:
    categories: dict[str, Any] = {"categories": {}}
    first = described(tmp_path / "1", "\ncat\n\ndog\n", **categories)
    second = described(tmp_path / "2", "\ncat\n\n\nfox\n", **categories)
    other = described(tmp_path / "3", "\nfox\n", **categories)
    sorted_ = described(tmp_path / "4", "cat\ndog\n")
    found = {str(tmp_path / str(at)): each for at, each in enumerate((first, second), 1)}
    both = KnownClasses(("cat", "dog", "fox"), numbers=(1, 3, 4))
    assert classes_of_records(found, first_id=1) == both
    # Without a contradiction, each class keeps its id; otherwise all labels are sorted.
    for name, manifest in (("3", other), ("4", sorted_)):
        more = {**found, str(tmp_path / name): manifest}
        assert classes_of_records(more, first_id=1) == KnownClasses()
    (tmp_path / "1" / "labels.txt").write_text("cat\n")
    with pytest.raises(UsageError, match="^--images: .*/1/labels.txt was changed"):
        classes_of_records(found, first_id=1)


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
