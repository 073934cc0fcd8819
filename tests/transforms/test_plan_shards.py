"""Images and rows get their splits, shards and class ids, whatever the bundles."""

import pickle
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest

from tests.marks import cases
from tests.transforms.beam import collect, make_pipeline, step_named
from transforms import packing, plan_shards
from transforms.core.messages import LabelsError
from transforms.core.records import Count, PlannedImage, TablePart
from transforms.core.rejections import Rejection
from transforms.dataset.ledger import PlanTotals
from transforms.flow import PlanTable
from transforms.join_labels import BATCH_ROWS, TableReader
from transforms.labels import shards as planned_shards
from transforms.labels.joins import labels_cells
from transforms.labels.keys import key_hashes
from transforms.labels.label_rows import NO_COLUMN, Column, CsvColumns
from transforms.labels.label_rules import ANY_LABELS, LabelRules
from transforms.labels.shards import ShardPlan, SplitAssigner, Splits, shard_index
from transforms.labels.vocabulary import LabelCells, Vocabulary
from transforms.packing import pack, packing_records, unpack
from transforms.plan_shards import PlanShards, StratifySplits, TotalLabels, with_starts
from transforms.selection import hash_cuts
from transforms.selection.hash_cuts import ClassLines

PLAN = ShardPlan(("train", "test", "none"), shard_size=100, num_shards=None, gzip=False)


def labelled(number: int, **fields: Any) -> PlannedImage:
    key = str(number)
    order = key_hashes(key, seed=0)[1] - 2**63
    fields = {"label": "cat", "split": "train", "rows": 1, **fields}
    return PlannedImage(order, key, f"{key}.jpg", 10, number, **fields)


def plan(
    images: list[PlannedImage],
    rules: LabelRules = ANY_LABELS,
    how: ShardPlan = PLAN,
    cells: list[LabelCells] | None = None,
) -> tuple[dict[str, Any], list[Any], Any]:
    """The images in order of each shard, the rejections, and the totals."""

    def construct(pipeline: beam.Pipeline) -> dict[str, Any]:
        created = pipeline | "Images" >> beam.Create(images).with_output_types(PlannedImage)
        read = cells and pipeline | "Cells" >> beam.Create(cells).with_output_types(LabelCells)
        totals = created | "Total" >> TotalLabels(read)
        planned = created | "Plan" >> PlanShards(how, totals, rules=rules)
        return {**planned._asdict(), "totals": totals}

    planned = collect(construct)
    [totals] = planned["totals"]
    shards = {name: sorted(group) for name, group in planned["shards"]}
    assert len(shards) == len(planned["shards"])
    return shards, planned["rejections"], totals


def test_more_classes_than_images(monkeypatch: pytest.MonkeyPatch) -> None:
    """20 images with 50,000 tags each took 110 s."""
    monkeypatch.setattr(plan_shards, "MAX_TAGS", 2)
    images = [labelled(number, label=f"a{number}") for number in range(3)]
    assert plan(images, cells=[LabelCells(others=3)])[2].label_kind == "text"
    images[0] = images[0]._replace(cells='[["l.csv:1",["b","c"],[]]]')
    with pytest.raises(LabelsError, match="3 different labels of fewer images .such as 'a0'"):
        plan(images, cells=[LabelCells(others=5)])


def test_batches_of_any_size_make_the_same_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    images = [labelled(number, label="cat" if number % 3 else "cow") for number in range(40)]
    rules = LabelRules(class_names=("cat",))
    planned = plan(images, rules)
    assert len(planned[1]) == 14
    for batch in (1, 7):
        monkeypatch.setattr(packing, "BATCH_NAMES", batch)
        assert plan(images, rules) == planned


def test_threads_of_a_process_share_the_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    vocabulary = LabelRules.vocabulary

    def noted(rules: LabelRules, labels: Iterable[str], kind: str) -> Vocabulary:
        made.append(kind)
        return vocabulary(rules, labels, kind)

    monkeypatch.setattr(LabelRules, "vocabulary", noted)
    pipeline = make_pipeline()
    images = pipeline | "Images" >> beam.Create([labelled(1)]).with_output_types(PlannedImage)
    _ = images | PlanShards(PLAN, images | TotalLabels(None))
    step = step_named(pipeline, "Assign shards")

    def ids_of(*labels: str) -> list[int]:
        totals = PlanTotals(Counter(train=1), Counter(train=1), Counter(labels))
        [(_, packed)] = pickle.loads(pickle.dumps(step)).process(pack([labelled(1)]), totals)
        return [image.label_id for image in unpack(packed, PlannedImage)]

    assert [ids_of("cat", "dog"), ids_of("cat", "dog"), ids_of("ant", "cat")] == [[0], [0], [1]]
    assert len(made) == 2


def test_elsewhere_a_shard_of_too_many_names_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planned_shards, "MAX_SHARD_NAMES", 3)
    plan_of_two = ShardPlan((), shard_size=100, num_shards=2, gzip=False)
    images = [labelled(number) for number in range(7)]
    # In one process, memory is the limit.
    assert sum(len(group) for group in plan(images, how=plan_of_two)[0].values()) == 7
    monkeypatch.setattr(packing, "runs_in_process", lambda _: False)
    with pytest.raises(LabelsError, match="7 images in 2 shards, 4 in one: .*--num_shards 3 or"):
        plan(images, how=plan_of_two)


@cases(
    # The kind is that of all cells, not of the images that are there.
    ([LabelCells(1), LabelCells(0, 1), LabelCells()], {"7": 1}, "text", (1, 1)),
    # A row relabels one record, and the others keep names or numbers.
    ([LabelCells(integers=1)], {"7": 1, "cat": 8, "": 2}, "text", (1, 8)),
    ([LabelCells(integers=9)], {"7": 9, "": 2}, "integer", (9, 0)),
    ([LabelCells(others=1)], {"cat": 1, "7": 2}, "text", (2, 1)),
)
def test_the_kind_of_labels_is_that_of_rows_and_records(
    cells: list[LabelCells], labels: dict[str, int], kind: str, counted: tuple[int, int]
) -> None:
    names = Counter(labels).elements()
    images = [labelled(n, label=name, rows=bool(name)) for n, name in enumerate(names)]
    shards, _, totals = plan(images, cells=cells)
    assert totals.label_kind == kind
    assert totals.labels == Counter(labels)
    assert (totals.cells.integers, totals.cells.others) == counted
    ids = {image.label: image.label_id for group in shards.values() for image in group}
    assert kind == "text" or ids.items() <= {"7": 7, "": 0}.items()


@cases(
    ({"7": 1}, LabelCells(9, 1, odd=(("a.csv", 9, "x"),)), r"but 'x' \(a.csv:9\)"),
    ({"cat": 1, "7": 9}, LabelCells(integers=1), r"but 'cat' \(of a record"),
)
def test_contradictions_end_the_run(labels: dict[str, int], cells: LabelCells, says: str) -> None:
    images = [labelled(n, label=name) for n, name in enumerate(Counter(labels).elements())]
    with pytest.raises(LabelsError, match=f"9 of 10 labels are integers, {says}"):
        plan(images, cells=[cells])


BY_RECORDS = ShardPlan((), shard_size=1, num_shards=4, gzip=False, by_records=True)


def test_shards_have_equal_numbers_of_records(monkeypatch: pytest.MonkeyPatch) -> None:
    images = [labelled(at, split="test" if at < 5 else "train") for at in range(43)]

    def starts(images: list[PlannedImage], batch: int) -> Any:
        def construct(pipeline: beam.Pipeline) -> dict[str, Any]:
            created = pipeline | beam.Create(images).with_output_types(PlannedImage)
            batches, totals = created | packing_records(), created | TotalLabels(None)
            return {"totals": with_starts(batches, BY_RECORDS, totals, PlannedImage)}

        monkeypatch.setattr(packing, "BATCH_NAMES", batch)
        [totals] = collect(construct)["totals"]
        assert totals.images.total() == 43
        return totals.shard_starts

    found = starts(images, 7)
    for split, sizes in (("train", [9, 10, 9, 10]), ("test", [1, 1, 1, 2])):
        orders = [image.order for image in images if image.split == split]
        places = [shard_index(order, 4, found[split]) for order in orders]
        assert [places.count(number) for number in range(4)] == sizes
    assert starts(images[::-1], 2) == found


# Of ten, two are cats; the images of a group have different classes.
IMAGES = [
    PlannedImage(at, f"{at}", "", 1, 1, label, split="train", group=f"{at // 3}")
    for at, label in enumerate(["cat", "dog", "dog", "dog", "dog"] * 12)
]


def stratified(
    images: list[PlannedImage], monkeypatch: pytest.MonkeyPatch, **how: bool
) -> dict[str, PlannedImage]:
    """The images by their keys, in the same splits on every runner."""
    shares = Splits((("train", 0.8), ("test", 0.2)))
    lines = ClassLines(shares, 1, **{"by_group": False, "many_labels": False, **how})
    # Each takes some tenths of a second; golden conversions have all of them.
    monkeypatch.setattr(hash_cuts, "ROUNDS", 2)

    def run(images: list[PlannedImage], batch: int) -> dict[str, PlannedImage]:
        def construct(pipeline: beam.Pipeline) -> dict[str, Any]:
            created = pipeline | beam.Create(images).with_output_types(PlannedImage)
            return {"images": created | StratifySplits(lines, None, ANY_LABELS)}

        monkeypatch.setattr(packing, "BATCH_NAMES", batch)
        return {image.key: PlannedImage(*image) for image in collect(construct)["images"]}

    found = run(images, 7)
    # As the workers of another runner make them.
    monkeypatch.setattr(plan_shards, "_HELD", 4)
    assert run(images[::-1], 3) == found
    return found


def test_each_class_has_its_share_on_every_runner(monkeypatch: pytest.MonkeyPatch) -> None:
    found = stratified(IMAGES, monkeypatch)
    assert {key: image._replace(split="train") for key, image in found.items()} == {
        image.key: image for image in IMAGES
    }
    counts = Counter((image.label, image.split) for image in found.values())
    # 12 cats and 48 dogs: 9.6 and 38.4.
    assert counts["cat", "train"] in (9, 10) and counts["dog", "train"] in (38, 39)


def test_groups_stay_whole_on_every_runner(monkeypatch: pytest.MonkeyPatch) -> None:
    found = stratified(IMAGES, monkeypatch, by_group=True)
    places = {(image.group, found[image.key].split) for image in IMAGES}
    assert len(places) == 20
    # A group counts for its rarest class. Groups without cats: 8 of 3 dogs.
    with_cats = {image.group for image in IMAGES if image.label == "cat"}
    counts = Counter((group in with_cats, split) for group, split in places)
    assert counts[False, "train"] in (6, 7) and counts[True, "train"] in (9, 10)


@pytest.mark.slow
@pytest.mark.parametrize("by_group", [False, True])
def test_images_with_one_class_make_up_for_the_others_on_every_runner(
    by_group: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of twelve dogs and twelve foxes, nine or ten are in train, and a cat is with each."""
    several = [labels_cells(["cat", "dog" if at % 2 else "fox"]) for at in range(24)]
    images = [
        image._replace(label="" if cells else "cat", cells=cells, group=f"who {image.key}")
        for image, cells in zip(IMAGES, [*several, *[""] * 36], strict=True)
    ]
    found = stratified(images, monkeypatch, by_group=by_group, many_labels=True)
    train = [image for image in found.values() if image.split == "train"]
    assert len(train) == 48
    assert 18 <= sum(bool(image.cells) for image in train) <= 20


CELLS = (Column(1, "b"), Column(0, "a"))
COLUMNS = CsvColumns(NO_COLUMN, NO_COLUMN, 2, cells=CELLS, is_strict=True)


def planned_rows(folder: Path) -> dict[str, list[Any]]:
    """What the tables of a folder amount to."""
    paths = sorted(str(path) for path in folder.glob("*.csv"))
    assigner = SplitAssigner(Splits([("train", 0.5), ("test", 0.5)]), seed=3)
    options: dict[str, Any] = {"root": str(folder), "encoding": "utf-8", "row_bytes": 100}
    reader = TableReader(COLUMNS, assigner=assigner, **options)
    how = ShardPlan(("train", "test"), shard_size=10**9, num_shards=2, gzip=False)

    def construct(pipeline: Any) -> dict[str, Any]:
        plan = pipeline | PlanTable(paths, reader, how)
        [rejections], [counts] = plan.rejections.values(), plan.counts.values()
        found = {"totals": plan.totals, "rejections": rejections, "counts": counts}
        return {"shards": plan.shards, **found}

    return collect(construct)


@pytest.mark.parametrize("rows", [1, BATCH_ROWS, BATCH_ROWS + 1])
def test_every_row_is_in_one_shard_by_the_hash_of_its_place(rows: int, tmp_path: Path) -> None:
    text = "a,b\n" + "".join(f"{n},x{n}\n" for n in range(rows))
    (tmp_path / "t.csv").write_text(text)
    found = planned_rows(tmp_path)
    shards = {name: sorted(each) for name, each in found["shards"]}
    for split in ("test", "train"):
        orders = [row.order for name in sorted(shards) if split in name for row in shards[name]]
        assert orders == sorted(orders)
    written = [row for shard in shards.values() for row in shard]
    assert sorted(row.line for row in written) == list(range(2, rows + 2))
    for row in written:
        assert (row.key, row.path, row.cells) == ("", "t.csv", f"x{row.line - 2}\0{row.line - 2}")
        assert row.order == key_hashes(f"t.csv:{row.line}", seed=3)[1] - 2**63
    assert Count("rows_read", rows) in found["counts"]
    assert found["totals"][0].images.total() == rows


def test_several_tables_and_what_is_wrong_with_them(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("a,b\n1,2\n3\n")
    (tmp_path / "2.csv").write_text("b,a\n5,4\n")
    (tmp_path / "3.csv").write_text("a,b\n")
    found = planned_rows(tmp_path)
    rows = sorted((row.path, row.cells) for _, shard in found["shards"] for row in shard)
    assert rows == [("1.csv", "2\x001"), ("2.csv", "5\x004")]
    where = f"{tmp_path}/1.csv:3"
    expected = Rejection("row", "malformed_row", "1 cells for 2 columns", where, "")
    assert [Rejection(*each) for each in found["rejections"]] == [expected]
    assert sorted(count.value for count in found["counts"]) == [0, 1, 2]


def test_a_row_that_names_no_split_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\nTRAIN,1\n2nd,2\n,3\n")
    assigner = SplitAssigner(Splits([("train", 1.0)]), seed=0, split_from="csv")
    columns = COLUMNS._replace(split=Column(0, "a"))
    reader = TableReader(columns, root="", encoding="utf-8", assigner=assigner, row_bytes=1)
    results = list(reader.read(TablePart(str(tmp_path / "t.csv"))))
    [rejected] = [each for each in results if isinstance(each, Rejection)]
    assert (rejected.subject, rejected.reason) == ("row", "bad_split")
    assert rejected.path == f"{tmp_path}/t.csv:3"
