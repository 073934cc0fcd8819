"""`--layout embedding`: what a model makes of images, from files to records.

Keras takes seconds, so most of these tests are slow. A quick one of `tests/golden` makes a
conversion with this layout.
"""

import re
import shlex
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.verify import check_dataset
from tests.conftest import draw
from tests.lazy import Lazy, lazy_module
from tests.models import KERAS, SMALL_INPUT, SMALL_OUTPUT, efficientnet, saved_to, small_model
from tests.pipeline.commands import ROOT, check_sound, convert, digests, make_dataset, run
from tests.pipeline.reading import filenames, read
from tests.pipeline.reusing import check_same
from tests.servers.gcs import GcsServer
from tests.spies import paths_given
from transforms.embed_images import EmbeddingModelHandler
from transforms.images.embeddings import BATCH_IMAGES
from transforms.storage.local_storage import LocalStorage

tf = lazy_module("tensorflow")

DOCUMENT = (ROOT / "docs" / "embeddings.md").read_text()
COUNT = BATCH_IMAGES + 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Photos and the model files that the documentation names."""
    folder = tmp_path_factory.mktemp("embeddings")
    for number in range(COUNT):
        draw(folder / "photos" / "ab"[number % 2] / f"{number}.jpg", seed=number)
    saved_to(folder / "backbone.keras", small_model().save)
    saved_to(folder / "saved", lambda path: small_model().export(path, verbose=False))
    (folder / "b0.weights.h5").touch()
    return folder


@pytest.fixture(scope="module")
def weights(folder: Path) -> Path:
    """Those of EfficientNetB0, which takes seconds."""
    return saved_to(folder / "b0.weights.h5", efficientnet().save_weights)


def flags(folder: Path, **changes: Any) -> dict[str, Any]:
    right = {
        "images": f"{folder}/photos/*/*.jpg",
        "label_from": "directory",
        "layout": "embedding",
        "model": folder / "backbone.keras",
    }
    return {**right, **changes}


def direct(folder: Path, model: Any, size: tuple[int, int]) -> np.ndarray[Any, Any]:
    """What the model itself makes of the photos, in the order of the records, in batches of 16."""
    with tempfile.TemporaryDirectory() as scratch:
        slim = flags(folder, layout="slim", model=None)
        names = filenames(make_dataset(Path(scratch) / "slim", **slim))
    paths = [folder / "photos" / name for name in names]
    decoded = [tf.io.decode_image(path.read_bytes(), channels=3) for path in paths]
    pixels = [tf.image.resize(image, size) for image in decoded]
    batches = np.zeros((2 * BATCH_IMAGES, *pixels[0].shape), np.float32)
    batches[:COUNT] = pixels
    return np.concatenate([model.predict_on_batch(each) for each in np.split(batches, 2)])[:COUNT]


def stored(dataset: Any, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    spec = {
        "Feature": tf.io.FixedLenFeature(shape, tf.float32),
        "Label": tf.io.FixedLenFeature([], tf.int64),
    }
    return np.stack([record["Feature"] for record in read(dataset, spec)])


@pytest.mark.slow
@pytest.mark.parametrize("model", ["backbone.keras", "saved"])
def test_a_keras_file_and_a_saved_model_give_what_the_model_gives(
    model: str, folder: Path, tmp_path: Path
) -> None:
    expected = direct(folder, small_model(), SMALL_INPUT[:2])
    dataset = make_dataset(tmp_path / model, **flags(folder, model=folder / model))
    np.testing.assert_allclose(stored(dataset, SMALL_OUTPUT), expected, rtol=1e-5, atol=1e-6)
    assert dataset.manifest["features"][0]["shape"] == list(SMALL_OUTPUT)
    assert list(check_dataset(str(dataset.folder), dataset.manifest)[0]) == []


@pytest.mark.slow
def test_verify_sees_another_shape_and_another_model_is_another_dataset(
    folder: Path, tmp_path: Path
) -> None:
    for dtype, message in (("float32", "has 48 values, not 2"), ("bfloat16", "has 96 bytes")):
        dataset = make_dataset(tmp_path / dtype, **flags(folder, embed_dtype=dtype))
        manifest = dataset.manifest
        manifest["features"][0]["shape"] = [2]
        problems = [str(each) for each in check_dataset(str(dataset.folder), manifest)[0]]
        assert len(problems) >= COUNT and message in problems[1]
    ran = convert(**flags(folder, model=folder / "saved", output=tmp_path / "float32"))
    assert ran.code == 2 and "--model is" in ran.error()


@pytest.mark.slow
def test_resized_images_of_other_layouts_are_reused(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """They do not depend on what runs the model."""
    embedded = flags(folder, resize="12x9", num_shards=2)
    plain = {**embedded, "layout": "slim", "model": None, "seed": 3}
    base = make_dataset(tmp_path / "base", **plain).folder
    ran = check_same(base, tmp_path, **embedded)
    assert f"reused   {COUNT} images from their records (--reuse)" in ran.out
    assert caplog.messages == []


@pytest.mark.slow
def test_a_program_that_makes_many_datasets_reads_no_warning_of_tensorflow(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """TensorFlow takes models for one function that is traced again if their code is one object."""
    for _ in range(6):
        EmbeddingModelHandler(folder / "backbone.keras").load_model()
    assert caplog.messages == []


L: Any = Lazy(lambda: KERAS.layers)
# The shape and the batch that a model takes, and its layer.
UNFIT: dict[str, tuple[tuple[int | None, ...], int | None, Callable[[], Any]]] = {
    "takes float32 ?x5": ((5,), None, lambda: L.Dense(2)),
    "takes float32 ?x?x?x3": ((None, None, 3), None, lambda: L.Conv2D(1, 3)),
    "takes float32 ?x8x8x4": ((8, 8, 4), None, lambda: L.Flatten()),
    "takes float32 2x8x8x3": ((8, 8, 3), 2, lambda: L.Flatten()),
    "does not return floats": ((8, 8, 3), None, lambda: L.Discretization(bin_boundaries=[9])),
    "not finite": ((8, 8, 3), None, lambda: L.Rescaling(float("inf"))),
}


@pytest.mark.slow
@pytest.mark.parametrize("message", UNFIT)
def test_a_model_that_does_not_fit_is_refused(message: str, folder: Path, tmp_path: Path) -> None:
    shape, batch, layer = UNFIT[message]
    model = KERAS.Sequential([KERAS.Input(shape, batch_size=batch), layer()])
    path = saved_to(tmp_path / "m.keras", model.save)
    ran = convert(**flags(folder, model=path, output=tmp_path / "out"))
    assert ran.code == 2 and message in ran.error()
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize("model", ["backbone.keras", "saved"])
def test_a_model_in_a_bucket(model: str, folder: Path, tmp_path: Path, gcs: GcsServer) -> None:
    gcs.make_bucket("all")
    gcs.put_folder("all", "", folder)
    local = make_dataset(tmp_path / "local", **flags(folder, model=folder / model))
    there = {"images": "gs://all/photos/*/*.jpg", "model": f"gs://all/{model}"}
    remote = make_dataset(tmp_path / "remote", **flags(folder, **there))
    values = stored(remote, SMALL_OUTPUT)
    assert np.array_equal(values, stored(local, SMALL_OUTPUT))
    assert values.std() > 0
    check_sound(remote.folder)


@pytest.mark.slow
def test_what_is_no_model_is_refused(folder: Path, weights: Path, tmp_path: Path) -> None:
    other = {"model": "MobileNet", "model_weights": weights}
    wrong = "damaged or of another model"
    for changes, says in ((other, wrong), ({"model": folder / "photos"}, "cannot be loaded")):
        ran = convert(**flags(folder, **changes, output=tmp_path / "refused"))
        assert ran.code == 2 and says in ran.error()


@pytest.mark.slow
@pytest.mark.usefixtures("weights")
def test_the_documentation_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    commands, reader = (
        re.findall(rf"^```{language}\n(.*?)^```", DOCUMENT, re.DOTALL | re.MULTILINE)[0]
        for language in ("bash", "python")
    )
    for command in commands.splitlines():
        ran = run("convert", *shlex.split(command)[3:])
        assert ran.code == 0, ran.err
    for output, shape in (("out/embedded", SMALL_OUTPUT), ("out/features", (7, 7, 1280))):
        names: dict[str, Any] = {}
        exec(reader.replace("out/embedded", output), names)
        values, labels = next(iter(names["dataset"]))
        assert values.shape == (2, *shape) and labels.shape == (2,)


@pytest.mark.slow
def test_embeddings_are_made_of_reused_images_and_copied_with_whole_shards(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slim = make_dataset(tmp_path / "slim", **flags(folder, layout="slim", model=None)).folder
    fresh = make_dataset(tmp_path / "fresh" / "out", **flags(folder)).folder
    opened = paths_given(monkeypatch, LocalStorage, "read_listed")
    batches: list[int] = []
    predict = EmbeddingModelHandler.run_inference

    def counted(handler: Any, batch: Any, *given: Any) -> Any:
        batches.append(len(batch))
        return predict(handler, batch, *given)

    monkeypatch.setattr(EmbeddingModelHandler, "run_inference", counted)
    for base, computed in ((slim, [BATCH_IMAGES, COUNT - BATCH_IMAGES]), (fresh, [])):
        output = tmp_path / f"from-{base.name}" / "out"
        ran = convert(output=output, reuse=base, **flags(folder))
        assert f"reused   {COUNT} images" in ran.out, ran.err
        assert digests(output) == digests(fresh)
        assert ([size for size in batches if size], opened) == (computed, [])
        batches.clear()
    # Nothing else can be taken from records without images.
    ran = convert(output=tmp_path / "new", reuse=fresh, **flags(folder, seed=1))
    assert (ran.code, "from their records" in ran.out, len(opened)) == (0, False, COUNT)
