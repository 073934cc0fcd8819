"""Every element of every step can be encoded: a runner may put each step into its own process."""

import contextlib
import functools
import importlib
import pkgutil
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import pytest
from apache_beam.pipeline import AppliedPTransform, PipelineVisitor
from apache_beam.runners.portability.fn_api_runner.translations import Stage
from PIL import Image

import pipeline
import transforms
from tests.engines import dataset
from tests.pipeline.commands import Ran, arguments, convert, digests, plan, verify
from tests.transforms.beam import run_steps
from transforms import join_labels, packing
from transforms.storage.local_storage import LocalStorage
from transforms.write_dataset import EncodeExamples, FindImages, LabelImages, WriteDataset

pytestmark = pytest.mark.slow

TABLE = "id,size,name\n" + "".join(f"{number},{number * 2},n{number}\n" for number in range(40))

Run = Callable[[Path, Path], Ran]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images, boxes and a table; some of all kinds are rejected, and some are equal."""
    folder = dataset.make_inputs(tmp_path_factory.mktemp("decoded"), images=40)
    photos = folder / "photos"
    # TensorFlow is asked about these, and takes seconds to import.
    for name in ("corrupt_image.jpg", "not_an_image.jpg"):
        (photos / name).unlink()
    (photos / "photo-00002.jpg").write_bytes((photos / "photo-00001.jpg").read_bytes())
    (folder / "table.csv").write_text(TABLE)
    rows = [f"photos/{path.name},cat" for path in sorted(photos.glob("photo-*"))]
    (folder / "listed.csv").write_text("\n".join(["image_uri,label", *rows]))
    for name in ("few", "more"):
        (folder / "masks" / name).mkdir(parents=True)
    for path in sorted(photos.glob("photo-0000[2-9].*")):
        with Image.open(path) as photo:
            Image.new("L", photo.size).save(folder / "masks" / "more" / f"{path.stem}.png")
    Image.new("L", (9, 9)).save(folder / "masks" / "few" / "alone.png")
    few = {"images": photos / "photo-0000?.jpg", "label_from": "none"}
    for name, dedupe in (("base", "report"), ("unhashed", "off")):
        made = convert(**few, dedupe=dedupe, output=folder / name)
        assert made.code == 0, made.err
    return folder


def words(inputs: Path, output: Path) -> list[str]:
    return dataset.flags(inputs, output)


def of_images(inputs: Path, output: Path) -> Ran:
    more = arguments(dedupe="drop", quarantine=output / "rejected")
    return convert(*words(inputs, output / "set"), *more)


def of_single_files(inputs: Path, output: Path) -> Ran:
    images = inputs / "photos" / "photo-*"
    return convert(images=images, label_from="none", files="per_image", output=output)


def unique_of_a_list(inputs: Path, output: Path) -> Ran:
    flags = {"labels": inputs / "listed.csv", "holdout": inputs / "base"}
    return convert(**flags, output=output, dedupe="drop")


def of_records(inputs: Path, output: Path) -> Ran:
    return convert(images=inputs / "base", dedupe="drop", output=output)


def of_records_without_hashes(inputs: Path, output: Path) -> Ran:
    """Any two of them may be equal."""
    return convert(images=inputs / "unhashed", dedupe="drop", output=output)


def of_rows(inputs: Path, output: Path) -> Ran:
    return convert(labels=inputs / "table.csv", layout="rows", label_key="id", output=output)


def plan_of_images(inputs: Path, output: Path) -> Ran:
    return plan(*words(inputs, output))


def plan_of_rows(inputs: Path, output: Path) -> Ran:
    return plan(labels=inputs / "table.csv", layout="rows", label_key="id", output=output)


def found(inputs: Path, output: Path) -> Ran:
    images = FindImages([f"{inputs}/photos/photo-*"], root=str(inputs))
    return _own(images, WriteDataset(str(output), root=str(inputs)))


def encoded(inputs: Path, output: Path) -> Ran:
    images = FindImages([f"{inputs}/photos/photo-*"], root=str(inputs))
    return _own(images, EncodeExamples(root=str(inputs)), beam.io.WriteToTFRecord(str(output)))


def unique(inputs: Path, output: Path) -> Ran:
    images = inputs / "photos" / "photo-*"
    return convert(images=images, label_from="none", dedupe="drop", output=output)


def reused(inputs: Path, output: Path, base: Path) -> Ran:
    images = inputs / "photos" / "photo-*"
    return convert(images=images, label_from="none", seed=1, reuse=base, output=output)


def masked(inputs: Path, output: Path, **more: Any) -> Ran:
    """Photos with masks; one has none, and a mask has no photo."""
    more = {"masks": inputs / "masks" / "*" / "*.png", "max_rejected": "100%", **more}
    return convert(images=inputs / "photos" / "photo-0000?.*", dedupe="drop", output=output, **more)


def masked_again(inputs: Path, output: Path) -> Ran:
    """The same from their records."""
    base = output / "base"
    with several_machines():
        made = masked(inputs, base)
        return made if made.code else masked(inputs, output / "again", reuse=base, seed=1)


def balanced(inputs: Path, output: Path) -> Ran:
    """Groups, and images with several classes; shards with equal numbers of records."""
    more = ["--stratify", "label", "--shard_by", "records"]
    ran = convert(*words(inputs, output / "groups"), *more)
    if ran.code:
        return ran
    images = {"images": inputs / "photos" / "photo-*", "label_from": "regex:([0-9])[.]"}
    return convert(*more, **images, splits="train=0.5,test=0.5", output=output / "images")


def balanced_elsewhere(inputs: Path, output: Path) -> Ran:
    with several_machines():
        return balanced(inputs, output)


@contextlib.contextmanager
def several_machines() -> Iterator[None]:
    """With the steps that only runners with several machines have."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packing, "runs_in_process", lambda _: False)
        # As a bucket does, whose listing may lack some of them.
        patch.setattr(LocalStorage, "lists_checksums", True)
        yield


def masked_elsewhere(inputs: Path, output: Path) -> Ran:
    with several_machines(), pytest.MonkeyPatch.context() as patch:
        # Each folder of masks is a range.
        patch.setattr(join_labels, "LISTED_NAMES", (1, 1, 1))
        return masked(inputs, output)


def elsewhere(inputs: Path, output: Path) -> Ran:
    with several_machines():
        ran = (
            unique_of_a_list(inputs, output),
            verify(output),
            plan_of_rows(inputs, output / "planned"),
            plan(images=inputs / "base", output=output / "records"),
            unique(inputs, output / "unique"),
            reused(inputs, output / "reused", output / "unique"),
        )
    out, err = ("".join(getattr(each, name) for each in ran) for name in ("out", "err"))
    return Ran(max(each.code for each in ran), out, err)


def given(inputs: Path, output: Path) -> Ran:
    paths = sorted((inputs / "photos").glob("photo-*"))
    pairs = beam.Create([(str(path), "cat") for path in paths])
    return _own(pairs, LabelImages(), WriteDataset(str(output)))


def in_memory(inputs: Path, output: Path) -> Ran:
    paths = sorted((inputs / "photos").glob("photo-*"))
    images = beam.Create([(path.name, path.read_bytes(), "cat") for path in paths])
    return _own(images, WriteDataset(str(output)))


def _own(*steps: Any) -> Ran:
    run_steps(*steps)
    return Ran(0, "", "")


# The first one has most steps of a conversion.
RUNS = [
    of_images,
    of_single_files,
    plan_of_rows,
    given,
    in_memory,
    of_records,
    of_records_without_hashes,
    elsewhere,
    of_rows,
    plan_of_images,
    found,
    encoded,
    masked_elsewhere,
    masked_again,
    balanced_elsewhere,
]


class Outcome(NamedTuple):
    """How a run ended, what it left, and the DoFns and CombineFns that it ran."""

    ran: Ran
    files: dict[str, str]
    fns: set[type]


@pytest.fixture(scope="module")
def decoded(inputs: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Run], Outcome]:
    """Runs with steps of which no two are fused, so that each element is decoded; each run once."""

    @functools.cache
    def run(run: Run) -> Outcome:
        output = tmp_path_factory.mktemp("decoded") / run.__name__
        with pytest.MonkeyPatch.context() as patch:
            visitor = Fns()
            run_graph = beam.Pipeline.run
            patch.setattr(
                beam.Pipeline, "run", lambda graph: graph.visit(visitor) or run_graph(graph)
            )
            patch.setattr(Stage, "can_fuse", lambda *_: False)
            ran = run(inputs, output)
        return Outcome(ran, _files(output), visitor.found)

    return run


class Fns(PipelineVisitor):
    """The classes of what the steps of graphs do."""

    def __init__(self) -> None:
        self.found: set[type] = set()

    def visit_transform(self, transform_node: AppliedPTransform) -> None:
        self.found.add(type(getattr(transform_node.transform, "fn", None)))

    enter_composite_transform = visit_transform


def all_fns(base: type) -> Iterator[type]:
    """Each class of ours below one of Beam's, but for those that others inherit."""
    for each in base.__subclasses__():
        yield from all_fns(each)
        if each.__module__.startswith(("transforms.", "pipeline.")) and not each.__subclasses__():
            yield each


@pytest.mark.parametrize("run", RUNS)
def test_steps_take_decoded_rows(
    run: Run, decoded: Callable[[Run], Outcome], inputs: Path, tmp_path: Path
) -> None:
    output = tmp_path / run.__name__
    as_made = run(inputs, output)
    assert as_made.code == 0, as_made.err
    ran, files, _ = decoded(run)
    assert ran.err == as_made.err
    assert _lines(ran) == _lines(as_made)
    assert files == _files(output)


def test_every_step_is_run(decoded: Callable[[Run], Outcome]) -> None:
    """A new DoFn or CombineFn needs one of the runs above, or one more."""
    for package in (pipeline, transforms):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(found.name)
    assert {*all_fns(beam.DoFn), *all_fns(beam.CombineFn)} <= {
        fn for each in RUNS for fn in decoded(each).fns
    }


def _files(folder: Path) -> dict[str, str]:
    return digests(folder) if folder.exists() else {}


def _lines(ran: Ran) -> list[str]:
    """What was printed, without seconds and without the folder."""
    return [
        re.sub(r"/\S*/", "", line) for line in ran.out.splitlines() if not line.startswith("speed")
    ]
