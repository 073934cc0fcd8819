"""Masks and further images in the rows of an index, and of the records of bases.

A record is used together with those of its partners whose files are unchanged: path, size and
version are compared where the sides of a key are joined.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from transforms.core.images.checked_image import CheckedPartner
from transforms.core.images.pixel_options import UNTOUCHED
from transforms.core.records import PartnerFile, ShardImage, partner_files

# Without these, an entry says nothing of a file.
_NEEDED = ("path", "size", "version", "length", "format", "content")


def partner_rows(
    names: Sequence[str], image: ShardImage, stored: Sequence[CheckedPartner]
) -> list[dict[str, Any]]:
    """The masks and further images of a record, as the column `PARTNERS` has them.

    Args:
        names: of them, in their order.
        image: of the record.
        stored: as the record holds them.
    """
    each = zip(names, partner_files(image.partners), stored, strict=True)
    return [
        {
            "name": name,
            **file._asdict(),
            "length": checked.length,
            "format": checked.format,
            "content": bytes.fromhex(checked.content) or None,
            "gps": checked.has_place,
            "changes": changes_text(checked.changes),
        }
        for name, file, checked in each
    ]


def read_partner(row: Mapping[str, Any]) -> tuple[PartnerFile, CheckedPartner] | None:
    """A mask or further image of an index: its file, and what the record holds of it.

    None if nothing proves that its file is unchanged, or that the record is sound.
    """
    # A storage without times gives the version 0.
    if any(row[name] is None for name in _NEEDED) or not row["version"] or row["length"] < 0:
        return None
    changes = tuple(row["changes"].split(",")) if row["changes"] else ()
    file = PartnerFile(row["path"], row["size"], row["version"])
    content = row["content"].hex()
    checked = CheckedPartner(row["length"], row["format"], content, bool(row["gps"]), changes)
    return file, checked


def partners_of_text(partners: Sequence[Any]) -> tuple[CheckedPartner | None, ...]:
    """Masks and further images from the JSON array in the text of a record."""
    return tuple(each and CheckedPartner._make([*each[:4], tuple(each[4])]) for each in partners)


def files_text(files: Sequence[PartnerFile | None]) -> str:
    """Files of masks and further images as `partner_files` reads them; empty without any."""
    return json.dumps(files, ensure_ascii=False, separators=(",", ":")) if files else ""


def with_same_files(text: str, files: str, wanted: str) -> str:
    """The text of a record, in which only masks and further images of unchanged files are left.

    Args:
        text: see `StoredImage.of_text`.
        files: from which the record has them, see `files_text`.
        wanted: those of the image, see `partner_files`.
    """
    if files == wanted:
        return text
    *fields, partners = json.loads(text)
    each = zip(partners, json.loads(files), json.loads(wanted), strict=True)
    left = [partner if file == own else None for partner, file, own in each]
    return json.dumps([*fields, left], separators=(",", ":"))


def changes_text(changes: tuple[str, ...]) -> str | None:
    """Changes to pixels as an index has them; None if there are none."""
    return None if changes in ((), UNTOUCHED) else ",".join(changes)
