"""What one name costs to plan, counted: a quick suite cannot time.

A number may fall. One that rises needs its reason next to it.
"""

from __future__ import annotations

import functools
import gc
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from transforms.core.records import NameRange
from transforms.dataset.ledger import PlanTotals
from transforms.find_images import ImageFinder
from transforms.join_labels import _Input, _JoinFn, _ReadInputFn
from transforms.labels.joins import join_group
from transforms.labels.label_rows import CsvColumns
from transforms.labels.label_rules import ANY_LABELS, PathRules
from transforms.labels.shards import ShardPlan
from transforms.labels.splits import SplitAssigner, Splits
from transforms.packing import _PackImagesFn, _PackSidesFn
from transforms.plan_shards import _AssignFn, _TotalFn, _unpacked
from transforms.read_labels import RowReader
from transforms.storage.interface import FoundFile
from transforms.storage.local_storage import LocalStorage

# The most Python functions and generators that are called or resumed for a name with its row.
COSTS = {
    # The image is listed, described and keyed; its row is a line, its cells, and a side with its
    # label. Each is a generator or a function.
    "read": 29,
    # Two sides and the joined image, each added to a batch. Batches are packed in C.
    "pack": 5,
    # One image and one row are joined, placed by two hashes of the key, and become one record.
    "join": 12,
    "total": 2,
    # Its shard, its class from a cache, and its record.
    "assign": 4,
    "unpack": 0,
}


class Planned:
    """The steps that plan some names, without Beam between them; it counts their calls."""

    def __init__(self, folder: Path, names: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: dict[str, int] = {}
        self._names = names
        self._labels = folder / f"{names}.csv"
        rows = [f"{number:04},cat" for number in range(names)]
        self._labels.write_text("\n".join(["id,label", *rows]))
        monkeypatch.setattr(LocalStorage, "list_range", self._listed)
        self._plan()

    def _listed(self, *_: Any, **__: Any) -> Iterator[FoundFile]:
        return (FoundFile(f"/in/{number:04}.jpg", 9, 1) for number in range(self._names))

    def _plan(self) -> None:
        columns = CsvColumns(",", True, 0, 1, "id", "label", 2)
        finder = ImageFinder(root="/in", key="stem", rules=PathRules("csv"))
        read = _ReadInputFn(finder, RowReader(columns, key="stem", encoding="utf-8"))
        inputs = [_Input(NameRange("/in/*.jpg"), True), _Input(NameRange(f"{self._labels}"), False)]
        found = self._counted("read", lambda: [*map(list, map(read.process, inputs))])
        sides = [side for part in found for side in part if type(side) is tuple]
        parts = self._packed("pack", _PackSidesFn(), sides)

        assigner = SplitAssigner(Splits([("train", 1.0)]), seed=0)
        join = functools.partial(join_group, label_from="csv", assigner=assigner)
        step = _JoinFn(join, reuses=False, are_packed=True)
        grouped = [(part, [batch]) for part, batch in parts]
        joined = self._counted("join", lambda: [*map(list, map(step.process, grouped))])
        images = [image for part in joined for image in part]

        total = _TotalFn()
        [(_, totals)] = self._packed("total", total, images)
        assert isinstance(totals, PlanTotals)
        batches = self._packed("pack", _PackImagesFn(), images)
        plan = ShardPlan(("train",), 1 << 20, 1, False)
        assign = _AssignFn(plan, ANY_LABELS, are_packed=True)
        [shard] = self._counted("assign", lambda: [*assign.process(batches[0], totals)])
        _, planned = self._counted("unpack", lambda: _unpacked((shard[0], [shard[1]])))
        assert len(planned) == self._names

    def _packed(self, name: str, step: Any, elements: list[Any]) -> list[Any]:
        """The outputs of a step that has them at the end of its bundle."""
        step.start_bundle()

        def process() -> list[Any]:
            for element in elements:
                step.process(element)
            return [windowed.value for windowed in step.finish_bundle()]

        return self._counted(name, process)

    def _counted(self, name: str, function: Any) -> Any:
        called = 0

        def count(_: FrameType, event: str, __: Any) -> None:
            nonlocal called
            called += event == "call"

        # Another module of the process may have a callback of the collector; it would be counted.
        gc.disable()
        sys.setprofile(count)
        try:
            return function()
        finally:
            sys.setprofile(None)
            gc.enable()
            self.calls[name] = self.calls.get(name, 0) + called


def test_one_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = (Planned(tmp_path, names, monkeypatch).calls for names in (500, 1500))
    # Whole calls: what is done for each batch, or for other modules of the process, is a fraction.
    cost = {name: round((many[name] - few[name]) / 1000) for name in many}
    assert cost.keys() == COSTS.keys()
    assert {name: each for name, each in cost.items() if each > COSTS[name]} == {}
