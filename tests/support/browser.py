"""Debian's Chromium, driven through Playwright, to watch streams in tests.

Playwright's synchronous API keeps an event loop running in its thread, where `asyncio.run` would
fail. All of it therefore runs in one thread of its own, and this module may be called from any
thread. Times are in seconds; timeouts are scaled on slow machines.
"""

import shutil
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from playwright.sync_api import Browser, ConsoleMessage, Dialog, Error, Frame, Page, sync_playwright

from tests.support.e2e.service import SCALE

T = TypeVar("T")

# The full browser, and the headless shell, which loads and plays pages at half the CPU.
_WHOLE = "chromium"
_WINDOWLESS = "chromium-headless-shell"
# No sandbox: tests run as root in containers. The other flags keep it off the network and muted.
_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
_LOOK = 0.1  # seconds between the first two polls of a page
_LONGEST_LOOK = 0.3

# Collects violations of the page's content security policy from before its first script.
_LISTEN = """
window.breaches = [];
document.addEventListener("securitypolicyviolation", (event) => {
  window.breaches.push(`${event.effectiveDirective} ${event.blockedURI}`);
});
"""

_SAMPLE = """() => {
  const { headend } = window;
  if (!headend) return null;
  const { video, hls } = headend;
  const quality = video.getVideoPlaybackQuality();
  return {
    state: headend.state(),
    run: headend.run,
    position: video.currentTime,
    paused: video.paused,
    width: video.videoWidth,
    height: video.videoHeight,
    frames: quality.totalVideoFrames,
    dropped: quality.droppedVideoFrames,
    audio_bytes: video.webkitAudioDecodedByteCount,
    latency: hls && hls.latency,
    target: hls && hls.targetLatency,
    buffered: video.buffered.length
      ? video.buffered.end(video.buffered.length - 1) - video.currentTime : 0,
    heights: hls ? hls.levels.map((level) => level.height) : [],
    stalls: headend.stalls,
    faults: headend.faults.map(({ type, details, fatal }) =>
      `${type} ${details}${fatal ? " fatal" : ""}`),
  };
}"""


# Playback has waited where the position advanced by less than the elapsed time. A late sample on a
# busy machine is no wait if the position kept up. A new engine has a time line of its own: its wait
# ends with its first small step.
_RECORD = """() => {
  const { headend } = window;
  const video = headend?.video ?? document.querySelector("video");
  const waits = (window.waits = []);
  let hls = headend?.hls;
  let position = video.currentTime;
  let moved = performance.now();
  let anew = false;
  setInterval(() => {
    if (headend?.hls !== hls) anew = true;
    hls = headend?.hls;
    if (video.currentTime === position) return;
    const now = performance.now();
    const step = video.currentTime - position;
    if (anew && (step < 0 || step > 0.1)) {
      position = video.currentTime;
      return;
    }
    const gone = anew ? 0 : step * 1000;
    anew = false;
    const still = now - moved - gone / video.playbackRate;
    const at = (Date.now() - (now - moved)) / 1000;
    if (Math.abs(still) > 50) waits.push({ at, seconds: still / 1000 });
    position = video.currentTime;
    moved = now;
  }, 20);
}"""


class Wait(msgspec.Struct, frozen=True):
    """A wait of the picture and the time of day it began; a negative wait is a jump ahead."""

    at: float
    seconds: float


class PlayerSample(msgspec.Struct, frozen=True, kw_only=True):
    """The player at one moment.

    `state` is what the page shows (waiting, starting, playing, reconnecting, ended, gone), `run`
    the run being played; `position`, `latency`, its `target` and `buffered` are in seconds;
    `frames` and `audio_bytes` count decoded media, `stalls` the interruptions of playback. `faults`
    are hls.js errors, including those it recovered from.
    """

    state: str
    run: str | None
    position: float
    paused: bool
    width: int
    height: int
    frames: int
    dropped: int
    audio_bytes: int
    latency: float | None
    target: float | None
    buffered: float
    heights: list[int]
    stalls: int
    faults: list[str]


class Viewer:
    """One open page, or one frame in it, with our player."""

    def __init__(self, thread: ThreadPoolExecutor, page: Page, frame: Frame) -> None:
        self._thread = thread
        self._page = page
        self._frame = frame
        self.console: list[str] = []
        """Errors and warnings of the page's console."""
        self.requests: list[str] = []
        """The addresses that the page and its frames asked for."""
        self.asked: list[str] = []
        """The kinds of the browser's own questions, which were all answered with yes."""

    def sample(self) -> PlayerSample | None:
        """Sample the player once; None while the page has none."""
        facts = self.evaluate(_SAMPLE)
        return None if facts is None else msgspec.convert(facts, PlayerSample)

    def wait(
        self, condition: Callable[[PlayerSample], bool], seconds: float, what: str
    ) -> PlayerSample:
        """Poll until `condition` is true; the `TimeoutError` contains the last sample."""
        sample = self._poll(
            self.sample, lambda sample: sample is not None and condition(sample), seconds, what
        )
        assert sample is not None
        return sample

    def wait_for(self, state: str, seconds: float) -> PlayerSample:
        """Poll until the page is in `state`."""
        return self.wait(lambda sample: sample.state == state, seconds, state)

    def wait_until_playing(self, seconds: float, *, span: float = 1.0) -> PlayerSample:
        """Poll until it really plays: video and audio are decoded and the position advances.

        `span` is how far the position must advance while polling.
        """
        deadline = time.monotonic() + seconds * SCALE
        first = self.wait(_shows, seconds, "playing")
        remaining = max((deadline - time.monotonic()) / SCALE, span)
        return self.wait(
            lambda last: (
                _shows(last)
                and last.position - first.position >= span
                and last.frames > first.frames
                and last.audio_bytes > first.audio_bytes
            ),
            remaining,
            f"playing on from {first}",
        )

    def force(self, height: int, seconds: float = 15.0) -> PlayerSample:
        """Select the rung of that height in the page's menu, and wait until it is shown."""
        label = self.evaluate(
            """(height) => {
              const { hls } = window.headend;
              const menu = document.querySelector('[data-part="quality"]');
              menu.value = String(hls.levels.findIndex((level) => level.height === height));
              menu.dispatchEvent(new Event("change", { bubbles: true }));
              return menu.value;
            }""",
            height,
        )
        assert label, f"the menu has no rung of {height} lines"
        return self.wait(lambda sample: sample.height == height, seconds, f"{height} lines high")

    def wait_for_console(self, words: str, seconds: float) -> str:
        """Poll until the page's console has an error or a warning with these words."""
        return self._poll(
            lambda: next((line for line in self.console if words in line), ""),
            bool, seconds, f"a message with {words!r}",
        )  # fmt: skip

    def record_waits(self) -> None:
        """Record the waits of the picture from now on, until the page is reloaded.

        Also of a page with another player.
        """
        self.evaluate(_RECORD)

    def waits(self) -> list[Wait]:
        """Return the recorded waits; fails if the page has been reloaded since."""
        return msgspec.convert(self.evaluate("() => window.waits"), list[Wait])

    def breaches(self) -> list[str]:
        """The violations of the page's content security policy so far."""
        violations = self.evaluate("() => window.breaches")
        return msgspec.convert(violations, list[str])

    def evaluate(self, script: str, argument: object = None) -> object:
        """Run a function in the page, and return its result as JSON."""
        return self._do(lambda: self._frame.evaluate(script, argument))

    def load_script(self, source: str) -> None:
        """Run a script in the page, whatever the page's policy."""

        def run() -> None:
            # Any: what a session sends and gets has no static type.
            session: Any = self._page.context.new_cdp_session(self._page)
            answer = session.send("Runtime.evaluate", {"expression": source})
            session.detach()
            assert "exceptionDetails" not in answer, answer

        self._do(run)

    def text(self, selector: str) -> str:
        """The visible text of the first match."""
        return self._do(lambda: self._frame.inner_text(selector))

    def click(self, selector: str) -> None:
        """Click the first match."""
        self._do(lambda: self._frame.click(selector, timeout=5_000 * SCALE))

    def tap(self, selector: str) -> None:
        """Tap the middle of the first match with a finger, whatever lies there."""

        def tap() -> None:
            box = self._frame.locator(selector).first.bounding_box(timeout=5_000 * SCALE)
            assert box is not None, f"{selector} is not visible"
            x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
            self._page.touchscreen.tap(x, y)

        self._do(tap)

    def fill(self, selector: str, text: str) -> None:
        """Replace the text of the first match."""
        self._do(lambda: self._frame.fill(selector, text, timeout=5_000 * SCALE))

    def choose_files(self, selector: str, *paths: Path) -> None:
        """Select local files in the first match, a file input."""
        self._do(lambda: self._frame.set_input_files(selector, paths, timeout=5_000 * SCALE))

    def answer_chooser(self, selector: str | None, *paths: Path) -> None:
        """Open a file input's dialog, and select local files in it.

        Without a selector, Space is pressed on the focused element.
        """

        def answer() -> None:
            with self._page.expect_file_chooser(timeout=5_000 * SCALE) as opened:
                self._press_now(selector, "Space")
            opened.value.set_files(paths)

        self._do(answer)

    def download(self, selector: str | None, folder: Path) -> Path:
        """Click a download, and return the path of the file in `folder`.

        Without a selector, Enter is pressed on the focused element.
        """

        def download() -> Path:
            with self._page.expect_download(timeout=15_000 * SCALE) as begun:
                self._press_now(selector, "Enter")
            path = folder / begun.value.suggested_filename
            begun.value.save_as(path)
            return path

        return self._do(download)

    def select(self, selector: str, words: str) -> None:
        """Select the option with this text in a menu."""
        self._do(lambda: self._frame.select_option(selector, label=words, timeout=5_000 * SCALE))

    def limit_upload(self, bytes_per_second: int) -> None:
        """Limit the page's upload rate, as on a home connection; 0 removes the limit."""

        def limit() -> None:
            conditions = {
                "offline": False,
                "latency": 0,
                "downloadThroughput": -1,
                "uploadThroughput": bytes_per_second or -1,
            }
            # Any: what a session sends and gets has no static type.
            session: Any = self._page.context.new_cdp_session(self._page)
            session.send("Network.enable")
            session.send("Network.emulateNetworkConditions", conditions)

        self._do(limit)

    def prefer(self, *, light: bool = False, still: bool = False) -> None:
        """Emulate the user's preference for a light theme and for reduced motion."""
        scheme = "light" if light else "dark"
        motion = "reduce" if still else "no-preference"
        self._do(lambda: self._page.emulate_media(color_scheme=scheme, reduced_motion=motion))

    def visit(self, address: str) -> None:
        """Navigate to another address."""
        self._do(
            lambda: self._page.goto(address, wait_until="domcontentloaded", timeout=15_000 * SCALE)
        )

    def wait_for_page(self, script: str, seconds: float, what: str) -> None:
        """Poll until a function in the page returns true, also while another page loads."""

        def look() -> object:
            with suppress(Error):  # the page has navigated away
                return self.evaluate(script)
            return None

        self._poll(look, lambda result: result is True, seconds, what)

    def press(self, key: str) -> None:
        """Press a key on the focused element."""
        self._do(lambda: self._page.keyboard.press(key))

    def write(self, text: str) -> None:
        """Type a text into the focused element."""
        self._do(lambda: self._page.keyboard.type(text))

    def back(self) -> None:
        """Go back in the history."""
        self._do(lambda: self._page.go_back(wait_until="domcontentloaded", timeout=15_000 * SCALE))

    def reload(self) -> None:
        """Reload the page, using the cache."""
        self._do(lambda: self._page.reload(wait_until="domcontentloaded"))

    def resize(self, width: int, height: int) -> None:
        """Resize the window."""
        self._do(lambda: self._page.set_viewport_size({"width": width, "height": height}))

    def screenshot(self, path: Path) -> None:
        """Save a screenshot of the window as PNG."""
        self._do(lambda: self._page.screenshot(path=path))

    def framed(self, seconds: float = 10.0) -> "Viewer":
        """Return the viewer in the page's only frame, once that is loaded."""
        frames = self._poll(
            lambda: self._do(lambda: self._page.frames),
            lambda frames: len(frames) > 1, seconds, "framed",
        )  # fmt: skip
        inner = Viewer(self._thread, self._page, frames[1])
        inner.console = self.console
        inner.requests = self.requests
        return inner

    def close(self) -> None:
        """Close the page."""
        self._do(self._page.context.close)

    def _press_now(self, selector: str | None, key: str) -> None:
        if selector is None:
            self._page.keyboard.press(key)
        else:
            self._frame.click(selector, timeout=5_000 * SCALE)

    def _poll(
        self, look: Callable[[], T], is_right: Callable[[T], bool], seconds: float, what: str
    ) -> T:
        """Look until the result is right, and return it.

        The interval grows, since each look takes CPU from the page that is waited for.
        """
        began = time.monotonic()
        while not is_right(found := look()):
            waited = time.monotonic() - began
            if waited > seconds * SCALE:
                raise TimeoutError(f"not {what} in {seconds} s: {found}; console: {self.console}")
            pause = min(_LOOK + waited / 20, _LONGEST_LOOK)
            # Playwright's wait: a sleep would delay the browser's events.
            self._do(partial(self._page.wait_for_timeout, pause * 1000))
        return found

    def _do(self, act: Callable[[], T]) -> T:
        return self._thread.submit(act).result()


def _shows(sample: PlayerSample) -> bool:
    return sample.state == "playing" and sample.width > 0 and not sample.paused


class Chromium:
    """A running browser; each page has cookies, cache and storage of its own."""

    def __init__(self, thread: ThreadPoolExecutor, browser: Browser) -> None:
        self._thread = thread
        self._browser = browser

    def open(
        self,
        address: str,
        *,
        width: int = 800,
        height: int = 520,
        before: str = "",
        light: bool = False,
        still: bool = False,
        scripts: bool = True,
        touch: bool = False,
    ) -> Viewer:
        """Open an address in a window of that size; `before` runs before its first script.

        The default size is what the player's controls need: drawing a film costs CPU per pixel.
        `light` and `still` emulate a preference for light pages and for reduced motion, `touch` a
        screen that fingers use. Without `scripts`, pages run none.
        """
        context: dict[str, Any] = {  # Any: Playwright's options have no common type
            "viewport": {"width": width, "height": height},
            "color_scheme": "light" if light else "dark",
            "reduced_motion": "reduce" if still else "no-preference",
            "java_script_enabled": scripts,
            "has_touch": touch,
            "is_mobile": touch,
        }
        return self._thread.submit(self._open, address, context, before).result()

    def leave(self) -> None:
        """Close all pages that are open."""

        def close() -> None:
            for context in self._browser.contexts:
                context.close()

        self._thread.submit(close).result()

    # Any: as in `open`.
    def _open(self, address: str, context: dict[str, Any], before: str) -> Viewer:
        page = self._browser.new_context(**context).new_page()
        page.add_init_script(_LISTEN + before)
        viewer = Viewer(self._thread, page, page.main_frame)

        def on_console(message: ConsoleMessage) -> None:
            if message.type in {"error", "warning"}:
                viewer.console.append(message.text)

        def agree(dialog: Dialog) -> None:
            viewer.asked.append(dialog.type)
            dialog.accept()

        page.on("console", on_console)
        page.on("request", lambda request: viewer.requests.append(request.url))
        page.on("dialog", agree)
        page.on("pageerror", lambda error: viewer.console.append(str(error)))
        page.goto(address, wait_until="domcontentloaded", timeout=15_000 * SCALE)
        return viewer


@contextmanager
def chromium(*flags: str, whole: bool = False) -> Generator[Chromium]:
    """Run Chromium for the length of the block: the headless shell, or the full browser.

    The full browser uses twice the CPU.

    Raises:
        FileNotFoundError: it is not installed; the message names the command that installs it.
    """
    name = _WHOLE if whole else _WINDOWLESS
    program = shutil.which(name)
    if program is None:
        raise FileNotFoundError(f"no {name} here: apt-get install --yes {name}")
    with ThreadPoolExecutor(1, "chromium") as thread:
        driver = thread.submit(sync_playwright().start).result()
        try:
            browser = thread.submit(
                lambda: driver.chromium.launch(executable_path=program, args=[*_FLAGS, *flags])
            ).result()
            try:
                yield Chromium(thread, browser)
            finally:
                thread.submit(browser.close).result()
        finally:
            thread.submit(driver.stop).result()
