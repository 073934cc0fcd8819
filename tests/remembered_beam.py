"""Beam's introspection, remembered: it takes a third of a small pipeline, with equal results.

For every transform Beam parses its options again, and reads the signature of every method of every
DoFn several times. A command runs one pipeline; the tests of one process run hundreds. What Beam
keeps for its own messages and for times of steps, which nothing here reads, is left out. A campaign
(`CAMPAIGN=1 ./run_tests.sh`) runs the same tests with Beam as it is.
"""

import bz2
import copy
import functools
import threading
import types
from collections.abc import Callable, Sequence
from importlib import metadata
from typing import Any

from apache_beam.internal import cloudpickle_pickler, pickler
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.worker import bundle_processor, statesampler
from apache_beam.transforms import core, ptransform, userstate
from apache_beam.typehints import decorators

from tests.campaign import CAMPAIGN

# Pickled steps, of one or two kilobytes: those of some hundred graphs.
_PACKED = 4096

_Specs = tuple[set[Any], set[Any]]


@functools.cache
def remember() -> None:
    """From now on in this process; another call, and one in a campaign, does nothing."""
    if CAMPAIGN:
        return
    core.get_function_args_defaults = _of_signatures(core.get_function_args_defaults)
    core._check_fn_use_yield_and_return = _of_code(core._check_fn_use_yield_and_return)
    userstate.get_dofn_specs = _of_classes(userstate.get_dofn_specs)
    PipelineOptions.__init__ = _of_flags(PipelineOptions.__init__)
    decorators.IOTypeHints.from_callable = _of_annotations(decorators.IOTypeHints.from_callable)
    # Where a type hint is from, line by line, which only messages about wrong hints show.
    decorators.IOTypeHints._make_origin = classmethod(lambda *_, **__: [])
    PipelineOptions._visible_option_list = _visible_names
    cloudpickle_pickler.bz2 = types.SimpleNamespace(
        compress=functools.lru_cache(_PACKED)(bz2.compress),
        decompress=functools.lru_cache(_PACKED)(bz2.decompress),
    )
    # Each bundle waits for a thread that samples every millisecond which step is at work.
    statesampler.StateSampler.start = _start_without_thread
    statesampler.StateSampler.stop = _stop_without_thread
    bundle_processor.BundleProcessor.monitoring_infos = _of_our_counters
    # Shows that a step can be pickled, which a graph does later anyway.
    ptransform.pickler = types.SimpleNamespace(
        **{**vars(pickler), "roundtrip": lambda value: value}
    )
    # Reads the metadata of a distribution again for each manifest.
    metadata.version = functools.cache(metadata.version)


def _of_our_counters(processor: bundle_processor.BundleProcessor) -> list[Any]:
    """Without the counts, sizes and times that Beam adds for each step."""
    infos: dict[Any, Any] = {}
    for name, step in processor.ops.items():
        infos.update(step.user_monitoring_infos(name))
    return list(infos.values())


def _start_without_thread(sampler: statesampler.StateSampler) -> None:
    """Nothing here reads the seconds of steps."""
    sampler.tracked_thread = threading.current_thread()
    statesampler.set_current_tracker(sampler)
    sampler.started = True


def _stop_without_thread(sampler: statesampler.StateSampler) -> None:
    statesampler.set_current_tracker(None)
    sampler.finished = True


def _visible_names(options: PipelineOptions) -> list[str]:
    """Without the methods of the namespace, all of which begin with an underscore."""
    return sorted(name for name in vars(options._visible_options) if name[0] != "_")


def _of_signatures(inspected: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A bound method has the signature of its function, but for its first argument."""
    found: dict[tuple[Any, bool], tuple[list[str], list[Any]]] = {}

    @functools.wraps(inspected)
    def remembered(f: Any) -> tuple[list[str], list[Any]]:
        is_bound = isinstance(f, types.MethodType)
        function = f.__func__ if is_bound else f
        if not isinstance(function, types.FunctionType):
            return inspected(f)  # type: ignore[no-any-return]
        key = (function, is_bound)
        if key not in found:
            found[key] = inspected(f)
        names, defaults = found[key]
        return list(names), list(defaults)

    return remembered


def _of_annotations(inspected: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Type hints, which nobody changes, of functions that a module or a class has for good."""
    found: dict[tuple[Any, bool], Any] = {}

    @functools.wraps(inspected)
    def remembered(fn: Any) -> Any:
        is_bound = isinstance(fn, types.MethodType)
        function = fn.__func__ if is_bound else fn
        if not isinstance(function, types.FunctionType) or function.__closure__:
            return inspected(fn)
        key = (function, is_bound)
        if key not in found:
            found[key] = inspected(fn)
        return found[key]

    return remembered


def _of_code(inspected: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """What the source of a function says, for which Beam splits it into tokens."""
    found: dict[Any, bool] = {}

    @functools.wraps(inspected)
    def remembered(fn: Any) -> bool:
        code = getattr(fn, "__code__", None)
        if code is None:
            return inspected(fn)
        if code not in found:
            found[code] = inspected(fn)
        return found[code]

    return remembered


def _of_classes(inspected: Callable[[Any], _Specs]) -> Callable[[Any], _Specs]:
    """Methods are those of the class; a wrapper's own is a function that only the instance knows.

    States and timers are default values, so a function without any has none.
    """
    found: dict[tuple[type, Any], _Specs] = {}

    @functools.wraps(inspected)
    def remembered(dofn: Any) -> _Specs:
        kind = type(dofn)
        code = None
        if hasattr(kind, "_inspect_process"):
            function = getattr(dofn, "_fn", None)
            if not isinstance(function, types.FunctionType):
                return inspected(dofn)
            if function.__defaults__ or function.__kwdefaults__:
                return inspected(dofn)
            code = function.__code__
        if (kind, code) not in found:
            found[kind, code] = inspected(dofn)
        states, timers = found[kind, code]
        return set(states), set(timers)

    return remembered


def _of_flags(initialize: Callable[..., None]) -> Callable[..., None]:
    """A view of the same options, of the same class, parses the same words."""
    found: dict[tuple[type, tuple[str, ...]], Any] = {}

    @functools.wraps(initialize)
    def remembered(self: Any, flags: Sequence[str] | None = None, **overrides: Any) -> None:
        key = (type(self), tuple(flags or ()))
        if flags is None or overrides or isinstance(flags, str):
            initialize(self, flags, **overrides)
        elif key not in found:
            initialize(self, flags)
            found[key] = copy.deepcopy(self._visible_options)
        else:
            self._flags = flags
            # Only lists and dictionaries of options can be changed in place.
            values = {name: copy.copy(value) for name, value in vars(found[key]).items()}
            self._visible_options = type(found[key])(**values)
            self._all_options = {
                name: getattr(self._visible_options, name) for name in self._visible_option_list()
            }

    return remembered
