"""CardFiles: `README.md` and `croissant.json` of a dataset with a name."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from transforms.core.card.card_text import DatasetContent, SplitContent, card_text
from transforms.core.card.croissant import HashedFile, IndexColumns, croissant_json
from transforms.core.card.dataset_card import Card
from transforms.core.dataset.ledger import count_reasons
from transforms.core.dataset.manifest import DataFile, Dataset, index_files
from transforms.core.dataset.output_names import CARD, CROISSANT, LABELS
from transforms.core.dataset.run_counts import Gathered
from transforms.core.dataset.tfds_metadata import is_tfds
from transforms.core.features.row_features import row_requirements
from transforms.core.planning.shards import ShardName


def card_files(
    card: Card,
    dataset: Dataset,
    gathered: Gathered,
    *,
    data: Sequence[DataFile],
    labels: bytes,
) -> dict[str, bytes]:
    """The files by name.

    Args:
        card: what its publisher says about the dataset.
        dataset: its description.
        gathered: the results of the run; the shards have SHA-256s.
        data: the files of records.
        labels: the content of `labels.txt`.
    """
    content = _content(dataset, gathered, data)
    return {
        CARD: card_text(card, content),
        CROISSANT: croissant_json(
            card,
            summary=content.summary(),
            shards=_shards(gathered),
            folders=() if content.in_shards else gathered.splits,
            indexes=_indexes(gathered),
            labels=HashedFile(LABELS, len(labels), hashlib.sha256(labels).hexdigest()),
            columns=IndexColumns(
                of_rows=dataset.of_rows,
                labelled=bool(content.classes),
                many_labels=row_requirements(dataset.features).many_labels,
                has_offsets=content.has_offsets,
                in_shards=content.in_shards,
            ),
        ),
    }


def _content(dataset: Dataset, gathered: Gathered, data: Sequence[DataFile]) -> DatasetContent:
    classes = gathered.written.split_classes(gathered.splits)
    of_splits = {name: [file for file in data if file.split == name] for name in gathered.splits}
    return DatasetContent(
        splits=[
            SplitContent(
                name,
                sum(file.records for file in files),
                len(files),
                sum(file.bytes for file in files),
                classes.get(name, {}),
            )
            for name, files in of_splits.items()
        ],
        features=dataset.features,
        rejected=count_reasons(gathered.reasons),
        changed=gathered.written.changes,
        of_rows=dataset.of_rows,
        in_shards=dataset.options.get("files") != "per_image",
        has_tfds=is_tfds(gathered.shards),
        has_offsets=not any(ShardName.parse(each.file).gzip for each in gathered.shards),
    )


def _shards(gathered: Gathered) -> list[HashedFile]:
    """The shards; none if every record has a file of its own."""
    return [
        HashedFile(each.file, each.bytes, each.sha256)
        for each in gathered.shards
        if each.files is None
    ]


def _indexes(gathered: Gathered) -> list[HashedFile]:
    hashes = (each.index_sha256 for each in gathered.shards if each.index_crc32c)
    return [
        HashedFile(file.file, file.bytes, sha256)
        for file, sha256 in zip(index_files(gathered.shards), hashes, strict=True)
    ]
