"""No credential, token or signed address gets into messages, logs or files of a dataset."""

import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.cloud import storage
from google.oauth2.credentials import Credentials

from tests.conftest import forget_client
from tests.marks import cases, rest_slow
from tests.pipeline.commands import convert, plan, run
from tests.servers.gcs import CREDENTIALS, GcsServer
from transforms.storage import gcs_requests

SECRETS = {
    "token": "ya29.t0ken-of-the-user",
    "refresh_token": "1//refresh-t0ken-of-the-user",
    "client_secret": "GOCSPX-cl1ent-secret",
}
SIGNATURE = "5ignature0f1234567890abcdef"
OUTPUT = "gs://datasets/flowers"
FLAGS: dict[str, Any] = {"images": "gs://photos/in/*/*.jpg", "output": OUTPUT}

ADDRESSES = {
    "google": "https://storage.googleapis.com/photos/in/1.jpg?X-Goog-Algorithm=GOOG4-RSA-SHA256"
    "&X-Goog-Credential=me&X-Goog-Expires=900&X-Goog-Signature={}",
    "google_v2": "https://storage.googleapis.com/photos/1.jpg?GoogleAccessId=me&Signature={}",
    "bucket": "gs://photos/in/1.jpg?X-Goog-Signature={}",
    "amazon": "https://photos.s3.amazonaws.com/1.jpg?X-Amz-Signature={}&X-Amz-Expires=900",
    "amazon_key": "s3://AKIA0123456789:{}@photos/1.jpg",
    "azure": "https://me.blob.core.windows.net/photos/1.jpg?sv=2022-11-02&sp=r&sig={}",
    "password": "http://me:{}@host/1.jpg",
    "unknown": "https://host/1.jpg?whatever={}",
    "path": "photos/1.jpg?X-Goog-Signature={}",
    "fragment": "https://host/1.jpg#token={}",
    "session": "https://host/in/1.jpg;jsessionid={}",
    "sas": "az://photos/1.jpg?sas={}",
    "user": "https://{}@host/1.jpg",
}


@pytest.fixture
def buckets(gcs: GcsServer, photos: Path, tmp_path: Path, monkeypatch: Any) -> Iterator[GcsServer]:
    """Photos and an empty bucket, requested with the credentials of a file.

    With `STORAGE_EMULATOR_HOST`, Google's client would send none.
    """
    gcs.make_bucket("photos")
    gcs.make_bucket("datasets")
    for path in sorted(photos.glob("*/*.jpg")):
        gcs.put("photos", f"in/{path.parent.name}/{path.name}", path.read_bytes())
    file = tmp_path / "credentials.json"
    file.write_text(json.dumps({**CREDENTIALS, **SECRETS}))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
    credentials = Credentials.from_authorized_user_file(str(file))
    credentials.token = SECRETS["token"]
    client = functools.partial(storage.Client, credentials=credentials)
    monkeypatch.setattr(storage, "Client", client)
    monkeypatch.setattr(gcs_requests, "RETRY_SECONDS", 1)
    forget_client()
    yield gcs
    forget_client()


@pytest.mark.usefixtures("dropped_sockets")
@cases(
    *rest_slow(
        [
            ({}, 0),
            ({"method": "PUT", "kind": "upload", "object": ".*tfrecord.*", "status": 403}, 1),
            ({"kind": "media", "object": ".*/cat-0.jpg", "status": 401}, 1),
            ({"kind": "media", "object": ".*/cat-0.jpg", "status": 403}, 0),
            ({"kind": "media", "object": ".*/cat-0.jpg", "drop": True}, 1),
            ({"kind": "media", "object": "photos/.*", "status": 403}, 3),
            ({"kind": "list", "object": "photos", "status": 401}, 1),
            ({"kind": "list", "object": "photos", "drop": True}, 1),
            ({"kind": "upload", "object": ".*tfrecord.*", "status": 403}, 1),
        ],
        2,
    )
)
def test_credentials_stay_where_they_are(
    fault: dict[str, Any], code: int, buckets: GcsServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    # It logs the addresses of uploads, for those who ask for it.
    caplog.set_level("INFO", "urllib3")
    # As without -v; what -v prints is hidden by its handler.
    caplog.set_level("INFO", "pipeline")
    buckets.set_faults([fault] if fault else [])
    ran = convert(**FLAGS, max_rejected="10%")
    buckets.set_faults([])
    assert ran.code == code, ran.err
    assert code == 0 or ran.error()
    # Those that are sent, else this would show nothing.
    assert gcs_requests.client()._credentials.token == SECRETS["token"]
    files = [buckets.get("datasets", name) for name in buckets.names("datasets")]
    said = ran.out + ran.err + caplog.text + b"\n".join(files).decode(errors="replace")
    assert len(said) > 100
    for secret in [*SECRETS.values(), "Bearer ", "upload_id="]:
        assert secret not in said
    if fault.get("method") == "PUT":
        # Who has the address of an upload can write to it.
        assert "PUT" in ran.err and "?[hidden]" in ran.err


FLAGS_WITH_PATHS = ["labels", "class_names", "output", "model", "model_weights"]


@pytest.mark.parametrize(
    ("flag", "kind"),
    [*(("images", kind) for kind in ADDRESSES), *((flag, "google") for flag in FLAGS_WITH_PATHS)],
)
def test_a_signed_address_is_refused_and_not_repeated(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, flag: str, kind: str
) -> None:
    """Whoever reads the manifest, which names all inputs, could act as the signer."""
    caplog.set_level("DEBUG")
    flags = {"images": "photos/*.jpg", "output": tmp_path / "out"}
    flags[flag] = ADDRESSES[kind].format(SIGNATURE)
    for command in (convert, plan):
        ran = command(**flags)
        line = ran.error()
        assert ran.code == 2 and f"--{flag}" in line and "1.jpg'" in line
        assert "credentials come from the environment" in line
        assert SIGNATURE not in line + ran.out + caplog.text
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["report", "show", "verify"])
@pytest.mark.parametrize("kind", ADDRESSES)
def test_no_command_takes_one(command: str, kind: str) -> None:
    ran = run(command, ADDRESSES[kind].format(SIGNATURE))
    assert ran.code == 2 and SIGNATURE not in ran.error()


@pytest.mark.parametrize("max_rejected", rest_slow(["100%", "0"]))
def test_signed_addresses_in_a_label_file_do_not_get_out(
    photos: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, max_rejected: str
) -> None:
    """They name no image here; messages about them hide the signature."""
    caplog.set_level("DEBUG")
    rows = "".join(f'"{address.format(SIGNATURE)}",cat\n' for address in ADDRESSES.values())
    rows += f'"{ADDRESSES["google"].format(SIGNATURE)}"\n'
    (tmp_path / "labels.csv").write_text(f"id,label\n{rows}cat-0,cat\n")
    inputs = {"images": f"{photos}/cat/*.jpg", "labels": tmp_path / "labels.csv"}
    ran = convert(output=tmp_path / "out", max_rejected=max_rejected, **inputs)
    assert ran.code == (0 if max_rejected == "100%" else 3), ran.err
    written = [path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()]
    said = b"\n".join(written).decode(errors="replace") + ran.out + ran.err + caplog.text
    assert "row_without_image" in said and "malformed_row" in said
    # A row's key is the name at the end of its address.
    secret_names = sum("{}" in address.rpartition("/")[2] for address in ADDRESSES.values())
    assert said.count("[hidden]") >= secret_names >= 10
    if ran.code == 0:
        page = (tmp_path / "out" / "report.html").read_text("utf-8")
        assert page.count("[hidden]") >= secret_names
    # Without its host, nobody can know that a parameter of its own making is a secret.
    assert SIGNATURE not in said.replace(f"1.jpg?whatever={SIGNATURE}", "")


def test_the_message_about_such_a_label_file_is_without_them(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text(f"id,label\n{ADDRESSES['bucket'].format(SIGNATURE)},cat\n")
    inputs = {"images": f"{photos}/cat/*.jpg", "labels": tmp_path / "labels.csv"}
    ran = convert(output=tmp_path / "out", **inputs)
    assert ran.code == 2 and "no row of --labels" in ran.error()
    assert SIGNATURE[:8] not in ran.error()
