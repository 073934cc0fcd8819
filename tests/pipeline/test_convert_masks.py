"""`--masks`, and further images of a layout file: found, joined, checked and stored."""

import io
import json
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pipeline.read import load
from tests.conftest import draw
from tests.images import picture
from tests.pipeline.commands import Dataset, check_sound, convert, make_dataset, plan, show, verify
from tests.pipeline.paired import (
    ENCODED,
    FORMAT,
    HEIGHT,
    WIDTH,
    by_key,
    damage_mask,
    draw_mask,
    indices,
    reasons,
    with_layout,
    write_pairs,
)

pytestmark = pytest.mark.slow


def flags(inputs: Path, **more: Any) -> dict[str, Any]:
    """The flags for photos with masks."""
    return {"images": f"{inputs}/photos/*/*.jpg", "masks": f"{inputs}/masks/*.png", **more}


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    """See `write_pairs`."""
    return write_pairs(tmp_path / "in", 4)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, for tests that only read them."""
    return write_pairs(tmp_path_factory.mktemp("shared") / "in", 4)


@pytest.fixture(scope="module")
def made(shared: Path) -> Dataset:
    """Their dataset."""
    return make_dataset(shared.parent / "out", **flags(shared))


def test_masks_keep_their_indices(shared: Path, made: Dataset, tmp_path: Path) -> None:
    stored, decoded = by_key(made), by_key(made, decode=True)
    assert {record[FORMAT] for record in stored.values()} == {b"png"}
    for key in ("0", "1", "2", "3"):
        assert decoded[key][ENCODED].tolist() == indices(int(key))[:, :, None].tolist()
    gray = (shared / "masks" / "1.png").read_bytes()
    assert stored["1"][ENCODED] == gray != stored["0"][ENCODED]
    assert made.ledger["partners_matched"] == made.ledger["partners_used"] == 4
    assert made.manifest["inputs"]["masks"] == [f"{shared}/masks/*.png"]
    check_sound(made.folder)
    features = json.loads((made.folder / "features.json").read_text())["featuresDict"]["features"]
    assert features[ENCODED]["image"]["shape"]["dimensions"] == ["-1", "-1", "1"]
    info = json.loads((made.folder / "dataset_info.json").read_text())
    keys = [each["featureKey"] for each in info["supervisedKeys"]["tuple"]["items"]]
    assert keys == ["image/encoded", ENCODED]
    shown = show(made.folder, "--images", tmp_path / "shown", "--limit", "1")
    assert shown.code == 0, shown.err
    names = sorted(path.name.rpartition("-")[2] for path in (tmp_path / "shown").iterdir())
    assert [name.partition(".")[2] for name in names] == ["jpg", "jpg.mask.png"]


def test_files_of_other_flags_are_no_masks(inputs: Path, tmp_path: Path) -> None:
    """Otherwise a rerun would find what the first run wrote."""
    labels = inputs / "masks" / "labels.csv"
    labels.write_text("id,label\n0,a\n1,b\n2,a\n3,b\n")
    options = flags(inputs, masks=f"{inputs}/masks/**", labels=labels)
    made = make_dataset(inputs / "masks" / "out", **options)
    assert made.ledger["partners_matched"] == 4 and made.rejected == []
    again = convert(output=made.folder, **options)
    assert again.code == 0 and again.out.startswith("up to date"), again.err
    assert "--masks matches files of --output" in again.out


def test_bad_masks_are_rejections(inputs: Path, tmp_path: Path) -> None:
    masks = inputs / "masks"
    for name in ("missing", "twice", "cut", "other", "colored", "한강"):
        draw(inputs / "photos" / "a" / f"{name}.jpg", seed=len(name))
    draw_mask(masks / "twice.png", seed=5)
    draw_mask(masks / "twice.PNG", seed=6)
    (masks / "cut.png").write_bytes((masks / "0.png").read_bytes()[:6])
    Image.new("L", (WIDTH, HEIGHT + 1)).save(masks / "other.png")
    picture("RGB", HEIGHT, WIDTH).save(masks / "colored.png")
    draw_mask(masks / "alone.png", seed=7)
    # As macOS spells it.
    draw_mask(masks / f"{unicodedata.normalize('NFD', '한강')}.png", seed=8)
    options = flags(inputs, max_rejected="100%")
    made = make_dataset(tmp_path / "out", **options)
    assert reasons(made) == {
        "missing.jpg": ("image", "no_partner"),
        "twice.jpg": ("image", "several_partners"),
        "cut.jpg": ("image", "not_an_image"),
        "other.jpg": ("image", "mask_size"),
        "colored.jpg": ("image", "unsupported_image"),
        "alone.png": ("partner", "partner_without_image"),
    }
    details = {Path(line["path"]).name: line["detail"] for line in made.rejected}
    assert details["cut.jpg"].startswith("the mask 'cut.png': ")
    assert by_key(made).keys() == {"0", "1", "2", "3", "한강"}
    assert made.ledger == {
        "images_matched": 10, "records_written": 5, "images_rejected": 5, "partners_matched": 11,
        "partners_used": 8, "partners_unmatched": 1, "partners_rejected": 2,
    }  # fmt: skip
    line = "partners 11 matched = 8 used + 1 without an image + 2 rejected"
    planned = plan(output=tmp_path / "planned", **options)
    assert line in planned.out, planned.err


def test_a_layout_file_names_further_images(inputs: Path, tmp_path: Path) -> None:
    layout = with_layout(inputs, "image: image.bytes, image/filename: image.path")
    made = make_dataset(tmp_path / "out", resize="8x6", **layout)
    check_sound(made.folder)
    for key, record in by_key(made, decode=True).items():
        assert record["right"].shape == record["image"].shape == (6, 8, 3)
        assert not np.array_equal(record["right"], record["image"])
        assert (record["right_format"], record["right_path"]) == (b"jpeg", f"{key}.jpg".encode())
        small = Image.fromarray(indices(int(key))).resize((8, 6), Image.Resampling.NEAREST)
        assert record["hand"][:, :, 0].tolist() == np.asarray(small).tolist()
    assert made.ledger["partners_used"] == 8


def test_masks_and_records_of_datasets(shared: Path, made: Dataset, tmp_path: Path) -> None:
    """Records have no masks to be joined, and those that they have are left out."""
    plain = make_dataset(tmp_path / "base", **flags(shared, label_from="none", masks=None))
    ran = convert(output=tmp_path / "out", **flags(shared, images=plain.folder))
    assert ran.code == 2
    assert "--masks cannot be used with --images" in ran.error()
    ran = convert(images=made.folder, output=tmp_path / "out")
    assert ran.code == 0
    assert f"{ENCODED} of {made.folder}" in ran.out
    assert ENCODED not in {each["name"] for each in Dataset(tmp_path / "out").manifest["features"]}


def test_verify_checks_masks(inputs: Path, tmp_path: Path) -> None:
    made = make_dataset(tmp_path / "out", **flags(inputs))
    damage_mask(made, lambda record: record.rindex(b"IDAT") + 4)
    ran = verify(made.folder)
    assert ran.code != 0
    assert "the mask (mask.bytes) is corrupt_image" in ran.out + ran.err


def test_load_decodes_masks(made: Dataset) -> None:
    for record in load(made.folder, "train").as_numpy_iterator():
        key = Path(record["image/filename"].decode()).stem
        assert record[ENCODED].tolist() == indices(int(key))[:, :, None].tolist()
    pairs = load(made.folder, "train", as_supervised=True, image_size=(24, 32), batch_size=4)
    [(images, masks)] = pairs.as_numpy_iterator()
    assert (images.shape, masks.shape) == ((4, 24, 32, 3), (4, 24, 32, 1))
    assert set(masks.flat) <= {*range(5), 255}
    assert Image.open(io.BytesIO(next(iter(by_key(made).values()))[ENCODED])).mode == "L"


# Which mask an image gets: names that end differently, and images that rows list.


@pytest.mark.parametrize("workers", [None, 2])
def test_images_that_rows_list_have_masks(
    workers: int | None, inputs: Path, tmp_path: Path
) -> None:
    for path in (inputs / "masks").iterdir():
        path.rename(path.with_stem(f"{path.stem}_mask"))
    draw_mask(inputs / "masks" / "alone_mask.png", seed=7)
    names = [*(f"{'ab'[number % 2]}/{number}" for number in range(4)), "a/missing"]
    rows = ["image_uri,label", *(f"photos/{name}.jpg,{name[0]}" for name in names)]
    (inputs / "listed.csv").write_text("\n".join(rows))
    options = {"labels": inputs / "listed.csv", "masks": f"{inputs}/masks/*_mask.png"}
    made = make_dataset(tmp_path / "out", max_rejected="100%", workers=workers, **options)
    [key] = [each for each in made.manifest["decided"] if each["what"] == "key"]
    assert (key["value"], key["because"]) == ("stem", "default with --masks")
    assert reasons(made) == {
        "missing.jpg": ("image", "unreadable"),
        "alone_mask.png": ("partner", "partner_without_image"),
    }
    texts = {key: each["image/class/text"] for key, each in by_key(made).items()}
    assert texts == {"0": b"a", "1": b"b", "2": b"a", "3": b"b"}
    for key, record in by_key(made, decode=True).items():
        assert record[ENCODED][:, :, 0].tolist() == indices(int(key)).tolist()
    assert (made.ledger["partners_matched"], made.ledger["partners_used"]) == (5, 4)
