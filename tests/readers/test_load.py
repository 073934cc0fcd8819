"""`pipeline.read.load`: a split as a `tf.data.Dataset`."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline import class_names, dataset_info, feature_spec, load
from pipeline.errors import UsageError
from tests.images import picture, saved, whole_images
from tests.lazy import lazy_module
from tests.marks import cases, rest_slow
from tests.models import SMALL_OUTPUT
from tests.pipeline.commands import Dataset, make_dataset, show
from tests.pipeline.reading import LANDMARK, SLIM, TUTORIAL, read
from tests.readers.conftest import add_photo

tf = lazy_module("tensorflow")

FILENAME = "image/filename"


def rows(dataset: Dataset, split: str = "train", **options: Any) -> list[dict[str, Any]]:
    return list(load(str(dataset.folder), split, **options).as_numpy_iterator())


def names(dataset: Dataset, **options: Any) -> list[bytes]:
    return [record[FILENAME] for record in rows(dataset, decode=False, **options)]


@cases(
    *rest_slow(
        [
            ("gzip", SLIM, "image/encoded"),
            ("slim", SLIM, "image/encoded"),
            ("tutorial", TUTORIAL, "image_raw"),
            ("landmark", LANDMARK, "image_raw"),
        ]
    )
)
def test_it_gives_every_record_once(
    layout: str, features: dict[str, Any], image: str, datasets: dict[str, Dataset]
) -> None:
    dataset = datasets[layout]
    expected = {record[image]: record for record in read(dataset, features, "train")}
    stored = rows(dataset, decode=False)
    assert {record[image]: record for record in stored} == expected
    assert len(stored) == len(expected) == len(load(str(dataset.folder), "train")) >= 10
    for record, as_stored in zip(rows(dataset), stored, strict=True):
        assert record[image].dtype == np.uint8
        np.testing.assert_array_equal(record[image], tf.io.decode_image(as_stored[image]))


def test_the_spec_is_what_show_prints_and_parses_a_record(datasets: dict[str, Dataset]) -> None:
    for dataset in datasets.values():
        spec = feature_spec(dataset.folder)
        shown: dict[str, Any] = {"tf": tf}
        exec(show("--spec", dataset.folder).out, shown)
        assert shown["features"] == spec
        stored = load(dataset.folder, "all", decode=False)
        assert stored.element_spec.keys() == spec.keys()
        file = sorted(dataset.folder.glob("train-*"))[0]
        kind = "GZIP" if file.suffix == ".gz" else ""
        for record in tf.data.TFRecordDataset(str(file), kind).take(1):
            assert tf.io.parse_example([record], spec).keys() == spec.keys()


def test_lists_have_any_length(datasets: dict[str, Dataset]) -> None:
    cat, dog = sorted(rows(datasets["detection"]), key=lambda record: record[FILENAME])
    assert cat["image/object/bbox/xmin"].tolist() == [0.25, 0.5]
    assert dog["image/object/class/text"].tolist() == [b"dog"]
    (batch,) = load(str(datasets["yaml"].folder), "train", batch_size=4)
    assert sorted(batch["tags"].to_list()) == [[], [b"a", b"b"]]
    assert sorted(batch["age"].numpy()) == [-1, 3]


def test_batches(datasets: dict[str, Dataset]) -> None:
    folder, image = str(datasets["gzip"].folder), "image/encoded"
    ragged = list(load(folder, "train", batch_size=4))
    assert [batch["image/class/label"].shape[0] for batch in ragged] == [4, 4, 4, 4, 2]
    assert ragged[0][image].to_tensor().shape == (4, 12, 16, 3)
    dense = next(iter(load(folder, "train", batch_size=4, image_size=(6, 8))))
    assert dense[image].shape == (4, 6, 8, 3) and dense[image].dtype == tf.uint8
    record = rows(datasets["gzip"])[0]
    expected = tf.round(tf.image.resize(record[image], (6, 8)))
    np.testing.assert_array_equal(dense[image][0], tf.cast(expected, tf.uint8))


@cases(
    *rest_slow([("yaml", {"decode": False}), ("bfloat16", {}), ("detection", {"decode": False})])
)
def test_a_batch_is_parsed_at_once(
    layout: str,
    options: dict[str, Any],
    datasets: dict[str, Dataset],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parse, shapes = tf.io.parse_example, []

    def spy(records: Any, spec: Any) -> Any:
        shapes.append(tuple(records.shape))
        return parse(records, spec)

    monkeypatch.setattr(tf.io, "parse_example", spy)
    folder = datasets[layout].folder
    in_batches = load(folder, "train", batch_size=2, drop_remainder=True, **options)
    assert shapes == [(2,)]
    one_by_one = load(folder, "train", **options)
    expected = one_by_one.ragged_batch(2, drop_remainder=True)
    assert in_batches.element_spec == expected.element_spec
    for found, record in zip(in_batches.unbatch(), one_by_one, strict=True):
        for name, value in record.items():
            np.testing.assert_array_equal(found[name], value)


def test_images_of_one_size_make_dense_batches(photos: Path, tmp_path: Path) -> None:
    flags = {"images": f"{photos}/*/*", "resize": "10x8", "color": "gray"}
    dataset = make_dataset(tmp_path / "out", label_from="directory", **flags)
    spec = load(str(dataset.folder), "train", batch_size=4).element_spec
    assert spec["image/encoded"] == tf.TensorSpec((None, 8, 10, 1), tf.uint8)


def test_pairs_for_training(datasets: dict[str, Dataset]) -> None:
    for layout, shape in (("slim", (12, 16, 3)), ("bfloat16", SMALL_OUTPUT)):
        folder = str(datasets[layout].folder)
        values, label = next(iter(load(folder, "train", as_supervised=True)))
        assert values.shape == shape and label.dtype == tf.int64
    with pytest.raises(UsageError, match="leave out as_supervised"):
        load(str(datasets["detection"].folder), "train", as_supervised=True)


@pytest.mark.slow
def test_every_kind_of_image_is_rgb(tmp_path: Path) -> None:
    """Whatever a run takes, the reader reads: alpha, gray, animations, CMYK, JPEG XL."""
    images = tmp_path / "in"
    for name, data in whole_images().items():
        add_photo(images, name, data)
    flags = {"images": f"{images}/*/*", "label_from": "none", "layout": "tutorial"}
    dataset = make_dataset(tmp_path / "out", max_rejected="100%", **flags)
    records = rows(dataset)
    assert len(records) > 60
    for record in records:
        assert record["image_raw"].shape == (record["height"], record["width"], 3)


def test_gray_and_alpha_keep_their_values(tmp_path: Path) -> None:
    gray, alpha = picture("L", 7, 9), picture("RGBA", 7, 9)
    add_photo(tmp_path / "in", "a.png", saved(gray, "PNG"))
    add_photo(tmp_path / "in", "b.webp", saved(alpha, "WEBP", lossless=True, exact=True))
    dataset = make_dataset(tmp_path / "out", images=f"{tmp_path}/in/*/*", label_from="directory")
    first, second = sorted(rows(dataset), key=lambda record: record[FILENAME])
    np.testing.assert_array_equal(first["image/encoded"], np.stack([gray] * 3, -1))
    np.testing.assert_array_equal(second["image/encoded"], np.asarray(alpha)[..., :3])


def test_the_order_is_the_same_until_it_is_shuffled(datasets: dict[str, Dataset]) -> None:
    dataset = datasets["gzip"]
    plain = names(dataset)
    assert names(dataset) == plain
    shuffled = names(dataset, shuffle=True)
    assert names(dataset, shuffle=True) == shuffled != plain
    assert names(dataset, shuffle=True, seed=1) != shuffled
    assert sorted(shuffled) == sorted(plain)
    epochs = load(str(dataset.folder), "train", shuffle=True, decode=False)
    first, second = ([record[FILENAME] for record in epochs.as_numpy_iterator()] for _ in "12")
    assert first == shuffled != second


def test_shards_are_read_side_by_side(datasets: dict[str, Dataset]) -> None:
    """The first record of each shard comes before the second of any."""
    dataset = datasets["gzip"]
    paths = [dataset.folder / name for name in dataset.shards()]
    assert len(paths) == 3
    firsts = []
    for path in paths:
        records = tf.data.TFRecordDataset(str(path), compression_type="GZIP")
        (record,) = records.take(1)
        firsts.append(tf.io.parse_single_example(record, SLIM)[FILENAME].numpy())
    assert names(dataset)[:3] == firsts


@pytest.mark.parametrize("shuffle", rest_slow([False, True]))
def test_workers_share_the_shards(datasets: dict[str, Dataset], shuffle: bool) -> None:
    """What `tf.distribute` does to a dataset for each worker of a cluster."""
    from tensorflow.python.data.experimental.ops import distribute

    dataset = datasets["gzip"]
    parts = []
    for worker in range(3):
        read_all = load(str(dataset.folder), "train", batch_size=2, decode=False, shuffle=shuffle)
        own = distribute._AutoShardDataset(read_all, 3, worker)
        parts.append([name for batch in own for name in batch[FILENAME].numpy()])
    assert sorted(sum(parts, [])) == sorted(names(dataset))
    listed = dataset.manifest["splits"]["train"]["shards"]
    assert [len(part) for part in parts] == [shard["records"] for shard in listed]


@pytest.mark.parametrize("shuffle", rest_slow([True, False]))
def test_a_split_without_images(photos: Path, tmp_path: Path, shuffle: bool) -> None:
    make_dataset(
        tmp_path / "out",
        images=f"{photos}/cat/*.jpg",
        label_from="none",
        splits="train=0.999999,test=0.000001",
        files="per_image",
    )
    loaded = load(str(tmp_path / "out"), "test", batch_size=2, shuffle=shuffle)
    assert not list(loaded)


def test_what_cannot_be_read_is_said(datasets: dict[str, Dataset], tmp_path: Path) -> None:
    folder = str(datasets["slim"].folder)
    with pytest.raises(UsageError, match="there is no split 'val', only train, test"):
        load(folder, "val")
    with pytest.raises(UsageError, match="leave out decode=False"):
        load(folder, "train", image_size=(8, 8), decode=False)
    with pytest.raises(UsageError, match="holds no dataset: there is no"):
        load(str(tmp_path / "nowhere"), "train")


def test_only_the_shards_of_a_slice_are_opened(
    datasets: dict[str, Dataset], tmp_path: Path
) -> None:
    dataset = Dataset(shutil.copytree(datasets["gzip"].folder, tmp_path / "out"))
    first, *others = dataset.shards()
    for name in others:
        (dataset.folder / name).write_bytes(b"damaged")
    count = dataset.manifest["splits"]["train"]["shards"][0]["records"]
    assert len(rows(dataset, f"train[:{count}]", decode=False)) == count
    with pytest.raises(tf.errors.DataLossError):
        rows(dataset, f"train[:{count + 1}]", decode=False)


def test_the_buffer_bounds_how_far_records_move(datasets: dict[str, Dataset]) -> None:
    one = names(datasets["gzip"], shuffle=True, shuffle_buffer=1)
    assert sorted(one) == sorted(names(datasets["gzip"]))
    assert one != names(datasets["gzip"], shuffle=True, shuffle_buffer=18)


def test_what_a_dataset_holds(datasets: dict[str, Dataset]) -> None:
    dataset = datasets["slim"]
    info = dataset_info(dataset.folder)
    assert info.class_names == class_names(dataset.folder) == {0: "cat", 1: "dog", 2: "fox"}
    assert sum(info.splits.values()) == 18 and list(info.splits) == ["train", "test"]
    assert info.features[0] == "image/encoded" and info.image_shape == (None, None, 3)


def test_a_dataset_without_its_classes_is_damaged(
    datasets: dict[str, Dataset], tmp_path: Path
) -> None:
    folder = shutil.copytree(datasets["slim"].folder, tmp_path / "out")
    (folder / "labels.txt").unlink()
    with pytest.raises(UsageError, match="the dataset is damaged, see `verify`"):
        class_names(folder)


def test_it_can_be_moved(datasets: dict[str, Dataset], tmp_path: Path) -> None:
    shutil.copytree(datasets["slim"].folder, tmp_path / "moved [1]")
    assert names(Dataset(tmp_path / "moved [1]")) == names(datasets["slim"])
