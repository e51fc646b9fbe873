"""A Chromium whose memory use can be measured, driven through the DevTools protocol.

Playwright makes the page's process cache up to 100 MB of responses for its network inspection. This
module talks to the browser directly and leaves that off. Times are in seconds; timeouts are scaled
on slow machines.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import msgspec
from websockets.sync.client import ClientConnection, connect

from tests.support.e2e.slow_process import children_of
from tests.support.waiting import SCALE, poll

# No sandbox: tests run as root in containers. The other flags keep it off the network and keep
# background pages as fast as visible ones.
_FLAGS: Final = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-background-timer-throttling",
    "--disable-renderer-backgrounding",
    "--disable-backgrounding-occluded-windows",
    "--mute-audio",
    "--window-size=1280,800",
    "--remote-debugging-port=0",
)
_ANSWER_SECONDS: Final = 30.0
_MOST_ANSWER: Final = 64 << 20  # bytes


class PageGone(Exception):
    """DevTools answered with an error: usually the page has navigated away."""


class Footprint(msgspec.Struct, frozen=True, kw_only=True):
    """A page's memory after a garbage collection, in bytes.

    `script` is the JavaScript heap, `dom` the browser's own objects behind it, `buffers` the array
    buffers. `renderer` is the memory of the page's process, `browser` that of all browser processes
    (proportional set size). `nodes` and `listeners` are counts over all documents, including
    detached ones.
    """

    script: int
    dom: int
    buffers: int
    renderer: int
    browser: int
    documents: int
    nodes: int
    listeners: int

    @property
    def heap(self) -> int:
        """The memory that scripts can reach, in bytes."""
        return self.script + self.dom + self.buffers


class BarePage:
    """The one page of such a browser."""

    def __init__(self, socket: ClientConnection, browser: int) -> None:
        self._socket = socket
        self._browser = browser
        self._asked = 0
        self._session = ""

    def open(self, address: str, before: str) -> None:
        """Open an address; `before` runs before the first script of each document."""
        target = self._send("Target.createTarget", url="about:blank")["targetId"]
        attached = self._send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        self._send("Page.enable")
        self._send("Page.addScriptToEvaluateOnNewDocument", source=before)
        self._send("Page.navigate", url=address)

    def evaluate(self, script: str) -> object:
        """Evaluate an expression in the page, and return its value as JSON.

        Raises:
            PageGone: the page is navigating.
        """
        answer = self._send(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        value: object = answer["result"].get("value")
        return value

    def wait_for(self, script: str, seconds: float, what: str) -> None:
        """Poll until an expression is true, also while another page loads."""

        def holds() -> bool:
            with suppress(PageGone):
                return self.evaluate(script) is True
            return False

        poll(holds, within=seconds, what=what)

    def footprint(self) -> Footprint:
        """Collect the garbage of the page and its frames, and measure the memory in use."""
        self._send("HeapProfiler.enable")
        for _ in range(2):  # the first collection can make more objects unreachable
            self._send("HeapProfiler.collectGarbage")
        self._send("HeapProfiler.disable")
        usage = self._send("Runtime.getHeapUsage")
        counts = self._send("Memory.getDOMCounters")
        processes = {pid: _memory(pid) for pid in _descendants(self._browser)}
        return Footprint(
            script=int(usage["usedSize"]),
            dom=int(usage["embedderHeapUsedSize"]),
            buffers=int(usage["backingStorageSize"]),
            # The spare renderer for the next page is smaller.
            renderer=max(size for pid, size in processes.items() if _is_renderer(pid)),
            browser=sum(processes.values()),
            documents=counts["documents"],
            nodes=counts["nodes"],
            listeners=counts["jsEventListeners"],
        )

    # Any: what DevTools gets and answers has no static type.
    def _send(self, method: str, **options: Any) -> dict[str, Any]:
        self._asked += 1
        message = {"id": self._asked, "method": method, "params": options}
        if self._session:
            message["sessionId"] = self._session
        self._socket.send(json.dumps(message))
        deadline = time.monotonic() + _ANSWER_SECONDS * SCALE
        while True:
            answer = json.loads(self._socket.recv(max(0.0, deadline - time.monotonic())))
            if answer.get("id") != self._asked:
                continue  # an event
            if "error" in answer:
                raise PageGone(f"{method}: {answer['error']}")
            result: dict[str, Any] = answer["result"]
            return result


@contextmanager
def bare_chromium(folder: Path, address: str, before: str = "") -> Generator[BarePage]:
    """Run a Chromium with one page for the length of the block; its profile is in `folder`.

    `before` runs before the first script of each document.

    Raises:
        FileNotFoundError: it is not installed; the message names the command that installs it.
    """
    program = shutil.which("chromium")
    if program is None:
        raise FileNotFoundError("no Chromium here: apt-get install --yes chromium")
    log = folder / "chromium.log"
    with log.open("wb") as lines:
        command = [program, *_FLAGS, f"--user-data-dir={folder / 'profile'}", "about:blank"]
        browser = subprocess.Popen(command, stdout=lines, stderr=lines, start_new_session=True)
    try:
        match = poll(
            lambda: re.search(r"DevTools listening on (\S+)", log.read_text(errors="replace")),
            within=30,
            what="a Chromium that listens",
        )
        with connect(match[1], max_size=_MOST_ANSWER, compression=None) as socket:
            page = BarePage(socket, browser.pid)
            page.open(address, before)
            yield page
    finally:
        with suppress(ProcessLookupError):
            os.killpg(browser.pid, signal.SIGKILL)
        browser.wait(10)


def _descendants(pid: int) -> list[int]:
    """Return a process and all its descendants."""
    pids = [pid]
    for each in pids:
        with suppress(OSError):
            pids += children_of(each)
    return pids


def _memory(pid: int) -> int:
    """Return the proportional set size of a process in bytes; 0 if it has ended."""
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    match = re.search(r"^Pss:\s+(\d+) kB", rollup, re.MULTILINE)
    return 0 if match is None else int(match[1]) << 10


def _is_renderer(pid: int) -> bool:
    try:
        return b"--type=renderer" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
