"""Converts images to the folders of a TFX `Examples` artifact; needs no TFX.

The conversion runs in a process of its own, since TFX and this package need other versions of
protobuf: `program` may be that of another environment.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

DATASET = "dataset"
"""The folder of the dataset below the artifact: manifest, report, labels and schema."""


def convert_to_splits(
    uri: str, program: str, options: Mapping[str, str | Sequence[str]]
) -> list[str]:
    """Writes `URI/Split-NAME/*.tfrecord.gz` for each split, and the rest to `URI/dataset`.

    Args:
        uri: local folder of the artifact.
        program: `image-tfrecords`, or its path in another environment.
        options: of the command `convert`, by the names of its flags.

    Returns:
        the names of the splits with records.

    Raises:
        RuntimeError: the conversion failed; the message has its last line.
    """
    output = Path(uri) / DATASET
    # TFX reads compressed files; each artifact is a new folder, so nothing is overwritten.
    flags = {**options, "output": str(output), "compression": "gzip", "progress": "off"}
    words = [
        f"--{name}={value}"
        for name, values in flags.items()
        for value in ([values] if isinstance(values, str) else values)
    ]
    ran = subprocess.run(
        [*shlex.split(program), "convert", *words], capture_output=True, text=True, check=False
    )
    if ran.returncode:
        last = (ran.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        raise RuntimeError(f"image-tfrecords convert ended with {ran.returncode}: {last}")
    manifest = json.loads((output / "manifest.json").read_text("utf-8"))
    names = []
    for name, split in manifest["splits"].items():
        if split["records"]:
            names.append(name)
            folder = Path(uri) / f"Split-{name}"
            folder.mkdir()
            for shard in split["shards"]:
                # A second name of the same file: no copy, and the dataset stays whole.
                os.link(output / shard["file"], folder / shard["file"])
    return names
