"""Imports Beam without the packages that a job on local files never uses."""

from __future__ import annotations

import gc
import importlib
import inspect
import logging
import sys
import types
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

# Beam works without each of these: they come with its extras (gcp, dataframe) or are optional.
# Together they take half the time of `import apache_beam`, and 50 MB.
_NEVER_USED = ("bson", "pandas", "pyarrow", "pymongo")
_CLOUD = ("apache_beam.io.gcp.bigquery", "apitools", "google.api_core", "google.cloud")

# Milliseconds between two looks at what Beam's steps do. Beam waits for the next look when a stage
# ends, and with its 200 ms a stage of a second ends 0.1 s later.
_SAMPLING_MS = 5

_left_out: list[str] = []


def import_beam(arguments: Sequence[str]) -> None:
    """Imports `apache_beam`, without its cloud packages if no argument is a URL.

    Skipped packages can be imported normally afterwards. Does nothing if Beam is imported
    already, as after parsing a Beam option.

    Args:
        arguments: the command line.
    """
    has_url = any("://" in argument for argument in arguments)
    import_beam_without(_NEVER_USED if has_url else _NEVER_USED + _CLOUD)


def import_beam_without(packages: Sequence[str]) -> None:
    """Imports `apache_beam` as if some packages were not installed, see `import_beam`.

    Args:
        packages: their names.
    """
    if "apache_beam" in sys.modules:
        return
    with _hidden(packages), _late_subhint(), _garbage_kept(), _warnings_muted():
        import apache_beam

        keep_signatures(apache_beam.DoFn)
        end_stages_soon()
        code_texts_in_c()
    _left_out.extend(packages)


def packages_left_out() -> tuple[str, ...]:
    """The packages that this process did not import with Beam."""
    return tuple(_left_out)


def configure_file_systems(beam_flags: Sequence[str]) -> None:
    """Gives Beam's file systems their options (`--hdfs_host`, `--s3_endpoint_url` ...) now.

    Beam does so when a pipeline is made, but flags are checked and inputs listed before; without
    any options, `s3://` and `hdfs://` cannot be listed at all.

    Args:
        beam_flags: options of Beam.
    """
    from apache_beam.io.filesystems import FileSystems
    from apache_beam.options.pipeline_options import PipelineOptions

    with logging_untouched():
        FileSystems.set_options(PipelineOptions(list(beam_flags)))


@contextmanager
def logging_untouched() -> Iterator[None]:
    """Keeps Beam's `PipelineOptions` from setting up logging in this block.

    They would print every warning of a package, such as that of google.auth before it raises,
    next to our error message.
    """
    # `logging.basicConfig` does nothing where there is a handler.
    placeholder = logging.NullHandler()
    logging.root.addHandler(placeholder)
    try:
        yield
    finally:
        logging.root.removeHandler(placeholder)


@contextmanager
def _hidden(packages: Sequence[str]) -> Iterator[None]:
    """Makes imports of packages fail as if they were not installed, unless already imported."""
    hidden = [package for package in packages if package not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for package in hidden:
            del sys.modules[package]


def keep_signatures(step: type) -> None:
    """Computes the signatures of the methods of a class once.

    Beam inspects each method of each step seven times before a job begins: a tenth of the start-up
    of a small job. `inspect.signature` returns what a function has as `__signature__`.
    """
    for ancestor in step.__mro__:
        for method in vars(ancestor).values():
            if isinstance(method, types.FunctionType):
                method.__signature__ = inspect.signature(method)  # type: ignore[attr-defined]


def end_stages_soon() -> None:
    """Makes Beam sample its steps more often, so that a stage does not wait when it ends.

    Nothing in Beam's options sets this period. Another Beam may not have it; that one waits.
    """
    from apache_beam.runners.worker import statesampler

    init = statesampler.StateSampler.__init__
    if init.__defaults__ == (getattr(statesampler, "DEFAULT_SAMPLING_PERIOD_MS", None),):
        init.__defaults__ = (_SAMPLING_MS,)


def code_texts_in_c() -> None:
    """Makes Beam encode and decode texts without a call of a Python function for each.

    Every name crosses several steps, with ten texts; these calls took a twelfth of planning. The
    bytes are the same: UTF-8 is what `str.encode` and `bytes.decode` take by default.
    """
    from apache_beam.coders import StrUtf8Coder

    StrUtf8Coder.encode = staticmethod(str.encode)
    StrUtf8Coder.decode = staticmethod(bytes.decode)


class _LateModule(types.ModuleType):
    """A module that is imported when an attribute other than those given is needed."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            # The import system needs these.
            raise AttributeError(name)
        sys.modules.pop(self.__name__, None)
        return getattr(importlib.import_module(self.__name__), name)


@contextmanager
def _late_subhint() -> Iterator[None]:
    """Imports beartype when Beam calls it, which it does not for the types of this package.

    It takes a twentieth of the start-up. Afterwards, everybody else imports it normally.
    """
    if "beartype" in sys.modules:
        yield
        return
    door = _LateModule("beartype.door")
    door.is_subhint = _is_subhint  # type: ignore[attr-defined]
    roar = _LateModule("beartype.roar")
    # `_is_subhint` raises nothing that Beam has to catch.
    roar.BeartypeDoorException = _NeverRaisedError  # type: ignore[attr-defined]
    late = {module.__name__: module for module in (door, roar)}
    sys.modules.update(late)
    try:
        yield
    finally:
        for name, module in late.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]


class _NeverRaisedError(Exception):
    """Takes the place of an error in an `except`."""


def _is_subhint(hint: object, other: object) -> bool:
    """`beartype.door.is_subhint`; False where it has no answer, as in Beam."""
    # A dependency of Beam, not of this package.
    door, roar = (importlib.import_module(f"beartype.{name}") for name in ("door", "roar"))
    try:
        return bool(door.is_subhint(hint, other))
    except roar.BeartypeDoorException:
        return False


@contextmanager
def _garbage_kept() -> Iterator[None]:
    """Excludes objects that live as long as the process from garbage collection."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@contextmanager
def _warnings_muted() -> Iterator[None]:
    """Mutes warnings about missing packages."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)
