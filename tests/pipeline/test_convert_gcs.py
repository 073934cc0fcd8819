"""The whole job on buckets: a real server on loopback, with the failures of a network."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from tests.images import picture, saved
from tests.marks import cases
from tests.pipeline.commands import Ran, check_sound, convert, digests, make_dataset, plan, show
from tests.servers.gcs import GcsServer, requester_pays

pytestmark = pytest.mark.slow

IMAGES = "gs://photos/in/*/*.jpg"
OUTPUT = "gs://datasets/flowers"
FLAGS: dict[str, Any] = {"images": IMAGES, "output": OUTPUT, "splits": "train=0.7,test=0.3"}


@pytest.fixture
def buckets(gcs: GcsServer, photos: Path) -> GcsServer:
    """`gs://photos/in/<class>/<name>` and an empty `gs://datasets`."""
    gcs.make_bucket("photos")
    gcs.make_bucket("datasets")
    gcs.put_folder("photos", "in/", photos)
    gcs.reset()
    return gcs


def published(gcs: GcsServer) -> dict[str, bytes]:
    """The files of the dataset, which are all that is in its bucket."""
    names = gcs.names("datasets")
    assert all(name.startswith("flowers/") for name in names)
    return {name.removeprefix("flowers/"): gcs.get("datasets", name) for name in names}


def rejected(gcs: GcsServer) -> list[tuple[str, str]]:
    """Path and detail of every rejected image."""
    lines = published(gcs)["rejected.jsonl"].decode().splitlines()
    return [(entry["path"], entry["detail"]) for entry in map(json.loads, lines)]


def succeeds(**flags: Any) -> Ran:
    """Converts, and says why if that fails."""
    ran = convert(**{**FLAGS, **flags})
    assert ran.code == 0, ran.err
    return ran


def test_shards_are_those_of_the_same_files_on_disk(
    buckets: GcsServer, photos: Path, tmp_path: Path
) -> None:
    succeeds(label_from="directory")
    flags = {"label_from": "directory", "splits": FLAGS["splits"]}
    local = make_dataset(tmp_path / "out", images=f"{photos}/*/*.jpg", **flags)
    there = published(buckets)
    shards = [name for name in digests(local.folder) if name.endswith(".tfrecord")]
    assert len(shards) == 2
    for name in [*shards, "labels.txt", "rejected.jsonl"]:
        assert there[name] == (local.folder / name).read_bytes()
    assert sorted(there) == sorted(digests(local.folder))


def test_labels_class_names_verify_show_and_plan_work_on_buckets(
    buckets: GcsServer, stems: dict[str, str]
) -> None:
    rows = "".join(f"{stem},{label}\n" for stem, label in stems.items())
    buckets.put("photos", "labels.csv", f"id,label\n{rows}".encode())
    buckets.put("photos", "classes.txt", b"fox\ndog\ncat\n")
    flags = {"labels": "gs://photos/*.csv", "class_names": "gs://photos/classes.txt"}
    assert plan(**FLAGS, **flags).code == 0
    assert buckets.names("datasets") == []
    layout = b"features: {image: image.bytes, image/class/text: label.text, sha: image.sha256}"
    buckets.put("photos", "my.yaml", layout)
    succeeds(**flags, compression="gzip", layout="gs://photos/my.yaml")
    assert published(buckets)["labels.txt"] == b"fox\ndog\ncat\n"
    check_sound(OUTPUT)
    shown = show(OUTPUT, "--limit", "1").out
    assert "image/class/text" in shown
    assert "sha" in shown


def test_every_image_is_one_request_and_none_at_a_rerun(buckets: GcsServer) -> None:
    succeeds()
    images = {name: n for name, n in buckets.media_gets().items() if name.endswith(".jpg")}
    assert len(images) == 18
    assert set(images.values()) == {1}
    assert "GET bucket" not in buckets.counts()
    before = published(buckets)
    buckets.reset()
    assert "up to date" in succeeds().out
    assert not [name for name in buckets.media_gets() if name.endswith(".jpg")]
    # The dataset's files are listed, however many there are.
    asked = [unquote(target) for _, target in buckets.log() if "/o/" in target]
    assert asked
    assert not [target for target in asked if ".tfrecord" in target or ".parquet" in target]
    assert published(buckets) == before


@pytest.mark.usefixtures("dropped_sockets")
def test_a_flaky_network_changes_no_byte(gcs: GcsServer) -> None:
    gcs.make_bucket("photos")
    gcs.make_bucket("datasets")
    for number in range(500):
        data = saved(picture("RGB", 12, 16, seed=number), "JPEG")
        gcs.put("photos", f"in/{number % 3}/{number}.jpg", data)
    flags = {"num_shards": 3, "overwrite": True}
    succeeds(**flags)
    calm = published(gcs)
    gcs.reset()
    gcs.set_faults([{"status": 503, "p": 0.05}, {"drop": True, "p": 0.05}])
    succeeds(**flags)
    faults = sum(n for kind, n in gcs.counts().items() if kind.startswith("fault"))
    gcs.set_faults([])
    assert faults > 25
    assert rejected(gcs) == []
    assert published(gcs) == calm


@cases(
    ({"images": "gs://nowhere/*.jpg"}, {}, "'gs://nowhere/*.jpg': no such bucket"),
    ({"images": "gs://photos/none/*.jpg"}, {}, "check the bucket and the path"),
    ({"images": "gs://photos/in"}, {},
     "it is a folder, which holds 18 .jpg: try 'gs://photos/in/**/*.jpg'"),
    ({"labels": "gs://photos/none.csv"}, {}, "no file matches --labels"),
    ({"class_names": "gs://photos/none.txt"}, {}, "no such file: --class_names"),
    ({"layout": "gs://photos/no.yaml"}, {}, "no such file: --layout gs://photos/no.yaml"),
    ({"output": "gs://nowhere/x"}, {}, "cannot read --output gs://nowhere/x: no such bucket"),
    ({}, {"kind": "list", "object": "photos.*", "status": 403}, "no permission"),
    ({}, {"kind": "upload", "status": 403}, "cannot write to --output"),
    ({}, requester_pays("photos"), "requester-pays"),
)  # fmt: skip
def test_what_is_not_there_or_not_allowed_is_reported_before_the_job(
    flags: dict[str, Any], fault: dict[str, Any], message: str, buckets: GcsServer
) -> None:
    buckets.set_faults([fault] if fault else [])
    ran = convert(**{**FLAGS, **flags})
    assert ran.code == 2
    assert message in ran.error()
    assert not [name for name in buckets.media_gets() if name.endswith(".jpg")]


@pytest.mark.parametrize("folder", ["flowers", "run[1]"])
def test_a_folder_of_a_bucket_that_holds_something_else_is_left_alone(
    buckets: GcsServer, folder: str
) -> None:
    buckets.put("datasets", f"{folder}/precious.txt", b"mine")
    ran = convert(**{**FLAGS, "output": f"gs://datasets/{folder}"})
    assert ran.code == 2
    assert f"holds something else ('gs://datasets/{folder}/precious.txt')" in ran.error()
    assert buckets.names("datasets") == [f"{folder}/precious.txt"]
