"""`--class_names` takes the classes of a dataset with their ids, and says what is in the way."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import UsageError
from pipeline.resolve.label_flags import check_ids, classes_of_records, known_classes
from tests.conftest import draw
from tests.marks import cases
from tests.pipeline.commands import Dataset, convert, make_dataset
from tests.pipeline.reusing import write_manifest
from transforms.core.messages import Decision
from transforms.labels.label_rules import KnownClasses, LabelRules


def dataset(folder: Path, *labels: str, **flags: Any) -> str:
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
    (tmp_path / "data.YAML").write_text("nc: 2\nnames: {0: dog, 1: cat}\n")
    for given in (f"{tmp_path}/classes.txt", ("dog", "cat"), f"{tmp_path}/data.YAML"):
        assert known_classes(given) == KnownClasses(("dog", "cat"))
    assert known_classes(None) == KnownClasses()
    assert KnownClasses(("dog",)).decisions("text") == ()
    check_ids(KnownClasses(("dog",)), LabelRules(first_id=1))


def test_the_classes_of_a_dataset_keep_their_ids(tmp_path: Path) -> None:
    # As a file, these lines would be those of TF-Slim.
    folder = dataset(tmp_path, "0:dog", "1:cat")
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
    draw(tmp_path / "in" / "cat" / "1.jpg")
    flags = {"images": f"{tmp_path}/in/*/*.jpg", "label_from": "directory", "overwrite": True}
    ran = convert(**flags, class_names=f"{tmp_path}/out/", output=tmp_path / "out")
    assert ran.error() == (
        f"convert: --class_names {tmp_path}/out/ is also --output, whose manifest is removed while "
        "it is replaced: copy its labels.txt to a file, or write to another folder"
    )


@cases(
    ("auto", ("cat", "7"), "text"),
    ("auto", ("7", "9"), "auto"),
    ("integer", ("cat", "dog"), "integer"),
)
def test_labels_are_names_if_the_classes_of_a_dataset_are(
    kind: str, names: tuple[str, ...], resolved: str
) -> None:
    known = KnownClasses(names, {name: at for at, name in enumerate(names)}, "old")
    assert known.kind(kind) == resolved
    assert KnownClasses(names).kind(kind) == KnownClasses().kind(kind) == kind


@cases(
    ({"7": 7, "9": 9}, LabelRules(dense=True), "leave out --dense_labels"),
    ({"7": 0, "9": 1}, LabelRules(), "add --dense_labels"),
    ({"10": 0, "7": 1}, LabelRules("integer"), "add --dense_labels"),
    ({"7": 7}, LabelRules("text"), "leave out --label_kind text"),
    ({"cat": 0}, LabelRules(first_id=1), "only ids of --layout detection begin at 1"),
    ({"cat": 1}, LabelRules(), "only ids of --layout detection begin at 1"),
    ({"cat": 1, "dog": 3}, LabelRules(first_id=1), "there are gaps between them, which only"),
)
def test_ids_that_cannot_be_kept(ids: dict[str, int], rules: LabelRules, hint: str) -> None:
    known = KnownClasses(tuple(ids), ids, "old")
    with pytest.raises(UsageError) as caught:
        check_ids(known, rules._replace(class_names=known.names))
    said = str(caught.value)
    assert said.startswith("--class_names old: its class ids cannot be kept: ") and hint in said


def test_ids_that_categories_gave_are_kept_with_their_gaps() -> None:
    known = KnownClasses(("cat", "dog"), {"cat": 0, "dog": 3}, "old", (0, 3))
    assert known.kind("auto") == "text"
    rules = LabelRules("text", known.names, known_ids=True, class_ids=known.numbers)
    check_ids(known, rules)
    with pytest.raises(UsageError, match="'cat' is 0 there, which readers of --layout detection"):
        check_ids(known, rules._replace(first_id=1))


def test_the_classes_of_records_are_those_of_categories_that_agree() -> None:
    """Without a contradiction, each class keeps its id; otherwise all labels are sorted."""

    def described(name: str, **options: dict[str, int]) -> dict[str, Any]:
        return {name: {"options": options}}

    found = described("1", categories={"cat": 1, "dog": 3})
    found |= described("2", categories={"cat": 1, "fox": 4})
    both = KnownClasses(("cat", "dog", "fox"), numbers=(1, 3, 4))
    assert classes_of_records(found, first_id=1) == both
    for other in (described("3", categories={"fox": 1}), described("4")):
        assert classes_of_records(found | other, first_id=1) == KnownClasses()


def unlisted(folder: Path) -> None:
    manifest = Dataset(folder).manifest
    del manifest["files"]["labels.txt"]
    write_manifest(Dataset(folder), manifest)


EDITS: dict[str, tuple[Callable[[Path], object], str]] = {
    "integers": (lambda _: None, "its labels.txt is empty, since its integer labels"),
    "changed": (lambda folder: (folder / "labels.txt").write_text("dog\n"),
        "^--class_names: {0}/labels.txt was changed"),
    "gone": (lambda folder: (folder / "labels.txt").unlink(),
        "^cannot read --class_names {0}/labels.txt"),
    "unlisted": (unlisted, "^--class_names: {0}/manifest.json was edited: it lists no labels.txt$"),
}  # fmt: skip


@pytest.fixture(scope="module")
def numbered(tmp_path_factory: pytest.TempPathFactory) -> str:
    return dataset(tmp_path_factory.mktemp("numbered"), "-7", "9")


@pytest.mark.parametrize("edit", EDITS)
def test_a_dataset_whose_classes_cannot_be_used(edit: str, numbered: str, tmp_path: Path) -> None:
    folder = str(shutil.copytree(numbered, tmp_path / "out"))
    change, says = EDITS[edit]
    change(Path(folder))
    with pytest.raises(UsageError, match=says.format(folder)):
        known_classes(folder)


def test_folders_without_classes(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="^--class_names: .*/empty holds no dataset: there is no"):
        known_classes(f"{tmp_path}/empty")
    with pytest.raises(UsageError, match="^no such file: --class_names"):
        known_classes(f"{tmp_path}/absent")
    folder = dataset(tmp_path, "cat", labels=None, label_from="none")
    with pytest.raises(UsageError, match="out: this dataset has no labels$"):
        known_classes(folder)
    (tmp_path / "current").symlink_to(folder)
    for name in (f"{folder}/", f"{tmp_path}/current"):
        with pytest.raises(UsageError, match=f"^--class_names {name} is also --output, whose"):
            known_classes(name, replaced=folder)
