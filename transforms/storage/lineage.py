"""What a job reads and writes, in Beam's metrics for lineage.

The steps here open files without Beam's IO, so they also report them. Dataflow shows the lineage
of jobs with `--dataflow_service_options=enable_lineage=true`.
"""

from __future__ import annotations

import os

from apache_beam.io.filesystems import FileSystems
from apache_beam.metrics.metric import Lineage

from transforms.labels.keys import WILDCARD, archive_path, literal_prefix
from transforms.storage.gcs_requests import SCHEME, split_uri


def report_source(path: str) -> None:
    """Reports an input of the job from a step that reads it: a file, a folder or a glob.

    A glob is reported as the folder above its first wildcard, as Beam reports many files.
    """
    _report(path, Lineage.sources())


def report_sink(folder: str) -> None:
    """Reports the folder of a dataset from the step that publishes it."""
    _report(folder, Lineage.sinks())


def _report(path: str, lineage: Lineage) -> None:
    asset = _asset(path)
    if asset.startswith(SCHEME):
        # Buckets are read here without Beam's file system for them, which may not be there.
        lineage.add("gcs", *filter(None, split_uri(asset)), last_segment_sep="/")
    else:
        FileSystems.get_filesystem(asset).report_lineage(asset, lineage)


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
