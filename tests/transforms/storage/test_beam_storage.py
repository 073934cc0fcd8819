"""Files of other schemes, through a file system of Beam."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.mem_filesystem import FILES, MemFileSystem
from transforms.dataset.output_names import ForeignNameError
from transforms.input_readers import find_listed
from transforms.labels.keys import MISSING
from transforms.storage.files import storage_of
from transforms.storage.interface import Storage


@pytest.fixture
def storage() -> Iterator[Storage]:
    """That of `mem://`, with one file."""
    with MemFileSystem(None).create("mem://in/1.jpg", compression_type="uncompressed") as file:
        file.write(b"123")
    yield storage_of("mem://in")
    FILES.clear()


def test_a_file_that_a_row_lists_is_found_as_listed(storage: Storage) -> None:
    [listed] = storage.list_files("mem://in/*")
    found = find_listed("mem://in/1.jpg")
    assert (listed.size, listed.version) == (3, found.version) == (found.size, found.version)
    assert find_listed("mem://in/2.jpg").version == MISSING


def test_a_file_is_written_whole_and_replaced(storage: Storage) -> None:
    for data in (b"former", b"new"):
        storage.write_whole("mem://in/1.jpg", data, generation=0)
        assert storage.read_text("mem://in/1.jpg") == data.decode()
    assert storage.names_below("mem://in/") == ["1.jpg"]


def test_what_is_foreign_in_the_staging_folder_stays(storage: Storage) -> None:
    storage.write_whole("mem://out/.staging/me", b"me")
    with pytest.raises(
        ForeignNameError, match="'mem://out/.staging/me' is in the staging folder, but this tool"
    ):
        storage.remove_staging("mem://out/.staging")
    storage.remove("mem://out/.staging/me")
    storage.write_whole("mem://out/.staging/outcome.json", b"{}")
    storage.remove_staging("mem://out/.staging")
    assert storage.names_below("mem://out") == []


def test_what_names_nothing(storage: Storage) -> None:
    assert storage.name_problem("mem://in/1.jpg") == ""
    assert storage_of("gs:///a").name_problem("gs:///a").startswith("names no bucket")
