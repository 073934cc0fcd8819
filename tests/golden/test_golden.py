"""Every file that `convert` publishes has the bytes that `hashes.json` recorded.

A rebuild must not change them. After a change that is meant, raise FORMAT_VERSION in
transforms/dataset/manifest.py if records or the manifest's shape differ, say so in
CHANGELOG.md, and run `python -m tests.golden.update`, which prints the files that changed.

`hashes.json` also records the versions of the libraries that draw the inputs, and decode and encode
pixels. With other versions, the conversions whose bytes they decide are skipped, and all of them if
the inputs differ. After an upgrade: run the update with the new versions and no other change, and
commit `hashes.json` alone.
"""

import contextlib
import io
import re
from typing import Any

import pytest

import pipeline.convert
from pipeline.options.option_table import RunOptions
from pipeline.options.parser import parse_flags
from pipeline.resolve.preflight import check_flags
from tests.golden.conversions import CONVERSIONS, QUICK, flags_of
from tests.golden.running import Golden, libraries, recorded
from transforms.core.option import declared
from transforms.dataset.dataset_options import Card
from transforms.examples.layouts import LAYOUTS

NO_RECORDS = {
    *("allow_outside", "max_rejected", "overwrite", "quarantine", "strict"),
    *Card._fields,
}
"""Options that change no record here.

They decide whether there is a dataset, what it says about itself, and which files are next to its
shards; a file that only `--allow_outside` lets in would have to be in another folder of the root
directory.
"""

OF_THE_RUN = {"help", "version", "output", *declared(RunOptions)}
"""Options that change no byte."""

ELSEWHERE = {*OF_THE_RUN, "model_weights", "reuse", "holdout", "record_features"}
"""Options that no golden conversion can show.

`reuse` changes no byte: tests/pipeline/test_reuse.py. `holdout` compares with another dataset:
tests/pipeline/test_holdout.py. `record_features` names columns of Parquet files, whose bytes are
those of a version of pyarrow: tests/pipeline/test_convert_parquet.py.

Weights are those of models of keras.applications, whose floats
differ from processor to processor: tests/pipeline/test_convert_embeddings.py has them.
"""


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Golden:
    """All conversions, each of which runs once."""
    return Golden(tmp_path_factory.mktemp("golden"))


@pytest.fixture(scope="session")
def expected() -> dict[str, Any]:
    """What `hashes.json` recorded."""
    return recorded()


def _cases() -> list[Any]:
    """All conversions, of which those outside `QUICK` are marked."""
    marks = {name: [] if name in QUICK else [pytest.mark.slow] for name in CONVERSIONS}
    return [pytest.param(name, marks=marks[name]) for name in CONVERSIONS]


@pytest.mark.parametrize("name", _cases())
def test_published_bytes(name: str, golden: Golden, expected: dict[str, Any]) -> None:
    here, there = libraries(), expected["libraries"]
    others = [
        f"{each} {here[each]}, not {there[each]}" for each in here if here[each] != there[each]
    ]
    same_inputs = golden.inputs == expected["inputs"]
    if others and (CONVERSIONS[name].by_library or not same_inputs):
        pytest.skip(f"recorded with other libraries, here {', '.join(others)}")
    assert same_inputs, "tests/golden/inputs.py draws other files than those that were recorded"
    assert golden.digests(name) == expected["conversions"][name]


@pytest.mark.parametrize("name", _cases())
def test_the_manifest_repeats_the_run(name: str, golden: Golden, monkeypatch: Any) -> None:
    """With the same options, all files of records are equal: see the recipes below."""
    dataset = golden.dataset(name)
    monkeypatch.chdir(golden.folder)
    words = [f"--config={dataset.folder}/manifest.json", "--output=again"]
    if flags_of(name).get("allow_outside"):
        # Not recorded: it is a permission.
        words.append("--allow_outside")
    config = check_flags(parse_flags("convert", words)[0])
    manifest = dataset.manifest
    assert config.options == manifest["options"]
    assert config.dataset.digest == manifest["options_digest"]
    assert {"images": list(config.images), "labels": list(config.csv_paths)}.items() <= manifest[
        "inputs"
    ].items()
    assert config.root == manifest["root"]


def test_every_recorded_conversion_is_run(expected: dict[str, Any]) -> None:
    assert list(expected["conversions"]) == list(CONVERSIONS)


def options() -> set[str]:
    """All options of `convert`, without their dashes."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        pipeline.convert.main(["--help", "all"])
    return set(re.findall(r"^ +(?:-\w, )?--(\w+)", out.getvalue(), re.MULTILINE))


def test_every_option_is_in_a_conversion() -> None:
    given = {flag for name in CONVERSIONS for flag in flags_of(name)}
    assert sorted(options() - given) == sorted(ELSEWHERE)


def test_quick_conversions_have_every_layout() -> None:
    assert set(QUICK) <= set(CONVERSIONS)
    layouts = {flags_of(name).get("layout", "slim") for name in QUICK}
    assert set(LAYOUTS) <= layouts and any(".yaml" in layout for layout in layouts)


def shards(golden: Golden, name: str) -> dict[tuple[str, str], str]:
    """The checksum of each file of records by its recipe and name."""
    splits = golden.dataset(name).manifest["splits"].values()
    return {
        (shard["recipe"], shard["file"]): shard["crc32c"]
        for split in splits
        for shard in split["shards"]
    }


@pytest.mark.slow
def test_every_option_changes_records(golden: Golden) -> None:
    """Two conversions differ only in the option; the next test depends on this one."""
    effective = set()
    for name, (_, base, _) in CONVERSIONS.items():
        if not base:
            continue
        former, flags = flags_of(base), flags_of(name)
        changed = {flag for flag in flags if flags[flag] != former.get(flag)} - NO_RECORDS
        files = [
            {file: crc32c for (_, file), crc32c in shards(golden, each).items()}
            for each in (base, name)
        ]
        if len(changed) == 1 and files[0] != files[1]:
            effective |= changed
    assert sorted(options() - effective) == sorted(NO_RECORDS | ELSEWHERE)


@pytest.mark.parametrize(
    "names", [QUICK, pytest.param(tuple(CONVERSIONS), marks=pytest.mark.slow)], ids=["quick", "all"]
)
def test_files_of_one_recipe_have_the_same_bytes(golden: Golden, names: tuple[str, ...]) -> None:
    """An option that changes the bytes of a shard is therefore part of its recipe.

    A rerun with another value of it would take staged shards over otherwise.
    """
    found: dict[tuple[str, str], tuple[str, str]] = {}
    for name in names:
        for recipe, crc32c in shards(golden, name).items():
            former, other = found.setdefault(recipe, (crc32c, name))
            assert crc32c == former, (
                f"{recipe[1]} of {name!r} and {other!r} differ and have the same recipe: what they "
                f"differ in is missing there: {flags_of(name)}, {flags_of(other)}"
            )
