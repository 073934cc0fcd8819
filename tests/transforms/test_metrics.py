"""Metrics are documented, agree with the manifest, and tell the progress of a run."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.transforms.beam import convert, counters, make_config, make_images
from transforms.core.rejections import RejectionLimit
from transforms.dataset.manifest import manifest_shards, parse_manifest
from transforms.labels.label_rows import Column, CsvColumns
from transforms.storage import metrics
from transforms.storage.metrics import WORKERS_FOLDER, Progress, Stage

ROOT = Path(metrics.__file__).parents[1]


def documented() -> dict[str, str]:
    """The table in the module's docstring: metric to the step that counts it."""
    rows = re.findall(r"^\| (\w+) \| [^|]+ \| ([^|]+) \|$", metrics.__doc__ or "", re.MULTILINE)
    return {name: step for name, step in rows if name != "metric"}


def counted() -> set[str]:
    """The names that the code counts under: constants, or ones of `transforms.storage.metrics`."""
    names = set()
    for path in ROOT.rglob("*.py"):
        text = path.read_text()
        for node in (
            ast.walk(ast.parse(text)) if "counter(" in text or "distribution(" in text else ()
        ):
            if not isinstance(node, ast.Call):
                continue
            called = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if called not in ("counter", "distribution"):
                continue
            # Beam's own `Metrics.counter` takes the namespace first.
            name = node.args[-1]
            if isinstance(name, ast.Constant):
                names.add(name.value)
            elif isinstance(name, ast.Name) and hasattr(metrics, name.id):
                names.add(getattr(metrics, name.id))
            else:
                # Those that pass a name on.
                assert path.name == "metrics.py", ast.unparse(node)
    return names


def test_the_table_lists_every_metric() -> None:
    assert set(documented()) == counted() != set()


def test_the_counters_are_the_manifests_numbers(tmp_path: Path) -> None:
    names = [f"{number}.jpg" for number in range(9)]
    make_images(tmp_path / "images", names)
    (tmp_path / "images" / "3.jpg").write_bytes(b"")
    (tmp_path / "labels.csv").write_text("id,label\n" + "".join(f"{n},cat\n" for n in names))
    rows = {
        "label_from": "csv",
        "key": "name",
        "csv_paths": (str(tmp_path / "labels.csv"),),
        "columns": CsvColumns(Column(0, "id"), Column(1, "label"), 2),
    }
    limit = RejectionLimit.parse("1")
    config = make_config(tmp_path / "images", tmp_path / "out", **rows, max_rejected=limit)
    result = convert(config)
    manifest = parse_manifest((tmp_path / "out" / "manifest.json").read_text(), "")
    ledger, split = manifest["ledger"], manifest["splits"]["train"]
    expected = {
        "images_found": ledger["images_matched"],
        "rows_read": ledger["rows_read"],
        "images_written": ledger["records_written"],
        "images_rejected": ledger["images_rejected"],
        "bytes_read": split["image_bytes"],
        "bytes_written": split["bytes"],
        "shards_written": len(manifest_shards(manifest)),
    }
    assert counters(result) == expected
    assert (expected["images_written"], expected["images_rejected"]) == (8, 1)
    read = sum((tmp_path / "images" / name).stat().st_size for name in names)
    assert expected["bytes_read"] == read

    [spent] = result.metrics().query()["distributions"]
    assert (spent.key.metric.namespace, spent.key.metric.name) == ("image_tfrecords", "shard_msec")
    assert spent.committed.count == expected["shards_written"]
    steps = {m.key.metric.name: m.key.step for m in [*result.metrics().query()["counters"], spent]}
    for name, step in steps.items():
        assert documented()[name] in step.split("/")


def test_progress() -> None:
    progress = Progress()
    progress.count("listing", 9)
    progress.plan(5)
    progress.count("converting", 1)
    progress.count("converting", 2, 1)
    assert progress.stages() == [
        Stage("listing", "images", 0, 9, 0),
        Stage("converting", "images", 5, 3, 1),
    ]
    progress.clear()  # another run in the same process
    progress.plan(7)
    assert progress.stages() == []  # a dry run ends here
    progress.count("converting", 0)
    assert progress.stages() == [Stage("converting", "images", 7, 0, 0)]


PROGRAM = (
    "from transforms.storage.metrics import PROGRESS as p; p.plan(9); p.count('converting', 3, 1)"
)


@pytest.mark.parametrize("processes", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_progress_adds_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: bool) -> None:
    """A worker learns of the folder by its environment, as the runner's do."""
    numbers = iter((1, 2))
    environment = {**os.environ, WORKERS_FOLDER: str(tmp_path)}
    for _ in range(2):
        if processes:
            subprocess.run([sys.executable, "-c", PROGRAM], env=environment, check=True)
        else:
            monkeypatch.setattr(os, "getpid", lambda: next(numbers, 3))
            worker = Progress(str(tmp_path))
            worker.plan(9)
            worker.count("converting", 3, 1)
    progress = Progress()
    progress.clear(workers=str(tmp_path))
    assert progress.stages() == [Stage("converting", "images", 9, 6, 2)]
