"""The buffers between Beam's runner and its workers; a timer must not flush them."""

from __future__ import annotations

import re

from apache_beam.options.pipeline_options import DebugOptions, PipelineOptions, PortableOptions

from pipeline.errors import UsageError

_LIMIT = re.compile(r"\bdata_buffer_time_limit_ms=(?P<ms>[^,\s]*)")


def make_buffers_sound(options: PipelineOptions) -> None:
    """Turns off the timer that flushes the buffers of elements, in this process.

    Beam's `TimeBasedBufferingClosableOutputStream` reads and clears a buffer in its own thread
    while the step that fills it continues: bytes written in between are lost, and an element that
    is cut makes the reader decode other bytes (docs/development/beam_data_buffer.md). The
    in-process runner uses it in all modes except the default, with a limit of a second; a limit of
    0 makes it use the buffer that only its own writer flushes, by size. Workers in other processes
    have no timer unless the option `data_buffer_time_limit_ms` gives them one.

    Args:
        options: of the run.

    Raises:
        UsageError: the options give the workers a timer.
    """
    given = [*(options.view_as(DebugOptions).experiments or [])]
    given.append(options.view_as(PortableOptions).environment_config or "")
    for text in given:
        if (limit := _LIMIT.search(str(text))) and limit["ms"] not in ("", "0"):
            raise UsageError(
                f"{limit[0]} is refused: Beam loses elements when a timer flushes its buffers "
                "(docs/development/beam_data_buffer.md); leave it out"
            )
    from apache_beam.runners.portability.fn_api_runner import worker_handlers

    worker_handlers.DATA_BUFFER_TIME_LIMIT_MS = 0
