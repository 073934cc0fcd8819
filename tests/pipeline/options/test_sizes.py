"""Sizes have units; a size that nobody can mean is refused with the one that was meant."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.images import picture, saved
from tests.marks import cases, rest_slow
from tests.pipeline.commands import Dataset, Ran, check_ended, convert, plan
from transforms.core.option import parse_size
from transforms.labels.label_options import parse_shard_size


@cases(
    *(("1MB", 10**6), ("1 MB", 10**6), ("1mib", 2**20), ("0.5GB", 5 * 10**8)),
    *(("1000KB", 10**6), ("1000000B", 10**6)),
)
def test_the_size_of_a_shard(text: str, size: int) -> None:
    assert parse_shard_size(text) == size


@cases(
    ("64", "'64' has no unit: did you mean 64MB?"),
    ("1.5", "did you mean 1.5MB?"),
    ("150000000", "did you mean 150MB?"),
    ("1000000", "did you mean 1MB?"),
    ("100KB", "'100KB' is less than 1MB: did you mean 100MB?"),
    ("64B", "did you mean 64MB?"),
    ("0.5MB", "did you mean 1MB?"),
    ("999999B", "is less than 1MB"),
    ("big", "write it like 150MB"),
    ("0MB", "write it like 150MB"),
)
def test_a_size_that_is_none(text: str, says: str) -> None:
    with pytest.raises(ValueError) as raised:
        parse_shard_size(text)
    assert says in str(raised.value)


@given(st.integers(1, 10**12), st.sampled_from(["", "B", "KB", "MiB", "GB"]))
def test_what_is_meant_is_a_size(number: int, unit: str) -> None:
    text = f"{number}{unit}"
    try:
        assert parse_shard_size(text) == parse_size(f"{text}B" if not unit else text) >= 10**6
    except ValueError as error:
        meant = str(error).partition("did you mean ")[2].rstrip("?")
        assert parse_shard_size(meant) >= 10**6


def test_a_limit_in_bytes_has_no_unit_or_is_large() -> None:
    assert (parse_size("300B"), parse_size("2000")) == (300, 2000)
    with pytest.raises(ValueError, match="did you mean 64MB"):
        parse_size("64")


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three images of 0.8 MB and one of 2.4 MB: noise, which no PNG makes smaller."""
    folder = tmp_path_factory.mktemp("large")
    for number, edge in enumerate((520, 520, 520, 900)):
        data = saved(picture("RGB", edge, edge, seed=number), "PNG", compress_level=0)
        (folder / f"{number}.png").write_bytes(data)
    return folder


def _flags(folder: Path, images: str, out: Path) -> dict[str, Any]:
    return {"images": f"{folder}/{images}.png", "label_from": "none", "output": out / "out"}


@pytest.mark.parametrize(("images", "shards"), [("[012]", 3), ("3", 1)])
def test_the_size_decides_how_many_shards(
    images: str, shards: int, large: Path, tmp_path: Path
) -> None:
    """Of 1 MB each, and no more than there are images."""
    flags = {**_flags(large, images, tmp_path), "shard_size": "1MB"}
    planned = [line.split()[:3] for line in plan(**flags).out.splitlines()]
    assert ["train", f"{shards}", f"{shards}"] in planned
    if shards == 3:
        check_ended(convert(**flags), 0)
        assert len(Dataset(tmp_path / "out").shards()) == 3


@pytest.mark.parametrize("command", rest_slow([plan, convert]))
def test_num_shards_may_be_more_and_is_warned_of(
    command: Callable[..., Ran], large: Path, tmp_path: Path
) -> None:
    flags = _flags(large, "[012]", tmp_path)
    warning = "\nwarning  split 'train' has 3 records in 5 shards: at least 2 are empty"
    check_ended(command(**flags, num_shards=5), 0, warning)
    assert "warning" not in command(**flags, num_shards=3, overwrite=True).out
