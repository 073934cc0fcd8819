"""Makes the README's picture: `python -m tests.report_picture docs/report.png`.

The report of the sample of `examples/make_sample.py`, seen by Chromium.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

from examples.make_sample import make_sample
from tests.browser import open_page

ROOT = Path(__file__).parents[1]
WIDTH, HEIGHT = 1160, 1380
COLORS = 256

# What `./run_local.sh` gives, so that the picture shows the numbers of a user's first run.
OF_THE_SAMPLE = ("--splits", "train=0.8,validation=0.2", "--max_rejected", "20%")


def make_picture(path: Path, folder: Path) -> None:
    """Converts the sample and saves what the top of its report looks like.

    Args:
        path: the PNG.
        folder: an empty one, for the sample and the dataset.
    """
    make_sample(folder / "sample")
    flags = ["--images=sample/images/**/*", "--labels=sample/labels.csv", "--output=out/sample"]
    flags += [*OF_THE_SAMPLE, "--progress=off"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "pipeline.convert", *flags]
    subprocess.run(command, cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)
    with open_page() as page:
        page.open(folder / "out" / "sample" / "report.html", width=WIDTH, height=HEIGHT)
        page.screenshot(path, height=HEIGHT)
    with Image.open(path) as shot:
        # A page has few colours: a palette makes the file a third as large.
        small = shot.convert("RGB").quantize(COLORS, dither=Image.Dither.NONE)
    small.save(path, optimize=True)


def main() -> None:
    """Makes the picture where the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("picture", type=Path, metavar="FILE", help="the PNG to write")
    with tempfile.TemporaryDirectory() as folder:
        make_picture(parser.parse_args().picture, Path(folder))


if __name__ == "__main__":
    main()
