"""Writes `hashes.json` after a change of bytes that is meant: `python -m tests.golden.update`."""

import json
import tempfile
from pathlib import Path

from tests.golden.running import HASHES, Golden, run_all


def main() -> None:
    """Runs all conversions and says which of them changed."""
    with tempfile.TemporaryDirectory() as folder:
        hashes = run_all(Golden(Path(folder)))
    former = json.loads(HASHES.read_text("utf-8"))["conversions"] if HASHES.exists() else {}
    for name, digests in hashes["conversions"].items():
        before = former.get(name, {})
        for file in sorted({*before, *digests}):
            if before.get(file) != digests.get(file):
                print(f"{name}: {file}")
    HASHES.write_text(json.dumps(hashes, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
