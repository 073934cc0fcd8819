"""Every command and every Python block of the documentation runs, in the order it is written."""

from __future__ import annotations

import argparse
import importlib
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from apache_beam.options.pipeline_options import GoogleCloudOptions, PipelineOptions, WorkerOptions
from PIL import Image

from pipeline import __version__
from pipeline.options.parser import make_parser, parse_flags
from tests.pipeline.commands import SMALL_FILES, Ran, run_here
from transforms.core.machine import machine_processes
from transforms.examples.layouts import LAYOUTS as PRESETS
from transforms.examples.layouts import ROWS

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))]
LAYOUTS = ROOT / "docs" / "layouts.md"
ANNOTATIONS = ROOT / "docs" / "annotations.md"
CLASSES = ("cat", "dog")


def blocks(language: str, path: Path) -> list[str]:
    """The fenced blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text(), re.DOTALL | re.MULTILINE)


@pytest.fixture
def reader_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files that the README's commands name, in the working folder of the test."""
    rows = ["id,label"]
    for number in range(12):
        label = CLASSES[number % 2]
        path = tmp_path / "photos" / label / f"{label}{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (32, 24), (20 * number, 99, 200 - 15 * number)).save(path)
        rows.append(f"{path.stem},{label}")
    (tmp_path / "labels.csv").write_text("\n".join(rows))
    for label in CLASSES:
        path = tmp_path / "scans" / label / "1.tif"
        path.parent.mkdir(parents=True)
        Image.new("I;16", (32, 24), 40_000).save(path)
    (tmp_path / "classes.txt").write_text("dog\ncat\n")
    (tmp_path / "keys.txt").write_text("cat0\ncat2\ndog1\n")
    boxes, many, table = blocks("csv", LAYOUTS)
    layout, _, pixels = blocks("yaml", LAYOUTS)
    (tmp_path / "boxes.csv").write_text(boxes)
    (tmp_path / "many.csv").write_text(many)
    (tmp_path / "my.yaml").write_text(layout)
    (tmp_path / "table.csv").write_text(table)
    (tmp_path / "pixels.yaml").write_text(pixels)
    files = {"json": "instances.json", "xml": "voc/cat0.xml", "text": "yolo/cat0.txt"}
    for language, name in files.items():
        [content] = blocks(language, ANNOTATIONS)
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def runnable(command: str) -> list[str]:
    """The command in this environment; the scripts, which would install one, by what they run."""
    words = shlex.split(command)
    if words[0] == "./run_local.sh":
        words = ["python", "-m", "pipeline.convert", *words[1:]]
    assert words[0] == "python", f"not known how to run: {command}"
    return [sys.executable, *words[1:]]


def run_in_turn(commands: Iterable[str]) -> None:
    """Runs the first command and scripts as they are written, in processes of their own.

    The other commands of the program run in this process, which has Beam already.
    """
    for number, command in enumerate(commands):
        python, *words = runnable(command)
        if number and words[0] == "-m":
            ran = run_here(importlib.import_module(words[1]).main, words[1], words[2:])
        else:
            done = subprocess.run([python, *words], capture_output=True, text=True, check=False)
            ran = Ran(done.returncode, done.stdout, done.stderr)
        assert ran.code == 0, f"{command}\n{ran.out}{ran.err}"


@pytest.mark.slow
def test_commands_of_the_documentation_run(reader_folder: Path) -> None:
    commands = [
        line
        for path in DOCUMENTS
        # Those have a test of their own below.
        if path != LAYOUTS
        for block in blocks("sh", path)
        for line in block.splitlines()
        # Installs and draws a sample: run by the tests marked `fresh`.
        if line != "./run_local.sh"
    ]
    assert len(commands) >= 12
    run_in_turn(commands)
    assert sorted(path.name for path in (reader_folder / "out" / "photos").iterdir()) == [
        *sorted(["index", *SMALL_FILES]),
        "train-00000-of-00001.tfrecord",
    ]
    assert len(list((reader_folder / "out" / "pictures").iterdir())) == 3
    assert not (reader_folder / "out" / "planned").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("reader_folder")
@pytest.mark.filterwarnings("ignore:.shuffle=True. was passed")  # Keras warns of its own default.
def test_python_of_the_readme_runs() -> None:
    command = "./run_local.sh photos labels.csv out/photos"
    assert command in (ROOT / "README.md").read_text()
    subprocess.run(runnable(command), check=True, capture_output=True)
    for block in blocks("python", ROOT / "README.md"):
        names: dict[str, object] = {}
        exec(compile(block, "README.md", "exec"), names)
        network: Any = names["network"]
        assert network.output_shape == (None, len(CLASSES))


@pytest.mark.slow
@pytest.mark.usefixtures("reader_folder")
@pytest.mark.filterwarnings("ignore:.shuffle=True. was passed")  # Keras warns of its own default.
def test_the_first_dataset_trains() -> None:
    page = ROOT / "docs" / "first_dataset.md"
    run_in_turn(line for block in blocks("sh", page) for line in block.splitlines())
    names: dict[str, Any] = {}
    for block in blocks("python", page):
        exec(compile(block, page.name, "exec"), names)
    assert "val_accuracy" in names["history"].history


@pytest.mark.slow
@pytest.mark.usefixtures("reader_folder")
def test_python_of_the_layouts_reads_what_its_commands_write() -> None:
    run_in_turn(line for block in blocks("sh", LAYOUTS) for line in block.splitlines())
    names: dict[str, object] = {}
    for block in blocks("python", LAYOUTS):
        exec(compile(block, "layouts.md", "exec"), names)
    for layout in (*PRESETS, ROWS):
        assert f"--layout {layout} " in LAYOUTS.read_text()


ELSEWHERE = {
    flag
    for flags in (
        "--num-shards",  # the README says that dashes are accepted
        "--dry_run",  # refused with a hint
        "--dali --limit --class --split --json --fast --full --spec",  # our other commands
        "--array_record --parquet --webdataset",
        "--pipeline --describe --share --include_masks",  # other scripts
        "--dist --compile-bytecode --constraint --dry-run --overrides --file --tag",  # pytest, uv
        "--conf --dag-id --from-date --to-date",  # airflow
        "--direct_num_workers --direct_running_mode --runner --experiments",  # Beam
        "--dataflow_service_options --disk_size_gb --enable_streaming_engine --job_name --label",
        "--max_num_workers --no_save_main_session --no_use_public_ips --project --region",
        "--number_of_worker_harness_threads --sdk_container_image --sdk_location --setup_file",
        "--temp_location --worker_machine_type",
        "--environment_cache_millis --environment_config --environment_type --job_endpoint",
        "--flink_job_server_jar --flink_master --job_port --parallelism --prism_location",
        "--sdk_worker_parallelism --service_port",
        "--image --max-workers --metadata-file --parameters --sdk-language --staging-location",
        "--temp-location --template-file-gcs-location --worker-machine-type",  # gcloud
    )
    for flag in flags.split()
}
"""Flags of other programs, and of other commands than `convert`."""


def anchors(path: Path) -> set[str]:
    """The anchors of a document's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


def test_links_lead_somewhere() -> None:
    for path in [*DOCUMENTS, ROOT / "benchmarks" / "README.md"]:
        text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)
        for name, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)#?([^)\s]*)\)", text):
            target = path.parent / name if name else path
            assert target.exists(), f"{path.name} links to {name}"
            assert not anchor or anchor in anchors(target), f"{path.name} links to {name}#{anchor}"


def test_flags_of_the_documentation_exist() -> None:
    ours = {flag for action in make_parser("convert")._actions for flag in action.option_strings}
    for path in [*DOCUMENTS, ROOT / "run_local.sh"]:
        named = set(re.findall(r"--[a-z][a-z_\-]*\b", path.read_text()))
        unknown = named - ours - ELSEWHERE
        assert not unknown, f"{path.name} names {sorted(unknown)}"


def test_the_flags_of_the_recipe_for_gpus_are_those_of_beam() -> None:
    *_, block = blocks("bash", ROOT / "docs/embeddings.md")
    words = shlex.split(block.replace("$IMAGE", "registry/image").replace("\\\n", ""))
    assert words[:2] == ["SDK_IMAGE=registry/image", "./run_dataflow.sh"]
    # What the script adds.
    added = ["--runner=DataflowRunner", "--project=vision"]
    _, beam_flags = parse_flags("convert", [*added, *words[2:]])
    options = PipelineOptions(beam_flags)
    accelerator = "worker_accelerator=type:nvidia-l4;count:1;install-nvidia-driver"
    assert options.view_as(GoogleCloudOptions).dataflow_service_options == [accelerator]
    workers = options.view_as(WorkerOptions)
    assert (workers.machine_type, workers.max_num_workers) == ("g2-standard-8", 4)
    # One process of a machine has the one model.
    given = {**options.get_all_options(), "runner": "DataflowRunner"}
    assert machine_processes({"PIPELINE_OPTIONS": json.dumps(given, default=str)}, 8) == 1


def test_every_flag_is_explained_in_a_document() -> None:
    """Not only in the list of all options."""
    guides = [path for path in DOCUMENTS if path.name not in ("options.md", "python_reference.md")]
    text = "".join(path.read_text() for path in guides)
    missing = [
        flag
        for action in make_parser("convert")._actions
        for flag in action.option_strings
        if flag.startswith("--")
        and flag != "--help"
        and flag not in text
        and action.help != argparse.SUPPRESS
    ]
    assert not missing, f"no document explains {missing}"


def test_version_and_changelog_agree() -> None:
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest and newest[1] == __version__


@pytest.mark.fresh
def test_a_newcomer_runs_the_two_commands(tmp_path: Path) -> None:
    """A copy of the tree without an environment: installs, draws, converts, converts again."""
    tree = tmp_path / "tree"
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in filter(None, listed.stdout.split("\0")):
        target = tree / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target)

    first = subprocess.run(["./run_local.sh"], cwd=tree, capture_output=True, text=True)
    assert first.returncode == 0, first.stderr
    assert "images   52 matched = 47 written + 5 rejected" in first.stdout
    assert (tree / "out" / "sample" / "manifest.json").exists()

    program = tree / ".venv" / "bin" / "image-tfrecords"
    listed = subprocess.run([str(program), "--help"], cwd=tmp_path, capture_output=True, text=True)
    assert (listed.returncode, listed.stderr) == (0, "")

    flags = ["--images", "images/**/*.jpg", "--label_from", "directory", "--max_rejected", "50%"]
    second = subprocess.run(
        [str(tree / "run_local.sh"), *flags, "--output", "converted"],
        cwd=tree / "out" / "sample-images",
        capture_output=True,
        text=True,
    )
    assert second.returncode == 0, second.stderr
    assert (tree / "out" / "sample-images" / "converted" / "manifest.json").exists()
