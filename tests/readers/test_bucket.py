"""Readers over a dataset in a bucket. TensorFlow finds it by Google's own addresses."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipeline.commands import ROOT, Dataset
from tests.servers.gcs import GcsServer
from tests.servers.gcs_tls import serve_tls

SCRIPT = """
import json, sys
import tensorflow_datasets as tfds
from pipeline.read import load

folder = sys.argv[1]
label = "image/class/label"
found = {}
found["load"] = [int(each[label]) for each in load(folder, "train")]
builder = tfds.builder_from_directory(folder)
found["tfds"] = [int(each[label]) for each in builder.as_dataset(split="train")]
found["names"] = builder.info.features[label].names
print(json.dumps(found))
"""


@pytest.mark.slow
def test_readers_read_a_bucket(
    datasets: dict[str, Dataset], gcs: GcsServer, tmp_path: Path
) -> None:
    dataset = datasets["slim"]
    gcs.make_bucket("datasets")
    gcs.put_folder("datasets", "photos/", dataset.folder)
    with serve_tls(tmp_path, gcs) as environment:
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, "gs://datasets/photos"],
            env={**os.environ, **environment},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    classes = dataset.manifest["splits"]["train"]["classes"]
    expected = sorted(at for at, name in enumerate(classes) for _ in range(classes[name]))
    for reader in ("load", "tfds"):
        assert sorted(found[reader]) == expected, reader
    assert found["names"] == dataset.classes == list(classes)
