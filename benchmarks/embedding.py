"""Measures embeddings: `python benchmarks/embedding.py`.

The product's shard, from files to encoded records, against `model.predict` on pixels that are in
memory already, in the same batches. The model is EfficientNetB0 with random weights. They run in
turn; the first round is not counted.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from photos import build_photos
from report import markdown_table, paired_ratio, round_numbers, spread

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

_WANTED = 0.9
_SHAPE = (224, 224, 3)


def make_model(path: Path) -> Any:
    """EfficientNetB0 without its top, saved as a file."""
    from transforms.images.check import import_tensorflow

    keras = import_tensorflow().keras
    keras.utils.set_random_seed(1)
    model = keras.applications.EfficientNetB0(weights=None, include_top=False, input_shape=_SHAPE)
    model.save(path)
    return model


def product(paths: Sequence[str], model: Path) -> Callable[[], list[bytes]]:
    """A run over all files as a shard does it, which gives the records."""
    from transforms.convert_images import ImageConverter
    from transforms.core.records import PlannedImage
    from transforms.embed_images import files_digest
    from transforms.examples.layouts import LAYOUTS, Embedding, with_embedding
    from transforms.images.checked_images import CheckedImage
    from transforms.images.pixel_options import CheckOptions
    from transforms.records.image_origins import Origins

    digests = (files_digest(str(model)), "")
    shape = (7, 7, 1280)
    embedding = Embedding(str(model), None, "float32", digests, _SHAPE, shape)
    converter = ImageConverter(
        origins=Origins(""),
        features=with_embedding(LAYOUTS["embedding"], shape, "float32"),
        checks=CheckOptions(max_pixels=10**9, max_bytes=10**9, dedupe="off"),
        embedding=embedding,
    )
    converter.setup()
    images = [PlannedImage(0, path, path, os.path.getsize(path), 0, "", 0) for path in paths]

    def run() -> list[bytes]:
        loaded = (each for each in converter.load(images) if isinstance(each, CheckedImage))
        return list(converter.encode(loaded))

    return run


def predict(paths: Sequence[str], model: Any) -> Callable[[], Any]:
    """A run of `model.predict` over the pixels of all files, which it does not read."""
    import numpy as np

    from transforms.images.embeddings import BATCH_IMAGES, input_pixels

    pixels = np.stack([input_pixels(Path(path).read_bytes(), "jpeg", _SHAPE) for path in paths])
    return lambda: model.predict(pixels, batch_size=BATCH_IMAGES, verbose=0)


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the rates, the product's over that of `predict`, and the size of a record."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    add = parser.add_argument
    add("--count", type=int, default=320, help="photos to build (320)")
    add("--rounds", type=int, default=5, help="rounds that count (5)")
    add("--work", type=Path, default=Path("out/benchmarks"), help="where photos are built")
    args = parser.parse_args(argv)
    if min(args.count, args.rounds) < 1:
        parser.error("--count and --rounds start at 1")
    directory = args.work / f"photos-{args.count}"
    build_photos(directory, count=args.count)
    paths = sorted(map(str, directory.glob("images/*/*.jpg")))
    path = args.work / "efficientnet.keras"
    model = make_model(path)
    runs: dict[str, Callable[[], Any]] = {
        "the product": product(paths, path),
        "model.predict, pixels in memory": predict(paths, model),
    }
    rates: dict[str, list[float]] = {name: [] for name in runs}
    sizes: dict[str, str] = {}
    for number in round_numbers(args.rounds):
        for name, run in runs.items():
            start = time.perf_counter()
            made = run()
            seconds = time.perf_counter() - start
            if len(made) != len(paths):
                raise RuntimeError(f"{name} did {len(made)} of {len(paths)} images")
            sizes[name] = f"{len(made[0])}" if isinstance(made, list) else ""
            if number:
                rates[name].append(len(paths) / seconds)
    rows = []
    for name, values in rates.items():
        low, middle, high = spread(values)
        rows.append([name, f"{middle:.1f}", f"{low:.1f} to {high:.1f}", sizes[name]])
    header = ["", "images/s", "lowest to highest", "bytes a record"]
    print(f"{len(paths)} JPEGs, EfficientNetB0\n\n{markdown_table(header, rows)}\n")
    full, bare = rates.values()
    print(f"of model.predict: {paired_ratio(full, bare):.2f} (wanted: at least {_WANTED})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
