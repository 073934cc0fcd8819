"""Measures reading a finished dataset: `python benchmarks/reading.py`.

In order: `load` against `tf.data` by hand and TensorFlow Datasets. In a global random order:
`Records` against ArrayRecord, both through Grain. The files have the layout of MLPerf Storage's
ResNet-50: 1,251 records of 114,660 bytes. All contenders run in turn, each as its own process.
"""

from __future__ import annotations

import argparse
import csv
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from environments import make_environment
from jobs import read_ahead
from measure import last_line, run
from photos import build_photos
from report import MB, markdown_table, paired_ratio, round_numbers, spread

_ROOT = Path(__file__).resolve().parent.parent
_SCRIPTS = Path(__file__).resolve().parent / "contenders"

# The layout of MLPerf Storage's ResNet-50.
_RECORDS, _RECORD_BYTES = 1251, 114_660

# Bytes of an Example of `--layout slim` without its image; names and labels have one length.
_OTHER_BYTES = 210

# Photos that the images are made of; they differ in a comment.
_PHOTOS = 400

# The most bytes of a JPEG's comment, with its length.
_COMMENT = 65_535


class Contender(NamedTuple):
    """A reader, and how it is compared.

    Attributes:
        title: shown in the table.
        script: in `benchmarks/contenders/`.
        words: its arguments before the folder.
        peer: the environment that it needs, or empty for ours.
        base: the contender of ours that it is compared with.
        target: the least speed of that one, times this one's; None without a target.
    """

    title: str
    script: str
    words: tuple[str, ...]
    peer: str = ""
    base: str = ""
    target: float | None = None


_ORDER, _SHUFFLED = "read_in_order.py", "read_shuffled.py"
_PIXELS = "--decode"
_PARSED = ("array-record", "--parse")
CONTENDERS: Mapping[str, Contender] = {
    "load": Contender("in order: load", _ORDER, ("ours",)),
    "by-hand": Contender("in order: tf.data by hand", _ORDER, ("by-hand",), "", "load", 1.0),
    "tfds": Contender("in order: TensorFlow Datasets", _ORDER, ("tfds",), "tfds", "load"),
    "load-pixels": Contender("pixels: load", _ORDER, ("ours", _PIXELS)),
    "by-hand-pixels": Contender(
        "pixels: tf.data by hand", _ORDER, ("by-hand", _PIXELS), "", "load-pixels", 1.0
    ),
    "records": Contender("shuffled: Records", _SHUFFLED, ("records",)),
    "array-record": Contender(
        "shuffled: ArrayRecord, parsed", _SHUFFLED, _PARSED, "grain", "records", 0.9
    ),
    "array-record-bytes": Contender(
        "shuffled: ArrayRecord, not parsed", _SHUFFLED, ("array-record",), "grain", "records"
    ),
    "records-alone": Contender("shuffled, one thread: Records", _SHUFFLED, ("records", "--alone")),
    "array-record-alone": Contender(
        "shuffled, one thread: ArrayRecord, parsed",
        _SHUFFLED,
        (*_PARSED, "--alone"),
        "grain",
        "records-alone",
    ),
}


class Epoch(NamedTuple):
    """One epoch of a reader.

    Attributes:
        seconds: wall time.
        cores: seconds of all cores.
    """

    seconds: float
    cores: float


def make_images(work: Path, count: int) -> Path:
    """Images of one size below `work`, and `labels.csv`; those of an earlier run are kept.

    Each is a photo with comments before its data, which no decoder reads.
    """
    folder = work / f"reading-{count}"
    if (folder / "labels.csv").exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    photos = work / f"photos-{min(_PHOTOS, count)}"
    build_photos(photos, count=min(_PHOTOS, count))
    size = _RECORD_BYTES - _OTHER_BYTES
    files = [path.read_bytes() for path in sorted(photos.glob("images/*/*.jpg"))]
    small = [data for data in files if len(data) <= size - 100]
    (folder / "images").mkdir(parents=True)
    with (folder / "labels.csv").open("w", encoding="utf-8", newline="") as table:
        writer = csv.writer(table, lineterminator="\n")
        writer.writerow(("id", "label"))
        for number in range(count):
            name = f"photo-{number:07d}"
            data = padded(small[number % len(small)], size, name.encode())
            (folder / "images" / f"{name}.jpg").write_bytes(data)
            writer.writerow((name, f"class-{number % 10}"))
    return folder


def padded(data: bytes, size: int, mark: bytes) -> bytes:
    """A JPEG with comments after its first marker, so that it has `size` bytes."""
    missing = size - len(data)
    comments = []
    while missing:
        # What is left over must still hold the mark.
        length = min(missing, _COMMENT + 2)
        if 0 < missing - length < 64:
            length -= 64
        filled = mark.ljust(length - 4, b".")[: length - 4]
        comments.append(b"\xff\xfe" + (length - 2).to_bytes(2, "big") + filled)
        missing -= length
    return data[:2] + b"".join(comments) + data[2:]


def make_dataset(work: Path, files: int, records: int) -> Path:
    """The dataset that all read, converted with the product.

    Raises:
        subprocess.CalledProcessError: it cannot be converted.
    """
    images = make_images(work, files * records)
    folder = images / "dataset"
    flags = {
        "images": f"{images}/images/*.jpg",
        "labels": images / "labels.csv",
        "output": folder,
        "num_shards": files,
        "dedupe": "off",
        "progress": "off",
    }
    command = [sys.executable, "-m", "pipeline.convert"]
    command += [f"--{name}={value}" for name, value in flags.items()]
    subprocess.run(command, cwd=_ROOT, check=True, stdout=sys.stderr)
    return folder


def make_command(name: str, dataset: Path, work: Path) -> list[str]:
    """The command of a contender; its environment and its copy of the data are made if needed.

    Raises:
        OSError: the environment cannot be made.
        subprocess.CalledProcessError: the environment or the copy cannot be made.
    """
    contender = CONTENDERS[name]
    python = sys.executable
    if contender.peer:
        python = str(make_environment(contender.peer, work / "environments" / contender.peer))
    folder, script = dataset, str(_SCRIPTS / contender.script)
    if contender.peer == "grain":
        folder = dataset.parent / "array_record"
        if not folder.exists():
            command = [python, script, "copy", str(dataset), "--to", str(folder)]
            subprocess.run(command, check=True, stdout=sys.stderr)
        read_ahead([str(path) for path in folder.iterdir()])
    return [python, script, *contender.words, str(folder)]


def run_epoch(name: str, command: Sequence[str], work: Path, records: int) -> Epoch:
    """Runs a reader once.

    Raises:
        RuntimeError: it failed, or did not read every image.
    """
    log = work / "logs" / f"reading-{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    code = run(list(command), log=log).code
    said = last_line(log)
    if code:
        raise RuntimeError(f"exit code {code}: {said}")
    found = json.loads(said)
    is_decoded = _PIXELS in CONTENDERS[name].words
    least = 224 * 224 * 3 if is_decoded else _RECORD_BYTES - _OTHER_BYTES
    if found["bytes"] < records * least:
        raise RuntimeError(f"it read {found['bytes']} bytes of {records} images")
    return Epoch(found["seconds"], found["cores"])


def speed_table(epochs: Mapping[str, Sequence[Epoch]], records: int) -> str:
    """A row for each reader: seconds, speed, and ours over its own."""
    header = ["", "seconds", "lowest to highest", "images/s", "MB/s", "core ms/image", "ours"]
    rows = []
    for name, runs in epochs.items():
        low, middle, high = spread([each.seconds for each in runs])
        cores = spread([each.cores for each in runs]).middle
        base = CONTENDERS[name].base
        ratio = f"{_ratio(epochs, name):.2f}x" if base in epochs else "-"
        speed = records / middle
        rows.append(
            [
                CONTENDERS[name].title,
                f"{middle:.2f}",
                f"{low:.2f} to {high:.2f}",
                f"{speed:.0f}",
                f"{speed * _RECORD_BYTES / MB:.0f}",
                f"{1e3 * cores / records:.2f}",
                ratio,
            ]
        )
    return markdown_table(header, rows)


def target_table(epochs: Mapping[str, Sequence[Epoch]]) -> str:
    """The measured value of each target."""
    rows = []
    for name in epochs:
        contender = CONTENDERS[name]
        if contender.target is None or contender.base not in epochs:
            continue
        ratio = _ratio(epochs, name)
        text = f"{CONTENDERS[contender.base].title}: times {contender.title.split(': ')[1]}"
        holds = "yes" if ratio >= contender.target else "no"
        rows.append([text, f"{ratio:.2f}", f"at least {contender.target:g}", holds])
    return markdown_table(["target", "measured", "wanted", "holds"], rows) if rows else ""


def _ratio(epochs: Mapping[str, Sequence[Epoch]], name: str) -> float:
    """The speed of ours over that of a contender, paired by rounds."""
    ours, other = epochs[CONTENDERS[name].base], epochs[name]
    return paired_ratio([each.seconds for each in other], [each.seconds for each in ours])


def _names(text: str) -> list[str]:
    unknown = sorted(set(text.split(",")) - CONTENDERS.keys())
    if unknown:
        known = ", ".join(CONTENDERS)
        raise argparse.ArgumentTypeError(f"unknown contender {unknown[0]!r}; known: {known}")
    return [name for name in CONTENDERS if name in text.split(",")]


def main(argv: Sequence[str] | None = None) -> int:
    """Measures the contenders of the command line; returns 1 if one failed."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    add = parser.add_argument
    add("--files", type=int, default=4, help="files of the dataset (4)")
    add("--records", type=int, default=_RECORDS, help=f"records of a file ({_RECORDS})")
    add("--rounds", type=int, default=5, help="rounds that count (5)")
    add("--contenders", type=_names, default=list(CONTENDERS), metavar="A,B", help="some of them")
    add("--work", type=Path, default=Path("out/benchmarks"), help="folder for everything made")
    args = parser.parse_args(argv)
    if min(args.files, args.records, args.rounds) < 1:
        parser.error("--files, --records and --rounds start at 1")
    work, count = args.work.absolute(), args.files * args.records
    work.mkdir(parents=True, exist_ok=True)
    epochs: dict[str, list[Epoch]] = {}
    failures: dict[str, str] = {}
    try:
        dataset = make_dataset(work, args.files, args.records)
        size = read_ahead([str(path) for path in dataset.glob("*.tfrecord")])
        commands = {name: make_command(name, dataset, work) for name in args.contenders}
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"reading: {error}", file=sys.stderr)
        return 1
    for number in round_numbers(args.rounds):
        for name in [each for each in commands if each not in failures]:
            try:
                epoch = run_epoch(name, commands[name], work, count)
            except (RuntimeError, ValueError, KeyError) as error:
                failures[name] = str(error)
                continue
            if number:
                epochs.setdefault(name, []).append(epoch)
            print(f"round {number}: {name}: {epoch.seconds:.2f} s", file=sys.stderr, flush=True)
    done = {name: runs for name, runs in epochs.items() if name not in failures}
    shape = f"{args.files} files of {args.records} records of {size / count - 16:.0f} bytes"
    print(f"{shape}, {args.rounds} rounds\n\n{speed_table(done, count)}\n\n{target_table(done)}")
    for name, failure in failures.items():
        print(f"\n{CONTENDERS[name].title} failed: {failure}")
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
