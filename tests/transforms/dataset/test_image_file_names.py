"""A file is named after its image's key, and no two keys share one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.marks import cases
from transforms.dataset.output_names import image_file, image_files
from transforms.labels.keys import nfc


@cases(
    *((key, key) for key in ("cat0", "IMG 0001 (2)", "한강", "a.b", "x" * 246)),
    ("cat/1.jpg", "cat%2F1.jpg"),
    ("gs://b/1.jpg", "gs%3A%2F%2Fb%2F1.jpg"),
    *(("..", "%2E."), (".hidden", "%2Ehidden"), ("100%", "100%25"), ("a\nb", "a%0Ab")),
    *(("a*?[1]~", "a%2A%3F%5B1%5D%7E"), ("a\u3000b", "a%E3%80%80b")),
)
def test_names(key: str, name: str) -> None:
    assert image_file("train", key, gzip=False) == f"train/{name}.tfrecord"
    if len(name) < 240:
        assert image_file("test", key, gzip=True) == f"test/{name}.tfrecord.gz"


@pytest.mark.parametrize("character", ["x", "한", "/"])
@pytest.mark.parametrize("gzip", [False, True])
def test_long_keys_have_names_that_file_systems_take(character: str, gzip: bool) -> None:
    keys = [character * 4000, character * 4000 + "a"]
    names = image_files([("train", key) for key in keys], gzip=gzip)
    assert len(set(names)) == 2
    for name in names:
        file = name.removeprefix("train/")
        assert 245 <= len(file.encode()) <= 255
        assert "/" not in file


def test_keys_that_differ_in_case_only_have_files_that_do_not() -> None:
    keys = [("train", "IMG_1"), ("train", "img_1"), ("train", "IMG_2"), ("test", "Img_1")]
    names = image_files(keys, gzip=False)
    assert len({name.casefold() for name in names}) == 4
    assert names[0].startswith("train/IMG_1~")
    assert names[1].startswith("train/img_1~")
    # Nothing else changes, also not in another split.
    assert names[2:] == ["train/IMG_2.tfrecord", "test/Img_1.tfrecord"]


KEYS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=300)


@given(st.sets(KEYS.map(nfc), max_size=20))
def test_no_two_keys_share_a_name(keys: set[str]) -> None:
    names = image_files([("train", key) for key in sorted(keys)], gzip=False)
    folded = [nfc(name.casefold()) for name in names]
    assert len(set(folded)) == len(keys)
    for name in names:
        split, file = name.split("/")
        assert split == "train"
        assert not file.startswith(".")
        assert "\0" not in file
        assert len(file.encode()) <= 255
