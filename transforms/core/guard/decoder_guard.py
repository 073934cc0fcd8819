"""Calls decoders so that a crash or a hang costs one image, not the run.

A decoder is called in this process, with a note of its image. If the process dies, the
next one decodes that image in a child process with limits: see `transforms.core.guard.in_flight`
and `transforms.core.guard.decoding_child`. Other images have no overhead.
"""

from __future__ import annotations

import queue
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from transforms.core.guard.decoding_child import Budget, DecoderFailure, decoding_child
from transforms.core.guard.in_flight import Suspects, in_flight
from transforms.core.machine import process_cores
from transforms.core.rejections import RejectedImageError

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def turns(count: int) -> queue.SimpleQueue[None]:
    """A semaphore in C: one of `threading` costs eight calls of Python functions for each image."""
    taken: queue.SimpleQueue[None] = queue.SimpleQueue()
    for _ in range(count):
        taken.put(None)
    return taken


# Maximum number of images decoded at once in this process: there are many more threads that wait
# for remote files than cores, and an image is many times as large as its file.
_DECODING = turns(process_cores())

# Ratio of the wall-clock limit to the CPU budget of an image, because it shares
# the CPUs with others. A supervised run ends the process at this limit.
_PATIENCE = 2


class DecoderGuard:
    """Calls decoders so that a crash costs only its image, on the next try.

    Created before the threads that share it; it knows the crashes up to then.
    """

    def __init__(self, max_pixels: int) -> None:
        """Reads the notes of dead processes.

        Args:
            max_pixels: of the images; the budget of a suspect grows with it.
        """
        self._budget = Budget.of_pixels(max_pixels)
        self._suspects = Suspects()
        self._in_flight = in_flight()
        self._in_flight.wait(_PATIENCE * self._budget.seconds)

    def call(
        self,
        note: bytes,
        function: Callable[Parameters, Result],
        *args: Parameters.args,
        **kwargs: Parameters.kwargs,
    ) -> Result:
        """Calls a function with a note of its image, or in the child if the image is a suspect.

        The function must do all decoding of an image: a suspect is cleared when it returns.

        Raises:
            RejectedImageError: raised by the function, or see `DecodingChild.call`.
        """
        if note in self._suspects:
            return self._call_in_child(note, function, *args, **kwargs)
        # No note while a thread waits for its turn, since it decodes nothing.
        _DECODING.get()
        try:
            at = self._in_flight.begin(note)
            try:
                return function(*args, **kwargs)
            finally:
                self._in_flight.end(at)
        finally:
            _DECODING.put(None)

    def _call_in_child(
        self,
        note: bytes,
        function: Callable[Parameters, Result],
        *args: Parameters.args,
        **kwargs: Parameters.kwargs,
    ) -> Result:
        try:
            result = decoding_child().call(self._budget, function, *args, **kwargs)
        except DecoderFailure:
            raise
        except RejectedImageError:
            self._suspects.clear(note)
            raise
        self._suspects.clear(note)
        return result
