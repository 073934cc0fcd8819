"""Lists masks and further images, with the keys of their images. Opens none of them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from transforms.core.features.partner_keys import PartnerKeys
from transforms.core.features.partners import Partner, partner_side
from transforms.core.planning.keys import relative_path
from transforms.core.records import JoinSide, NameRange
from transforms.core.rejections import Reason, Rejection
from transforms.find_files import FileFinder, LeftOut
from transforms.storage.file_metadata import FoundFile


class PartnerFinder(FileFinder):
    """Finds the files of all partners of the images of one dataset.

    Attributes:
        partners: all of them, in their order.
    """

    counts = "partners_found"

    def __init__(
        self,
        partners: tuple[Partner, ...],
        *,
        key: str,
        images: Sequence[str],
        left_out: LeftOut | None = None,
    ) -> None:
        """Sets what to find.

        Args:
            partners: all of them, in their order.
            key: kind of the join key.
            images: the globs of the images; empty if rows list them.
            left_out: files that are no partners.
        """
        super().__init__(left_out=left_out)
        self._images = tuple(images)
        self._key = key
        self.partners = tuple(
            each._replace(extension=self._keys(each).extension) for each in partners
        )

    @property
    def globs(self) -> list[NameRange]:
        """All globs, each with the name of its partner."""
        return [
            NameRange(glob, partner=partner.name)
            for partner in self.partners
            for glob in partner.globs
        ]

    def _describer(
        self, part: NameRange
    ) -> Callable[[FoundFile], tuple[str, JoinSide] | Rejection]:
        [partner] = [each for each in self.partners if each.name == part.partner]
        return functools.partial(self._describe, partner, self._keys(partner).of_glob(part.glob))

    def _keys(self, partner: Partner) -> PartnerKeys:
        return PartnerKeys(partner, kind=self._key, images=self._images)

    def _describe(
        self, partner: Partner, key_of: Callable[[str], str], file: FoundFile
    ) -> tuple[str, JoinSide] | Rejection:
        path = relative_path(file.uri, partner.root)
        try:
            path.encode()
        except UnicodeEncodeError:
            shown = file.uri.encode(errors="surrogateescape").decode(errors="backslashreplace")
            detail = f"the name of a file of {partner.title} holds bytes that are not UTF-8"
            return Rejection("partner", Reason.NAME_NOT_UTF8.value, detail, shown, "")
        key = key_of(file.uri)
        if file.problem:
            return Rejection("partner", Reason.BAD_MEMBER.value, file.problem, file.uri, key)
        return key, partner_side(partner.name, path, file.size, file.version)
