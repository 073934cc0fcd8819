"""DatasetFiles: the content of the manifest and of the other small files of a dataset."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from transforms.card_files import card_files
from transforms.core.balance.balance_decisions import stratified_decisions
from transforms.core.card.dataset_card import card_of
from transforms.core.dataset.file_content import FileContent, in_parts
from transforms.core.dataset.ledger import count_reasons
from transforms.core.dataset.manifest import DataFile, Dataset, build_manifest, to_bytes
from transforms.core.dataset.output_names import (
    LABEL_MAP,
    LABELS,
    MANIFEST,
    REJECTED,
    SCHEMA,
    STATISTICS,
)
from transforms.core.dataset.run_counts import Gathered
from transforms.core.dataset.tfds_metadata import tfds_files
from transforms.core.dataset.tfx_schema import schema_text
from transforms.core.duplicates.holdouts import Holdout
from transforms.core.images.pixel_options import stored_depth, stored_shape
from transforms.core.labels.label_decisions import label_decisions
from transforms.core.labels.label_map import label_map
from transforms.core.labels.label_rules import LabelRules
from transforms.core.labels.vocabulary import Vocabulary
from transforms.core.planning.shards import ShardName
from transforms.core.records import BucketDuplicates
from transforms.describe_dataset import DatasetDescriber
from transforms.original_images import originals_root
from transforms.rejected_lines import RejectedLines


@dataclasses.dataclass(frozen=True)
class DatasetFiles:
    """Makes the files from the results of a run.

    Attributes:
        output: the dataset's folder.
        dataset: its description made before the run.
        rules: how labels become class ids.
        holdouts: datasets whose images were compared.
    """

    output: str
    dataset: Dataset
    rules: LabelRules
    holdouts: tuple[Holdout, ...] = ()

    def described(self, gathered: Gathered) -> Dataset:
        """The dataset, completed with the results of the whole run."""
        totals, options = gathered.totals, self.dataset.options
        vocabulary = self.rules.vocabulary(totals.labels, totals.label_kind)
        decided = [
            *label_decisions(vocabulary, totals.labels, totals.cells, self.rules),
            *stratified_decisions(options, totals, vocabulary, gathered.written.labels),
        ]
        is_per_image = options.get("files") == "per_image"
        names = [] if is_per_image else [ShardName.parse(s.file).split for s in gathered.shards]
        shards = {name: names.count(name) for name in gathered.splits}
        return dataclasses.replace(
            self.dataset,
            splits=gathered.splits,
            decisions=(*self.dataset.decisions, *decided),
            warnings=(*self.dataset.warnings, *gathered.warnings(options, shards)),
        )

    def make(
        self,
        described: Dataset,
        gathered: Gathered,
        *,
        data: Sequence[DataFile],
        recipe: str,
        duplicates: Iterable[BucketDuplicates] | None,
    ) -> dict[str, FileContent]:
        """The content of the files by name; the manifest is the last one.

        Args:
            described: see `described`.
            gathered: the results of the run.
            data: the files of records.
            recipe: see `dataset_recipe`.
            duplicates: None when nothing was compared.

        Raises:
            OSError: a sidecar is gone.
        """
        labels = gathered.totals.labels
        vocabulary = self.rules.vocabulary(labels, gathered.totals.label_kind)
        files = self._small_files(gathered, vocabulary, duplicates, data)
        kind = "integer" if vocabulary.is_integer else "text"
        manifest = build_manifest(
            described,
            gathered.shards,
            gathered.ledger,
            written=gathered.written,
            data=data,
            recipe=recipe,
            rejected=count_reasons(gathered.reasons),
            label_kind=kind if any(labels) else "none",
            files=files,
        )
        return {**files, MANIFEST: to_bytes(manifest)}

    def _small_files(
        self,
        gathered: Gathered,
        vocabulary: Vocabulary,
        duplicates: Iterable[BucketDuplicates] | None,
        data: Sequence[DataFile],
    ) -> dict[str, FileContent]:
        """The files next to the shards and the manifest, by name."""
        features, names = self.dataset.features, vocabulary.id_names
        card = card_of(self.dataset.options)
        small_files: dict[str, FileContent] = {
            LABELS: vocabulary.labels_text().encode(),
            REJECTED: self.rejected(gathered),
            SCHEMA: schema_text(
                features,
                class_names=vocabulary.lines(),
                id_count=vocabulary.id_count,
                first_id=self.rules.first_id,
            ).encode(),
            **tfds_files(
                features,
                gathered.shards,
                gathered.splits,
                class_names=names,
                id_count=vocabulary.id_count,
                formats=gathered.written.statistics.formats,
                image_shape=stored_shape(self.dataset.options),
                card=card,
                depth=stored_depth(self.dataset.options),
            ),
        }
        if card is not None:
            labels = vocabulary.labels_text().encode()
            small_files |= card_files(card, self.dataset, gathered, data=data, labels=labels)
        if self.rules.first_id:
            ids = dict(zip(vocabulary.lines(), vocabulary.ids, strict=True))
            small_files[LABEL_MAP] = label_map(ids).encode()
        if not self.dataset.of_rows:
            root = originals_root(self.output, self.dataset.root)
            describer = DatasetDescriber(
                self.output,
                root,
                gathered.shards,
                data,
                self.holdouts,
                is_stratified=bool(self.dataset.options.get("stratify")),
                shard_starts=gathered.totals.shard_starts,
            )
            small_files[STATISTICS] = describer.describe(gathered.written.statistics, duplicates)
        return small_files

    @property
    def lines(self) -> RejectedLines:
        """What makes the lines of rejections."""
        return RejectedLines(self.output, self.dataset.root)

    def rejected(self, gathered: Gathered) -> FileContent:
        """`rejected.jsonl`; a sample if there are more rejections than it can list."""
        if gathered.parts is None or gathered.unlisted:
            return self.lines.text(gathered.rejections)
        return in_parts(gathered.parts)
