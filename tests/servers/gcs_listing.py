"""A bucket of a million objects on the loopback interface: names are computed, not stored.

`python -m tests.servers.gcs_listing COUNT FOLDERS MS` prints its port. It answers listings as
Google Cloud Storage does, each after `MS` milliseconds, and a request for the content of any object
with the same small image. It serves until its standard input ends, and prints what it counted for
each line of it.
"""

import asyncio
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from aiohttp import web

from tests.images import picture, saved
from tests.servers.gcs import CLOSED_PORT, CREDENTIALS, HOST, PROJECT, ROOT
from tests.servers.gcs_requests import Asked, parameters_of, read_request
from tests.servers.listed_names import Names, in_folders

BUCKET = "many"
PAGE = 1000
FOLDERS = 10
GENERATION = 1

# A client may put a number after the address, to be told from others.
_LISTER = re.compile(r"(?:/(\d+))?(/.*)")


class Counted(NamedTuple):
    """What a server counted since it started.

    Attributes:
        pages: listings of more than one name.
        probes: listings of one name, which cut a listing into ranges.
        reads: contents.
        names: that all listings named.
        widest: requests that were under way at the same time.
        widest_pages: of these, listings of more than one name.
        listers: pages by those who asked for them: the number before the path of their requests.
    """

    pages: int = 0
    probes: int = 0
    reads: int = 0
    names: int = 0
    widest: int = 0
    widest_pages: int = 0
    listers: Mapping[str, int] = MappingProxyType({})


class ListingServer(NamedTuple):
    """A running server.

    Attributes:
        port: it listens on.
        process: it is.
        folder: it may write in.
    """

    port: int
    process: subprocess.Popen[str]
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to use this server and to reach no other."""
        credentials = self.folder / "listing_credentials.json"
        credentials.write_text(json.dumps(CREDENTIALS), "utf-8")
        return {
            "STORAGE_EMULATOR_HOST": f"http://{HOST}:{self.port}",
            "GOOGLE_APPLICATION_CREDENTIALS": str(credentials),
            "GOOGLE_CLOUD_PROJECT": PROJECT,
            "NO_GCE_CHECK": "true",
            "HTTPS_PROXY": CLOSED_PORT,
            "NO_PROXY": f"{HOST},localhost",
            "no_proxy": f"{HOST},localhost",
        }

    def counted(self) -> Counted:
        """The counts since the start."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return Counted(**json.loads(self.process.stdout.readline()))


@contextmanager
def serve_names(
    count: int, folder: Path, *, folders: int = FOLDERS, latency_ms: int = 0
) -> Iterator[ListingServer]:
    """Runs a server in a process of its own.

    Args:
        count: objects of the bucket `many`, in `photos/c000000/000000000.jpg` and so on.
        folder: it may write in.
        folders: classes.
        latency_ms: before each answer.
    """
    words = [str(count), str(folders), str(latency_ms)]
    with subprocess.Popen(
        [sys.executable, "-m", "tests.servers.gcs_listing", *words],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin
        assert process.stdout
        try:
            yield ListingServer(int(process.stdout.readline()), process, folder)
        finally:
            process.stdin.close()


class _Bucket:
    """Answers requests, and counts them."""

    def __init__(self, names: Names, seconds: float) -> None:
        self._names = names
        self._seconds = seconds
        self._counts: Counter[str] = Counter()
        self._under_way: Counter[bool] = Counter()
        self._listers: Counter[str] = Counter()
        self._image = saved(picture("RGB", 16, 12), "JPEG")

    def counted(self) -> Counted:
        """The counts."""
        return Counted(**self._counts, listers=self._listers)

    async def handle(self, request: web.Request) -> web.Response:
        """Answers one request after a while."""
        lister, path = _LISTER.fullmatch(request.raw_path).groups()  # type: ignore[union-attr]
        asked = read_request(request.method, path, b"")
        is_page = asked.kind == "list" and parameters_of(asked.target).get("maxResults") != "1"
        now, counts = self._under_way, self._counts
        now[is_page] += 1
        counts["widest"] = max(counts["widest"], now.total())
        counts["widest_pages"] = max(counts["widest_pages"], now[True])
        if is_page:
            self._listers[lister or ""] += 1
        try:
            await asyncio.sleep(self._seconds)
            return self._answer(asked)
        finally:
            now[is_page] -= 1

    def _answer(self, asked: Asked) -> web.Response:
        if asked.kind == "list" and asked.object == BUCKET:
            return self._list(parameters_of(asked.target))
        name = asked.object.removeprefix(f"{BUCKET}/")
        at = self._names.at(name)
        if asked.kind == "media" and at < self._names.count and self._names.name(at) == name:
            self._counts["reads"] += 1
            return web.Response(body=self._image)
        return web.json_response({"error": {"code": 404, "message": "Not Found"}}, status=404)

    def _list(self, asked: dict[str, str]) -> web.Response:
        names, prefix = self._names, asked.get("prefix", "")
        start = names.at(max(prefix, asked.get("startOffset", "")))
        end = names.at(asked["endOffset"]) if "endOffset" in asked else names.count
        if prefix:
            end = min(end, names.at(f"{prefix}\U0010ffff"))
        at = max(start, int(asked.get("pageToken", "0")))
        most = min(PAGE, int(asked.get("maxResults", PAGE)))
        listed = [names.name(number) for number in range(at, min(end, at + most))]
        self._counts["probes" if most == 1 else "pages"] += 1
        self._counts["names"] += len(listed)
        size, generation = str(len(self._image)), str(GENERATION)
        answer: dict[str, Any] = {
            "items": [{"name": name, "size": size, "generation": generation} for name in listed]
        }
        if at + len(listed) < end:
            answer["nextPageToken"] = str(at + len(listed))
        return web.json_response(answer)


async def _serve(names: Names, seconds: float) -> None:
    ended, loop = asyncio.Event(), asyncio.get_running_loop()
    bucket = _Bucket(names, seconds)

    def answer() -> None:
        if sys.stdin.readline():
            print(json.dumps(bucket.counted()._asdict()), flush=True)
        else:
            ended.set()

    application = web.Application()
    application.router.add_route("*", "/{path:(?s:.*)}", bucket.handle)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, HOST, 0)
    await site.start()
    assert runner.addresses
    print(runner.addresses[0][1], flush=True)
    loop.add_reader(sys.stdin.fileno(), answer)
    await ended.wait()
    await runner.cleanup()


if __name__ == "__main__":
    count, folders, milliseconds = map(int, sys.argv[1:])
    asyncio.run(_serve(in_folders(count, folders), milliseconds / 1000))
