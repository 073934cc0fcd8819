"""Names in packs, counts and totals: what steps combine."""

from __future__ import annotations

import dataclasses
import itertools
import marshal
import operator
import pickle
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import repeat
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast, get_origin

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from transforms.core import records
from transforms.core.records import JoinSide
from transforms.core.rejections import Rejection
from transforms.labels.vocabulary import LabelCells
from transforms.selection.duplicates import BUCKETS, MANY_BUCKETS

# What a graph does otherwise in one process: the only place that knows where a pipeline runs.


class RunnerRules(NamedTuple):
    """What pays off, or is bounded, on a runner. All else is the same on every runner.

    The workers of the in-process runner share one memory and one lock, and a step costs 3 to 10 ms
    of a run of seconds. Elsewhere, a job takes minutes, and one worker is one of many.

    Attributes:
        shares_inputs: whether workers share one glob, one file of rows that list images, and the
            indexes of one dataset. In one process that takes as long, and copies each name.
        knows_checksums: whether images whose MD5 is known skip a shuffle when duplicates are
            dropped. More images are read for it than in one process.
        sum_places: where sums of bundles are added up before one worker adds up the rest. Those of
            73,334 shards, 41 kB each, are 47 MB in each of 64; in one process, they are few.
        max_element: whether the names of a shard must fit into an element of 100 MB.
        buckets: in which fingerprints are compared. Each costs a millisecond; of 100 million
            images, one of 256 is 25 MB.
        samples_hashes: whether the publishing worker gets a sample of the perceptual hashes, for
            which images are counted first.
        restarts: whether the work of a worker that dies is repeated by another one, which cannot
            know that a decoder was the cause.
    """

    shares_inputs: bool
    knows_checksums: bool
    sum_places: int
    max_element: bool
    buckets: int
    samples_hashes: bool
    restarts: bool


_IN_PROCESS = RunnerRules(False, False, 1, False, BUCKETS, False, False)
_ELSEWHERE = RunnerRules(True, True, 64, True, MANY_BUCKETS, True, True)


def rules_of(pipeline: beam.Pipeline) -> RunnerRules:
    """The rules of the runner of a pipeline."""
    return _IN_PROCESS if runs_in_process(pipeline) else _ELSEWHERE


def runs_in_process(pipeline: beam.Pipeline) -> bool:
    """Whether the workers are threads or processes of Beam's in-process runner."""
    # By its name: a job that runs elsewhere does not import it.
    return type(pipeline.runner).__name__ == "FnApiRunner"


# `packing_sides` and `packing_records`: names cross every shuffle in batches.
#
# Every element that crosses one has its price: Beam encodes it, decodes it to group it, and encodes
# and decodes it again. A batch pays it once for all its records, and a column whose values are all
# equal is packed once. `marshal` reads and writes these columns in a third of the time of `pickle`.
# Its format is that of one version of Python: Beam demands the launcher's on all workers, and no
# batch outlives a job.

BATCH_NAMES = 4096
"""Records of a batch; one counts once more for each KiB of its cells, such as segmentations."""

PARTS = 1024
"""Parts into which keys are divided, on every runner.

Of 100 million images, a part is at most 25 MB of batches, and 100 MB while a worker joins it. In
one process, 1024 parts of 4,000 or of a million names take no longer than 64.
"""

# Bytes above which a batch is compressed, to a third: the runner copies all batches several times.
# Of a million names, that takes 4 us and saves 0.55 KB for each; smaller batches are of few names.
_LARGE = 256

# Sides that are held before they are packed, about 25 for each part: 10 MB. One with long cells
# counts once more for each `_CELLS` characters.
_HELD_SIDES = 25_600
_CELLS = 1024


class NameBatch(bytes):
    """The type of what `pack` and `pack_sides` make: `bytes` when it runs, never of an image."""


_Record = TypeVar("_Record", bound=NamedTuple)

# `_make` also checks the length.
_side = partial(tuple.__new__, JoinSide)


def part_of(key: str) -> int:
    """The part of a key, the same in every process.

    >>> part_of("cat/1.jpg") == part_of("cat/1.jpg") < PARTS
    True
    """
    return zlib.crc32(key.encode("utf-8", "surrogatepass")) % PARTS


def pack_sides(sides: Sequence[tuple[str, JoinSide]]) -> NameBatch:
    """Sides of the join with their keys, as `grouped_sides` reads them."""
    keys, records = [key for key, _ in sides], [side for _, side in sides]
    return _packed((keys, _columns(records)))


def unpack_sides(batch: NameBatch) -> Iterator[tuple[str, JoinSide]]:
    """The sides of a batch, each with its key."""
    keys, columns = _unpacked(batch)
    return zip(keys, map(_side, _rows(columns, len(keys))), strict=True)


def grouped_sides(batches: Iterable[NameBatch]) -> dict[str, list[JoinSide]]:
    """The sides of all batches by their keys."""
    groups: defaultdict[str, list[JoinSide]] = defaultdict(list)
    for batch in batches:
        for key, side in unpack_sides(batch):
            groups[key].append(side)
    return groups


def pack(records: Sequence[tuple[Any, ...]]) -> NameBatch:
    """Records of texts, numbers, truth values and `Plain`, as `unpack` reads them.

    Args:
        records: all of one type.
    """
    return _packed((len(records), _columns(records)))


def unpack(batch: NameBatch, kind: type[_Record]) -> Iterator[_Record]:
    """The records of a batch, which are of this kind."""
    count, columns = _unpacked(batch)
    return map(partial(tuple.__new__, kind), _rows(columns, count))


def _packed(content: tuple[Any, Any]) -> NameBatch:
    data = marshal.dumps(content)
    if len(data) > _LARGE:
        data = marshal.dumps(zlib.compress(data, 1))
    return cast(NameBatch, data)


def _unpacked(batch: NameBatch) -> Any:
    content = marshal.loads(batch)
    return marshal.loads(zlib.decompress(content)) if isinstance(content, bytes) else content


def _columns(records: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The fields of records; one value stands for a whole column of equal ones."""
    columns = zip(*records, strict=True)
    return [each[:1] if each.count(each[0]) == len(each) else each for each in columns]


def _rows(columns: Sequence[tuple[Any, ...]], count: int) -> Iterator[tuple[Any, ...]]:
    """The records of `_columns`, as plain tuples."""
    # A single record has columns of one value, too.
    whole = (repeat(each[0], count) if len(each) == 1 else each for each in columns)
    return zip(*whole, strict=True)


beam.coders.registry.register_coder(NameBatch, beam.coders.BytesCoder)


class RecordCoder(beam.coders.Coder):
    """Encodes a record of texts, numbers, truth values and `Plain`.

    Beam's `RowCoder` decodes one to a class that it generates, in another process than the one that
    made the graph: steps would get records without methods, for which `isinstance` is false.
    """

    def __init__(self, kind: type[Any]) -> None:
        self._kind = kind

    @classmethod
    def from_type_hint(cls, kind: type[Any], _registry: Any) -> RecordCoder:
        """The coder that Beam uses for records of this class."""
        return cls(kind)

    def encode(self, record: tuple[Any, ...]) -> bytes:
        """The fields of a record."""
        return marshal.dumps(tuple(record))

    def decode(self, encoded: bytes) -> Any:
        """The record."""
        return tuple.__new__(self._kind, marshal.loads(encoded))

    def to_type_hint(self) -> Any:
        """The class of the records."""
        return self._kind


for _kind in (*vars(records).values(), Rejection, LabelCells):
    if hasattr(_kind, "_fields"):
        beam.coders.registry.register_coder(_kind, RecordCoder)


def pack_held(
    most: int,
    pack: Callable[[Any, list[Any]], Any],
    kind: Any,
    *,
    place: Callable[[Any], Any] = lambda _: None,
    cells: Callable[[Any], str] = lambda _: "",
) -> beam.PTransform:
    """A step that holds elements of a bundle by their places, and packs those of each together.

    Args:
        most: elements to hold; one with long cells counts once more for each `_CELLS` characters
            of them.
        pack: makes an element of a place and those that were held there; picklable, as all are.
        kind: the type of these elements.
        place: of an element.
        cells: of an element.
    """
    return beam.ParDo(_PackFn(most, pack, place, cells)).with_output_types(kind)


@dataclasses.dataclass(eq=False, repr=False)
class _PackFn(beam.DoFn):
    most: int
    pack: Callable[[Any, list[Any]], Any]
    place: Callable[[Any], Any]
    cells: Callable[[Any], str]

    def start_bundle(self) -> None:
        self._places: defaultdict[Any, list[Any]] = defaultdict(list)
        self._held = 0

    def process(self, element: Any) -> Sequence[Any]:
        self._places[self.place(element)].append(element)
        self._held += 1 + len(self.cells(element)) // _CELLS
        return () if self._held < self.most else self._packed()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        return map(GlobalWindows.windowed_value, self._packed())

    def _packed(self) -> list[Any]:
        packed = list(itertools.starmap(self.pack, self._places.items()))
        self.start_bundle()
        return packed


def packing_sides() -> beam.PTransform:
    """A step that packs images and rows by the parts of their keys.

    Input: `(key, JoinSide)`. Output: `(part, batch)`, as `grouped_sides` reads them.
    """
    return pack_held(
        _HELD_SIDES,
        lambda part, held: (part, pack_sides(held)),
        tuple[int, NameBatch],
        place=lambda side: part_of(side[0]),
        cells=lambda side: side[1].cells,
    )


def packing_records() -> beam.PTransform:
    """A step that packs records of one type, such as images, in any order.

    Input: the records. Output: batches, as `unpack` reads them.
    """
    return pack_held(
        BATCH_NAMES,
        lambda _, held: pack(held),
        NameBatch,
        cells=lambda record: getattr(record, "cells", ""),
    )


# Gather: everything of some small collections in one element, for a step that runs once.

# What was gathered, by the name of its collection; an empty collection is an empty list.
Everything: TypeAlias = dict[str, list[Any]]

_ONE_KEY = 0

# Elements that cross the shuffle together. Texts such as paths compress well with their like.
_BATCH = 256


class Gather(beam.PTransform):
    """Brings whole collections together, through one shuffle with one key.

    Input: collections by name, of which at least one has an element. Output: one `Everything`.
    What crosses the shuffle is compressed: runners keep the group in memory.

    Side inputs would do, but Beam's runners in Java (Flink) fail on those of more than a megabyte
    if a text ends where a chunk does: docs/development/beam_side_inputs.md.
    """

    def expand(
        self, collections: Mapping[str, beam.PCollection[Any]]
    ) -> beam.PCollection[Everything]:
        # A `CoGroupByKey` has three times the steps, which cost 0.3 s of every run.
        packed = [
            collection | f"Pack {name}" >> _pack_as(name)
            for name, collection in collections.items()
        ]
        return (
            packed
            | "All" >> beam.Flatten()
            | "Group" >> beam.GroupByKey()
            | "By name" >> beam.Map(_group_by_name, [*collections])
        )


def _pack_as(name: str) -> beam.PTransform:
    """What packs the elements of a collection under its name."""
    return pack_held(
        _BATCH,
        lambda _, held: (_ONE_KEY, (name, zlib.compress(pickle.dumps(held), level=1))),
        tuple[int, tuple[str, bytes]],
    )


def _group_by_name(
    group: tuple[int, Iterable[tuple[str, bytes]]], names: Sequence[str]
) -> Everything:
    everything: Everything = {name: [] for name in names}
    for name, packed in group[1]:
        everything[name] += pickle.loads(zlib.decompress(packed))
    return everything


# AddUp and AddTogether: totals of many elements, on however many workers.


class AddUp(beam.CombineFn):
    """Adds elements to totals where they are made, and adds up these totals.

    >>> adder = AddUp(set, set.add, set.update)
    >>> adder.merge_accumulators([{1}, {2}])
    {1, 2}
    """

    def __init__(
        self,
        kind: type,
        add: Callable[[Any, Any], object],
        merge: Callable[[Any, Any], object],
    ) -> None:
        """Takes picklable functions.

        Args:
            kind: the class of totals, which makes those of nothing.
            add: adds an element to totals, in place.
            merge: adds the totals of others to totals, in place.
        """
        super().__init__()
        self.kind = self.create_accumulator = kind
        self._add = add
        self._merge = merge

    def add_input(self, accumulator: Any, element: Any) -> Any:
        self._add(accumulator, element)
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[Any]) -> Any:
        merged = self.create_accumulator()
        for each in accumulators:
            self._merge(merged, each)
        return merged

    def extract_output(self, accumulator: Any) -> Any:
        return accumulator


@dataclasses.dataclass(eq=False, repr=False)
class AddTogether(beam.PTransform):
    """Adds up collections: in each bundle, then in `RunnerRules.sum_places`, then in one.

    Input: collections by name. Output: one sum, which is there even if no element is. A
    `CombineGlobally` has more steps, each 10 ms, and its `with_fanout` two paths through the graph,
    see `FindCuts`.
    """

    adder: AddUp

    def expand(self, collections: Mapping[str, beam.PCollection[Any]]) -> beam.PCollection[Any]:
        adder, [pipeline, *_] = self.adder, [each.pipeline for each in collections.values()]
        places = rules_of(pipeline).sum_places
        pair: Any = tuple
        placed = pair[int, adder.kind]
        add_up = beam.ParDo(_AddUpFn(adder, places)).with_output_types(placed)
        of_bundles = [each | f"Add up {name}" >> add_up for name, each in collections.items()]
        nothing = (
            pipeline
            | "Begin" >> beam.Impulse()
            | "Nothing"
            >> beam.Map(lambda _: (0, adder.create_accumulator())).with_output_types(placed)
        )
        sums = (*of_bundles, nothing) | "All sums" >> beam.Flatten()
        if places > 1:
            add_in_place = beam.MapTuple(lambda _, sums: (0, adder.merge_accumulators(sums)))
            sums = (
                sums
                | "Group by place" >> beam.GroupByKey()
                | "Add up places" >> add_in_place.with_output_types(placed)
            )
        add_all = beam.MapTuple(lambda _, sums: adder.merge_accumulators(sums))
        return (
            sums
            | "Group sums" >> beam.GroupByKey()
            | "Add up sums" >> add_all.with_output_types(adder.kind)
        )


@dataclasses.dataclass(eq=False, repr=False)
class _AddUpFn(beam.DoFn):
    """Adds up the elements of a bundle, so that none crosses a shuffle to be counted."""

    adder: AddUp
    places: int

    def start_bundle(self) -> None:
        self._sum = self.adder.create_accumulator()
        self._place: int | None = None

    def process(self, element: Any) -> None:
        if self._place is None:
            # The same one if the bundle is tried again.
            self._place = _part_of(element, self.places)
        self._sum = self.adder.add_input(self._sum, element)

    def finish_bundle(self) -> Iterator[WindowedValue]:
        yield GlobalWindows.windowed_value((self._place or 0, self._sum))


def _part_of(element: Any, parts: int) -> int:
    """The part of an element by a hash of what it holds, 0 to `parts - 1`."""
    return zlib.crc32(repr(element).encode(errors="replace")) % parts


_T = TypeVar("_T")

Collections: TypeAlias = beam.PCollection[_T] | dict[str, beam.PCollection[_T]]
"""One collection, or several by what they are of. Runners copy all elements to flatten them."""


def named(what: str, collections: Collections[_T]) -> dict[str, beam.PCollection[_T]]:
    """The collections by names, such as `counts of inputs`."""
    if isinstance(collections, dict):
        return {f"{what} {name}": each for name, each in collections.items()}
    return {what: collections}


def together(label: str, *collections: beam.PCollection[_T]) -> beam.PCollection[_T]:
    """All elements of one or several collections."""
    return collections[0] if len(collections) == 1 else collections | label >> beam.Flatten()


def by_type(
    function: Callable[..., Iterable[Any]],
    main: str,
    kind: Any,
    *side: beam.pvalue.AsSideInput,
    **others: Any,
) -> beam.PTransform:
    """A step with several outputs: each result of a function goes to the one of its type.

    Args:
        function: of an element, and of the side input if there is one; picklable.
        main: the name of the output of all other types.
        kind: the type of these results.
        side: a side input, or none.
        others: the types of the other outputs, by their names.
    """
    tags = {get_origin(each) or each: name for name, each in others.items()}
    return with_outputs(beam.ParDo(_ByTypeFn(function, tags), *side), main, kind, **others)


@dataclasses.dataclass(eq=False, repr=False)
class _ByTypeFn(beam.DoFn):
    function: Callable[..., Iterable[Any]]
    tags: Mapping[type, str]

    def process(self, element: Any, side: Any = None) -> Iterator[Any]:
        tags = self.tags
        results = self.function(element) if side is None else self.function(element, side)
        for result in results:
            tag = tags.get(type(result))
            yield result if tag is None else beam.pvalue.TaggedOutput(tag, result)


def with_outputs(step: beam.PTransform, main: str, kind: Any, **others: Any) -> beam.PTransform:
    """A step with several outputs.

    Args:
        step: what yields the elements of all of them, a `beam.ParDo`.
        main: the name of its output without a tag.
        kind: the type of these elements.
        others: those of the other outputs, by their tags.
    """
    return step.with_output_types(kind, **others).with_outputs(*others, main=main)


# SpreadElements: hands elements to all workers, also behind another step that does.

# More than workers; a key has few of millions of elements.
_PARTS = 4096


class SpreadElements(beam.PTransform):
    """Spreads elements over all workers, by a hash of what they hold.

    Input: records. Output: the same ones. `beam.Reshuffle` does the same, but Flink ignores a
    second one if nothing is grouped in between: its batch engine finds them spread already. All
    ranges of a listing stayed with the worker that cut them. In one process, nothing is gained.
    """

    def expand(self, elements: beam.PCollection[Any]) -> beam.PCollection[Any]:
        if not rules_of(elements.pipeline).shares_inputs:
            return elements
        kind: Any = elements.element_type
        pair: Any = tuple
        part = beam.Map(lambda each: (_part_of(each, _PARTS), each))
        return (
            elements
            | "Choose parts" >> part.with_output_types(pair[int, kind])
            | "Group by part" >> beam.GroupByKey()
            | "Take out" >> beam.FlatMap(operator.itemgetter(1)).with_output_types(kind)
        )
