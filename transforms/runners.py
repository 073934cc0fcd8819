"""Where a pipeline runs, for steps that only pay off on several machines."""

from __future__ import annotations

import apache_beam as beam


def runs_in_process(pipeline: beam.Pipeline) -> bool:
    """Whether the workers are threads or processes of Beam's in-process runner.

    They share the memory of one machine, and each step has its price there.
    """
    # By its name: a job that runs elsewhere does not import it.
    return type(pipeline.runner).__name__ == "FnApiRunner"
