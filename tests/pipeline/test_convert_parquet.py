"""Images in Parquet files: the same dataset as from the files that they hold."""

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.images.packed import write_parquet
from tests.pipeline.commands import Dataset, check_sound, convert, digests, index_rows, make_dataset
from tests.pipeline.reading import label_ids, labels, read
from transforms.dataset.output_names import INDEX

pytestmark = pytest.mark.slow

ALL: dict[str, Any] = {"max_rejected": "100%"}


@pytest.fixture(scope="module")
def plain(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """The dataset of the files."""
    return make_dataset(tmp_path_factory.mktemp("plain") / "out", images=photos)


def write(path: Path, files: dict[str, bytes], **options: Any) -> None:
    """A Parquet file of photos as `datasets` writes it; in its metadata, no class is missing."""
    classes = ["cat", "dog", "fox"]
    ids = [classes.index(name[:3]) for name in files]
    write_parquet(path, files, classes, labels=ids, row_group_size=5, **options)


def content(dataset: Dataset) -> list[tuple[Any, ...]]:
    """Key, label and image of each record, sorted."""
    features = ("image/filename", "image/class/text", "image/encoded")
    records = (tuple(map(each.__getitem__, features)) for each in read(dataset))
    found = sorted((path.decode().rpartition("!/")[2], *rest) for path, *rest in records)
    rows = index_rows(dataset.folder)
    assert sorted(row["key"] for each in rows.values() for row in each) == [
        key for key, *_ in found
    ]
    return found


def test_records_are_those_of_the_files(
    plain: Dataset, files: dict[str, bytes], tmp_path: Path
) -> None:
    write(tmp_path / "all.parquet", files)
    made = make_dataset(tmp_path / "out", images=tmp_path / "all.parquet")
    kept = [
        name
        for name, digest in digests(plain.folder).items()
        if name not in ("manifest.json", "report.html") and INDEX not in name
        if digests(made.folder)[name] == digest
    ]
    assert len(kept) > 5
    assert "train-00000-of-00001.tfrecord" in kept
    check_sound(made.folder)
    decided = {(each["what"], each["value"]) for each in made.manifest["decided"]}
    assert decided >= {
        ("labels from", "records"),
        ("images", "in 'image.bytes'"),
        ("labels", "in 'label'"),
        ("keys", "in 'image.path'"),
    }


def test_several_files_are_one_dataset(
    plain: Dataset, files: dict[str, bytes], tmp_path: Path
) -> None:
    for number in range(2):
        write(tmp_path / f"train-{number}.parquet", dict([*files.items()][number::2]))
    flags: dict[str, Any] = {"images": f"{tmp_path}/*.parquet"}
    made = make_dataset(tmp_path / "out", **flags)
    assert content(made) == content(plain)
    assert label_ids(made) == label_ids(plain)
    assert "up to date" in convert(output=tmp_path / "out", **flags).out
    # What else is done to images is done to these.
    flags |= {"resize": "20x20", "splits": "train=0.5,test=0.5", "dedupe": "drop"}
    changed = make_dataset(tmp_path / "changed", reuse=tmp_path / "out", **flags)
    assert labels(changed) == labels(plain)
    os.utime(tmp_path / "train-0.parquet", ns=(1, 1))
    assert "up to date" in convert(output=tmp_path / "changed", **flags).out


def test_keys_that_repeat_or_lack_are_file_and_row(files: dict[str, bytes], tmp_path: Path) -> None:
    first, second, third, *_ = files.values()
    write_parquet(tmp_path / "a.parquet", {"0.jpg": first, None: second})
    write_parquet(tmp_path / "b.parquet", {"0.jpg": third, "1.jpg": None})
    flags: dict[str, Any] = {"images": f"{tmp_path}/*.parquet", "label_from": "none", **ALL}
    made = make_dataset(tmp_path / "out", **flags)
    keys = {row["key"] for rows in index_rows(made.folder).values() for row in rows}
    assert keys == {"a-0", "a-1", "b-0"}
    [line] = made.rejected
    assert (line["key"], line["reason"]) == ("b-1", "bad_member")
    assert line["detail"] == "its image is null"
    [decided] = [each for each in made.manifest["decided"] if each["what"] == "keys"]
    assert decided["value"] == "file and row"
    flags |= {"images": tmp_path / "a.parquet"}
    one = make_dataset(tmp_path / "one", **flags)
    keys = {row["key"] for rows in index_rows(one.folder).values() for row in rows}
    assert keys == {"0.jpg", "a-1"}


def test_columns_may_be_named_and_labels_replaced(files: dict[str, bytes], tmp_path: Path) -> None:
    names, data = [*files][:4], [*files.values()]
    write_parquet(
        tmp_path / "a.parquet",
        {"x": data[0]} | dict.fromkeys("abc"),
        columns={
            "image": pa.array([b"no image"] * 4),
            "a/photo": pa.array(data[:4]),
            "kind": pa.array([7, 5, 7, None]),
            "name": pa.array(names),
        },
    )
    flags: dict[str, Any] = {
        "images": tmp_path / "a.parquet",
        "record_features": "image=a/photo,label=kind,key=name",
        **ALL,
    }
    made = make_dataset(tmp_path / "out", **flags)
    stems = [Path(name).stem for name in names]
    assert label_ids(made) == dict(zip(stems, (7, 5, 7), strict=False))
    [line] = made.rejected
    assert (line["reason"], line["detail"]) == ("no_label", "its row in the Parquet file has none")
    again = make_dataset(tmp_path / "repeated", config=made.folder / "manifest.json", **ALL)
    assert (again.manifest["recipe"], read(again)) == (made.manifest["recipe"], read(made))
    rows = "id,label\n" + "".join(f"{stem},x{stem}\n" for stem in stems)
    (tmp_path / "labels.csv").write_text(rows)
    relabelled = make_dataset(tmp_path / "again", labels=tmp_path / "labels.csv", **flags)
    assert labels(relabelled) == {stem: f"x{stem}" for stem in stems}


def test_ids_of_classes_are_kept(files: dict[str, bytes], tmp_path: Path) -> None:
    three = dict([*files.items()][:3])
    classes = ["zebra", "ant", "bee"]
    write_parquet(tmp_path / "a.parquet", three, classes, labels=[0, 2, -1])
    made = make_dataset(tmp_path / "out", images=tmp_path / "a.parquet", **ALL)
    assert made.classes == classes
    assert sorted(label_ids(made).values()) == [0, 2]
    assert [line["reason"] for line in made.rejected] == ["no_label"]
