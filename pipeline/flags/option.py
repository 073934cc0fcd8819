"""The declaration of one `convert` or `plan` option; `option_table.py` has all of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pipeline.config import ConvertConfig

# The value of an option that is not recorded for a dataset.
NOT_RECORDED = object()


class Need(NamedTuple):
    """Another option that an option needs.

    Attributes:
        flag: that option as a user would add it, such as `--labels CSV`.
        values: the values that need it; empty if every value does.
    """

    flag: str
    values: Sequence[Any] = ()

    @property
    def name(self) -> str:
        """The name of the needed option."""
        return self.flag.removeprefix("--").partition(" ")[0]


class Conflict(NamedTuple):
    """Another option that an option conflicts with.

    Attributes:
        name: of the other option.
        values: the conflicting values of the other option; empty if all of them conflict.
        why: the reason, or what to do; empty if that is obvious.
    """

    name: str
    values: Sequence[Any] = ()
    why: str = ""


class Parameter(NamedTuple):
    """An option as a parameter of the Flex Template.

    Attributes:
        label: the name of its field.
        regex: POSIX pattern of a value; empty for a choice or a switch.
        help: replaces the help of the command line; empty if that fits.
    """

    label: str
    regex: str = ""
    help: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Option:
    """One option, read by the parser, its help, the recipe, the template and the reference.

    Attributes:
        name: the flag is `--name`.
        help: what it does, in one line.
        metavar: the value in the help; None for a choice or a switch.
        parse: turns text into a value, or raises ValueError; None for the text itself.
        default: the value without the flag, either parsed or as text for `parse`.
        choices: all values, if they are a closed set.
        aliases: further names of the flag.
        short: its name of one letter; empty without one.
        is_switch: whether it takes no value.
        is_repeatable: whether it may be given several times.
        is_required: whether a command needs it.
        is_path: whether its value names files.
        of_images: whether it has no effect when records are made of rows alone.
        needs: options that it needs.
        conflicts: options that it conflicts with.
        recorded: the value that affects output bytes, which a dataset's manifest and the recipes of
            its shards hold. None if the option affects no byte, `NOT_RECORDED` for a value that
            does not.
        parameter: of the template; None if the template has no use for it.
    """

    name: str
    help: str
    metavar: str | None = None
    parse: Callable[[str], Any] | None = None
    default: Any = None
    choices: Sequence[str] = ()
    aliases: Sequence[str] = ()
    short: str = ""
    is_switch: bool = False
    is_repeatable: bool = False
    is_required: bool = False
    is_path: bool = False
    of_images: bool = False
    needs: Sequence[Need] = ()
    conflicts: Sequence[Conflict] = ()
    recorded: Callable[[ConvertConfig], Any] | None = None
    parameter: Parameter | None = None

    @property
    def flags(self) -> list[str]:
        """All names of the flag."""
        long = [f"--{name}" for name in (self.name, *self.aliases)]
        return [f"-{self.short}", *long] if self.short else long

    @property
    def default_value(self) -> Any:
        """The parsed value without the flag."""
        if self.is_switch:
            return False
        if self.parse is not None and isinstance(self.default, str):
            return self.parse(self.default)
        return self.default

    @property
    def shown_default(self) -> str:
        """The default as the help shows it; empty without one."""
        return "" if self.default is None else str(self.default)
