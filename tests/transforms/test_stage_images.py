"""Images from memory: any pipeline ends in `WriteDataset`."""

from collections import Counter
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
from tests.transforms.beam import make_pipeline, run_steps
from transforms import FindImages, LabelImages, WriteDataset, stage_images
from transforms.records import image_origins
from transforms.records.image_origins import staged_root, write_original

pytestmark = pytest.mark.slow

Elements = Sequence[Any]

PHOTOS = [saved(picture("RGB", 9 + number, 12), "JPEG") for number in range(8)]
PAIRS = [
    (f"{'cat' if n % 2 else 'dog'}/{n}.jpg", data, "cd"[n % 2]) for n, data in enumerate(PHOTOS)
]


def run(elements: Elements, *steps: Any) -> None:
    run_steps(beam.Create(elements, reshuffle=False), *steps)


def write(output: Path | str, elements: Elements, **options: Any) -> Dataset:
    run(elements, WriteDataset(str(output), **options))
    dataset = Dataset(Path(output))
    check_sound(dataset.folder)
    return dataset


def stored(dataset: Dataset) -> dict[str, bytes]:
    """The images by their keys."""
    return {r["image/filename"].decode(): r["image/encoded"] for r in read(dataset)}


def test_they_are_stored_under_their_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is written and read once; keys lead to no file."""
    calls: Counter[tuple[str, str]] = Counter()
    for module, name in ((stage_images, "write_original"), (image_origins, "read_original")):
        function = getattr(module, name)

        def counted(root: str, image: Any, *more: Any, _f: Any = function, **options: Any) -> Any:
            calls[_f.__name__, getattr(image, "path", image)] += 1
            return _f(root, image, *more, **options)

        monkeypatch.setattr(module, name, counted)
    # Beam fits a line to the times of batches, and numpy warned when these were all alike.
    monkeypatch.delattr("numpy.polyfit")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret.jpg").write_bytes(PHOTOS[7])
    keys = [str(tmp_path / "secret.jpg"), "../secret.jpg", "gs://bucket/secret.jpg", "a\0b", "e"]
    elements = [(key, PHOTOS[at], "cd"[at % 2]) for at, key in enumerate(keys)]
    options: dict[str, Any] = {"splits": "train=0.5,test=0.5", "seed": 3, "num_shards": 2}
    dataset = write("out", elements, **options)
    assert stored(dataset) == {key: data for key, data, _ in elements}
    labels = {r["image/filename"].decode(): r["image/class/text"].decode() for r in read(dataset)}
    assert labels == {key: label for key, _, label in elements}
    assert list(dataset.manifest["splits"]) == ["train", "test"]
    names = ("read_original", "write_original")
    assert calls == {(name, key): 1 for name in names for key in keys}


def test_they_give_the_shards_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for key, data, _ in PAIRS:
        (tmp_path / key).parent.mkdir(exist_ok=True)
        (tmp_path / key).write_bytes(data)
    options: dict[str, Any] = {"splits": "train=0.6,test=0.4", "seed": 7}
    pairs = [(key, label) for key, _, label in PAIRS]
    run(pairs, LabelImages(**options), WriteDataset("files", num_shards=2))
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
    """What a killed run left is used or removed."""
    output = tmp_path / "out"
    root = staged_root(str(output))
    write_original(root, PAIRS[0][0], b"of another run")
    write_original(root, "gone", b"an image that is no longer given")
    (Path(root) / (32 * "0" + "." + 32 * "1" + ".partial")).write_bytes(b"half")
    dataset = write(output, PAIRS)
    assert stored(dataset) == {key: data for key, data, _ in PAIRS}
    assert not (output / ".staging").exists()
    before = digests(output)
    write(output, PAIRS)
    assert digests(output) == before
    changed = [(PAIRS[0][0], PHOTOS[1], PAIRS[0][2]), *PAIRS[1:]]
    with pytest.raises(Exception, match="holds a dataset of other inputs"):
        run(changed, WriteDataset(str(output)))
    assert digests(output).items() >= before.items()


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
        ("twice", a, "cat", "TRAIN"),
        ("twice", a, "cat", "TRAIN"),
        ("named", b, "cat", "test"),
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
    assert stored(dataset) == {"twice": a, "named": b}
    assert {name: split["records"] for name, split in dataset.manifest["splits"].items()} == {
        "train": 1,
        "test": 1,
    }
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
    assert dataset.ledger["images_matched"] == 12


def odd_ones(_: object) -> Iterator[tuple[object, ...]]:
    """Images that are made inside the pipeline."""
    yield "a", PHOTOS[0]
    yield "b", bytearray(PHOTOS[1]), "ignored"


def test_images_without_labels_and_other_kinds_of_bytes(tmp_path: Path) -> None:
    write = WriteDataset(str(tmp_path / "out"), labelled=False, files="per_image")
    run_steps(beam.Create([0]), beam.FlatMap(odd_ones), write)
    loaded = load(tmp_path / "out", "train", decode=False).as_numpy_iterator()
    assert sorted(r["image/filename"] for r in loaded) == [b"a", b"b"]


def test_several_labels_of_an_image(tmp_path: Path) -> None:
    layout = tmp_path / "many.yaml"
    layout.write_text("features: {id: image.key, labels: label.texts, ids: label.ids}")
    elements = [("a", PHOTOS[0], ["dog", "cat", "dog"]), ("b", PHOTOS[1], {"cat"})]
    elements += [("c", PHOTOS[2], [])]
    dataset = write(tmp_path / "out", elements, layout=str(layout), max_rejected="1")
    assert dataset.classes == ["cat", "dog"]
    assert [(r["path"], r["reason"]) for r in dataset.rejected] == [("c", "no_label")]
    with pytest.raises(ValueError, match="'labels' of the layout has the source label.texts"):
        run([("x", "y")], LabelImages(), WriteDataset(str(tmp_path / "no"), layout=str(layout)))
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


def test_a_staging_folder_behind_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out/.staging").mkdir(parents=True)
    (tmp_path / "out/.staging/images").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Exception, match="is a link: it must be a real folder"):
        run(PAIRS, WriteDataset(str(tmp_path / "out")))
    assert not list((tmp_path / "elsewhere").iterdir())


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

    found: list[str] = []

    class Shuffles(PipelineVisitor):
        def enter_composite_transform(self, transform_node: AppliedPTransform) -> None:
            if isinstance(transform_node.transform, beam.GroupByKey):
                [grouped] = transform_node.inputs
                found.append(f"{transform_node.full_label}: {grouped.element_type}")

        visit_transform = enter_composite_transform

    graph.visit(Shuffles())
    assert any("Stage images/Join labels/Group by key" in each for each in found)
    ours = [each for each in found if "Gather" not in each and "Write report" not in each]
    assert not [each for each in ours if "bytes" in each.lower() or "any" in each.lower()]


def test_a_bucket(gcs: GcsServer, tmp_path: Path) -> None:
    gcs.make_bucket("bucket")
    elements = [*PAIRS, ("z.jpg", PHOTOS[0], "c")]
    run(elements, WriteDataset("gs://bucket/out", dedupe="drop", max_rejected="1"))
    local = write(tmp_path / "out", elements, dedupe="drop", max_rejected="1")
    names = gcs.names("bucket")
    assert not [name for name in names if ".staging" in name]
    for shard in local.shards():
        assert gcs.get("bucket", f"out/{shard}") == (local.folder / shard).read_bytes()


def test_a_folder_that_the_command_converts_later_is_clean(tmp_path: Path) -> None:
    """The command knows the names that a killed Python program left in the staging folder."""
    output = tmp_path / "out"
    write_original(staged_root(str(output)), "gone", b"bytes")
    (tmp_path / "c").mkdir()
    (tmp_path / "c/1.jpg").write_bytes(PHOTOS[0])
    run_steps(ConvertDataset(output=str(output), images=[f"{tmp_path}/c/*"], label_from="none"))
    check_sound(output)
    assert not (output / ".staging").exists()
