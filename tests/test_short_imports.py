"""The short imports: `from transforms import FindImages` and `from pipeline import load`."""

from __future__ import annotations

import ast
import importlib
import os
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

import image_tfrecords
import pipeline
import transforms
from tests.pipeline.commands import ROOT

PACKAGES = [transforms, pipeline]


def typed_imports(package: Any) -> dict[str, str]:
    """The module that the type checker reads for each name."""
    tree = ast.parse(Path(package.__file__).read_text())
    ifs = (node for node in tree.body if isinstance(node, ast.If))
    [block] = (node for node in ifs if ast.unparse(node.test) == "TYPE_CHECKING")
    return {
        alias.name: node.module or ""
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_every_name_is_what_the_type_checker_reads(package: Any) -> None:
    typed = typed_imports(package)
    assert sorted(typed) == sorted(package.__all__) == sorted(package._MODULES)
    for name, module in typed.items():
        assert getattr(package, name) is getattr(importlib.import_module(module), name)
        assert name in dir(package)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_another_name_is_missing(package: Any) -> None:
    with pytest.raises(AttributeError, match=f"module '{package.__name__}' has no attribute 'nix'"):
        _ = package.nix


def test_the_face_has_names_of_the_pipeline() -> None:
    names = typed_imports(image_tfrecords)
    assert sorted([*names, "convert"]) == sorted(image_tfrecords.__all__)
    assert {*image_tfrecords.__all__} <= {*dir(image_tfrecords)}
    for name in names:
        assert getattr(image_tfrecords, name) is getattr(pipeline, name)
    with pytest.raises(AttributeError, match="module 'image_tfrecords' has no attribute 'nix'"):
        _ = image_tfrecords.nix


def test_the_face_leaves_a_program_its_modules(tmp_path: Path, monkeypatch: Any) -> None:
    for name in ("transforms", "pipeline"):
        monkeypatch.setitem(sys.modules, name, theirs := types.ModuleType(name))
        assert image_tfrecords.load is importlib.import_module("pipeline.read").load
        assert sys.modules[name] is theirs


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_program_has_modules_of_our_names(when: str, photos: Path, tmp_path: Path) -> None:
    """Its process that reads in parallel begins as the program does."""
    (tmp_path / "transforms.py").write_text("augment = 7\n")
    (tmp_path / "pipeline.py").write_text("")
    own = "import pipeline\nfrom transforms import augment\n"
    (tmp_path / "train.py").write_text(f"""
{own if when == "before" else ""}
from image_tfrecords import Records, class_names, convert
import sys
assert not {{"apache_beam", "tensorflow"}} & {{*sys.modules}}
{own if when == "after" else ""}
if __name__ == "__main__":
    info = convert({str(photos / "*/*.jpg")!r}, "out", label_from="directory", quiet=True)
    records = Records("out", "train", decode=True)
    assert len(records) == info.splits["train"] and class_names("out") == info.class_names
    assert records[0]["image/encoded"].ndim == 3
    import multiprocessing, transforms
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(len, [records]) == [len(records)]
    assert transforms.augment == augment
""")
    environment = {**os.environ, "PYTHONPATH": f".{os.pathsep}{ROOT}"}
    command = [sys.executable, "train.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "dataset  out\n"), done.stderr


def test_the_face_raises_what_the_command_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(pipeline.UsageError, match="^no file matches --labels 'none.csv'"):
        image_tfrecords.convert("photos", "none.csv", "out", overwrite=False, images=None)
    assert capfd.readouterr().out.startswith("convert: no file matches")
    with pytest.raises(pipeline.UsageError, match="^--splits 'train=0.8': the shares add up to"):
        image_tfrecords.convert("photos", "out", splits={"train": 0.8})


@pytest.mark.slow
def test_an_interrupt_ends_the_conversion(photos: Path, tmp_path: Path, monkeypatch: Any) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("builtins.print", interrupt)
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        image_tfrecords.convert(f"{photos}/*/*.jpg", str(out), label_from="directory")
    monkeypatch.undo()
    # The process has ended, and with it its lock; of few images, it may have been done.
    assert image_tfrecords.convert(f"{photos}/*/*.jpg", str(out), label_from="directory").splits


@pytest.mark.slow
def test_a_package_imports_neither_beam_nor_tensorflow() -> None:
    script = """
import sys, image_tfrecords, pipeline, transforms
from transforms import Limits, check_image
assert not {"apache_beam", "tensorflow"} & set(sys.modules), "the packages import too much"
from pipeline import class_names, load
from transforms import FindImages, LabelImages, WriteDataset
assert "tensorflow" not in sys.modules, "a name imports TensorFlow"
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
