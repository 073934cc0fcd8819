"""What a test may ask `gcs_proxy` to do: to answer with errors, and to change objects."""

import base64
import re
from dataclasses import dataclass

from aiohttp import web

from tests.servers.gcs_requests import Asked

# Reason and message as GCS words them.
ERRORS = {
    400: ("invalid", "Bad Request"),
    403: ("forbidden", "Permission 'storage.objects.get' denied on resource."),
    404: ("notFound", "No such object: {object}"),
    412: ("conditionNotMet", "At least one of the pre-conditions you specified did not hold."),
    429: ("rateLimitExceeded", "The rate of requests exceeds the rate limit."),
    503: ("backendError", "We encountered an internal error. Please try again."),
}


@dataclass
class Fault:
    """Requests to answer with an error, all those that fit what is given.

    Attributes:
        method: `GET`, `POST` and so on.
        kind: As `Asked.kind`.
        object: Expression for the whole of `<bucket>/<name>`.
        match: Expression for some part of path and query as sent.
        status: The answer.
        message: Its text; without one, that of GCS for the status.
        retry_after: Seconds, in the header of that name.
        drop: Closes the connection instead of answering.
        late: The request takes effect first; only its answer is lost.
        damage: The request takes effect, and the first byte of its answer is another.
        p: Share of the requests, 0..1. The same request sent for the nth time has the same fate
            in each run, in whatever order requests arrive.
        count: How many requests at most.
    """

    method: str | None = None
    kind: str | None = None
    object: str | None = None
    match: str = ""
    status: int = 503
    message: str | None = None
    retry_after: int | None = None
    drop: bool = False
    late: bool = False
    damage: bool = False
    p: float = 1
    count: int | None = None

    def __post_init__(self) -> None:
        re.compile(self.match)
        re.compile(self.object or "")

    def fits(self, asked: Asked) -> bool:
        """Whether the request is one that may fail."""
        return (
            self.count != 0
            and self.method in (None, asked.method)
            and self.kind in (None, asked.kind)
            and (self.object is None or re.fullmatch(self.object, asked.object) is not None)
            and re.search(self.match, asked.target) is not None
        )

    def answer(self, asked: Asked) -> web.Response:
        """The error as GCS sends it: plain text for media, else JSON."""
        reason, text = ERRORS.get(self.status, ERRORS[503])
        message = self.message or text.format(object=asked.object)
        headers = {"Retry-After": str(self.retry_after)} if self.retry_after is not None else {}
        if asked.kind == "media":
            return web.Response(status=self.status, text=message, headers=headers)
        errors = [{"message": message, "domain": "global", "reason": reason}]
        error = {"code": self.status, "message": message, "errors": errors}
        return web.json_response({"error": error}, status=self.status, headers=headers)


@dataclass
class Change:
    """What happens to an object, once, just before its media is requested.

    Attributes:
        before_media_of: Expression for the whole of `<bucket>/<name>`.
        delete: Whether the object goes.
        content: Its new content in Base64, if it stays.
    """

    before_media_of: str
    delete: bool = False
    content: str = ""

    def __post_init__(self) -> None:
        re.compile(self.before_media_of)
        base64.b64decode(self.content, validate=True)
