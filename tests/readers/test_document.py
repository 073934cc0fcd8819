"""The Python of docs/readers.md runs on what its command writes."""

import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.commands import ROOT, run
from tests.test_docs import blocks

DOCUMENT = ROOT / "docs" / "readers.md"

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    # Keras warns of its own default.
    pytest.mark.filterwarnings("ignore:.shuffle=True. was passed"),
]


@pytest.fixture(scope="module")
def written(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the first command of the document writes, of cats and dogs."""
    folder = tmp_path_factory.mktemp("document")
    rows = ["id,label"]
    for name in ("cat", "dog"):
        (folder / "photos" / name).mkdir(parents=True)
        for path in sorted((photos / name).iterdir()):
            # The names of the document have no dash.
            link = folder / "photos" / name / path.name.replace("-", "")
            link.symlink_to(path)
            rows.append(f"{link.stem},{name}")
    (folder / "labels.csv").write_text("\n".join(rows))
    words = shlex.split(blocks("sh", DOCUMENT)[0])
    assert words[:3] == ["python", "-m", "pipeline.convert"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        ran = run("convert", *words[3:])
    assert ran.code == 0, ran.err
    return folder


BLOCKS = ("tf.data", "records", "grain", "classes", "info", "tfds", "tfx")
SLOW = ("tf.data", "grain", "tfds", "tfx")


@pytest.mark.parametrize(
    "number",
    [
        # Some packages take seconds to import.
        pytest.param(at, id=name, marks=[pytest.mark.slow] * (name in SLOW))
        for at, name in enumerate(BLOCKS)
    ],
)
def test_a_block_runs(number: int, written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(written)
    found = blocks("python", DOCUMENT)
    assert len(found) == len(BLOCKS)
    names: dict[str, Any] = {}
    exec(compile(found[number], DOCUMENT.name, "exec"), names)
    # A loop that ran has left its last element; class names are only compared.
    assert {"batches", "records", "batch", "class_names", "info", "builder"} & set(names)
    assert BLOCKS[number] != "tf.data" or names["network"].output_shape == (None, 2)


def test_the_block_for_pytorch_is_python() -> None:
    [block] = blocks("py", DOCUMENT)
    compile(block, DOCUMENT.name, "exec")
