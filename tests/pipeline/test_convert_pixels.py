"""`--transcode`, `--resize`, `--color`, `--quality`, `--exif_orientation`: files to records."""

from __future__ import annotations

import json
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
from tests.marks import rest_slow
from tests.pipeline.commands import (
    ROOT,
    Dataset,
    arguments,
    convert,
    digests,
    make_dataset,
    run_process,
)
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
    records = by_name(dataset)
    formats = {name: record["image/format"].decode() for name, record in records.items()}
    changed = {
        name: formats[name] for name in FILES if records[name]["image/encoded"] != FILES[name]
    }
    assert changed == {
        "animated.webp": "png",
        "palette.bmp": "png",
        "photo.avif": "jpeg",
        "photo.tif": "png",
    }
    assert dataset.manifest["pixels"] == {"first_frame": 1, "transcoded": 4, "untouched": 6}


@pytest.mark.parametrize(
    ("flags", "counts"),
    rest_slow(
        [
            ({"transcode": "jpeg"}, {"transcoded": 7, "flattened": 1, "untouched": 3}),
            (
                {"transcode": "jpeg", "quality": 80},
                {"transcoded": 7, "flattened": 1, "reencoded": 3},
            ),
            ({"transcode": "png"}, {"transcoded": 8, "untouched": 2}),
            ({"transcode": "auto", "resize": "shorter=20"}, {"resized": 8, "untouched": 1}),
            ({"transcode": "auto", "resize": "30x30"}, {"resized": 10}),
            ({"transcode": "auto", "color": "rgb"}, {"recolored": 2, "flattened": 1}),
            ({"transcode": "auto", "color": "gray"}, {"recolored": 9, "untouched": 1}),
            ({"transcode": "auto", "exif_orientation": "apply"}, {"turned": 1, "untouched": 5}),
        ],
        1,
    ),
)
def test_features_describe_what_is_stored_and_all_is_counted(
    mixed: Path, tmp_path: Path, flags: dict[str, Any], counts: dict[str, int]
) -> None:
    output = tmp_path / "out"
    ran = convert(
        output=output, images=f"{mixed}/*/*", label_from="directory", layout="tutorial", **flags
    )
    assert ran.code == 0, ran.err
    dataset = Dataset(output)
    records = read(dataset, TUTORIAL)
    assert len(records) == len(FILES)
    for record in records:
        described = tuple(record[name] for name in ("height", "width", "depth"))
        assert shape(record["image_raw"])[-3:] == described
    pixels = dataset.manifest["pixels"]
    assert {name: pixels.get(name) for name in counts} == counts
    (line,) = (line for line in ran.out.splitlines() if line.startswith("pixels "))
    for name, count in counts.items():
        assert f"{count} {name}" in line
    assert not list(check_dataset(str(output), dataset.manifest)[0])


ALL: dict[str, Any] = {
    "transcode": "jpeg",
    "resize": "longer=24,never_enlarge",
    "color": "rgb",
    "quality": 60,
    "exif_orientation": "apply",
}


@pytest.mark.slow
def test_the_same_bytes_by_any_number_of_workers(mixed: Path, tmp_path: Path) -> None:
    expected = digests(make(mixed, tmp_path / "first", num_shards=3, **ALL).folder)
    assert digests(make(mixed, tmp_path / "second", num_shards=3, **ALL).folder) == expected
    threads = ["--direct_num_workers=2", "--direct_running_mode=multi_threading"]
    for number, words in enumerate((threads, ["--workers=2"])):
        made = make(mixed, tmp_path / str(number), *words, num_shards=3, **ALL)
        assert digests(made.folder) == expected


def test_a_finished_dataset_knows_its_options(mixed: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    dataset = make(mixed, output, **ALL)
    assert {name: dataset.manifest["options"][name] for name in ALL} == ALL
    flags = {"images": f"{mixed}/*/*", "label_from": "directory", "output": output}
    assert "up to date" in convert(**flags, **ALL).out
    ran = convert(**flags, **{**ALL, "resize": "shorter=24"})
    assert ran.code == 2
    assert "--resize is shorter=24, was longer=24,never_enlarge" in ran.error()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"quality": 90}, "--quality applies only to re-encoded JPEGs; add --transcode jpeg"),
        ({"quality": 90, "transcode": "png"}, "--quality cannot be used with --transcode png"),
        ({"quality": 101}, "--quality: 101 is more than 100"),
        ({"resize": "256"}, "--resize '256' is not a size: did you mean shorter=256"),
        ({"resize": "0x5"}, "--resize '0x5': a side has 1 to 65500 pixels"),
        ({"resize": "50x50", "max_pixels": 2499}, "--resize 50x50 is more than --max_pixels 2499"),
        ({"transcode": "webp"}, "--transcode 'webp' is not one of"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    mixed: Path, tmp_path: Path, flags: dict[str, Any], message: str
) -> None:
    right = {"images": f"{mixed}/*/*", "label_from": "directory", "output": tmp_path / "out"}
    ran = convert(**{**right, **flags})
    assert (ran.code, ran.out) == (2, "")
    assert ran.error().startswith(f"convert: {message}")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_nothing_is_on_stderr_about_odd_and_damaged_files(tmp_path: Path) -> None:
    whole = saved(picture("RGB"), "TIFF", compression="tiff_adobe_deflate")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "damaged.tif").write_bytes(whole[:200] + b"xxxx" + whole[204:])
    (tmp_path / "in" / "cut.tif").write_bytes(whole[:-20])
    (tmp_path / "in" / "whole.tif").write_bytes(whole)
    ran = run_process(
        "pipeline.convert",
        images=f"{tmp_path}/in/*",
        label_from="none",
        transcode="auto",
        max_rejected=2,
        output=tmp_path / "out",
    )
    assert (ran.code, ran.err) == (0, "")
    reasons = {
        Path(line["path"]).name: line["reason"] for line in Dataset(tmp_path / "out").rejected
    }
    assert reasons == {"cut.tif": "corrupt_image", "damaged.tif": "corrupt_image"}


@pytest.mark.slow
@pytest.mark.parametrize(("resize", "loaded"), [(None, "False False"), ("8x6", "True False")])
def test_pixels_are_loaded_for_changes_only_and_tensorflow_not_for_clean_jpegs(
    photos: Path, tmp_path: Path, resize: str | None, loaded: str
) -> None:
    code = (
        "import sys; from pipeline.convert import main; main(sys.argv[1:]);"
        "print('transforms.images.pixels' in sys.modules, 'tensorflow' in sys.modules)"
    )
    words = arguments(images=f"{photos}/*/*.jpg", output=tmp_path / "out", resize=resize)
    command = [sys.executable, "-c", code, *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == loaded


@pytest.mark.slow
def test_statistics_count_each_orientation_that_apply_applies(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    image = picture("RGB", 12, 16)
    image.save(folder / "exif.jpg", exif=exif(6))
    image.save(folder / "tag.tif", tiffinfo={0x0112: 8})
    image.save(folder / "plain.tif")
    image.save(folder / "plain.jpg")
    jpeg = (folder / "plain.jpg").read_bytes()
    xmp = b'http://ns.adobe.com/xap/1.0/\0<x tiff:Orientation="3"/>'
    segment = b"\xff\xe1" + (2 + len(xmp)).to_bytes(2, "big") + xmp
    (folder / "xmp.jpg").write_bytes(jpeg[:2] + segment + jpeg[2:])
    for rule, turned in (("apply", 3), ("keep", None)):
        dataset = make_dataset(
            tmp_path / rule,
            images=f"{folder}/*",
            label_from="none",
            transcode="auto",
            exif_orientation=rule,
        )
        statistics = json.loads((dataset.folder / "statistics.json").read_text())
        assert statistics["orientations"] == {"3": 1, "6": 1, "8": 1}
        assert dataset.manifest["pixels"].get("turned") == turned


@pytest.mark.slow
def test_a_heic_is_converted_once_its_decoder_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From an archive, like any other image."""
    with zipfile.ZipFile(tmp_path / "photos.zip", "w") as archive:
        archive.writestr("dog/photo.heic", heic(picture("RGB")))
        archive.writestr("dog/photo.jpg", FILES["photo.jpg"])
    flags = {
        "images": f"{tmp_path}/photos.zip!/*/*",
        "label_from": "directory",
        "transcode": "auto",
        "max_rejected": "50%",
    }
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
