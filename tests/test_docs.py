"""Every command and every Python block of the documentation runs, in the order it is written."""

import argparse
import importlib
import json
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from apache_beam.options.pipeline_options import GoogleCloudOptions, PipelineOptions, WorkerOptions
from PIL import Image

from pipeline import __version__
from pipeline.options.parser import make_parser, parse_flags
from tests.pipeline.commands import SMALL_FILES, run_here
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


def write_inputs(folder: Path) -> None:
    """The files that the commands of the documentation name."""
    rows = ["id,label"]
    for number in range(12):
        label = CLASSES[number % 2]
        path = folder / "photos" / label / f"{label}{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (32, 24), (20 * number, 99, 200 - 15 * number)).save(path)
        rows.append(f"{path.stem},{label}")
    (folder / "labels.csv").write_text("\n".join(rows))
    for label in CLASSES:
        path = folder / "scans" / label / "1.tif"
        path.parent.mkdir(parents=True)
        Image.new("I;16", (32, 24), 40_000).save(path)
    (folder / "classes.txt").write_text("dog\ncat\n")
    (folder / "keys.txt").write_text("cat0\ncat2\ndog1\n")
    boxes, many, table = blocks("csv", LAYOUTS)
    layout, _, pixels = blocks("yaml", LAYOUTS)
    (folder / "boxes.csv").write_text(boxes)
    (folder / "many.csv").write_text(many)
    (folder / "my.yaml").write_text(layout)
    (folder / "table.csv").write_text(table)
    (folder / "pixels.yaml").write_text(pixels)
    files = {"json": "instances.json", "xml": "voc/cat0.xml", "text": "yolo/cat0.txt"}
    for language, name in files.items():
        [content] = blocks(language, ANNOTATIONS)
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content)
    (folder / "examples").symlink_to(ROOT / "examples")


def run_in_turn(commands: Iterable[str]) -> None:
    """Runs commands in this process, which has Beam; `run_local.sh` would install first."""
    for command in commands:
        words = shlex.split(command.replace("./run_local.sh", "python -m pipeline.convert"))[1:]
        if words[0] == "-m":
            ran = run_here(importlib.import_module(words[1]).main, words[1], words[2:])
            assert ran.code == 0, f"{command}\n{ran.out}{ran.err}"
            continue
        with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as end:
            patch.setattr(sys, "argv", words)
            runpy.run_path(words[0], run_name="__main__")
        assert not end.value.code, command


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder in which all commands were run."""
    folder = tmp_path_factory.mktemp("documents")
    write_inputs(folder)
    commands = [
        line
        for path in DOCUMENTS
        for block in blocks("sh", path)
        for line in block.splitlines()
        # That one is run by the tests marked `fresh`.
        if line != "./run_local.sh"
    ]
    tf = importlib.import_module("tensorflow")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        # To compile a network takes ten times as long as these steps of training.
        tf.config.run_functions_eagerly(True)
        run_in_turn(commands)
        yield folder
        tf.config.run_functions_eagerly(False)


def run_blocks(path: Path) -> dict[str, Any]:
    """Runs the Python of a document; the names that it leaves."""
    names: dict[str, Any] = {}
    for block in blocks("python", path):
        exec(compile(block, path.name, "exec"), names)
    return names


# Keras warns of its own default, and TensorFlow that its pipelines are compiled anyway.
TRAINING = pytest.mark.filterwarnings(
    "ignore:.shuffle=True. was passed", "ignore:Even though the .tf.config"
)


@TRAINING
@pytest.mark.slow
def test_commands_of_the_documentation_run(everything: Path) -> None:
    assert sorted(path.name for path in (everything / "out" / "photos").iterdir()) == [
        *sorted(["index", *SMALL_FILES]),
        "train-00000-of-00001.tfrecord",
    ]
    assert len(list((everything / "out" / "pictures").iterdir())) == 3


@TRAINING
@pytest.mark.slow
@pytest.mark.usefixtures("everything")
def test_python_of_the_documentation_reads_what_its_commands_write() -> None:
    assert run_blocks(ROOT / "README.md")["network"].output_shape == (None, len(CLASSES))
    assert "val_accuracy" in run_blocks(ROOT / "docs" / "first_dataset.md")["history"].history
    run_blocks(LAYOUTS)
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
