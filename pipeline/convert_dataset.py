"""ConvertDataset: the whole command as one transform for a caller's pipeline."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Unpack, cast

import apache_beam as beam

from pipeline.convert_options import ConvertOptions
from pipeline.errors import UsageError
from pipeline.flags.option_table import OPTIONS
from pipeline.flags.options import parse_flags
from pipeline.flags.output_options import RUN
from pipeline.graph import build
from pipeline.preflight import check_flags
from transforms.core.arguments import own_words

Option = str | os.PathLike[str] | int | float | bool | Iterable[str | os.PathLike[str]] | None
"""A flag's value: True sets a switch; None and False omit the flag."""

OPTION_NAMES = frozenset(OPTIONS) - {option.name for option in RUN}
"""The options of `ConvertDataset`: every flag of `convert` except those of its run."""


class ConvertDataset(beam.PTransform):
    """Makes a dataset as `python -m pipeline.convert` does, with the same options.

    Input: the pipeline's begin. Output: `published`, or `up_to_date` if a dataset of the same
    inputs and options. There is no lock: one run at a time for an output folder is up to the
    caller.

    Raises in the job: see `PublishDataset`.
    """

    def __init__(self, **options: Unpack[ConvertOptions]) -> None:
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
        for name in options:
            if name not in OPTION_NAMES:
                listed = "docs/options.md lists them"
                raise TypeError(f"ConvertDataset has no option {name!r}: {listed}")
        given = cast(Mapping[str, Option], options)
        words = [word for name, value in given.items() for word in _words(name, value)]
        try:
            flags, _ = parse_flags("convert", words)
            self._config = check_flags(flags)
        except UsageError as error:
            raise ValueError(own_words(str(error))) from error

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[str]:
        return build(begin.pipeline, self._config)


def _words(name: str, value: Option) -> list[str]:
    """The command-line words for an option."""
    if value is None or value is False:
        return []
    if value is True:
        return [f"--{name}"]
    if isinstance(value, str | os.PathLike | int | float):
        return [f"--{name}={os.fspath(value) if isinstance(value, os.PathLike) else value}"]
    texts = [os.fspath(each) for each in value]
    is_repeated = OPTIONS[name].is_repeatable
    return [f"--{name}={text}" for text in (texts if is_repeated else [",".join(texts)])]
