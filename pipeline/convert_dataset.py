"""ConvertDataset: a whole conversion as one transform, with typed options."""

import argparse
from typing import Unpack

import apache_beam as beam

from pipeline.errors import UsageError
from pipeline.graph import build
from pipeline.options.option_table import GROUPS, OPTIONS
from pipeline.resolve.preflight import check_flags
from transforms.core.option import declared_in, own_words, read_arguments
from transforms.core.option_types import ConvertDatasetOptions


class ConvertDataset(beam.PTransform):
    """Makes a dataset as `python -m pipeline.convert` does, with the same options.

    Input: the pipeline's begin. Output: `published`, or `up_to_date` if a dataset of the same
    inputs and options. There is no lock: one run at a time for an output folder is up to the
    caller.

    Raises in the job: see `PublishDataset`.
    """

    def __init__(self, **options: Unpack[ConvertDatasetOptions]) -> None:
        """Resolves the options, which reads the first rows and lists the first images.

        Args:
            options: by the names of the flags, with their values as Python has them, or as text:
                `output="out"`, `images=["photos/*/*.jpg"]`, `seed=3`, `overwrite=True`. A `str` is
                one glob.

        Raises:
            TypeError: an option does not exist.
            ValueError: an option has an invalid value, or conflicts with the others
                or with the inputs.
        """
        super().__init__()
        known = declared_in(GROUPS, ConvertDatasetOptions.__annotations__)
        # The options of a run have their defaults.
        of_run = {name: each.default_value for name, each in OPTIONS.items()}
        flags = argparse.Namespace(**{**of_run, **read_arguments("ConvertDataset", known, options)})
        if flags.output is None:
            raise ValueError("output is missing: give the folder of the dataset")
        try:
            self._config = check_flags(flags)
        except UsageError as error:
            raise ValueError(own_words(str(error))) from error

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[str]:
        return build(begin.pipeline, self._config)
