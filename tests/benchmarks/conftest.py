"""Puts `benchmarks/` on the path, as running one of its scripts does."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))
