"""Every option of `convert` and `plan`, declared once, as a field of a group.

The groups define the parser and its help, the options in the manifest and in shard recipes, the
parameters of the Flex Template (`deploy/metadata.json`), the types of the Python interface and the
reference (`docs/options.md`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from transforms.core.option import (
    Conflict,
    Group,
    Option,
    at_least_one,
    declared_in,
    option,
)
from transforms.dataset.dataset_options import DATASET_GROUPS


# Not parameters of the template: its launcher ends before the job begins, on other machines.
@dataclasses.dataclass(frozen=True)
class RunOptions(Group, title="run", is_parameter=False):
    """How a command runs."""

    config: str | None = option(
        metavar="FILE",
        is_usual=True,
        help="YAML file of options, or the manifest.json of a dataset to repeat; flags win",
        is_path=True,
    )
    workers: int | None = option(
        metavar="N",
        parse=at_least_one,
        help="worker processes on this machine; if omitted: 1; for large jobs, more",
    )
    progress: str = option(
        "auto",
        choices=("auto", "plain", "json", "off"),
        help="a bar on a terminal, plain lines otherwise",
    )
    quiet: bool = option(
        short="q",
        is_switch=True,
        help="print only errors and the final line; --progress auto shows nothing",
        conflicts=(Conflict("verbose", why="give one of them"),),
    )
    verbose: bool = option(
        short="v",
        is_switch=True,
        help="also print logs of libraries, and the traceback of an error",
    )


GROUPS: tuple[type[Group], ...] = (*DATASET_GROUPS, RunOptions)

OPTIONS: Mapping[str, Option] = declared_in(GROUPS)
