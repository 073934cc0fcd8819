"""What `export` writes, as WebDataset, Hugging Face and ArrayRecord read it back."""

import gc
import importlib.util
import json
import tarfile
from collections import Counter
from pathlib import Path
from urllib.parse import unquote

import pytest
from pyarrow import parquet

from pipeline import class_names
from tests.conftest import CLASSES, draw
from tests.needs import skip_unless
from tests.pipeline.commands import Dataset, Ran, make_dataset, run
from tests.servers.gcs import GcsServer
from transforms.records.written_index import open_records

pytestmark = pytest.mark.slow

KINDS = {"webdataset": ".tar", "parquet": ".parquet", "array_record": ".array_record"}

# The features of the image and of the class of the layouts.
NAMES = {
    "slim": ("image/encoded", "image/class/label"),
    "gzip": ("image/encoded", "image/class/label"),
    "tutorial": ("image_raw", "label"),
    "landmark": ("image_raw", "landmark_id"),
}

Triple = tuple[str, int, bytes]


def needs(package: str) -> None:
    skip_unless(importlib.util.find_spec(package), f"{package}: it is in the extra [test]")


def export(folder: object, kind: str, to: object) -> Ran:
    return run("export", folder, f"--{kind}", to)


def exported(folder: Path, kind: str, to: Path) -> list[Path]:
    """The files of an export, in their order."""
    ran = export(folder, kind, to)
    assert (ran.code, ran.err) == (0, ""), ran
    return sorted(path for path in to.iterdir() if not path.name.startswith("."))


def of_tars(files: list[Path]) -> list[Triple]:
    """Keys, class ids and images of tars, whose order and names are checked."""
    found = []
    for file in files:
        with tarfile.open(file) as tar:
            members = tar.getmembers()
            data = [tar.extractfile(each).read() for each in members]  # type: ignore[union-attr]
        assert {(each.mtime, each.uid, each.mode) for each in members} <= {(0, 0, 0o644)}
        for at in range(0, len(members), 3):
            stems, ends = zip(
                *(each.name.split(".", 1) for each in members[at : at + 3]), strict=True
            )
            assert len({*stems}) == 1 and ends == ("cls", "jpg", "json")
            found.append((json.loads(data[at + 2])["key"], int(data[at]), data[at + 1]))
    return found


def of_parquet(files: list[Path]) -> list[Triple]:
    rows = [row for file in files for row in parquet.ParquetFile(file).read().to_pylist()]
    assert all(row["image"]["path"] == row["key"] for row in rows)
    return [(row["key"], row["label"], row["image"]["bytes"]) for row in rows]


def triples(dataset: Dataset, layout: str) -> list[Triple]:
    """Keys, class ids and images of a dataset, in the order of its files."""
    from tfx_bsl.coders.example_coder import ExampleToNumpyDict

    image, label = NAMES[layout]
    found = []
    for name in sorted(dataset.shards()):
        stem = name.partition(".")[0]
        keys = parquet.read_table(dataset.folder / "index" / f"{stem}.parquet")["key"].to_pylist()
        with open_records(str(dataset.folder / name)) as records:
            examples = [ExampleToNumpyDict(record) for record in records]
        found += [
            (key, int(each[label][0]), each[image][0])
            for key, each in zip(keys, examples, strict=True)
        ]
    return found


@pytest.mark.parametrize("layout", NAMES)
def test_the_same_records_in_the_same_order(
    datasets: dict[str, Dataset], layout: str, tmp_path: Path
) -> None:
    dataset = datasets[layout]
    expected = triples(dataset, layout)
    assert of_tars(exported(dataset.folder, "webdataset", tmp_path / "tar")) == expected
    assert of_parquet(exported(dataset.folder, "parquet", tmp_path / "parquet")) == expected


def test_a_dataset_of_its_tars_has_the_same_classes(
    datasets: dict[str, Dataset], tmp_path: Path
) -> None:
    folder = datasets["slim"].folder
    exported(folder, "webdataset", tmp_path / "tar")
    images = f"{tmp_path}/tar/*.tar!/*.jpg"
    again = make_dataset(tmp_path / "again", images=images, label_from="webdataset")
    assert class_names(again.folder) == class_names(folder)


# It leaves files open.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_webdataset_reads_it(datasets: dict[str, Dataset], tmp_path: Path) -> None:
    needs("webdataset")
    import webdataset

    dataset = datasets["slim"]
    files = exported(dataset.folder, "webdataset", tmp_path / "tar")
    urls = [str(file) for file in files]
    found = list(webdataset.WebDataset(urls, shardshuffle=False))
    gc.collect()
    said = [json.loads(each["json"]) for each in found]
    expected = triples(dataset, "slim")
    assert [
        (each["key"], int(one["cls"]), one["jpg"]) for each, one in zip(said, found, strict=True)
    ] == expected
    names = class_names(dataset.folder)
    assert [each["label"] for each in said] == [names[label] for _, label, _ in expected]


def test_hugging_face_reads_it(
    datasets: dict[str, Dataset], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs("datasets")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    import datasets as hugging_face

    dataset = datasets["slim"]
    exported(dataset.folder, "parquet", tmp_path / "parquet")
    read = hugging_face.load_dataset(
        "parquet", data_dir=str(tmp_path / "parquet"), cache_dir=str(tmp_path / "cache")
    )
    classes = list(class_names(dataset.folder).values())
    assert {**read["train"].features}.items() >= {
        "image": hugging_face.Image(),
        "label": hugging_face.ClassLabel(names=classes),
    }.items()
    assert read["train"][0]["image"].mode == "RGB"
    found = [
        (row["key"], row["label"], row["image"]["bytes"])
        for split in ("test", "train")
        for row in read[split].cast_column("image", hugging_face.Image(decode=False))
    ]
    assert found == triples(dataset, "slim")


def test_array_record_reads_it(datasets: dict[str, Dataset], tmp_path: Path) -> None:
    needs("array_record")
    from array_record.python.array_record_module import ArrayRecordReader

    dataset = datasets["slim"]
    for file in exported(dataset.folder, "array_record", tmp_path / "array"):
        with open_records(str(dataset.folder / f"{file.stem}.tfrecord")) as records:
            assert ArrayRecordReader(str(file)).read_all() == list(records)


def test_boxes_are_lists_of_classes(datasets: dict[str, Dataset], tmp_path: Path) -> None:
    [file, *_] = exported(datasets["detection"].folder, "parquet", tmp_path / "parquet")
    schema = parquet.read_schema(file)
    said = json.loads(schema.metadata[b"huggingface"])["info"]["features"]
    names = {"names": ["background", "cat", "dog"], "_type": "ClassLabel"}
    assert said["image/object/class/label"] == {"feature": names, "_type": "Sequence"}
    assert str(schema.field("image/object/bbox/xmin").type) == "list<element: float>"
    [file, *_] = exported(datasets["detection"].folder, "webdataset", tmp_path / "tar")
    with tarfile.open(file) as tar:
        names = [each for each in tar.getnames() if each.endswith(".json")]
        boxes = json.loads(tar.extractfile(names[0]).read())  # type: ignore[union-attr]
    assert all(isinstance(each, float) for each in boxes["image/object/bbox/xmin"])


def test_what_was_interrupted_is_continued(datasets: dict[str, Dataset], tmp_path: Path) -> None:
    folder = datasets["slim"].folder
    for kind in KINDS:
        files = exported(folder, kind, tmp_path / kind)
        before = [file.read_bytes() for file in files]
        files[0].rename(f"{files[0]}.partial")
        kept = [file.stat().st_mtime_ns for file in files[1:]]
        said = f"{kind:<8} {tmp_path / kind}, {len(files)} files, {len(files) - 1} of them "
        assert export(folder, kind, tmp_path / kind).out == f"{said}from an earlier run\n"
        assert [file.read_bytes() for file in files] == before
        assert [file.stat().st_mtime_ns for file in files[1:]] == kept
        assert len(list((tmp_path / kind).iterdir())) == len(files) + 1


def test_keys_stay_different_in_a_tar(tmp_path: Path) -> None:
    names = ["a.b.jpg", "a%2Eb.jpg", "__c__.jpg", "d/e.f.jpg", "d%2Fe.f.jpg", f"{'g' * 200}.jpg"]
    for name in names:
        draw(tmp_path / "in" / name)
    flags = {"images": f"{tmp_path}/in/**", "label_from": "none", "key": "path"}
    dataset = make_dataset(tmp_path / "out", **flags)
    [file] = exported(dataset.folder, "webdataset", tmp_path / "tar")
    with tarfile.open(file) as tar:
        stems = [name.split(".", 1)[0] for name in tar.getnames() if name.endswith(".json")]
        assert max(map(len, tar.getnames())) <= 100
    assert len({*stems}) == len(names)


def test_an_export_of_single_files_has_the_files_of_shards(tmp_path: Path, photos: Path) -> None:
    written = {}
    for files in ("sharded", "per_image"):
        flags = {"images": f"{photos}/*/*", "label_from": "directory", "files": files}
        dataset = make_dataset(tmp_path / files, **flags)
        [file] = exported(dataset.folder, "parquet", tmp_path / f"{files}-parquet")
        written[file.name, file.read_bytes()] = files
    assert len(written) == 1


def test_to_and_from_a_bucket(datasets: dict[str, Dataset], gcs: GcsServer, tmp_path: Path) -> None:
    gcs.make_bucket("datasets")
    gcs.put_folder("datasets", "photos/", datasets["slim"].folder)
    for kind in KINDS:
        files = exported(datasets["slim"].folder, kind, tmp_path / kind)
        ran = export("gs://datasets/photos", kind, f"gs://datasets/{kind}")
        assert (ran.code, ran.err) == (0, "")
        for file in files:
            assert gcs.get("datasets", f"{kind}/{file.name}") == file.read_bytes()
    assert not [name for name in gcs.names("datasets") if name.endswith(".partial")]


def test_a_mistake_is_one_line(
    datasets: dict[str, Dataset], tmp_path: Path, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = {"images": f"{photos}/cat/*", "label_from": "none"}
    other = make_dataset(tmp_path / "other", **flags)
    exported(other.folder, "parquet", tmp_path / "to")
    for folder, kind in ((datasets["slim"].folder, "parquet"), (other.folder, "webdataset")):
        ran = export(folder, kind, tmp_path / "to")
        assert ran.code == 2 and "already holds another export: give another" in ran.error()
    (tmp_path / "to" / ".export.json").unlink()
    assert export(other.folder, "parquet", tmp_path / "to").code == 2
    [shard] = other.folder.glob("*.tfrecord")
    for damaged in (shard.read_bytes()[:-20], shard.read_bytes() + shard.read_bytes()):
        shard.write_bytes(damaged)
        ran = export(other.folder, "webdataset", tmp_path / "new")
        assert ran.code == 1 and f"{shard}: " in ran.error() and "see `verify" in ran.error()
        assert not list((tmp_path / "new").glob("*.tar"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    ran = export(other.folder, "array_record", tmp_path / "array")
    assert (ran.code, ran.error()) == (
        2,
        "export: --array_record needs pip install 'image-tfrecords[array_record]'",
    )


@pytest.mark.parametrize("number", [3, 100])
def test_images_come_back_the_same(tmp_path: Path, number: int) -> None:
    for at in range(3 * number):
        draw(tmp_path / "in" / CLASSES[at % 3] / f"{at}.jpg", seed=at // 2)
    splits = {"splits": "train=0.7,test=0.3", "num_shards": 2}
    flags = {"images": f"{tmp_path}/in/*/*.jpg", "label_from": "directory"}
    first = make_dataset(tmp_path / "first", **flags, **splits)
    exported(first.folder, "parquet", tmp_path / "rows")
    second = make_dataset(tmp_path / "second", images=f"{tmp_path}/rows/*.parquet", **splits)
    assert triples(second, "slim") == triples(first, "slim")
    exported(second.folder, "webdataset", tmp_path / "tar")
    flags = {"images": f"{tmp_path}/tar/*.tar!/*.jpg", "label_from": "webdataset"}
    again = make_dataset(tmp_path / "again", **flags, **splits)
    expected = Counter(triples(first, "slim"))
    assert expected.total() == 3 * number
    assert expected == Counter(
        (unquote(key.rpartition("/")[2].removesuffix(".jpg")), label, image)
        for key, label, image in triples(again, "slim")
    )
