"""`transforms.storage.archive_formats` on archives in memory."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import tarfile
import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.images.packed import tarred
from transforms.core.messages import FinalError, MemberError
from transforms.storage.archive_formats import (
    ArchiveFile,
    Member,
    read_tar_member,
    sample_label,
    tar_members,
)

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
