"""Shows that Beam 2.77 loses elements when a timer flushes a buffer of its data plane.

    python beam_data_buffer.py             # the buffer alone: seconds, fails every time
    python beam_data_buffer.py --pipeline  # a pipeline of two steps with two worker threads

It needs nothing but `apache-beam`. Exit code 0: the bug is there; 1: nothing was lost.
"""

import resource
import sys
import time

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.worker.data_plane import ClosableOutputStream

RECORD = b"x" * 49
RECORDS = 1_000_000

ELEMENTS = 300_000


def lost_bytes(limit_ms: int) -> int:
    """Writes records as a step does, and counts the bytes that never leave the buffer."""
    flushed: list[int] = []

    def send(data: bytes) -> None:
        flushed.append(len(data))
        # As a full queue does, or any lock that another thread holds: it lets the writer continue.
        time.sleep(0)

    stream = ClosableOutputStream.create(send, send, limit_ms)
    for _ in range(RECORDS):
        stream.write(RECORD, True)  # a length of one byte, and the record
        stream.maybe_flush()
    stream.close()
    return RECORDS * (len(RECORD) + 1) - sum(flushed)


def run_pipeline() -> None:
    """Groups elements in two worker threads and prints how many arrive.

    Raises:
        Exception: of many kinds, when an element was cut and its reader decodes other bytes.
    """
    # Noise is read as lengths too: without a limit, a run takes all memory of the machine.
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    options = PipelineOptions(
        ["--runner=FnApiRunner", "--direct_num_workers=2", "--direct_running_mode=multi_threading"]
    )
    with beam.Pipeline(options=options) as pipeline:
        _ = (
            pipeline
            | beam.Create(["once"])
            | beam.FlatMap(lambda _: ((f"key-{at}", "v" * 60) for at in range(ELEMENTS)))
            | beam.GroupByKey()
            | beam.combiners.Count.Globally()
            | beam.Map(lambda count: print(f"{count} of {ELEMENTS} elements arrived"))
        )


def main() -> None:
    """Prints what is lost with each limit."""
    if "--pipeline" in sys.argv[1:]:
        run_pipeline()
        return
    lost = {limit: lost_bytes(limit) for limit in (0, 1, 100)}
    for limit, count in lost.items():
        print(f"data_buffer_time_limit_ms {limit}: {count} of {RECORDS * 50} bytes lost")
    sys.exit(0 if lost[1] else 1)


if __name__ == "__main__":
    main()
