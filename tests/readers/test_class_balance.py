"""`load` with classes that count the same."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from pipeline import load
from pipeline.errors import DatasetError, UsageError
from tests.conftest import draw
from tests.lazy import lazy_module
from tests.pipeline.commands import Dataset, make_dataset

pytestmark = pytest.mark.slow

tf = lazy_module("tensorflow")

LABEL = "image/class/label"
COUNTS = {"ant": 24, "bee": 12, "cat": 4}


@pytest.fixture(scope="module")
def rare(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    folder = tmp_path_factory.mktemp("rare")
    for name, count in COUNTS.items():
        for number in range(count):
            draw(folder / f"photos/{name}/{number}.jpg", seed=number)
    flags = {"images": f"{folder}/photos/*/*.jpg", "compression": "gzip", "num_shards": 2}
    return make_dataset(folder / "out", **flags, dedupe="off")


def labels(dataset: Dataset, seed: int = 1) -> tf.data.Dataset:
    return load(
        dataset.folder,
        "train",
        decode=False,
        as_supervised=True,
        shuffle=True,
        sample_by_class=True,
        seed=seed,
    ).map(lambda image, label: label)


def test_weights_are_those_of_scikit_learn(rare: Dataset) -> None:
    triples = list(load(rare.folder, "train", batch_size=7, as_supervised=True, class_weights=True))
    found = {}
    for _, ids, weights in triples:
        assert weights.dtype == tf.float32
        found.update(zip(ids.numpy().tolist(), weights.numpy().tolist(), strict=True))
    # n / (classes * n of the class), as `sklearn.utils.class_weight` documents it.
    expected = [40 / (3 * count) for count in COUNTS.values()]
    np.testing.assert_allclose([found[number] for number in range(3)], expected, rtol=1e-6)
    assert sum(float(tf.reduce_sum(weights)) for *_, weights in triples) == pytest.approx(40)


def test_weights_are_those_of_the_slice(rare: Dataset) -> None:
    part = list(load(rare.folder, "train[:10]", as_supervised=True, class_weights=True))
    counts = Counter(int(label) for _, label, _ in part)
    for _, label, weight in part:
        assert float(weight) == pytest.approx(10 / (len(counts) * counts[int(label)]))


def test_each_class_is_drawn_equally_often(rare: Dataset) -> None:
    drawn = labels(rare)
    epochs = [Counter(int(each) for each in drawn) for _ in range(40)]
    for number in range(3):
        # The standard error of a mean of 40 is below 0.4.
        assert np.mean([epoch[number] for epoch in epochs]) == pytest.approx(40 / 3, abs=2)


def test_a_seed_repeats_the_draws(rare: Dataset) -> None:
    first = [[int(each) for each in epoch] for epoch in (labels(rare), labels(rare))]
    assert first[0] == first[1]
    assert [int(each) for each in labels(rare, seed=2)] != first[0]


def test_epochs_draw_other_records(rare: Dataset) -> None:
    drawn = load(rare.folder, "train", decode=False, shuffle=True, sample_by_class=True)
    names = [{bytes(r["image/filename"].numpy()) for r in drawn} for _ in range(12)]
    assert len(set.union(*names)) == 40 > max(map(len, names))


def test_workers_draw_from_their_own_shards(rare: Dataset) -> None:
    from tensorflow.python.data.experimental.ops import distribute

    parts = [list(distribute._AutoShardDataset(labels(rare), 2, worker)) for worker in range(2)]
    assert all(parts)


def test_what_has_no_effect_is_refused(rare: Dataset, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="give as_supervised=True, too"):
        load(rare.folder, "train", class_weights=True)
    with pytest.raises(ValueError, match="give shuffle=True, too"):
        load(rare.folder, "train", sample_by_class=True)
    balanced = {"class_weights": True, "sample_by_class": True}
    with pytest.raises(ValueError, match="class_weights and sample_by_class both"):
        load(rare.folder, "train", as_supervised=True, shuffle=True, **balanced)
    with pytest.raises(TypeError, match="sample_by_class"):
        load(rare.folder, "train", sample_by_class="yes")  # type: ignore[arg-type]
    damaged = tmp_path / "damaged"
    shutil.copytree(rare.folder, damaged)
    (next((damaged / "index").iterdir())).write_bytes(b"x")
    with pytest.raises(DatasetError, match="is damaged"):
        load(damaged, "train", as_supervised=True, class_weights=True)


def test_records_without_one_class_id_are_refused(tmp_path: Path) -> None:
    draw(tmp_path / "a.jpg", seed=1)
    (tmp_path / "boxes.csv").write_text("id,label,xmin,ymin,xmax,ymax\na,cat,1,2,3,4\n")
    dataset = make_dataset(
        tmp_path / "out",
        images=f"{tmp_path}/*.jpg",
        labels=tmp_path / "boxes.csv",
        layout="detection",
        boxes="units=pixel,columns=xmin,ymin,xmax,ymax",
    )
    with pytest.raises(UsageError, match="do not have exactly one class id"):
        load(dataset.folder, "train", shuffle=True, sample_by_class=True)
