"""`--name` and what is said about a dataset: its files, reruns, and mistakes."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.options.parser import parse_flags, words_of
from tests.conftest import draw
from tests.pipeline.commands import (
    Dataset,
    Ran,
    check_sound,
    convert,
    digests,
    make_dataset,
    snapshot,
)

pytestmark = pytest.mark.slow

FLAGS: dict[str, Any] = {"label_from": "directory", "num_shards": 2}
SAID = {"name": "pets", "dataset_version": "1.2.0", "description": "Pets.\n\nOf two kinds."}
OWN = {"README.md", "croissant.json"}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A glob of six photos."""
    folder = tmp_path_factory.mktemp("photos")
    for seed in range(6):
        draw(folder / "cat dog".split()[seed % 2] / f"{seed}.jpg", seed=seed)
    return f"{folder}/*/*.jpg"


@pytest.fixture(scope="module")
def plain(inputs: str, tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """A dataset without a name."""
    return make_dataset(tmp_path_factory.mktemp("plain") / "out", images=inputs, **FLAGS)


@pytest.fixture(scope="module")
def named(inputs: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Dataset, Ran]:
    """The same with a name, where `tfds.load` finds it."""
    folder = tmp_path_factory.mktemp("named") / "pets" / "1.2.0"
    ran = convert(images=inputs, output=folder, **FLAGS, **SAID)
    assert ran.code == 0, ran.err
    return Dataset(folder), ran


def croissant(dataset: Dataset) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((dataset.folder / "croissant.json").read_text("utf-8"))
    return found


def hashes(dataset: Dataset) -> dict[str, str]:
    """The SHA-256s in `croissant.json`, by file."""
    files = croissant(dataset)["distribution"]
    return {each["contentUrl"]: each["sha256"] for each in files if "sha256" in each}


def check_hashes(dataset: Dataset) -> None:
    found = hashes(dataset)
    assert found
    for name, sha256 in found.items():
        data = (dataset.folder / name).read_bytes()
        assert hashlib.sha256(data).hexdigest() == sha256, name


def test_addresses_in_texts_load_no_cloud_package() -> None:
    said = {"homepage": "https://a.org", "license": "https://a.org/l", "description": "gs://a/b"}
    words = [f"--{name}={text}" for name, text in said.items()]
    flags, rest = parse_flags("convert", ["--output=out", "--name=pets", *words])
    assert not any("://" in word for word in words_of(flags, rest))


def test_records_are_those_without_a_name(plain: Dataset, named: tuple[Dataset, Ran]) -> None:
    one, other = digests(plain.folder), digests(named[0].folder)
    assert other.keys() - one.keys() == OWN
    changed = {name for name in one if one[name] != other[name]}
    assert changed == {"manifest.json", "dataset_info.json", "report.html"}
    for name in ("recipe", "options_digest"):
        assert plain.manifest[name] == named[0].manifest[name]


def test_the_files_are_listed_hashed_and_verified(named: tuple[Dataset, Ran]) -> None:
    dataset, _ = named
    check_hashes(dataset)
    indexes = [entry["file"] for entry in dataset.manifest["index"]]
    assert len(indexes) == 2
    assert set(hashes(dataset)) == {*dataset.shards(), *indexes, "labels.txt"}
    assert set(dataset.manifest["files"]) >= OWN
    assert {name: dataset.manifest["options"][name] for name in SAID} == SAID
    check_sound(dataset.folder)


def test_the_summary_says_how_to_load_it(inputs: str, named: tuple[Dataset, Ran]) -> None:
    dataset, ran = named
    data_dir = dataset.folder.parents[1]
    assert f'tfds     tfds.load("pets:1.2.0", data_dir="{data_dir}")\n' in ran.out
    lacks = "license (--license), url (--homepage), creator (--croissant)"
    assert f"card     croissant.json lacks {lacks}" in ran.out
    again = convert(images=inputs, output=dataset.folder, **FLAGS, **SAID)
    assert again.code == 0 and "up to date" in again.out and "tfds.load" in again.out


def test_another_text_is_another_dataset(
    inputs: str, named: tuple[Dataset, Ran], tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    was, others = named[0].folder, {**SAID, "description": "Pets." * 99}
    ran = convert(images=inputs, output=was, **FLAGS, **others)
    assert ran.code == 2
    assert "--description is Pets.Pets." in ran.error() and len(ran.error()) < 600
    for name in SAID:
        assert convert(images=inputs, output=was, **FLAGS, **{**SAID, name: None}).code == 2
    copied = make_dataset(folder, images=inputs, reuse=was, **FLAGS, **others)
    # All shards are links to the same files.
    assert all((folder / name).samefile(was / name) for name in copied.shards())
    check_hashes(copied)
    assert croissant(copied)["description"] == "Pets." * 99
    fresh = make_dataset(tmp_path / "fresh", images=inputs, **FLAGS, **others)
    assert digests(fresh.folder) == digests(folder)


def test_a_readme_of_the_user_stays(inputs: str, plain: Dataset, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    make_dataset(folder, images=inputs, **FLAGS)
    (folder / "README.md").write_text("mine")
    before = snapshot(folder)
    ran = convert(images=inputs, output=folder, overwrite=True, **FLAGS, **SAID)
    assert ran.code == 2
    assert "holds a README.md that no run wrote, and --name would replace it" in ran.error()
    assert snapshot(folder) == before


def test_properties_may_be_a_file(inputs: str, tmp_path: Path) -> None:
    config = tmp_path / "card.yaml"
    config.write_text("name: pets\ndescription: |\n  Pets.\n\n  Of two kinds.\nlicense: MIT\n")
    (tmp_path / "more.yaml").write_text("creator: Ann Lee\ndatePublished: 2026-01-31\n")
    flags = {"images": inputs, "config": config, "croissant": tmp_path / "more.yaml", **FLAGS}
    dataset = make_dataset(tmp_path / "out", **flags)
    found = croissant(dataset)
    assert found["datePublished"] == "2026-01-31" and found["creator"]["name"] == "Ann Lee"
    assert found["description"] == "Pets.\n\nOf two kinds."
    again = convert(config=dataset.folder / "manifest.json", output=tmp_path / "again")
    assert again.code == 0, again.err
    for name in OWN:
        assert (tmp_path / "again" / name).read_bytes() == (dataset.folder / name).read_bytes()
