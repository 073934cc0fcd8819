"""Opening a finished dataset: its manifest, or one line that says why there is none."""

from __future__ import annotations

from typing import Any

from apache_beam.io.filesystem import BeamIOError

from pipeline.errors import UsageError, one_line
from pipeline.path_flags import check_path
from transforms import files
from transforms.core.manifest import MANIFEST, ManifestError


def open_dataset(output: str) -> dict[str, Any]:
    """The manifest of the dataset in a folder.

    Raises:
        UsageError: there is none, or it cannot be read.
    """
    check_path("the folder", output)
    path = files.join(output, MANIFEST)
    try:
        manifest = files.read_manifest(path)
    except ManifestError as error:
        raise UsageError(str(error)) from error
    except (BeamIOError, OSError, ValueError) as error:
        raise UsageError(f"cannot read {path}: {one_line(error)}") from error
    if manifest is None:
        raise UsageError(f"{output} holds no dataset: there is no {path}")
    return manifest
