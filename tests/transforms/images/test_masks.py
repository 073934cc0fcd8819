"""Masks keep their class indices in step with the image; those of COCO are what it draws."""

import io
import json
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from PIL import Image, ImageOps
from pycocotools import mask as coco

from tests.foreign_images import exif
from tests.images import picture, png_file, saved
from tests.marks import cases
from tests.pipeline.annotated import decode_runs
from tests.spies import memory_below
from transforms.core.rejections import RejectedImageError
from transforms.images import masks as masks_module
from transforms.images.masks import ObjectMasks, refitted_mask, store_mask
from transforms.images.pillow_images import BACK, TURNS
from transforms.images.pixel_options import DEFAULT_LIMITS, Frame, PixelOptions, Resize
from transforms.images.pixels import change_pixels

HEIGHT, WIDTH = 9, 14
SIZE = [HEIGHT, WIDTH]
ALL = HEIGHT * WIDTH
FRAME = Frame(HEIGHT, WIDTH, stored=(HEIGHT, WIDTH))

# VOC's palette: neighbouring indices have colors that no rule of gray could order.
PALETTE = bytes((7 * at + 91 * band) % 256 for at in range(256) for band in range(3))


def indices(seed: int = 0) -> Any:
    """Class indices, with the border 255 of VOC."""
    drawn = np.random.default_rng(seed).integers(0, 21, (HEIGHT, WIDTH), dtype=np.uint8)
    drawn[0] = 255
    return drawn


def gray(values: Any, **options: Any) -> bytes:
    return saved(Image.fromarray(values), "PNG", **options)


def palette(values: Any, format_: str = "PNG", **options: Any) -> bytes:
    image = Image.frombytes("P", values.shape[::-1], values.tobytes())
    image.putpalette(PALETTE)
    # Otherwise Pillow would give the colors of a GIF other numbers.
    return saved(image, format_, **{"optimize": False, **options})


def merged(mode: str) -> bytes:
    """A mask in colors or with opaque alpha."""
    return saved(Image.fromarray(indices()).convert(mode), "PNG")


def deep_mask(color: int, channels: int) -> bytes:
    """16 bits of which Pillow keeps the upper bytes, which are 0 for every index."""
    row = b"\0" + struct.pack(">H", 3) * channels * WIDTH
    head = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 16, color, 0, 0, 0)
    pixels = zlib.compress(row * HEIGHT)
    return png_file([(b"IHDR", head), (b"IDAT", pixels), (b"IEND", b"")])


def read(data: bytes) -> Any:
    """The indices in a stored mask, as any reader of gray PNGs sees them."""
    image = Image.open(io.BytesIO(data))
    assert (image.format, image.mode) == ("PNG", "L")
    return np.asarray(image)


def store(data: bytes, frame: Frame = FRAME, **options: Any) -> bytes:
    return store_mask(data, frame, limits=DEFAULT_LIMITS, **options)


@cases(
    *((palette(indices(), format_), 255) for format_ in ("PNG", "GIF", "BMP")),
    *((palette(indices() % 2**bits, bits=bits), 2**bits - 1) for bits in (1, 2, 4)),
    (merged("RGB"), 255),
    (merged("LA"), 255),
    (gray(indices().astype(np.uint16)), 255),
)
def test_what_a_mask_may_be(data: bytes, largest: int) -> None:
    assert np.array_equal(read(store(data)), indices() & largest)


def test_a_gray_png_is_stored_byte_for_byte_unless_it_is_stripped() -> None:
    data = gray(indices())
    assert store(data) is data
    data = gray(indices(), exif=exif(1))
    stripped = store(data, strips=True)
    assert len(stripped) < len(data) or b"eXIf" in stripped
    assert np.array_equal(read(stripped), indices())


LARGE_INDEX = indices().astype(np.uint16)
LARGE_INDEX[3, 4] = 1001


def test_a_large_mask_is_not_copied() -> None:
    """One of 178 megapixels in gray colors took 1.8 GB."""
    data = saved(Image.new("RGB", (5000, 4000)), "PNG")
    with memory_below(15 << 20):
        store_mask(data, Frame(4000, 5000, stored=(4000, 5000)), limits=DEFAULT_LIMITS)


FRAMES = [Image.fromarray(indices(seed)) for seed in range(2)]


@cases(
    (gray(LARGE_INDEX), "unsupported_image", "a class index is 1001"),
    *(
        (deep_mask(color, channels), "unsupported_image", "16 bits of color or with alpha")
        for color, channels in ((2, 3), (4, 2), (6, 4))
    ),
    (
        saved(FRAMES[0], "GIF", save_all=True, append_images=FRAMES[1:]),
        "unsupported_image",
        "several frames",
    ),
    (saved(picture("RGB", *SIZE), "PNG"), "unsupported_image", "are colors"),
    (saved(picture("LA", *SIZE), "PNG"), "unsupported_image", "transparent"),
    (saved(picture("L", *SIZE), "JPEG"), "unsupported_image", "save masks as PNG"),
    (saved(Image.new("1", (14_000, 14_000)), "PNG"), "too_many_pixels", "14000 x 14000"),
    (gray(indices().T.copy()), "mask_size", "14 x 9 pixels, but its image is 9 x 14"),
    (b"", "empty_file", "0 bytes"),
    (b"no mask", "not_an_image", "begins with the bytes"),
    # TensorFlow decides about a damaged file, as for images.
    pytest.param(gray(indices())[:-30], "corrupt_image", "PNG", marks=pytest.mark.slow),
    pytest.param(palette(indices())[:-30], "corrupt_image", "PNG", marks=pytest.mark.slow),
)
def test_what_is_no_mask_of_the_image_is_rejected(data: bytes, reason: str, detail: str) -> None:
    with pytest.raises(RejectedImageError, match=detail) as raised:
        store(data)
    assert raised.value.reason.code == reason


@given(
    tag=st.integers(1, 8),
    own=st.integers(1, 8),
    rule=st.sampled_from(["apply", "keep"]),
    size=st.sampled_from([None, "5x7", "28x18", "shorter=4", "longer=30,never_enlarge"]),
    seed=st.integers(0, 9),
)
def test_masks_follow_images(tag: int, own: int, rule: str, size: str | None, seed: int) -> None:
    """The image shows the same indices as the mask, so both have to stay equal."""
    upright = Image.fromarray(indices(seed))

    def file(orientation: int) -> bytes:
        stored = upright if orientation == 1 else upright.transpose(BACK[orientation])
        return saved(stored, "PNG", exif=exif(orientation))

    options = PixelOptions(resize=Resize.parse(size) if size else None, exif_orientation=rule)
    image = change_pixels(file(tag), options, limits=DEFAULT_LIMITS)
    frame = Frame(*image.original, tag, (image.info.height, image.info.width))
    assert frame == image.frame
    mask = store(file(own), frame)
    shown, masked = (
        ImageOps.exif_transpose(Image.open(io.BytesIO(data))) for data in (image.data, mask)
    )
    assert shown.size == masked.size and read(mask).shape == frame.stored
    if size is None:
        assert np.array_equal(np.asarray(shown), indices(seed))
        assert np.array_equal(np.asarray(masked), indices(seed))
    assert set(read(mask).flat) <= set(indices(seed).flat)


@given(tag=st.integers(1, 8), side=st.integers(1, 20), other=st.integers(1, 20))
def test_resized_masks_have_nearest_indices(tag: int, side: int, other: int) -> None:
    """In step with the pixels of the image, before a viewer rotates both."""
    upright = Image.fromarray(indices())
    stored = upright if tag == 1 else upright.transpose(BACK[tag])
    sides = ((side, stored.height), (other, stored.width))
    # In the middle between two pixels, both are the nearest.
    assume(all((2 * at + 1) * old % (2 * new) for new, old in sides for at in range(new)))
    mask = read(store(gray(indices()), Frame(stored.height, stored.width, 1, tag, (side, other))))
    rows, columns = (((np.arange(new) + 0.5) * old / new).astype(int) for new, old in sides)
    assert np.array_equal(mask, np.asarray(stored)[rows][:, columns])


# Segmentations of COCO.

TRIANGLE = [1, 1.5, 12, 1.5, 1, 8]
POLYGONS = [TRIANGLE, [8, 2, 13.9, 2, 13.9, 8.7, 8, 8.7]]


def drawn(value: Any, frame: Frame = FRAME, *, is_upright: bool = False) -> Any:
    """The values of the mask of a segmentation."""
    text = value if isinstance(value, str) else json.dumps(value)
    return read(ObjectMasks(frame, is_upright=is_upright).mask(text))


def polygons(height: int = HEIGHT, width: int = WIDTH) -> Any:
    """`POLYGONS` as TensorFlow's script draws them: each alone, then the maximum."""
    return np.amax(decode_runs(coco.frPyObjects(POLYGONS, height, width)), axis=2)


def normalized(height: int, width: int) -> Any:
    """`POLYGONS` as YOLO writes outlines."""
    sides = [np.divide(np.reshape(each, (-1, 2)), (width, height)) for each in POLYGONS]
    return {"normalized": [each.ravel().tolist() for each in sides]}


@cases(
    # They are cut off at the border.
    ([[-WIDTH, -HEIGHT, 2 * WIDTH, -HEIGHT, 2 * WIDTH, 18, -WIDTH, 18]], 1),
    ([[-5, 0, -5, 8, -1, 8]], 0),
    ("", 0),
    ("[]", 0),
)
def test_all_or_nothing(value: Any, expected: int) -> None:
    assert np.array_equal(drawn(value), np.full(SIZE, expected))


@given(
    st.sampled_from(["%g", "%.6f", "%.17g"]),
    st.lists(st.tuples(st.integers(0, 6400), st.integers(0, 4800)), min_size=3, max_size=9),
    st.sampled_from([10, 100]),
)
def test_outlines_of_yolo_are_masks(form: str, places: list[tuple[int, int]], parts: int) -> None:
    """Also with the six digits that Ultralytics writes."""
    height, width = 480, 640
    polygon = np.divide(places, parts)
    shares = [float(form % each) for each in (polygon / (width, height)).ravel()]
    expected = decode_runs(coco.frPyObjects([polygon.ravel().tolist()], height, width))[..., 0]
    frame = Frame(height, width, stored=(height, width))
    assert (drawn({"normalized": [shares]}, frame) == expected).all()


@given(st.integers(1, 30), st.integers(1, 30), st.integers(0, 2**31), st.sampled_from([0, 0.5, 1]))
def test_run_lengths(height: int, width: int, seed: int, share: float) -> None:
    """Compressed and not, of any mask: those that pycocotools writes."""
    random = np.random.default_rng(seed).random((height, width))
    wanted = (random < share).astype(np.uint8)
    counts = coco.encode(np.asfortranarray(wanted))["counts"].decode()
    runs = [0] if wanted.T.flat[0] else []
    changes = np.flatnonzero(np.diff(wanted.T.flat)) + 1
    runs += np.diff([0, *changes, wanted.size]).tolist()
    frame = Frame(height, width, stored=(height, width))
    for each in (counts, runs):
        assert np.array_equal(drawn({"size": [height, width], "counts": each}, frame), wanted)


@pytest.mark.parametrize("tag", range(1, 9))
@pytest.mark.parametrize("is_upright", [False, True])
def test_object_masks_follow(tag: int, is_upright: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Polygons of the pixels in the file, and of the upright image, kept and turned."""
    upright = (WIDTH, HEIGHT) if tag > 4 else (HEIGHT, WIDTH)
    sides = upright if is_upright else (HEIGHT, WIDTH)

    def turned(mask: Any, turns: Any) -> Any:
        return np.asarray(Image.fromarray(mask).transpose(turns[tag])) if tag > 1 else mask

    kept, applied = FRAME._replace(tag=tag), Frame(HEIGHT, WIDTH, tag, tag, upright)
    shown = polygons(*upright) if is_upright else turned(polygons(), TURNS)
    stored = turned(polygons(*upright), BACK) if is_upright else polygons()
    for value in (POLYGONS, normalized(*sides)):
        assert np.array_equal(drawn(value, kept, is_upright=is_upright), stored)
        assert np.array_equal(drawn(value, applied, is_upright=is_upright), shown)
    # The same from the mask in a record, for a run that turns its image.
    assert np.array_equal(read(refitted_mask(gray(polygons()), applied)), turned(polygons(), TURNS))
    # The same if it becomes far smaller, and only its pixels are looked up.
    small = applied._replace(stored=(3, 5))
    found = drawn(normalized(*sides), small, is_upright=is_upright)
    monkeypatch.setattr(masks_module, "_OF_SAMPLE", 1 << 20)
    assert np.array_equal(found, drawn(normalized(*sides), small, is_upright=is_upright))


def test_resizing_takes_nearest_neighbours() -> None:
    larger = FRAME._replace(stored=(2 * HEIGHT, 2 * WIDTH))
    twice = np.kron(polygons(), np.ones((2, 2)))
    assert np.array_equal(drawn(POLYGONS, larger), twice)
    mask = gray(polygons())
    assert np.array_equal(read(refitted_mask(mask, larger)), twice)
    assert refitted_mask(mask, FRAME) is mask


@cases(
    (b"no image", "not_an_image"),
    (saved(Image.new("L", (WIDTH, HEIGHT + 1)), "PNG"), "too_many_pixels"),
    (saved(Image.new("L", (HEIGHT, WIDTH)), "PNG"), "mask_size"),
    (saved(Image.new("RGB", (WIDTH, HEIGHT)), "PNG"), "mask_size"),
    (saved(Image.new("L", (WIDTH, HEIGHT)), "JPEG"), "mask_size"),
    (saved(Image.new("L", (WIDTH, HEIGHT)), "PNG")[:-20], "corrupt_image"),
)
@pytest.mark.parametrize("turn", [1, 3])
def test_a_record_may_hold_anything(mask: bytes, reason: str, turn: int) -> None:
    """Whether its image is turned now or stays as it is."""
    with pytest.raises(RejectedImageError) as caught:
        refitted_mask(mask, FRAME._replace(applied=turn, tag=turn))
    assert caught.value.reason.code == reason


def test_of_headers_alone_no_pixels_are_decoded() -> None:
    damaged = gray(polygons())[:-20]
    assert refitted_mask(damaged, FRAME, check="header") is damaged
    with pytest.raises(RejectedImageError):
        refitted_mask(damaged, FRAME._replace(applied=3, tag=3), check="header")


BAD: list[tuple[Any, str]] = [
    ("{", "'{' is not a segmentation, as in COCO"),
    ("more than 1048576 characters", "'more than 1048576 characters' is not a segmentation"),
    ("[" * 100_000, "is not a segmentation, as in COCO"),
    ({"counts": [ALL]}, "is not a segmentation"),
    (7, "'7' is not a segmentation"),
    ([1, 1, 12, 1, 1, 8], "the polygon 1 is not a list of x and y of three points or more"),
    ([[1, 1, 12, 1]], "the polygon [1, 1, 12, 1] is not a list of x and y of three points"),
    ([[1, 1, 12, 1, 1, 8, 3]], "is not a list of x and y of three points or more"),
    ([[1, 1, 12, 1, 1, "8"]], "is not a list of x and y"),
    ([[1, 1, 12, 1, 1, True]], "is not a list of x and y"),
    ([{"x": 1}], "the polygon {'x': 1} is not a list"),
    ("[[1, 1, 12, 1, 1, NaN]]", "y nan of a polygon is far outside of the image, 0 to 9"),
    ("[[1, 1, -1e999, 1, 1, 8]]", "x -inf of a polygon is far outside of the image, 0 to 14"),
    ([[1, 1, 29, 1, 1, 8]], "x 29 of a polygon is far outside of the image, 0 to 14"),
    (f"[[1, 1, {10**400}, 1, 1, 8]]", "x 1000"),
    ({"normalized": [[0, 0, 2.5, 1, 0, 1]]}, "x 2.5 of a polygon is far outside of the image"),
    ({"normalized": [TRIANGLE]}, "x 12 of a polygon"),
    ({"normalized": [[0, 0, 1, 1]]}, "is not a list of x and y of three points or more"),
    ({"normalized": 1}, "'{\"normalized\": 1}' is not a segmentation"),
    ({"normalized": [], "size": SIZE}, "is not a segmentation"),
    ({"counts": [ALL - 1], "size": SIZE}, "its counts have 125 pixels, not 126"),
    ({"counts": [], "size": SIZE}, "its counts have 0 pixels, not 126"),
    ({"counts": [10**300], "size": SIZE}, "its counts have too many pixels, not 126"),
    *(
        ({"counts": counts, "size": SIZE}, "are not run lengths")
        for counts in ([ALL + 1, -1], [float(ALL)], {}, "0a", "한", "o" * 100_000, "00M")
    ),
]


@pytest.mark.parametrize(("value", "says"), BAD, ids=range(len(BAD)))
def test_bad_segmentations(value: Any, says: str) -> None:
    with pytest.raises(RejectedImageError) as caught:
        drawn(value)
    assert caught.value.reason.code == "bad_cell"
    assert says in caught.value.detail and len(caught.value.detail) < 120


_NUMBERS = (
    st.integers(-40, 40) | st.floats() | st.none() | st.booleans() | st.text("0a9Po~", max_size=9)
)
_COUNTS = st.lists(st.integers(-1, 2 * ALL), max_size=6) | st.text("0123456789OPo4", max_size=12)
_ANY = (
    st.lists(st.lists(_NUMBERS, max_size=9) | _NUMBERS, max_size=4)
    | st.lists(st.lists(st.floats(-WIDTH, 2 * WIDTH), min_size=6, max_size=8), max_size=3)
    | st.fixed_dictionaries({"normalized": _NUMBERS | st.lists(st.lists(_NUMBERS, max_size=9))})
    | st.fixed_dictionaries({"size": st.just(SIZE) | _NUMBERS, "counts": _COUNTS | _NUMBERS})
)


@given(_ANY)
def test_any_segmentation_is_a_mask_or_a_reason(value: Any) -> None:
    try:
        mask = drawn(value)
    except RejectedImageError as error:
        assert error.reason.code in ("bad_cell", "mask_size") and error.detail.isprintable()
    else:
        assert mask.shape == (HEIGHT, WIDTH) and set(mask.flat) <= {0, 1}


@pytest.mark.parametrize("size", [[HEIGHT, WIDTH + 1], [WIDTH, HEIGHT], [100_000, 100_000], "x"])
def test_run_lengths_of_another_size(size: Any) -> None:
    with pytest.raises(RejectedImageError) as caught:
        drawn({"size": size, "counts": [10**10]})
    assert caught.value.reason.code == "mask_size"
    assert f"but its image is {SIZE} (height, width)" in caught.value.detail


# 11 steps to the right and 11 back, as often as that is within the limit.
STEPS = [1, 1, 12, 1] * 50_000


@cases(
    ([STEPS], "an outline of 1100000 pixels, more than"),
    ([STEPS[:100_000], STEPS[100_000:]], "an outline of 1100000 pixels, more than"),
    ([TRIANGLE] * 10_001, "10001 polygons, more than 10000"),
    ([], "are too many for masks of objects"),
)
def test_too_long_is_not_drawn(value: Any, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not value:
        monkeypatch.setattr(masks_module, "_MAX_PIXELS", ALL - 1)
    with pytest.raises(RejectedImageError, match=message):
        drawn(value)


def zigzags() -> Iterator[str]:
    """Outlines of 980,000 pixels, each in 4 KB of text."""
    for start in range(20):
        points = [(0 if at % 2 else 1999, (start + 4 * at) % 2000) for at in range(490)]
        yield json.dumps([[value for point in points for value in point]])


def long_runs() -> Iterator[str]:
    for first in range(9):
        runs = [first, *[1] * 99_999, 3_900_001 - first]
        yield json.dumps({"size": [2000, 2000], "counts": runs})


@cases(
    ("MAX_OUTLINES", zigzags, "the outlines of its objects have more than 1048576 pixels"),
    ("MAX_SEGMENTATIONS", long_runs, "the segmentations of its objects have more than 1048576"),
)
def test_all_objects_of_an_image_are_bounded(
    limit: str, texts: Callable[[], Iterator[str]], detail: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(masks_module, limit, 1 << 20)
    masks = ObjectMasks(Frame(2000, 2000, stored=(20, 20)), is_upright=False)
    each = texts()
    masks.mask(next(each))
    with pytest.raises(RejectedImageError, match=detail) as caught:
        for text in each:
            masks.mask(text)
    assert caught.value.reason.code == "too_costly"


def test_equal_segmentations_share_their_mask() -> None:
    masks = ObjectMasks(Frame(5000, 4000, stored=(5000, 4000)), is_upright=False)
    found = [masks.mask(text) for text in ["", json.dumps(POLYGONS)] * 500]
    assert len(set(map(id, found))) == 2


@cases(
    (Frame(64, 64, stored=(4000, 4000)), 33, 544_000_000),
    (Frame(5000, 4000, stored=(50, 40)), 67_108, 536_872_000),
)
def test_masks_have_the_cost_of_their_pixels(frame: Frame, most: int, pixels: int) -> None:
    masks = ObjectMasks(frame, is_upright=False)
    masks.check_cost(most)
    with pytest.raises(RejectedImageError, match=f"have {pixels} pixels together.* more than 536"):
        masks.check_cost(most + 1)
