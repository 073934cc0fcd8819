"""Datasets of `--depth 16`: every reader gives uint16, and the same values."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pipeline import Records, load
from pipeline.verify import check_dataset
from tests.deep_tiff import samples, tiff
from tests.foreign_images import deep_picture
from tests.images import picture, saved
from tests.lazy import lazy_module
from tests.pipeline.commands import make_dataset

tfds = lazy_module("tensorflow_datasets")

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

COLOR = samples(3, 20, 30)


def write_scans(folder: Path) -> dict[str, Any]:
    """Scans and photos, and the samples with which they are read."""
    jpeg, png, webp = (saved(picture("RGB"), format_) for format_ in ("JPEG", "PNG", "WEBP"))
    (folder / "a").mkdir()
    values = np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 4)
    files = {
        "color.tif": tiff(COLOR),
        "float.tif": saved(Image.fromarray(values), "TIFF"),
        "grey.png": saved(deep_picture(), "PNG"),
        "photo.jpg": jpeg,
        "photo.png": png,
        "photo.webp": webp,
    }
    for name, data in files.items():
        (folder / "a" / name).write_bytes(data)
    deep, grey = (np.asarray(each)[:, :, None] for each in (deep_picture(), values))
    return {
        "color.tif": COLOR,
        "float.tif": np.repeat(np.rint(grey * 65_535.0).astype(np.uint16), 3, axis=2),
        "grey.png": np.repeat(deep, 3, axis=2),
        "photo.png": np.asarray(picture("RGB")).astype(np.uint16) * 257,
    }


def test_readers_give_all_bits(tmp_path: Path) -> None:
    expected = write_scans(tmp_path)
    flags = {"label_from": "directory", "transcode": "auto", "depth": 16}
    dataset = make_dataset(tmp_path / "out", images=f"{tmp_path}/a/*", **flags)
    assert dataset.manifest["options"]["depth"] == 16
    assert dataset.manifest["pixels"] == {"transcoded": 2, "untouched": 4}
    assert not list(check_dataset(str(dataset.folder), dataset.manifest)[0])
    loaded = {
        Path(record["image/filename"].decode()).name: record["image/encoded"]
        for record in load(str(dataset.folder), "train").as_numpy_iterator()
    }
    assert {image.dtype for image in loaded.values()} == {np.dtype(np.uint16)}
    for name, pixels in expected.items():
        np.testing.assert_array_equal(loaded[name], pixels, err_msg=name, strict=True)
    for record in Records(str(dataset.folder), "train", decode=True):
        name = Path(record["image/filename"].decode()).name
        np.testing.assert_array_equal(record["image/encoded"], loaded[name], strict=True)
    small = load(str(dataset.folder), "train", image_size=8, batch_size=6)
    assert small.element_spec["image/encoded"].dtype.name == "uint16"
    # TensorFlow decodes no WebP to 16 bits, and so TensorFlow Datasets gives the bytes.
    without = make_dataset(tmp_path / "most", images=f"{tmp_path}/a/*.[!w]*", **flags)
    read = tfds.builder_from_directory(str(without.folder)).as_dataset(split="train")
    for row in tfds.as_numpy(read):
        name = Path(row["image/filename"].decode()).name
        assert name != "photo.webp"
        np.testing.assert_array_equal(row["image/encoded"], loaded[name], strict=True)
