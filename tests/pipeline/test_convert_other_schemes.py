"""The whole job on a scheme that only Beam's FileSystems know, as it does on s3:// or hdfs://."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions, S3Options

from tests.pipeline.commands import convert, digests, make_dataset, plan
from tests.servers import mem_filesystem
from tests.servers.mem_filesystem import FILES, MemFileSystem

pytestmark = pytest.mark.slow

OUTPUT = "mem://datasets/flowers"
SPLITS = "train=0.7,test=0.3"
FLAGS: dict[str, Any] = {
    "images": "mem://photos/in/**",
    "labels": "mem://photos/labels.csv",
    "output": OUTPUT,
    "splits": SPLITS,
    "num_shards": 2,
}


def put(path: str, data: bytes) -> None:
    with MemFileSystem(None).create(path, compression_type="uncompressed") as file:
        file.write(data)


def published() -> dict[str, bytes]:
    """The files below the output folder, by their names in it."""
    prefix = f"{OUTPUT}/"
    return {p.removeprefix(prefix): f.data for p, f in FILES.items() if p.startswith(prefix)}


@pytest.fixture
def labels(photos: Path, stems: dict[str, str]) -> Iterator[str]:
    """`mem://photos` holds the photos and their labels; gives the CSV."""
    csv = "".join(f"{stem},{label}\n" for stem, label in {"id": "label", **stems}.items())
    put("mem://photos/labels.csv", csv.encode())
    for path in sorted(photos.glob("*/*.jpg")):
        put(f"mem://photos/in/{path.parent.name}/{path.name}", path.read_bytes())
    yield csv
    mem_filesystem.FILES.clear()


def test_shards_are_those_of_the_same_files_on_disk(
    labels: str, photos: Path, tmp_path: Path
) -> None:
    ran = convert(**FLAGS)
    assert ran.code == 0, ran.err
    (tmp_path / "labels.csv").write_text(labels)
    flags = {"images": f"{photos}/*/*.jpg", "labels": tmp_path / "labels.csv"}
    without_output = {name: value for name, value in FLAGS.items() if name != "output"}
    local = make_dataset(tmp_path / "out", **{**without_output, **flags})
    there = published()
    assert set(there) == set(digests(local.folder))
    for name in local.shards():
        assert there[name] == (local.folder / name).read_bytes()


def test_a_run_fails_after_it_moved_shards(labels: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rename = FileSystems.rename

    def fail(old: list[str], new: list[str]) -> None:
        rename(old, new)
        assert "labels.txt" not in new[0]

    with monkeypatch.context() as patch, pytest.raises(AssertionError):
        patch.setattr(FileSystems, "rename", fail)
        convert(**FLAGS)
    assert convert(**FLAGS).code == 0


def test_options_of_the_file_system_count_from_the_first_listing(
    labels: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beam gives them to its file systems when a pipeline is made; inputs are listed before."""
    endpoints: list[str | None] = []

    def record(_: MemFileSystem, pipeline_options: PipelineOptions) -> None:
        endpoints.append(pipeline_options.view_as(S3Options).s3_endpoint_url)

    monkeypatch.setattr(MemFileSystem, "__init__", record)
    monkeypatch.setattr(FileSystems, "_pipeline_options", None)
    ran = plan("--s3_endpoint_url=http://minio", **{**FLAGS, "images": "mem://photos/none*"})
    assert (ran.code, set(endpoints)) == (2, {"http://minio"}), ran.err
    # Without options, S3 and Hadoop refuse to list anything: there are always some.
    endpoints.clear()
    monkeypatch.setattr(FileSystems, "_pipeline_options", None)
    ran = plan(**{**FLAGS, "images": "mem://photos/none*"})
    assert (ran.code, set(endpoints)) == (2, {None}), ran.err
