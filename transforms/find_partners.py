"""Lists masks and further images, with the keys of their images. Opens none of them."""

from __future__ import annotations

from collections.abc import Iterator

from transforms.core.features.partners import Partner, partner_side
from transforms.core.planning.image_globs import any_case
from transforms.core.planning.keys import image_key, relative_path
from transforms.core.records import Count, JoinSide
from transforms.core.rejections import Reason, Rejection
from transforms.find_images import LeftOut
from transforms.storage.file_metadata import FoundFile
from transforms.storage.files import storage_of


class PartnerFinder:
    """Finds the files of all partners of the images of one dataset.

    Attributes:
        partners: all of them, in their order.
    """

    def __init__(
        self, partners: tuple[Partner, ...], *, key: str, left_out: LeftOut | None = None
    ) -> None:
        """Sets what to find.

        Args:
            partners: all of them, in their order.
            key: kind of the join key.
            left_out: files that are no partners.
        """
        self.partners = partners
        self._left_out = left_out or LeftOut()
        self._key = key

    @property
    def globs(self) -> list[tuple[str, str]]:
        """All globs, each with the name of its partner."""
        return [(partner.name, glob) for partner in self.partners for glob in partner.globs]

    def find(self, name: str, glob: str) -> Iterator[tuple[str, JoinSide] | Rejection | Count]:
        """Lists one glob: yields every file with its key, and their number at the end.

        Args:
            name: of the partner.
            glob: one of its globs.
        """
        [partner] = [each for each in self.partners if each.name == name]
        found = 0
        for file in storage_of(glob).list_files(any_case(glob)):
            if not self._left_out.has(file.uri):
                found += 1
                yield self._describe(file, partner)
        yield Count("partners_found", found)

    def _describe(self, file: FoundFile, partner: Partner) -> tuple[str, JoinSide] | Rejection:
        path = relative_path(file.uri, partner.root)
        try:
            path.encode()
        except UnicodeEncodeError:
            shown = file.uri.encode(errors="surrogateescape").decode(errors="backslashreplace")
            detail = f"the name of a file of {partner.title} holds bytes that are not UTF-8"
            return Rejection("partner", Reason.NAME_NOT_UTF8.value, detail, shown, "")
        key = image_key(file.uri, kind=self._key, root=partner.root)
        if file.problem:
            return Rejection("partner", Reason.BAD_MEMBER.value, file.problem, file.uri, key)
        return key, partner_side(partner.name, path, file.size, file.version)
