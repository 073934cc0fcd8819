"""The short imports: `from transforms import FindImages` and `from pipeline import load`."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import pipeline
import transforms

PACKAGES = [transforms, pipeline]


def typed_imports(package: Any) -> dict[str, str]:
    """The module that the type checker reads for each name."""
    tree = ast.parse(Path(package.__file__).read_text())
    [block] = (node for node in tree.body if isinstance(node, ast.If) and _is_for_types(node))
    return {
        alias.name: node.module or ""
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def _is_for_types(node: ast.If) -> bool:
    return ast.unparse(node.test) == "TYPE_CHECKING"


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


@pytest.mark.slow
def test_a_package_imports_neither_beam_nor_tensorflow() -> None:
    script = """
import sys, pipeline, transforms
from transforms import Limits, check_image
assert not {"apache_beam", "tensorflow"} & set(sys.modules), "the packages import too much"
from pipeline import class_names, load
from transforms import FindImages, LabelImages, WriteDataset
assert "tensorflow" not in sys.modules, "a name imports TensorFlow"
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
