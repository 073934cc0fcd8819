"""`--file_name`: shards with names that people choose, with all that a dataset promises."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from tensorflow_datasets.core.naming import ShardedFileTemplate

from pipeline import Records
from tests.conftest import draw
from tests.marks import cases
from tests.pipeline.commands import Dataset, check_sound, convert, index_rows, make_dataset, plan
from transforms.dataset.manifest import content_digest

pytestmark = pytest.mark.slow

NAME, TEXT = "image/filename", "image/class/text"
CHOSEN = "{split}_{shard:02d}.tfrec"
NAMES = ["test_00.tfrec", "test_01.tfrec", "train_00.tfrec", "train_01.tfrec"]


def given(photos: Path, **flags: Any) -> dict[str, Any]:
    right = {"images": f"{photos}/*/*.jpg", "label_from": "directory", "num_shards": 2}
    return {**right, "splits": "train=0.7,test=0.3", "file_name": CHOSEN, **flags}


def shards(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if ".tfrec" in path.name)


@pytest.fixture(scope="module")
def plain(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """The photos, in shards with their usual names."""
    folder = tmp_path_factory.mktemp("plain") / "out"
    return make_dataset(folder, **given(photos, file_name=None))


@pytest.fixture(scope="module")
def made(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """The photos, in shards with other names."""
    return make_dataset(tmp_path_factory.mktemp("one") / "out", **given(photos))


def test_only_the_names_are_others(made: Dataset, plain: Dataset, photos: Path) -> None:
    check_sound(made.folder)
    assert shards(made.folder) == NAMES
    listed = {name: split["shards"] for name, split in made.manifest["splits"].items()}
    assert [shard["file"] for shard in (*listed["test"], *listed["train"])] == NAMES
    for name, usual in zip(NAMES, shards(plain.folder), strict=True):
        assert (made.folder / name).read_bytes() == (plain.folder / usual).read_bytes()
    rows = [row for rows in index_rows(made.folder).values() for row in rows]
    assert {row["shard"] for row in rows} == {*NAMES}
    assert {*re.findall(r'"file": "(.*?)"', (made.folder / "statistics.json").read_text())} <= {
        *NAMES
    }
    found, usual = (Records(each.folder, "all") for each in (made, plain))
    assert [each[NAME] for each in found] == [each[NAME] for each in usual]
    again = convert(output=made.folder, **given(photos))
    assert again.code == 0 and "up to date" in again.out


def test_replaced_files_are_removed(dataset: Dataset, photos: Path) -> None:
    for name in ("photos-{split}.record-{shard:05d}-of-{shards:05d}", None, CHOSEN):
        ran = convert("--overwrite", output=dataset.folder, **given(photos, file_name=name))
        assert ran.code == 0
        check_sound(dataset.folder)
        listed = [each for each in dataset.folder.iterdir() if "rec" in each.name]
        assert len(listed) == 4 and not (dataset.folder / ".staging").exists()
    assert shards(dataset.folder) == NAMES


@pytest.mark.parametrize("flag", ["reuse", "images", "holdout"])
def test_another_dataset_takes_its_records(
    dataset: Dataset, photos: Path, tmp_path: Path, flag: str
) -> None:
    flags = {
        "reuse": given(photos, reuse=dataset.folder),
        "images": {"images": dataset.folder, "splits": "train=0.7,test=0.3"},
        "holdout": given(photos, holdout=f"{dataset.folder}:test", dedupe="drop"),
    }[flag]
    made = make_dataset(tmp_path / "new", **flags)
    check_sound(made.folder)
    records = made.manifest["ledger"]["records_written"]
    assert records == (18 - len(Records(dataset.folder, "test")) if flag == "holdout" else 18)
    if flag == "reuse":
        assert all((made.folder / name).samefile(dataset.folder / name) for name in NAMES)


def test_an_edited_manifest_names_no_other_files(dataset: Dataset, photos: Path) -> None:
    manifest, path = dataset.manifest, dataset.folder / "manifest.json"
    for name in ("../train_00.tfrec", "thesis.doc", "index/a.tfrecord", ".tfrec", "a.tfrec.sh"):
        manifest["splits"]["train"]["shards"][0]["file"] = name
        path.write_text(json.dumps({**manifest, "digest": content_digest(manifest)}))
        ran = convert("--overwrite", output=dataset.folder, **given(photos))
        assert ran.code == 2 and "which is not a file of a dataset" in ran.error()
    manifest["splits"]["train"]["shards"][0]["file"] = "train_00.tfrec"
    del manifest["options"]["file_name"]
    path.write_text(json.dumps({**manifest, "digest": content_digest(manifest)}))
    assert (
        "not a file of a dataset"
        in convert("--overwrite", output=dataset.folder, **given(photos)).error()
    )


def test_tensorflow_datasets_finds_them(photos: Path, tmp_path: Path, made: Dataset) -> None:
    # Its numbers have five digits.
    assert not (made.folder / "dataset_info.json").exists()
    name = "{split}.record-{shard:05d}-of-{shards:05d}"
    made = make_dataset(tmp_path / "out", **given(photos, file_name=name))
    info = json.loads((made.folder / "dataset_info.json").read_text())
    template = ShardedFileTemplate(
        made.folder, info["splits"][0]["filepathTemplate"], split="train"
    )
    assert all(path.exists() for path in template.sharded_filepaths(2))


def test_splits_of_folders_must_not_share_names(photos: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(photos, tmp_path / "in" / "train"))
    shutil.copytree(folder, tmp_path / "in" / "test")
    flags = given(tmp_path / "in", images=f"{tmp_path}/in/*/*/*", split_by="folder", splits=None)
    ran = plan(output=tmp_path / "out", **{**flags, "file_name": "{shard}.tfrec"})
    assert ran.code == 2 and "two files would be '0.tfrec'" in ran.error()


OF_IMAGES = {"files": "per_image", "num_shards": None, "file_name": "{label}/{stem}.tfrecords"}


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images of which some have the same class and name, and one has that of a folder."""
    folder = tmp_path_factory.mktemp("images")
    names = ("cat/1", "cat/a/1", "cat/2", "Index/1", "labels.txt/3", "dog/1.2", "dog/1.3")
    for seed, name in enumerate(names):
        draw(folder / f"{name}.jpg", seed=seed)
    return folder


def test_files_of_images(images: Path, tmp_path: Path) -> None:
    flags = given(images, **OF_IMAGES, splits=None, label_from="regex:^(.*?)/")
    flags["images"] = f"{images}/**/*.jpg"
    made = make_dataset(tmp_path / "out", **flags)
    check_sound(made.folder)
    found = {path.relative_to(made.folder).as_posix() for path in made.folder.glob("*/*.tfrecords")}
    assert found >= {f"{each}.tfrecords" for each in ("cat/2", "dog/1.2", "dog/1.3")}
    assert len(found) == 7 and {re.sub("~[0-9a-f]{16}", "", name) for name in found} == {
        f"{each}.tfrecords"
        for each in ("cat/1", "cat/2", "dog/1.2", "dog/1.3", "Index~/1", "labels.txt~/3")
    }
    for name in ("cat", "dog"):
        records = [each for each in Records(made.folder, "all") if each[TEXT] == name.encode()]
        assert len(records) == len([each for each in found if each.startswith(name)])
    assert "up to date" in convert(output=made.folder, **flags).out
    assert plan(output=tmp_path / "new", **flags).code == 0
    assert {*re.findall(r'"file": "(.*?)"', (made.folder / "statistics.json").read_text())} <= found
    # Its records are images of another run, and its files go with it.
    again = make_dataset(tmp_path / "again", images=made.folder, num_shards=1)
    assert again.manifest["ledger"]["records_written"] == 7
    flags |= {"files": "sharded", "file_name": None}
    assert convert("--overwrite", output=made.folder, **flags).code == 0
    assert [path.name for path in made.folder.iterdir() if path.is_dir()] == ["index"]


@cases(
    ({**OF_IMAGES, "file_name": CHOSEN}, "needs a folder, as {label}/{stem}.tfrecords"),
    ({"file_name": f"{'x' * 200}{{split}}{{shard}}.tfrec"}, "is not a name of files in the"),
)
def test_names_that_are_refused(
    flags: dict[str, Any], says: str, images: Path, tmp_path: Path
) -> None:
    ran = convert(output=tmp_path / "out", **given(images, **flags))
    assert ran.code == 2 and says in ran.error()
    assert not (tmp_path / "out").exists()
