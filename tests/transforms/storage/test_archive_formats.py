"""Archives in memory: tar and zip, whole, damaged and hostile."""

from __future__ import annotations

import bz2
import copy
import gzip
import io
import json
import lzma
import random
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.images.packed import damaged, tarred, with_flag, with_size, zipped
from transforms.core.messages import FinalError, MemberError
from transforms.storage.archive_formats import (
    MAX_READ,
    ArchiveFile,
    Member,
    read_tar_member,
    read_zip_member,
    sample_label,
    tar_members,
    zip_members,
)

# `transforms.storage.archive_formats` on archives in memory.

FILES = {"cat/1.jpg": b"meow" * 3_000, "./dog/2.jpg": b"woof", "한강.jpg": b"x" * 512, "e": b""}


def members_of(data: bytes) -> list[Member]:
    return tar_members(ArchiveFile(lambda at, n: data[at : at + n], len(data), block=512))


def test_each_member_is_where_its_data_begins() -> None:
    archive = tarred(FILES)
    members = members_of(archive)
    assert [member.name for member in members] == ["cat/1.jpg", "dog/2.jpg", "한강.jpg", "e"]
    for member, data in zip(members, FILES.values(), strict=True):
        requests: list[tuple[int, int]] = []

        def read(offset: int, length: int) -> bytes:
            requests.append((offset, length))  # noqa: B023
            return archive[offset : offset + length]

        assert read_tar_member(read, member.offset, member.size) == data
        assert requests == ([(member.offset, member.size)] if data else [])


@pytest.mark.parametrize("kind", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_long_names_are_read(kind: int) -> None:
    name = "/".join(["folder"] * 60) + "/é.jpg"
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=kind) as archive:
        info = tarfile.TarInfo(name)
        info.size = 1
        archive.addfile(info, io.BytesIO(b"x"))
    assert [member.name for member in members_of(target.getvalue())] == [name]


def test_headers_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[int] = []
    following = tarfile.TarFile.next

    def noted(self: tarfile.TarFile) -> tarfile.TarInfo | None:
        kept.append(len(self.members))
        return following(self)

    monkeypatch.setattr(tarfile.TarFile, "next", noted)
    members_of(tarred({f"{number}.jpg": b"x" for number in range(50)}))
    assert max(kept) <= 1


@pytest.mark.parametrize("name", ["../1.jpg", "a/../../1.jpg", "/etc/1.jpg"])
def test_names_that_lead_out_are_refused(name: str) -> None:
    [member] = members_of(tarred({name: b"x"}))
    assert member.problem == f"its name {name!r} leads out of the archive"


def test_links_are_not_followed() -> None:
    [member] = members_of(tarred({}, links={"1.jpg": "/etc/passwd"}))
    assert member.problem == "it is a link to '/etc/passwd', not a file"


def test_labels_are_those_of_the_same_key() -> None:
    fields = json.dumps({"label": 3, "caption": "a dog"}).encode()
    files = {
        "a/000.jpg": b"x",
        "a/000.cls": b"cat\n",
        "a/001.json": fields,
        "a/001.left.jpg": b"x",
        "b/000.jpg": b"x",
        "a/002.json": b"{",
        "a/002.jpg": b"x",
        "a/003.cls": b" ",
        "a/003.json": b'{"cls": "fox"}',
        "a/003.jpg": b"x",
        # As data frames write 4.
        "a/004.json": b'{"label": 4.0}',
        "a/004.jpg": b"x",
        "a/005.json": b'{"label": "of the json"}',
        "a/005.cls": b"of the cls",
        "a/005.jpg": b"x",
    }
    labels = {member.name: member.label for member in members_of(tarred(files))}
    assert {name: label for name, label in labels.items() if name.endswith("jpg")} == {
        "a/000.jpg": "cat",
        "a/001.left.jpg": "3",
        "b/000.jpg": "",
        "a/002.jpg": "",
        "a/003.jpg": "fox",
        "a/004.jpg": "4.0",
        "a/005.jpg": "of the cls",
    }


def test_a_large_text_is_no_label() -> None:
    [image, _] = members_of(tarred({"1.jpg": b"x", "1.cls": b"7" + b" " * (1 << 20)}))
    assert image.label == ""


def test_a_hostile_text_is_no_label() -> None:
    [image, _] = members_of(tarred({"1.jpg": b"x", "1.json": b"[" * 60_000}))
    assert image.label == ""


WHOLE = tarred({"1.jpg": b"x" * 600, "2.jpg": b"y" * 600})


def header(name: str, *, size: int = 0, kind: bytes = tarfile.REGTYPE, pax: str = "") -> bytes:
    """A header that no program writes."""
    info = tarfile.TarInfo(name)
    info.size, info.type = size, kind
    block = info.tobuf(tarfile.GNU_FORMAT)
    if not pax:
        return block
    record = f"{len(pax) + 4} {pax}\n".encode()
    assert len(record) == len(pax) + 4
    before = tarfile.TarInfo("x")
    before.size, before.type = len(record), tarfile.XHDTYPE
    return before.tobuf(tarfile.GNU_FORMAT) + record.ljust(512, b"\0") + block


SPARSE = bytearray(header("1.jpg", kind=tarfile.GNUTYPE_SPARSE))
SPARSE[482] = 1
SPARSE[148:156] = b"%06o\0 " % (sum(SPARSE[:148]) + sum(SPARSE[156:]) + 8 * 32)


DAMAGED = {
    "empty": b"",
    "leads back": header("0.jpg") + header("1.jpg", size=-512) + bytes(1024),
    "leads back by a further header": header("0.jpg") + header("1.jpg", pax="size=-1536"),
    "below zero": header("1.jpg", pax="size=-1") + bytes(1024),
    "more than 64 bits": header("1.jpg", size=1 << 80) + bytes(1024),
    "headers about headers": header("x", size=1, kind=tarfile.XHDTYPE).ljust(1024, b"\0") * 2000,
    "a list of parts without an end": bytes(SPARSE),
    "text": b"no archive" * 100,
    "ends within a file": WHOLE[: 512 + 100],
    "ends within a header": WHOLE[: 512 + 1024 + 100],
    # The first file alone would look like a whole archive.
    "second header": WHOLE[:1536] + b"?" * 512 + WHOLE[2048:],
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_archive_is_one_line(damage: str) -> None:
    with pytest.raises(FinalError, match="damaged tar archive, or none") as caught:
        members_of(DAMAGED[damage])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
def test_a_compressed_archive_with_the_name_of_another(compress: Callable[[bytes], bytes]) -> None:
    with pytest.raises(FinalError, match="it is compressed, in spite of its name: decompress it"):
        members_of(compress(WHOLE))


def test_archives_that_were_joined_are_one() -> None:
    """As `cat a.tar b.tar` makes them; `tarfile` and GNU tar stop after the first one."""
    joined = WHOLE + tarred({}) + tarred({"3.jpg": b"z" * 700, "3.cls": b"7"})
    members = members_of(joined)
    assert [member.name for member in members] == ["1.jpg", "2.jpg", "3.jpg", "3.cls"]
    assert members[2].label == "7"
    for member, data in zip(members, (b"x" * 600, b"y" * 600, b"z" * 700), strict=False):
        read = read_tar_member(lambda at, n: joined[at : at + n], member.offset, member.size)
        assert read == data


def test_bytes_after_the_end_are_no_archive() -> None:
    with pytest.raises(FinalError, match="damaged tar archive, or none"):
        members_of(WHOLE + b"garbage" * 100)


def test_an_archive_that_was_cut_since_rejects_its_image() -> None:
    member = members_of(WHOLE)[1]
    with pytest.raises(MemberError, match="ends in the middle"):
        read_tar_member(lambda at, n: WHOLE[:2000][at : at + n], member.offset, member.size)


def test_a_name_with_a_nul_character_is_refused() -> None:
    """No file of this name can be written."""
    [member] = members_of(header("1.jpg", pax="path=a\0.jpg") + bytes(1024))
    assert member.problem == "its name 'a\\x00.jpg' holds a NUL character"


@pytest.mark.parametrize(
    "files",
    [{"1.json": b'{"label": "\\ud800"}'}, {"1.json": b'{"cls": "a\\u0000"}'}, {"1.cls": b"\0"}],
)
def test_what_is_no_text_is_no_label(files: dict[str, bytes]) -> None:
    [image, _] = members_of(tarred({"1.jpg": b"x", **files}))
    assert image.label == ""


def test_the_texts_of_labels_are_not_kept() -> None:
    caption = {"caption": "x" * 60_000, "label": 1}
    data = tarred({f"{n}.json": json.dumps(caption).encode() for n in range(100)})
    tracemalloc.start()
    members = members_of(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert members[0].label == "1" and peak < 3_000_000


@given(st.binary(min_size=1, max_size=12), st.integers(0, len(WHOLE) - 1), st.booleans())
def test_any_damage_is_one_line_or_none(noise: bytes, at: int, is_valid: bool) -> None:
    changed = bytearray(WHOLE)
    changed[at : at + len(noise)] = noise
    if is_valid:
        changed[148:156] = b" " * 8
        changed[148:156] = b"%06o\0 " % sum(changed[:512])
    try:
        members_of(bytes(changed))
    except FinalError as error:
        assert "\n" not in error.strerror


def test_a_header_of_megabytes_is_refused() -> None:
    """PAX says anything about a file, of any size: one of 98 MB was read."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as archive:
        info = tarfile.TarInfo("1.jpg")
        info.pax_headers = {"comment": "x" * (3 << 20)}
        archive.addfile(info, io.BytesIO(b""))
    with pytest.raises(FinalError, match="a header of it has 31[0-9]* bytes, more than 1048576"):
        members_of(target.getvalue())


def zeros_after(data: bytes, zeros: int, after: bytes = b"") -> tuple[ArchiveFile, list[int]]:
    """An archive with zeros behind it, of which few are in memory, and what is read of it."""
    requests: list[int] = []

    def read(at: int, length: int) -> bytes:
        requests.append(length)
        first, last = data[at : at + length], max(0, at - len(data) - zeros)
        rest = after[last : last + length] if at + length > len(data) + zeros else b""
        return first + bytes(length - len(first) - len(rest)) + rest

    return ArchiveFile(read, len(data) + zeros + len(after), block=512), requests


def test_zeros_after_an_archive_are_read_a_megabyte_at_a_time() -> None:
    file, requests = zeros_after(WHOLE, 64 << 20)
    assert len(tar_members(file)) == len(members_of(WHOLE))
    assert len(requests) < 150


def test_zeros_without_an_end_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transforms.storage.archive_formats._MAX_ZEROS", 1 << 25)
    file, _ = zeros_after(WHOLE, 1 << 40)
    with pytest.raises(FinalError, match="more than 33554432 zeros from byte"):
        tar_members(file)


def test_an_archive_behind_zeros_is_found_at_its_block() -> None:
    joined = WHOLE + bytes(512 * 5_000) + tarred({"3.jpg": b"z" * 700})
    assert [member.name for member in members_of(joined)][-1] == "3.jpg"


def test_zeros_between_archives_count_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transforms.storage.archive_formats._MAX_ZEROS", 1 << 20)
    many = b"".join(WHOLE + bytes(1 << 18) for _ in range(8))
    with pytest.raises(FinalError, match="more than 1048576 zeros from byte"):
        members_of(many)


def tagged(tags: dict[str, str], kind: bytes) -> bytes:
    """A header of PAX, of a file or of the archive, that says these things."""
    info = tarfile.TarInfo("1.jpg")
    return info._create_pax_generic_header(tags, kind, "utf-8")  # type: ignore[attr-defined,no-any-return]


@pytest.mark.parametrize(
    ("headers", "says"),
    [
        # 60 of them with 60,000 tags took minutes: each was looked at for each file.
        (tagged({str(at): "" for at in range(2000)}, tarfile.XGLTYPE), "headers of the archive"),
        (
            b"".join(
                tagged({str(at): "x" * 600_000}, tarfile.XGLTYPE)
                + tarfile.TarInfo(str(at)).tobuf(tarfile.PAX_FORMAT)
                for at in range(4)
            ),
            "headers of the archive say more than real ones do",
        ),
        # 900 KB of digits took minutes.
        (tagged({"size": "9" * 900_000}, tarfile.XHDTYPE), "a header has a number of 300 digits"),
        (tagged({"comment": "x" * 9000}, tarfile.XHDTYPE) * 200, "a header of it has 10[0-9]* byt"),
    ],
    ids=["tags", "text", "digits", "chain"],
)
def test_headers_that_take_long_are_refused(headers: bytes, says: str) -> None:
    with pytest.raises(FinalError, match=says):
        members_of(headers + WHOLE)


def test_a_name_that_no_file_has_rejects_its_member() -> None:
    """A hundred names of a megabyte took one, and the shard's index was then taken for damaged."""
    long = tagged({"path": "a/" + "n" * 900_000 + ".jpg"}, tarfile.XHDTYPE)
    [found, *_] = members_of(long + WHOLE)
    assert found.problem == "its name has 900006 characters"
    assert len(found.name) == 4096
    assert found.name.endswith("nn.jpg")


def test_a_text_of_kilobytes_is_no_label() -> None:
    assert sample_label("cls", "x" * 4096) == "x" * 4096
    assert sample_label("cls", "x" * 4097) == ""


# `transforms.storage.archive_formats` on archives in memory, each request counted.

RANDOM = random.Random(1)
ZIPPED = {
    "cat/1.jpg": RANDOM.randbytes(5_000),
    "dog/2.jpg": b"woof" * 2_000,
    "empty.jpg": b"",
}
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
    archive = Archive(zipped(ZIPPED, method, streamed=streamed))
    assert list(archive.members()) == list(ZIPPED)
    for name, data in ZIPPED.items():
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
    assert Archive(b"#!/bin/sh\n" + zipped(ZIPPED)).bytes_of("dog/2.jpg") == ZIPPED["dog/2.jpg"]


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


DAMAGED_MEMBERS = {
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


@pytest.mark.parametrize("says", DAMAGED_MEMBERS)
def test_a_damaged_member_is_refused(says: str) -> None:
    with pytest.raises(MemberError) as caught:
        Archive(DAMAGED_MEMBERS[says]).bytes_of("1.jpg")
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
    "data",
    [b"", b"no archive" * 100, zipped(ZIPPED)[:-30]],
    ids=["empty", "text", "cut"],
)
def test_a_damaged_zip_is_one_line(data: bytes) -> None:
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
