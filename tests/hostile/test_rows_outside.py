"""Rows of a stranger's CSV point at files that are none of its business."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import draw
from tests.marks import rest_slow
from tests.pipeline.commands import ROOT, Dataset, convert, run_process

ALL = {"max_rejected": "100%"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two photos in `photos`."""
    for number in range(2):
        draw(tmp_path / "photos" / f"{number}.jpg", seed=number)
    return tmp_path


def flags(folder: Path, *rows: str) -> dict[str, Any]:
    """Flags of a conversion of images that rows list, with a quarantine."""
    (folder / "list.csv").write_text("\n".join(["image_uri,label", "photos/0.jpg,cat", *rows]))
    output = {"output": folder / "out", "quarantine": folder / "quarantine"}
    return {"labels": folder / "list.csv", **output, **ALL}


def reasons(folder: Path) -> dict[str, str]:
    return {line["path"]: line["reason"] for line in Dataset(folder / "out").rejected}


def copies(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "quarantine").rglob("*") if path.is_file())


@pytest.mark.parametrize("climb", rest_slow([True, False]), ids=["climbing", "absolute"])
def test_a_file_elsewhere_is_neither_read_nor_copied(
    folder: Path, climb: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "/etc/passwd"
    cell = os.path.relpath(secret, folder) if climb else secret
    touched: list[str] = []
    for name in ("open", "stat"):
        original = getattr(os, name)

        def spy(path: Any, *rest: Any, original: Any = original, **keywords: Any) -> Any:
            if str(path).endswith("passwd"):
                touched.append(str(path))
            return original(path, *rest, **keywords)

        monkeypatch.setattr(os, name, spy)
    many = [f"photos/{number}.jpg,cat" for number in [1] * 60]
    ran = convert(**flags(folder, *many, f"{cell},cat"))
    assert ran.code == 0, ran.err
    assert reasons(folder) == {secret: "outside_root"}
    assert copies(folder) == []
    assert touched == []


def test_allow_outside_reads_it(folder: Path) -> None:
    ran = convert("--allow_outside", **flags(folder, "/etc/passwd,cat"))
    assert ran.code == 0, ran.err
    assert reasons(folder) == {"/etc/passwd": "not_an_image"}
    assert copies(folder) == ["passwd"]


def test_allow_outside_is_of_rows_that_list_images(folder: Path) -> None:
    ran = convert("--allow_outside", images=f"{folder}/photos/*.jpg", output=folder / "out")
    assert ran.code == 2
    assert "--allow_outside applies only when rows list the images" in ran.error()


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="there is no /proc")
def test_what_the_kernel_makes_up_is_neither_read_nor_copied(folder: Path) -> None:
    """/proc/kmsg waits for the next message of the kernel."""
    rows = ["/proc/kmsg,cat", "/proc/self/environ,cat", "/sys/kernel/notes,cat"]
    ran = run_process("pipeline.convert", "--allow_outside", cwd=ROOT, **flags(folder, *rows))
    assert ran.code == 0, ran.err
    assert set(reasons(folder).values()) == {"unreadable"}
    assert len(reasons(folder)) == 3
    assert copies(folder) == []


@pytest.mark.slow
def test_links_to_what_the_kernel_makes_up_are_not_listed(folder: Path) -> None:
    for name in ("kmsg", "self/environ"):
        (folder / "photos" / f"{Path(name).name}.jpg").symlink_to(f"/proc/{name}")
    images = {"images": f"{folder}/photos/*.jpg", "quarantine": folder / "quarantine"}
    images |= {"label_from": "none", **ALL}
    ran = run_process("pipeline.convert", cwd=ROOT, output=folder / "out", **images)
    assert ran.code == 0, ran.err
    assert Dataset(folder / "out").ledger["records_written"] == 2
    assert copies(folder) == []
