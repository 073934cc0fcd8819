"""The classes of `--class_names`: names in a file, or the classes of a dataset and their ids."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pipeline.errors import UsageError, input_error
from pipeline.flags.flag_values import KNOWN_CLASSES, DatasetClasses
from pipeline.open_dataset import open_dataset
from pipeline.resolve.path_flags import read_flag_file
from transforms.core.annotations.coco_json import class_ids
from transforms.core.annotations.yolo_text import yaml_class_names
from transforms.core.dataset.output_names import LABELS, MANIFEST
from transforms.core.decisions import Decision, given
from transforms.core.label_errors import LabelsError
from transforms.core.labels.label_kinds import is_canonical_integer
from transforms.core.labels.label_rules import LabelRules
from transforms.core.labels.vocabulary import parse_labels, read_class_names
from transforms.core.tables.table_formats import Category
from transforms.storage.files import is_same_path, join, read_dataset_file, storage_of

_FLAG = "--class_names"


class KnownClasses(NamedTuple):
    """The classes of `--class_names`.

    Attributes:
        names: in the order of their ids; None without the flag.
        ids: of the names in a dataset, which they keep; None for a file; empty for a repeated run,
            whose flags keep them.
        source: the dataset's folder; empty for a file.
        numbers: the ids of the names, if categories of label files gave them; None otherwise.
    """

    names: tuple[str, ...] | None = None
    ids: Mapping[str, int] | None = None
    source: str = ""
    numbers: tuple[int, ...] | None = None

    def decisions(self, given_kind: str) -> tuple[Decision, ...]:
        """What was decided, for the block "Decided".

        Args:
            given_kind: the value of `--label_kind`.
        """
        if self.ids is None or self.names is None:
            return ()
        count = f"{len(self.names)} class{'' if len(self.names) == 1 else 'es'}"
        known = Decision(KNOWN_CLASSES, count, f"keep their ids in {self.source}", _FLAG)
        # The kind also follows from the names: a repeated run must know which of both it was.
        kind = given("kind of labels", given_kind, "--label_kind")
        return (known,) if given_kind == "auto" else (known, kind)

    def kind(self, given: str) -> str:
        """The kind of labels: no number is the index of a name that a dataset gave.

        Args:
            given: the value of `--label_kind`.
        """
        if self.numbers is not None:
            return "text"
        is_text = self.ids is not None and not all(map(is_canonical_integer, self.names or ()))
        return "text" if given == "auto" and is_text else given

    def check_ids(self, rules: LabelRules) -> None:
        """Checks that the classes of a dataset keep their ids under the other flags.

        Raises:
            UsageError: they do not; the message names a flag.
            LabelsError: see `Vocabulary.build`.
        """
        if not self.ids:
            return
        now = _ids(rules)
        if now == self.ids:
            self._check_first_id(rules.first_id)
            return
        others = {
            "add --dense_labels": rules._replace(dense=True),
            "leave out --dense_labels": rules._replace(dense=False),
            "add --label_kind text": rules._replace(kind="text"),
            "leave out --label_kind text": rules._replace(kind="auto"),
        }
        hints = [hint for hint, other in others.items() if self._are_ids_of(other)]
        hint = "only ids of --layout detection begin at 1: use the same layout"
        if max(self.ids.values()) - min(self.ids.values()) >= len(self.ids):
            hint = "there are gaps between them, which only the categories of COCO labels give"
        name = next(name for name, class_id in self.ids.items() if now.get(name) != class_id)
        raise UsageError(
            f"{_FLAG} {self.source}: its class ids cannot be kept: {name[:40]!r} is "
            f"{self.ids[name]} there, and would be {now.get(name, 'unknown')}; "
            f"{hints[0] if hints else hint}"
        )

    def _check_first_id(self, first_id: int) -> None:
        """Refuses ids of categories that readers of boxes do not take for a class."""
        name, smallest = min((self.ids or {}).items(), key=lambda each: each[1])
        if smallest < first_id:
            raise UsageError(
                f"{_FLAG} {self.source}: its class ids cannot be kept: {name[:40]!r} is {smallest} "
                "there, which readers of --layout detection reserve for the background: use "
                "another layout"
            )

    def _are_ids_of(self, rules: LabelRules) -> bool:
        with contextlib.suppress(LabelsError):
            return _ids(rules) == self.ids
        return False


def _ids(rules: LabelRules) -> Mapping[str, int]:
    known = rules.vocabulary((), rules.kind)
    return dict(zip(known.lines(), known.ids, strict=True))


def known_classes(
    source: str | tuple[str, ...] | DatasetClasses | None, replaced: str = ""
) -> KnownClasses:
    """Reads the classes.

    Args:
        source: a file, also the `data.yaml` of YOLO; the folder of a dataset; or the names, listed
            in the file of `--config`.
        replaced: the folder whose dataset this run replaces; empty if it replaces none.

    Raises:
        UsageError: they cannot be read, or the folder holds no dataset with classes, or the one
            that is replaced.
        LabelsError: the file has no class name, or the same name twice.
    """
    if source is None:
        return KnownClasses()
    if isinstance(source, DatasetClasses):
        return KnownClasses(source.names, {}, source.source, source.numbers)
    if not isinstance(source, str):
        return KnownClasses(read_class_names("\n".join(source)))
    if replaced and is_same_path(source, replaced):
        # A run that is killed while it publishes could not read the classes again.
        raise UsageError(
            f"{_FLAG} {source} is also --output, whose manifest is removed while it is replaced: "
            f"copy its {LABELS} to a file, or write to another folder"
        )
    try:
        storage = storage_of(source)
        is_dataset = storage.find(source) is None and storage.is_folder(source)
    except (OSError, ValueError) as error:
        raise input_error(f"cannot read {_FLAG} {source}", error) from error
    if is_dataset:
        return _of_dataset(source.rstrip("/") or "/")
    text = read_flag_file(_FLAG, source)
    if source.lower().endswith((".yaml", ".yml")):
        text = "\n".join(yaml_class_names(text, f"{_FLAG} {source}"))
    return KnownClasses(read_class_names(text))


def classes_of_categories(
    categories: Mapping[str, Sequence[Category]], *, first_id: int
) -> KnownClasses:
    """The classes that COCO files define, with their ids.

    Args:
        categories: of each file.
        first_id: the smallest id that readers take for a class.

    Raises:
        LabelsError: see `class_ids`.
    """
    names, ids = class_ids(categories, first_id=first_id)
    return KnownClasses(names, numbers=ids)


def classes_of_records(datasets: Mapping[str, Mapping[str, Any]], *, first_id: int) -> KnownClasses:
    """The classes of datasets whose records are images, with the ids that categories gave them.

    There are none, and labels are sorted, unless all datasets have such ids, which agree.

    Args:
        datasets: the manifest of each dataset by its folder.
        first_id: the smallest id that readers take for a class.

    Raises:
        UsageError: the classes of a dataset cannot be read.
    """
    if not all(_has_categories(manifest) for manifest in datasets.values()):
        return KnownClasses()
    categories = {
        folder: [Category(*each, 1) for each in _listed("--images", folder, manifest).items()]
        for folder, manifest in datasets.items()
    }
    try:
        return classes_of_categories(categories, first_id=first_id)
    except LabelsError:
        return KnownClasses()


def _has_categories(manifest: Mapping[str, Any]) -> bool:
    """Whether the categories of label files gave the classes their ids."""
    return "categories" in manifest["options"]


def _of_dataset(folder: str) -> KnownClasses:
    try:
        manifest = open_dataset(folder)
    except UsageError as error:
        raise UsageError(f"{_FLAG}: {error}") from error
    if manifest["labels"] == "none":
        raise UsageError(f"{_FLAG} {folder}: this dataset has no labels")
    classes = _listed(_FLAG, folder, manifest)
    if not classes:
        raise UsageError(
            f"{_FLAG} {folder}: its {LABELS} is empty, since its integer labels are ids that it "
            "cannot list; they are kept without the flag"
        )
    ids = {name: number for number, name in classes.items()}
    numbers = tuple(classes) if _has_categories(manifest) else None
    return KnownClasses(tuple(ids), ids, folder, numbers)


def _listed(flag: str, folder: str, manifest: Mapping[str, Any]) -> dict[int, str]:
    """The names in the `labels.txt` of a dataset by class id."""
    path, listed = join(folder, LABELS), manifest["files"].get(LABELS)
    if listed is None:
        edited = join(folder, MANIFEST)
        raise UsageError(f"{flag}: {edited} was edited: it lists no {LABELS}")
    try:
        data = read_dataset_file(path, listed)
    except OSError as error:
        raise input_error(f"cannot read {flag} {path}", error) from error
    if data is None:
        raise UsageError(
            f"{flag}: {path} was changed, its checksum is not that in {MANIFEST}: restore it, or "
            "copy the names to a file"
        )
    return parse_labels(data.decode())
