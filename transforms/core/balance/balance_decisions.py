"""What stratified splits hold, how stable and how exact they are, for the block "Decided"."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from transforms.core.balance.class_shares import class_shares
from transforms.core.dataset.ledger import PlanTotals
from transforms.core.decisions import Decision
from transforms.core.labels.label_kinds import class_order
from transforms.core.labels.vocabulary import Vocabulary
from transforms.core.planning.splits import Splits

# Classes that a line names.
_MAX_SHOWN = 3


def stratified_decisions(
    options: Mapping[str, Any],
    totals: PlanTotals,
    vocabulary: Vocabulary,
    counts: Mapping[str, Mapping[str, int]],
) -> list[Decision]:
    """The lines about stratified splits; none if a hash alone decides the split.

    Args:
        options: those of the dataset, by flag name.
        totals: of the plan.
        vocabulary: its classes.
        counts: records of each class, by split.
    """
    if not options.get("stratify"):
        return []
    sizes: Counter[str] = Counter()
    for label, images in totals.labels.items():
        # Images of unknown classes are rejected.
        if vocabulary.id_of(label) is not None:
            sizes[vocabulary.text_of(label)] += images
    splits = len(options["splits"])
    value = f"{len(sizes)} class{'' if len(sizes) == 1 else 'es'}"
    # Images with several labels count as images with an empty label, too, like those without any.
    may_have_several = len(sizes) > 1 and totals.labels[""] > 0
    has_several = may_have_several or sizes.total() > totals.images.total()
    found = [Decision("stratified", value, _bound(options, splits, has_several), "--stratify")]
    small = sorted((name for name, images in sizes.items() if images < splits), key=class_order)
    if small:
        shown = ", ".join(f"{name[:40]!r}" for name in small[:_MAX_SHOWN])
        if len(small) > _MAX_SHOWN:
            shown += f" and {len(small) - _MAX_SHOWN} more"
        value = f"{len(small)} class{'' if len(small) == 1 else 'es'}"
        because = f"{shown}: fewer images than the {splits} splits, so some have none"
        found.append(Decision("small classes", value, because, "--stratify"))
    return [*found, *_off(options, counts)]


def _off(options: Mapping[str, Any], counts: Mapping[str, Mapping[str, int]]) -> list[Decision]:
    """How far classes are from their shares, if it is more than one image."""
    shares = class_shares(counts, Splits([*options["splits"].items()]))
    if not shares.off:
        return []
    value = f"{shares.off} of {shares.classes} class{'' if shares.classes == 1 else 'es'}"
    # "more than one image, by 1" would contradict itself.
    by = f"{max(1.1, shares.images):,.1f}".removesuffix(".0")
    furthest = f"{shares.furthest[:40]!r} by {by} ({shares.split})"
    because = (
        f"is off its share by more than one image: {furthest}"
        if shares.off == 1
        else f"are off their share by more than one image, the furthest {furthest}"
    )
    return [Decision("class shares", value, because, "--stratify")]


def _bound(options: Mapping[str, Any], splits: int, has_several: bool) -> str:
    """How near each class is to its shares, and what a further image moves."""
    if options.get("group_by"):
        return "by the classes of each group; groups stay whole"
    if has_several:
        return "by the rarest class of each image; those with one class make up for the others"
    others = "1 other" if splits == 2 else f"{splits - 1} others"
    return f"each within one image of its shares; a further image moves at most {others}"
