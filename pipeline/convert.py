"""`python -m pipeline.convert`: converts images and labels to sharded TFRecords."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.command_line import conversion_begun, start
from pipeline.errors import UsageError, emphasized
from pipeline.options.parser import progress_style


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the conversion that the flags describe and prints a summary.

    Raises:
        DatasetError: see `pipeline.errors`.
    """
    started = time.monotonic()
    with conversion_begun("convert", argv) as (config, flags, beam_flags):
        from pipeline.run.launch import convert
        from pipeline.summary import FINAL, convert_lines
        from transforms.core.messages import Decision, decision_lines, from_manifest, later
        from transforms.dataset.image_statistics import strict_message, warnings_from_json

        def print_decisions(decisions: Sequence[Decision]) -> None:
            # The reader may be gone (`| head`): the run continues, and its summary says so.
            with contextlib.suppress(BrokenPipeError):
                for line in () if flags.quiet else decision_lines(decisions):
                    # What follows can take hours.
                    print(line, flush=True)

        done = convert(config, beam_flags, progress=progress_style(flags), before=print_decisions)
    output, manifest, seconds = config.folder.output, done.manifest, time.monotonic() - started
    warnings = warnings_from_json(manifest)
    if config.checks.strict and warnings:
        # The dataset was published without --strict.
        raise UsageError(f"--output {output}: {strict_message(warnings)}")
    before = config.decisions if done.up_to_date else ()
    decided = [*before, *later(from_manifest(manifest), config.decisions)]
    statistics = _statistics(output, manifest)
    lines = [*convert_lines(done, output, seconds=seconds, statistics=statistics, decided=decided)]
    final = [line for line in lines if line.startswith(FINAL)]
    for line in final if flags.quiet else lines:
        print(emphasized(line, sys.stdout))


def _statistics(output: str, manifest: Mapping[str, Any]) -> Any:
    """The content of `statistics.json`; empty if it is missing or was changed."""
    from transforms.core.messages import parse_json
    from transforms.dataset.output_names import STATISTICS
    from transforms.storage.files import join, read_dataset_file

    listed = manifest["files"].get(STATISTICS)
    with contextlib.suppress(OSError):
        data = read_dataset_file(join(output, STATISTICS), listed) if listed else None
        return parse_json(data) if data else {}
    return {}


if __name__ == "__main__":
    sys.exit(start("convert", main))
