"""`transforms.storage.archive_formats` on archives in memory, each request counted."""

from __future__ import annotations

import copy
import io
import random
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.images.packed import damaged, with_flag, with_size, zipped
from transforms.core.messages import FinalError, MemberError
from transforms.storage.archive_formats import (
    MAX_READ,
    ArchiveFile,
    Member,
    read_zip_member,
    zip_members,
)

RANDOM = random.Random(1)
FILES = {"cat/1.jpg": RANDOM.randbytes(5_000), "dog/2.jpg": b"woof" * 2_000, "empty.jpg": b""}
STORED, DEFLATED = zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED


class Archive:
    """An archive in memory that notes what is requested of it."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.requests: list[tuple[int, int]] = []

    def read(self, offset: int, length: int) -> bytes:
        assert length > 0
        self.requests.append((offset, length))
        return self.data[offset : offset + length]

    def members(self) -> dict[str, Member]:
        file = ArchiveFile(self.read, len(self.data), block=8192)
        found = {member.name: member for member in zip_members(file)}
        self.requests.clear()
        return found

    def bytes_of(self, name: str) -> bytes:
        member = self.members()[name]
        return read_zip_member(self.read, member.offset, member.size)


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("method", [STORED, DEFLATED])
def test_a_member_is_one_request(method: int, streamed: bool) -> None:
    archive = Archive(zipped(FILES, method, streamed=streamed))
    assert list(archive.members()) == list(FILES)
    for name, data in FILES.items():
        assert archive.bytes_of(name) == data
        [(_, length)] = archive.requests
        assert length < len(data) + 600


def test_the_directory_of_a_small_zip_is_one_request() -> None:
    archive = Archive(zipped({f"{n}.jpg": b"x" for n in range(500)}))
    list(zip_members(ArchiveFile(archive.read, len(archive.data), block=8192)))
    assert len(archive.requests) == 1


def test_the_directory_of_a_large_zip_is_read_once() -> None:
    archive = Archive(zipped({f"{n:0200d}.jpg": b"x" for n in range(1_000)}))
    list(zip_members(ArchiveFile(archive.read, len(archive.data), block=8192)))
    assert len(archive.requests) <= 3
    assert sum(length for _, length in archive.requests) < len(archive.data)


def test_a_zip_after_other_bytes_is_read() -> None:
    """Such as one that unpacks itself."""
    assert Archive(b"#!/bin/sh\n" + zipped(FILES)).bytes_of("dog/2.jpg") == FILES["dog/2.jpg"]


@pytest.mark.parametrize("name", ["한강.jpg", "é.jpg", "é.jpg", "e.jpg"])
def test_names_are_unicode_even_if_the_zip_does_not_say_so(name: str) -> None:
    said = zipped({name: b"x"})
    assert list(Archive(said).members()) == [name]
    if not name.isascii():
        unsaid = said.replace(b"\x00\x08\x00\x00", b"\x00\x00\x00\x00")
        assert unsaid != said
        assert list(Archive(unsaid).members()) == [name]


def test_other_names_are_those_of_dos() -> None:
    data = zipped({"xx.jpg": b"x"}).replace(b"xx.jpg", b"\x82\x82.jpg")
    assert list(Archive(data).members()) == ["éé.jpg"]


@pytest.mark.parametrize(
    ("name", "found", "problem"),
    [
        ("cat\\1.jpg", "cat/1.jpg", ""),
        ("..\\1.jpg", "../1.jpg", "its name '../1.jpg' leads out of the archive"),
        ("a/b\\1.jpg", "a/b\\1.jpg", ""),
    ],
)
def test_separators_of_windows(name: str, found: str, problem: str) -> None:
    """As old versions of .NET write them; elsewhere, they are characters of a name."""
    on_linux = zipped({name: b"x", "folder\\": b""})
    assert name in Archive(on_linux).members()
    # The system is the second byte of the version, in the directory.
    on_windows = on_linux.replace(b"PK\x01\x02\x14\x03", b"PK\x01\x02\x14\x00")
    assert on_windows != on_linux
    members = Archive(on_windows).members()
    assert [(member.name, member.problem) for member in members.values()] == [(found, problem)]


def test_folders_and_dots_are_left_out() -> None:
    assert list(Archive(zipped({"a/": b"", "./a/1.jpg": b"x"})).members()) == ["a/1.jpg"]


def test_a_file_without_a_name_is_left_out_of_every_glob() -> None:
    assert list(Archive(zipped({"xyz.jpg": b"x"}).replace(b"xyz", b"\0yz")).members()) == [""]


def _with_long_size(size: int) -> bytes:
    """A zip whose directory claims a size of 64 bits."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("1.jpg", b"x")
        archive.infolist()[0].file_size = size
    return target.getvalue()


SHOWN = {
    "leads out of the archive": zipped({"../1.jpg": b"x"}),
    "'/etc/1.jpg' leads out of the archive": zipped({"/etc/1.jpg": b"x"}),
    "encrypted": with_flag(zipped({"1.jpg": b"x"}), "1.jpg", 1),
    "bzip2, is not read": zipped({"1.jpg": b"x"}, zipfile.ZIP_BZIP2),
    "lzma, is not read": zipped({"1.jpg": b"x"}, zipfile.ZIP_LZMA),
    "says that it has 18446744073709551600 bytes": _with_long_size(2**64 - 16),
}


@pytest.mark.parametrize("says", SHOWN)
def test_what_the_directory_shows(says: str) -> None:
    [member] = Archive(SHOWN[says]).members().values()
    assert says in member.problem
    # A record holds 64 bits.
    assert member.size < 2**63


def test_a_link_is_not_followed() -> None:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        info = zipfile.ZipInfo("1.jpg")
        info.external_attr = 0o120777 << 16
        archive.writestr(info, "/etc/passwd")
    [member] = Archive(target.getvalue()).members().values()
    assert member.problem == "it is a link, not a file"


BOMB = zipped({"1.jpg": bytes(10 << 20)}, DEFLATED)
FINE = RANDOM.randbytes(999)
ONE = zipped({"1.jpg": FINE})


def _with_bad_block(archive: bytes) -> bytes:
    """A zip whose data begins with a block of a type that deflate does not have."""
    at = archive.index(b"1.jpg") + 5
    return archive[:at] + b"\x07" + archive[at + 1 :]


DAMAGED = {
    "decompresses to more than the 1000 bytes": with_size(BOMB, "1.jpg", 1000),
    "not the 11534336 of the directory": with_size(BOMB, "1.jpg", 11 << 20),
    "checksum is wrong": with_size(ONE, "1.jpg", 5),
    "not the 99999 of the directory": with_size(ONE, "1.jpg", 99_999),
    "its checksum is wrong": damaged(ONE, FINE),
    "a place where no file begins": ONE.replace(b"PK\x03\x04", b"PK\x03\x05"),
    "encrypted": ONE.replace(b"PK\x03\x04\x14\x00\x00", b"PK\x03\x04\x14\x00\x01"),
    "bzip2, is not read": ONE.replace(b"PK\x03\x04\x14\0\0\0\0", b"PK\x03\x04\x14\0\0\0\x0c"),
    "its compressed data is damaged": _with_bad_block(zipped({"1.jpg": b"ab" * 99}, DEFLATED)),
}


@pytest.mark.parametrize("says", DAMAGED)
def test_a_damaged_member_is_refused(says: str) -> None:
    with pytest.raises(MemberError) as caught:
        Archive(DAMAGED[says]).bytes_of("1.jpg")
    assert says in caught.value.strerror


def test_a_bomb_takes_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is decompressed up to the size that its directory claims."""
    from transforms.storage import archive_formats as zip_archives

    made: list[int] = []
    inflate = zip_archives.zlib.decompressobj

    class Noted:
        def __init__(self, wbits: int) -> None:
            self._inflater = inflate(wbits)

        def decompress(self, data: bytes, length: int) -> bytes:
            found = self._inflater.decompress(data, length)
            made.append(len(found))
            return found

        def __getattr__(self, name: str) -> object:
            return getattr(self._inflater, name)

    monkeypatch.setattr(zip_archives.zlib, "decompressobj", Noted)
    with pytest.raises(MemberError):
        Archive(with_size(BOMB, "1.jpg", 1000)).bytes_of("1.jpg")
    assert sum(made) == 1001


def test_data_without_an_end_is_not_read_to_the_end_of_the_archive() -> None:
    empty_blocks = b"\x00\x00\x00\xff\xff" * 400_000
    archive = zipped({"1.jpg": b"", "2.jpg": empty_blocks})
    at = archive.index(b"2.jpg") + 5
    local = archive[:8] + b"\x08\x00" + archive[10:30]
    whole = Archive(archive[:at] + local + b"1.jpg" + empty_blocks)
    with pytest.raises(MemberError, match="no end"):
        read_zip_member(whole.read, at, 10)
    assert sum(length for _, length in whole.requests) < 200_000


@pytest.mark.parametrize(
    "data", [b"", b"no archive" * 100, zipped(FILES)[:-30]], ids=["empty", "text", "cut"]
)
def test_a_damaged_archive_is_one_line(data: bytes) -> None:
    with pytest.raises(FinalError, match="damaged zip archive, or none") as caught:
        Archive(data).members()
    assert "\n" not in str(caught.value)


def test_a_failed_request_is_not_a_damaged_archive() -> None:
    def read(offset: int, length: int) -> bytes:
        raise ConnectionError(5, "no answer")

    with pytest.raises(ConnectionError, match="no answer"):
        list(zip_members(ArchiveFile(read, 1000, block=8192)))


def test_a_directory_that_claims_to_be_huge_is_not_read() -> None:
    file = ArchiveFile(lambda offset, length: bytes(length), MAX_READ * 4, block=8192)
    with pytest.raises(FinalError, match="split the archive"):
        file.read(MAX_READ + 1)


@given(st.binary(max_size=400), st.sampled_from([STORED, DEFLATED]), st.booleans(), st.data())
def test_no_damage_gives_other_bytes(
    plain: bytes, method: int, streamed: bool, data: st.DataObject
) -> None:
    """One changed byte anywhere: the same bytes, or an error that rejects one file."""
    whole = zipped({"1.jpg": plain}, method, streamed=streamed)
    member = Archive(whole).members()["1.jpg"]
    at = data.draw(st.integers(0, len(whole) - 1))
    changed = bytearray(whole)
    changed[at] ^= data.draw(st.integers(1, 255))
    archive = Archive(bytes(changed))
    try:
        assert read_zip_member(archive.read, member.offset, member.size) == plain
    except MemberError as error:
        assert error.strerror


def test_files_that_share_their_bytes_are_refused() -> None:
    """40 entries for one file of 240 MB took minutes and 1.4 GB."""
    names = [f"{number}.jpg" for number in range(5)]
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as packed:
        packed.writestr("0.jpg", b"x" * 5_000)
        packed.writestr("other.jpg", b"y" * 10)
        for number, name in enumerate(names[1:], 1):
            entry = copy.copy(packed.filelist[0])
            entry.filename = entry.orig_filename = name
            # One begins inside of another one, as in a nested archive.
            entry.header_offset += 40 * (number == 4)
            entry.compress_size -= 400 * (number == 4)
            packed.filelist.append(entry)
    members = Archive(target.getvalue()).members()
    problems = {name: member.problem for name, member in members.items()}
    overlaps = "it overlaps with another file of the archive"
    assert problems == {**dict.fromkeys(names, overlaps), "other.jpg": ""}


def test_files_that_grow_more_than_images_do_are_refused() -> None:
    """40 files of 240 MB are a zip of 10 MB, and took half a minute."""
    data = zipped({"1.bmp": bytes(90_000_000), "2.bmp": bytes(60_000_000)}, zipfile.ZIP_DEFLATED)
    members = Archive(data).members()
    wanted = "it would have 90000000 bytes, more than 200 times its size"
    assert (members["1.bmp"].problem, members["2.bmp"].problem) == (wanted, "")
