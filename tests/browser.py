"""Chromium without a window, driven over two pipes by its DevTools protocol.

https://chromedevtools.github.io/devtools-protocol/
"""

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from tests.needs import skip_unless

_FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--no-first-run",
    "--remote-debugging-pipe",
    # Closed: whatever a page asks of the network fails at once.
    "--proxy-server=http://127.0.0.1:9",
]

# Seconds that it may take for an answer.
_PATIENCE = 60


class Page:
    """One tab.

    Attributes:
        complaints: errors and warnings of the console, and exceptions.
        requests: requested addresses, other than data URIs.
    """

    def __init__(self, commands: BinaryIO, answers: int) -> None:
        self._commands = commands
        self._answers = answers
        self._read = b""
        self._number = 0
        self._session: str | None = None
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self._loaded: set[str] = set()
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Page.setLifecycleEventsEnabled", enabled=True)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Calls a method of the protocol and gives its result."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        self._commands.write(json.dumps(message).encode() + b"\0")
        self._commands.flush()
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return dict(answer["result"])

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._read:
            is_there, _, _ = select.select([self._answers], [], [], _PATIENCE)
            assert is_there, "Chromium does not answer"
            more = os.read(self._answers, 1 << 16)
            assert more, "Chromium has gone"
            self._read += more
        data, _, self._read = self._read.partition(b"\0")
        message: dict[str, Any] = json.loads(data)
        if "method" in message:
            self._note(message["method"], message["params"])
        return message

    def _note(self, event: str, params: dict[str, Any]) -> None:
        if event == "Page.lifecycleEvent" and params["name"] == "load":
            self._loaded.add(params["loaderId"])
        if event == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(params["exceptionDetails"]))
        elif event == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.complaints.append(json.dumps(params["args"]))
        elif event == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(json.dumps(params["entry"]))
        elif event == "Network.requestWillBeSent":
            url = params["request"]["url"]
            if not url.startswith("data:"):
                self.requests.append(url)

    def open(self, path: Path, *, width: int = 1200, height: int = 900, dark: bool = False) -> None:
        """Loads a file in a window of a size, and waits until it is there."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        loader = self.call("Page.navigate", url=path.resolve().as_uri())["loaderId"]
        while loader not in self._loaded:
            self._next()

    def value(self, expression: str) -> Any:
        """What an expression of JavaScript is."""
        done = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def type_into(self, selector: str, text: str) -> None:
        """Replaces the text of an input by typing."""
        self.value(f"document.querySelector({json.dumps(selector)}).select()")
        if text:
            self.call("Input.insertText", text=text)
        else:
            self.press("Backspace", 8)

    def press(self, key: str, code: int, text: str = "") -> None:
        """Presses and releases a key."""
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, text=text
            )

    def screenshot(self, path: Path, *, height: int | None = None, scale: float = 1) -> None:
        """Saves what the page looks like, from its top, as a PNG.

        Args:
            path: the file.
            height: in CSS pixels; None for all of the page.
            scale: pixels of the file for one of CSS.
        """
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": height or size["height"]}
        shot = self.call(
            "Page.captureScreenshot", captureBeyondViewport=True, clip={**clip, "scale": scale}
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(shot["data"]))


@contextlib.contextmanager
def open_page() -> Iterator[Page]:
    """A tab of a Chromium of its own; skips the test where there is none."""
    found = shutil.which("chromium") or shutil.which("google-chrome")
    skip_unless(found, "Chromium is not installed: apt-get install chromium fonts-dejavu-core")
    child_reads, commands = os.pipe()
    answers, child_writes = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        # The protocol is spoken on the descriptors 3 and 4.
        script = f'exec "$@" 3<&{child_reads} 4>&{child_writes}'
        browser = subprocess.Popen(
            ["bash", "-c", script, "bash", str(found), *_FLAGS, f"--user-data-dir={profile}"],
            pass_fds=(child_reads, child_writes),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(child_reads)
        os.close(child_writes)
        try:
            with os.fdopen(commands, "wb") as writer:
                yield Page(writer, answers)
        finally:
            os.close(answers)
            browser.terminate()
            browser.wait()
