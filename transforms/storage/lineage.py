"""What a job reads and writes, in Beam's metrics for lineage.

The steps here open files without Beam's IO, so they also report them. Dataflow shows the lineage
of jobs with `--dataflow_service_options=enable_lineage=true`.
"""

from __future__ import annotations

import os

from apache_beam.io.filesystems import FileSystems

from transforms.core.globs import WILDCARD, literal_prefix
from transforms.core.planning.archives import archive_path


def report_source(path: str) -> None:
    """Reports an input of the job from a step that reads it: a file, a folder or a glob.

    A glob is reported as the folder above its first wildcard, as Beam reports many files.
    """
    FileSystems.report_source_lineage(_asset(path))


def report_sink(folder: str) -> None:
    """Reports the folder of a dataset from the step that publishes it."""
    FileSystems.report_sink_lineage(_asset(folder))


def _asset(path: str) -> str:
    """The name of what is reported.

    >>> _asset("gs://bucket/photos/2024-*/*.jpg")
    'gs://bucket/photos'
    >>> _asset("gs://bucket/*.jpg")
    'gs://bucket/'
    >>> _asset("gs://bucket/photos.zip!/cat/*.jpg")
    'gs://bucket/photos.zip'
    """
    if parts := archive_path(path):
        path = parts.archive
    if WILDCARD.search(path):
        folder, slash, _ = literal_prefix(path).rpartition("/")
        path = folder or slash
    scheme, separator, rest = path.rpartition("://")
    if separator:
        rest = rest.rstrip("/")
        # Beam knows a bucket by its slash.
        return f"{scheme}{separator}{rest}" + "/" * ("/" not in rest)
    return os.path.abspath(path)
