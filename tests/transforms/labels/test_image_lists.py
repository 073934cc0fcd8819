"""Images that rows list are found from the CSV's folder, and have one key each."""

from __future__ import annotations

import posixpath

import pytest

from transforms.labels.keys import full_uri, listed_key, listed_path, listed_problem, listed_uri

ROOTS = ["data", "/home/data", "gs://bucket/data"]
CELLS = ["photos/1.jpg", "./1.jpg", "../1.jpg", "/photos/1.jpg", "gs://other/1.jpg"]


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("root", ROOTS)
def test_the_path_and_the_root_are_the_file_again(root: str, cell: str) -> None:
    path = f"{root}/list.csv"
    if problem := listed_problem(cell, path):
        message = "'/photos/1.jpg' is a local file, but its CSV is in a bucket"
        assert (root, problem) == ("gs://bucket/data", message)
        return
    uri = listed_uri(cell, path)
    found = full_uri(root, listed_path(uri, root))
    assert (found if "://" in found else posixpath.normpath(found)) == uri


def test_keys_do_not_depend_on_how_a_row_spells_its_path() -> None:
    keys = {
        listed_key(listed_uri(cell, "/d/list.csv"), kind="path", root="/d")
        for cell in ("a/1.jpg", "./a/1.jpg", " a/1.jpg ", "/d/a/1.jpg", "b/../a/1.jpg")
    }
    assert keys == {"a/1.jpg"}


def test_a_file_that_lies_elsewhere_keeps_its_whole_path() -> None:
    assert listed_key("gs://b/1.jpg", kind="path", root="/d") == "gs://b/1.jpg"
    assert listed_key("gs://b/1.jpg", kind="stem", root="/d") == "1"
