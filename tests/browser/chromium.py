"""A headless Chromium, driven through a pipe: no library, no port, no network."""

import base64
import itertools
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
_PATIENCE_S = 60


def program() -> str | None:
    """Path of the browser, or None."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Browser:
    """One browser with one page; messages of the page and its requests are kept.

    Attributes:
        problems: errors and warnings that the page wrote to its console, and uncaught ones.
        requests: every address asked for.
    """

    def __init__(self, inbox: int, outbox: int) -> None:
        self._inbox, self._outbox = inbox, outbox
        self._rest = b""
        self._ids = itertools.count(1)
        self._session: str | None = None
        self.problems: list[str] = []
        self.requests: list[str] = []

    def start(self) -> None:
        """Open the page."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        found = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = found["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        number = next(self._ids)
        message = {"id": number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._outbox, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]

    def open(self, path: Path, width: int = 1280, height: int = 900) -> None:
        """Load a report and wait until it is drawn."""
        self.problems.clear()
        self.requests.clear()
        mobile = width < 700
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=mobile,
        )
        self.call("Page.navigate", url=path.resolve().as_uri())
        ready = "document.documentElement?.dataset.ready"
        limit = time.monotonic() + _PATIENCE_S
        while (state := self.run(ready)) is None:
            assert time.monotonic() < limit, (path, self.problems)
            time.sleep(0.05)
        assert state == "yes", state

    def run(self, script: str) -> Any:
        """Value of an expression; promises are awaited."""
        answer = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        """Press a key where the focus is."""
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        code = {"Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowRight": 39}.get(key, 0)
        for kind in ("keyDown", "keyUp"):
            more = {"text": text} if text and kind == "keyDown" else {}
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **more
            )

    def click(self, x: float, y: float) -> None:
        """Click a place of the window."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def picture(self, path: Path, *, whole: bool = True) -> None:
        """Write a picture of the page."""
        answer = self.call(
            "Page.captureScreenshot", captureBeyondViewport=whole, **self._clip(whole)
        )
        path.write_bytes(base64.b64decode(answer["data"]))

    def _clip(self, whole: bool) -> dict[str, Any]:
        if not whole:
            return {}
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        return {
            "clip": {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        }

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            piece = os.read(self._inbox, 1 << 20)
            assert piece, "the browser has gone"
            self._rest += piece
        line, self._rest = self._rest.split(b"\0", 1)
        message: dict[str, Any] = json.loads(line)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, method: str, found: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(found["exceptionDetails"])[:500])
        elif method == "Runtime.consoleAPICalled" and found["type"] in {
            "error",
            "warning",
            "assert",
        }:
            self.problems.append(json.dumps(found["args"])[:500])
        elif method == "Log.entryAdded" and found["entry"]["level"] in {"error", "warning"}:
            self.problems.append(json.dumps(found["entry"])[:500])
        elif method == "Network.requestWillBeSent":
            self.requests.append(found["request"]["url"][:200])


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """Start a browser whose profile lies in an empty folder; it ends with the block."""
    their_in, our_out = os.pipe()
    our_in, their_out = os.pipe()
    command = [program() or "", *_FLAGS, f"--user-data-dir={folder}", "about:blank"]
    # The browser reads commands from descriptor 3 and answers on 4.
    script = f'exec "$0" "$@" 3<&{their_in} 4>&{their_out}'
    process = subprocess.Popen(
        ["/bin/bash", "-c", script, *command],
        pass_fds=(their_in, their_out),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(their_in)
    os.close(their_out)
    try:
        found = Browser(our_in, our_out)
        found.start()
        yield found
        found.call("Page.disable")
    finally:
        os.close(our_out)
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=10)
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(our_in)
