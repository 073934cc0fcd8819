"""Keeps the compiled templates of the report where Python keeps the compiled modules next to them.

Compiling takes 30 ms of each run, more than rendering. As for modules, a folder that cannot be
written to is no error, and `PYTHONDONTWRITEBYTECODE` and `PYTHONPYCACHEPREFIX` are respected.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import sys
from collections.abc import Mapping
from typing import Any

import jinja2
from jinja2.bccache import Bucket


class CompiledTemplates(jinja2.BytecodeCache):
    """Files of compiled templates; Jinja2 compares the source and Python's version."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        """Finds the folder.

        Args:
            options: of the environment, which decide the code as the version of Jinja2 does.
        """
        self._folder = os.path.dirname(importlib.util.cache_from_source(__file__))
        made_with = f"{jinja2.__version__} {sorted(options.items())}"
        self._suffix = hashlib.blake2b(made_with.encode(), digest_size=8).hexdigest()

    def load_bytecode(self, bucket: Bucket) -> None:
        """Fills a bucket, if its template was compiled before."""
        try:
            with open(self._path(bucket), "rb") as file:
                bucket.load_bytecode(file)
        except Exception:
            # A file may be torn anywhere, for which unpickling has many errors.
            bucket.reset()

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keeps what was compiled; another process may do the same."""
        if sys.dont_write_bytecode:
            return
        with contextlib.suppress(OSError):
            os.makedirs(self._folder, exist_ok=True)
            path = self._path(bucket)
            # Readable by other users, as compiled modules are.
            # A process with the same number may have been killed while it wrote.
            with open(f"{path}.{os.getpid()}", "wb") as file:
                bucket.write_bytecode(file)
            os.replace(file.name, path)

    def _path(self, bucket: Bucket) -> str:
        name = f"{bucket.key}.{sys.implementation.cache_tag}.{self._suffix}.template"
        return os.path.join(self._folder, name)
