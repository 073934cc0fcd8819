"""Calls decoders so that one that crashes or hangs costs its image, not the run.

A decoder is called in this process, under a note of its image. When the process dies over it, the
next one decodes that image in a child process with limits: see `transforms.core.guard.in_flight`
and `transforms.core.guard.decoding_child`. Other images never pay for it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from transforms.core.guard.decoding_child import Budget, DecoderFailure, decoding_child
from transforms.core.guard.in_flight import Suspects, in_flight
from transforms.core.rejections import RejectedImageError

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

# Images of this process whose pixels are in memory at once: the threads that wait for a remote
# file are many more than the cores, and an image is many times as large as its file.
_DECODING = threading.BoundedSemaphore(os.cpu_count() or 1)

# How many times the processor time of its budget an image is waited for on the clock: it shares
# the processors with others. In a supervised run its process is ended then.
_PATIENCE = 2


class DecoderGuard:
    """Calls decoders so that one that crashes costs its image, on the next try.

    Made before the threads that share it; it knows what had crashed by then.
    """

    def __init__(self, max_pixels: int) -> None:
        """Reads what dead processes noted.

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
        """Calls a function under the note of its image, or in the child if that is a suspect.

        The function does all that is decoded of an image: a suspect is cleared when it returns.

        Raises:
            RejectedImageError: what the function raises, or see `DecodingChild.call`.
        """
        if note in self._suspects:
            return self._call_in_child(note, function, *args, **kwargs)
        # A thread that waits for its turn decodes nothing: it takes no note.
        with _DECODING, self._in_flight.noted(note):
            return function(*args, **kwargs)

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
