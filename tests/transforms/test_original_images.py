"""The files of images from memory, until they are published."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from transforms.core.messages import ChangedError
from transforms.core.records import PlannedImage
from transforms.dataset.output_names import STAGING, ForeignNameError, is_staged
from transforms.labels.keys import content_version, full_uri, is_staged_root
from transforms.records.image_origins import read_original, staged_root, write_original
from transforms.storage.files import storage_of


def image(key: str, data: bytes) -> PlannedImage:
    return PlannedImage(0, key, key, len(data), content_version(data), "", 0)


def test_an_image_is_read_as_it_was_given_and_no_other_bytes(tmp_path: Path) -> None:
    root = staged_root(str(tmp_path))
    assert is_staged_root(root)
    write_original(root, "/etc/passwd", b"bytes")
    assert read_original(root, image("/etc/passwd", b"bytes"), max_bytes=9) == b"bytes"
    assert full_uri(root, "gs://b/x").startswith(f"{root}/")
    [name] = storage_of(root).staged_names(str(tmp_path / STAGING))
    assert is_staged(name)
    root = staged_root(str(tmp_path))
    write_original(root, "a", b"other")
    with pytest.raises(ChangedError, match="overwritten"):
        read_original(root, image("a", b"bytes"), max_bytes=9)


def test_attempts_at_the_same_image_do_not_disturb_each_other(tmp_path: Path) -> None:
    root = staged_root(str(tmp_path))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: write_original(root, "a", b"bytes"), range(200)))
    assert read_original(root, image("a", b"bytes"), max_bytes=9) == b"bytes"
    assert len(list(Path(root).iterdir())) == 1


def test_a_foreign_file_among_them_is_not_removed(tmp_path: Path) -> None:
    root = Path(staged_root(str(tmp_path)))
    root.mkdir(parents=True)
    (root / "thesis.doc").write_text("mine")
    with pytest.raises(ForeignNameError, match="thesis.doc"):
        storage_of("").remove_staging(str(tmp_path / STAGING))
    assert (root / "thesis.doc").exists()
