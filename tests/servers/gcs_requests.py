"""Describes requests to Google Cloud Storage."""

import contextlib
import itertools
import json
import re
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote, urlencode

LARGEST_METADATA = 1 << 16
ADDRESS = re.compile(
    r"/(?:download/|upload/)?storage/v1/b(?:/(?P<bucket>[^/]+)(?P<objects>/o(?:/(?P<name>.+?)"
    r"(?:/(?P<action>copyTo|rewriteTo|compose)(?:/b/(?P<to_bucket>[^/]+)/o/(?P<to_name>.+?))?)?"
    r")?)?)?/?"
)
ACTIONS = {"copyTo": "copy", "rewriteTo": "rewrite", "compose": "compose"}


class Asked(NamedTuple):
    """One request, in the words of GCS.

    Attributes:
        kind: `media`, `list`, `object`, `bucket`, `upload`, `batch`, `copy`, `rewrite`, `compose`
            or `other`.
        object: `<bucket>/<name>` decoded, of a copy its source; only the bucket, or nothing, for
            requests without name.
        target: Path and query as sent.
        destination: `<bucket>/<name>` that a copy makes.
    """

    method: str
    kind: str
    object: str
    target: str
    destination: str = ""


def parameters_of(target: str) -> dict[str, str]:
    """What the query of a path says."""
    return dict(parse_qsl(target.partition("?")[2]))


def read_request(method: str, target: str, body: bytes) -> Asked:
    """Describes a request."""
    path = target.partition("?")[0]
    found = ADDRESS.fullmatch(path)
    if not found:
        return Asked(method, "batch" if path.startswith("/batch/") else "other", "", target)
    parameters = parameters_of(target)
    name = unquote(found["name"] or "")
    if path.startswith("/upload/"):
        kind, name = "upload", parameters.get("name") or uploaded_name(body)
    elif found["action"]:
        kind = ACTIONS[found["action"]]
    elif name:
        kind = "media" if parameters.get("alt") == "media" else "object"
    else:
        kind = "list" if found["objects"] else "bucket"
    bucket = unquote(found["bucket"] or "")
    destination = unquote(f"{found['to_bucket']}/{found['to_name']}") if found["to_name"] else ""
    return Asked(method, kind, f"{bucket}/{name}" if name else bucket, target, destination)


def with_page(target: str, most: int) -> str:
    """A listing whose pages have no more names than the service gives."""
    parameters = parameters_of(target)
    asked = int(parameters.get("maxResults", most))
    parameters["maxResults"] = str(min(asked, most))
    return f"{target.partition('?')[0]}?{urlencode(parameters)}"


def uploaded_name(body: bytes) -> str:
    """The name in the JSON that starts an upload, itself or as the first part; or nothing."""
    with contextlib.suppress(ValueError):
        text = body[body.index(b"{") :][:LARGEST_METADATA].decode("utf-8", "replace")
        metadata, _ = json.JSONDecoder().raw_decode(text)
        return str(metadata.get("name", ""))
    return ""


def with_content_ids(body: bytes, content_type: str) -> bytes:
    """Numbers the parts of a batch, for fake-gcs-server drops a part without a `Content-ID`."""
    boundary = re.search(r'boundary="?([^";]+)', content_type)
    if not boundary or b"content-id:" in body.lower():
        return body
    opening = re.compile(rb"^--" + re.escape(boundary[1].encode()) + rb"(\r?\n)", re.MULTILINE)
    numbers = itertools.count(1)
    return opening.sub(
        lambda found: found[0] + b"Content-ID: <b%d>" % next(numbers) + found[1], body
    )
