"""The check against TensorFlow itself, on a few thousand files, and its limits."""

from __future__ import annotations

import concurrent.futures
import pathlib
import struct
import subprocess
import sys
import time
import tracemalloc
import zlib
from typing import Any

import pytest

from tests import images
from tests.marks import rest_slow
from transforms.core.rejections import Reason, RejectedImageError
from transforms.images import check
from transforms.images.check import ImageInfo, check_image
from transforms.images.pixel_options import CHECK_MODES, Limits

ROOT = pathlib.Path(__file__).parents[3]
LIMITS = Limits(max_pixels=1 << 24, max_bytes=1 << 30)
WHOLE = images.whole_images()
MOVED = ("jpeg", "jpeg_grey", "jpeg_progressive", "jpeg_restart", "jpeg_ycck")


def verdict(data: bytes, mode: str = "full") -> tuple[int, ...] | Reason:
    """Height, width, channels; or the reason."""
    try:
        return check_image(data, limits=LIMITS, mode=mode)[1:]
    except RejectedImageError as rejected:
        return rejected.reason


def rejection(data: bytes, limits: Limits = LIMITS, mode: str = "full") -> RejectedImageError:
    with pytest.raises(RejectedImageError) as caught:
        check_image(data, limits=limits, mode=mode)
    return caught.value


def run_python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", code, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)


def disagreements(tensorflow: Any, cases: dict[str, bytes]) -> list[str]:
    """Cases in which TensorFlow decides otherwise or gives another size or channels."""
    found = []
    for name, data in cases.items():
        ours = verdict(data)
        if ours is Reason.TOO_MANY_PIXELS:
            continue
        try:
            theirs = tuple(tensorflow.io.decode_image(data).shape[-3:])
        except tensorflow.errors.InvalidArgumentError:
            theirs = None
        if theirs != (None if isinstance(ours, Reason) else ours):
            found.append(f"{name}: we say {ours}, TensorFlow says {theirs}")
    return found


def test_every_kind_of_image_gets_the_answer_of_tensorflow(tensorflow: Any) -> None:
    assert disagreements(tensorflow, WHOLE) == []
    accepted = {name for name, data in WHOLE.items() if not isinstance(verdict(data), Reason)}
    assert {name.split("_")[0] for name in accepted} >= {"jpeg", "png", "gif", "bmp", "webp", "jxl"}
    assert len(accepted) > 140


@pytest.mark.parametrize("one_in", rest_slow([4, 1]))
def test_every_mutant_gets_the_answer_of_tensorflow(tensorflow: Any, one_in: int) -> None:
    mutants = list(images.mutants(WHOLE, kinds=MOVED))
    assert len(mutants) > 3000
    assert disagreements(tensorflow, dict(mutants[::one_in])) == []


@pytest.mark.parametrize("kind", rest_slow(["jpeg_progressive", "jpeg", "jpeg_grey", "jpeg_422"]))
def test_every_changed_header_byte_gets_the_answer_of_tensorflow(
    tensorflow: Any, kind: str
) -> None:
    data = WHOLE[kind]
    scan = data.index(b"\xff\xda")
    cases = {
        f"{kind}[{at}]={value}": data[:at] + bytes([value]) + data[at + 1 :]
        for at in range(3, scan + 14)
        for value in {0, 255, data[at] ^ 1, data[at] ^ 0x10} - {data[at]}
    }
    assert disagreements(tensorflow, cases) == []


@pytest.mark.usefixtures("tensorflow")
def test_header_mode_promises_what_tensorflow_gives_for_whole_images() -> None:
    wrong = []
    for name, data in WHOLE.items():
        full, header = verdict(data), verdict(data, "header")
        if not isinstance(full, Reason) and full != header:
            wrong.append(f"{name}: header {header}, full {full}")
    # the header does not say that libpng will drop a tRNS chunk that is misplaced or too long
    assert [each.split(":")[0] for each in wrong] == [
        "png_palette_trns_early",
        "png_palette_trns_long",
    ]


@pytest.mark.slow
def test_what_is_beyond_doubt_needs_no_tensorflow() -> None:
    code = """if True:
        import sys, warnings
        from tests import images
        from transforms.images import check
        doubtful = ("cmyk", "ycck")
        whole = images.whole_images()
        names = [n for n in whole if n.startswith("jpeg") and not any(d in n for d in doubtful)]
        names += [n for n in whole if n.startswith("png_pillow")]
        names += [f"png_{c}_{d}{i}" for c, d in ((0, 1), (0, 16), (2, 8), (3, 4), (3, 8), (6, 16))
                  for i in ("", "_adam7")]
        names += ["png_3_8_trns", "png_0_8_trns", "png_ancillary", "png_split_idat", "apng"]
        limits = check.Limits(1 << 24, 1 << 30)
        for name in names:
            check.check_image(whole[name], limits=limits)
        for data in whole.values():
            try:
                check.check_image(data, limits=limits, mode="header")
            except check.RejectedImageError:
                pass
        for name in ("tiff", "text", "zeros", "svg"):
            try:
                check.check_image(whole[name], limits=limits)
            except check.RejectedImageError:
                pass
        print(len(names), [m for m in ("tensorflow", "apache_beam") if m in sys.modules])
    """
    done = run_python(code)
    assert (done.stdout.split(" ", 1)[1], done.stderr) == ("[]\n", "")


@pytest.mark.slow
def test_tensorflow_leaves_the_standard_error_clean() -> None:
    code = """if True:
        import os, sys
        from tests import images
        from transforms.images import check
        whole = images.whole_images()
        broken = [d for n, d in images.mutants({"jpeg": whole["jpeg"]}, kinds=("jpeg",))]
        for data in [whole["jpeg_cmyk"], whole["gif"], *broken]:
            try:
                check.check_image(data, limits=check.Limits(1 << 24, 1 << 30))
            except check.RejectedImageError:
                pass
        import tensorflow
        decode = tensorflow.io.decode_image
        def noisy(*arguments, **options):
            os.write(2, b"Corrupt JPEG data: 7 bytes\\nsomebody else's line\\n")
            return decode(*arguments, **options)
        tensorflow.io.decode_image = noisy
        check.check_image(whole["jpeg_cmyk"], limits=check.Limits(1 << 24, 1 << 30))
        print("tensorflow" in sys.modules, "apache_beam" in sys.modules)
    """
    done = run_python(code)
    assert (done.stdout, done.stderr) == ("True False\n", "somebody else's line\n")


def test_tensorflow_gets_a_large_file_without_a_text_of_it() -> None:
    code = """if True:
        import io, pathlib
        from PIL import Image
        from transforms.images.check import decode_pixels
        import tensorflow
        tensorflow.constant(1)
        def memory(name):
            status = pathlib.Path("/proc/self/status").read_text()
            return int(status.split(name + ":")[1].split()[0]) << 10
        file = io.BytesIO()
        Image.new("RGB", (6000, 3000)).save(file, "BMP")
        data = file.getvalue()
        pathlib.Path("/proc/self/clear_refs").write_text("5")
        had = memory("VmRSS")
        decode_pixels(data, "bmp")
        print((memory("VmHWM") - had) / len(data))
    """
    # The file and its pixels; of a file NumPy would make characters of four bytes.
    assert float(run_python(code).stdout) < 3


def test_threads_share_one_tensorflow() -> None:
    names = ["jpeg", "jpeg_cmyk", "png_2_8", "gif", "webp_RGB", "bmp_24", "jpeg_ycck"] * 8
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda name: verdict(WHOLE[name]), names))
    assert together == [verdict(WHOLE[name]) for name in names]


def test_info_names_format_height_width_channels() -> None:
    data = images.saved(images.picture("L", 5, 7), "JPEG")
    assert check_image(data, limits=LIMITS) == ImageInfo("jpeg", 5, 7, 1)
    assert check_image(WHOLE["png_4_8"], limits=LIMITS) == ImageInfo("png", 21, 19, 2)


@pytest.mark.parametrize("mode", CHECK_MODES)
@pytest.mark.parametrize(
    ("reason", "data", "limits", "detail"),
    [
        (Reason.EMPTY_FILE, b"", LIMITS, "0 bytes"),
        (Reason.TOO_MANY_BYTES, b"x" * 11, Limits(100, 10), "11 bytes, more than 10"),
        (
            Reason.NOT_AN_IMAGE,
            b"II*\0rest",
            LIMITS,
            "begins with the bytes 49 49 2a 00 72 65 73 74",
        ),
        (Reason.NOT_AN_IMAGE, b"RIFF\x04\0\0\0WEBP", LIMITS, "begins with the bytes 52 49 46 46"),
        (
            Reason.TOO_MANY_PIXELS,
            WHOLE["jpeg"],
            Limits(37 * 45 - 1, 1 << 20),
            "37 x 45 pixels (height x width), more than 1664",
        ),
        (Reason.CORRUPT_IMAGE, b"\xff\xd8\xff\xd9", LIMITS, "broken jpeg header: marker 0xFFD9"),
    ],
)
def test_reasons_found_without_decoding(
    reason: Reason, data: bytes, limits: Limits, detail: str, mode: str
) -> None:
    rejected = rejection(data, limits, mode)
    assert rejected.reason is reason
    assert rejected.detail.startswith(detail)


def test_damaged_pixels_are_corrupt_in_full_mode_only() -> None:
    data = WHOLE["png_2_8"][:-30]
    rejected = rejection(data)
    assert rejected.reason is Reason.CORRUPT_IMAGE
    assert rejected.detail.startswith("Invalid PNG data")
    assert check_image(data, limits=LIMITS, mode="header") == ImageInfo("png", 21, 19, 3)


def test_details_are_one_short_line() -> None:
    for data in (WHOLE["jpeg"][:200], WHOLE["gif"][:40], WHOLE["bmp_short"], WHOLE["jxl_rgb"][:-4]):
        detail = rejection(data).detail
        assert 0 < len(detail) <= 200
        assert not set("\n{}[]") & set(detail)


def test_the_limits_themselves_are_allowed() -> None:
    data = WHOLE["jpeg"]
    assert check_image(data, limits=Limits(37 * 45, len(data))).height == 37


def test_an_unknown_mode_is_an_error() -> None:
    with pytest.raises(ValueError, match="full, header"):
        check_image(WHOLE["jpeg"], limits=LIMITS, mode="quick")


def bombs() -> dict[str, bytes]:
    """Small files that say, or hide, that they are huge."""
    header = struct.pack(">IIBBBBB", 65500, 65500, 8, 6, 0, 0, 0)
    inflater = zlib.compress(bytes(1 << 20), 9)
    png = [(b"IHDR", header), *[(b"IDAT", inflater)] * 50, (b"IEND", b"")]
    large = images.with_size(WHOLE["jpeg"], 65500, 65500)
    vp8l = struct.pack("<BI", 0x2F, 16383 | 16383 << 14)
    frame = (b"ANMF", bytes(24))
    canvas = images.webp_canvas(1 << 12, 1 << 12, 0x12)
    # div8 = 0, two selector bits 3, 30 bits of height, ratio 1:1, all defaults
    jxl = b"\xff\x0a" + (3 << 1 | (65499 << 3) | 1 << 33 | 1 << 36).to_bytes(6, "little")
    return {
        "png": images.png_file(png),
        "png_animated": images.png_file([png[0], (b"acTL", bytes(8)), *png[1:]]),
        "jpeg": large,
        "jpeg_progressive": images.with_size(WHOLE["jpeg_progressive"], 65500, 65500),
        "jpeg_thumbnail_first": large[:2] + b"\xff\xe1\x00\x10" + WHOLE["jpeg"][:14] + large[2:],
        "jpeg_junk_first": large[:2] + b"\xff\xfe\0\2junk\0\xff\0" + large[2:],
        "gif": images.gif_file((1, 1), [(0, 0, 1, 1)], b",\0\0\0\0\xff\xff\xff\xff\0\2\0;"),
        "gif_frames": images.gif_file((99, 99), [(0, 0, 99, 99)] + [(0, 0, 1, 1)] * 3000),
        "gif_crossed": images.gif_file((1, 1), [(0, 0, 5000, 1), (0, 0, 1, 5000)]),
        "bmp": images.bmp_file(65500, 65500, 24, body=b""),
        "webp": images.webp_file([(b"VP8L", vp8l + bytes(20))]),
        "webp_animated": images.webp_file([canvas, (b"ANIM", bytes(6)), frame, frame]),
        "jxl": jxl + bytes(20),
    }


@pytest.mark.parametrize("mode", CHECK_MODES)
def test_bombs_are_refused_by_their_header(mode: str) -> None:
    planted = bombs()
    tracemalloc.start()
    start = time.perf_counter()
    try:
        found = {name: verdict(data, mode) for name, data in planted.items()}
        seconds = time.perf_counter() - start
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found == dict.fromkeys(planted, Reason.TOO_MANY_PIXELS)
    assert seconds < 1 * len(planted)
    assert peak < 4 << 20


def test_a_png_that_hides_its_size_in_its_pixels_is_not_inflated_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise RejectedImageError(Reason.CORRUPT_IMAGE, "TensorFlow decides")

    header = struct.pack(">IIBBBBB", 10, 10, 8, 2, 0, 0, 0)
    packed = zlib.compress(bytes(64 << 20), 9)
    data = images.png_file([(b"IHDR", header), (b"IDAT", packed), (b"IEND", b"")])
    monkeypatch.setattr(check, "decode_pixels", refuse)
    tracemalloc.start()
    try:
        assert rejection(data).detail == "TensorFlow decides"
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("mode", CHECK_MODES)
def test_an_animated_webp_without_alpha_never_reaches_tensorflow(mode: str) -> None:
    rejected = rejection(images.webp_animation(alpha=False), mode=mode)
    assert rejected.reason is Reason.CORRUPT_IMAGE
    assert "without alpha" in rejected.detail


@pytest.mark.slow
def test_real_photos_are_accepted_without_tensorflow() -> None:
    photos = ROOT.parent / "shared" / "data" / "flowers"
    if not photos.is_dir():
        pytest.skip("no photos next to the repository")
    code = """if True:
        import pathlib, sys
        from transforms.images.pixel_options import Limits
        from transforms.images.check import check_image
        for path in sorted(pathlib.Path(sys.argv[1]).rglob("*.jpg"))[::4]:
            check_image(path.read_bytes(), limits=Limits(1 << 26, 1 << 26))
        print("tensorflow" in sys.modules)
    """
    done = run_python(code, str(photos))
    assert (done.stdout, done.stderr) == ("False\n", "")
