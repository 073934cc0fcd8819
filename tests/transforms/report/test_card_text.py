"""`README.md` from its parts."""

from __future__ import annotations

from typing import Any

import yaml

from transforms.dataset.dataset_options import Card
from transforms.examples.layouts import LAYOUTS, MASK_FEATURES, Feature
from transforms.report.card_files import DatasetContent, card_text


def split(records: int, files: int, size: int, classes: dict[str, int]) -> dict[str, Any]:
    """A split as the manifest has it."""
    return {"records": records, "shards": [{}] * files, "bytes": size, "classes": classes}


SPLITS = {"train": split(3, 2, 2_000, {"cat": 2, "dog": 1}), "test": split(1, 1, 500, {"cat": 1})}
PETS = Card("my_pets")
CONTENT = DatasetContent(SPLITS, LAYOUTS["slim"], {}, {})


def parts(card: Card = PETS, content: DatasetContent = CONTENT) -> tuple[Any, str]:
    """The header, and the text after it."""
    empty, header, text = card_text(card, content).decode().split("---\n", 2)
    assert empty == ""
    return yaml.safe_load(header), text


def test_the_header_is_what_the_hub_reads() -> None:
    header, _ = parts(Card("my_pets", license="CC-BY-4.0"))
    assert header == {
        "pretty_name": "My Pets",
        "license": "cc-by-4.0",
        "task_categories": ["image-classification"],
        "size_categories": ["n<1K"],
        "tags": ["tfrecord"],
        "configs": [
            {
                "config_name": "default",
                "data_files": [
                    {"split": "train", "path": "index/train-*.parquet"},
                    {"split": "test", "path": "index/test-*.parquet"},
                ],
            }
        ],
    }


def test_a_license_that_the_hub_does_not_know() -> None:
    assert parts(Card("a", license="ask: Ann"))[0]["license"] == "other"
    assert parts(Card("a", license="ask: Ann"))[0]["license_name"] == "ask: Ann"
    link = parts(Card("a", license="https://example.org/l"))
    assert link[0]["license_link"] == "https://example.org/l"
    assert "- License: <https://example.org/l>" in link[1]
    assert "license" not in parts()[0]


def test_the_task_is_that_of_the_layout() -> None:
    def task(*features: Feature) -> Any:
        return parts(content=CONTENT._replace(features=features))[0].get("task_categories")

    image = Feature.of_source("image", "image.bytes")
    assert task(image) is None
    assert task(image, Feature.of_source("label", "label.id")) == ["image-classification"]
    assert task(*LAYOUTS["detection"]) == ["object-detection"]
    assert task(*LAYOUTS["detection_masks"]) == ["image-segmentation"]
    assert task(*LAYOUTS["detection"], *MASK_FEATURES) == ["object-detection"]
    assert task(*LAYOUTS["slim"], *MASK_FEATURES) == ["image-segmentation"]
    assert task(Feature("age", "csv.age", "int64")) is None


def test_the_text_says_what_and_how_many() -> None:
    card = Card("my_pets", "1.2.0", "Photos.\n\n# Of pets", "@misc{a}", "MIT", "https://a.org")
    _, text = parts(card)
    begin = "\n# My Pets\n\nPhotos.\n\n# Of pets\n\n4 images of 2 classes as TFRecords"
    assert text.startswith(begin)
    for line in (
        "- Version: 1.2.0",
        "- Homepage: <https://a.org>",
        "- License: MIT",
        "| train | 3 | 2 | 2.0 KB |",
        "## Classes (2)",
        "| cat | 2 | 1 |",
        "| dog | 1 | 0 |",
        "```bibtex",
        'dataset = tfds.load("my_pets:1.2.0", data_dir="DATA_DIR", split="train")',
    ):
        assert f"\n{line}\n" in text
    assert text.endswith("```\n") and "Left out" not in text


def test_a_license_stays_in_its_line() -> None:
    header, text = parts(Card("a", license="Ask Ann.\n\n# Title\n- b"))
    assert header["license_name"] == "Ask Ann.\n\n# Title\n- b"
    assert "\n- License: Ask Ann. \\# Title - b\n\n## Splits" in text


def test_names_of_classes_cannot_break_the_table() -> None:
    odd = {"train": split(1, 1, 1, {"a|b\n# c": 1, "<b>`x`&lt;": 1, "long" * 99: 1})}
    _, text = parts(content=CONTENT._replace(splits=odd))
    table = text.split("## Classes (3)\n\n")[1].split("\n\n")[0].splitlines()
    assert len(table) == 5
    assert all(line.replace("\\|", "").count("|") == 3 for line in table)
    assert "\\<b\\>\\`x\\`\\&lt;" in text and "long…" not in text and "lo" in text


def test_many_classes_are_cut() -> None:
    many = {"train": split(1, 1, 1, {str(number): 1 for number in range(1000)})}
    _, text = parts(content=CONTENT._replace(splits=many))
    assert "\n| 99 | 1 |\n" in text and "\n| 100 | 1 |\n" not in text
    assert "… and 900 more" in text


def test_what_was_left_out_and_changed() -> None:
    content = CONTENT._replace(rejected={"corrupt_image": 2}, changed={"resized": 3})
    _, text = parts(content=content)
    assert "Left out: 2 `corrupt_image`; `rejected.jsonl` lists them." in text
    assert "Changes to the images: 3 resized." in text


def test_readers_are_those_that_read_it() -> None:
    _, packed = parts(content=CONTENT._replace(has_tfds=False, has_offsets=False))
    assert "tfds" not in packed and 'compression_type="GZIP"' in packed
    _, single = parts(content=CONTENT._replace(has_tfds=False, in_shards=False))
    assert 'glob("FOLDER/train/*")' in single


def test_a_citation_cannot_end_its_block() -> None:
    _, text = parts(Card("a", citation="```\n# Title\n```"))
    assert text.endswith("\n````\n```\n# Title\n```\n````\n")


def test_one_record_and_no_class() -> None:
    content = CONTENT._replace(splits={"all": split(1, 1, 9, {"": 1})}, of_rows=True)
    _, text = parts(content=content)
    assert "1 record as TFRecords, in 1 split (all)." in text and "## Classes" not in text
