"""A worker process of `--workers`: Beam's own, without the packages that the run does not need.

`python -m pipeline.run.worker_process PACKAGE...`: the words name the packages that the launcher
did not import with Beam, see `pipeline.run.beam_import`.
"""

from __future__ import annotations

import sys

from pipeline.run.beam_import import import_beam_without, logging_untouched


def main() -> None:
    """Runs until the launcher ends the worker."""
    # A handler for standard error would repeat what the launcher gets, at every level.
    with logging_untouched():
        import_beam_without(sys.argv[1:])
    from apache_beam.runners.worker import sdk_worker, sdk_worker_main

    # Beam prints the traceback of every error here, in which an address may have a secret. The
    # launcher gets it, too, and shows one line if the error is a known one.
    vars(sdk_worker)["print"] = lambda *_, **__: None
    sdk_worker_main.main(sys.argv)


if __name__ == "__main__":
    main()
