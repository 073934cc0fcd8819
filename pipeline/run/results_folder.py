"""The folder in which workers leave what a command prints."""

from __future__ import annotations

from collections.abc import Sequence

from apache_beam.options.pipeline_options import GoogleCloudOptions, PipelineOptions

from pipeline.errors import UsageError
from pipeline.run.launch import has_local_workers


def results_folder(command: str, scratch: str, beam_flags: Sequence[str]) -> str:
    """A folder that the workers and this machine can access.

    Args:
        command: its name, for messages.
        scratch: a folder for workers on this machine.
        beam_flags: options of Beam.

    Raises:
        UsageError: there is none.
    """
    if has_local_workers(beam_flags):
        return scratch
    options = PipelineOptions(list(beam_flags))
    folder = options.view_as(GoogleCloudOptions).temp_location
    if not folder:
        raise UsageError(
            f"{command} needs --temp_location with this --runner: a folder for results, which "
            "the workers and this machine can access"
        )
    return str(folder)
