"""The sdist and the wheel: what is in them, what their metadata says, and that the wheel works."""

import email
import email.message
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from pipeline import __version__
from tests.needs import skip_unless
from tests.pipeline.commands import ROOT
from tests.pipeline.right_command import right_flags, write_inputs
from tests.test_dependencies import requirements

# They build the package, and make an environment for it.
pytestmark = pytest.mark.slow

ADDRESS = "https://example.org/image-tfrecords"

GENERATED = {"PKG-INFO", "setup.cfg"}
"""Files that setuptools adds to an sdist, in addition to the folder `*.egg-info`."""


class Built(NamedTuple):
    """What a build of the tree makes.

    Attributes:
        tree: the copy of the files under version control that was built.
        sdist: the source distribution.
        wheel: the wheel, built from the sdist.
    """

    tree: Path
    sdist: Path
    wheel: Path


def tracked() -> list[str]:
    """Paths of the files under version control."""
    skip_unless(shutil.which("git") and (ROOT / ".git").exists(), "this is not a clone")
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [name for name in listed.stdout.split("\0") if name and (ROOT / name).exists()]


def build(folder: Path, variables: Mapping[str, str]) -> Built:
    """Builds a copy of the tree as `python -m build` does, without the network."""
    tree = folder / "tree"
    for name in tracked():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, tree / name)
    # What a working tree has in addition to that: a build must leave it out.
    for stray in ("out/photo.jpg", "tests/__pycache__/x.cpython-311.pyc", "docs/.swp"):
        (tree / stray).parent.mkdir(parents=True, exist_ok=True)
        (tree / stray).write_bytes(b"stray")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder / "dist")]
    done = subprocess.run(
        [*command, str(tree)],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    [sdist] = folder.glob("dist/*.tar.gz")
    [wheel] = folder.glob("dist/*.whl")
    return Built(tree, sdist, wheel)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build(tmp_path_factory.mktemp("built"), {"IMAGE_TFRECORDS_REPOSITORY": f"{ADDRESS}/"})


def metadata(wheel: Path) -> email.message.Message:
    """The metadata of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return email.message_from_bytes(archive.read(name))


def description(wheel: Path) -> str:
    """The text of the project's page in a package index."""
    return metadata(wheel).get_payload()  # type: ignore[return-value]


def test_the_sdist_is_the_tree(built: Built) -> None:
    """All of it, tests included, except files that only version control and CI read."""
    with tarfile.open(built.sdist) as archive:
        names = [
            name.partition("/")[2]
            for name in archive.getnames()
            if archive.getmember(name).isfile()
        ]
    there = {name for name in names if ".egg-info/" not in name} - GENERATED
    assert there == {name for name in tracked() if not name.startswith(".")}


def test_the_wheel_has_the_packages_and_nothing_else(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as archive:
        names = set(archive.namelist())
    info = f"image_tfrecords-{__version__}.dist-info/"
    assert {name for name in names if not name.startswith(info)} == {
        name
        for name in tracked()
        if name.split("/")[0] in ("image_tfrecords", "pipeline", "transforms")
    }
    assert f"{info}licenses/LICENSE" in names
    # The data files of the report page, without which no dataset has a report.
    page = "transforms/report/report_page"
    parts = ("page.html", "warnings.html", "rejected.html", "groups.html", "style.css", "script.js")
    assert {f"{page}/{name}" for name in parts} <= names


def test_the_metadata_is_complete(built: Built) -> None:
    found = metadata(built.wheel)
    assert (found["Name"], found["Version"]) == ("image-tfrecords", __version__)
    assert found["License-Expression"] == "Apache-2.0"
    assert found["Description-Content-Type"] == "text/markdown"
    assert found["Summary"] and "tfrecord" in found["Keywords"].split(",")
    # One for each extra that has it.
    wanted = {each.partition(";")[0].strip() for each in found.get_all("Requires-Dist", [])}
    assert len(wanted) == len(requirements())
    classifiers = found.get_all("Classifier", [])
    pythons = [each.split(" :: ")[-1] for each in classifiers if re.search(r":: 3\.\d+$", each)]
    assert pythons == ["3.11", "3.12", "3.13"]
    assert "Typing :: Typed" in classifiers
    # The license expression replaces those classifiers; indexes refuse both.
    assert not [each for each in classifiers if each.startswith("License ::")]


def test_the_urls_are_below_the_address(built: Built) -> None:
    urls = dict(each.split(", ") for each in metadata(built.wheel).get_all("Project-URL", []))
    assert urls == {
        "Source": ADDRESS,
        "Documentation": f"{ADDRESS}/tree/main/docs",
        "Changelog": f"{ADDRESS}/blob/main/CHANGELOG.md",
        "Issues": f"{ADDRESS}/issues",
    }


def test_the_long_description_is_the_readme_with_whole_links(built: Built) -> None:
    """A package index knows no file of the tree: what is relative there leads nowhere."""
    text = description(built.wheel)
    assert text.startswith("# image-tfrecords\n")
    assert f"]({ADDRESS}/raw/main/docs/report.png)" in text
    assert f"[Options]({ADDRESS}/blob/main/docs/options.md)" in text
    targets = re.findall(r"\]\(([^)]+)\)", text)
    assert len(targets) > 20
    for target in targets:
        assert target.startswith("https://"), target
        path = re.sub(r"^.*/(blob|raw)/main/|#.*", "", target)
        assert not target.startswith(ADDRESS) or (ROOT / path).exists(), target


def test_both_pass_the_check_of_the_index(built: Built) -> None:
    command = [sys.executable, "-m", "twine", "--no-color", "check", "--strict"]
    done = subprocess.run(
        [*command, str(built.sdist), str(built.wheel)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    # A long path is wrapped, with or without the space.
    assert len(re.findall(r":\s*PASSED", done.stdout)) == 2


def test_without_an_address_no_link_leads_nowhere(tmp_path: Path) -> None:
    """The metadata alone, in a folder with the three files that setup.py reads."""
    for name in ("setup.py", "README.md", "pipeline/__init__.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy2(ROOT / name, tmp_path / name)
    variables = {**os.environ, "IMAGE_TFRECORDS_REPOSITORY": ""}
    done = subprocess.run(
        [sys.executable, "setup.py", "--url", "--long-description"],
        cwd=tmp_path,
        env=variables,
        capture_output=True,
        text=True,
        check=True,
    )
    text = done.stdout[done.stdout.index("# image-tfrecords\n") :]
    assert not re.findall(r"!?\[[^\]]*\]\((?!https://)[^)]*\)", text)
    assert "Reference**: Options ·" in text


@pytest.fixture(scope="module")
def installed(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel, without its dependencies."""
    folder = tmp_path_factory.mktemp("environment") / "venv"
    uv = [sys.executable, "-m", "uv"]
    subprocess.run([*uv, "venv", "--quiet", "--python", sys.executable, str(folder)], check=True)
    install = [*uv, "pip", "install", "--quiet", "--offline", "--no-deps"]
    python = folder / "bin" / "python"
    subprocess.run([*install, "--python", str(python), str(built.wheel)], check=True)
    return folder


def run_installed(venv: Path, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Runs the console script that the wheel installed; nothing of this tree is on its path."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    script = venv / "bin" / "image-tfrecords"
    return subprocess.run(
        [str(script), *words], cwd=cwd, env=variables, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("folder", ["empty", "with our names"])
def test_the_installed_script_prints_its_version(
    folder: str, installed: Path, hostile_folder: Path, tmp_path: Path
) -> None:
    cwd = tmp_path if folder == "empty" else hostile_folder
    ran = run_installed(installed, "--version", cwd=cwd)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, f"image-tfrecords {__version__}\n", "")


def test_the_installed_script_converts(
    installed: Path, hostile_folder: Path, tmp_path: Path
) -> None:
    """The script uses this environment's dependencies and the wheel's files of the report."""
    site = next((installed / "lib").glob("python*/site-packages"))
    (site / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    write_inputs(tmp_path)
    flags = [f"--{name}={value}" for name, value in right_flags(tmp_path).items()]
    ran = run_installed(installed, "convert", *flags, "--progress=off", cwd=hostile_folder)
    assert ran.returncode == 0, ran.stderr
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["ledger"]["records_written"]
    assert (tmp_path / "out" / "report.html").stat().st_size > 10_000
