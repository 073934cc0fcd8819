"""The parts of publishing: repeated, run twice at a time, on other workers, or taken over."""

import contextlib
import functools
import hashlib
import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.marks import cases
from tests.servers.gcs import GcsServer
from tests.transforms.added import added_to
from tests.transforms.beam import make_config
from transforms.core.records import Count, RejectedPart
from transforms.dataset.ledger import PlanTotals, RunTotals, ShardSummary, in_order
from transforms.dataset.manifest import (
    build_manifest,
    content_summary,
    crc32c_hex,
    data_files,
    in_parts,
    to_bytes,
)
from transforms.dataset.output_names import rejected_part
from transforms.publish_dataset import Prepared, Publication
from transforms.storage.files import join, storage_of
from transforms.storage.gcs_storage import GcsStorage
from transforms.storage.local_storage import LocalStorage
from transforms.storage.output_changes import Put

MOVERS = 2
PARTS = 2 + MOVERS
RECIPES = {"former": "0" * 32, "mine": "1" * 32, "other": "2" * 32}


class World:
    """An output folder with a dataset, and the staged files of `whose`, which replaces it."""

    def __init__(self, output: str, whose: str, count: int) -> None:
        self.output = output
        self._storage = storage_of(output)
        names = [f"train-{number:05d}-of-{count:05d}.tfrecord" for number in range(count)]
        self._data = {name: f"{whose} {name}".encode() for name in names}
        self._shards = [
            ShardSummary(name, RECIPES[whose], 1, len(data), crc32c_hex(data))
            for name, data in self._data.items()
        ]
        files = data_files(self._shards)
        self._puts = [Put(f".staging/{f.staged}", f.file, f.bytes, f.crc32c) for f in files]
        self._parts = [f"{whose} {number}\n".encode() for number in range(2)]
        parts = [
            RejectedPart(number, _part(data), 1, len(data), crc32c_hex(data))
            for number, data in enumerate(self._parts)
        ]
        small = {"labels.txt": whose.encode(), "rejected.jsonl": in_parts(parts)}
        found: dict[str, list[Any]] = {
            "totals": [PlanTotals()],
            "shards": self._shards,
            "run": [added_to(RunTotals(), [Count("images_found", count)])],
        }
        manifest = build_manifest(
            make_config(Path("in"), Path("out")).dataset,
            in_order(["train"], found),
            data=files,
            recipe=RECIPES[whose],
            label_kind="none",
        )
        manifest["files"] = {name: content_summary(each)._asdict() for name, each in small.items()}
        self._small = {**small, "manifest.json": to_bytes(manifest)}
        self.files = {**self._data, **self._small, "rejected.jsonl": b"".join(self._parts)}
        self._prepared: Prepared | None = None

    def write(self, name: str, data: bytes) -> None:
        self._storage.make_directory(join(self.output, name).rpartition("/")[0])
        self._storage.write_whole(join(self.output, name), data)

    def stage(self) -> None:
        for put, data in zip(self._puts, self._data.values(), strict=True):
            self.write(put.source, data)
            self.write(f"{put.source}.json", b"{}")
        for data in self._parts:
            self.write(f".staging/{_part(data)}", data)

    def there(self) -> dict[str, bytes]:
        """The files outside the staging folder."""
        names = (n for n in self._storage.names_below(self.output) if not n.startswith(".staging/"))
        return {name: self._storage.read_bytes(join(self.output, name)) for name in names}

    def run(self, part: int, *, is_kept: bool = True) -> None:
        """Runs a part on a worker of its own: preparing, moving a share of the files, finishing."""
        publication = Publication(self.output, overwrite=True, run="")
        if part == 0:
            prepared = publication.prepare(self._puts, self._shards, self._small)
            # What crosses a shuffle.
            puts = [Put(*each) for each in json.loads(json.dumps(prepared.puts))]
            if is_kept:
                self._prepared = prepared._replace(puts=puts)
            return
        assert self._prepared is not None
        if part <= MOVERS:
            publication.changes().put_in_place(self._prepared.puts[part - 1 :: MOVERS])
        else:
            publication.changes().remove_leftovers(publication.finish(*self._prepared))

    def run_all(self, begin: int = 0) -> None:
        for part in range(begin, PARTS):
            self.run(part)


def _part(data: bytes) -> str:
    return rejected_part(hashlib.blake2b(data, digest_size=16).hexdigest())


Make = Callable[[], World]


@pytest.fixture
def bucket(gcs: GcsServer) -> Make:
    """Makes folders of a bucket with a dataset, and another one staged."""
    gcs.make_bucket("datasets")
    return functools.partial(_make, "gs://datasets")


@pytest.fixture
def folder(tmp_path: Path) -> Make:
    """The same on disk."""
    return functools.partial(_make, str(tmp_path))


def _make(root: str) -> World:
    output = f"{root}/{uuid.uuid4().hex}"
    former = World(output, "former", 2)
    for name, data in former.files.items():
        former.write(name, data)
    world = World(output, "mine", 3)
    world.stage()
    return world


@pytest.fixture(params=[pytest.param("bucket", marks=pytest.mark.slow), "folder"])
def make(request: pytest.FixtureRequest) -> Make:
    maker: Make = request.getfixturevalue(request.param)
    return maker


class Stopped(Exception):
    """A worker was stopped."""


@contextlib.contextmanager
def at_change(number: int | None, act: Callable[[], object]) -> Iterator[list[str]]:
    """Does something before a change to a storage; gives the names of all changes.

    One thread makes all changes: the other threads of a worker that stops or sleeps do so, too.
    """
    changes: list[str] = []
    is_acting = has_acted = False

    def wrap(function: Callable[..., Any], end: int) -> Callable[..., Any]:
        def changing(*args: Any, **kwargs: Any) -> Any:
            nonlocal is_acting, has_acted
            if not is_acting:
                if len(changes) == number and not has_acted:
                    is_acting = has_acted = True
                    try:
                        act()
                    finally:
                        is_acting = False
                changes.append(f"{function.__name__} {args[end].rpartition('/')[2]}")
            return function(*args, **kwargs)

        return changing

    with pytest.MonkeyPatch.context() as patch:
        for storage, names in (
            (GcsStorage, ("move", "remove", "write_whole")),
            (LocalStorage, ("rename", "remove", "remove_staging")),
        ):
            for name in names:
                end = 2 if name in ("move", "rename") else 1
                patch.setattr(storage, name, wrap(getattr(storage, name), end))
            patch.setattr(storage, "for_each", lambda _, function, items: map(function, items))
        yield changes


def stop() -> None:
    raise Stopped


@pytest.mark.slow
def test_a_part_that_stops_at_any_change_is_repeated(make: Make) -> None:
    with at_change(None, stop) as changes:
        whole = make()
        begin = len(changes)
        whole.run_all()
    assert whole.there() == whole.files
    numbers = range(len(changes) - begin)
    assert len(numbers) >= 12
    for number in numbers:
        world, is_stopped = make(), False
        part = 0
        with at_change(number, stop):
            while part < PARTS:
                try:
                    world.run(part)
                    part += 1
                except Stopped:
                    is_stopped = True
                    there = world.there()
                    if "manifest.json" in there:
                        former = World(world.output, "former", 2).files
                        assert there in (former, world.files), changes[begin + number]
        assert is_stopped
        assert world.there() == world.files, changes[begin + number]


def test_every_part_may_run_again_at_any_later_time(make: Make) -> None:
    for part in range(PARTS):
        for later in range(part + 1, PARTS + 1):
            world = make()
            for each in range(later):
                world.run(each)
            world.run(part, is_kept=False)
            for each in range(later, PARTS):
                world.run(each)
            assert world.there() == world.files, (part, later)


@pytest.mark.slow
def test_a_worker_that_was_given_up_changes_nothing_when_it_goes_on(bucket: Make) -> None:
    """It sleeps before one of its changes, while another one does its part and all that follow."""
    for part in range(PARTS):
        number = 0
        while True:
            world = bucket()
            for each in range(part):
                world.run(each)

            def others(world: World = world, part: int = part) -> None:
                world.run_all(part)
                assert world.there() == world.files

            with at_change(number, others) as changes, contextlib.suppress(OSError):
                world.run(part, is_kept=False)
            if len(changes) <= number:
                break
            assert world.there() == world.files, (part, changes[number:])
            number += 1
        assert number >= 2


@pytest.mark.parametrize("done", range(1, PARTS))
@pytest.mark.parametrize("is_finished", [True, False])
def test_a_run_that_was_taken_over_between_two_parts_publishes_nothing(
    bucket: Make, done: int, is_finished: bool
) -> None:
    mine = bucket()
    for part in range(done):
        mine.run(part)
    other = World(mine.output, "other", 4)
    other.stage()
    for part in range(PARTS if is_finished else 1):
        other.run(part)
    for part in range(done, PARTS):
        with contextlib.suppress(OSError):
            mine.run(part)
        assert ("manifest.json" in other.there()) == is_finished
    if not is_finished:
        other.run_all(1)
    assert other.there() == other.files


def test_a_file_that_changed_after_it_was_moved_is_not_published(bucket: Make) -> None:
    world = bucket()
    for part in range(PARTS - 1):
        world.run(part)
    world.write("train-00001-of-00003.tfrecord", b"another's")
    with pytest.raises(OSError, match="train-00001-of-00003.tfrecord was moved, but is not in"):
        world.run(PARTS - 1)
    assert "manifest.json" not in world.there()


def test_a_part_that_is_missing_or_changed_is_an_error(folder: Make) -> None:
    world = folder()
    storage = LocalStorage()
    path = join(world.output, ".staging", _part(b"mine 1\n"))
    storage.write_whole(path, b"mine 2\n")
    with pytest.raises(OSError, match="was changed meanwhile: run the command again"):
        world.run(0)
    storage.remove(path)
    with pytest.raises(FileNotFoundError):
        world.run(0)
    assert json.loads(world.there()["manifest.json"])["recipe"] == RECIPES["former"]


def test_a_dataset_stays_while_it_is_replaced_by_itself(make: Make) -> None:
    world = make()
    world.run_all()
    world.write("report.html", b"of this dataset")
    # One of its files was damaged.
    world.write("train-00001-of-00003.tfrecord", b"damaged")
    world.stage()
    for part in range(PARTS):
        world.run(part)
        assert world.there().items() >= {"report.html": b"of this dataset"}.items()
        assert "manifest.json" in world.there()
    assert world.there() == {**world.files, "report.html": b"of this dataset"}


def test_a_folder_is_synced_before_its_manifest_and_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, done = World(str(tmp_path / "out"), "mine", 3), list[str]()
    world.stage()

    def note(name: str) -> None:
        original = getattr(LocalStorage, name)

        def call(self: LocalStorage, path: str, *rest: Any, **keywords: Any) -> None:
            done.append(Path(rest[0]).name if rest else f"sync {Path(path).name}")
            original(self, path, *rest, **keywords)

        monkeypatch.setattr(LocalStorage, name, call)

    note("rename")
    note("sync_folder")
    world.run_all()
    assert done[-5:] == ["labels.txt", "rejected.jsonl", "sync out", "manifest.json", "sync out"]
    # The names of all staged small files reach the disk with the list of them.
    assert done.count("sync .staging") == 1


@cases(
    # A shard that a run was writing has the recipe of one with unchanged images.
    ([f".{'a' * 32}.partial"], []),
    (["", ".json"], ["dropped 1 shard staged by an earlier run with other inputs or options"]),
)
def test_only_complete_shards_of_other_inputs_are_work_that_is_lost(
    left: list[str], said: list[str], folder: Make, caplog: pytest.LogCaptureFixture
) -> None:
    world = folder()
    for suffix in left:
        shard = f"train-00000-of-00002.tfrecord.{RECIPES['other']}{suffix}"
        world.write(f".staging/{shard}", b"left")
    world.run_all()
    assert caplog.messages == said
    assert world.there() == world.files
