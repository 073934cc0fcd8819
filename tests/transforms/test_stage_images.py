"""Images from memory: any pipeline ends in `WriteDataset`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.pipeline import AppliedPTransform, PipelineVisitor

from pipeline import ConvertDataset, load
from tests.images import picture, saved
from tests.pipeline.commands import Dataset, check_sound, digests, index_rows
from tests.pipeline.reading import read
from tests.servers.gcs import GcsServer
from tests.transforms.beam import make_pipeline
from transforms import FindImages, LabelImages, WriteDataset
from transforms.core.rejections import Rejection
from transforms.labels.joins import ONE_LABEL
from transforms.records.image_origins import staged_root, write_original
from transforms.stage_images import GivenImage, _Stager

Elements = Sequence[Any]

PHOTOS = [saved(picture("RGB", 9 + number, 12), "JPEG") for number in range(8)]
PAIRS = [
    (f"{'cat' if n % 2 else 'dog'}/{n}.jpg", data, "cd"[n % 2]) for n, data in enumerate(PHOTOS)
]


def run(elements: Elements, write: beam.PTransform[Any, Any], *before: Any) -> None:
    graph = make_pipeline()
    value: Any = graph | "Make" >> beam.Create(elements, reshuffle=False)
    for number, step in enumerate([*before, write]):
        value = value | f"Step {number}" >> step
    graph.run().wait_until_finish()


def write(output: Path | str, elements: Elements, **options: Any) -> Dataset:
    run(elements, WriteDataset(str(output), **options))
    dataset = Dataset(Path(output))
    check_sound(dataset.folder)
    return dataset


def test_they_are_stored_byte_for_byte_under_their_keys(tmp_path: Path) -> None:
    dataset = write(tmp_path / "out", PAIRS, splits="train=0.5,test=0.5", seed=3, num_shards=2)
    stored = {r["image/filename"].decode(): r["image/encoded"] for r in read(dataset)}
    assert stored == {key: data for key, data, _ in PAIRS}
    labels = {r["image/filename"].decode(): r["image/class/text"].decode() for r in read(dataset)}
    assert labels == {key: label for key, _, label in PAIRS}
    assert list(dataset.manifest["splits"]) == ["train", "test"]
    assert not (dataset.folder / ".staging").exists()


@pytest.mark.slow
def test_they_give_the_shards_of_the_same_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for key, data, _ in PAIRS:
        (tmp_path / key).parent.mkdir(exist_ok=True)
        (tmp_path / key).write_bytes(data)
    options: dict[str, Any] = {"splits": "train=0.6,test=0.4", "seed": 7}
    graph = make_pipeline()
    pairs = graph | beam.Create([(key, label) for key, _, label in PAIRS])
    _ = pairs | LabelImages(**options) | WriteDataset("files", num_shards=2)
    graph.run().wait_until_finish()
    memory = write("memory", PAIRS[::-1], num_shards=2, **options)
    ours, theirs = digests(memory.folder), digests(tmp_path / "files")
    assert ours.keys() == theirs.keys()
    # The manifest and the report name the inputs, an index their versions.
    by_each = {"manifest.json", "report.html", *(name for name in ours if "index/" in name)}
    assert {n: d for n, d in ours.items() if n not in by_each} == {
        n: d for n, d in theirs.items() if n not in by_each
    }
    assert index_rows(memory.folder) == index_rows(tmp_path / "files")


def test_a_rerun_is_up_to_date_and_another_image_is_not(tmp_path: Path) -> None:
    output = tmp_path / "out"
    write(output, PAIRS)
    before = digests(output)
    write(output, PAIRS)
    assert digests(output) == before
    changed = [(PAIRS[0][0], PHOTOS[1], PAIRS[0][2]), *PAIRS[1:]]
    with pytest.raises(Exception, match="holds a dataset of other inputs"):
        run(changed, WriteDataset(str(output)))
    write(output, changed, overwrite=True)
    assert digests(output) != before


def test_what_a_killed_run_left_is_used_or_removed(tmp_path: Path) -> None:
    output = tmp_path / "out"
    expected = digests(write(tmp_path / "whole", PAIRS).folder)
    root = staged_root(str(output))
    write_original(root, PAIRS[0][0], b"of another run")
    write_original(root, "gone", b"an image that is no longer given")
    (Path(root) / (32 * "0" + "." + 32 * "1" + ".partial")).write_bytes(b"half")
    found = digests(write(output, PAIRS).folder)
    names = {"manifest.json", "report.html"}  # hold the name of the output folder
    assert {n: d for n, d in found.items() if n not in names} == {
        n: d for n, d in expected.items() if n not in names
    }


def test_a_failed_run_keeps_them_for_a_rerun(tmp_path: Path) -> None:
    bad = [*PAIRS, ("bad.jpg", b"no image", "c")]
    with pytest.raises(Exception, match="1 of 9 images rejected, more than --max_rejected"):
        run(bad, WriteDataset(str(tmp_path / "out"), max_rejected="0"))
    kept = list((tmp_path / "out/.staging/images").iterdir())
    assert len(kept) == 9
    dataset = write(tmp_path / "out", bad, max_rejected="1")
    assert [(r["path"], r["reason"]) for r in dataset.rejected] == [("bad.jpg", "not_an_image")]


def test_keys_labels_and_splits_that_contradict_are_rejected(tmp_path: Path) -> None:
    a, b, c = PHOTOS[:3]
    elements = [
        ("twice", a, "cat"),
        ("twice", a, "cat"),
        ("two images", a, "cat"),
        ("two images", b, "cat"),
        ("two labels", a, "cat"),
        ("two labels", a, "dog"),
        ("two splits", a, "cat", "train"),
        ("two splits", a, "cat", "test"),
        ("bad split", a, "cat", "../x"),
        ("none", c, None),
        ("nan", c, float("nan")),
        ("empty", b"", "cat"),
        (" spaced ", c, "cat"),
        ("spaced", b, "cat"),
    ]
    dataset = write(tmp_path / "out", elements, max_rejected="100%")
    assert [r["image/filename"] for r in read(dataset)] == [b"twice"]
    assert sorted((r["path"], r["reason"]) for r in dataset.rejected) == [
        (" spaced ", "duplicate_key"),
        ("bad split", "bad_split"),
        ("empty", "empty_file"),
        ("nan", "no_label"),
        ("none", "no_label"),
        ("spaced", "duplicate_key"),
        ("two images", "duplicate_key"),
        ("two images", "duplicate_key"),
        ("two labels", "ambiguous_label"),
        ("two splits", "split_conflict"),
    ]
    assert dataset.ledger["images_matched"] == 11


def test_the_program_may_name_splits(tmp_path: Path) -> None:
    elements = [(f"{n}", data, n, ["TRAIN", "test"][n % 2]) for n, data in enumerate(PHOTOS)]
    dataset = write(tmp_path / "out", elements)
    assert {name: split["records"] for name, split in dataset.manifest["splits"].items()} == {
        "train": 4,
        "test": 4,
    }


def odd_ones(_: object) -> Iterator[tuple[object, ...]]:
    """Images that are made inside the pipeline."""
    yield "a", PHOTOS[0]
    yield "b", bytearray(PHOTOS[1]), "ignored"


def test_images_without_labels_and_other_kinds_of_bytes(tmp_path: Path) -> None:
    options: dict[str, Any] = {"labelled": False, "files": "per_image"}
    graph = make_pipeline()
    elements = graph | beam.Create([0]) | beam.FlatMap(odd_ones)
    _ = elements | WriteDataset(str(tmp_path / "out"), **options)
    graph.run().wait_until_finish()
    loaded = load(tmp_path / "out", "train", decode=False).as_numpy_iterator()
    assert sorted(r["image/filename"] for r in loaded) == [b"a", b"b"]


def test_a_key_that_is_no_text_is_rejected(tmp_path: Path) -> None:
    image = GivenImage("\udcff", b"", (), "")
    _, rejection = _Stager(str(tmp_path), ONE_LABEL)._staged(image)
    assert isinstance(rejection, Rejection)
    assert (rejection.reason, rejection.path) == ("name_not_utf8", "\\xff")


def test_several_labels_of_an_image(tmp_path: Path) -> None:
    layout = tmp_path / "many.yaml"
    layout.write_text("features: {id: image.key, labels: label.texts, ids: label.ids}")
    elements = [("a", PHOTOS[0], ["dog", "cat", "dog"]), ("b", PHOTOS[1], {"cat"})]
    elements += [("c", PHOTOS[2], [])]
    dataset = write(tmp_path / "out", elements, layout=str(layout), max_rejected="1")
    assert dataset.classes == ["cat", "dog"]
    assert [(r["path"], r["reason"]) for r in dataset.rejected] == [("c", "no_label")]
    with pytest.raises(ValueError, match="'labels' of the layout has the source label.texts"):
        run([("x", "y")], WriteDataset(str(tmp_path / "no"), layout=str(layout)), LabelImages())
    with pytest.raises(Exception, match=r"'a' has 2 labels, and the layout stores one: choose"):
        run(elements, WriteDataset(str(tmp_path / "one")))


def test_duplicates_are_dropped_and_rejected_images_copied(tmp_path: Path) -> None:
    elements = [*PAIRS, ("z.jpg", PHOTOS[0], "c"), ("no/image.txt", b"text", "d")]
    left = tmp_path / "left"
    options: dict[str, Any] = {"dedupe": "drop", "max_rejected": "100%"}
    dataset = write(tmp_path / "out", elements, quarantine=left, **options)
    assert sorted(r["reason"] for r in dataset.rejected) == ["duplicate_image", "not_an_image"]
    copies = {str(p.relative_to(left)): p.read_bytes() for p in left.rglob("*") if p.is_file()}
    assert copies == {
        "not_an_image/no/image.txt": b"text",
        "duplicate_image/z.jpg": PHOTOS[0],
    }


def test_a_key_never_leads_to_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret.jpg").write_bytes(PHOTOS[7])
    keys = [str(tmp_path / "secret.jpg"), "../secret.jpg", "gs://bucket/secret.jpg", "a\0b"]
    elements = [(key, data, "c") for key, data in zip(keys, PHOTOS, strict=False)]
    dataset = write("out", elements, dedupe="drop")
    stored = {r["image/filename"].decode(): r["image/encoded"] for r in read(dataset)}
    assert stored == {key: data for key, data, _ in elements}


def test_a_staging_folder_behind_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out/.staging").mkdir(parents=True)
    (tmp_path / "out/.staging/images").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Exception, match="is a link: it must be a real folder"):
        run(PAIRS, WriteDataset(str(tmp_path / "out")))
    assert not list((tmp_path / "elsewhere").iterdir())


def test_an_element_of_another_form_fails_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="'a' is the str 'cat', not bytes") as raised:
        run([("a", "cat")], WriteDataset(str(tmp_path / "out")))
    assert str(raised.value).count("\n") == 0


def test_arguments_of_the_other_input_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(PHOTOS[0])
    output = str(tmp_path / "out")
    with pytest.raises(ValueError, match="root is the folder of image files"):
        run(PAIRS, WriteDataset(output, root="photos"))
    for options in ({"splits": "train=1"}, {"seed": 0}):
        with pytest.raises(ValueError, match="is for images from memory"):
            _ = make_pipeline() | FindImages([f"{tmp_path}/*"]) | WriteDataset(output, **options)
    with pytest.raises(TypeError, match="WriteDataset takes the images of FindImages"):
        _ = make_pipeline() | WriteDataset(output)


def test_no_bytes_of_an_image_cross_a_shuffle(tmp_path: Path) -> None:
    graph = make_pipeline()
    elements = graph | beam.Create(PAIRS, reshuffle=False)
    _ = elements | WriteDataset(str(tmp_path / "out"))

    class Shuffles(PipelineVisitor):
        found: list[str] = []

        def visit_transform(self, transform_node: AppliedPTransform) -> None:
            self.enter_composite_transform(transform_node)

        def enter_composite_transform(self, transform_node: AppliedPTransform) -> None:
            if isinstance(transform_node.transform, beam.GroupByKey):
                [grouped] = transform_node.inputs
                self.found.append(f"{transform_node.full_label}: {grouped.element_type}")

    shuffles = Shuffles()
    graph.visit(shuffles)
    assert any("Stage images/Join labels/Group by key" in each for each in shuffles.found)
    ours = [each for each in shuffles.found if "Gather" not in each and "Write report" not in each]
    assert not [each for each in ours if "bytes" in each.lower() or "any" in each.lower()]


def test_batches_do_not_depend_on_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beam fits a line to the times of batches, and numpy warned when these were all alike."""

    def fit(*_: Any, **__: Any) -> Any:
        raise AssertionError("a line was fitted")

    monkeypatch.setattr("numpy.polyfit", fit)
    write(tmp_path / "out", PAIRS)


def test_an_image_is_written_and_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import transforms.records.image_origins as original_images
    import transforms.stage_images as stage_images

    calls: list[tuple[str, str]] = []
    for module, name in ((stage_images, "write_original"), (original_images, "read_original")):
        function = getattr(module, name)

        def counted(root: str, image: Any, *more: Any, _f: Any = function, **options: Any) -> Any:
            calls.append((_f.__name__, getattr(image, "path", image)))
            return _f(root, image, *more, **options)

        monkeypatch.setattr(module, name, counted)
    write(tmp_path / "out", PAIRS)
    keys = [key for key, *_ in PAIRS]
    assert sorted(calls) == sorted(
        (name, key) for name in ("read_original", "write_original") for key in keys
    )


@pytest.mark.slow
def test_a_bucket(gcs: GcsServer, tmp_path: Path) -> None:
    gcs.make_bucket("bucket")
    elements = [*PAIRS, ("z.jpg", PHOTOS[0], "c")]
    run(elements, WriteDataset("gs://bucket/out", dedupe="drop", max_rejected="1"))
    local = write(tmp_path / "out", elements, dedupe="drop", max_rejected="1")
    names = gcs.names("bucket")
    assert not [name for name in names if ".staging" in name]
    for shard in local.shards():
        ours = hashlib.sha256((local.folder / shard).read_bytes()).hexdigest()
        assert hashlib.sha256(gcs.get("bucket", f"out/{shard}")).hexdigest() == ours


def test_a_folder_that_the_command_converts_later_is_clean(tmp_path: Path) -> None:
    """The command knows the names that a killed Python program left in the staging folder."""
    output = tmp_path / "out"
    write_original(staged_root(str(output)), "gone", b"bytes")
    (tmp_path / "c").mkdir()
    (tmp_path / "c/1.jpg").write_bytes(PHOTOS[0])
    graph = make_pipeline()
    _ = graph | ConvertDataset(output=str(output), images=[f"{tmp_path}/c/*"], label_from="none")
    graph.run().wait_until_finish()
    check_sound(output)
    assert not (output / ".staging").exists()
