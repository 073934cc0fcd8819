"""A decoder that crashes costs the images that make it crash, not the job."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from tests.pipeline.commands import ROOT, Dataset

# Takes the place of simplejpeg: the same, but a JPEG with the comment CRASH ends the process.
CRASHING_DECODER = """
import importlib.machinery
import importlib.util
import signal
import sys
from pathlib import Path

elsewhere = [path for path in sys.path if Path(path).resolve() != Path(__file__).parent]
spec = importlib.machinery.PathFinder.find_spec("simplejpeg", elsewhere)
real = importlib.util.module_from_spec(spec)
sys.modules["simplejpeg"] = real
spec.loader.exec_module(real)
decode = real.decode_jpeg

def decode_jpeg(data, *args, **kwargs):
    if b"CRASH" in data:
        signal.raise_signal(signal.SIGSEGV)
    return decode(data, *args, **kwargs)

real.decode_jpeg = decode_jpeg
"""

# Python imports it at its start: another decoder, of the report's pictures, crashes likewise.
CRASHING_PICTURES = """
import signal
from PIL.JpegImagePlugin import JpegImageFile

draft = JpegImageFile.draft

def crashing_draft(self, *args):
    if b"CRASH" in self.info.get("comment", b""):
        signal.raise_signal(signal.SIGSEGV)
    return draft(self, *args)

JpegImageFile.draft = crashing_draft
"""

PLANTED = ("cat/3.jpg", "dog/7.jpg")

# Of those that the report shows.
SHOWN = ("cat/9.jpg", "dog/0.jpg")


@pytest.fixture
def images(tmp_path: Path) -> Path:
    for name in [f"{label}/{number}.jpg" for label in ("cat", "dog") for number in range(10)]:
        path = tmp_path / "images" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        comment = b"CRASH" if name in PLANTED else b"fine"
        Image.effect_noise((20, 20), 40).save(path, "JPEG", comment=comment)
    return tmp_path / "images"


def convert(
    images: Path,
    *words: str,
    module: str = "pipeline.convert",
    planted: tuple[str, str] = ("simplejpeg.py", CRASHING_DECODER),
) -> tuple[int, str]:
    """Converts with the crashing decoder: exit code and standard error."""
    folder = images.parent
    for name in ("tmp", "planted"):
        (folder / name).mkdir(exist_ok=True)
    name, code = planted
    (folder / "planted" / name).write_text(code)
    changes = {
        "TMPDIR": str(folder / "tmp"),
        "PYTHONPATH": f"{folder / 'planted'}:{ROOT}",
    }
    command = [sys.executable, "-m", module, f"--images={images}/*/*.jpg", "--progress=off"]
    command += [f"--output={folder / 'out'}", "--max_rejected=2", "--num_shards=3", *words]
    done = subprocess.run(
        command,
        env={**os.environ, **changes},
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        timeout=100,
    )
    return done.returncode, done.stderr


def rejected(folder: Path) -> list[tuple[str, str]]:
    return sorted((line["reason"], line["key"]) for line in Dataset(folder).rejected)


def test_it_costs_the_images_not_the_job(images: Path) -> None:
    code, told = convert(images)
    assert code == 0, told
    assert "a decoder crashed (SIGSEGV); going on without the image" in told.splitlines()
    dataset = Dataset(images.parent / "out")
    assert rejected(dataset.folder) == [("decoder_crash", name) for name in PLANTED]
    assert dataset.ledger["records_written"] == 18


def test_without_a_supervisor_the_same_command_goes_on(images: Path) -> None:
    """As a worker that its runner starts again: each try knows one image more."""
    main = Path(images.parent, "unsupervised.py")
    main.write_text("import sys\nfrom pipeline.convert import main\nmain(sys.argv[1:])\n")
    codes = [convert(images, module="unsupervised")[0] for _ in range(3)]
    # Both at once, when two threads were decoding them at the same time.
    assert codes in ([-signal.SIGSEGV, -signal.SIGSEGV, 0], [-signal.SIGSEGV, 0, 0])
    assert rejected(images.parent / "out") == [("decoder_crash", name) for name in PLANTED]


def test_workers_in_processes_of_their_own(images: Path) -> None:
    words = ("--direct_num_workers=2", "--direct_running_mode=multi_processing")
    codes = [convert(images, *words)[0] for _ in range(3)]
    assert codes[-1] == 0
    assert rejected(images.parent / "out") == [("decoder_crash", name) for name in PLANTED]


def test_a_crash_outside_of_decoders_is_not_tried_again(images: Path) -> None:
    main = Path(images.parent, "crashing.py")
    main.write_text(
        "import signal, sys\n"
        "from pipeline.supervise import supervise\n"
        "print('started', file=sys.stderr, flush=True)\n"
        "sys.exit(supervise(lambda: signal.raise_signal(signal.SIGSEGV)))\n"
    )
    code, told = convert(images, module="crashing")
    assert code == 128 + signal.SIGSEGV
    assert told == "started\n"


def test_a_crash_over_a_picture_of_the_report_costs_the_picture(images: Path) -> None:
    """The dataset is published by then."""
    for number, name in enumerate(SHOWN):
        picture = Image.effect_noise((20, 20), 40 + number)
        picture.save(images / name, "JPEG", comment=b"CRASH")
    code, told = convert(images, planted=("sitecustomize.py", CRASHING_PICTURES))
    assert code == 0, told
    # Both at once, when two threads were at it.
    assert set(told.splitlines()) == {"a decoder crashed (SIGSEGV); going on without the image"}
    folder = images.parent / "out"
    assert rejected(folder) == []
    samples = json.loads((folder / "statistics.json").read_text("utf-8"))["samples"]
    keys = {sample["key"] for sample in samples}
    assert keys > set(SHOWN)
    page = (folder / "report.html").read_text("utf-8")
    assert page.count("data:image/jpeg") == len(keys) - len(SHOWN)
