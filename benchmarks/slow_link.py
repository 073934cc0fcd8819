"""A TCP link that delays data from clients: `python benchmarks/slow_link.py MS UPSTREAM`.

It prints the port it listens on, and for each line of its standard input how many HTTP requests
went through; it serves until that input ends. It only passes bytes on, so that next to nothing is
added to the work of the machine that is measured.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

_HOST = "127.0.0.1"
_REQUEST = b" HTTP/1.1\r\n"


class _Counter:
    requests = 0


class _Upstream(asyncio.Protocol):
    """Passes on the server's answers at once."""

    def __init__(self, client: asyncio.Transport) -> None:
        self._client = client

    def data_received(self, data: bytes) -> None:
        self._client.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._client.close()


class _Client(asyncio.Protocol):
    """Passes on a client's data after a delay, in order."""

    def __init__(self, seconds: float, upstream: int, counter: _Counter) -> None:
        self._seconds = seconds
        self._upstream = upstream
        self._counter = counter
        self._early: deque[bytes] = deque()
        self._server: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._connecting = asyncio.ensure_future(self._connect())

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        self._server, _ = await loop.create_connection(
            lambda: _Upstream(self._transport), _HOST, self._upstream
        )
        while self._early:
            self._server.write(self._early.popleft())

    def data_received(self, data: bytes) -> None:
        self._counter.requests += data.count(_REQUEST)
        asyncio.get_running_loop().call_later(self._seconds, self._deliver, data)

    def _deliver(self, data: bytes) -> None:
        if self._server is None:
            self._early.append(data)
        else:
            self._server.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._server is not None:
            self._server.close()


async def serve(milliseconds: int, upstream: int) -> None:
    """Serves until standard input ends."""
    counter, ended, loop = _Counter(), asyncio.Event(), asyncio.get_running_loop()

    def answer() -> None:
        if sys.stdin.readline():
            print(counter.requests, flush=True)
        else:
            ended.set()

    server = await loop.create_server(
        lambda: _Client(milliseconds / 1000, upstream, counter), _HOST, 0
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    loop.add_reader(sys.stdin.fileno(), answer)
    await ended.wait()
    server.close()


class Link(NamedTuple):
    """A running link: the port for clients, and how many requests it has passed on so far."""

    port: int
    requests: Callable[[], int]


@contextlib.contextmanager
def slow_link(milliseconds: int, upstream: int) -> Iterator[Link]:
    """Runs a link to a port of this machine in a process of its own."""
    command = [sys.executable, __file__, str(milliseconds), str(upstream)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        asked, answered = process.stdin, process.stdout
        assert asked
        assert answered

        def requests() -> int:
            asked.write("\n")
            asked.flush()
            return int(answered.readline())

        yield Link(int(answered.readline()), requests)
        asked.close()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), int(sys.argv[2])))
