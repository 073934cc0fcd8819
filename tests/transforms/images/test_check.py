"""The check against TensorFlow itself, on a few thousand files; its limits and fingerprints."""

import io
import math
import pathlib
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageFilter

from tests import images
from tests.images import gif_file, picture, saved, scene
from tests.marks import cases, rest_slow
from tests.spies import memory_below
from transforms.core.rejections import Reason, RejectedImageError
from transforms.images import check
from transforms.images.check import (
    check_image,
    checked_header,
    examine_image,
    looks_of,
    seen_in_grey,
    seen_in_pixels,
)
from transforms.images.checked_images import UNSEEN, ImageInfo, Seen
from transforms.images.embeddings import read_bfloat16, stored_embedding
from transforms.images.headers import image_format
from transforms.images.pixel_options import (
    CHECK_MODES,
    DEFAULT_LIMITS,
    Limits,
    PixelOptions,
    Resize,
)
from transforms.images.pixels import change_pixels, stored_pixels
from transforms.selection.duplicates import MAX_DISTANCE

ROOT = pathlib.Path(__file__).parents[3]
LIMITS = Limits(max_pixels=1 << 24, max_bytes=1 << 30)
WHOLE = images.whole_images()
MOVED = ("jpeg", "jpeg_grey", "jpeg_progressive", "jpeg_restart", "jpeg_ycck")
MODES = pytest.mark.parametrize("mode", CHECK_MODES)


def verdict(data: bytes, mode: str = "full") -> tuple[int, ...] | Reason:
    """Height, width, channels; or the reason."""
    try:
        return check_image(data, limits=LIMITS, mode=mode)[1:]
    except RejectedImageError as rejected:
        return rejected.reason


def known(seen: Seen) -> tuple[Any, ...]:
    """The perceptual hash and the looks."""
    return seen.perceptual_hash, looks_of([seen.grey])


def rejection(data: bytes, limits: Limits = LIMITS, mode: str = "full") -> RejectedImageError:
    with pytest.raises(RejectedImageError) as caught:
        check_image(data, limits=limits, mode=mode)
    return caught.value


def run_python(code: str) -> tuple[str, str]:
    """What a program prints."""
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    return done.stdout, done.stderr


class TestTensorFlow:
    @staticmethod
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

    def test_every_kind_of_image_gets_its_answer(self, tensorflow: Any) -> None:
        assert self.disagreements(tensorflow, WHOLE) == []
        accepted = {name for name, data in WHOLE.items() if not isinstance(verdict(data), Reason)}
        formats = {name.split("_")[0] for name in accepted}
        assert formats >= {"jpeg", "png", "gif", "bmp", "webp", "jxl"} and len(accepted) > 140

    @pytest.mark.parametrize("one_in", rest_slow([4, 1]))
    def test_every_mutant_gets_its_answer(self, tensorflow: Any, one_in: int) -> None:
        mutants = list(images.mutants(WHOLE, kinds=MOVED))
        assert len(mutants) > 3000
        assert self.disagreements(tensorflow, dict(mutants[::one_in])) == []

    @pytest.mark.parametrize(
        "kind", rest_slow(["jpeg_progressive", "jpeg", "jpeg_grey", "jpeg_422"])
    )
    def test_every_changed_header_byte_gets_its_answer(self, tensorflow: Any, kind: str) -> None:
        data = WHOLE[kind]
        cases = {
            f"{kind}[{at}]={value}": data[:at] + bytes([value]) + data[at + 1 :]
            for at in range(3, data.index(b"\xff\xda") + 14)
            for value in {0, 255, data[at] ^ 1, data[at] ^ 0x10} - {data[at]}
        }
        assert self.disagreements(tensorflow, cases) == []

    @pytest.mark.usefixtures("tensorflow")
    def test_header_mode_promises_what_it_gives_for_whole_images(self) -> None:
        verdicts = {name: (verdict(data), verdict(data, "header")) for name, data in WHOLE.items()}
        # the header does not say that libpng will drop a tRNS chunk that is misplaced or too long
        assert [
            name
            for name, (full, header) in verdicts.items()
            if not isinstance(full, Reason) and full != header
        ] == ["png_palette_trns_early", "png_palette_trns_long"]

    def test_a_webp_or_bmp_gets_the_same_pixels_without_it(
        self, tensorflow: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A BMP of 224 MB took 1.3 GB."""
        sound = ["webp_RGB", "webp_RGBA", "webp_lossless_RGB", "webp_lossless_RGBA", "webp_exif"]
        sound += ["bmp_8", "bmp_24", "bmp_32", "bmp_top_down"]
        pixels = {
            name: tensorflow.io.decode_image(WHOLE[name], expand_animations=False).numpy()
            for name in sound
        }
        monkeypatch.setattr(check, "import_tensorflow", None)
        for name, expected in pixels.items():
            header = checked_header(WHOLE[name], LIMITS)
            decoder = check.decode_webp if header.format == "webp" else check.decode_bmp
            np.testing.assert_array_equal(decoder(WHOLE[name], header), expected)
            info, found = examine_image(WHOLE[name], header, mode="full", with_hash=True)
            assert info[1:] == expected.shape
            assert known(found) == known(seen_in_pixels(expected))
        unsure = ["webp_alpha_without_flag", "webp_animated", "bmp_short", "bmp_long"]
        large = saved(Image.new("RGB", (4097, 4096)), "WEBP")
        for data in [large, *(WHOLE[name] for name in unsure)]:
            assert not checked_header(data, DEFAULT_LIMITS).plain

    @pytest.mark.slow
    def test_what_is_beyond_doubt_needs_none(self) -> None:
        code = """if True:
            import sys
            from tests import images
            from transforms.images import check
            from transforms.images.pixels import stored_pixels
            whole = images.whole_images()
            sure = ("png_3_8_trns", "png_0_8_trns", "png_ancillary", "png_split_idat", "apng")
            sure += tuple(f"png_{kind}{i}" for i in ("", "_adam7")
                          for kind in ("0_1", "0_16", "2_8", "3_4", "3_8", "6_16"))
            doubtful = ("tiff", "text", "zeros", "svg", *sure)
            odd = [n for n in whole if n.endswith(("_flag", "_animated", "_size", "_only"))]
            limits = check.Limits(1 << 24, 1 << 30)
            for name, data in whole.items():
                if name in ("jpeg", "jpeg_grey", "png_pillow_RGBA", "gif", "webp_RGB"):
                    stored_pixels(data, 3, limits)
                is_plain = name.startswith("jpeg") and "cmyk" not in name and "ycck" not in name
                is_sure = is_plain or name.startswith("png_pillow") or name in sure
                is_sure |= name.startswith("webp_") and name not in odd
                for mode in ("header", "full") if is_sure or name in doubtful else ("header",):
                    try:
                        check.check_image(data, limits=limits, mode=mode)
                    except check.RejectedImageError:
                        assert not is_sure
            print([m for m in ("tensorflow", "apache_beam") if m in sys.modules])
        """
        assert run_python(code) == ("[]\n", "")

    @pytest.mark.slow
    def test_it_leaves_the_standard_error_clean(self) -> None:
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
        assert run_python(code) == ("True False\n", "somebody else's line\n")

    @pytest.mark.slow
    def test_it_gets_a_large_file_without_a_text_of_it(self) -> None:
        code = """if True:
            import pathlib
            from PIL import Image
            from tests.images import saved
            from transforms.images.check import decode_pixels
            import tensorflow
            tensorflow.constant(1)
            def memory(name):
                status = pathlib.Path("/proc/self/status").read_text()
                return int(status.split(name + ":")[1].split()[0]) << 10
            data = saved(Image.new("RGB", (6000, 3000)), "BMP")
            pathlib.Path("/proc/self/clear_refs").write_text("5")
            had = memory("VmRSS")
            decode_pixels(data, "bmp")
            print((memory("VmHWM") - had) / len(data))
        """
        # The file and its pixels; of a file NumPy would make characters of four bytes.
        assert float(run_python(code)[0]) < 3


@MODES
@cases(
    (Reason.EMPTY_FILE, b"", LIMITS, "0 bytes"),
    (Reason.TOO_MANY_BYTES, b"x" * 11, Limits(100, 10), "11 bytes, more than 10"),
    (Reason.NOT_AN_IMAGE, b"II*\0rest", LIMITS, "begins with the bytes 49 49 2a 00 72 65"),
    (Reason.NOT_AN_IMAGE, b"RIFF\x04\0\0\0WEBP", LIMITS, "begins with the bytes 52 49 46 46"),
    (
        Reason.TOO_MANY_PIXELS,
        WHOLE["jpeg"],
        Limits(37 * 45 - 1, 1 << 20),
        "37 x 45 pixels (height x width), more than 1664",
    ),
    (Reason.CORRUPT_IMAGE, b"\xff\xd8\xff\xd9", LIMITS, "broken jpeg header: marker 0xFFD9"),
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


@pytest.mark.parametrize(("name", "cut"), [("jpeg", 200), ("gif", 40), ("bmp_short", None)])
def test_details_are_one_short_line(name: str, cut: int | None) -> None:
    detail = rejection(WHOLE[name][:cut]).detail
    assert 0 < len(detail) <= 200
    assert not set("\n{}[]") & set(detail)


def test_the_limits_themselves_are_allowed_and_an_unknown_mode_is_an_error() -> None:
    data = WHOLE["jpeg"]
    assert check_image(data, limits=Limits(37 * 45, len(data))) == ImageInfo("jpeg", 37, 45, 3)
    with pytest.raises(ValueError, match="full, header"):
        check_image(WHOLE["jpeg"], limits=LIMITS, mode="quick")


def bombs() -> Iterator[bytes]:
    """Small files that say, or hide, that they are huge."""
    header = struct.pack(">IIBBBBB", 65500, 65500, 8, 6, 0, 0, 0)
    inflater = zlib.compress(bytes(1 << 20), 9)
    png = [(b"IHDR", header), *[(b"IDAT", inflater)] * 50, (b"IEND", b"")]
    large = images.with_size(WHOLE["jpeg"], 65500, 65500)
    frame = (b"ANMF", bytes(24))
    canvas = images.webp_canvas(1 << 12, 1 << 12, 0x12)
    yield images.png_file(png)
    yield images.png_file([png[0], (b"acTL", bytes(8)), *png[1:]])
    yield large
    yield images.with_size(WHOLE["jpeg_progressive"], 65500, 65500)
    # Behind a thumbnail, and behind what is no segment.
    yield large[:2] + b"\xff\xe1\x00\x10" + WHOLE["jpeg"][:14] + large[2:]
    yield large[:2] + b"\xff\xfe\0\2junk\0\xff\0" + large[2:]
    yield gif_file((1, 1), [(0, 0, 1, 1)], b",\0\0\0\0\xff\xff\xff\xff\0\2\0;")
    yield gif_file((99, 99), [(0, 0, 99, 99)] + [(0, 0, 1, 1)] * 3000)
    yield gif_file((1, 1), [(0, 0, 5000, 1), (0, 0, 1, 5000)])
    yield images.bmp_file(65500, 65500, 24, body=b"")
    yield images.webp_file([(b"VP8L", struct.pack("<BI20x", 0x2F, 16383 | 16383 << 14))])
    yield images.webp_file([canvas, (b"ANIM", bytes(6)), frame, frame])
    # JPEG XL: div8 = 0, two selector bits 3, 30 bits of height, ratio 1:1, all defaults
    yield b"\xff\x0a" + (3 << 1 | (65499 << 3) | 1 << 33 | 1 << 36).to_bytes(26, "little")


@MODES
def test_bombs_are_refused_by_their_header(mode: str) -> None:
    planted = list(bombs())
    start = time.perf_counter()
    with memory_below(4 << 20):
        assert [verdict(data, mode) for data in planted] == [Reason.TOO_MANY_PIXELS] * len(planted)
    assert time.perf_counter() - start < 1 * len(planted)


def test_a_png_that_hides_its_size_is_not_inflated_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise RejectedImageError(Reason.CORRUPT_IMAGE, "TensorFlow decides")

    header = struct.pack(">IIBBBBB", 10, 10, 8, 2, 0, 0, 0)
    packed = zlib.compress(bytes(64 << 20), 9)
    data = images.png_file([(b"IHDR", header), (b"IDAT", packed), (b"IEND", b"")])
    monkeypatch.setattr(check, "decode_pixels", refuse)
    with memory_below(16 << 20):
        assert rejection(data).detail == "TensorFlow decides"


@MODES
def test_an_animated_webp_without_alpha_never_reaches_tensorflow(mode: str) -> None:
    rejected = rejection(images.webp_animation(alpha=False), mode=mode)
    assert rejected.reason is Reason.CORRUPT_IMAGE
    assert "without alpha" in rejected.detail


class TestPerceptualHash:
    """Copies of a picture look alike, and other pictures do not."""

    @staticmethod
    def hash_of(data: bytes, *, mode: str = "full", with_hash: bool = True) -> int | None:
        header = checked_header(data, LIMITS)
        return examine_image(data, header, mode=mode, with_hash=with_hash)[1][0]

    @classmethod
    def distance(cls, one: int | None, other: int | None) -> int:
        assert one is not None and other is not None
        return (one ^ other).bit_count()

    @pytest.mark.parametrize("seed", rest_slow(range(5), 2))
    def test_copies_look_alike_and_others_do_not(self, seed: int) -> None:
        original = scene(seed)
        first = self.hash_of(saved(original, "JPEG", quality=90))
        copies = {
            "worse": saved(original, "JPEG", quality=40),
            "half": saved(original.resize((250, 187), Image.Resampling.LANCZOS), "JPEG"),
            "a third": saved(original.resize((166, 125), Image.Resampling.LANCZOS), "JPEG"),
            "tiny": saved(original.resize((32, 32), Image.Resampling.LANCZOS), "JPEG", quality=95),
            "larger": saved(original.resize((1000, 750), Image.Resampling.BICUBIC), "JPEG"),
            "grey": saved(original.convert("L"), "JPEG"),
            "progressive": saved(original, "JPEG", progressive=True),
            "webp": saved(original, "WEBP"),  # TensorFlow decodes it
            "bmp": saved(original, "BMP"),
            "gif": saved(original, "GIF"),
        }
        for name, copy in copies.items():
            assert self.distance(first, self.hash_of(copy)) <= MAX_DISTANCE, name
        others = [self.hash_of(saved(scene(other), "JPEG")) for other in range(50, 60)]
        assert min(self.distance(first, other) for other in others) > 8

    # Five of nine columns are black and four are white: each row has one soft step, and cells that
    # are equally bright are none. What is nearly even has no bits for compression to change.
    @cases(([0] * 5 + [255] * 4, 255, int.from_bytes([0b00011100] * 8)), (range(100, 109), 0, 0))
    def test_steps(self, columns: list[int], corner: int, expected: int) -> None:
        pixels = np.repeat(np.array(columns, np.uint8), 10)[None, :, None].repeat(80, axis=0)
        pixels[:10, 80:] = corner
        assert seen_in_pixels(pixels).perceptual_hash == expected

    @pytest.mark.parametrize("size", [(375, 500), (333, 500), (180, 240), (100, 66), (50, 70)])
    @pytest.mark.parametrize(("format_", "options"), [("WEBP", {"lossless": True}), ("BMP", {})])
    def test_every_format_is_reduced_to_the_pixels_of_a_jpeg(
        self, size: tuple[int, int], format_: str, options: dict[str, Any]
    ) -> None:
        data = saved(scene(7, *size), "JPEG", quality=90)
        other = saved(Image.open(io.BytesIO(data)).convert("RGB"), format_, **options)
        assert self.distance(self.hash_of(data), self.hash_of(other)) <= 1

    def test_strips_of_a_large_image_are_those_of_the_whole(self) -> None:
        large = scene(1, 1003, 3001)
        whole = seen_in_grey(np.asarray(large.convert("L").reduce(8)), 1003, 3001, 8)
        assert known(seen_in_pixels(np.asarray(large))) == known(whole)

    @pytest.mark.parametrize("shape", [(1, 1), (1, 70_000), (70_000, 2), (3, 5), (23, 9)])
    def test_any_shape_has_a_hash_or_none(self, shape: tuple[int, int]) -> None:
        pixels = np.zeros((*shape, 3), np.uint8)
        pixels[:, shape[1] // 2 :] = 255
        assert (seen_in_pixels(pixels).perceptual_hash is None) == (shape[1] == 1)

    def test_looks_of_images_of_any_shapes_are_those_of_pillow(self) -> None:
        shapes = [(1, 1), (2, 9), (23, 9), (375, 500), (500, 375), (1, 70_000), (1003, 3001)]
        scenes = (scene(seed, *shape) for seed, shape in enumerate(shapes))
        greys = [seen_in_pixels(np.asarray(each.convert("RGB"))).grey for each in scenes]
        for grey, looks in zip(greys, looks_of(greys), strict=True):
            levels, image = np.sort(grey.ravel()), Image.fromarray(grey)
            ends = [levels[len(levels) * part // 100] for part in (5, 99)]
            shares = np.array(image.histogram()) / len(levels)
            spread = shares.std() * 64**2 * min(grey.shape) / max(grey.shape)
            edges = np.asarray(image.filter(ImageFilter.FIND_EDGES)).std()
            sharp, uneven = (1 - math.exp(-each / 100) for each in (edges, spread))
            sharpness = round(100 * (sharp + (uneven if uneven > 0.18 else 0)))
            assert looks == [*ends, sharpness, round(10 * image.entropy())]

    def test_what_is_transparent_is_white(self) -> None:
        flat = np.array(scene(1).convert("RGB"))
        pixels = np.dstack([flat, np.full(flat.shape[:2], 255, np.uint8)])
        pixels[:, :250, 3] = 0
        flat[:, :250] = 255
        assert known(seen_in_pixels(pixels)) == known(seen_in_pixels(flat))

    @cases(
        (saved(Image.new("L", (200, 100), 200), "JPEG"), {}),
        (saved(Image.new("RGB", (200, 100), 200), "JPEG"), {}),
        # What is not decoded has none.
        (saved(scene(1), "PNG"), {}),
        (saved(scene(1), "JPEG"), {"mode": "header"}),
        (saved(scene(1), "JPEG"), {"with_hash": False}),
    )
    def test_a_blank_picture_has_no_hash(self, data: bytes, options: dict[str, Any]) -> None:
        assert self.hash_of(data, **options) is None

    def test_changed_images_have_the_look_of_what_is_stored(self) -> None:
        options = PixelOptions(resize=Resize.parse("shorter=64"))
        png = saved(scene(2), "PNG")
        stored = change_pixels(png, options, limits=LIMITS, with_hash=True)
        small = np.asarray(Image.open(io.BytesIO(stored.data)).convert("RGB"))
        assert known(stored.seen) == known(seen_in_pixels(small))
        original = self.hash_of(saved(scene(2), "JPEG"))
        assert self.distance(stored.seen.perceptual_hash, original) <= MAX_DISTANCE
        assert change_pixels(png, options, limits=LIMITS).seen == UNSEEN


COMMON = {
    "jpeg": saved(picture("RGB", 12, 16), "JPEG"),
    "gray jpeg": saved(picture("L", 12, 16), "JPEG"),
    "png": saved(picture("RGBA", 12, 16), "PNG"),
    "gif": gif_file((16, 12), [(0, 0, 16, 12)]),
    "webp": saved(picture("RGB", 5, 4), "WEBP", quality=80),
}


class TestStoredPixels:
    """Images of records have the pixels that TensorFlow gives, mostly without it."""

    def test_every_kind_of_image_has_the_pixels_of_tensorflow(self, tensorflow: Any) -> None:
        compared = set()
        for name, data in (WHOLE | COMMON).items():
            try:
                shown = tensorflow.io.decode_image(data, expand_animations=False).numpy()
            except tensorflow.errors.InvalidArgumentError:
                continue  # no dataset has such an image
            is_color = shown.shape[-1] >= 3
            expected = shown[..., :3] if is_color else np.repeat(shown[..., :1], 3, -1)
            pixels = stored_pixels(data, 3, DEFAULT_LIMITS)
            np.testing.assert_array_equal(pixels, expected, name, strict=True)
            # PyTorch warns of arrays that cannot be written to.
            assert (pixels.flags.writeable and pixels.flags.c_contiguous) or name not in COMMON
            compared.add(image_format(data))
        assert compared == {"bmp", "gif", "jpeg", "jxl", "png", "webp"}

    def test_gray_images_keep_one_channel(self) -> None:
        gray = picture("L", 5, 4)
        pixels = stored_pixels(saved(gray, "PNG"), 1, DEFAULT_LIMITS)
        np.testing.assert_array_equal(pixels, np.asarray(gray)[:, :, None], strict=True)
        assert stored_pixels(COMMON["gray jpeg"], 1, DEFAULT_LIMITS).shape == (12, 16, 1)

    def test_color_of_16_bits_is_stored_and_read_within_one_limit(self) -> None:
        """PNGs of 90 to 178 megapixels were stored, and refused by `Records`."""
        for name, times in (("png_2_8", 1), ("png_2_16", 2)):
            info = check_image(WHOLE[name], limits=LIMITS)
            few = LIMITS._replace(max_pixels=times * info.height * info.width)
            assert stored_pixels(WHOLE[name], 3, few).shape == info[1:]
            less = few._replace(max_pixels=few.max_pixels - 1)
            assert rejection(WHOLE[name], less).reason is Reason.TOO_MANY_PIXELS
        # With `--depth 16`, each channel counts, whether its pixels change or not.
        for color in ("keep", "rgb"):
            deep = PixelOptions(depth=16, color=color, exif_orientation="apply")
            with pytest.raises(RejectedImageError, match="count 3 times"):
                change_pixels(WHOLE["png_2_16"], deep, limits=few)

    @pytest.mark.parametrize("name", COMMON)
    @cases(
        (Limits(1, 1 << 20), Reason.TOO_MANY_PIXELS), (Limits(1 << 20, 1), Reason.TOO_MANY_BYTES)
    )
    def test_no_image_above_the_limits_is_decoded(
        self, limits: Limits, reason: Reason, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for decoder in ("decode_jpeg", "_pillow_pixels", "decode_odd"):
            monkeypatch.setattr(f"transforms.images.pixels.{decoder}", None)
        with pytest.raises(RejectedImageError) as caught:
            stored_pixels(COMMON[name], 3, limits)
        assert caught.value.reason is reason


@cases(
    (0x3F800000, "803f"),
    (0x3F808000, "803f"),  # a tie, to even
    (0x3F808001, "813f"),
    (0x3F818000, "823f"),  # a tie, to even
    (0x80000001, "0080"),
    (0x7F7F7FFF, "7f7f"),  # the largest that is finite
)
def test_a_bfloat16_of_an_embedding_is_the_nearest(bits: int, stored: str) -> None:
    value = np.array([bits], np.uint32).view(np.float32)
    assert stored_embedding(value, "float32").hex() == value.tobytes().hex()
    assert stored_embedding(value, "bfloat16").hex() == stored
    exact = np.array([int.from_bytes(bytes.fromhex(stored), "little") << 16], np.uint32)
    read = read_bfloat16(bytes.fromhex(stored))
    assert read.dtype == np.float32 and read.tobytes() == exact.tobytes()
