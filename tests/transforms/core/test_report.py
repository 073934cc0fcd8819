"""The page itself: how large it can get, and that nothing in a dataset becomes a part of it."""

from __future__ import annotations

import base64
import json
import random
from typing import Any

import pytest

from tests.statistics_file import histogram
from transforms.core.manifest import FORMAT_VERSION
from transforms.core.rejections import Reason, Rejection
from transforms.core.report import Sources, render
from transforms.core.report_tables import MAX_LISTED, SHOWN_TWINS

MAX_PAGE = 5_000_000
HOSTILE = '</script><b onclick="x">\'{{ 7 * 7 }}'


def make_manifest(
    classes: int = 3, images: int = 60, shards: int = 2, name: str = "class", splits: int = 2
) -> dict[str, Any]:
    """A manifest of any size."""
    names = [f"{name} {number}" for number in range(classes)]
    each = {label: images // classes // splits for label in names}
    records = sum(each.values())
    shard = {"recipe": "0" * 32, "records": 9, "bytes": 150_000_000, "crc32c": "01234567"}
    files = [f"00{at:03}-of-{shards:05}.tfrecord" for at in range(shards)]
    return {
        "format_version": FORMAT_VERSION,
        "recipe": "f" * 32,
        "options": {"seed": 0, "exif_orientation": "keep", "class_names": None},
        "inputs": {"images": [f"{name}/*.jpg"]},
        "root": name,
        "versions": {"pillow": "12.3.0"},
        "features": [{"name": "image/encoded", "source": "image.bytes", "dtype": "bytes"}],
        "ledger": {
            "images_matched": splits * records + 4,
            "records_written": splits * records,
            "images_rejected": 4,
            "rows_read": 0,
        },
        "rejected": {"empty_file": 4},
        "splits": {
            f"split-{at}": {
                "records": records,
                "bytes": 10**9,
                "image_bytes": 10**9,
                "classes": each,
                "shards": [{"file": f"split-{at}-{file}", **shard} for file in files],
            }
            for at in range(splits)
        },
        "files": {"labels.txt": {"bytes": 1, "crc32c": "01234567"}},
    }


def make_image(at: int, name: str = "class") -> dict[str, Any]:
    """An image as `statistics.json` names it."""
    place = {"file": f"{at}.tfrecord", "offset": 16 * at, "length": 9}
    return {"key": f"{at}", "path": f"{name}/{at}.jpg", "class": name, "split": "split-0", **place}


def make_statistics(samples: int, groups: int, name: str = "class") -> dict[str, Any]:
    """Statistics with as many lists as there can be."""
    values = [random.Random(at).lognormvariate(7, 1) for at in range(500)]
    images = [make_image(at, name) for at in range(samples)]
    exact = [[make_image(1000 + 20 * at + n, name) for n in range(20)] for at in range(groups)]
    near = [[make_image(5000 + 2 * at + n, name) for n in range(2)] for at in range(groups)]
    counts = {"groups": groups, "images": 20 * groups, "across_splits": 1, "conflicts": 1}
    return {
        "images": 1_000_000,
        "formats": {"jpeg": 999_999, "png": 1},
        "orientations": {"1": 5, "6": 2},
        **{each: histogram(values) for each in ("width", "height", "bytes", "aspect")},
        "samples": images,
        "duplicates": {
            "exact": {
                **counts,
                "dropped": 0,
                "listed": [{"sha256": "", "conflict": True, "images": each} for each in exact],
            },
            "near": {
                "pairs": groups,
                "across_splits": 1,
                "compared": 9,
                "listed": [{"distance": 2, "images": each} for each in near],
            },
        },
    }


def make_sources(
    manifest: dict[str, Any],
    statistics: dict[str, Any],
    rejections: list[Rejection],
    picture_bytes: int = 0,
) -> Sources:
    """Sources with a picture of so many bytes wherever there can be one."""
    uri = "data:image/jpeg;base64," + base64.b64encode(b"x" * picture_bytes).decode()
    duplicates = statistics.get("duplicates") or {}
    images = [*statistics.get("samples", ())]
    for kind in duplicates.values():
        images += [image for group in kind["listed"] for image in group["images"][:SHOWN_TWINS]]
    pictures = {(image["file"], image["offset"]): uri for image in images}
    rejected = {rejection.path: uri for rejection in rejections[:48]}
    return Sources(manifest, statistics, rejections, pictures, rejected, ["lost.tfrecord"], ["a."])


def rejections_of(reasons: list[str], path: str) -> list[Rejection]:
    """As many of each reason as are listed."""
    return [
        Rejection("image", reason, "9" * 160, f"{path}/{reason}/{at}.jpg", "k")
        for reason in reasons
        for at in range(MAX_LISTED)
    ]


@pytest.mark.parametrize("name", ["class", "n" * 5000, "한강 " * 60, "<&>" * 60])
def test_a_million_images_of_ten_thousand_classes(name: str) -> None:
    manifest = make_manifest(classes=10_000, images=1_000_000, shards=700, name=name, splits=3)
    manifest["rejected"] = {reason.value: 100_000 for reason in Reason}
    rejections = rejections_of([*manifest["rejected"]], "p" * 900)
    # As many pictures as there can be, each as large as `transforms.report_pictures` lets it be.
    statistics = make_statistics(samples=600, groups=100, name=name)
    page = render(make_sources(manifest, statistics, rejections, picture_bytes=1_600_000 // 1400))
    assert 1_000_000 < len(page.encode()) < MAX_PAGE
    assert "10,000" in page
    if name == "class":
        assert page.count("<tr><th scope=row>") == 10_000


def test_what_does_not_fit_is_told() -> None:
    page = render(make_sources(make_manifest(200_000, 800_000, 30_000), {}, []))
    assert len(page.encode()) < MAX_PAGE
    assert "largest of 200,000; <code>manifest.json</code> has all of them" in page
    assert "of 60,000; <code>manifest.json</code> has all of them" in page
    assert "4 more in <code>rejected.jsonl</code>" in page


def test_nothing_of_a_dataset_is_markup() -> None:
    manifest = make_manifest(name=HOSTILE)
    manifest["options"][HOSTILE] = HOSTILE
    manifest["features"][0]["name"] = HOSTILE
    manifest["splits"] = {HOSTILE: manifest["splits"]["split-0"]}
    manifest["files"][HOSTILE] = {"bytes": 1, "crc32c": "0"}
    manifest["versions"][HOSTILE] = HOSTILE
    manifest["recipe"] = HOSTILE
    manifest["rejected"] = {HOSTILE: 1}
    statistics = make_statistics(3, 2, HOSTILE) | {"formats": {HOSTILE: 1}}
    sources = make_sources(manifest, statistics, [Rejection("image", *[HOSTILE] * 4)])
    page = render(sources._replace(missing=[HOSTILE], notes=[HOSTILE]))
    assert "onclick=&#34;x&#34;" in page
    assert "<b onclick" not in page and 'onclick="' not in page
    assert "49" not in page.replace("{{ 7 * 7 }}", "").split("<main")[0].split("</style>")[1]
    assert page.count("</script>") == 1


def test_signatures_and_passwords_are_hidden() -> None:
    secret = "gs://bucket/a.jpg?X-Goog-Signature=abcdef0123456789"
    manifest = make_manifest(name=secret)
    manifest["options"]["class_names"] = secret
    statistics = make_statistics(3, 2, secret)
    page = render(
        make_sources(
            manifest, statistics, [Rejection("image", "empty_file", secret, secret, secret)]
        )
    )
    assert "X-Goog-Signature=[hidden]" in page
    assert "abcdef0123456789" not in page


def test_the_same_sources_give_the_same_page() -> None:
    sources = make_sources(make_manifest(), make_statistics(5, 2), [], 9)
    assert render(sources) == render(sources)


@pytest.mark.parametrize("absent", ["samples", "width", "formats", "orientations", "duplicates"])
def test_any_part_of_the_statistics_may_be_absent(absent: str) -> None:
    statistics = make_statistics(5, 2)
    del statistics[absent]
    assert "</html>" in render(make_sources(make_manifest(), statistics, []))
    if absent == "duplicates":
        assert "</html>" in render(
            make_sources(make_manifest(), {**statistics, "duplicates": None}, [])
        )


def test_a_dataset_of_rows_alone() -> None:
    """Their ledger counts no images, and their splits no bytes of them."""
    manifest = make_manifest(classes=1, name="")
    manifest["features"] = [{"name": "age", "source": "csv.age", "dtype": "int64"}]
    manifest["ledger"] = {"images_matched": 0, "records_written": 9, "images_rejected": 0}
    manifest["ledger"] |= {"rows_read": 10, "rows_used": 9, "rows_rejected": 1}
    for split in manifest["splits"].values():
        del split["image_bytes"]
        split["classes"] = {}
    page = render(make_sources(manifest, {}, []))
    assert "images matched" not in page and "<b>10</b> rows read" in page
    assert 'id="class-table"' not in page


def test_an_unknown_reason_is_listed_without_advice() -> None:
    manifest = make_manifest() | {"rejected": {"of_a_later_version": 1}}
    rejection = Rejection("image", "of_a_later_version", "why", "a.jpg", "a")
    page = render(make_sources(manifest, {}, [rejection]))
    assert "of_a_later_version" in page and "a.jpg" in page


def test_statistics_are_plain_json() -> None:
    """The tests above would show nothing with keys that JSON does not have."""
    statistics = make_statistics(2, 2)
    assert json.loads(json.dumps(statistics)) == statistics
