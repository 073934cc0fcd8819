"""`examples/tfx`: what a TFX component writes, and a TFX pipeline in an environment of its own."""

import json
import runpy
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from tests.conftest import draw
from tests.lazy import lazy_module
from tests.needs import skip_unless
from tests.pipeline.commands import ROOT
from tests.test_dependencies import OFFLINE

tfxio = lazy_module("tfx_bsl.public.tfxio")

EXAMPLE = ROOT / "examples" / "tfx"

# Writes what `convert` writes of two splits, one of them empty.
FAKE = """#!{python}
import json, pathlib, sys
assert sys.argv[1] == "convert", sys.argv
given = dict(word.removeprefix("--").split("=", 1) for word in sys.argv[2:])
if given["images"] == "none":
    sys.exit("reading\\nno file matches --images none")
out = pathlib.Path(given["output"])
out.mkdir(parents=True)
(out / "train-0.gz").write_text(json.dumps(given))
train = {{"records": 3, "shards": [{{"file": "train-0.gz"}}]}}
test = {{"records": 0, "shards": [{{"file": "test-0.gz"}}]}}
(out / "manifest.json").write_text(json.dumps({{"splits": {{"train": train, "test": test}}}}))
"""

# The program as a package installs it.
PROGRAM = """#!{python}
import sys
sys.path.insert(0, {root!r})
sys.argv[0] = "image-tfrecords"
from pipeline.command_line import main
sys.exit(main())
"""


def script(folder: Path, text: str) -> str:
    path = folder / "program.py"
    path.write_text(text.format(python=sys.executable, root=str(ROOT)))
    path.chmod(0o755)
    return str(path)


def convert(uri: Path, program: str, **options: Any) -> Any:
    convert_to_splits = runpy.run_path(str(EXAMPLE / "split_folders.py"))["convert_to_splits"]
    return convert_to_splits(str(uri), program, options)


def test_splits_with_records_get_folders(tmp_path: Path) -> None:
    assert convert(tmp_path / "a", script(tmp_path, FAKE), images="x", seed="3") == ["train"]
    shard = tmp_path / "a/Split-train/train-0.gz"
    given = json.loads(shard.read_text())
    assert (given["compression"], given["seed"]) == ("gzip", "3")
    assert shard.samefile(tmp_path / "a/dataset/train-0.gz")
    assert not (tmp_path / "a/Split-test").exists()


def test_a_failed_conversion_is_one_line(tmp_path: Path) -> None:
    says = "image-tfrecords convert ended with 1: no file matches --images none"
    with pytest.raises(RuntimeError, match=says):
        convert(tmp_path / "a", script(tmp_path, FAKE), images="none")


@pytest.mark.fresh
def test_a_tfx_pipeline_makes_examples(tmp_path: Path) -> None:
    for number in range(12):
        name = ("cat", "dog")[number % 2]
        draw(tmp_path / f"photos/{name}/{number}.jpg", seed=number)
    environment = tmp_path / "tfx"
    uv = [sys.executable, "-m", "uv"]
    subprocess.run([*uv, "venv", "-q", "--python", sys.executable, environment], check=True)
    installed = subprocess.run(
        [*uv, "pip", "install", "-q", "--python", environment / "bin/python"]
        + ["-r", EXAMPLE / "requirements.txt"],
        capture_output=True,
        text=True,
        check=False,
    )
    is_online = not any(text in installed.stderr for text in OFFLINE)
    skip_unless(is_online, "the package index is out of reach")
    assert installed.returncode == 0, installed.stderr
    out = tmp_path / "out"
    options = json.dumps({"label_from": "directory", "splits": "train=0.7,eval=0.3"})
    words = [out, f"{tmp_path}/photos/*/*.jpg", options, script(tmp_path, PROGRAM)]
    ran = subprocess.run(
        [environment / "bin/python", EXAMPLE / "run_pipeline.py", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    [artifact] = (out / "root/ImageExampleGen/examples").iterdir()
    with sqlite3.connect(out / "metadata.db") as database:
        rows = database.execute("select string_value from ArtifactProperty").fetchall()
    assert ('["train", "eval"]',) in rows
    assert _records(artifact, "train") + _records(artifact, "eval") == 12


def _records(artifact: Path, split: str) -> int:
    """The records of a split, as the components of TFX read them."""
    text = (artifact / "dataset/schema.pbtxt").read_text()
    source = tfxio.TFExampleRecord(
        file_pattern=str(artifact / f"Split-{split}/*"),
        schema=text_format.Parse(text, schema_pb2.Schema()),
        telemetry_descriptors=["tests"],
    )
    options = tfxio.TensorFlowDatasetOptions(batch_size=1, shuffle=False, num_epochs=1)
    return sum(1 for _ in source.TensorFlowDataset(options))
