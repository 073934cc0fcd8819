"""The whole command as one transform, and the options that each public transform takes."""

import os
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from apache_beam.metrics.metric import Lineage

from pipeline.graph import ConvertDataset
from pipeline.options.option_table import OPTIONS as TABLE
from pipeline.options.option_table import RunOptions
from tests.conftest import draw
from tests.marks import cases
from tests.pipeline.commands import digests, make_dataset
from tests.transforms.beam import make_pipeline
from transforms.core.option import declared
from transforms.core.option_types import (
    ConvertDatasetOptions,
    FindImagesOptions,
    LabelImagesOptions,
    WriteDatasetOptions,
)
from transforms.dataset.dataset_options import CardOptions

# Flags that only `ConvertDataset` takes of the Python interface, and why.
ONLY_WHOLE = {
    # columns, types and units of the layout are inferred while labels are read
    "boxes": "layout",
    "label_separator": "layout",
    # a layout's, too: ConvertDataset joins them
    "masks": "layout",
    # rows that list the images need no FindImages: LabelImages takes them from any reader
    "allow_outside": "listed",
    # FindImages takes the cells as they are, but for what every key gets
    "key_cells": "as_is",
    # a caller filters the images before LabelImages
    "keys": "filter",
    # a caller's pipeline gives images whose files it has listed itself
    "reuse": "listed",
    # datasets are opened before the graph is made
    "holdout": "opened",
    # as are files whose records are images
    "record_features": "opened",
    # a dataset is named by the command that publishes it
    **dict.fromkeys(declared(CardOptions), "published"),
    # a caller that knows the new classes gives their names
    "new_classes": "class_names",
    # FindImages has the shares, and WriteDataset the classes
    "stratify": "splits",
}


def test_every_flag_of_the_command_is_an_option() -> None:
    own: set[str] = {"images", "output", "class_names"}
    for step in (FindImagesOptions, LabelImagesOptions, WriteDatasetOptions):
        own |= set(step.__annotations__)
    assert own | set(ONLY_WHOLE) == set(ConvertDatasetOptions.__annotations__)
    assert not own & set(ONLY_WHOLE)


def test_the_typed_options_are_those_of_the_table() -> None:
    hints = get_type_hints(ConvertDatasetOptions)
    assert set(hints) == {name for name in TABLE if name not in declared(RunOptions)}
    assert ConvertDatasetOptions.__required_keys__ == {"output"}
    for name, hint in hints.items():
        option = TABLE[name]
        kinds = get_args(hint) or (hint,)
        choices = [value for kind in kinds for value in get_args(kind) if isinstance(value, str)]
        # One that takes a text of the user's is any text.
        is_open = any(":" in choice for choice in option.choices)
        assert choices == ([] if is_open else list(option.choices)), name
        assert (bool in kinds) == option.is_switch, name
        assert (os.PathLike[str] in kinds) == option.is_path, name
        is_number = isinstance(option.default_value, int) and not option.is_switch
        assert not is_number or int in kinds, name
        assert option.is_switch or option.is_required or type(None) in kinds, name


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder to be in: three photos, and boxes for two of them."""
    for name in ("a", "b", "c"):
        draw(tmp_path / f"photos/{name}.jpg", seed=ord(name))
    (tmp_path / "boxes.csv").write_text(
        "id,label,xmin,ymin,xmax,ymax\na,cat,1,2,3,4\na,dog,2,2,4,4\nb,dog,1,1,5,5\n"
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


OPTIONS: dict[str, Any] = {
    "images": ["photos/[ab].jpg", "photos/c.jpg"],
    "labels": "boxes.csv",
    "layout": "detection",
    "boxes": {"units": "pixel", "columns": ["xmin", "ymin", "xmax", "ymax"]},
    "max_rejected": "50%",
    "seed": 4,
    "num_shards": None,
    "strict": False,
    "overwrite": True,
}


@pytest.mark.slow
def test_the_bytes_are_those_of_the_command(folder: Path) -> None:
    given = {name: value for name, value in OPTIONS.items() if value not in (None, False, True)}
    flags = {**given, "boxes": "units=pixel,columns=xmin,ymin,xmax,ymax"}
    command = make_dataset(folder / "command", "--overwrite", **flags)
    pipeline = make_pipeline()
    _ = pipeline | "Convert" >> ConvertDataset(output=folder / "own", **OPTIONS)
    pipeline.run().wait_until_finish()
    own, theirs = digests(folder / "own"), digests(command.folder)
    # The page has its own folder's name.
    own.pop("report.html"), theirs.pop("report.html")
    assert own == theirs


def test_what_is_read_and_written_is_reported(folder: Path) -> None:
    pipeline = make_pipeline()
    _ = pipeline | "Convert" >> ConvertDataset(output=folder / "own", **OPTIONS)
    result = pipeline.run()
    result.wait_until_finish()
    local = f"filesystem:localhost.{folder}"
    sources = Lineage.query(result.metrics(), Lineage.SOURCE)
    assert set(sources) == {f"{local}/photos", f"{local}/photos/c.jpg", f"{local}/boxes.csv"}
    assert set(Lineage.query(result.metrics(), Lineage.SINK)) == {f"{local}/own"}


@cases(
    ({"output": "out", "imges": ["a"]}, TypeError, "has no option 'imges'"),
    ({"output": "out", "progress": "none"}, TypeError, "has no option 'progress'"),
    ({"output": "out", "config": "a.yaml"}, TypeError, "has no option 'config'"),
    ({"output": "out", "runner": "x"}, TypeError, "has no option 'runner'"),
    ({"images": ["photos/*.jpg"]}, ValueError, "output is missing"),
    ({"output": "out", "images": ["none/*"]}, ValueError, "no file matches images"),
    ({"output": "out", "images": ["photos/*.jpg"], "num_shards": 1, "shard_size": "1MB"},
     ValueError, "num_shards cannot be used with shard_size"),
    ({"output": "out", "seed": "x"}, ValueError, "'x' is not a whole number"),
    ({"output": "out", "check": "some"}, ValueError, "is not one of"),
)  # fmt: skip
@pytest.mark.usefixtures("folder")
def test_wrong_options_fail_where_they_are_written(
    options: dict[str, Any], kind: type[Exception], says: str
) -> None:
    with pytest.raises(kind, match=says) as raised:
        ConvertDataset(**options)
    assert "--" not in str(raised.value).replace("--help", "")
