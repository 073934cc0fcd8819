"""Decisions made by the tool: the value, the evidence for it, and the flag that sets it.

Decisions are printed by `plan` and `convert` as the block "Decided", stored in the manifest under
`decided` and shown in the report. They describe a dataset and never affect its bytes: no recipe
and no digest of options contains them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from transforms.core.shown_text import printable

TITLE = "Decided"
"""The first line of the block."""

# Column widths of the block, in characters; longer text shifts the rest of its line.
_WHAT, _VALUE = 14, 20


class Decision(NamedTuple):
    """One decision.

    Attributes:
        what: its subject, such as `label column`; at most 14 characters keep the block
            aligned.
        value: what was chosen.
        because: the evidence, in a few words; see `given` for decisions of a flag.
        flag: the flag that sets it, such as `--label_column`; empty when there is none.
    """

    what: str
    value: str
    because: str
    flag: str = ""


def given(what: str, value: str, flag: str) -> Decision:
    """A decision that a flag made.

    >>> given("key", "path", "--key").because
    'given'
    """
    return Decision(what, value, "given", flag)


def decision_lines(decisions: Iterable[Decision]) -> list[str]:
    """The block as text: its title and a line for each decision; empty without decisions.

    >>> print(*decision_lines([Decision("key", "stem", "default", "--key")]), sep="|")
    Decided|  key            stem                 default [--key]
    """
    lines = [printable(_line(decision)).rstrip() for decision in decisions]
    return [TITLE, *lines] if lines else []


def _line(decision: Decision) -> str:
    flag = f" [{decision.flag}]" if decision.flag else ""
    return (
        f"  {decision.what:<{_WHAT}} {decision.value or '(nothing)':<{_VALUE}} "
        f"{decision.because}{flag}"
    )


def to_manifest(decisions: Iterable[Decision]) -> list[dict[str, str]]:
    """The entry `decided` of the manifest."""
    return [decision._asdict() for decision in decisions]


def from_manifest(manifest: Mapping[str, Any]) -> list[Decision]:
    """The decisions that a manifest lists; none if it has no such entry."""
    return [
        Decision(*(str(entry.get(name, "")) for name in Decision._fields))
        for entry in manifest.get("decided", ())
    ]


def later(decisions: Iterable[Decision], earlier: Iterable[Decision]) -> list[Decision]:
    """The decisions that are new since earlier ones: they needed all inputs."""
    known = {decision.what for decision in earlier}
    return [decision for decision in decisions if decision.what not in known]
