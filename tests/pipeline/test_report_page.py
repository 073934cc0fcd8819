"""The report in a real browser: it works, and everybody can read it."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser import Page, open_page
from tests.conftest import draw
from tests.pipeline.commands import ROOT, Dataset, make_dataset, run
from tests.report_sources import make_manifest, make_sources, make_statistics
from transforms.core.rejections import Rejection
from transforms.report.page import render

# Of the page without a browser: tests/transforms/report/test_page.py.
pytestmark = [pytest.mark.browser, pytest.mark.slow]

SCREENSHOTS = ROOT / "build" / "screenshots"
HOSTILE = "<img src=x onerror=alert(1)><script>document.title='owned'</script>\"'&amp;{{7*7}}"

# The contrast of every text with what is behind it, by the rules of WCAG 2.
CONTRAST = """
(() => {
  const parts = (color) => color.match(/[\\d.]+/g).map(Number);
  const light = (color) => {
    const [r, g, b] = parts(color).map((v) => v / 255)
      .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const color = getComputedStyle(each).backgroundColor;
      if (parts(color)[3] !== 0) return color;
    }
    return "rgb(255, 255, 255)";
  };
  const poor = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || !element.checkVisibility()) continue;
    const [a, b] = [light(getComputedStyle(element).color), light(behind(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) poor.push([texts.currentNode.data.trim().slice(0, 40), ratio]);
  }
  return poor;
})()
"""

# What has no name for those who do not see the page.
NAMELESS = """
[
  ...[...document.querySelectorAll("img")].filter((each) => !each.alt),
  ...[...document.querySelectorAll("th")].filter((each) => !each.scope),
  ...[...document.querySelectorAll("table")].filter((each) => !each.caption),
  ...[...document.querySelectorAll("input, select")].filter((each) => !each.labels.length),
  ...[...document.querySelectorAll("button")].filter(
    (each) => !each.textContent.trim() && !each.querySelector("img[alt]")),
  ...[...document.querySelectorAll("section")].filter(
    (each) => !each.ariaLabel && !each.getAttribute("aria-labelledby") && !each.matches(".sheet")),
].map((each) => each.outerHTML.slice(0, 100))
"""

# Words that a line break cuts, and boxes that hide a part of what is in them.
CUT = """
(() => {
  const cut = [];
  const isSeen = (each) => each.checkVisibility() && !each.closest(".hidden, .skip, svg");
  const words = /[\\p{L}\\p{N}]+(?:[.,]+[\\p{L}\\p{N}]+)*/gu;
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const node = texts.currentNode;
    if (!isSeen(node.parentElement)) continue;
    for (const { 0: word, index } of node.data.matchAll(words)) {
      const range = document.createRange();
      range.setStart(node, index);
      range.setEnd(node, index + word.length);
      if (new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size > 1) {
        cut.push(`broken: ${word}`);
      }
    }
  }
  for (const each of document.body.querySelectorAll("*")) {
    const isBox = getComputedStyle(each).display !== "inline";
    if (isBox && isSeen(each) && each.scrollWidth > each.clientWidth + 1) {
      cut.push(`clipped: ${each.outerHTML.slice(0, 90)}`);
    }
  }
  return cut;
})()
"""

LEVELS = "[...document.querySelectorAll('h1, h2, h3, h4')].map((each) => Number(each.tagName[1]))"
ROWS = "#class-table tbody"


def visible(selector: str) -> str:
    """An expression: the texts of the elements that are seen."""
    found = f"[...document.querySelectorAll({json.dumps(selector)})]"
    return f"{found}.filter((each) => each.checkVisibility()).map((each) => each.innerText.trim())"


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    """One browser for all tests."""
    with open_page() as page:
        yield page


def reported(folder: Path, **flags: Any) -> Dataset:
    """A dataset with its statistics and its report."""
    made = make_dataset(folder, max_rejected="50%", **flags)
    assert run("report", folder).code == 0
    return made


@pytest.fixture(scope="module")
def dataset(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """The sample."""
    flags = {"images": f"{sample}/images/*/*", "labels": sample / "labels.csv"}
    splits = "train=0.7,validation=0.2,test=0.1"
    return reported(tmp_path_factory.mktemp("report") / "out", splits=splits, **flags)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a dataset whose names, labels and details are HTML."""
    folder = tmp_path_factory.mktemp("hostile")
    name, quoted = HOSTILE.replace("/", "∕"), HOSTILE.replace('"', '""')
    for number in range(4):
        draw(folder / "in" / f"{name}{number}.jpg", seed=number)
    shutil.copy(folder / "in" / f"{name}0.jpg", folder / "in" / f"{name}copy.jpg")
    (folder / "in" / f"{name}.jpg").write_text(HOSTILE)
    keys = [f"{name}{suffix}".replace('"', '""') for suffix in ("0", "1", "2", "3", "copy", "")]
    rows = "".join(f'"{key}","{quoted}"\n' for key in keys)
    (folder / "labels.csv").write_text(f'id,label\n{rows}"{quoted}",x\n')
    flags = {"images": f"{folder}/in/*.jpg", "labels": folder / "labels.csv"}
    return reported(folder / "out", **flags).folder / "report.html"


@pytest.fixture
def opened(page: Page, dataset: Dataset) -> Iterator[Page]:
    """The report of the sample; nothing that a test does there may be an error."""
    page.complaints.clear()
    page.requests.clear()
    page.open(dataset.folder / "report.html")
    yield page
    assert page.complaints == []
    assert page.requests == [(dataset.folder / "report.html").resolve().as_uri()]


@pytest.mark.parametrize("width", [390, 1280])
def test_a_check_that_is_not_well_opens_its_section(
    page: Page, dataset: Dataset, width: int
) -> None:
    page.open(dataset.folder / "report.html", width=width)
    links = page.value("[...document.querySelectorAll('.checks a')].map((link) => link.hash)")
    assert {"#rejected", "#duplicates", "#classes"} <= set(links)
    for section in set(links):
        page.value(f"document.querySelector('.checks a[href=\"{section}\"]').focus()")
        page.press("Enter", 13, "\r")
        top = f"document.querySelector('{section}').getBoundingClientRect().top"
        assert 0 <= page.value(top) < 850, section


def test_the_class_filter(opened: Page) -> None:
    assert len(opened.value(visible(f"{ROWS} tr"))) == 4
    opened.type_into("#class-filter", "STRI")
    assert opened.value(visible(f"{ROWS} th")) == ["stripes"]
    assert opened.value(visible(".sheet h4")) == ["stripes"]
    assert opened.value(visible("#class-count")) == ["1 of 4"]
    opened.type_into("#class-filter", "")
    assert len(opened.value(visible(".sheet h4"))) == 4


def test_the_split_filter(opened: Page, dataset: Dataset) -> None:
    samples = json.loads((dataset.folder / "statistics.json").read_text())["samples"]
    opened.value(
        "(() => { const split = document.querySelector('#split-filter');"
        "split.value = 'validation'; split.dispatchEvent(new Event('input')); })()"
    )
    assert opened.value(visible("#class-table thead th")) == ["Class", "validation"]
    counts = dataset.manifest["splits"]["validation"]["classes"]
    rows = opened.value(visible(f"{ROWS} tr"))
    assert [row.split() for row in rows] == [
        [name, str(counts.get(name, 0))] for name in dataset.classes
    ]
    of_split = [sample for sample in samples if sample["split"] == "validation"]
    assert 0 < len(of_split) < len(samples)
    assert len(opened.value(visible(".sheet .pictures li"))) == len(of_split)
    shards = opened.value(visible("#shard-table tbody th"))
    assert shards == dataset.shards("validation")


def test_the_filter_of_rejected_files(opened: Page, dataset: Dataset) -> None:
    assert len(opened.value(visible(".reason"))) == len(dataset.manifest["rejected"])
    opened.type_into("#rejected-filter", "Triangles-Cut")
    [card] = opened.value(visible(".reason"))
    assert card.startswith("corrupt_image") and "Fetch it again or re-encode it." in card
    opened.type_into("#rejected-filter", "empty_file")
    assert len(opened.value(visible(".reason li"))) == 1
    opened.type_into("#rejected-filter", "no such thing")
    assert opened.value(visible(".reason")) == []
    assert opened.value(visible("#rejected-count")) == ["0 of 6 listed"]


def test_sorting_by_a_heading(opened: Page, dataset: Dataset) -> None:
    counts = dataset.manifest["splits"]["train"]["classes"]
    rows = "[...document.querySelectorAll('#class-table tbody tr')]"
    shown = f"{rows}.map((row) => row.cells[1].innerText)"
    heading = "document.querySelectorAll('#class-table thead th')[1]"
    opened.value(f"{heading}.querySelector('button').click()")
    ordered = [str(count) for count in sorted(counts.values(), reverse=True)]
    assert opened.value(shown) == ordered
    assert opened.value(f"{heading}.ariaSort") == "descending"
    opened.value(f"{heading}.querySelector('button').click()")
    assert opened.value(shown) == ordered[::-1]


def test_long_lists_begin_short(page: Page, tmp_path: Path) -> None:
    reasons = {"empty_file": 30, "corrupt_image": 1}
    manifest = make_manifest(classes=3000, images=9000) | {"rejected": reasons}
    rejections = [
        Rejection("image", reason, "0 bytes", f"{number}.jpg", "")
        for reason, count in reasons.items()
        for number in range(count)
    ]
    html = tmp_path / "report.html"
    html.write_text(render(make_sources(manifest, {}, rejections)), "utf-8")
    page.open(html)
    rows, files = visible(f"{ROWS} tr"), visible(".reason li")
    assert len(page.value(rows)) == 48
    for text, count in (("class 299", 11), ("", 48)):
        page.type_into("#class-filter", text)
        assert len(page.value(rows)) == count
    page.value("document.querySelector('#all-classes').click()")
    assert (len(page.value(rows)), page.value(visible("#all-classes"))) == (3000, [])
    assert len(page.value(files)) == 9
    assert page.value(visible(".reason > button")) == ["Show all 30"]
    page.value("document.querySelector('.reason > button').click()")
    assert len(page.value(files)) == 31


@pytest.mark.parametrize(("width", "dark"), [(390, True), (1280, False)])
def test_a_picture_opens_large_by_the_keyboard(
    page: Page, dataset: Dataset, width: int, dark: bool
) -> None:
    """With its name, label, size and place; arrows show the others, Escape ends there."""
    page.open(dataset.folder / "report.html", width=width, dark=dark)
    said = visible("dialog figure p")
    assert page.value(said) == []
    first = page.value("document.querySelector('.pictures img').dataset.about").split("\n")
    page.value("document.querySelector('.pictures button').focus()")
    page.press("Enter", 13, "\r")
    assert page.value(said) == first and len(first) == 4
    assert re.fullmatch(r"checkers · \w+", first[1])
    assert re.fullmatch(r"[\d,]+ × [\d,]+ px, record of [\d.]+ KB", first[2])
    assert re.fullmatch(r"\w+-\d+-of-\d+\.tfrecord, record at byte [\d,]+", first[3])
    assert page.value(CONTRAST) == []
    image = "document.querySelector('dialog img').getBoundingClientRect()"
    assert 300 < page.value(f"{image}.width") < width
    page.press("ArrowRight", 39)
    assert page.value(said) != first
    page.press("ArrowLeft", 37)
    assert page.value(said) == first
    page.press("ArrowLeft", 37)
    page.press("Escape", 27)
    assert page.value(said) == []
    # The last picture of all: arrows go around. The event of closing comes later.
    later = "new Promise((done) => setTimeout(done, 100))"
    page.call("Runtime.evaluate", expression=later, awaitPromise=True)
    at = "[...document.querySelectorAll('button.zoom')].indexOf(document.activeElement)"
    assert page.value(at) == page.value("document.querySelectorAll('button.zoom').length") - 1


def load_pictures(page: Page) -> None:
    """Until then, their alternative texts are shown."""
    eager = "image.loading = 'eager'"  # the others wait until somebody scrolls to them
    page.call(
        "Runtime.evaluate",
        expression=f"Promise.all([...document.images].map((image) => ({eager}, image.decode())))",
        awaitPromise=True,
    )


def test_every_picture_is_one(opened: Page) -> None:
    load_pictures(opened)
    sizes = "[...document.images].map((image) => Math.max(image.naturalWidth, image.naturalHeight))"
    found = opened.value(sizes)
    assert len(found) > 24
    assert all(64 <= size <= 320 * 4 // 3 for size in found)


def test_what_assistive_technology_reads(opened: Page) -> None:
    assert opened.value(NAMELESS) == []
    levels = opened.value(LEVELS)
    assert levels.count(1) == 1
    assert all(now <= before + 1 for before, now in zip(levels, levels[1:], strict=False))
    for landmark in ("header", "nav", "main", "footer"):
        assert opened.value(f"document.querySelectorAll('{landmark}').length") == 1
    targets = "[...document.querySelectorAll('a')].every((a) => document.querySelector(a.hash))"
    assert opened.value(targets) is True


def test_the_keyboard_reaches_every_control(opened: Page) -> None:
    """And it is seen where it is."""
    focused = "(({id, hash, tagName}) => id || hash || tagName)(document.activeElement)"
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    reached: list[str] = []
    while True:
        opened.press("Tab", 9)
        if (at := opened.value(focused)) == "BODY":
            break
        assert opened.value(outline) == "solid", at
        reached.append(at)
        assert len(reached) < 120
    assert reached[:2] == ["#main", "#flow"]
    assert {"class-filter", "split-filter", "rejected-filter", "SUMMARY", "BUTTON"} <= set(reached)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of ten million images, with long names and values."""
    manifest = make_manifest(classes=30, images=10_000_000, name="German_short-haired_pointer")
    manifest["options"] |= {"max_bytes": 256_000_000, "max_pixels": 178_956_970, "seed": 20_261_122}
    manifest["inputs"]["labels"] = "gs://a-bucket-with-a-long-name/datasets/photographs/labels.csv"
    manifest["decided"] = [
        {
            "what": "box orientation",
            "value": "as_stored",
            "because": "of 12,345,678 boxes, 12,345,670 fit into the image as it is stored",
            "flag": "--boxes",
        }
    ]
    statistics = make_statistics(samples=9, groups=2, name="German_short-haired_pointer")
    html = tmp_path_factory.mktemp("large") / "report.html"
    sources = make_sources(manifest, statistics, [], name="photographs-of-dogs-2026-11-22")
    images = statistics["samples"]
    unusual = {
        "records": 200_000,
        "looked": 200_000,
        "ends": {"height": images[:2], "bytes": images[2:4]},
        "odd": {
            kind: {"count": 4321, "images": images[:6]}
            for kind in ("aspect", "size", "dark", "blurry", "blank")
        },
    }
    look = {"mean": [0.1, 0.2, 0.3], "square": [0.1, 0.2, 0.3]}
    pictures = {place: picture | look for place, picture in sources.pictures.items()}
    html.write_text(render(sources._replace(unusual=unusual, pictures=pictures)), "utf-8")
    return html


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [360, 390, 768, 1280])
def test_a_page_can_be_read_in_any_width_and_light(
    page: Page, dataset: Dataset, large: Path, hostile: Path, width: int, dark: bool
) -> None:
    """No word is broken, nothing is clipped or has too little contrast, or scrolls sideways."""
    for path in (hostile, dataset.folder / "report.html", large):
        page.open(path, width=width, height=844, dark=dark)
        assert page.value("document.documentElement.scrollWidth") <= width
        assert page.value("visualViewport.width") == width
        light = page.value("getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0] > 128")
        assert light is not dark
        assert page.value(CONTRAST) == []
        page.value("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        load_pictures(page)
        # The largest tables scroll for themselves on the narrowest pages.
        if path != hostile and width > 360:
            assert page.value(CUT) == []
        name = f"{path.parent.name}-{width}-{'dark' if dark else 'light'}.png"
        page.screenshot(SCREENSHOTS / name)


def test_odd_images_and_ends_of_histograms_open_large(page: Page, large: Path) -> None:
    """Whatever split is shown."""
    page.open(large, width=390)
    page.value(
        "(() => { const split = document.querySelector('#split-filter');"
        "split.value = 'split-1'; split.dispatchEvent(new Event('input')); })()"
    )
    for pictures, count in ((".ends img", 4), (".group .pictures img", 30)):
        assert len(page.value(visible(pictures))) == count
        page.value(f"document.querySelector('{pictures}').parentElement.focus()")
        page.press("Enter", 13, "\r")
        assert page.value(visible("#large-name")) == ["0"]
        page.press("Escape", 27)


def test_names_are_text_and_nothing_else(page: Page, hostile: Path) -> None:
    page.complaints.clear()
    page.open(hostile)
    assert page.complaints == []
    assert page.value("document.title") == "out – dataset report"
    assert page.value("document.querySelectorAll('script, [onerror], [src=x]').length") == 1
    assert page.value(visible(f"{ROWS} th")) == [HOSTILE]
    assert page.value(visible(".sheet h4")) == [HOSTILE]
    page.type_into("#class-filter", "<script>")
    assert page.value(visible("#class-count")) == ["1 of 1"]


def test_what_is_smuggled_in_cannot_run(page: Page, dataset: Dataset, tmp_path: Path) -> None:
    """Even if a name were not escaped, the page's policy would block its script."""
    text = (dataset.folder / "report.html").read_text("utf-8")
    own = "document.title='owned'"
    smuggled = f'<script>{own}</script><img src=x onerror="{own}">'
    (tmp_path / "report.html").write_text(text.replace("<h1>", f"{smuggled}<h1>"), "utf-8")
    page.open(tmp_path / "report.html")
    assert page.value("document.title") == "out – dataset report"


def test_a_page_without_javascript_shows_everything(page: Page, dataset: Dataset) -> None:
    page.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        page.open(dataset.folder / "report.html")
        rows = page.value(visible(f"{ROWS} th"))
    finally:
        page.call("Emulation.setScriptExecutionDisabled", value=False)
    assert rows == dataset.classes
