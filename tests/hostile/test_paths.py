"""Names and folders as nobody should make them, and files that change under the job."""

from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import pipeline.verify
from tests.conftest import draw
from tests.hostile.changing import CHANGES
from tests.hostile.limited import run_limited
from tests.marks import rest_slow
from tests.pipeline.commands import Dataset, Ran, convert, digests, make_dataset, run_here
from tests.pipeline.reading import labels as labels_of
from tests.privileges import NOBODY, without_privileges

MAX_NAME = 255
# A job that waits for somebody to write to a FIFO waits forever.
SECONDS = 60


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Two classes of three small images."""
    for number in range(3):
        draw(tmp_path / "photos/cat" / f"cat-{number}.jpg", seed=number)
        draw(tmp_path / "photos/dog" / f"dog-{number}.jpg", seed=10 + number)
    return tmp_path / "photos"


def refused(ran: Ran, *says: str) -> None:
    """Checks that a command ended with one line that says so."""
    assert ran.code == 2, ran
    line = ran.error()
    for part in says:
        assert part in line, line


def outcome(made: Dataset) -> tuple[int, list[tuple[str, str, str]]]:
    """Records, and the reason, file name and detail of everything rejected."""
    rejected = [(e["reason"], e["path"].rsplit("/", 1)[-1], e["detail"]) for e in made.rejected]
    return made.ledger["records_written"], rejected


class TestWhatGlobsMatch:
    def test_no_link_leads_in_circles(self, photos: Path) -> None:
        (photos / "cat" / "up").symlink_to(photos)
        (photos / "self").symlink_to(photos / "self")
        (photos / "cat" / "self.jpg").symlink_to("self.jpg")
        (photos / "dog" / "nowhere.jpg").symlink_to("none.jpg")
        made = make_dataset(
            photos / "../out",
            images=[f"{photos}/**/*.jpg", f"{photos}/*/*.jpg", f"{photos}/*/*/*/*.jpg"],
            key="path",
            label_from="directory",
            max_rejected="50%",
        )
        records, rejected = outcome(made)
        unreadable = {(name, detail) for reason, name, detail in rejected if reason == "unreadable"}
        assert unreadable == {
            ("self.jpg", "Too many levels of symbolic links"),
            ("nowhere.jpg", "No such file or directory"),
        }
        # Three levels down, `cat/up/cat` is a way to the cats, and `cat/up/dog` to the dogs.
        assert records == 12

    def test_fifos_devices_and_sockets_are_no_files(self, photos: Path) -> None:
        """Opening one would block, and reading another would never end."""
        os.mkfifo(photos / "cat" / "fifo.jpg")
        (photos / "cat" / "zero.jpg").symlink_to("/dev/zero")
        (photos / "cat" / "terminal.jpg").symlink_to("/dev/tty")
        (photos / "dog" / "folder.jpg").mkdir()
        if os.geteuid() == 0:
            os.mknod(photos / "dog" / "device.jpg", 0o20666, os.makedev(1, 5))
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(photos / "dog" / "s.jpg"))
            ran = run_limited(
                "pipeline.convert",
                images=f"{photos}/**/*.jpg",
                output=photos.with_name("out"),
                seconds=SECONDS,
            )
        assert ran.code == 0, ran.err
        assert outcome(Dataset(photos.with_name("out"))) == (6, [])

    @pytest.mark.slow
    @pytest.mark.parametrize("flag", ["images", "labels"])
    def test_a_fifo_that_is_named_is_no_file(self, photos: Path, flag: str) -> None:
        os.mkfifo(photos / "fifo")
        flags = {"images": f"{photos}/*/*.jpg", flag: photos / "fifo"}
        ran = run_limited(
            "pipeline.convert", output=photos.with_name("out"), seconds=SECONDS, **flags
        )
        refused(ran, f"no file matches --{flag} '{photos}/fifo'; it is not a regular file")


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS has no setresuid")
class TestUnreadableFolders:
    """They are errors: their images would be missed in silence."""

    @pytest.fixture
    def shared(self, shared_folder: Path) -> Iterator[Path]:
        """`photos/<class>/<name>/<name>.jpg` and `out`, open to every user."""
        before = os.umask(0o022)
        try:
            for name in ("cat", "dog"):
                for number in range(2):
                    draw(shared_folder / f"photos/{name}/{number}/{number}.jpg", seed=number)
            (shared_folder / "out").mkdir()
            (shared_folder / "out").chmod(0o777)
            yield shared_folder
        finally:
            os.umask(before)
            (shared_folder / "photos/dog").chmod(0o755)

    @pytest.mark.parametrize("mode", [0o000, 0o444, 0o111])
    @pytest.mark.parametrize("pattern", ["**/*.jpg", "*/*/*.jpg", "*/**"])
    def test_a_folder_that_cannot_be_read(self, shared: Path, mode: int, pattern: str) -> None:
        """Closed; open to listing but not to entering; open to entering but not to listing."""
        (shared / "photos/dog").chmod(mode)
        with without_privileges():
            assert os.geteuid() in (NOBODY, os.getuid())
            ran = convert(
                images=f"{shared}/photos/{pattern}", label_from="none", output=f"{shared}/out"
            )
        refused(ran, "no permission to read the folder", f"{shared}/photos/dog", "--images")

    def test_a_file_that_cannot_be_read_is_one_rejection(self, shared: Path) -> None:
        (shared / "photos/dog/1/1.jpg").chmod(0)
        with without_privileges():
            ran = convert(
                images=f"{shared}/photos/**/*.jpg",
                label_from="none",
                max_rejected="50%",
                output=f"{shared}/out/made",
            )
        assert ran.code == 0, ran.err
        assert outcome(Dataset(shared / "out/made")) == (
            3,
            [("unreadable", "1.jpg", "Permission denied")],
        )


NAMES = {
    "newline": "two\nlines.jpg",
    "tab": "a\tb.jpg",
    "quotes": "'\"`$(x).jpg",
    "escape": "\x1b[2J\x07.jpg",
    "blanks": "  .jpg",
    "glob": "[*?].jpg",
    "comma": "a,b;c.jpg",
    "dots": "a....jpg",
    "backslash": "a\\nb.jpg",
    "percent": "%2e%2e%2f.jpg",
    "right_to_left": "\u202egpj.exe.jpg",
    "line_separator": "a\u2028b.jpg",
    "longest": "a" * (MAX_NAME - 4) + ".jpg",
    "longest_korean": "한" * ((MAX_NAME - 4) // 3) + ".jpg",
    "option": "--output.jpg",
}


class TestNames:
    def test_any_name_is_an_image(self, tmp_path: Path) -> None:
        for at, name in enumerate(NAMES.values()):
            draw(tmp_path / "photos/cat" / name, seed=at)
        made = make_dataset(
            tmp_path / "out", images=f"{tmp_path}/photos/*/*", label_from="directory", key="path"
        )
        assert outcome(made) == (len(NAMES), [])
        stems = {Path(name).stem for name in NAMES.values()}
        assert set(labels_of(made)) == stems

    @pytest.mark.parametrize(
        "folder", rest_slow(["two\nlines", "a\u2028b", "\x1b[2J", "c" * MAX_NAME, "'\"", "a,b"])
    )
    def test_any_folder_is_a_class(self, tmp_path: Path, folder: str) -> None:
        for at, name in enumerate([folder, "dog"]):
            draw(tmp_path / "photos" / name / "1.jpg", seed=at)
        ran = convert(
            images=f"{tmp_path}/photos/*/*.jpg",
            label_from="directory",
            key="path",
            output=tmp_path / "out",
        )
        assert ran.code == 0, ran.err
        # What is printed does not move the cursor; what is written is the name on one line.
        assert all(line.isprintable() for line in ran.out.splitlines())
        lines = (tmp_path / "out/labels.txt").read_text().splitlines()
        assert sorted(lines) == sorted([" ".join(folder.splitlines()), "dog"])

    def test_rejected_names_are_a_line_each(self, tmp_path: Path) -> None:
        for name in NAMES.values():
            (tmp_path / "photos").mkdir(exist_ok=True)
            (tmp_path / "photos" / name).write_bytes(b"none of it is an image")
        draw(tmp_path / "photos/0.jpg")
        made = make_dataset(
            tmp_path / "out", images=f"{tmp_path}/photos/*", label_from="none", max_rejected="99%"
        )
        assert {Path(entry["path"]).name for entry in made.rejected} == set(NAMES.values())
        text = (made.folder / "rejected.jsonl").read_text()
        assert text.count("\n") == len(NAMES)

    def test_keys_of_any_name_join(self, tmp_path: Path) -> None:
        names = [name for key, name in NAMES.items() if key != "blanks"]
        for at, name in enumerate(names):
            draw(tmp_path / "photos" / name, seed=at)
        quoted = ('"' + name.replace('"', '""') + '"' for name in names)
        rows = "".join(f"{name},cat\n" for name in quoted)
        (tmp_path / "labels.csv").write_text("id,label\n" + rows, newline="")
        made = make_dataset(
            tmp_path / "out",
            images=f"{tmp_path}/photos/*",
            labels=tmp_path / "labels.csv",
            key="name",
        )
        assert made.ledger["rows_used"] == len(names)

    @pytest.mark.parametrize("what", ["images", "labels", "output"])
    def test_a_path_of_several_lines_makes_a_message_of_one(self, photos: Path, what: str) -> None:
        odd = photos / "a\n\x1b[2Jb"
        odd.mkdir()
        (odd / "labels.csv").write_text("id,label\nnone,cat\n")
        flags = {"images": f"{photos}/*/*.jpg", "output": photos.with_name("out")}
        flags[what] = {"images": f"{odd}/*.png", "labels": odd / "labels.csv"}.get(
            what, f"{odd}/labels.csv"
        )
        ran = convert(**flags)
        refused(ran, "a\\n\\x1b[2Jb")
        assert ran.error().isprintable()

    @pytest.mark.parametrize("flag", ["images", "labels", "class_names", "output", "layout"])
    def test_a_folder_that_is_not_utf8_is_reported_before_the_job(
        self, photos: Path, flag: str
    ) -> None:
        """The manifest, which is UTF-8, names every input."""
        folder = os.fsdecode(os.fsencode(photos) + b"/caf\xe9")
        os.mkdir(folder)
        draw(Path(folder, "1.jpg"))
        flags = {"images": f"{photos}/*/*.jpg", "output": photos.with_name("out")}
        name = {"images": "*.jpg", "layout": "x.yaml"}.get(flag, "x")
        flags[flag] = f"{folder}/{name}"
        refused(convert(**flags), f"--{flag}", "caf", "is not valid UTF-8: rename")

    def test_a_label_file_that_is_not_utf8_is_reported_too(self, photos: Path) -> None:
        Path(os.fsdecode(os.fsencode(photos) + b"/caf\xe9.csv")).write_text("id,label\ncat-0,cat\n")
        ran = convert(
            images=f"{photos}/*/*.jpg", labels=f"{photos}/*.csv", output=photos.with_name("out")
        )
        refused(ran, "--labels", "caf", "is not valid UTF-8")

    def test_the_longest_names_of_folders_and_splits(self, photos: Path) -> None:
        """Ours, made of them, must not be too long for a file system."""
        output = photos.with_name("o" * MAX_NAME)
        split = "s" * 100
        made = make_dataset(
            output, images=f"{photos}/*/*.jpg", splits=f"{split}=1", compression="gzip"
        )
        assert made.shards() == [f"{split}-00000-of-00001.tfrecord.gz"]
        longer = convert(images=f"{photos}/*/*.jpg", splits=f"{split}s=1", output=output)
        refused(longer, "a name of 101 characters is too long")
        output = photos.with_name("o" * (MAX_NAME + 1))
        refused(convert(images=f"{photos}/*/*.jpg", output=output), "File name too long")

    @pytest.mark.parametrize("name", rest_slow(["run[1]", "run*", "ru?1"]))
    def test_an_output_folder_is_no_glob(self, photos: Path, name: str) -> None:
        other = photos.with_name("run1")
        (other / ".staging").mkdir(parents=True)
        (other / ".staging" / "probe").touch()
        for splits in ("train=1", "train=0.5,test=0.5"):
            made = make_dataset(
                photos.with_name(name), images=f"{photos}/*/*.jpg", splits=splits, overwrite=True
            )
        verified = run_here(pipeline.verify.main, "verify", [str(made.folder)])
        assert verified.code == 0, verified.out
        assert list(digests(other)) == [".staging/probe"]

    def test_a_feature_whose_file_of_names_would_be_too_long_has_none(self, photos: Path) -> None:
        name = "n" * (MAX_NAME - len(".labels.txt"))
        (photos / "layout.yaml").write_text(f"features: {{{name}: label.id, i: image.bytes}}")
        made = make_dataset(
            photos.with_name("out"), images=f"{photos}/*/*.jpg", layout=photos / "layout.yaml"
        )
        assert outcome(made) == (6, [])

    def test_show_saves_the_picture_of_the_longest_name(self, tmp_path: Path) -> None:
        from pipeline import show

        for at, kind in enumerate(["longest", "longest_korean"]):
            draw(tmp_path / "photos" / NAMES[kind], seed=at)
        made = make_dataset(tmp_path / "out", images=f"{tmp_path}/photos/*", label_from="none")
        words = [str(made.folder), "--images", str(tmp_path / "pictures")]
        ran = run_here(show.main, "show", words)
        assert ran.code == 0, ran.err
        assert len(list((tmp_path / "pictures").iterdir())) == 2


DETAILS = {
    "vanishes": "No such file or directory",
    "grows": "it was overwritten meanwhile",
    "shrinks": "it was overwritten meanwhile",
    "is_rewritten": "it was overwritten meanwhile",
    "becomes_a_fifo": "it is no longer a regular file",
    "becomes_a_folder": "Is a directory",
    "becomes_a_device": "it is no longer a regular file",
    "becomes_a_link_to_itself": "Too many levels of symbolic links",
    "loses_its_folder": "No such file or directory",
}


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_changes_after_it_was_listed(photos: Path, change: str) -> None:
    """It is rejected: its shard's recipe names the file that was listed. A rerun takes the new."""
    output = photos.with_name("out")
    flags = {"images": f"{photos}/*/*.jpg", "output": output, "max_rejected": "1"}
    # Alone in its folder, it takes nobody along.
    draw(photos / "fox/fox-0.jpg", seed=20)
    ran = run_limited("tests.hostile.changing", "fox-0.jpg", change, seconds=SECONDS, **flags)
    assert ran.code == 0, ran.err
    assert outcome(Dataset(output)) == (6, [("unreadable", "fox-0.jpg", DETAILS[change])])
    again = convert(**flags)
    assert again.code == 2
    assert re.search("dataset of other inputs .*Use --overwrite", again.error())
    make_dataset(output, overwrite=True, images=flags["images"], max_rejected="1")
    fresh = make_dataset(photos.with_name("fresh"), images=flags["images"], max_rejected="1")
    assert digests(output) == digests(fresh.folder)
