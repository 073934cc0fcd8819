"""Runs golden conversions in this process and takes the digests of what they publish.

Run twice, in different folders, at different times and with two processes, `convert` publishes the
same bytes, as long as its inputs have the same relative paths and modification times. Another
installation differs in versions alone: `_without_versions` takes them out of the files that list
them.
"""

import contextlib
import hashlib
import json
import re
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.golden.conversions import CONVERSIONS, flags_of
from tests.golden.inputs import write_inputs
from tests.pipeline.commands import Dataset, convert, make_dataset
from transforms.labels.shards import MODEL_LIBRARIES, OBJECT_MASK_LIBRARIES, distribution_version
from transforms.records.record_index import read_index

HASHES = Path(__file__).with_name("hashes.json")


class Golden:
    """The golden conversions of one folder of inputs, each run once, when it is first needed."""

    def __init__(self, folder: Path) -> None:
        """Writes the inputs.

        Args:
            folder: is empty.
        """
        self.folder = folder
        self._made: dict[str, Dataset] = {}
        write_inputs(folder)
        digests = {path: _digest(data) for path, data in _files(folder)}
        self.inputs = _digest(json.dumps(digests).encode())

    def dataset(self, name: str, *words: str) -> Dataset:
        """The dataset of one conversion; `words` are options of Beam."""
        if name not in self._made:
            with contextlib.chdir(self.folder):
                self._made[name] = self._convert(name, words)
        return self._made[name]

    def _convert(self, name: str, words: tuple[str, ...]) -> Dataset:
        # Relative, so that nothing that is published names a folder of this machine.
        output = Path("out", name.replace(" ", "_"))
        flags = flags_of(name)
        base = CONVERSIONS[name].of
        if base and "quarantine" in flags:
            # Both copy into one folder.
            self.dataset(base, *words)
        if flags.get("overwrite"):
            former = convert(output=output, **flags_of(base))
            assert former.code == 0, former.err
        made = make_dataset(output, *words, **flags)
        return Dataset(self.folder / made.folder)

    def digests(self, name: str, *words: str) -> dict[str, str]:
        """The digest of every file that a conversion publishes, by its relative path."""
        return dict(self._digests(name, words))

    def _digests(self, name: str, words: tuple[str, ...]) -> Iterator[tuple[str, str]]:
        for path, data in _files(self.dataset(name, *words).folder):
            yield path, _digest(_without_versions(path, data))
        copies = flags_of(name).get("quarantine")
        for path, data in _files(self.folder / copies) if copies else ():
            yield f"{copies}/{path}", _digest(data)


def libraries() -> dict[str, str]:
    """The versions of libraries that decide bytes of the inputs or of a conversion."""
    names = (*MODEL_LIBRARIES, *OBJECT_MASK_LIBRARIES)
    versions = {name: distribution_version(name) for name in names}
    return {**versions, "zlib": zlib.ZLIB_RUNTIME_VERSION}


def recorded() -> dict[str, Any]:
    """What `hashes.json` holds."""
    content: dict[str, Any] = json.loads(HASHES.read_text("utf-8"))
    return content


def _files(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield path.relative_to(folder).as_posix(), path.read_bytes()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _without_versions(path: str, data: bytes) -> bytes:
    """A published file without the versions of this installation."""
    if path == "manifest.json":
        # The digest is one of the whole manifest.
        content = {
            name: value
            for name, value in json.loads(data).items()
            if name not in ("versions", "digest")
        }
        return json.dumps(content, ensure_ascii=False).encode()
    if path.endswith(".parquet"):
        # Another pyarrow writes its name, and may compress the same rows to other bytes.
        table = read_index(data, path)
        return repr((table.schema.to_string(), table.to_pylist())).encode()
    if path == "report.html":
        versions = re.compile(rb'(<tr><th scope="row"><code>[\w-]+</code></th><td>)\d+(\.\w+)+')
        return versions.sub(rb"\1", data)
    return data


def run_all(golden: Golden) -> Mapping[str, Any]:
    """What `hashes.json` has to hold."""
    return {
        "libraries": libraries(),
        "inputs": golden.inputs,
        "conversions": {name: golden.digests(name) for name in CONVERSIONS},
    }
