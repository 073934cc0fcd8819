"""Image globs in addition to `*`, `?` and `[...]`: alternatives, and extensions of any case.

One rule for every file system: alternatives become several globs, and a case becomes `[...]`.
"""

from __future__ import annotations

import re

from transforms.core.globs import WILDCARD
from transforms.core.planning.archives import with_slash
from transforms.core.planning.keys import IMAGE_EXTENSIONS

_MAX_GLOBS = 1000

# The innermost alternatives: `{jpg,png}`.
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")


def expand_braces(pattern: str) -> tuple[str, ...]:
    """Expands a pattern with alternatives to globs, in order, without repetitions.

    Braces without a comma are literal, as in a shell. A glob in an archive gets the slash after
    its `!` if it is missing.

    Raises:
        ValueError: there are too many.

    >>> expand_braces("p/{cat,dog}/*.{jpg,png}")[:3]
    ('p/cat/*.jpg', 'p/cat/*.png', 'p/dog/*.jpg')
    >>> expand_braces("p/{a}.jpg")
    ('p/{a}.jpg',)
    """
    done: dict[str, None] = {}
    todo = [pattern]
    while todo:
        glob = todo.pop()
        found = _BRACES.search(glob)
        if found is None:
            done[with_slash(glob)] = None
        else:
            before, after = glob[: found.start()], glob[found.end() :]
            todo += [f"{before}{part}{after}" for part in reversed(found[1].split(","))]
        if len(done) + len(todo) > _MAX_GLOBS:
            raise ValueError(f"{pattern!r} expands to more than {_MAX_GLOBS} globs: use * or **")
    return tuple(done)


def any_case(glob: str) -> str:
    """A glob that matches an image extension in upper and lower case.

    A name without a wildcard is that one file.

    >>> any_case("p/*.jpg"), any_case("p/1.jpg"), any_case("p/*.csv")
    ('p/*.[jJ][pP][gG]', 'p/1.jpg', 'p/*.csv')
    """
    name, dot, extension = glob.rpartition(".")
    if not dot or extension.lower() not in IMAGE_EXTENSIONS or not WILDCARD.search(name):
        return glob
    letters = (f"[{c.lower()}{c.upper()}]" if c.isalpha() else c for c in extension)
    return f"{name}.{''.join(letters)}"


def other_case(glob: str, name: str) -> bool:
    """Whether a file has the extension of a glob, but in another case.

    >>> other_case("p/*.jpg", "p/a.JPG"), other_case("p/*.jpg", "p/a.jpg")
    (True, False)
    """
    extension = name.rpartition(".")[2]
    return any_case(glob) != glob and not glob.endswith(f".{extension}")
