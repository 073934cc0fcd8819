"""The whole job: what goes in, what comes out, and where everything else is listed."""

import os
import unicodedata
from collections import Counter
from pathlib import Path

import pytest

from examples.make_sample import EXPECTED, KOREAN_ID, PAINTERS
from tests.conftest import draw
from tests.images import chunk
from tests.pipeline.commands import SMALL_FILES, Dataset, Ran, convert, make_dataset
from tests.pipeline.reading import filenames, labels, read, shape


@pytest.fixture(scope="module")
def sample_run(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Dataset, Ran]:
    """The sample, converted with room for its broken images."""
    folder = tmp_path_factory.mktemp("out") / "sample"
    flags = {"images": f"{sample}/images/*/*", "labels": sample / "labels.csv", "num_shards": 3}
    ran = convert(output=folder, max_rejected="20%", **flags)
    assert (ran.code, ran.err) == (0, "")
    return Dataset(folder), ran


REJECTIONS = {**EXPECTED.image_rejections, **EXPECTED.row_rejections}


def test_every_image_and_row_is_accounted_for(sample_run: tuple[Dataset, Ran]) -> None:
    dataset, _ = sample_run
    assert dataset.ledger == {
        "images_matched": EXPECTED.images,
        "records_written": EXPECTED.records,
        "images_rejected": sum(EXPECTED.image_rejections.values()),
        "rows_read": EXPECTED.rows,
        "rows_used": EXPECTED.rows - 1,
        "rows_unmatched": 1,
    }
    assert dataset.manifest["rejected"] == REJECTIONS
    assert len(read(dataset)) == EXPECTED.records


def test_rejected_lines_name_file_key_and_reason(
    sample_run: tuple[Dataset, Ran], sample: Path
) -> None:
    rejected = sample_run[0].rejected
    lines = {line["reason"]: line for line in rejected}
    assert Counter(line["reason"] for line in rejected) == REJECTIONS
    for line in rejected:
        assert list(line) == ["subject", "reason", "detail", "path", "key"]
        assert line["detail"].splitlines() == [line["detail"]]
        if line["subject"] == "image":
            assert Path(line["path"]).is_file()
            assert Path(line["path"]).stem == line["key"]
    assert lines["empty_file"]["path"] == f"{sample}/images/checkers/checkers-empty.jpg"
    row = lines["row_without_image"]
    assert (row["subject"], row["key"]) == ("row", "circles-lost")
    path, line_number = row["path"].rsplit(":", 1)
    assert "circles-lost" in Path(path).read_text().splitlines()[int(line_number) - 1]


def test_every_record_decodes_and_holds_bytes_and_class_of_its_file(
    sample_run: tuple[Dataset, Ran], sample: Path
) -> None:
    dataset, _ = sample_run
    assert dataset.classes == sorted(PAINTERS)
    records = read(dataset)
    for record in records:
        name, encoded = record["image/filename"].decode(), record["image/encoded"]
        assert encoded == (sample / "images" / name).read_bytes()
        assert shape(encoded)[-3:-1] == (record["image/height"], record["image/width"])
        text = record["image/class/text"].decode()
        assert dataset.classes[record["image/class/label"]] == text == name.split("/")[0]
    assert {record["image/format"] for record in records} == {b"jpeg", b"png"}
    # A decomposed name joins its composed row.
    names = [unicodedata.normalize("NFC", stem) for stem in labels(dataset)]
    assert names.count(KOREAN_ID) == 1


def test_the_folder_holds_the_dataset_and_nothing_else(sample_run: tuple[Dataset, Ran]) -> None:
    dataset, _ = sample_run
    stems = [f"train-0000{number}-of-00003" for number in range(3)]
    shards = [f"{stem}.tfrecord" for stem in stems]
    assert sorted(os.listdir(dataset.folder)) == sorted(["index", *shards, *SMALL_FILES])
    assert sorted(os.listdir(dataset.folder / "index")) == [f"{stem}.parquet" for stem in stems]
    listed = dataset.manifest["splits"]["train"]
    assert {shard["file"]: shard["bytes"] for shard in listed["shards"]} == {
        name: (dataset.folder / name).stat().st_size for name in shards
    }
    assert listed["records"] == sum(shard["records"] for shard in listed["shards"])
    assert sum(listed["classes"].values()) == listed["records"] == EXPECTED.records


def test_the_summary_says_what_was_counted_and_where_it_is(sample_run: tuple[Dataset, Ran]) -> None:
    dataset, ran = sample_run
    lines = ran.out.splitlines()
    assert {
        "images   52 matched = 47 written + 5 rejected",
        "rows     52 read = 51 used + 0 repeated + 1 without an image + 0 rejected",
        f"dataset  {dataset.folder}",
        f"report   {dataset.folder}/report.html",
        "splits   all records are in 'train'; --splits train=0.8,validation=0.1,test=0.1 makes "
        "others",
        f"         batches = load({str(dataset.folder)!r}, 'train', batch_size=32, image_size=224, "
        "as_supervised=True)",
    } <= set(lines)
    assert any(line.endswith("; such as triangles-cut") for line in lines)
    reasons = {line.split(":")[0] for line in lines if line.startswith("        1 ")}
    assert reasons == {f"        1 {reason}" for reason in REJECTIONS}
    counts = {line.split()[0]: line.split()[1:] for line in lines}
    assert counts["train"][:2] == ["47", "3"]
    assert counts["stripes"] == ["13"]
    # A rate of a few seconds would be that of the start.
    assert "images/s" not in ran.out
    assert " s, peak memory " in ran.out


def test_nothing_is_published_and_a_higher_limit_goes_on_from_there(
    sample: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    flags = {"images": f"{sample}/images/*/*", "labels": sample / "labels.csv", "num_shards": 2}
    ran = convert(output=out, **flags, max_rejected="1%")
    message = ran.error()
    assert (ran.code, ran.after_decided()) == (3, [])
    for part in ("5 of 52 images", "--max_rejected", "1 corrupt_image", "nothing published"):
        assert part in message
    assert os.listdir(out) == [".staging"]
    (listed,) = (word for word in message.split() if "rejected.jsonl" in word)
    lines = Path(listed.rstrip(",")).read_text("utf-8")
    assert len(lines.splitlines()) == 6

    staged = staged_shards(out)
    dataset = make_dataset(out, **flags, max_rejected="20%")
    assert list(staged) == dataset.shards()
    for name, then in staged.items():
        now = (out / name).stat()
        assert (now.st_mtime_ns, now.st_ino) == (then.st_mtime_ns, then.st_ino)
    assert not (out / ".staging").exists()
    assert (out / "rejected.jsonl").read_text("utf-8") == lines


def staged_shards(output: Path) -> dict[str, os.stat_result]:
    """The staged shards by the names that they will get; their own names end in a recipe."""
    return {
        path.name.rpartition(".")[0]: path.stat()
        for path in sorted((output / ".staging").glob("*.tfrecord.*"))
        if path.suffix not in (".json", ".parquet")
    }


def test_what_cannot_be_read_is_rejected_with_its_reason(tmp_path: Path) -> None:
    source = tmp_path / "in"
    draw(source / "cat" / "good.jpg")
    data = (source / "cat" / "good.jpg").read_bytes()
    (source / "cat" / "dangling.jpg").symlink_to(tmp_path / "gone.jpg")
    (source / "cat" / "cut.jpg").write_bytes(data[: len(data) // 2])
    (source / "cat" / "text.jpg").write_text("<html>not found</html>")
    (source / "cat" / "large.jpg").write_bytes(data + bytes(5000))
    (source / "cat" / "folder.jpg").mkdir()
    (source / "cat" / ".hidden.jpg").write_bytes(data)
    header = bytes.fromhex("0000ffff0000ffff0802000000")
    bomb = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IEND")
    (source / "cat" / "bomb.png").write_bytes(bomb)
    bad_name = os.fsencode(source / "cat") + b"/b\xffd.jpg"
    with open(bad_name, "wb") as file:
        file.write(data)
    flags = {"images": f"{source}/*/*", "label_from": "directory", "max_rejected": "90%"}
    dataset = make_dataset(tmp_path / "out", max_bytes=4000, **flags)
    reasons = {line["key"]: line["reason"] for line in dataset.rejected}
    assert reasons == {
        "": "name_not_utf8",
        "cat/bomb.png": "too_many_pixels",
        "cat/cut.jpg": "corrupt_image",
        "cat/dangling.jpg": "unreadable",
        "cat/large.jpg": "too_many_bytes",
        "cat/text.jpg": "not_an_image",
    }
    assert dataset.ledger == {"images_matched": 7, "records_written": 1, "images_rejected": 6}
    assert filenames(dataset) == ["cat/good.jpg"]
