"""Runs graphs as an engine that fuses no two steps: each element crosses its coder."""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.portability import common_urns
from apache_beam.runners.worker import bundle_processor
from apache_beam.transforms.core import CallableWrapperCombineFn, CallableWrapperDoFn

PACKAGES = ("transforms", "pipeline")

_PRECOMBINE = common_urns.combine_components.COMBINE_PER_KEY_PRECOMBINE.urn

# The coders of the inputs of the steps that run; a step is pickled, and finds its own by number.
_CODERS: list[Any] = []


class _DecodedFn(beam.DoFn):
    """A DoFn that gets its elements encoded and decoded."""

    def __init__(self, fn: beam.DoFn, coder: int) -> None:
        self._fn = fn
        self._coder = coder

    def setup(self) -> None:
        self._fn.setup()

    def start_bundle(self) -> None:
        self._fn.start_bundle()

    def process(self, element: Any, *sides: Any, **named: Any) -> Any:
        return self._fn.process(_crossed(element, self._coder), *sides, **named)

    def finish_bundle(self) -> Any:
        return self._fn.finish_bundle()

    def teardown(self) -> None:
        self._fn.teardown()


class _DecodedCombineFn(beam.CombineFn):
    """A CombineFn that gets its elements encoded and decoded."""

    def __init__(self, fn: beam.CombineFn, coder: int) -> None:
        self._fn = fn
        self._coder = coder

    def create_accumulator(self) -> Any:
        return self._fn.create_accumulator()

    def add_input(self, accumulator: Any, element: Any) -> Any:
        # The key, which may be of any type, stays outside.
        coder = _CODERS[self._coder].wrapped_value_coder.value_coder()
        return self._fn.add_input(accumulator, coder.decode(coder.encode(element)))

    def merge_accumulators(self, accumulators: Any) -> Any:
        return self._fn.merge_accumulators(accumulators)

    def compact(self, accumulator: Any) -> Any:
        return self._fn.compact(accumulator)

    def extract_output(self, accumulator: Any) -> Any:
        return self._fn.extract_output(accumulator)


def _crossed(element: Any, coder: int) -> Any:
    impl = _CODERS[coder].wrapped_value_coder
    return impl.decode(impl.encode(element))


def _register(factory: Any, transform: Any, sides: Any) -> int:
    """Keeps the coder of a step's main input."""
    coders = factory.get_input_coders(transform)
    [main] = (coder for name, coder in coders.items() if name not in sides)
    _CODERS.append(main)
    return len(_CODERS) - 1


def _name(fn: Any) -> tuple[str, str]:
    """Module and name of what a step does."""
    # Beam's wrapper of a CombineFn that it adds up in several places.
    fn = getattr(fn, "_combine_fn_copy", fn)
    if isinstance(fn, CallableWrapperDoFn | CallableWrapperCombineFn):
        fn = fn._fn
        fn = getattr(fn, "__wrapped__", fn)
    own = fn if hasattr(fn, "__qualname__") else type(fn)
    return own.__module__, own.__qualname__


@contextlib.contextmanager
def everything_decoded(packages: Sequence[str] = PACKAGES) -> Iterator[set[tuple[str, str]]]:
    """Runs the graphs of the in-process runner so that no step gets a record as it was made.

    Args:
        packages: those whose steps get decoded elements.

    Yields:
        the module and the name of each of our steps, once one has run.
    """
    seen: set[tuple[str, str]] = set()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bundle_processor, "_create_pardo_operation", _wrapping_pardo(seen, packages))
        known = bundle_processor.BeamTransformFactory._known_urns
        _, payload = known[_PRECOMBINE]
        patch.setitem(known, _PRECOMBINE, (_wrapping_precombine(seen, packages), payload))
        yield seen
    _CODERS.clear()


def _wrapping_pardo(seen: set[tuple[str, str]], packages: Sequence[str]) -> Any:
    create = bundle_processor._create_pardo_operation
    pickler = bundle_processor.pickler

    def wrapping(
        factory: Any,
        id_: str,
        transform: Any,
        consumers: Any,
        fn: Any,
        pardo: Any = None,
        **more: Any,
    ) -> Any:
        own, *rest = pickler.loads(fn)
        name = _name(own)
        if name[0].partition(".")[0] in packages:
            seen.add(name)
            number = _register(factory, transform, pardo.side_inputs if pardo else {})
            fn = pickler.dumps((_DecodedFn(own, number), *rest))
        return create(factory, id_, transform, consumers, fn, pardo, **more)

    return wrapping


def _wrapping_precombine(seen: set[tuple[str, str]], packages: Sequence[str]) -> Any:
    create = bundle_processor.create_combine_per_key_precombine
    from_proto = beam.CombineFn.from_runner_api

    def wrapping(factory: Any, id_: str, transform: Any, payload: Any, consumers: Any) -> Any:
        def wrapped(proto: Any, context: Any) -> Any:
            own = from_proto(proto, context)
            name = _name(own)
            if name[0].partition(".")[0] not in packages:
                return own
            seen.add(name)
            return _DecodedCombineFn(own, _register(factory, transform, {}))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(beam.CombineFn, "from_runner_api", wrapped)
            return create(factory, id_, transform, payload, consumers)

    return wrapping


def all_steps() -> set[tuple[str, str]]:
    """Module and name of each DoFn and CombineFn of ours, but for those that others inherit."""
    modules = {module.__name__ for module in _modules()}
    return {
        (each.__module__, each.__qualname__)
        for base in (beam.DoFn, beam.CombineFn)
        for each in _subclasses(base)
        if each.__module__ in modules and not each.__subclasses__()
    }


def _modules() -> Iterator[ModuleType]:
    for name in PACKAGES:
        package = importlib.import_module(name)
        for found in pkgutil.walk_packages(package.__path__, f"{name}."):
            yield importlib.import_module(found.name)


def _subclasses(base: type) -> Iterator[type]:
    for each in base.__subclasses__():
        yield each
        yield from _subclasses(each)
