"""Keys of images and rows join however they are spelled, and their hashes never change."""

import time
import unicodedata
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.marks import cases
from transforms.labels.keys import (
    IMAGE_EXTENSIONS,
    KEY_KINDS,
    any_case,
    expand_braces,
    fixed_root,
    glob_regex,
    image_key,
    key_hashes,
    nfc,
    other_case,
    relative_path,
    row_key,
)
from transforms.storage.local_storage import LocalStorage

# One component of a path as any file system may give it, lone surrogates (bytes that are not
# UTF-8) included.
NAMES = st.text(st.characters(exclude_characters="/\0"), min_size=1, max_size=12)


@cases(
    (["photos/a?/x.jpg"], "photos"),
    (["photos/[ab]/x.jpg"], "photos"),
    (["photos/2020/img*.jpg"], "photos/2020"),
    (["x.jpg"], ""),
    (["**/*.jpg"], ""),
    ([], ""),
    (["t/train/*.jpg", "t/training/*.jpg"], "t"),
    (["t/*.jpg", "t/a/b/*.jpg"], "t"),
    (["t/*.jpg", "u/*.jpg"], ""),
    (["./t//a/*.jpg", "t/b/*.jpg"], "t"),
    (["/data/x/*.jpg"], "/data/x"),
    (["/data/*.jpg", "/more/*.jpg"], "/"),
    (["/data/*.jpg", "data/*.jpg"], ""),
    (["gs://b/x/*.jpg", "gs://b/y/*.jpg"], "gs://b"),
    (["gs://b/*.jpg"], "gs://b"),
    (["gs://b/*.jpg", "gs://bb/*.jpg"], ""),
    (["gs://b*/x.jpg"], ""),
    (["gs://b/x/*.jpg", "s3://b/x/*.jpg"], ""),
    (["gs://b//x/*.jpg"], "gs://b//x"),
    (["file:///*.jpg"], "file:///"),
    (["한강/*.jpg"], "한강"),
)
def test_fixed_root(globs: list[str], root: str) -> None:
    assert fixed_root(globs) == root


@cases(
    ("./photos/cats/1.jpg", "photos", "cats/1.jpg"),
    ("photos//cats/./1.jpg", "photos", "cats/1.jpg"),
    ("/1.jpg", "/", "1.jpg"),
    ("gs://b//x//1.jpg", "gs://b", "/x//1.jpg"),  # slashes are part of an object's name
    ("file:///a/1.jpg", "file:///", "a/1.jpg"),
    ("a/1.jpg", "", "a/1.jpg"),
    ("gs://b/1.jpg", "", "gs://b/1.jpg"),
    ("a/../b/1.jpg", "", "a/../b/1.jpg"),
)
def test_relative_path(uri: str, root: str, path: str) -> None:
    assert relative_path(uri, root) == path


def test_what_is_no_key_is_an_error() -> None:
    with pytest.raises(ValueError, match="'photos2/1.jpg' is not below 'photos'"):
        relative_path("photos2/1.jpg", "photos")
    with pytest.raises(ValueError, match="--key 'file' is not one of stem, name, path, uri"):
        image_key("a.jpg", kind="file", root="")
    with pytest.raises(ValueError, match="--key"):
        row_key("a.jpg", kind="file")
    with pytest.raises(OverflowError):
        key_hashes("a", seed=2**127)


@given(st.lists(NAMES.filter(lambda name: name != "."), min_size=2, max_size=4))
def test_root_and_relative_path_are_the_file_again(parts: list[str]) -> None:
    uri = "gs://b/" + "/".join(parts)
    assert "gs://b/" + relative_path(uri, fixed_root(["gs://b/*"])) == uri


@cases(
    ("1", "stem", "1"),
    (" 1.jpg\t", "stem", "1"),
    ("cats/1.JPeG", "stem", "1"),
    ("a.b.png", "stem", "a.b"),
    (".jpg", "stem", ".jpg"),
    ("cats\\1.jpg", "stem", "cats\\1"),
    ("cats/1.jpg", "name", "1.jpg"),
    ("cats//1.jpg", "path", "cats/1.jpg"),
    ("gs://b//c/1.jpg", "path", "gs://b//c/1.jpg"),
    (" gs://b/1.jpg", "uri", "gs://b/1.jpg"),
    ("cats/", "name", ""),
    ("  ", "stem", ""),
)
def test_row_key(cell: str, kind: str, key: str) -> None:
    assert row_key(cell, kind=kind) == key


@pytest.mark.parametrize("kind", KEY_KINDS)
@given(name=NAMES, extension=st.sampled_from(sorted(IMAGE_EXTENSIONS)))
@example(name="e\u0301", extension="jpg")
@example(name=" a ", extension="jpg")
@example(name="한강", extension="jpg")
@example(name="\udcff", extension="jpg")
def test_a_row_that_spells_the_file_joins_it(kind: str, name: str, extension: str) -> None:
    path = f"d/{name}.{extension}"
    for form in ("NFC", "NFD"):
        image = image_key(unicodedata.normalize(form, f"r/{path}"), kind=kind, root="r")
        for cell_form in ("NFC", "NFD"):
            cell = unicodedata.normalize(cell_form, f"r/{path}" if kind == "uri" else path)
            assert row_key(cell, kind=kind) == image
            assert unicodedata.is_normalized("NFC", image)


def test_thousands_of_accents_are_not_sorted() -> None:
    """A row of 90,000 took a quarter of a minute."""
    key = "\u0315\u0301\u0323" * 10_000
    started = time.process_time()
    assert nfc(key) == key
    # Each of fewer than 200 was tried as the begin of them.
    nfc(("\u0301\u0323" * 95 + "a") * 1000)
    assert time.process_time() - started < 1


# hashlib.blake2b(key as UTF-8, digest_size=16, person=b"image-tfrecords",
# salt=seed as 16 bytes little-endian signed), read as two little-endian unsigned 64-bit integers.
@cases(
    ("", 0, (10225470557193724084, 9282550350539867032)),
    ("1", 0, (5882863083028984101, 1184160139515405639)),
    ("1", 1, (15494755715810301235, 1741557726684148888)),
    ("1", -1, (297331748696303843, 3996635403472763253)),
    ("n01440764_10026", 20240101, (1720230226434980930, 5064519161510630998)),
    ("한강", 0, (16948631027209334703, 10878716871111619394)),
    ("\udcff", 0, (4006605584259348444, 15422953680356159491)),
)
def test_hashes_never_change(key: str, seed: int, hashes: tuple[int, int]) -> None:
    assert key_hashes(key, seed=seed) == hashes, (
        "every dataset would be split and ordered in another way: bump the format version"
    )


# Alternatives and extensions of any case mean the same for files and for objects.


@cases(
    ("*.{jpg,png}", ["*.jpg", "*.png"]),
    ("{a,b}{1,2}", ["a1", "a2", "b1", "b2"]),
    ("{a,{b,c}d}", ["a", "bd", "cd"]),
    ("x{,s}.jpg", ["x.jpg", "xs.jpg"]),
    ("{a,a}", ["a"]),
    ("{a}/{b", ["{a}/{b"]),
    ("plain", ["plain"]),
)
def test_alternatives(pattern: str, globs: list[str]) -> None:
    assert sorted(expand_braces(pattern)) == sorted(globs)


def test_the_most_alternatives_and_other_cases_are_counted() -> None:
    with pytest.raises(ValueError, match="more than 4000 globs"):
        expand_braces("{a,b}" * 40)
    assert [other_case("*.jpg", name) for name in FILES[:3]] == [False, True, True]
    assert not other_case("*.txt", "a.TXT") and not other_case("*", "a.JPG")


FILES = ["1.jpg", "2.JPG", "3.Jpg", "4.png", "5.PNG", "6.txt", "7.jp2", "8.JP2", ".9.jpg"]


@cases(
    ("*.jpg", ["1.jpg", "2.JPG", "3.Jpg"]),
    ("*.{JPG,png}", ["1.jpg", "2.JPG", "3.Jpg", "4.png", "5.PNG"]),
    ("?.jp2", ["7.jp2", "8.JP2"]),
    ("2.jpg", []),
    ("*.jp[g]", ["1.jpg"]),
    ("*.txt", ["6.txt"]),
    ("**", FILES[:-1]),
)
def test_files_and_objects_are_the_same(pattern: str, names: list[str], tmp_path: Path) -> None:
    for name in FILES:
        (tmp_path / name).touch()
    globs = [any_case(glob) for glob in expand_braces(f"{tmp_path}/{pattern}")]
    found = {Path(file.uri).name for glob in globs for file in LocalStorage().list_files(glob)}
    assert found == set(names)
    matching = [glob_regex(glob).fullmatch for glob in globs]
    objects = {name for name in FILES if any(match(f"{tmp_path}/{name}") for match in matching)}
    assert objects == found
