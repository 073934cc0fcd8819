"""The interface between the step that writes shards and what makes their records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from transforms.core.images.checked_image import CheckedImage
from transforms.core.planning.recipes import Libraries, Recipes
from transforms.core.records import ShardImage, ShardRow
from transforms.core.rejections import Rejection

if TYPE_CHECKING:
    from transforms.whole_shards import WholeShard

Planned = ShardImage | ShardRow


class Converter(Protocol):
    """Makes serialized Examples from the items planned for one shard.

    Attributes:
        of_images: whether its records are made of images.
        fingerprints: whether it computes fingerprints of the images.
        many_labels: whether the layout holds several labels of an image.
        partner_names: those of masks and further images, in their order.
    """

    of_images: bool
    fingerprints: bool
    many_labels: bool
    partner_names: tuple[str, ...]

    @property
    def libraries(self) -> Libraries:
        """The libraries that affect the bytes of the records."""

    def setup(self) -> None:
        """Creates the parts that cannot be pickled."""

    def load(self, images: Iterable[Any], /) -> Iterator[CheckedImage | Rejection]:
        """The checked items, or their rejections, in the order given."""

    def whole_shard(
        self, name: str, recipes: Recipes, images: Sequence[Any], /
    ) -> WholeShard | None:
        """The shard of another dataset that equals a planned one; see `find_whole_shard`."""

    def encode(self, images: Iterable[CheckedImage], /) -> Iterator[bytes]:
        """Serialized Examples in the order given."""
