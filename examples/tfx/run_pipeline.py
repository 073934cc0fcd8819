"""Runs a TFX pipeline with `ImageExampleGen` alone, on this machine.

    python examples/tfx/run_pipeline.py FOLDER 'photos/*/*.jpg' '{"labels": "labels.csv"}'

A further argument is the program in another environment, such as `/venv/bin/image-tfrecords`.
Components that follow take `examples.outputs["examples"]`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from image_example_gen import ImageExampleGen
from tfx.orchestration import metadata
from tfx.orchestration.local.local_dag_runner import LocalDagRunner
from tfx.orchestration.pipeline import Pipeline


def main(folder: str, images: str, options: str = "{}", *program: str) -> None:
    """Makes the examples of `images` in `folder`."""
    given = {"program": program[0]} if program else {}
    examples = ImageExampleGen(images=images, options=options, **given)
    database = os.path.join(folder, "metadata.db")
    os.makedirs(folder, exist_ok=True)
    LocalDagRunner().run(
        Pipeline(
            pipeline_name="images",
            pipeline_root=os.path.join(folder, "root"),
            components=[examples],
            metadata_connection_config=metadata.sqlite_metadata_connection_config(database),
        )
    )


if __name__ == "__main__":
    arguments: Sequence[str] = sys.argv[1:]
    if len(arguments) < 2:
        sys.exit(__doc__)
    main(*arguments)
