"""COCO files as rows, and the ids of their categories."""

from __future__ import annotations

import gzip
import io
import json
import time
from typing import Any

import pytest

from transforms.core.messages import LabelsError
from transforms.labels.annotations import COCO_COLUMNS, category_classes, coco_rows, read_coco
from transforms.labels.label_rows import Category
from transforms.labels.label_rules import KnownClasses

IMAGES = [{"id": 1, "file_name": "a.jpg"}, {"id": 2, "file_name": "b.jpg"}]
CATEGORIES = [{"id": 18, "name": "dog"}, {"id": 1, "name": "person"}]
BOX = {"image_id": 1, "category_id": 18, "bbox": [1, 2.5, 3, 4], "area": 11.5, "iscrowd": 0}


def document(**sections: Any) -> dict[str, Any]:
    return {"images": IMAGES, "annotations": [BOX], "categories": CATEGORIES, **sections}


def stream(content: Any) -> io.BytesIO:
    return io.BytesIO(json.dumps(content).encode())


def rows(content: Any, *, masks: bool = False) -> list[tuple[int, list[str], str]]:
    categories = read_coco(stream(content), path="a.json")[0]
    return list(coco_rows(stream(content), categories, segmentations=masks, path="a.json"))


def test_an_annotation_is_a_row_and_so_is_an_image_without_any() -> None:
    assert len(COCO_COLUMNS) == 9
    assert rows(document()) == [
        (1, ["a.jpg", "dog", "1", "2.5", "3", "4", "11.5", "0", ""], ""),
        (2, ["b.jpg", "", "", "", "", "", "", "", ""], ""),
    ]


def test_sections_in_any_order() -> None:
    backwards = dict(reversed(document().items()))
    ahead = {"annotations": [BOX], "categories": CATEGORIES, "images": IMAGES}
    assert rows(backwards) == rows(ahead) == rows(document())


def test_compressed_files_are_read_twice_too() -> None:
    ahead = {"annotations": [BOX] * 9, "categories": CATEGORIES, "images": IMAGES}
    data = gzip.compress(json.dumps(ahead).encode())
    categories, _ = read_coco(io.BytesIO(data), path="a.json.gz")
    assert len(list(coco_rows(io.BytesIO(data), categories, path="a.json.gz"))) == 10


def test_what_becomes_no_feature_is_counted() -> None:
    annotations = [
        {**BOX, "segmentation": [[1, 2, 3, 4, 5, 6]], "keypoints": [1, 2, 2]},
        {**BOX, "segmentation": {"counts": [1, 2], "size": [3, 4]}},
        {**BOX, "segmentation": []},
    ]
    found = read_coco(stream(document(annotations=annotations)), path="a.json")
    assert found == (
        (Category(18, "dog", 3), Category(1, "person", 0)),
        (("segmentations", 2), ("keypoints", 1)),
    )


@pytest.mark.parametrize(
    ("segmentation", "cell"),
    [
        ([[1, 2.5, 3, 4, 5, 6]], "[[1,2.5,3,4,5,6]]"),
        ({"size": [2, 1], "counts": [0, 2]}, '{"size":[2,1],"counts":[0,2]}'),
        ({"size": [2, 1], "counts": "한"}, '{"size":[2,1],"counts":"\\ud55c"}'),
        ([], ""),
        (None, ""),
        ([[1.5] * 300_000], "more than 1048576 characters"),
        ([1.5] * 250_000, f"[{','.join(['1.5'] * 250_000)}]"),
    ],
)
def test_segmentations_are_cells_if_they_are_needed(segmentation: Any, cell: str) -> None:
    annotations = [{**BOX, "segmentation": segmentation}]
    assert rows(document(annotations=annotations), masks=True)[0][1][8:] == [cell]
    assert rows(document(annotations=annotations))[0][1][8:] == [""]


@pytest.mark.parametrize(
    ("changed", "label", "box"),
    [
        ({"category_id": 7}, "category 7", ["1", "2.5", "3", "4"]),
        ({"category_id": "18"}, "dog", ["1", "2.5", "3", "4"]),
        ({"category_id": 18.0}, "dog", ["1", "2.5", "3", "4"]),
        ({"category_id": 18.5}, "category 18.5", ["1", "2.5", "3", "4"]),
        ({"category_id": [18]}, "category [18]", ["1", "2.5", "3", "4"]),
        ({"bbox": [1, 2, 3]}, "dog", [""] * 4),
        ({"bbox": None}, "dog", [""] * 4),
        ({"bbox": [1, 2, 3, "\0"]}, "dog", ["1", "2", "3", "'\\x00'"]),
        ({"category_id": "\ud800"}, "category '\\ud800'", ["1", "2.5", "3", "4"]),
        ({"bbox": [1, None, float("nan"), "x"]}, "dog", ["1", "", "", "x"]),
    ],
)
def test_a_wrong_annotation_keeps_its_image(
    changed: dict[str, Any], label: str, box: list[str]
) -> None:
    """So that the image is rejected, not stored without an object."""
    (_, cells, problem), *_ = rows(document(annotations=[{**BOX, **changed}, BOX]))
    assert (cells[:6], problem) == (["a.jpg", label, *box], "")


@pytest.mark.parametrize(
    ("of_image", "of_box"),
    [(1, "1"), ("1", 1), (1.0, 1), (1, 1.0), (2**70, 2**70), ("9" * 30, "9" * 30)],
)
def test_ids_of_images_may_differ_in_type(of_image: Any, of_box: Any) -> None:
    images = [{"id": of_image, "file_name": "a.jpg"}]
    found = rows(document(images=images, annotations=[{**BOX, "image_id": of_box}]))
    assert [cells[:2] for _, cells, _ in found] == [["a.jpg", "dog"]]


def test_ids_that_have_the_same_hash_take_no_time() -> None:
    """A dictionary with 20,000 of them takes 13 s."""
    images = [{"id": n * (2**61 - 1), "file_name": f"{n}.jpg"} for n in range(1, 20_001)]
    began = time.process_time()
    assert len(rows(document(images=images, annotations=[]))) == len(images)
    assert time.process_time() - began < 5


def test_an_id_that_is_no_text_can_be_shown() -> None:
    [(_, _, problem), *_] = rows(document(annotations=[{**BOX, "image_id": "\ud800"}]))
    assert problem == "its image_id '\\ud800' is not that of an image"


def test_an_annotation_without_an_image() -> None:
    (number, _, problem), *_ = rows(document(annotations=[{**BOX, "image_id": 9}]))
    assert (number, problem) == (1, "its image_id 9 is not that of an image")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ({"images": IMAGES, "annotations": []}, "not a COCO file with boxes: it has no categories"),
        ({"a": 1}, "it has no images and no categories"),
        (document(annotations=[{"image_id": 1, "caption": "-"}]), "its annotations have no bbox"),
        (document(images=[*IMAGES, {"id": 1, "file_name": "c.jpg"}]), "have the same id 1"),
        (document(images=[{"id": 1}]), "an image has no id or no file_name"),
        (document(images={"1": "a.jpg"}), "'images' is not a list of objects"),
        (document(images=["a.jpg"]), "'images' is not a list of objects"),
        (document(annotations=[[]]), "'annotations' is not a list of objects"),
        (document(categories=[*CATEGORIES, {"id": 1, "name": "cat"}]), "have the same id 1"),
        (document(categories=[{"id": "x", "name": "cat"}]), "no integer id or no name"),
        (document(categories=[{"id": 1, "name": " "}]), "no integer id or no name"),
        (document(categories=[{"id": 1, "name": "\ud800"}]), "no integer id or no name"),
    ],
)
def test_files_that_are_refused(content: Any, says: str) -> None:
    with pytest.raises(LabelsError) as caught:
        read_coco(stream(content), path="a.json")
    assert says in str(caught.value) and "\n" not in str(caught.value)


def test_names_of_categories_may_be_numbers() -> None:
    content = document(categories=[{"id": 18, "name": 7}])
    assert read_coco(stream(content), path="a.json")[0] == (Category(18, "7", 1),)


def test_bytes_that_are_not_text() -> None:
    with pytest.raises(LabelsError, match="damaged JSON"):
        read_coco(io.BytesIO(b'{"images": ["\xff\xfe"]}'), path="a.json")
    cut = gzip.compress(json.dumps(document()).encode())[:-20]
    with pytest.raises(LabelsError, match="damaged JSON"):
        read_coco(io.BytesIO(cut), path="a.json.gz")


CAT, DOG = Category(0, "cat", 0), Category(3, "dog", 1)


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"a": [DOG, CAT]}, (("dog",), (3,))),
        ({"a": [DOG], "b": [Category(2, "fox", 0), DOG]}, (("fox", "dog"), (2, 3))),
        ({"a": [Category(1, "dog", 0), DOG]}, (("dog",), (3,))),
        ({"a": [CAT._replace(uses=1)]}, "the category 'cat' has the id 0, which readers"),
        ({"a": [DOG, Category(10_000_000, "cat", 0)]}, (("dog",), (3,))),
        ({"a": [DOG, Category(9_999_999, "cat", 1)]}, (("dog", "cat"), (3, 9_999_999))),
        (
            {"a": [DOG, Category(10_000_000, "cat", 1)]},
            "a: the category 'cat' has the id 10000000, but labels.txt holds ids below 10000000",
        ),
        ({"a": [DOG], "b": [Category(3, "cat", 0)]}, "b: the category 3 is 'cat', but 'dog' in a"),
        ({"a": [Category(1, "dog", 2), DOG]}, "a: the categories 1 and 3 are both 'dog'"),
    ],
)
def test_ids_of_classes(files: Any, found: Any) -> None:
    if not isinstance(found, str):
        names, numbers = found
        assert category_classes(files, first_id=1) == KnownClasses(names, numbers=numbers)
        return
    with pytest.raises(LabelsError) as caught:
        category_classes(files, first_id=1)
    assert found in str(caught.value)


@pytest.mark.parametrize(
    ("section", "item", "says"),
    [
        ("categories", {"id": 1, "name": "x" * 4097}, "a.json: the name of the category 1 has"),
        ("images", {"id": 1, "file_name": "x" * 4097}, "a.json: an image has an id or a file_name"),
        ("images", {"id": "x" * 4097, "file_name": "x"}, "a.json: an image has an id or a file_n"),
    ],
)
def test_names_that_are_held_are_as_long_as_keys(section: str, item: Any, says: str) -> None:
    """200 categories with names of a million characters took 3.8 GB."""
    box = {"image_id": 1, "category_id": 1, "bbox": [0, 0, 1, 1]}
    whole = {"images": [], "categories": [{"id": 1, "name": "a"}], "annotations": [box]}
    data = json.dumps({**whole, section: [item]}).encode()
    with pytest.raises(LabelsError, match=says):
        found = read_coco(io.BytesIO(data), path="a.json")[0]
        for _ in coco_rows(io.BytesIO(data), found, path="a.json"):
            pass
