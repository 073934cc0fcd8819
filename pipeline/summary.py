"""What a run prints at its end."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pipeline.options.parser import runnable
from transforms.core.machine import peak_memory
from transforms.core.messages import Decision, decision_lines, format_bytes, printable, quantity
from transforms.core.rejections import help_for
from transforms.dataset.dataset_options import Card, card_of
from transforms.dataset.image_statistics import warning_lines, warnings_from_json
from transforms.dataset.metadata import supervised_keys
from transforms.dataset.output_names import INFO, REJECTED, REPORT
from transforms.examples.layouts import Feature
from transforms.images.pixel_options import TO_8_BITS, stored_depth
from transforms.labels.vocabulary import class_order
from transforms.report.card_files import properties_of
from transforms.storage.files import join, storage_of

if TYPE_CHECKING:
    from pipeline.run.launch import Converted

# The lines of a summary about the name of a dataset and what is said about it.

# Croissant requires the first four, and its checker warns of the others.
_WANTED = {
    "license": "--license",
    "url": "--homepage",
    "creator": "--croissant",
    "datePublished": "--croissant",
    "citeAs": "--citation",
}


def card_lines(manifest: Mapping[str, Any], output: str) -> Iterator[str]:
    """The lines of a summary about the card of a finished dataset; none without a name.

    Args:
        manifest: of the dataset.
        output: its folder.
    """
    card = card_of(manifest["options"])
    if card is None:
        return
    if INFO in manifest["files"]:
        yield f"tfds     {_tfds_line(card, output)}"
    said = {
        "license": card.license,
        "url": card.homepage,
        "citeAs": card.citation,
        **properties_of(card.croissant),
    }
    lacks = [f"{name} ({flag})" for name, flag in _WANTED.items() if not said.get(name)]
    if lacks:
        yield f"card     croissant.json lacks {', '.join(lacks)}"


def _tfds_line(card: Card, output: str) -> str:
    """How to load a dataset by its name, or what folder that would need."""
    name = f"{card.name}:{card.dataset_version}"
    places = (card.name, card.dataset_version)
    folder, version = posixpath.split(output.rstrip("/"))
    data_dir, named = posixpath.split(folder)
    if (named, version) == places:
        return f'tfds.load("{name}", data_dir="{data_dir or "."}")'
    return (
        f'tfds.builder_from_directory("{output}"); for tfds.load("{name}"), --output must end in '
        f"{'/'.join(places)}"
    )


# The summaries that the commands print.

FINAL = ("up to date: ", "dataset  ")
"""How the line begins that tells the result alone; a summary has one of them."""

# A rate over less than this is that of the start, in seconds.
_MIN_SECONDS = 10.0

# Bytes of `rejected.jsonl` in which examples are searched.
_LISTED = 1 << 20

# Classes printed one by one; labels.txt and the manifest have all of them.
_MAX_CLASSES = 20


def dataset_lines(
    manifest: Mapping[str, Any], examples: Mapping[str, str] = MappingProxyType({})
) -> list[str]:
    """Splits, classes, rejections and the ledger of a finished dataset.

    Args:
        manifest: of the dataset.
        examples: a rejected image or row by the reason.
    """
    unit = "files" if manifest["options"].get("files") == "per_image" else "shards"
    splits = {
        name: (split["records"], len(split["shards"]), split["bytes"])
        for name, split in manifest["splits"].items()
    }
    lines = split_lines(splits, "records", unit)
    if manifest["options"].get("shard_by") == "records":
        lines += shard_lines(
            {
                name: [shard["records"] for shard in split["shards"]]
                for name, split in manifest["splits"].items()
            }
        )
    lines += _class_lines(manifest["splits"])
    lines += ledger_lines(manifest["ledger"], written="written")
    if units := manifest["options"].get("box_units"):
        lines.append(f"boxes    read as {units} coordinates (--boxes units=)")
    lines += _pixel_lines(manifest.get("pixels", {}), manifest["options"])
    lines += reason_lines(manifest["rejected"], manifest["options"], examples)
    return [*lines, *map(printable, warning_lines(warnings_from_json(manifest)))]


def ledger_lines(ledger: Mapping[str, int], *, written: str) -> list[str]:
    """One line that accounts for all images, and one for all rows."""
    found = {"images_written": ledger["records_written"], **ledger}
    if ledger.get("rows_written"):
        return [_balance(found, "rows", "read", {"written": written, "rejected": "rejected"})]
    others = {"unmatched": "without an image", "rejected": "rejected"}
    lines = [_balance(found, "images", "matched", {"written": written, "rejected": "rejected"})]
    if ledger["rows_read"]:
        parts = {"used": "used", "repeated": "repeated", **others}
        lines.append(_balance(found, "rows", "read", parts))
    if ledger.get("partners_matched"):
        lines.append(_balance(found, "partners", "matched", {"used": "used", **others}))
    return lines


def _balance(ledger: Mapping[str, int], what: str, how: str, parts: Mapping[str, str]) -> str:
    counts = [f"{ledger.get(f'{what}_{name}', 0)} {words}" for name, words in parts.items()]
    if left := ledger.get(f"{what}_left_out"):
        counts.append(f"{left} left out (--keys)")
    return f"{what:<8} {ledger[f'{what}_{how}']} {how} = {' + '.join(counts)}"


def split_lines(splits: Mapping[str, Sequence[int]], of: str, unit: str) -> list[str]:
    """The table of splits, from the records, files and bytes of each.

    Args:
        splits: these three numbers by the name of the split.
        of: what the records are called.
        unit: what the files are called.
    """
    return [
        f"{'split':<12} {of:>9} {unit:>7} {'bytes':>10}",
        *(
            f"{name:<12} {records:>9} {files:>7} {format_bytes(size):>10}"
            for name, (records, files, size) in splits.items()
        ),
    ]


def shard_lines(records: Mapping[str, Sequence[int]]) -> list[str]:
    """One line with the smallest and the largest shard of each split.

    >>> shard_lines({"train": [4, 3, 4], "test": [2], "none": []})
    ['shards   train 3 to 4 records each, test 2 (--shard_by records)']
    """
    said: list[str] = []
    for split, counts in records.items():
        if counts:
            least, most = min(counts), max(counts)
            unit = "" if said else " records each"
            said.append(f"{split} {least}{f' to {most}' if most > least else ''}{unit}")
    return [f"shards   {', '.join(said)} (--shard_by records)"] if said else []


def _class_lines(splits: Mapping[str, Any]) -> list[str]:
    found = {name for split in splits.values() for name in split["classes"]} - {""}
    names = sorted(found, key=class_order)
    if not names:
        return []
    width = max(12, *(len(printable(name)) for name in names[:_MAX_CLASSES]))
    lines = [f"{'class':<{width}} " + " ".join(f"{split:>10}" for split in splits)]
    for name in names[:_MAX_CLASSES]:
        counts = (f"{split['classes'].get(name, 0):>10}" for split in splits.values())
        lines.append(f"{printable(name):<{width}} " + " ".join(counts))
    if len(names) > _MAX_CLASSES:
        lines.append(f"... and {len(names) - _MAX_CLASSES} more classes")
    return lines


def _pixel_lines(changes: Mapping[str, int], options: Mapping[str, Any]) -> list[str]:
    """The changes to the pixels; an image can be counted more than once."""
    counts = [f"{count} {name.replace('_', ' ')}" for name, count in changes.items()]
    lines = [f"pixels   {', '.join(counts)}"] if counts else []
    reduced = changes.get(TO_8_BITS, 0)
    if reduced and stored_depth(options) == 8 and options.get("transcode") != "jpeg":
        images, are = ("images", "were") if reduced > 1 else ("image", "was")
        lines.append(
            f"depth    {reduced} {images} of more than 8 bits {are} reduced to 8; --depth 16 keeps "
            "those of PNG, TIFF and HEIC"
        )
    return lines


def reason_lines(
    rejected: Mapping[str, int],
    options: Mapping[str, Any],
    examples: Mapping[str, str] = MappingProxyType({}),
) -> list[str]:
    """Each reason with its count, what to do about it, and an example if there is one."""
    such = {name: f"; such as {printable(examples[name])}" for name in examples}
    return [
        f"  {count:>7} {name}: {help_for(name, options)}{such.get(name, '')}"
        for name, count in rejected.items()
    ]


def _examples(output: str) -> dict[str, str]:
    """Two rejected images or rows of each reason, of those at the begin of the list."""
    path = join(output, REJECTED)
    begin = storage_of(path).read_range(path, 0, _LISTED)
    found: dict[str, list[str]] = {}
    for each in map(json.loads, begin[: begin.rfind(b"\n") + 1].splitlines()):
        detail = f" ({each['detail']})" if "see detail" in help_for(each["reason"], {}) else ""
        found.setdefault(each["reason"], []).append(f"{each['key'] or each['path']}{detail}")
    return {reason: ", ".join(first[:2]) for reason, first in found.items()}


def convert_lines(
    done: Converted,
    output: str,
    *,
    seconds: float,
    statistics: Mapping[str, Any],
    decided: Iterable[Decision],
) -> Iterator[str]:
    """The summary of one run of `convert`.

    Args:
        done: what it did.
        output: the folder of the dataset.
        seconds: the duration of the run.
        statistics: the content of `statistics.json`.
        decided: decisions that were made during the run.
    """
    manifest = done.manifest
    if done.up_to_date:
        yield f"up to date: {output} holds this dataset already"
    yield from decision_lines(decided)
    # A dataset that is up to date may have lost its list since.
    has_list = manifest["rejected"] and not done.up_to_date
    yield from dataset_lines(manifest, _examples(output) if has_list else {})
    yield from duplicate_lines(statistics)
    if not done.up_to_date:
        yield from _speed_lines(done, seconds)
        yield f"dataset  {output}"
        yield f"rejected {join(output, REJECTED)}"
    report = join(output, REPORT)
    if storage_of(report).exists(report):
        yield f"report   {report}"
    if done.from_records:
        yield f"reused   {done.from_records} images from their records (--reuse)"
    if done.counters:
        counted = ", ".join(f"{name} {count}" for name, count in done.counters.items())
        yield f"metrics  {counted}"
    yield from card_lines(manifest, output)
    yield from _next_lines(manifest, output)


def _next_lines(manifest: Mapping[str, Any], output: str) -> Iterator[str]:
    options, splits = manifest["options"], list(manifest["splits"])
    if len(splits) == 1 and options.get("split_from") == "hash":
        made = "--splits train=0.8,validation=0.1,test=0.1 makes others"
        yield f"splits   all records are in {splits[0]!r}; {made}"
    features = [Feature.from_manifest(each) for each in manifest["features"]]
    if splits and supervised_keys(features):
        arguments = f"{output!r}, {splits[0]!r}, batch_size=32, image_size=224, as_supervised=True"
        yield "load     from image_tfrecords import load"
        yield f"         batches = load({arguments})"
        yield "         model.fit(batches)"
    yield f"next     {runnable('show', output)}"


def _speed_lines(done: Converted, seconds: float) -> Iterator[str]:
    ledger = done.manifest["ledger"]
    read = sum(split["image_bytes"] for split in done.manifest["splits"].values())
    records, unit = ledger["records_written"], "rows" if ledger.get("rows_written") else "images"
    of_images = "" if unit == "rows" else f" of {format_bytes(read)}"
    if done.resumed:
        # The others took no time of this run.
        records, of_images = done.written, ""
        yield f"resumed  {quantity(done.resumed, 'shard')} that an earlier attempt had written"
    rate = f" = {records / seconds:.0f} {unit}/s" if seconds >= _MIN_SECONDS else ""
    yield (
        f"speed    {records} records{of_images} in {seconds:.1f} s{rate}, "
        f"peak memory {format_bytes(peak_memory())}"
    )


def duplicate_lines(statistics: Mapping[str, Any]) -> list[str]:
    """Exact and near-duplicates in one line, and others about those that harm, if any."""
    found = statistics.get("duplicates")
    if not found:
        return []
    exact, near = found["exact"], found["near"]
    harms = {"across_splits": "across splits", "conflicts": "with different labels"}
    harms["held"] = "with images of --holdout"
    notes = [f"{exact[name]} {words}" for name, words in harms.items() if exact.get(name)]
    notes += [f"{quantity(exact['dropped'], 'image')} dropped"] if exact["dropped"] else []
    pairs = f" ({near['across_splits']} across splits)" if near["across_splits"] else ""
    parts = _duplicates(
        exact["groups"], near["pairs"], f" ({', '.join(notes)})" if notes else "", pairs
    )
    lines = [f"duplicates  {', '.join(parts)}"] if parts else []
    # Those that were dropped are in no split any more.
    has_hint = exact.get("held") and not exact["dropped"]
    hint = "; --dedupe drop leaves out exact ones" if has_hint else ""
    if held := _duplicates(exact.get("held"), near.get("held")):
        lines.append(f"holdout  {' and '.join(held)} with images of --holdout{hint}")
    # These make a test of a model too good.
    across = 0 if exact["dropped"] else exact.get("across_splits")
    if leaked := _duplicates(across, near["across_splits"]):
        hint = "; --dedupe drop keeps one of each group" if across else ""
        lines.append(f"leakage  {' and '.join(leaked)} across splits{hint}")
    return lines


def _duplicates(
    groups: int | None, pairs: int | None, of_groups: str = "", of_pairs: str = ""
) -> list[str]:
    """Exact and near-duplicates with notes about them, those of which there are any."""
    exact = [f"{quantity(groups, 'group')} of exact duplicates{of_groups}"] if groups else []
    near = [f"{quantity(pairs, 'pair')} of near-duplicates{of_pairs}"] if pairs else []
    return exact + near
