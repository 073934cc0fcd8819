"""The launcher of the Dataflow Flex Template: creates the job described by its parameters.

The service passes every parameter as `--name=value` and requests a job description from Beam
(`--template_location`), which it submits itself. So there is no run to wait for, and no outcome to
report, unlike in `python -m pipeline.convert`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from pipeline.errors import run_command
from pipeline.options.beam_flags import flag_name
from pipeline.options.parser import make_parser, parse_flags
from pipeline.run.beam_compat import configure_file_systems


def command_line(words: Sequence[str]) -> Iterator[str]:
    """The launcher's words in the form that a shell would pass.

    >>> list(command_line(["--overwrite=true", "--seed=", "--images=gs://b/**"]))
    ['--overwrite', '--images=gs://b/**']
    """
    switches = {
        option
        for action in make_parser("convert")._actions
        for option in action.option_strings
        if action.nargs == 0
    }
    for word in words:
        name, equals, value = word.partition("=")
        if flag_name(name) in switches and equals:
            if value.lower() == "true":
                yield flag_name(name)
        elif value or not equals:
            yield word


def main(argv: Sequence[str] | None = None) -> None:
    """Writes the description of the job.

    Raises:
        DatasetError: see `pipeline.errors`.
    """
    words = list(command_line(sys.argv[1:] if argv is None else argv))
    flags, beam_flags = parse_flags("convert", words)
    configure_file_systems(beam_flags)
    # Imported after parsing: a wrong flag does not have to wait for Beam.
    from pipeline.graph import build
    from pipeline.resolve.preflight import check_flags, check_writable
    from pipeline.run.launch import run_pipeline

    config = check_flags(flags)
    check_writable(config)
    run_pipeline(lambda p: build(p, config), beam_flags, progress="off")


if __name__ == "__main__":
    sys.exit(run_command(main, "flex_main"))
