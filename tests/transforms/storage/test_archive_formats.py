"""Archives in memory: tar and zip, whole, damaged and hostile."""

import bz2
import copy
import gzip
import io
import itertools
import json
import lzma
import random
import tarfile
import zipfile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.images.packed import damaged, tarred, with_flag, with_size, zipped
from tests.marks import cases
from tests.spies import memory_below
from transforms.core.messages import FinalError, MemberError
from transforms.storage import archive_formats
from transforms.storage.archive_formats import (
    MAX_READ,
    ArchiveFile,
    Member,
    read_tar_member,
    read_zip_member,
    tar_members,
    zip_members,
)


class Archive:
    """An archive in memory that notes what is requested of it."""

    def __init__(self, data: bytes, *, kind: str = "zip") -> None:
        self.data, self.kind = data, kind
        self.requests: list[tuple[int, int]] = []

    def read(self, offset: int, length: int) -> bytes:
        assert length > 0
        self.requests.append((offset, length))
        return self.data[offset : offset + length]

    def members(self) -> list[Member]:
        file = ArchiveFile(self.read, len(self.data), block=512 if self.kind == "tar" else 8192)
        return [*(tar_members if self.kind == "tar" else zip_members)(file)]

    def bytes_of(self, member: Member) -> bytes:
        """The bytes of a member, of which alone the requests are noted."""
        self.requests.clear()
        read = read_tar_member if self.kind == "tar" else read_zip_member
        return read(self.read, member.offset, member.size)


def members_of(data: bytes) -> list[Member]:
    return Archive(data, kind="tar").members()


# Tar archives.

WHOLE = tarred({"1.jpg": b"x" * 600, "2.jpg": b"y" * 600})
THIRD = tarred({"3.jpg": b"z" * 700, "3.cls": b"7"})
FILES = {"cat/1.jpg": b"meow" * 3_000, "./dog/2.jpg": b"woof", "한강.jpg": b"x" * 512, "e": b""}


@cases(
    (tarred(FILES), FILES),
    # As `cat a.tar b.tar` makes them; `tarfile` and GNU tar stop after the first one.
    (
        WHOLE + tarred({}) + bytes(512 * 5_000) + THIRD,
        {"1.jpg": b"x" * 600, "2.jpg": b"y" * 600, "3.jpg": b"z" * 700, "3.cls": b"7"},
    ),
    ids=["one", "joined"],
)
def test_each_member_of_a_tar_is_one_request(data: bytes, expected: dict[str, bytes]) -> None:
    archive = Archive(data, kind="tar")
    members = archive.members()
    assert [member.name for member in members] == [name.removeprefix("./") for name in expected]
    for member, content in zip(members, expected.values(), strict=True):
        assert archive.bytes_of(member) == content
        assert archive.requests == ([(member.offset, member.size)] if content else [])


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


def tagged(tags: dict[str, str], kind: bytes = tarfile.XHDTYPE) -> bytes:
    """A header of PAX, of a file or of the archive, that says these things."""
    info = tarfile.TarInfo("1.jpg")
    return info._create_pax_generic_header(tags, kind, "utf-8")  # type: ignore[attr-defined,no-any-return]


def named(name: str, kind: int) -> bytes:
    """A file with a long name, as a kind of tar stores it."""
    return tarfile.TarInfo(name).tobuf(kind) + bytes(1024)


LONG = "/".join(["folder"] * 60) + "/é.jpg"
OUT = "its name {!r} leads out of the archive"


@cases(
    (named(LONG, tarfile.PAX_FORMAT), LONG, ""),
    (named(LONG, tarfile.GNU_FORMAT), LONG, ""),
    *(
        (tarred({name: b"x"}), name.lstrip("/"), OUT.format(name))
        for name in ("../1.jpg", "a/../../1.jpg", "/etc/1.jpg")
    ),
    # Links are not followed.
    (
        tarred({}, links={"1.jpg": "/etc/passwd"}),
        *("1.jpg", "it is a link to '/etc/passwd', not a file"),
    ),
    # No file of these names can be written.
    (
        header("1.jpg", pax="path=a\0.jpg") + bytes(1024),
        *("a\0.jpg", "its name 'a\\x00.jpg' holds a NUL character"),
    ),
    # A hundred of them took one index, which was then taken for damaged.
    (
        tagged({"path": "a/" + "n" * 900_000 + ".jpg"}) + WHOLE,
        *("n" * 4092 + ".jpg", "its name has 900006 characters"),
    ),
)
def test_names_in_a_tar(data: bytes, name: str, problem: str) -> None:
    found = members_of(data)[0]
    assert (found.name, found.problem) == (name, problem)


CAPTION = json.dumps({"label": 3, "caption": "a dog"}).encode()


@cases(
    ({"1.cls": b"cat\n"}, "cat"),
    ({"1.json": CAPTION}, "3"),
    # As data frames write 4.
    ({"1.json": b'{"label": 4.0}'}, "4.0"),
    ({"1.cls": b" ", "1.json": b'{"cls": "fox"}'}, "fox"),
    ({"1.json": b'{"label": "of the json"}', "1.cls": b"of the cls"}, "of the cls"),
    ({"1.json": b'{"label": "name of the id"}', "1.cls": b"7"}, "name of the id"),
    ({"1.json": b'{"label": 8}', "1.cls": b"7"}, "7"),
    ({"1.cls": b"x" * 4096}, "x" * 4096),
    # What is no label: of another key, not valid, no text, or far too large.
    *(({name: b"cat"}, "") for name in ("2.cls", "b/1.cls", "1.txt")),
    ({"1.json": b"{"}, ""),
    ({"1.json": b'{"label": "\\ud800"}'}, ""),
    ({"1.json": b'{"cls": "a\\u0000"}'}, ""),
    ({"1.cls": b"\0"}, ""),
    ({"1.cls": b"x" * 4097}, ""),
    ({"1.cls": b"7" + b" " * (1 << 20)}, ""),
    ({"1.json": b"[" * 60_000}, ""),
)
def test_the_label_is_that_of_the_same_key(files: dict[str, bytes], label: str) -> None:
    for around in ({"1.jpg": b"x", **files}, {**files, "1.left.jpg": b"x"}):
        labels = {member.name: member.label for member in members_of(tarred(around))}
        assert {labels[name] for name in around if name.endswith("jpg")} == {label}


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
    "more after its end": WHOLE + b"garbage" * 100,
}
COMPRESSED = "it is compressed, in spite of its name: decompress it"
TALKATIVE = "its headers say more than real ones do"
REFUSED = {
    **{name: (data, "not a tar archive, or a damaged one") for name, data in DAMAGED.items()},
    "gzip": (gzip.compress(WHOLE), COMPRESSED),
    "bzip2": (bz2.compress(WHOLE), COMPRESSED),
    "xz": (lzma.compress(WHOLE), COMPRESSED),
    # PAX says anything about a file, of any size: one of 98 MB was read, and 60 of 1 MB took 17 s.
    "a header of megabytes": (tagged({"comment": "x" * (17 << 20)}) + WHOLE, TALKATIVE),
    "many lines": ((tagged({str(at): "" for at in range(300)}) + header("a")) * 1100, TALKATIVE),
    "a list": (tagged({"GNU.sparse.map": "0," * 300_000}) + WHOLE, TALKATIVE),
    # 60 of them with 60,000 tags took minutes: each was looked at for each file.
    "tags": (tagged({str(at): "" for at in range(900)}, tarfile.XGLTYPE) + header("a") * 400,
        TALKATIVE),
    "tags of megabytes": (tagged({"uname": "x" * 600_000}, tarfile.XGLTYPE) + header("a") * 30,
        TALKATIVE),
    # 900 KB of digits took minutes.
    "digits": (tagged({"size": "9" * 900_000}) + WHOLE, "a header has a number of 300 digits"),
    "zeros": (b"".join(WHOLE + bytes(1 << 18) for _ in range(8)),
        "more than 1048576 zeros from byte"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_tar_that_is_refused_is_one_line(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_formats, "_MAX_ZEROS", 1 << 20)
    data, says = REFUSED[name]
    with pytest.raises(FinalError, match=says) as caught:
        members_of(data)
    assert "\n" not in str(caught.value)


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


def test_an_archive_that_was_cut_or_cannot_be_requested_is_told_apart() -> None:
    member = members_of(WHOLE)[1]
    with pytest.raises(MemberError, match="ends in the middle"):
        Archive(WHOLE[:2000], kind="tar").bytes_of(member)

    def read(offset: int, length: int) -> bytes:
        raise ConnectionError(5, "no answer")

    with pytest.raises(ConnectionError, match="no answer"):
        list(zip_members(ArchiveFile(read, 1000, block=8192)))


def test_zeros_after_an_archive_are_read_by_the_megabyte(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_formats, "_MAX_ZEROS", 64 << 20)
    requests: list[int] = []

    def read(at: int, length: int) -> bytes:
        requests.append(length)
        return WHOLE[at : at + length].ljust(length, b"\0")

    file = ArchiveFile(read, len(WHOLE) + (48 << 20), block=512)
    assert len(tar_members(file)) == 2
    assert len(requests) < 130
    with pytest.raises(FinalError, match="more than 67108864 zeros from byte"):
        tar_members(ArchiveFile(read, 1 << 40, block=512))


def test_appended_archives_are_not_read_a_megabyte_each() -> None:
    """A tar of 150 MB of them took a minute of CPU time."""
    archive = Archive(WHOLE * 1000, kind="tar")
    archive.members()
    assert sum(length for _, length in archive.requests) < 4 * len(archive.data)


def test_neither_headers_nor_texts_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[int] = []
    following = tarfile.TarFile.next

    def noted(self: tarfile.TarFile) -> tarfile.TarInfo | None:
        kept.append(len(self.members))
        return following(self)

    monkeypatch.setattr(tarfile.TarFile, "next", noted)
    caption = json.dumps({"caption": "x" * 60_000, "label": 1}).encode()
    data = tarred({f"{n}.json": caption for n in range(100)})
    with memory_below(3_000_000):
        members = members_of(data)
    assert members[0].label == "1"
    assert max(kept) <= 1


# Zip archives.

RANDOM = random.Random(1)
ZIPPED = {"cat/1.jpg": RANDOM.randbytes(5_000), "dog/2.jpg": b"woof" * 2_000, "empty.jpg": b""}
STORED, DEFLATED = zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED


# One that unpacks itself begins with a program.
@pytest.mark.parametrize("before", [b"", b"#!/bin/sh\n"])
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("method", [STORED, DEFLATED])
def test_each_member_of_a_zip_is_one_request(method: int, streamed: bool, before: bytes) -> None:
    archive = Archive(before + zipped(ZIPPED, method, streamed=streamed))
    members = archive.members()
    assert [member.name for member in members] == list(ZIPPED)
    for member in members:
        assert archive.bytes_of(member) == ZIPPED[member.name]
        [(_, length)] = archive.requests
        assert length < member.size + 600


@pytest.mark.parametrize(("files", "name", "most"), [(500, "{}.jpg", 1), (1_000, "{:0200}.jpg", 3)])
def test_the_directory_of_a_zip_is_read_once(files: int, name: str, most: int) -> None:
    archive = Archive(zipped({name.format(number): b"x" for number in range(files)}))
    assert len(archive.members()) == files
    assert len(archive.requests) <= most
    assert sum(length for _, length in archive.requests) <= len(archive.data)


def on_windows(data: bytes) -> bytes:
    """The system is the second byte of the version, in the directory."""
    return data.replace(b"PK\x01\x02\x14\x03", b"PK\x01\x02\x14\x00")


def unsaid(data: bytes) -> bytes:
    """A zip that does not say that its names are Unicode."""
    assert b"\x00\x08\x00\x00" in data
    return data.replace(b"\x00\x08\x00\x00", b"\x00\x00\x00\x00")


def with_entry(*names: str, **changes: Any) -> bytes:
    """A zip with files that its directory says something else about."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name in names:
            archive.writestr(name, b"x")
        for info, (field, value) in itertools.product(archive.infolist(), changes.items()):
            setattr(info, field, value)
    return target.getvalue()


ONE = zipped({"1.jpg": b"x"})
MIXED = zipped({"cat\\1.jpg": b"x", "folder\\": b""})
SIZE = "says that it has 18446744073709551600 bytes"


@cases(
    *((zipped({name: b"x"}), [name], "") for name in ("한강.jpg", "é.jpg", "é.jpg")),
    *((unsaid(zipped({name: b"x"})), [name], "") for name in ("한강.jpg", "é.jpg", "é.jpg")),
    # Other names are those of DOS.
    (zipped({"xx.jpg": b"x"}).replace(b"xx.jpg", b"\x82\x82.jpg"), ["éé.jpg"], ""),
    # As old versions of .NET write them; elsewhere, they are characters of a name.
    (on_windows(MIXED), ["cat/1.jpg"], ""),
    (MIXED, ["cat\\1.jpg", "folder\\"], ""),
    (on_windows(zipped({"..\\1.jpg": b"x"})), ["../1.jpg"], OUT.format("../1.jpg")),
    (on_windows(zipped({"a/b\\1.jpg": b"x"})), ["a/b\\1.jpg"], ""),
    (zipped({"a/": b"", "./a/1.jpg": b"x"}), ["a/1.jpg"], ""),
    # A file without a name is left out of every glob.
    (zipped({"xyz.jpg": b"x"}).replace(b"xyz", b"\0yz"), [""], ""),
    (zipped({"../1.jpg": b"x"}), ["../1.jpg"], OUT.format("../1.jpg")),
    (zipped({"/etc/1.jpg": b"x"}), ["etc/1.jpg"], OUT.format("/etc/1.jpg")),
    (with_flag(ONE, "1.jpg", 1), ["1.jpg"], "encrypted"),
    (zipped({"1.jpg": b"x"}, zipfile.ZIP_BZIP2), ["1.jpg"], "bzip2, is not read"),
    (zipped({"1.jpg": b"x"}, zipfile.ZIP_LZMA), ["1.jpg"], "lzma, is not read"),
    (with_entry("1.jpg", file_size=2**64 - 16), ["1.jpg"], SIZE),
    (with_entry("1.jpg", external_attr=0o120777 << 16), *(["1.jpg"], "it is a link, not a file")),
)
def test_what_the_directory_of_a_zip_shows(data: bytes, names: list[str], problem: str) -> None:
    members = Archive(data).members()
    assert [member.name for member in members] == names
    assert (problem in members[0].problem) if problem else not members[0].problem
    # A record holds 64 bits.
    assert members[0].size < 2**63


def test_the_directory_has_no_large_extra_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    """700 of 64 kB took 80 s: `zipfile` copies one for each of its parts."""
    part = b"\xfe\xca\0\0"
    assert Archive(with_entry("1.jpg", extra=part * 1279)).members()[0].name == "1.jpg"
    monkeypatch.setattr(archive_formats, "_MOST_EXTRAS", 40)
    assert len(Archive(with_entry("1.jpg", "2.jpg", extra=part * 1100)).members()) == 2
    for names, parts in ((["1.jpg"], 1280), (["1.jpg", "2.jpg", "3.jpg"], 1100)):
        with pytest.raises(FinalError, match="extra fields of 5 kB, or of 8 MB in all: pack it"):
            Archive(with_entry(*names, extra=part * parts)).members()


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
            entry.file_size = entry.compress_size = 5_000 - 400 * (number == 4)
            packed.filelist.append(entry)
    problems = {member.name: member.problem for member in Archive(target.getvalue()).members()}
    overlaps = "it overlaps with another file of the archive"
    assert problems == {**dict.fromkeys(names, overlaps), "other.jpg": ""}


def test_files_that_grow_more_than_images_do_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """40 files of 240 MB are a zip of 10 MB, and took half a minute."""
    monkeypatch.setattr(archive_formats, "_FREE_BYTES", 64_000)
    # The third one would be free if the second one were not there.
    data = zipped(
        {f"{at}.bmp": bytes(size * 10_000) for at, size in enumerate((9, 6, 5))}, DEFLATED
    )
    refused = "it would have {} bytes, more than 200 times its size"
    found = Archive(data).members()
    assert [each.problem for each in found] == [refused.format(90_000), "", refused.format(50_000)]
    [_, member, _] = Archive(with_size(data, "1.bmp", 200_000)).members()
    assert member.problem == "the directory of the archive says that it has 200000 bytes"


BOMB = zipped({"1.jpg": bytes(10 << 20)}, DEFLATED)
FINE = RANDOM.randbytes(999)
WELL = zipped({"1.jpg": FINE})
PACKED = zipped({"1.jpg": b"ab" * 99}, DEFLATED)

DAMAGED_MEMBERS = {
    "decompresses to more than the 1000 bytes": with_size(BOMB, "1.jpg", 1000),
    "not the 11534336 of the directory": with_size(BOMB, "1.jpg", 11 << 20),
    "checksum is wrong": with_size(WELL, "1.jpg", 5),
    "not the 99999 of the directory": with_size(WELL, "1.jpg", 99_999),
    "its checksum is wrong": damaged(WELL, FINE),
    "a place where no file begins": WELL.replace(b"PK\x03\x04", b"PK\x03\x05"),
    "encrypted": WELL.replace(b"PK\x03\x04\x14\x00\x00", b"PK\x03\x04\x14\x00\x01"),
    "bzip2, is not read": WELL.replace(b"PK\x03\x04\x14\0\0\0\0", b"PK\x03\x04\x14\0\0\0\x0c"),
    # A block of a type that deflate does not have.
    "its compressed data is damaged": PACKED.replace(b"1.jpgK", b"1.jpg\x07", 1),
}


@pytest.mark.parametrize("says", DAMAGED_MEMBERS)
def test_a_damaged_member_is_refused(says: str) -> None:
    archive = Archive(DAMAGED_MEMBERS[says])
    [member] = archive.members()
    with pytest.raises(MemberError) as caught:
        archive.bytes_of(member)
    assert says in caught.value.strerror


def test_a_bomb_takes_no_memory() -> None:
    """It is decompressed up to the size that its directory claims."""
    archive = Archive(with_size(BOMB, "1.jpg", 1000))
    [member] = archive.members()
    with memory_below(300_000), pytest.raises(MemberError):
        archive.bytes_of(member)


def test_data_without_an_end_is_not_read_to_the_end_of_the_archive() -> None:
    empty_blocks = zipped({"1.jpg": b"\x00\x00\x00\xff\xff" * 400_000})
    whole = Archive(empty_blocks.replace(b"\x14\0\0\0\0\0", b"\x14\0\0\0\x08\0", 1))
    with pytest.raises(MemberError, match="has 0 bytes, not the 10 of"):
        whole.bytes_of(Member("1.jpg", 10, 0))
    assert sum(length for _, length in whole.requests) < 200_000


@cases(b"", b"no archive" * 100, zipped(ZIPPED)[:-30], ids=["empty", "text", "cut"])
def test_a_damaged_zip_is_one_line(data: bytes) -> None:
    with pytest.raises(FinalError, match="not a zip archive, or a damaged one") as caught:
        Archive(data).members()
    assert "\n" not in str(caught.value)


def test_a_directory_that_claims_to_be_huge_is_not_read() -> None:
    file = ArchiveFile(lambda offset, length: bytes(length), MAX_READ * 4, block=8192)
    with pytest.raises(FinalError, match="split the archive"):
        file.read(MAX_READ + 1)


@given(st.binary(max_size=400), st.sampled_from([STORED, DEFLATED]), st.booleans(), st.data())
def test_no_damage_gives_other_bytes(
    plain: bytes, method: int, streamed: bool, data: st.DataObject
) -> None:
    """One changed byte anywhere: the same bytes, or an error that rejects one file."""
    name = data.draw(st.sampled_from(["1.jpg", "n" * 600]))
    changed = bytearray(zipped({name: plain}, method, streamed=streamed))
    [member] = Archive(bytes(changed)).members()
    changed[data.draw(st.integers(0, len(changed) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        assert Archive(bytes(changed)).bytes_of(member) == plain
    except MemberError as error:
        assert error.strerror
