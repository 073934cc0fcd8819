"""Stands in front of fake-gcs-server: counts the requests, and makes some slow or fail.

It makes up for gaps of fake-gcs-server: it checks preconditions on generations (not in batches),
lets the last part of an upload be repeated, takes batches whose parts have no `Content-ID`, and
lists at most 1,000 names a page.

    python -m tests.servers.gcs_proxy PORT UPSTREAM [--stop_too PID]

`/_control` answers GET with what was asked so far, takes settings with PUT (`get_ms`, `other_ms`,
`page`, `faults`, `seed`; what is not named stays) and forgets everything with DELETE.
"""

import argparse
import asyncio
import base64
import contextlib
import os
import random
import re
import signal
import sys
from collections import Counter
from typing import Any
from urllib.parse import quote, urlsplit

from aiohttp import ClientSession, TCPConnector, web
from yarl import URL

from tests.servers.gcs_faults import Change, Fault
from tests.servers.gcs_requests import (
    Asked,
    parameters_of,
    read_request,
    with_content_ids,
    with_page,
)

LARGEST_BODY = 1 << 30
LARGEST_PAGE = 1000
OF_ONE_HOP = {"connection", "keep-alive", "transfer-encoding", "host", "content-length"}
# aiohttp must add none of its own: Accept-Encoding decides how an object is sent.
ADDED_BY_AIOHTTP = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")

CONDITION = re.compile("if(?P<source>Source)?Generation(?P<other>Not)?Match")
LAST_PART = re.compile(r"bytes (?:\*|\d+-(?P<end>\d+))/(?P<total>\d+)")
BATCHED = re.compile(rb"^([A-Z]+) (\S+) HTTP/1\.1\r?$", re.MULTILINE)


def decides(request: web.Request) -> bool:
    """Whether a request takes effect; of a resumable upload in parts, the last one does."""
    content_range = request.headers.get("Content-Range")
    found = LAST_PART.fullmatch(content_range or "")
    if found is None:
        return content_range is None
    return found["end"] is None or int(found["end"]) + 1 == int(found["total"])


class Proxy:
    """Passes requests on, counts them and applies the settings."""

    def __init__(self, upstream: str, session: ClientSession) -> None:
        self._upstream = upstream
        self._session = session
        self._uploads: dict[str, Asked] = {}
        self._finished: dict[str, Any] = {}
        self._writing = asyncio.Lock()
        self._reset()

    def _reset(self) -> None:
        self._numbers = {"get_ms": 0, "other_ms": 0, "page": LARGEST_PAGE, "seed": 0}
        self._faults: list[Fault] = []
        self._changes: list[Change] = []
        self._counts: Counter[str] = Counter()
        self._media_gets: Counter[str] = Counter()
        self._repeats: Counter[tuple[str, str, str]] = Counter()
        self._log: list[tuple[str, str]] = []

    async def control(self, request: web.Request) -> web.Response:
        """Answers `/_control`."""
        if request.method == "DELETE":
            self._reset()
        elif request.method == "PUT":
            try:
                self._set(await request.json())
            except (TypeError, ValueError, re.error) as problem:
                return web.Response(status=400, text=str(problem))
        asked = {"counts": self._counts, "media_gets": self._media_gets, "log": self._log}
        return web.json_response(asked)

    def _set(self, settings: dict[str, Any]) -> None:
        unknown = settings.keys() - self._numbers.keys() - {"faults"}
        if unknown:
            raise ValueError(f"unknown settings: {sorted(unknown)}")
        rules = settings.pop("faults", None)
        if rules is not None:
            self._changes = [Change(**rule) for rule in rules if "before_media_of" in rule]
            self._faults = [Fault(**rule) for rule in rules if "before_media_of" not in rule]
            self._repeats.clear()
        self._numbers |= settings

    async def handle(self, request: web.Request) -> web.Response:
        """Answers everything else."""
        body = await request.read()
        asked = read_request(request.method, request.raw_path, body)
        upload_id = parameters_of(asked.target).get("upload_id", "")
        opening = self._uploads.get(upload_id, asked)
        asked = asked._replace(object=opening.object)
        self._record(asked, body)
        fault = self._fault_of(asked)
        await asyncio.sleep(self._numbers["get_ms" if asked.method == "GET" else "other_ms"] / 1000)
        if fault and not (fault.late or fault.damage):
            return self._fail(fault, asked, request)
        if asked.kind == "media":
            await self._change(asked)
        async with self._writing if asked.method != "GET" else contextlib.nullcontext():
            if upload_id in self._finished:
                return web.json_response(body=self._finished[upload_id])
            unmet = await self._unmet(opening) if decides(request) else None
            response = unmet.answer(asked) if unmet else await self._forward(request, body, asked)
        if upload_id and response.status == 200:
            self._finished[upload_id] = response.body
        if opened := parameters_of(response.headers.get("Location", "")).get("upload_id"):
            self._uploads[opened] = asked
        if fault and fault.damage:
            self._counts[f"fault damage {asked.method} {asked.kind}"] += 1
            assert isinstance(response.body, bytes)
            response.body = bytes([response.body[0] ^ 1]) + response.body[1:]
            return response
        return self._fail(fault, asked, request) if fault else response

    def _record(self, asked: Asked, body: bytes) -> None:
        self._counts[f"{asked.method} {asked.kind}"] += 1
        self._log.append((asked.method, asked.target))
        if asked.kind == "media":
            self._media_gets[asked.object.partition("/")[2]] += 1
        if asked.kind == "batch":
            for method, target in BATCHED.findall(body):
                path = urlsplit(target.decode())._replace(scheme="", netloc="").geturl()
                part = read_request(f"BATCH {method.decode()}", path, b"")
                self._counts[f"{part.method} {part.kind}"] += 1
                self._log.append((part.method, part.target))

    def _fault_of(self, asked: Asked) -> Fault | None:
        same = (asked.method, asked.kind, asked.object)
        self._repeats[same] += 1
        for at, fault in enumerate(self._faults):
            fate = (self._numbers["seed"], at, same, self._repeats[same])
            draw = random.Random(repr(fate)).random()
            if fault.fits(asked) and draw < fault.p:
                if fault.count is not None:
                    fault.count -= 1
                return fault
        return None

    def _fail(self, fault: Fault, asked: Asked, request: web.Request) -> web.Response:
        what = "drop" if fault.drop else fault.status
        self._counts[f"fault {what} {asked.method} {asked.kind}"] += 1
        if fault.drop and request.transport:
            request.transport.close()
        return fault.answer(asked)

    async def _change(self, asked: Asked) -> None:
        due = (each for each in self._changes if re.fullmatch(each.before_media_of, asked.object))
        change = next(due, None)
        if change is None:
            return
        self._changes.remove(change)
        bucket, _, name = asked.object.partition("/")
        if change.delete:
            done = self._session.delete(self._url_of(asked.object))
        else:
            target = f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name={quote(name, safe='')}"
            url = URL(self._upstream + target, encoded=True)
            done = self._session.post(url, data=base64.b64decode(change.content))
        async with done as response:
            response.raise_for_status()

    async def _unmet(self, asked: Asked) -> Fault | None:
        """The answer to a request whose condition on a generation does not hold.

        fake-gcs-server checks those of multipart uploads alone. Without an object, a write meets
        generation 0, and all else is left to end with 404.
        """
        for name, value in parameters_of(asked.target).items():
            if not (found := CONDITION.fullmatch(name)) or "/" not in asked.object:
                continue
            written = asked.destination or asked.object
            generation = await self._generation_of(asked.object if found["source"] else written)
            if generation == 0 and (found["source"] or asked.method not in ("POST", "PUT")):
                continue
            if (generation == int(value)) == bool(found["other"]):
                return Fault(status=304 if found["other"] and asked.method == "GET" else 412)
        return None

    async def _generation_of(self, name: str) -> int:
        async with self._session.get(self._url_of(name)) as response:
            return int((await response.json())["generation"]) if response.status == 200 else 0

    def _url_of(self, name: str) -> URL:
        """The address of `<bucket>/<name>` upstream."""
        bucket, _, name = name.partition("/")
        target = f"/storage/v1/b/{bucket}/o/{quote(name, safe='')}"
        return URL(self._upstream + target, encoded=True)

    async def _forward(self, request: web.Request, body: bytes, asked: Asked) -> web.Response:
        headers = [(k, v) for k, v in request.headers.items() if k.lower() not in OF_ONE_HOP]
        headers.append(("Host", request.headers.get("Host", "")))
        if asked.kind == "batch":
            body = with_content_ids(body, request.headers.get("Content-Type", ""))
        target = asked.target
        if asked.kind == "list":
            target = with_page(target, self._numbers["page"])
        async with self._session.request(
            request.method,
            URL(self._upstream + target, encoded=True),
            data=body,
            headers=headers,
            skip_auto_headers=ADDED_BY_AIOHTTP,
            allow_redirects=False,
        ) as answer:
            kept = [(k, v) for k, v in answer.headers.items() if k.lower() not in OF_ONE_HOP]
            return web.Response(status=answer.status, body=await answer.read(), headers=kept)


async def serve(port: int, upstream: str, stop_too: int | None) -> None:
    """Serves until stopped; with `stop_too`, until standard input ends, which stops both."""
    orphaned = asyncio.Event()
    if stop_too is not None:
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), orphaned.set)
    async with ClientSession(connector=TCPConnector(limit=0), auto_decompress=False) as session:
        proxy = Proxy(upstream, session)
        application = web.Application(client_max_size=LARGEST_BODY)
        application.router.add_route("*", "/_control", proxy.control)
        application.router.add_route("*", "/{path:(?s:.*)}", proxy.handle)
        runner = web.AppRunner(application, access_log=None, auto_decompress=False)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        await orphaned.wait()
        await runner.cleanup()
    if stop_too is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(stop_too, signal.SIGTERM)


def main(words: list[str]) -> None:
    """Reads the command line and serves."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("port", type=int)
    parser.add_argument("upstream")
    parser.add_argument("--stop_too", type=int, metavar="PID")
    given = parser.parse_args(words)
    asyncio.run(serve(given.port, given.upstream.rstrip("/"), given.stop_too))


if __name__ == "__main__":
    main(sys.argv[1:])
