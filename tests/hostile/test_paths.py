"""Names and folders as nobody should make them, and files that change under the job."""

import os
import re
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import draw
from tests.hostile.changing import CHANGES, changing
from tests.hostile.limited import run_limited
from tests.marks import cases
from tests.pipeline.commands import Dataset, Ran, check_sound, convert, digests, make_dataset, show
from tests.pipeline.reading import labels as labels_of
from tests.privileges import NOBODY, without_privileges

pytestmark = pytest.mark.slow

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
    assert line.isprintable()
    assert [part for part in says if part not in line] == [], line


def outcome(made: Dataset) -> tuple[int, list[tuple[str, str, str]]]:
    """Records, and the reason, file name and detail of everything rejected."""
    rejected = [(e["reason"], e["path"].rsplit("/", 1)[-1], e["detail"]) for e in made.rejected]
    return made.ledger["records_written"], rejected


def test_no_link_leads_in_circles(photos: Path) -> None:
    (photos / "cat" / "up").symlink_to(photos)
    (photos / "self").symlink_to(photos / "self")
    (photos / "cat" / "self.jpg").symlink_to("self.jpg")
    (photos / "dog" / "nowhere.jpg").symlink_to("none.jpg")
    globs = [f"{photos}/**/*.jpg", f"{photos}/*/*.jpg", f"{photos}/*/*/*/*.jpg"]
    flags: dict[str, Any] = {"key": "path", "label_from": "directory", "max_rejected": "50%"}
    records, rejected = outcome(make_dataset(photos / "../out", images=globs, **flags))
    assert {each[1:] for each in rejected if each[0] == "unreadable"} == {
        ("self.jpg", "Too many levels of symbolic links"),
        ("nowhere.jpg", "No such file or directory"),
    }
    # Three levels down, `cat/up/cat` is a way to the cats, and `cat/up/dog` to the dogs.
    assert records == 12


def test_fifos_devices_and_sockets_are_no_files(photos: Path) -> None:
    """Opening one would block, and reading another would never end."""
    os.mkfifo(photos / "cat" / "fifo.jpg")
    (photos / "cat" / "zero.jpg").symlink_to("/dev/zero")
    (photos / "cat" / "terminal.jpg").symlink_to("/dev/tty")
    (photos / "dog" / "folder.jpg").mkdir()
    if os.geteuid() == 0:
        os.mknod(photos / "dog" / "device.jpg", 0o20666, os.makedev(1, 5))
    output = photos.with_name("out")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(photos / "dog" / "s.jpg"))
        images = f"{photos}/**/*.jpg"
        ran = run_limited("pipeline.convert", images=images, output=output, seconds=SECONDS)
    assert ran.code == 0, ran.err
    assert outcome(Dataset(output)) == (6, [])


@pytest.mark.parametrize("flag", ["images", "labels"])
def test_a_fifo_that_is_named_is_no_file(photos: Path, flag: str) -> None:
    os.mkfifo(photos / "fifo")
    flags = {"images": f"{photos}/*/*.jpg", "output": photos.with_name("out")}
    flags[flag] = photos / "fifo"
    ran = run_limited("pipeline.convert", seconds=SECONDS, **flags)
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

    def convert(self, shared: Path, pattern: str) -> Ran:
        images, output = f"{shared}/photos/{pattern}", f"{shared}/out/made"
        with without_privileges():
            assert os.geteuid() in (NOBODY, os.getuid())
            return convert(images=images, label_from="none", max_rejected="50%", output=output)

    @pytest.mark.parametrize("mode", [0o000, 0o444, 0o111])
    @pytest.mark.parametrize("pattern", ["**/*.jpg", "*/*/*.jpg", "*/**"])
    def test_a_folder_that_cannot_be_read(self, shared: Path, mode: int, pattern: str) -> None:
        """Closed; open to listing but not to entering; open to entering but not to listing."""
        (shared / "photos/dog").chmod(mode)
        ran = self.convert(shared, pattern)
        refused(ran, "no permission to read the folder", f"{shared}/photos/dog", "--images")

    def test_a_file_that_cannot_be_read_is_one_rejection(self, shared: Path) -> None:
        (shared / "photos/dog/1/1.jpg").chmod(0)
        ran = self.convert(shared, "**/*.jpg")
        assert ran.code == 0, ran.err
        rejected = [("unreadable", "1.jpg", "Permission denied")]
        assert outcome(Dataset(shared / "out/made")) == (3, rejected)


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
CLASSES = ["two\nlines", "a\u2028b", "\x1b[2J", "c" * MAX_NAME, "'\"", "a,b"]


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Of images of any name, files of such names that are none, and classes of any name."""
    folder = tmp_path_factory.mktemp("odd")
    (folder / "photos/bad").mkdir(parents=True)
    for at, name in enumerate(NAMES.values()):
        draw(folder / "photos/cat" / name, seed=at)
        (folder / "photos/bad" / name).write_bytes(b"none of it is an image")
    for at, name in enumerate(CLASSES, len(NAMES)):
        draw(folder / "photos" / name / "1.jpg", seed=at)
    flags: dict[str, Any] = {"label_from": "directory", "key": "path", "max_rejected": "99%"}
    ran = convert(images=f"{folder}/photos/*/*", output=folder / "out", **flags)
    assert ran.code == 0, ran.err
    # What is printed does not move the cursor.
    assert all(line.isprintable() for line in ran.out.splitlines())
    return Dataset(folder / "out")


class TestNames:
    def test_any_name_is_an_image(self, odd: Dataset) -> None:
        cats = {stem for stem, label in labels_of(odd).items() if label == "cat"}
        assert cats == {Path(name).stem for name in NAMES.values()}

    def test_any_folder_is_a_class(self, odd: Dataset) -> None:
        """What is written is the name on one line."""
        lines = (odd.folder / "labels.txt").read_text().split("\n")[:-1]
        assert {*lines} >= {"cat", *(" ".join(name.splitlines()) for name in CLASSES)}
        assert len(odd.classes) == len(lines)

    def test_rejected_names_are_a_line_each(self, odd: Dataset) -> None:
        assert {Path(entry["path"]).name for entry in odd.rejected} == set(NAMES.values())
        assert (odd.folder / "rejected.jsonl").read_text().count("\n") == len(NAMES)

    def test_show_saves_a_picture_of_each(self, odd: Dataset, tmp_path: Path) -> None:
        ran = show(odd.folder, "--images", tmp_path, "--limit", 100)
        assert ran.code == 0, ran.err
        assert len(list(tmp_path.iterdir())) == len(NAMES) + len(CLASSES)

    def test_keys_of_any_name_join(self, tmp_path: Path) -> None:
        names = [name for key, name in NAMES.items() if key != "blanks"]
        for at, name in enumerate(names):
            draw(tmp_path / "photos" / name, seed=at)
        rows = "".join('"' + name.replace('"', '""') + '",cat\n' for name in names)
        (tmp_path / "labels.csv").write_text("id,label\n" + rows, newline="")
        flags = {"images": f"{tmp_path}/photos/*", "labels": tmp_path / "labels.csv"}
        made = make_dataset(tmp_path / "out", key="name", **flags)
        assert made.ledger["rows_used"] == len(names)

    @pytest.mark.parametrize(
        ("flag", "name"), [("images", "*.png"), ("labels", "labels.csv"), ("output", "labels.csv")]
    )
    def test_a_path_of_several_lines_makes_a_message_of_one(
        self, photos: Path, flag: str, name: str
    ) -> None:
        odd = photos / "a\n\x1b[2Jb"
        odd.mkdir()
        (odd / "labels.csv").write_text("id,label\nnone,cat\n")
        flags = {"images": f"{photos}/*/*.jpg", "output": photos.with_name("out")}
        refused(convert(**flags | {flag: f"{odd}/{name}"}), "a\\n\\x1b[2Jb")

    @cases(
        ("images", "caf\udce9/*.jpg"),
        ("labels", "*.csv"),
        ("labels", "caf\udce9/x"),
        ("class_names", "caf\udce9/x"),
        ("output", "caf\udce9/x"),
        ("layout", "caf\udce9/x.yaml"),
    )
    def test_a_path_that_is_not_utf8_is_reported_before_the_job(
        self, flag: str, path: str, photos: Path
    ) -> None:
        """The manifest, which is UTF-8, names every input."""
        draw(photos / "caf\udce9" / "1.jpg")
        (photos / "caf\udce9.csv").write_text("id,label\ncat-0,cat\n")
        flags = {"images": f"{photos}/*/*.jpg", "output": photos.with_name("out")}
        ran = convert(**flags | {flag: f"{photos}/{path}"})
        refused(ran, f"--{flag}", "caf", "is not valid UTF-8: rename")

    def test_the_longest_names_of_folders_splits_and_features(self, photos: Path) -> None:
        """Ours, made of them, must not be too long for a file system; a feature's has no file."""
        output, split = photos.with_name("o" * MAX_NAME), "s" * 100
        feature = "n" * (MAX_NAME - len(".labels.txt"))
        (photos / "layout.yaml").write_text(f"features: {{{feature}: label.id, i: image.bytes}}")
        flags = {"images": f"{photos}/*/*.jpg", "layout": photos / "layout.yaml"}
        made = make_dataset(output, splits=f"{split}=1", compression="gzip", **flags)
        assert made.shards() == [f"{split}-00000-of-00001.tfrecord.gz"]
        assert outcome(made) == (6, [])
        longer = convert(splits=f"{split}s=1", output=output, **flags)
        refused(longer, "a name of 101 characters is too long")
        output = photos.with_name("o" * (MAX_NAME + 1))
        refused(convert(output=output, **flags), "File name too long")

    @pytest.mark.parametrize("name", ["run[1]", "run*", "ru?1"])
    def test_an_output_folder_is_no_glob(self, photos: Path, name: str) -> None:
        other = photos.with_name("run1")
        (other / ".staging").mkdir(parents=True)
        (other / ".staging" / "probe").touch()
        flags = {"images": f"{photos}/*/*.jpg", "overwrite": True}
        for splits in ("train=1", "train=0.5,test=0.5"):
            made = make_dataset(photos.with_name(name), splits=splits, **flags)
        check_sound(made.folder)
        assert list(digests(other)) == [".staging/probe"]


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


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_changes_after_it_was_listed(photos: Path, change: str) -> None:
    """It is rejected: its shard's recipe names the file that was listed. A rerun takes the new."""
    output = photos.with_name("out")
    flags = {"images": f"{photos}/*/*.jpg", "max_rejected": "1"}
    # Alone in its folder, it takes nobody along.
    draw(photos / "fox/fox-0.jpg", seed=20)
    with changing("fox-0.jpg", change):
        made = make_dataset(output, **flags)
    assert outcome(made) == (6, [("unreadable", "fox-0.jpg", DETAILS[change])])
    again = convert(output=output, **flags)
    assert again.code == 2
    assert re.search("dataset of other inputs .*Use --overwrite", again.error())
    make_dataset(output, overwrite=True, **flags)
    assert digests(output) == digests(make_dataset(photos.with_name("fresh"), **flags).folder)
