"""Options of pixels, and what they make of every kind of image."""

import concurrent.futures
import dataclasses
import io
import struct
from typing import Any
from unittest import mock

import numpy as np
import pytest
import simplejpeg
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, _imaging

from tests import images
from tests.deep_tiff import samples, tiff
from tests.foreign_images import deep_images, deep_picture, exif, laid, lossless_images
from tests.images import picture, saved
from tests.marks import cases, rest_slow
from tests.spies import memory_below
from tests.transforms.core.pixel_changes import (
    AUTO,
    FOREIGN,
    HALF,
    LIMITS,
    WHOLE,
    changed,
    distance,
    outcome,
    reason,
    shown,
    slopes,
)
from transforms.core.rejections import Reason, RejectedImageError
from transforms.images import check, pillow_images, pixels
from transforms.images.check import check_image
from transforms.images.checked_images import CheckedImage
from transforms.images.pixel_options import (
    AS_THEY_ARE,
    CHANGES,
    Limits,
    Original,
    PixelOptions,
    Resize,
)
from transforms.images.pixels import change_pixels, raw_pixels
from transforms.images.tags import orientation_tag

RGB, GRAY = PixelOptions(color="rgb"), PixelOptions(color="gray")
JPEG, PNG = PixelOptions("jpeg"), PixelOptions("png")
APPLY = PixelOptions(exif_orientation="apply")
LARGER = PixelOptions(resize=Resize("exact", 60, 60))

# Its picture is one in run lengths, with a mask behind it.
_PICTURE = bytearray(WHOLE["bmp_rle8"][14:] + bytes(28))
_PICTURE[8] *= 2
ICON = struct.pack("<HHHBBBBHHII", 0, 1, 1, 9, 7, 0, 0, 1, 8, len(_PICTURE), 22) + _PICTURE

MANY_OPTIONS = {
    "auto": AUTO,
    "all": PixelOptions("jpeg", Resize("longer", 16, 16), "gray", 50, "apply"),
    "rgb": PixelOptions("auto", color="rgb"),
    "larger": PixelOptions("keep", Resize("exact", 50, 61)),
    "jpeg": PixelOptions("jpeg", quality=70),
    "png": PNG,
    "smaller": PixelOptions("auto", Resize("shorter", 9, 9)),
    "gray": PixelOptions("auto", color="gray"),
    "turned": PixelOptions("auto", exif_orientation="apply"),
}


@pytest.mark.usefixtures("tensorflow")
@pytest.mark.parametrize("options", rest_slow(MANY_OPTIONS.values(), 3), ids=MANY_OPTIONS)
@pytest.mark.filterwarnings("ignore::UserWarning")
class TestJudge:
    """TensorFlow says what is in a file."""

    def test_what_is_stored_tensorflow_decodes_to_what_is_said(self, options: PixelOptions) -> None:
        stored = 0
        for name, data in (WHOLE | FOREIGN).items():
            result = outcome(data, options)
            if not isinstance(result, CheckedImage):
                continue
            stored += 1
            assert check_image(result.data, limits=LIMITS) == result.info, name
            assert shown(result.data).shape == result.info[1:], name
            assert result.info.format in ("jpeg", "png") or result.changes == ("untouched",)
            assert (result.changes == ("untouched",)) == (result.data == data), name
            assert set(result.changes) <= set(CHANGES)
            if channels := {"rgb": 3, "gray": 1}.get(options.color):
                assert result.info.channels == channels, name
            # These have channels that TensorFlow does not read, or reads otherwise.
            if name in WHOLE and not name.startswith(("bmp", "ppm", "tiff", "ico", "png_palette")):
                before = check_image(data, limits=LIMITS).channels
                is_recolored = options.color != "keep" and before != channels
                assert ("recolored" in result.changes) == is_recolored, name
        assert stored > 140

    def test_what_is_damaged_is_decided_as_without_options(self, options: PixelOptions) -> None:
        transcode = "keep" if options.transcode == "auto" else "png"
        kept = dataclasses.replace(options, transcode=transcode, quality=None)
        sources = {name: WHOLE[name] for name in ("jpeg", "jpeg_progressive", "png_2_8", "gif")}
        accepted = 0
        for name, data in images.mutants(sources, kinds=("jpeg",)):
            try:
                check_image(data, limits=LIMITS)
            except RejectedImageError as rejected:
                assert reason(data, kept) == rejected.reason, name
            else:
                result = outcome(data, kept)
                assert isinstance(result, CheckedImage), f"{name}: {result}"
                assert check_image(result.data, limits=LIMITS) == result.info
                accepted += 1
        assert accepted > 20


FILES = WHOLE | FOREIGN
FILES["upright"] = saved(picture("RGB"), "JPEG", exif=exif(1))
FILES["upside_down"] = saved(picture("RGB"), "JPEG", exif=exif(3))


def of_each(*rows: tuple[str, PixelOptions, *tuple[str, ...]]) -> list[tuple[object, ...]]:
    """A case for each of the names with which a row begins."""
    return [(name, *rest) for names, *rest in rows for name in names.split()]


@pytest.mark.parametrize(
    ("name", "options"),
    of_each(
        ("jpeg jpeg_exif jpeg_cmyk jpeg_ycck apng bmp_pillow_L bmp_32", AUTO),
        ("gif_animated webp_animated webp_RGBA", AUTO),
        ("jpeg", JPEG),
        ("png_3_8 apng", PNG),
        ("jpeg", PixelOptions(resize=Resize("exact", 37, 45))),
        ("jpeg", PixelOptions(resize=Resize("shorter", 37, 37))),
        ("jpeg", PixelOptions(resize=Resize("longer", 46, 46, never_enlarge=True))),
        ("jpeg", PixelOptions(resize=Resize("exact", 20, 60, never_enlarge=True))),
        ("jpeg png_3_8 upside_down", RGB),
        ("jpeg_grey png_0_16", GRAY),
        ("jpeg_icc upright", APPLY),
    ),
)
def test_what_is_right_already_is_stored_byte_for_byte(name: str, options: PixelOptions) -> None:
    data = FILES[name]
    info = check_image(data, limits=LIMITS)
    tag = orientation_tag(data, info.format)
    original = Original(info.height, info.width, 1)
    untouched = CheckedImage(data, info, original, ("untouched",), orientation=tag)
    assert changed(data, options) == untouched


@pytest.mark.parametrize(
    ("name", "options", "stored", "changes"),
    of_each(
        ("gif_animated tiff_pages", PNG, "png 3", "transcoded first_frame"),
        ("webp_animated", PNG, "png 4", "transcoded first_frame"),
        ("upside_down", APPLY, "jpeg 3", "turned"),
        ("png_pillow_RGB", GRAY, "png 1", "recolored"),
        # Alpha is kept unless the options leave no room.
        ("png_pillow_RGBA png_3_8_trns", HALF, "png 4", "resized"),
        ("png_pillow_LA", HALF, "png 2", "resized"),
        ("webp_RGBA", HALF, "png 4", "transcoded resized"),
        ("png_pillow_LA", JPEG, "jpeg 1", "transcoded flattened"),
        ("png_pillow_RGBA webp_RGBA png_3_8_trns", JPEG, "jpeg 3", "transcoded flattened"),
        ("avif_RGBA jp2_RGBA tiff_RGBA tga_RGBA ico", AUTO, "png 4", "transcoded"),
        # TensorFlow refuses these or shows other pixels.
        ("bmp_8 bmp_rle8 bmp_4 bmp_16 bmp_long", AUTO, "png 3", "transcoded"),
        ("bmp_1", AUTO, "png 1", "transcoded"),
        ("avif_RGB jp2_RGB", AUTO, "jpeg 3", "transcoded"),
        ("avif_L jp2_L", AUTO, "jpeg 1", "transcoded"),
        ("webp_lossless_RGB", LARGER, "png 3", "transcoded resized"),
        ("webp_RGB", LARGER, "jpeg 3", "transcoded resized"),
        ("jpeg", PixelOptions("jpeg", quality=40), "jpeg 3", "reencoded"),
        ("png_2_8 gif webp_RGB bmp_24 tiff_RGB", JPEG, "jpeg 3", "transcoded"),
        ("jpeg gif webp_RGB bmp_24 tiff_RGB", PNG, "png 3", "transcoded"),
    ),
)
def test_changes_are_said(name: str, options: PixelOptions, stored: str, changes: str) -> None:
    made = changed(FILES[name], options)
    assert f"{made.info.format} {made.info.channels}" == stored
    assert " ".join(made.changes) == changes


def test_what_stays_is_checked_as_without_options() -> None:
    cut = WHOLE["png_2_8"][:-30]
    assert reason(cut, AUTO) is Reason.CORRUPT_IMAGE
    assert change_pixels(cut, AUTO, limits=LIMITS, check="header").data == cut
    with pytest.raises(RejectedImageError, match="PNG"):
        change_pixels(cut, HALF, limits=LIMITS, check="header")


@pytest.mark.parametrize("options", [AUTO, JPEG])
def test_a_large_image_is_not_copied(options: PixelOptions) -> None:
    """One of 177 megapixels took 1.07 GB with its grey pixels, and 1.4 with those of a JPEG."""
    data = saved(Image.new("RGB", (5000, 4000)), "TIFF", compression="tiff_adobe_deflate")
    limits = LIMITS._replace(max_pixels=20_000_000)
    with memory_below(15 << 20):
        change_pixels(data, options, limits=limits, with_hash=True)


def test_copies_are_in_proportion_to_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """178 megapixels in kilobytes took 2.9 GB with --resize, two of them 1.8 until decoded."""
    few = LIMITS._replace(max_pixels=60 * 60)
    monkeypatch.setattr(pixels, "DEFAULT_LIMITS", few)
    noise = Image.fromarray(np.random.default_rng(1).integers(0, 256, (60, 60, 3), np.uint8))
    blank = saved(Image.new("RGB", (60, 60)), "PNG", exif=exif(6))
    for options in (HALF, GRAY, APPLY):
        assert changed(saved(noise, "PNG", exif=exif(6)), options, few)
        with pytest.raises(RejectedImageError, match="a change holds .* bytes, more than 8100"):
            changed(blank[:-20], options, few)
    blank = saved(Image.new("L", (60, 60)), "PNG")
    assert changed(blank, PixelOptions(resize=Resize("exact", 5, 5)), few)


FEW = LIMITS._replace(max_pixels=100)


@cases(
    # They are checked before anything is decoded, and on what is stored.
    (WHOLE["jpeg"], AUTO, FEW, "too_many_pixels"),
    (FOREIGN["tga_RGB"][:500], AUTO, FEW, "too_many_pixels"),
    (FOREIGN["jp2_RGB"][:300], AUTO, FEW, "too_many_pixels"),
    (FOREIGN["tiff_RGB"], AUTO, Limits(1 << 24, 99), "too_many_bytes"),
    (b"", AUTO, LIMITS, "empty_file"),
    (WHOLE["jpeg"], PNG, LIMITS._replace(max_bytes=len(WHOLE["jpeg"])), "too_many_bytes"),
    (saved(Image.new("L", (65_501, 1)), "PNG"), JPEG, LIMITS, "unsupported_image"),
    # TensorFlow reads no such PNG, and Pillow raises MemoryError for far longer rows.
    (saved(Image.new("L", (1_000_001, 1)), "TIFF"), AUTO, LIMITS, "unsupported_image"),
)
def test_limits(data: bytes, options: PixelOptions, limits: Limits, expected: str) -> None:
    assert reason(data, options, limits).code == expected


def test_what_would_grow_too_large_is_not_made() -> None:
    data = saved(Image.new("L", (300, 1)), "PNG")
    options = PixelOptions(resize=Resize("shorter", 60, 60))
    few = LIMITS._replace(max_pixels=18_000 * 60)
    assert changed(data, options, few).info[1:3] == (60, 18_000)
    with pytest.raises(RejectedImageError, match="60 x 18000 pixels .* when it is resized"):
        changed(data, options, few._replace(max_pixels=few.max_pixels - 1))
    # Its rows are changed first: a column of a million pixels took 4 GB for 1000 x 1000.
    data = saved(Image.new("L", (1, 300)), "PNG")
    options = PixelOptions(resize=Resize.parse("60x5"))
    assert changed(data, options, few).info[1:3] == (5, 60)
    with pytest.raises(RejectedImageError, match="300 x 60 pixels .* when it is resized"):
        changed(data, options, few._replace(max_pixels=300 * 60 - 1))


@pytest.mark.parametrize("name", ["jpeg", "png_4_8", "png_6_8", "tiff_16", "tiff_deep", "tiff_f"])
def test_strips_of_any_size_give_the_same_bytes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = np.linspace(0, 1, 30, dtype=np.float32).reshape(6, 5)
    files = {"tiff_f": saved(Image.fromarray(numbers), "TIFF")}
    data = {**FILES, **files, "tiff_deep": tiff(samples(4), extra=1)}[name]
    many = [dataclasses.replace(options, transcode="auto") for options in MANY_OPTIONS.values()]
    if name.startswith("tiff"):
        # TensorFlow is not needed for grey.
        many += [dataclasses.replace(options, depth=16, color="gray") for options in many]
    block_size = _imaging.get_block_size()
    for options in many:
        whole = changed(data, options)
        with monkeypatch.context() as patch:
            # An image is in several blocks of memory then.
            _imaging.set_block_size(1 << 12)
            patch.setattr(check, "_STRIP", 16)
            assert changed(data, options) == whole
            _imaging.set_block_size(block_size)


def test_the_same_bytes_in_any_thread() -> None:
    names = ("jpeg", "png_6_8", "gif", "avif_RGB", "tiff_tiff_lzw", "jp2_16", "webp_RGB")
    jobs = [(FILES[name], options) for name in names for options in MANY_OPTIONS.values()] * 3
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda job: str(outcome(*job)), jobs))
    assert together == [str(outcome(*job)) for job in jobs]


def opened(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data))


class TestColor:
    @cases(
        ("png_pillow_RGB", GRAY, picture("RGB").convert("L")),
        ("png_pillow_L", RGB, picture("L").convert("RGB")),
        # Of a JPEG the decoder makes it gray.
        ("jpeg", PixelOptions("png", color="gray"), opened(WHOLE["jpeg"]).convert("L")),
    )
    def test_pixels(self, name: str, options: PixelOptions, drawn: Image.Image) -> None:
        assert distance(shown(changed(WHOLE[name], options).data).squeeze(), drawn) < 1

    @pytest.mark.parametrize("options", [RGB, PixelOptions("jpeg", color="rgb", quality=100)])
    def test_what_was_transparent_is_white(self, options: PixelOptions) -> None:
        drawn = Image.new("RGBA", (16, 16), (255, 0, 0, 0))
        drawn.paste((0, 0, 200, 255), (0, 0, 16, 8))
        drawn.paste((0, 0, 0, 128), (8, 0, 16, 8))
        stored = changed(saved(drawn, "PNG"), options)
        assert "flattened" in stored.changes
        expected = np.array([[[0, 0, 200], [127, 127, 127]], [[255] * 3, [255] * 3]])
        assert np.abs(shown(stored.data)[3::9, 3::9].astype(int) - expected).max() <= 12


# An XMP packet.
PLACE = b'<x exif:GPSLatitude="52,30N" tiff:Orientation="6"/>'


def tagged(image: Image.Image, format_: str, orientation: int) -> bytes:
    """The file of an image with an orientation."""
    if format_ == "TIFF":
        return saved(image, format_, tiffinfo={0x0112: orientation})
    return saved(image, format_, exif=exif(orientation), quality=95)


class TestOrientation:
    @pytest.mark.parametrize("size", [None, Resize("exact", 30, 20)])
    @pytest.mark.parametrize("format_", ["JPEG", "PNG", "WEBP", "TIFF", "AVIF"])
    def test_pixels_are_turned_upright(self, format_: str, size: Resize | None) -> None:
        """A size is that of the upright picture."""
        upright = slopes().resize((20, 30), Image.Resampling.LANCZOS) if size else slopes()
        for orientation in range(1, 9):
            lying = laid(slopes(), orientation)
            data = tagged(lying, format_, orientation)
            stored = changed(data, PixelOptions("png", size, exif_orientation="apply"))
            assert stored.original == Original(lying.height, lying.width, orientation)
            assert ("turned" in stored.changes) == (orientation != 1)
            assert stored.info[1:3] == (upright.height, upright.width)
            most = 0.1 if format_ in ("PNG", "TIFF") else 3
            assert distance(shown(stored.data), upright) < most
            assert stored.data == data or "exif" not in opened(stored.data).info

    @pytest.mark.parametrize("format_", ["JPEG", "PNG", "TIFF"])
    @pytest.mark.parametrize("transcode", ["jpeg", "png"])
    def test_a_kept_tag_stays_with_pixels_as_they_lie(self, format_: str, transcode: str) -> None:
        for orientation in range(1, 9):
            lying = laid(slopes(), orientation)
            high, wide = lying.height // 2, lying.width // 2
            options = PixelOptions(transcode, Resize("exact", high, wide))
            stored = changed(tagged(lying, format_, orientation), options)
            assert stored.original == Original(lying.height, lying.width, 1)
            assert stored.info[1:3] == (high, wide)
            with opened(stored.data) as reread:
                assert reread.getexif().get(0x0112, 1) == orientation
            small = lying.resize((wide, high), Image.Resampling.LANCZOS)
            assert distance(shown(stored.data), small) < 3

    @pytest.mark.parametrize("format_", ["JPEG", "WEBP"])
    def test_the_tag_is_of_the_file_and_the_place_of_stored_bytes(self, format_: str) -> None:
        data = saved(picture("RGB"), format_, xmp=PLACE)
        kept, half = changed(data, AS_THEY_ARE), changed(data, HALF)
        assert (kept.data, kept.orientation, kept.has_place) == (data, 6, True)
        assert (half.orientation, half.has_place) == (6, False)
        assert changed(saved(picture("RGB"), format_), HALF).orientation == 0

    # Pillow says 1 also if there is none.
    @pytest.mark.parametrize(("orientation", "found"), [(1, 0), (6, 6)])
    def test_the_tag_of_a_file_that_only_pillow_reads(self, orientation: int, found: int) -> None:
        assert changed(tagged(picture("RGB"), "TIFF", orientation), AUTO).orientation == found


class TestResize:
    @pytest.mark.parametrize("size", [(401, 603), (403, 601), (400, 600), (399, 597)])
    @pytest.mark.parametrize("side", [150, 90, 40, 25, 18])
    def test_a_smaller_scale_shows_the_same_there(self, size: tuple[int, int], side: int) -> None:
        rows, columns = np.mgrid[0 : size[0], 0 : size[1]]
        slope = 250 * columns / size[1]
        waves = 128 + 100 * np.sin(rows * 18 / size[0]) * np.cos(columns * 27 / size[1])
        for values, allowed in ((slope, 1.2), (waves, 2)):
            data = saved(Image.fromarray(values.astype(np.uint8)), "JPEG", quality=100)
            resize = Resize("shorter", side, side)
            stored = shown(changed(data, PixelOptions("png", resize)).data).squeeze()
            whole = Image.fromarray(shown(data).squeeze())
            expected = whole.resize(resize.size(*size)[::-1], Image.Resampling.LANCZOS)
            assert distance(stored, expected) < allowed

    @pytest.mark.parametrize("case", [(161, 1), (81, 1), (40, 2), (20, 4), (10, 8), (2, 8)])
    def test_large_jpegs_are_decoded_at_a_smaller_scale(
        self, case: tuple[int, int], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        decode = mock.Mock(wraps=simplejpeg.decode_jpeg)
        monkeypatch.setattr(pixels.simplejpeg, "decode_jpeg", decode)
        data = saved(picture("RGB", 161, 240), "JPEG")
        changed(data, PixelOptions("png", Resize("shorter", case[0], case[0])))
        assert decode.call_args.kwargs["min_factor"] == case[1]

    @given(
        st.tuples(*[st.integers(1, 70)] * 4),
        st.sampled_from([("JPEG", "RGB"), ("JPEG", "L"), ("PNG", "RGBA"), ("TIFF", "P")]),
        st.sampled_from(["auto", "jpeg", "png"]),
        st.sampled_from(["keep", "rgb", "gray"]),
    )
    def test_any_size_to_any_other(
        self, sides: tuple[int, ...], kind: tuple[str, str], transcode: str, color: str
    ) -> None:
        data = saved(picture(kind[1], *sides[:2]), kind[0])
        stored = changed(data, PixelOptions(transcode, Resize("exact", *sides[2:]), color))
        assert ("resized" in stored.changes) == (sides[:2] != sides[2:])
        assert stored.info[1:3] == sides[2:]
        assert stored.original == Original(sides[0], sides[1], 1)
        assert check_image(stored.data, limits=LIMITS) == stored.info

    @pytest.mark.parametrize("color", ["keep", "gray"])
    def test_16_bits_stay_16_bits(self, color: str, tensorflow: Any) -> None:
        stored = changed(saved(deep_picture(), "PNG"), dataclasses.replace(HALF, color=color))
        values = tensorflow.io.decode_png(stored.data, dtype=tensorflow.uint16).numpy()
        assert values.shape == (18, 22, 1) and len(np.unique(values)) > 300
        assert distance(values[:, :, 0], deep_picture().resize((22, 18))) < 655


LOSSLESS = lossless_images()


class TestTranscode:
    def test_auto_stores_every_pixel_of_a_lossless_file(self) -> None:
        for name in {*LOSSLESS} - {"jp2_L", "jp2_RGB"}:
            data, drawn = LOSSLESS[name]
            stored = changed(data, AUTO)
            assert (stored.info.format, stored.changes[0]) == ("png", "transcoded"), name
            mode = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}[stored.info.channels]
            assert ("A" in mode) == (drawn.mode in ("LA", "RGBA")), name
            expected = np.asarray(drawn.convert(mode)).reshape(stored.info[1:])
            assert np.array_equal(shown(stored.data), expected), name

    @cases(PixelOptions("jpeg", quality=100), PixelOptions("auto", color="rgb"))
    def test_16_bits_become_their_high_byte_without_room(self, options: PixelOptions) -> None:
        high = np.asarray(deep_picture()) >> 8
        stored = changed(deep_images()["tiff_16"], options)
        assert np.abs(shown(stored.data)[:, :, 0].astype(int) - high).max() <= 4

    def test_to_png_changes_nothing_that_tensorflow_shows(self) -> None:
        formats = ("jpeg", "png_", "gif", "webp", "jxl", "bmp")
        for name in (name for name in WHOLE if name.startswith(formats)):
            before, stored = outcome(WHOLE[name], AS_THEY_ARE), outcome(WHOLE[name], PNG)
            if isinstance(before, RejectedImageError):
                # Of these TensorFlow reads fewer than Pillow does.
                assert isinstance(stored, RejectedImageError) or name.startswith("bmp"), name
                continue
            assert isinstance(stored, CheckedImage), name
            if not name.startswith(("bmp", "png_0_8_trns", "png_2_16_trns")):
                assert np.array_equal(shown(stored.data), shown(WHOLE[name])), name

    @pytest.mark.parametrize("data", [WHOLE["bmp_rle8"], ICON], ids=["bmp", "ico"])
    def test_run_lengths_have_a_limit(self, data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
        """Files of 60 bytes that skip rows of 60 megapixels took 15 GB, those of 256 MB minutes."""
        monkeypatch.setattr(pillow_images, "MAX_RUN_LENGTHS", len(data))
        monkeypatch.setattr(pillow_images, "MAX_SIDE", 9)
        limits = LIMITS._replace(max_pixels=2 * 9 * 7)
        assert changed(data, AUTO, limits).changes == ("transcoded",)
        # Filling a row takes a tenth of a microsecond a pixel.
        assert reason(data, AUTO, limits._replace(max_pixels=125)) is Reason.TOO_MANY_PIXELS
        monkeypatch.setattr(pillow_images, "MAX_SIDE", 8)
        assert reason(data, AUTO) is Reason.TOO_COSTLY
        monkeypatch.undo()
        monkeypatch.setattr(pillow_images, "MAX_RUN_LENGTHS", len(data) - 1)
        assert reason(data, AUTO) is Reason.TOO_COSTLY

    @pytest.mark.parametrize("name", ["bmp_rle8", "bmp_1", "bmp_4", "bmp_16", "bmp_long"])
    def test_bmps_that_tensorflow_misreads_need_auto(self, name: str) -> None:
        assert isinstance(outcome(WHOLE[name], GRAY), RejectedImageError)

    def test_quality_is_that_of_the_jpeg(self) -> None:
        data = WHOLE["png_pillow_RGB"]
        sizes = [len(changed(data, PixelOptions("jpeg", quality=q)).data) for q in (1, 50, 95)]
        assert sizes == sorted(sizes) and sizes[0] < sizes[2] / 3
        assert len(changed(data, JPEG).data) == sizes[2]
        assert len(changed(WHOLE["jpeg"], PixelOptions("jpeg", quality=1)).data) < sizes[1]

    @pytest.mark.parametrize("name", ["jpeg_icc", "jpeg_exif"])
    def test_profiles_and_comments_are_left_out(self, name: str) -> None:
        assert len(changed(WHOLE[name], PNG).data) < 6000
        profiled = saved(picture("RGB"), "TIFF", icc_profile=bytes(5000))
        assert not opened(changed(profiled, AUTO).data).info


SIDES = st.integers(1, 20_000)
RULES = st.sampled_from(["shorter", "longer"])
RESIZES = st.one_of(
    st.builds(lambda rule, side, flag: Resize(rule, side, side, flag), RULES, SIDES, st.booleans()),
    st.builds(Resize, st.just("exact"), SIDES, SIDES, st.booleans()),
)


@cases(
    ("shorter=256", Resize("shorter", 256, 256)),
    ("longer=512,never_enlarge", Resize("longer", 512, 512, never_enlarge=True)),
    ("640x480", Resize("exact", height=480, width=640)),
    (" 224x224,never_enlarge ", Resize("exact", 224, 224, never_enlarge=True)),
    ("65500x1", Resize("exact", height=1, width=65_500)),
)
def test_sizes(text: str, resize: Resize) -> None:
    assert Resize.parse(text) == resize


HOW = "is not a size: (did you mean|write it like shorter=256)"
NONE = ["", "256", "x", "5x", "x5", "shorter", "shorter=", "shorter=-1", "wide=5", "5x5x5", "5.5x5"]
NONE += ["5*5", "longer=5,", "5x5,enlarge", "5 x 5", "٥x٥"]
SIDE = "a side has 1 to 65500 pixels"


@pytest.mark.parametrize(
    ("text", "message"),
    [(text, HOW) for text in NONE]
    + [(text, SIDE) for text in ("shorter=0", "0x5", "5x65501", "longer=99999")],
)
def test_no_sizes(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Resize.parse(text)


@given(RESIZES, SIDES, SIDES)
def test_sizes_that_are_made(resize: Resize, height: int, width: int) -> None:
    assert Resize.parse(str(resize)) == resize
    free = resize._replace(never_enlarge=False).size(height, width)
    bound = resize._replace(never_enlarge=True).size(height, width)
    grows = free[0] > height or free[1] > width
    assert bound == ((height, width) if grows else free)
    turned = resize._replace(height=resize.width, width=resize.height)
    assert turned.size(width, height) == resize.size(height, width)[::-1]
    if resize.rule == "exact":
        assert free == resize[1:3]
        return
    named = {"shorter": min, "longer": max}[resize.rule]
    assert named(free) == resize.height
    scale = resize.height / named(height, width)
    for now, before in zip(free, (height, width), strict=True):
        assert now == 1 or abs(now - before * scale) <= 0.5


@pytest.mark.usefixtures("tensorflow")
@pytest.mark.parametrize("mode", ["LA", "RGBA"])
def test_alpha_is_decoded_once(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pixels.pillow_images, "decode", None)
    drawn = picture(mode)
    raw = raw_pixels(saved(drawn, "PNG"), AS_THEY_ARE, limits=LIMITS)
    assert (raw.data, raw.info.channels) == (drawn.tobytes(), len(mode))


def test_nothing_changes_by_default() -> None:
    assert AS_THEY_ARE.changes_nothing and AS_THEY_ARE.jpeg_quality == 95
    assert PixelOptions(strip_metadata=True, depth=16).changes_nothing


@pytest.mark.parametrize("options", [{}, {"transcode": "png", "color": "rgb"}])
def test_a_quality_needs_jpegs_that_are_written(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="--quality (applies only to|cannot be used with)"):
        PixelOptions(**options, quality=5)
