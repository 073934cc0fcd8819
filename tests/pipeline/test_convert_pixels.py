"""`--transcode`, `--resize`, `--color`, `--quality`, `--exif_orientation`: files to records."""

import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from pipeline.verify import check_dataset
from tests.foreign_images import exif, laid
from tests.heic_images import heic
from tests.images import bmp_file, picture, saved, webp_animation
from tests.marks import cases, rest_slow
from tests.pipeline.commands import ROOT, Dataset, arguments, convert, make_dataset, run_process
from tests.pipeline.reading import TUTORIAL, read, shape

FILES = {
    "alpha.png": saved(picture("RGBA"), "PNG"),
    "animated.gif": saved(picture("P"), "GIF", save_all=True, append_images=[picture("P", seed=1)]),
    "animated.webp": webp_animation(alpha=False),
    "grey.jpg": saved(picture("L"), "JPEG"),
    "lying.jpg": saved(laid(picture("RGB"), 6), "JPEG", exif=exif(6)),
    "palette.bmp": bmp_file(20, 30, 8),
    "photo.avif": saved(picture("RGB"), "AVIF"),
    "photo.jpg": saved(picture("RGB"), "JPEG"),
    "photo.tif": saved(picture("RGB"), "TIFF"),
    "small.png": saved(picture("RGB", 20, 25), "PNG"),
}


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An image of each kind, in one folder of a class."""
    folder = tmp_path_factory.mktemp("mixed")
    (folder / "things").mkdir()
    for name, data in FILES.items():
        (folder / "things" / name).write_bytes(data)
    return folder


def make(mixed: Path, output: Path, *words: str, **flags: Any) -> Dataset:
    """Converts all of them."""
    flags = {"label_from": "directory", "max_rejected": "50%", **flags}
    return make_dataset(output, *words, images=f"{mixed}/*/*", **flags)


def by_name(dataset: Dataset) -> dict[str, dict[str, Any]]:
    return {Path(r["image/filename"].decode()).name: r for r in read(dataset)}


def test_auto_converts_what_tensorflow_cannot_read_and_leaves_the_rest(
    mixed: Path, tmp_path: Path
) -> None:
    dataset = make(mixed, tmp_path / "out", transcode="auto")
    assert dataset.rejected == []
    records = by_name(dataset).items()
    changed = {
        name: record["image/format"].decode()
        for name, record in records
        if record["image/encoded"] != FILES[name]
    }
    lossless = dict.fromkeys(("animated.webp", "palette.bmp", "photo.tif"), "png")
    assert changed == {**lossless, "photo.avif": "jpeg"}
    assert dataset.manifest["pixels"] == {"first_frame": 1, "transcoded": 4, "untouched": 6}


AUTO = {"transcode": "auto"}
JPEG = {"transcode": "jpeg"}


@cases(
    *rest_slow(
        [
            (JPEG, {"transcoded": 7, "flattened": 1, "untouched": 3}),
            ({**JPEG, "quality": 80}, {"transcoded": 7, "flattened": 1, "reencoded": 3}),
            ({"transcode": "png"}, {"transcoded": 8, "untouched": 2}),
            ({**AUTO, "resize": "shorter=20"}, {"resized": 8, "untouched": 1}),
            ({**AUTO, "resize": "30x30"}, {"resized": 10}),
            ({**AUTO, "color": "rgb"}, {"recolored": 2, "flattened": 1}),
            ({**AUTO, "color": "gray"}, {"recolored": 9, "untouched": 1}),
            ({**AUTO, "exif_orientation": "apply"}, {"turned": 1, "untouched": 5}),
        ]
    )
)
def test_features_describe_what_is_stored_and_all_is_counted(
    flags: dict[str, Any], counts: dict[str, int], mixed: Path, tmp_path: Path
) -> None:
    given = {"images": f"{mixed}/*/*", "label_from": "directory", "layout": "tutorial"}
    ran = convert(output=tmp_path / "out", **given, **flags)
    assert ran.code == 0, ran.err
    dataset = Dataset(tmp_path / "out")
    records = read(dataset, TUTORIAL)
    assert len(records) == len(FILES)
    for record in records:
        described = tuple(record[name] for name in ("height", "width", "depth"))
        assert shape(record["image_raw"])[-3:] == described
    pixels = dataset.manifest["pixels"]
    assert {name: pixels.get(name) for name in counts} == counts
    (line,) = (line for line in ran.out.splitlines() if line.startswith("pixels "))
    assert [name for name, count in counts.items() if f"{count} {name}" not in line] == []
    assert not list(check_dataset(str(dataset.folder), dataset.manifest)[0])


ALL: dict[str, Any] = {**JPEG, "color": "rgb", "quality": 60, "exif_orientation": "apply"}
ALL["resize"] = "longer=24,never_enlarge"


@pytest.mark.slow
def test_nothing_is_on_stderr_about_odd_and_damaged_files(tmp_path: Path) -> None:
    whole = saved(picture("RGB"), "TIFF", compression="tiff_adobe_deflate")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "damaged.tif").write_bytes(whole[:200] + b"xxxx" + whole[204:])
    (tmp_path / "in" / "cut.tif").write_bytes(whole[:-20])
    (tmp_path / "in" / "whole.tif").write_bytes(whole)
    flags = {"images": f"{tmp_path}/in/*", "label_from": "none", "output": tmp_path / "out"}
    ran = run_process("pipeline.convert", max_rejected=2, **AUTO, **flags)
    assert (ran.code, ran.err) == (0, "")
    rejected = Dataset(tmp_path / "out").rejected
    assert {Path(line["path"]).name: line["reason"] for line in rejected} == {
        "cut.tif": "corrupt_image",
        "damaged.tif": "corrupt_image",
    }


@pytest.mark.slow
def test_what_clean_jpegs_need_not_is_not_loaded(photos: Path, tmp_path: Path) -> None:
    """Pandas and TensorFlow cost 0.3 s and 3 s of start-up, 25 and 400 MB; pixels are changed."""
    code = (
        "import sys; from pipeline.convert import main; main(sys.argv[1:-1]);"
        "names = ['pandas', 'tensorflow', 'transforms.images.pixels'];"
        "print(*[name for name in names if name in sys.modules], sep=',');"
        "main(['--overwrite', *sys.argv[1:]]);"
        "print(*[name for name in names if name in sys.modules], sep=',')"
    )
    words = arguments(images=f"{photos}/*/*.jpg", output=tmp_path / "out", resize="8x6")
    command = [sys.executable, "-c", code, *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert (lines.count(""), lines[-1]) == (1, "transforms.images.pixels")


@pytest.mark.slow
def test_a_heic_is_converted_once_its_decoder_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From an archive, like any other image."""
    with zipfile.ZipFile(tmp_path / "photos.zip", "w") as archive:
        archive.writestr("dog/photo.heic", heic(picture("RGB")))
        archive.writestr("dog/photo.jpg", FILES["photo.jpg"])
    flags = {"images": f"{tmp_path}/photos.zip!/*/*", "label_from": "directory", **AUTO}
    flags["max_rejected"] = "50%"
    with monkeypatch.context() as patch:
        for name in ("pillow_heif", "pi_heif"):
            patch.setitem(sys.modules, name, None)
        missing = make_dataset(tmp_path / "out", **flags)
    [line] = missing.rejected
    assert line["reason"] == "no_decoder" and "pillow-heif" in line["detail"]
    assert "pillow-heif" not in missing.manifest["versions"]
    # The file is the same, but it can be read now.
    again = convert(output=tmp_path / "out", **flags)
    assert again.code == 2 and "have become readable" in again.error()
    dataset = make_dataset(tmp_path / "out", "--overwrite", **flags)
    assert dataset.rejected == []
    assert dataset.manifest["pixels"] == {"from_heic": 1, "transcoded": 1, "untouched": 1}
    assert dataset.manifest["versions"]["pillow-heif"]
    assert by_name(dataset)["photo.heic"]["image/format"] == b"jpeg"
    assert convert(output=tmp_path / "out", **flags).out.startswith("up to date")
    assert not list(check_dataset(str(dataset.folder), dataset.manifest)[0])
