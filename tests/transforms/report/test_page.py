"""The page itself: how large it can get, and that nothing in a dataset becomes a part of it."""

import html
import itertools
import random
import re
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.marks import cases, rest_slow
from tests.report_sources import histogram as counted
from tests.report_sources import make_manifest, make_sources, make_statistics
from transforms.core.messages import Decision, entries_of
from transforms.core.rejections import Reason, Rejection
from transforms.report.page import (
    advice,
    class_table,
    count_ticks,
    flow,
    histogram,
    page_template,
    pieces,
    prose,
    render,
    settings,
    shares,
    verdict,
    wrapped,
)
from transforms.write_report import MAX_LISTED

MAX_PAGE = 5_000_000
OF_IMAGES = ("decodes", "leakage", "conflicts", "gps", "upright", "odd", "looks")
HOSTILE = '</script><b onclick="x">\'{{ 7 * 7 }}'


def rejections_of(reasons: list[str], path: str) -> list[Rejection]:
    """As many rejections of each reason as the page lists."""
    return [
        Rejection("image", reason, "9" * 160, f"{path}/{reason}/{at}.jpg", "k")
        for reason in reasons
        for at in range(MAX_LISTED)
    ]


@pytest.mark.parametrize("name", rest_slow(["class", "n" * 5000, "한강 " * 60, "<&>" * 60]))
def test_a_million_images_of_ten_thousand_classes(name: str) -> None:
    manifest = make_manifest(classes=10_000, images=1_000_000, shards=700, name=name, splits=3)
    manifest["rejected"] = {reason.code: 100_000 for reason in Reason}
    rejections = rejections_of([*manifest["rejected"]], "p" * 900)
    # As many pictures as there can be, each as large as `transforms.write_report` lets it be.
    statistics = make_statistics(samples=600, groups=100, name=name)
    page = render(make_sources(manifest, statistics, rejections, picture_bytes=1_600_000 // 1400))
    assert 1_000_000 < len(page.encode()) < MAX_PAGE
    assert "10,000" in page
    if name == "class":
        assert page.count("<tr><th scope=row>") == 10_000


def test_a_page_compiles_only_the_parts_that_it_has() -> None:
    """Compiling a template takes longer than rendering it, and is part of each run."""
    page_template.cache_clear()
    compiled = page_template().environment.cache
    assert compiled is not None
    manifest, statistics = make_manifest(), make_statistics(samples=3, groups=0)
    for counts in statistics["duplicates"].values():
        counts["across_splits"] = 0
    statistics |= {"orientations": {"1": 5}}
    statistics["duplicates"]["exact"]["conflicts"] = 0
    sources = make_sources(manifest | {"rejected": {}}, statistics, [])
    render(sources._replace(missing=[], notes=[]))
    assert len(compiled) == 1
    render(make_sources(manifest, make_statistics(samples=3, groups=2), []))
    assert len(compiled) == 4


@pytest.mark.parametrize(("classes", "shards"), rest_slow([(20_000, 3_000), (200_000, 30_000)]))
def test_what_does_not_fit_is_reported(classes: int, shards: int) -> None:
    page = render(make_sources(make_manifest(classes, 4 * classes, shards), {}, []))
    assert len(page.encode()) < MAX_PAGE
    assert f"largest of {classes:,}; <code>manifest.json</code> has all of them" in page
    assert f"of {2 * shards:,}; <code>manifest.json</code> has all of them" in page
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
    assert page.count("{{ 7 * 7 }}") > 20
    assert "49" not in page.replace("{{ 7 * 7 }}", "").split("<main")[0].split("</style>")[1]
    assert page.count("</script>") == 1


def test_the_lists_of_an_edited_dataset_are_cut() -> None:
    """200,000 decisions took 42 CPU seconds, seven pages of 20 MB each."""
    many, lines = {f"n{at}": 1 for at in range(9000)}, [{"text": "--a", "what": "--a"}] * 9000
    manifest = make_manifest() | dict.fromkeys(("inputs", "options", "versions"), many)
    manifest |= {"decided": lines, "warnings": lines}
    statistics = make_statistics(samples=3, groups=1) | {"formats": many}
    statistics["duplicates"]["exact"]["listed"] *= 9000
    page = render(make_sources(manifest, statistics, []))
    assert page.count(">--a</th>") == page.count(">--a</code>") == 200
    assert "n199" in page and "n200" not in page and len(page) < 600_000


@cases("samples", "width", "formats", "orientations", "duplicates", "duplicates: none")
def test_any_part_of_the_statistics_may_be_absent(absent: str) -> None:
    name, _, is_none = absent.partition(": ")
    statistics = make_statistics(5, 2)
    del statistics[name]
    given = {**statistics, name: None} if is_none else statistics
    assert "</html>" in render(make_sources(make_manifest(), given, []))


def test_a_dataset_of_rows_alone() -> None:
    """Their ledger counts no images, and their splits no bytes of them."""
    manifest = make_manifest(classes=1, name="")
    manifest["features"] = [{"name": "age", "source": "csv.age", "dtype": "int64"}]
    manifest["ledger"] = {"images_matched": 0, "records_written": 9, "images_rejected": 0}
    manifest["ledger"] |= {"rows_read": 10, "rows_written": 9, "rows_rejected": 1}
    for split in manifest["splits"].values():
        del split["image_bytes"]
        split["classes"] = {}
    page = render(make_sources(manifest, {}, []))
    assert "images matched" not in page and "<b>10</b> rows read" in page
    assert 'id="class-table"' not in page


def test_classes_are_in_the_order_of_their_names_and_take_no_time_each() -> None:
    shown = class_table({"all": {"classes": {"10": 1, "9": 5, "b": 2, "": 7, "a": 9, "B": 1}}}, 1)
    assert [row["name"] for row in shown["rows"]] == ["9", "10", "a", "B", "b"]
    assert shown["total"] == 5
    classes = {f"{at}": 1 for at in range(20_000)}
    splits = {f"s{at}": {"classes": {} if at else classes} for at in range(1000)}
    started = time.process_time()
    assert class_table(splits, 1)["total"] == 20_000
    assert time.process_time() - started < 2


@cases(
    ({"empty_file": 3, "no_label": 1}, "image", ["3 empty_file", "1 no_label"]),
    # Reasons of other subjects, or without a listed line: nobody knows which are theirs.
    ({"empty_file": 3, "no_label": 1}, "row", ["4 rejected"]),
    ({"empty_file": 4, "no_label": 1}, "image", ["4 rejected"]),
    (
        dict.fromkeys("abcdefghij", 1),
        "image",
        [*(f"1 {each}" for each in "abcdefg"), "3 rejected for other reasons"],
    ),
)
def test_the_flow_shows_reasons(rejected: dict[str, int], listed: str, shown: list[str]) -> None:
    manifest = make_manifest() | {"rejected": rejected}
    manifest["ledger"]["images_rejected"] = max(sum(rejected.values()), 4) - (
        4 in rejected.values()
    )
    page = render(
        make_sources(manifest, {}, [Rejection(listed, each, "", each, "") for each in rejected])
    )
    found = re.findall(r"<span><b>(\d+)</b> ([^<]+) <span", page.replace("<wbr>", ""))
    assert [" ".join(each) for each in found][2:] == shown


def test_what_was_decided_is_a_table() -> None:
    manifest = make_manifest()
    assert 'id="decided"' not in render(make_sources(manifest, {}, []))
    manifest["decided"] = entries_of([Decision("key", "<stem>", "default", "--key")])
    page = render(make_sources(manifest, {}, []))
    row = '<th scope="row">key</th><td>&lt;stem&gt;</td><td>default</td>'
    assert row in page and '<td><code class="flag">--key</code></td>' in page


def clean(**changes: Any) -> dict[str, Any]:
    """Statistics of a dataset in which nothing was found, with changes of parts."""
    statistics = make_statistics(samples=0, groups=0) | {"orientations": {"1": 5}}
    found = statistics["duplicates"]
    found["exact"] |= {"across_splits": 0, "conflicts": 0, **changes.pop("exact", {})}
    found["near"] |= {"across_splits": 0, "compared": 60, **changes.pop("near", {})}
    return statistics | changes


@cases(
    ({}, {}, {}),
    ({}, None, dict.fromkeys(OF_IMAGES[1:], "unchecked")),
    ({}, {"duplicates": None}, dict.fromkeys(("leakage", "conflicts"), "unchecked")),
    ({}, {"near": {"across_splits": 2}}, {"leakage": "bad"}),
    ({}, {"exact": {"held": 1}}, {"leakage": "bad"}),
    ({}, {"exact": {"conflicts": 1}}, {"conflicts": "bad"}),
    ({}, {"exact": {"across_splits": 1, "dropped": 1}}, {}),
    ({"rejected": {"conflicting_labels": 2}}, {"exact": {"conflicts": 1}}, {"rejected": "bad"}),
    ({}, {"gps": 1, "orientations": {"1": 9, "6": 1}}, {"gps": "bad", "upright": "bad"}),
    ({"options": {"check": "header"}}, {}, {"decodes": "unchecked"}),
    ({"options": {"exif_orientation": "apply"}}, {"orientations": {"6": 1}}, {}),
    ({"warnings": [{"code": "class_lost", "text": "x"}]}, {}, {"classes": "bad"}),
    ({"warnings": [{"code": "share_differs", "text": "x"}]}, {}, {"splits": "bad"}),
    ({"warnings": [{"code": "keys_unmatched", "text": "x"}]}, {}, {}),
    (
        {"ledger": make_manifest()["ledger"] | {"images_matched": 0}},
        None,
        dict.fromkeys(OF_IMAGES, "absent"),
    ),
)
def test_what_is_clean_differs_from_what_was_not_checked(
    changes: dict[str, Any], statistics: dict[str, Any] | None, states: dict[str, str]
) -> None:
    manifest = make_manifest() | {"rejected": {}} | changes
    sources = make_sources(manifest, {} if statistics is None else clean(**statistics), [])
    sources = sources._replace(unusual={} if statistics is None else {"records": 60, "looked": 60})
    found = verdict(sources._replace(missing=[]))
    every = dict.fromkeys(("rejected", "splits", "classes", *OF_IMAGES), "well")
    expected = {name: state for name, state in (every | states).items() if state != "absent"}
    assert expected == {
        name: "bad" if problem else "unchecked" if unchecked else "well"
        for name, (problem, unchecked) in found.items()
    }
    page = render(sources._replace(missing=[], notes=[]))
    assert page.count("not checked: ") == [*states.values()].count("unchecked")
    assert page.count('<span class="dim">clean') == [*expected.values()].count("well")


def test_what_the_samples_look_like_is_counted() -> None:
    """Of sizes and of looks, each has its own total; channels are those of samples."""
    statistics = make_statistics(samples=4, groups=0)
    sources = make_sources(make_manifest(), statistics, [])
    channels = {"mean": [0.5, 0.25, 0.0], "square": [0.5, 0.0625, 0.01]}
    long, dark = ({"count": count, "images": statistics["samples"][:2]} for count in (7, 2))
    odd = {"aspect": long, "dark": dark, "blank": {"count": 0, "images": []}}
    page = render(
        sources._replace(
            pictures={place: each | channels for place, each in sources.pictures.items()},
            unusual={"records": 50, "looked": 40, "odd": odd},
        )
    )
    assert '<a href="#odd">Odd sizes</a> <span class="dim">7 images' in page
    assert 'Dark, bright, blurry or blank</a> <span class="dim">2 images' in page
    assert '<b>Long and thin</b> <span class="dim">7 of 50: ' in page
    assert '<b>Dark</b> <span class="dim">2 of 40: ' in page and "<b>Blank</b>" not in page
    assert "By the sizes of 50 images, the first of 60, and by the pixels of 40 of them" in page
    assert "mean 0.500, 0.250, 0.000; standard deviation 0.500, 0.000, 0.100" in page


def test_one_split_has_no_leakage_to_look_for() -> None:
    sources = make_sources(make_manifest(splits=1), clean(), [])
    found = verdict(sources)
    assert found["leakage"] == (0, "all records are in one split")
    assert found["decodes"] == (1, "") and "1 file is missing" in render(sources)


def test_an_unknown_reason_is_listed_without_advice() -> None:
    manifest = make_manifest() | {"rejected": {"of_a_later_version": 1}}
    rejection = Rejection("image", "of_a_later_version", "why", "a.jpg", "a")
    page = render(make_sources(manifest, {}, [rejection]))
    assert "of_a_later_version" in page and "a.jpg" in page


def test_every_reason_says_what_it_means_and_what_to_do() -> None:
    for sentence in (sentence for reason in Reason for sentence in advice(reason.code, {})):
        assert sentence[-1] == "." and len(sentence.split()) >= 2


# Text: lines break between parts of a name, and numbers are readable.


@cases(
    ("image.class.label.labels.txt", "image .class .label .labels .txt"),
    ("gs://bucket/photos/cat_1.jpg", "gs:// bucket/ photos/ cat_ 1 .jpg"),
    ("German_short-haired_pointer", "German_ short- haired_ pointer"),
    ("--csv_delimiter", "--csv_ delimiter"),
    ("train=0.7,validation=0.3", "train=0.7, validation=0.3"),
    ("2026-11-22T10:00:00.123", "2026- 11- 22T10: 00: 00.123"),
    ("f" * 60, f"{'f' * 24} {'f' * 24} {'f' * 12}"),
    ("///", "///"),
    ("..", ".."),
)
def test_a_name_breaks_at_its_separators(word: str, parts: str) -> None:
    assert pieces(word) == parts.split()


@given(st.text())
def test_the_parts_are_the_whole_name(text: str) -> None:
    assert "".join(pieces(text)) == text
    assert all(pieces(text)) or not text


@given(st.text(alphabet="<>&\"'-/_. ab", max_size=60))
def test_everything_is_escaped_and_nothing_else_is_changed(text: str) -> None:
    for marked in (wrapped(text), prose(text)):
        left = marked.replace("<wbr>", "").replace('<code class="flag">', "")
        left = left.replace("</code>", "")
        assert not set("<>\"'") & set(left)
        assert html.unescape(left) == text


@cases(
    *(("max_bytes", 256_000_000, "256 MB"), ("shard_size", 1_500_000, "1.5 MB")),
    *(("max_pixels", 178_956_970, "178,956,970"), ("seed", 20_261_122, "20261122")),
    *(("dense_labels", True, "yes"), ("quality", "95", "95")),
    ("splits", {"train": 0.7, "test": 0.3}, "train=0.7, test=0.3"),
    # Only the first values of a long setting: 200,000 categories took ten seconds of a run.
    ("files", ["f"] * 30, f"{', '.join(['f'] * 20)} …"),
    ("classes", {f"c{n}": n for n in range(30)}, ", ".join(f"c{n}={n}" for n in range(20)) + " …"),
)
def test_settings_have_units_separators_and_words(name: str, value: object, shown: str) -> None:
    assert settings({name: value}) == [(name, shown)]


# Charts count everything, and draw it in proportion.


@pytest.mark.parametrize("spread", [0.01, 0.5, 3, 12])
def test_a_histogram_counts_every_value_once(spread: float) -> None:
    values = [random.Random(at).lognormvariate(0, spread) for at in range(400)]
    chart = histogram("Width", counted(values), len(values), repr)
    assert sum(bar["count"] for bar in chart["bars"]) == 400
    assert 1 <= len(chart["bars"]) <= 24
    highest = max(bar["count"] for bar in chart["bars"])
    assert max(bar["percent"] for bar in chart["bars"]) == round(
        100 * highest / chart["ticks"][0], 2
    )
    assert chart["low"] == repr(min(values)) and chart["high"] == repr(max(values))
    assert float(chart["mean"]) == pytest.approx(sum(values) / 400)
    for bar in chart["bars"]:
        low, high = map(float, bar["label"].split(" to "))
        inside = sum(low <= value < high for value in values)
        assert bar["count"] - 1 <= inside <= bar["count"]


def test_shares_are_of_the_whole_and_one_value_is_one_bar() -> None:
    chart = histogram("Width", counted([224.0] * 5), 5, lambda value: f"{value:.0f}")
    [bar] = chart["bars"]
    assert (bar["label"], bar["count"], bar["percent"]) == ("224 to 224", 5, 83.33)
    bars = shares({"png": 1, "jpeg": 3})
    assert [(bar["label"], bar["percent"]) for bar in bars] == [("jpeg", 75), ("png", 25)]


@given(st.integers(1, 10**12))
def test_the_axis_of_counts_has_round_steps_and_room_for_the_highest_bar(highest: int) -> None:
    ticks = count_ticks(highest)
    assert 2 <= len(ticks) <= 4 and ticks[-1] == 0
    [step] = {upper - lower for upper, lower in itertools.pairwise(ticks)}
    assert str(step).rstrip("0") in ("1", "2", "5")
    assert highest <= ticks[0] < highest + step


def test_a_flow_gives_each_part_its_share() -> None:
    made = flow("images", [("train", 70, "kept"), ("none", 0, "kept"), ("bad", 30, "left_out")])
    assert made is not None
    assert [target["label"] for target in made["targets"]] == ["train", "bad"]
    assert [target["percent"] for target in made["targets"]] == [70, 30]
    assert made["height"] == pytest.approx(
        sum(target["height"] for target in made["targets"]), abs=0.2
    )
    # What comes in is in the middle of what goes out.
    start = re.match(r"M0 ([\d.]+)", made["targets"][0]["path"])
    assert start and float(start[1]) == pytest.approx((made["height"] - 110) / 2, abs=0.2)
    sizes = []
    for target in made["targets"]:
        _, top, bottom = re.findall(r"[M V]0? ?([\d.]+)", target["path"])[0:3] or ("", "", "")
        ends = re.search(r"100 ([\d.]+)V([\d.]+)", target["path"])
        assert ends
        sizes.append(float(ends[2]) - float(ends[1]))
    assert sizes[0] / sizes[1] == pytest.approx(7 / 3, rel=0.02)


def test_a_small_part_of_a_flow_is_still_seen() -> None:
    made = flow("images", [("train", 1_000_000, "kept"), ("bad", 1, "left_out")])
    assert made is not None
    ends = re.search(r"100 ([\d.]+)V([\d.]+)", made["targets"][1]["path"])
    assert ends and float(ends[2]) - float(ends[1]) == pytest.approx(2)
    assert flow("images", [("train", 0, "kept")]) is None
