"""Remembers what Beam finds out about functions and options, for tests with many small pipelines.

For each pipeline, Beam reads the signature of every method of a step about 25 times, and parses
its options 300 times: nearly half of what a small pipeline costs. The answers do not change in a
process. The commands that tests run in processes of their own do without.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

from pipeline.run.beam_import import import_beam

Arguments = tuple[list[str], list[Any]]
"""The names of the arguments of a function, and their defaults."""


@functools.cache
def remember() -> None:
    """Makes Beam remember from now on."""
    import_beam(["gs://"])
    from apache_beam.options.pipeline_options import PipelineOptions
    from apache_beam.transforms import core

    core.get_function_args_defaults = remembering_arguments(core.get_function_args_defaults)
    PipelineOptions.view_as = remembering_views(PipelineOptions)


def remembering_arguments(read: Callable[[Any], Arguments]) -> Callable[[Any], Arguments]:
    """`get_function_args_defaults` that reads each method once, for all objects of its class."""
    known: dict[Any, Arguments] = {}

    @functools.wraps(read)
    def arguments(function: Any) -> Arguments:
        method = getattr(function, "__func__", None)
        if method is None:
            return read(function)
        if method not in known:
            known[method] = read(function)
        names, defaults = known[method]
        return [*names], [*defaults]

    return arguments


def remembering_views(options: Any) -> Callable[[Any, Any], Any]:
    """`view_as` that parses the same words once for each class of options."""
    parse = options.view_as
    known: dict[tuple[Any, ...], Any] = {}

    @functools.wraps(parse)
    def view_as(self: Any, cls: Any) -> Any:
        if self._flags is None or cls.__init__ is not options.__init__:
            return parse(self, cls)
        key = (cls, *self._flags)
        if key not in known:
            known[key] = copy.deepcopy(parse(self, cls)._visible_options)
        for name, value in vars(known[key]).items():
            if name not in self._all_options:
                self._all_options[name] = copy.deepcopy(value)
        view = cls.__new__(cls)
        view.__dict__.update(
            _flags=self._flags, _visible_options=known[key], _all_options=self._all_options
        )
        return view

    return view_as
