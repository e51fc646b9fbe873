"""Debian's Chromium, which watches one stream and reads the clock off every presented frame."""

import shutil
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec
from playwright.sync_api import Browser, Page, sync_playwright

from bench.tools import ToolMissing

_HERE: Final = Path(__file__).parent
_PROGRAMS: Final = ("chromium", "chromium-browser", "google-chrome")
# No sandbox: benchmarks run as root in containers. The rest keeps it off the network and quiet.
_FLAGS: Final = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--autoplay-policy=no-user-gesture-required",
]
_GLANCE_SECONDS: Final = 1.0  # how often it is asked whether it has ended
_START_SECONDS: Final = 60.0  # a deadline for the first picture


class Frame(msgspec.Struct, frozen=True, array_like=True):
    """A presented frame: the time of day and the latency (both ms), and what showed it."""

    at: float
    latency: float
    rate: float
    height: int


class Presented(msgspec.Struct, frozen=True, kw_only=True):
    """What a page presented.

    `stalls` are the times of day (ms) at which a playing video had to wait, `longest` is the
    longest time (ms) between two presented frames, `start` the seconds from opening the page to
    its first frame, `unread` the number of frames without a readable clock. `sought` and `ended`
    are the times of day (ms) at which `before` told it to seek, and at which it had ended.
    """

    frames: list[Frame]
    stalls: list[float]
    longest: float
    unread: int
    errors: list[str]
    start: float = 0.0
    sought: float | None = None
    ended: float | None = None


@contextmanager
def browser() -> Generator[Browser]:
    """Run a headless Chromium.

    Raises:
        ToolMissing: none is installed.
    """
    program = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    if program is None:
        raise ToolMissing("Chromium is missing: apt-get install chromium")
    with sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=program, args=_FLAGS)
        try:
            yield running
        finally:
            running.close()


def watch(
    running: Browser,
    address: str,
    seconds: float,
    on_start: Callable[[], None],
    before: str = "",
) -> Presented:
    """Watch an address for so long after its first frame, or to its end; return what it presented.

    `on_start` is called when the first frame was presented; `before` is a script that runs before
    the page's own.

    Raises:
        TimeoutError: no frame with a clock was presented.
    """
    page = running.new_page(viewport={"width": 1280, "height": 800})
    try:
        page.add_init_script(before + (_HERE / "probe.js").read_text())
        opened = time.monotonic()
        page.goto(address, wait_until="domcontentloaded")
        while page.evaluate("() => latencyProbe.started") is None:
            if time.monotonic() > opened + _START_SECONDS:
                raise TimeoutError(f"no picture within {_START_SECONDS:g} s: {_state(page)}")
            page.wait_for_timeout(50)
        start = time.monotonic() - opened
        on_start()
        until = time.monotonic() + seconds
        while time.monotonic() < until and page.evaluate("() => latencyProbe.ended") is None:
            page.wait_for_timeout(min(_GLANCE_SECONDS, seconds) * 1000)
        presented = msgspec.convert(page.evaluate("() => latencyProbe"), Presented)
        return msgspec.structs.replace(presented, start=start)
    finally:
        page.close()


def _state(page: Page) -> object:
    return page.evaluate(
        "() => [latencyProbe, window.headend?.state(), window.headend?.faults, document.title]"
    )
