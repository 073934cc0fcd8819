"""A decoder that crashes costs the images that make it crash, not the job."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from tests.pipeline import commands
from tests.pipeline.commands import ROOT, Dataset, Ran
from transforms.core import machine

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

HANGING_DECODER = CRASHING_DECODER.replace("raise_signal(signal.SIGSEGV)", "pause()")

# `convert`, with seconds where it has minutes.
IMPATIENT = """
import sys
from pipeline.run import supervise
from pipeline.convert import main
from pipeline.errors import run_command
from transforms.images import guard

guard._WATCH_SECONDS = 0.5
guard._SECONDS = 1.0
sys.exit(supervise.supervise(lambda: run_command(lambda: main(sys.argv[1:]), "convert")))
"""

# Python imports it at its start: as on macOS, `/proc` says nothing, also to worker processes.
NO_PROC = """
from pathlib import Path
from transforms.core import machine

machine.PROC = Path("/nowhere")
"""

# Python imports it at its start: another decoder, of the report's pictures, crashes likewise.
CRASHING_PICTURES = """
import signal
import simplejpeg

decode_jpeg = simplejpeg.decode_jpeg

def crashing_decode(data, colorspace="RGB", **options):
    # The check decodes to grey pixels.
    if colorspace == "RGB" and b"CRASH" in data:
        signal.raise_signal(signal.SIGSEGV)
    return decode_jpeg(data, colorspace, **options)

simplejpeg.decode_jpeg = crashing_decode
"""

AGAIN = "running again, with decoders in a process of their own"
CRASHED = f"the run crashed (SIGSEGV), probably in a decoder; {AGAIN}"

PLANTED = ("cat/3.jpg", "dog/7.jpg")

# One of two workers, as the kernel does when memory is short.
KILLED_WORKER = """
import os
import shutil
import signal
import sys
from pathlib import Path

if any("beam_compat" in word for word in sys.orig_argv):
    try:
        Path(os.environ["TMPDIR"], "killed").mkdir()
        os.kill(os.getpid(), signal.SIGKILL)
    except FileExistsError:
        pass
"""

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


def convert_here(images: Path) -> None:
    """Converts in this process, with the decoder as it is."""
    flags = {"images": f"{images}/*/*.jpg", "max_rejected": 2, "num_shards": 3}
    commands.make_dataset(images.parent / "out", **flags)


def convert(
    images: Path,
    *words: str,
    module: str = "pipeline.convert",
    planted: tuple[str, str] = ("simplejpeg.py", CRASHING_DECODER),
) -> tuple[int, str]:
    """Converts with the crashing decoder: exit code and standard error."""
    words = (f"--output={images.parent / 'out'}", "--max_rejected=2", "--num_shards=3", *words)
    words = (f"--images={images}/*/*.jpg", *words)
    ran = run_planted(images.parent, module, *words, planted=planted)
    return ran.code, ran.err


def run_planted(folder: Path, module: str, *words: str, planted: tuple[str, str]) -> Ran:
    """Runs a module with another decoder and a folder for temporary files of its own."""
    for name in ("tmp", "planted"):
        (folder / name).mkdir(exist_ok=True)
    name, code = planted
    (folder / "planted" / name).write_text(code)
    changes = {
        "TMPDIR": str(folder / "tmp"),
        "PYTHONPATH": f"{folder / 'planted'}:{ROOT}",
    }
    done = subprocess.run(
        [sys.executable, "-m", module, "--progress=off", *words],
        env={**os.environ, **changes},
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        timeout=100,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def rejected(folder: Path) -> list[tuple[str, str]]:
    return sorted((line["reason"], line["key"]) for line in Dataset(folder).rejected)


@pytest.mark.slow
def test_it_costs_the_images_not_the_job(images: Path) -> None:
    code, message = convert(images)
    assert code == 0, message
    assert message.splitlines() == [CRASHED]
    dataset = Dataset(images.parent / "out")
    assert rejected(dataset.folder) == [("decoder_crash", name) for name in PLANTED]
    assert dataset.ledger["records_written"] == 18


@pytest.mark.slow
def test_without_a_supervisor_the_next_attempt_at_a_shard_goes_on(
    images: Path,
) -> None:
    """A runner restarts such a worker, maybe on another machine: no temporary file is shared."""
    main = Path(images.parent, "unsupervised.py")
    main.write_text("import sys\nfrom pipeline.convert import main\nmain(sys.argv[1:])\n")
    codes = []
    while 0 not in codes:
        codes.append(convert(images, module="unsupervised")[0])
        shutil.rmtree(images.parent / "tmp")
    # The images are in one shard or two, of which one may be begun while another is written.
    assert codes in ([-signal.SIGSEGV] * number + [0] for number in (1, 2))
    assert rejected(images.parent / "out") == [("decoder_crash", name) for name in PLANTED]
    assert not (images.parent / "out" / ".staging").exists()


@pytest.mark.slow
def test_workers_in_processes_of_their_own(images: Path) -> None:
    """The command continues by itself without the images, as in one process."""
    code, message = convert(images, "--workers=2")
    assert code == 0, message
    assert message.splitlines() == [CRASHED]
    assert rejected(images.parent / "out") == [("decoder_crash", name) for name in PLANTED]


@pytest.mark.slow
def test_without_proc(images: Path) -> None:
    """The other worker is not killed, and prints why it ends, in the middle of our line, too."""
    (images.parent / "planted").mkdir()
    (images.parent / "planted" / "sitecustomize.py").write_text(NO_PROC)
    code, message = convert(images, "--workers=2")
    assert code == 0 and CRASHED in message
    assert rejected(images.parent / "out") == [("decoder_crash", name) for name in PLANTED]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine, "PROC", Path("/nowhere"))
        commands.check_sound(images.parent / "out")


@pytest.mark.slow
def test_a_worker_that_is_killed_while_it_starts_ends_the_run(images: Path) -> None:
    """Beam alone would wait for it forever."""
    planted = ("sitecustomize.py", KILLED_WORKER)
    code, message = convert(images, "--workers=2", planted=planted)
    assert code == 1
    [line] = message.splitlines()
    assert "return code -9): a worker ended while it started" in line
    convert_here(images)


@pytest.mark.slow
def test_a_decoder_that_hangs_costs_its_images(images: Path) -> None:
    """Its process is ended, and the next one tries in a child with limits."""
    Path(images.parent, "impatient.py").write_text(IMPATIENT)
    code, message = convert(images, module="impatient", planted=("simplejpeg.py", HANGING_DECODER))
    assert code == 0, message
    assert message.splitlines() == [f"a decoder hangs; {AGAIN}"]
    dataset = Dataset(images.parent / "out")
    assert rejected(dataset.folder) == [("too_costly", name) for name in PLANTED]
    assert {line["detail"] for line in dataset.rejected} == {"decoding does not end within 5 s"}
    assert dataset.ledger["records_written"] == 18


@pytest.mark.slow
def test_verify_names_the_records_that_crash_a_decoder(images: Path) -> None:
    """They are in the dataset since another version of the decoder took them."""
    convert_here(images)
    planted = ("simplejpeg.py", CRASHING_DECODER)
    ran = run_planted(images.parent, "pipeline.verify", str(images.parent / "out"), planted=planted)
    assert ran.code == 1, ran.err
    *crashes, message = ran.err.splitlines()
    assert crashes == [CRASHED]
    assert "differs from its manifest: 2 problems" in message
    lines = [line for line in ran.out.splitlines() if "decoder_crash" in line]
    assert len(lines) == 2
    assert all(": record " in line and "the image is decoder_crash" in line for line in lines)


@pytest.mark.slow
def test_a_crash_over_a_picture_of_the_report_costs_the_picture(images: Path) -> None:
    """The dataset is published by then."""
    for number, name in enumerate(SHOWN):
        picture = Image.effect_noise((20, 20), 40 + number)
        picture.save(images / name, "JPEG", comment=b"CRASH")
    code, message = convert(images, planted=("sitecustomize.py", CRASHING_PICTURES))
    assert code == 0, message
    assert message.splitlines() == [CRASHED]
    folder = images.parent / "out"
    assert rejected(folder) == []
    samples = json.loads((folder / "statistics.json").read_text("utf-8"))["samples"]
    keys = {sample["key"] for sample in samples}
    assert keys > set(SHOWN)
    page = (folder / "report.html").read_text("utf-8")
    # Odd ones are shown, too, of whatever sizes and looks the noise has.
    shown = set(re.findall(r'alt="([^",]+), train"[^>]*src="data:image/jpeg', page))
    assert shown >= keys - set(SHOWN)
    assert shown.isdisjoint(SHOWN)
