"""`python -m pipeline.plan`: shows what `convert` would do, and writes nothing."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pipeline.command_line import conversion_begun, start
from pipeline.errors import UsageError, emphasized
from pipeline.options.parser import progress_style
from transforms.core.messages import decision_lines, from_manifest, printable
from transforms.dataset.image_statistics import strict_message, warning_lines, warnings_from_json

if TYPE_CHECKING:
    from pipeline.resolve.config import ConvertConfig


def main(argv: Sequence[str] | None = None) -> None:
    """Plans on the given runner, by default in this process, and prints the plan.

    Raises:
        DatasetError: see `pipeline.errors`.
    """
    began = time.monotonic(), time.process_time()
    with conversion_begun("plan", argv) as (config, flags, beam_flags):
        from pipeline.dry_run import plan_dataset, reuse_lines, sampled_images
        from pipeline.open_dataset import has_manifest
        from pipeline.run.estimate import estimate_lines, estimated
        from pipeline.run.launch import results_path
        from transforms.records.existing_shards import read_staging
        from transforms.storage.files import storage_of

        action = "write"
        if has_manifest(config.folder.output):
            action = "replace" if config.folder.overwrite else "compare"
        # A run that only compares reads no records.
        compares = bool(flags.reuse) and not flags.quiet and action != "compare"
        style = progress_style(flags)
        notes: list[str] = []
        with results_path("plan", beam_flags) as path:
            plan_dataset(config, path, beam_flags, progress=style, compares=compares)
            plan = json.loads(storage_of(path).read_bytes(path))
            planned = time.monotonic() - began[0], time.process_time() - began[1]
            images = sampled_images(plan)
            if compares:
                notes = list(reuse_lines(config, flags.reuse, path, plan["labels"]))
        if flags.reuse and action == "compare":
            notes = ["reused   nothing: --reuse applies only with --overwrite or another --output"]
        staged = len(read_staging(config.folder.output).complete)
        if staged and action != "compare":
            notes.append(
                f"staged   {staged} shards of an earlier run; convert takes those with the same "
                "images and options"
            )
        plan["estimate"] = {}
        if not (staged or flags.quiet or action == "compare"):
            splits = plan["splits"].values()
            plan["estimate"] = estimated(config, beam_flags, splits, images, planned)
            notes += estimate_lines(**plan["estimate"])
    lines = list(plan_lines(plan, config, flags.output, notes, action))
    if flags.json:
        lines = [json.dumps({**plan, "action": action})]
    for line in lines[-1:] if flags.quiet else lines:
        print(emphasized(printable(line), sys.stdout))
    warnings = warnings_from_json(plan)
    if config.checks.strict and warnings:
        raise UsageError(strict_message(warnings))


def plan_lines(
    plan: dict[str, Any], config: ConvertConfig, output: str, notes: Sequence[str], action: str
) -> Iterator[str]:
    """The plan as lines of text.

    Args:
        plan: the result of `plan_dataset`.
        config: what was planned.
        output: the folder that `convert` would write.
        notes: the lines about `--reuse`, and about an earlier run.
        action: what `convert` would do: `write`, `replace` a dataset or `compare` it.
    """
    from pipeline.summary import ledger_lines, reason_lines, shard_lines, split_lines

    yield from decision_lines(from_manifest(plan))
    if config.of_rows:
        types = ", ".join(f"{each.name} {each.type or each.dtype}" for each in config.features)
        yield f"columns  {types}"
    unit = "files" if config.files.per_image else "shards"
    records = "rows" if config.of_rows else "images"
    yield from split_lines(plan["splits"], records, unit)
    yield from shard_lines(plan["shard_records"])
    yield from ledger_lines(
        plan["ledger"], written="to compare" if action == "compare" else "to convert"
    )
    yield from reason_lines(plan["rejected"], config.options)
    for detail in plan["bad_cells"]:
        yield f"          {detail}"
    yield from notes
    yield from warning_lines(warnings_from_json(plan))
    if action == "compare":
        yield (
            f"nothing written; convert would compare the dataset in {output} with this plan, and "
            "replace it only with --overwrite"
        )
    else:
        what = f"replace the dataset in {output}" if action == "replace" else f"write {output}"
        yield f"nothing written; convert would {what}"


if __name__ == "__main__":
    sys.exit(start("plan", main))
