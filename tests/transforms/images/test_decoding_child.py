"""A child that decodes: what it does to itself costs the image, and nothing else."""

from __future__ import annotations

import io
import os
import pickle
import signal
import time
from collections.abc import Iterator

import pytest
from PIL import Image

from tests.images import picture, saved
from transforms.core.rejections import Reason, RejectedImageError
from transforms.images.check import check_image
from transforms.images.guard import Budget, DecoderFailure, DecodingChild
from transforms.images.pixel_options import Limits

BUDGET = Budget.of_pixels(10**6)
LIMITS = Limits(10**6, 10**6)


@pytest.fixture
def child() -> Iterator[DecodingChild]:
    """One that is ended after the test."""
    made = DecodingChild()
    yield made
    made.close()


def test_one_process_answers_many_calls(child: DecodingChild) -> None:
    data = saved(picture("RGB"), "JPEG")
    for _ in range(20):
        assert child.call(BUDGET, check_image, data, limits=LIMITS).format == "jpeg"
        with pytest.raises(RejectedImageError) as raised:
            child.call(BUDGET, check_image, b"text", limits=LIMITS)
        assert raised.value.reason is Reason.NOT_AN_IMAGE
        assert not isinstance(raised.value, DecoderFailure)
    assert child.started == 1


@pytest.mark.slow
def test_tensorflow_decodes_within_the_limits(child: DecodingChild) -> None:
    small = Budget.of_pixels(2_000)
    data = saved(picture("RGB"), "GIF")
    for _ in range(2):
        assert child.call(small, check_image, data, limits=LIMITS).format == "gif"
    assert child.started == 1


def test_what_ends_the_process_costs_the_image(child: DecodingChild) -> None:
    for number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL):
        with pytest.raises(DecoderFailure) as raised:
            child.call(BUDGET, signal.raise_signal, number)
        assert raised.value.reason is Reason.DECODER_CRASH
        assert raised.value.detail == f"a decoder crashes with {number.name}"
    assert child.call(BUDGET, len, b"on") == 2
    assert child.started == 4


def test_memory_is_limited(child: DecodingChild) -> None:
    budget = Budget(100 << 20, 60)
    with pytest.raises(DecoderFailure, match="more than 100 MB of memory") as raised:
        child.call(budget, bytes, 200 << 20)
    assert raised.value.reason is Reason.TOO_COSTLY
    # The process lives, and what it may take does not shrink or grow.
    for _ in range(3):
        assert len(child.call(budget, bytes, 50 << 20)) == 50 << 20
    with pytest.raises(DecoderFailure):
        child.call(budget, bytes, 200 << 20)
    assert child.started == 1


class Patient(Budget):
    """Limits nothing but processor time, of which a busy machine gives little a second."""

    @property
    def clock_seconds(self) -> float:
        return 100.0


def test_processor_time_is_limited(child: DecodingChild) -> None:
    endless = Patient(1 << 30, 0.2)
    with pytest.raises(DecoderFailure, match="of CPU time") as raised:
        child.call(endless, sum, range(10**12))
    assert raised.value.reason is Reason.TOO_COSTLY
    # Each call has its own.
    for _ in range(4):
        child.call(Budget(1 << 30, 10), sum, range(10**6))


def test_waiting_is_limited(child: DecodingChild) -> None:
    with pytest.raises(DecoderFailure, match="does not end within 1 s") as raised:
        child.call(Budget(1 << 30, 0.2), time.sleep, 60)
    assert raised.value.reason is Reason.TOO_COSTLY


def test_other_errors_keep_their_kind(child: DecodingChild) -> None:
    with pytest.raises(ZeroDivisionError):
        child.call(BUDGET, divmod, 1, 0)
    with pytest.raises(RuntimeError, match="ended with exit code 3"):
        child.call(BUDGET, os._exit, 3)
    with pytest.raises((AttributeError, pickle.PicklingError)):
        child.call(BUDGET, lambda: 1)
    assert child.call(BUDGET, len, b"on") == 2


def test_what_libraries_print_is_no_answer(
    child: DecodingChild, capfd: pytest.CaptureFixture[str]
) -> None:
    assert child.call(BUDGET, os.write, 1, b"noise") == 5
    assert capfd.readouterr() == ("", "noise")


def test_a_folder_of_the_same_name_is_not_imported(
    child: DecodingChild, tmp_path: os.PathLike[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    os.makedirs("transforms/images")
    assert child.call(BUDGET, len, b"on") == 2


def test_a_picture_of_a_million_pixels_needs_no_more_than_its_budget(
    child: DecodingChild,
) -> None:
    file = io.BytesIO()
    Image.effect_noise((1000, 1000), 40).save(file, "PNG")
    assert child.call(BUDGET, check_image, file.getvalue(), limits=Limits(10**6, 10**7)).height


@pytest.mark.parametrize(
    ("pixels", "seconds"), [(1, 60), (178_956_970, 60), (357_913_940, 120), (2**63, 3600)]
)
def test_the_budget_grows_with_the_pixels(pixels: int, seconds: float) -> None:
    budget = Budget.of_pixels(pixels)
    assert budget.seconds == seconds
    assert 512 << 20 <= budget.bytes <= (1 << 50)
