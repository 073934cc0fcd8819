"""What rejects an image, and what fails its shard."""

from __future__ import annotations

import errno

import pytest

from transforms.core.messages import ChangedError, FinalError, TransientError, check_final, is_final
from transforms.dataset.output_names import ForeignNameError


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError(errno.ENOENT, "gone"),
        PermissionError(errno.EACCES, "no permission"),
        OSError(errno.EPERM, "no permission"),
        IsADirectoryError(errno.EISDIR, "a folder"),
        OSError(errno.ELOOP, "links"),
        OSError(errno.ENAMETOOLONG, "name"),
        ChangedError(errno.ESTALE, "it was overwritten meanwhile"),
        FinalError(errno.EIO, "its gzip encoding is damaged"),
        ForeignNameError("../me is not the name of a shard"),
    ],
)
def test_what_another_try_ends_with_again(error: OSError) -> None:
    assert is_final(error)
    check_final(error, "1.jpg")


@pytest.mark.parametrize(
    "number",
    [
        *(errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.ECONNRESET, errno.EHOSTDOWN),
        *(errno.EMFILE, errno.ENOMEM, errno.EAGAIN, None),
    ],
)
def test_what_may_pass_names_file_reason_and_remedy(number: int | None) -> None:
    error = OSError("no answer") if number is None else OSError(number, "no answer", "1.jpg")
    with pytest.raises(TransientError) as raised:
        check_final(error, "a/1.jpg")
    assert str(raised.value) == ("cannot read a/1.jpg: no answer; run the same command again")
    assert not is_final(raised.value)
    with pytest.raises(TransientError) as again:
        check_final(raised.value, "other")
    assert again.value is raised.value
