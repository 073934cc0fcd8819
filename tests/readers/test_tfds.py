"""`tfds.builder_from_directory` over folders as they are; the package itself reads them.

It takes seconds to import. `tests/golden` compares the files that it reads, of every layout.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline import Records, load
from pipeline.verify import check_dataset
from tests.conftest import CLASSES
from tests.images import picture, saved
from tests.lazy import lazy_module
from tests.marks import cases
from tests.models import SMALL_OUTPUT
from tests.pipeline.commands import Dataset, make_dataset, run
from tests.pipeline.reading import LANDMARK, SLIM, TUTORIAL, read
from tests.readers.conftest import add_photo
from transforms.dataset.output_names import FEATURES, INFO
from transforms.images.embeddings import read_bfloat16

tf = lazy_module("tensorflow")
tfds = lazy_module("tensorflow_datasets")

# Its own code, which calls older names of protobuf and NumPy.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


def builder(dataset: Dataset) -> Any:
    return tfds.builder_from_directory(str(dataset.folder))


def rows(dataset: Dataset, split: str = "train") -> list[dict[str, Any]]:
    """All records of a split as TensorFlow Datasets gives them."""
    return list(tfds.as_numpy(builder(dataset).as_dataset(split=split)))


def types(dataset: Dataset) -> dict[str, tuple[str, tuple[int | None, ...]]]:
    spec = builder(dataset).as_dataset(split="train").element_spec
    return {name: (each.dtype.name, tuple(each.shape)) for name, each in spec.items()}


def sorted_by(name: str, records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(records, key=lambda record: record[name])


IMAGE = ("uint8", (None, None, 3))
NUMBER = ("int64", ())
TEXT = ("string", ())
NUMBERS = ("int64", (None,))
TEXTS = ("string", (None,))
FLOATS = ("float32", (None,))

# Others have no feature of another type.
TYPES = {
    "slim": {
        "image/encoded": IMAGE,
        "image/format": TEXT,
        "image/class/label": NUMBER,
        "image/class/text": TEXT,
        "image/height": NUMBER,
        "image/width": NUMBER,
        "image/filename": TEXT,
    },
    "bfloat16": {"Feature": ("bfloat16", SMALL_OUTPUT), "Label": NUMBER},
    "detection": {
        "image/encoded": IMAGE,
        "image/format": TEXT,
        "image/key/sha256": TEXT,
        "image/source_id": TEXT,
        "image/class/label": NUMBERS,
        "image/class/text": TEXTS,
        "image/height": NUMBER,
        "image/width": NUMBER,
        "image/filename": TEXT,
        "image/object/bbox/xmin": FLOATS,
        "image/object/bbox/xmax": FLOATS,
        "image/object/bbox/ymin": FLOATS,
        "image/object/bbox/ymax": FLOATS,
        "image/object/class/label": NUMBERS,
        "image/object/class/text": TEXTS,
    },
    "yaml": {
        "picture": IMAGE,
        "picture/of": TEXT,
        "classes": NUMBERS,
        "names": TEXTS,
        "age": NUMBER,
        "weight": ("float32", ()),
        "tags": TEXTS,
    },
}


@pytest.mark.parametrize("layout", TYPES)
def test_every_layout_has_its_features(datasets: dict[str, Dataset], layout: str) -> None:
    dataset = datasets[layout]
    assert types(dataset) == TYPES[layout]
    splits = builder(dataset).info.splits
    listed = dataset.manifest["splits"]
    assert list(splits) == list(listed)
    for name, split in listed.items():
        lengths = [shard["records"] for shard in split["shards"]]
        assert splits[name].shard_lengths == lengths
        assert len(rows(dataset, name)) == sum(lengths) == split["records"]
    assert not list(check_dataset(str(dataset.folder), dataset.manifest)[0])


@cases(
    ("slim", SLIM, "image/encoded"),
    ("tutorial", TUTORIAL, "image_raw"),
    ("landmark", LANDMARK, "image_raw"),
)
def test_records_are_those_of_tensorflow(
    layout: str, features: dict[str, Any], image: str, datasets: dict[str, Dataset]
) -> None:
    expected = read(datasets[layout], features, "train")
    found = rows(datasets[layout])
    assert len(expected) == len(found) >= 10
    for ours, theirs in zip(expected, found, strict=True):
        pixels = tf.io.decode_image(ours.pop(image), channels=3)
        np.testing.assert_array_equal(theirs.pop(image), pixels)
        assert theirs == ours


@cases(
    ("slim", "image/class/label"),
    ("tutorial", "label"),
    ("landmark", "landmark_id"),
    ("float32", "Label"),
)
def test_classes_have_their_names(layout: str, feature: str, datasets: dict[str, Dataset]) -> None:
    label = builder(datasets[layout]).info.features[feature]
    assert label.names == list(CLASSES)
    assert label.int2str(1) == "dog"


SLICES = [
    "train[5:-2]",
    "train[:10%]+test[50%:]",
    "train[25%:75%]",
    "train[-3:]",
    "train[:1shard]",
    "train[1shard]",
    "all",
]


@pytest.mark.parametrize("split", SLICES)
def test_slices_of_load_are_the_same(datasets: dict[str, Dataset], split: str) -> None:
    theirs = [record["image/filename"] for record in rows(datasets["slim"], split)]
    loaded = load(datasets["slim"].folder, split, decode=False)
    ours = [record["image/filename"] for record in loaded.as_numpy_iterator()]
    assert sorted(ours) == sorted(theirs)
    assert len(loaded) == len(ours) > 0


def test_pairs_for_training(datasets: dict[str, Dataset]) -> None:
    for layout, shape in (("slim", (12, 16, 3)), ("bfloat16", SMALL_OUTPUT)):
        pairs = builder(datasets[layout]).as_dataset(split="train", as_supervised=True)
        values, label = next(iter(pairs))
        assert values.shape == shape and 0 <= label < 3


def test_embeddings_have_their_shape_and_values(datasets: dict[str, Dataset]) -> None:
    packed = {"Feature": tf.io.FixedLenFeature([], tf.string)}
    for ours, theirs in zip(
        read(datasets["bfloat16"], packed), rows(datasets["bfloat16"]), strict=True
    ):
        expected = read_bfloat16(ours["Feature"]).reshape(SMALL_OUTPUT)
        np.testing.assert_array_equal(theirs["Feature"].astype(np.float32), expected)


def test_boxes_are_lists(datasets: dict[str, Dataset]) -> None:
    cat, dog = sorted_by("image/filename", rows(datasets["detection"]))
    assert cat["image/object/bbox/xmin"].tolist() == [0.25, 0.5]
    assert dog["image/object/bbox/ymax"].tolist() == [0.75]
    assert cat["image/object/class/text"].tolist() == [b"cat", b"dog"]
    label = builder(datasets["detection"]).info.features["image/object/class/label"]
    assert [label.feature.int2str(each) for each in cat["image/object/class/label"]] == [
        "cat",
        "dog",
    ]


def test_columns_and_lists_of_a_yaml_layout(datasets: dict[str, Dataset]) -> None:
    cat, dog = sorted_by("picture/of", rows(datasets["yaml"]))
    assert (cat["age"], cat["weight"], cat["tags"].tolist()) == (3, 2.5, [b"a", b"b"])
    assert (dog["age"], dog["weight"], dog["tags"].tolist()) == (-1, 7.0, [])
    assert [name.decode() for name in cat["names"]] == ["cat", "빠름"]
    names = builder(datasets["yaml"]).info.features["classes"].feature.names
    assert names == ["cat", "dog", "빠름"]
    assert [names[each] for each in dog["classes"]] == ["dog", "빠름"]


def test_pixels_and_lists_of_a_fixed_shape(pixels: Dataset) -> None:
    (record,) = rows(pixels)
    assert record["own"].dtype == np.uint8 and record["own"].tolist() == list(range(6))
    assert record["same"].shape == (2, 3, 1) and record["same"].dtype == np.uint8
    assert record["three"].tolist() == [1, 2, 3] and record["words"].tolist() == [b"a", b"b"]


def test_compressed_shards_are_not_offered(datasets: dict[str, Dataset]) -> None:
    """Its reader opens files as uncompressed ones, so no metadata is written."""
    folder = datasets["gzip"].folder
    assert not (folder / FEATURES).exists() and not (folder / INFO).exists()
    with pytest.raises(Exception, match="features.json|dataset_info|dataset info"):
        builder(datasets["gzip"])


def converted(images: Path, output: Path, **flags: Any) -> Dataset:
    return make_dataset(output, images=f"{images}/*/*", label_from="directory", **flags)


def test_formats_that_it_decodes_are_images(tmp_path: Path) -> None:
    kinds = {"a.jpg": ("CMYK", "JPEG"), "b.png": ("LA", "PNG"), "c.bmp": ("RGB", "BMP")}
    for name, (mode, format_) in kinds.items():
        add_photo(tmp_path / "in", name, saved(picture(mode, 7, 9), format_))
    dataset = converted(tmp_path / "in", tmp_path / "out")
    assert types(dataset)["image/encoded"] == IMAGE
    for record in rows(dataset):
        assert record["image/encoded"].shape == (7, 9, 3)


@pytest.mark.parametrize("format_", ["GIF", "WEBP"])
def test_formats_that_it_decodes_to_another_rank_stay_bytes(format_: str, tmp_path: Path) -> None:
    data = saved(picture("RGB", 7, 9), format_)
    add_photo(tmp_path / "in", "a.jpg")
    add_photo(tmp_path / "in", f"b.{format_.lower()}", data)
    dataset = converted(tmp_path / "in", tmp_path / "out")
    assert types(dataset)["image/encoded"] == TEXT
    assert data in [record["image/encoded"] for record in rows(dataset)]


def test_images_of_one_size_and_color_say_so(photos: Path, tmp_path: Path) -> None:
    dataset = converted(photos, tmp_path / "out", resize="10x8", color="gray")
    assert types(dataset)["image/encoded"] == ("uint8", (8, 10, 1))
    batch = next(iter(builder(dataset).as_dataset(split="train", batch_size=4)))
    assert batch["image/encoded"].shape == (4, 8, 10, 1)


@cases(
    (("7", "8", "203"), 204),
    (("-1", "8", "9"), 0),
    (("0", "1", "2"), 3),
    (("7", "8", "203093"), 203094),
)
def test_integers_are_classes_if_they_can_be_lines(
    ids: tuple[str, ...], classes: int, photos: Path, tmp_path: Path
) -> None:
    csv = tmp_path / "labels.csv"
    lines = [f"{n}-{at},{i}" for n, i in zip(CLASSES, ids, strict=True) for at in range(6)]
    csv.write_text("\n".join(["id,landmark_id", *lines]))
    dataset = make_dataset(tmp_path / "out", images=f"{photos}/*/*", labels=csv, layout="landmark")
    label = builder(dataset).info.features["landmark_id"]
    assert isinstance(label, tfds.features.ClassLabel) == bool(classes)
    if classes:
        assert label.num_classes == classes
        assert [label.int2str(int(each)) for each in ids] == list(ids)
    assert {str(record["landmark_id"]) for record in rows(dataset)} == set(ids)


def test_an_empty_shard_and_an_empty_split(photos: Path, tmp_path: Path) -> None:
    dataset = converted(
        photos, tmp_path / "out", splits="train=0.5,test=0.4999,rest=0.0001", num_shards=8
    )
    splits = builder(dataset).info.splits
    assert 0 in splits["train"].shard_lengths and splits["rest"].num_examples == 0
    assert len(rows(dataset)) + len(rows(dataset, "test")) == 18
    with pytest.raises(ValueError, match="corresponds to no data"):
        rows(dataset, "rest")
    assert len(rows(dataset, "train+test")) == 18


# The other way round: a dataset that TensorFlow Datasets built, as images of a conversion.


def built(folder: Path) -> Path:
    """Its folder."""

    class Flowers(tfds.core.GeneratorBasedBuilder):
        VERSION = tfds.core.Version("1.0.0")
        # Where it would look for checksums of downloads.
        code_path = None

        def _info(self) -> Any:
            image = tfds.features.Image(encoding_format="jpeg")
            kind = tfds.features.ClassLabel(names=["tulip", "daisy"])
            features = tfds.features.FeaturesDict({"image": image, "kind": kind})
            return tfds.core.DatasetInfo(builder=self, features=features)

        def _split_generators(self, _: Any) -> Any:
            return {"train": self._generate_examples(30), "extra": self._generate_examples(10)}

        def _generate_examples(self, count: int) -> Any:
            for at in range(count):
                image = np.asarray(picture("RGB", 20 + count, 24, seed=at))
                yield at, {"image": image, "kind": at % 2}

    made = Flowers(data_dir=str(folder))
    made.download_and_prepare()
    return Path(made.data_dir)


def test_a_dataset_that_it_built_is_converted_and_compared(tmp_path: Path) -> None:
    folder = built(tmp_path / "built")
    made = make_dataset(tmp_path / "made", images=folder)
    assert {name: each["records"] for name, each in made.manifest["splits"].items()} == {
        "train": 30,
        "extra": 10,
    }
    assert (made.folder / "labels.txt").read_text() == "tulip\ndaisy\n"
    assert run("index", folder).code == 0
    assert run("diff", folder, made.folder, "--quiet").code == 0
    records = Records(folder, "extra", decode=True)
    theirs = tfds.as_numpy(tfds.builder_from_directory(str(folder)).as_dataset("extra"))
    assert [each["image"].shape for each in records] == [each["image"].shape for each in theirs]
