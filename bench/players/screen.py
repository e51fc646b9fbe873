"""The clock that is read off what a program shows: off a virtual display, or off its own pictures.

Xvfb holds the display; ffmpeg grabs it ten times a second. So a program needs no interface of its
own to say what it shows. One that cannot show pictures there may write them to a pipe.
"""

import os
import re
import subprocess
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import IO, Final

from bench.latency.clock import read, since
from bench.players.verdict import SeenPicture
from bench.tools import tool

SIZE: Final = (640, 360)
PAGE_SIZE: Final = (1280, 720)  # for our page, whose button covers less of a larger picture
_RATE: Final = 10
_START_SECONDS: Final = 20.0
_END_SECONDS: Final = 5.0


class Pictures:
    """The clocks of gray pictures of one size, as they come through a pipe."""

    def __init__(self, pipe: IO[bytes], size: tuple[int, int] = SIZE) -> None:
        self.shown: list[SeenPicture] = []
        self._pipe, self._size = pipe, size
        self._reader = threading.Thread(target=self._read, name="pictures")
        self._reader.start()

    def _read(self) -> None:
        width, height = self._size
        while len(data := self._pipe.read(width * height)) == width * height:
            at = time.time() * 1000
            clock = read(memoryview(data), width, width, height)
            if clock is not None:
                self.shown.append(SeenPicture(at, round(at - since(clock, at))))

    def close(self) -> None:
        """Stop reading, after the end of the program that writes."""
        self._reader.join(_END_SECONDS)
        self._pipe.close()


class Screen(Pictures):
    """A display that is being read; `window` is the number of its root window."""

    def __init__(
        self, display: str, window: int, grabber: subprocess.Popen[bytes], size: tuple[int, int]
    ) -> None:
        assert grabber.stdout is not None
        super().__init__(grabber.stdout, size)
        self.display = display
        self.window = window
        self._grabber = grabber

    def close(self) -> None:
        """Stop reading."""
        _end(self._grabber)
        super().close()


@contextmanager
def screen(size: tuple[int, int] = SIZE) -> Generator[Screen]:
    """Run a display of that size for the length of the block.

    Raises:
        ToolMissing: Xvfb, ffmpeg, xwininfo or a window manager is not installed.
    """
    width, height = size
    xvfb, ffmpeg = tool("Xvfb", "xvfb"), tool("ffmpeg", "ffmpeg")
    matchbox = tool("matchbox-window-manager", "matchbox-window-manager")
    read_end, write_end = os.pipe()
    server = subprocess.Popen(
        [
            xvfb, "-displayfd", str(write_end), "-screen", "0", f"{width}x{height}x24",
            "-nolisten", "tcp", "-ac", "-noreset",
        ],
        pass_fds=[write_end], stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(write_end)
    try:
        with os.fdopen(read_end) as lines:
            display = f":{lines.readline().strip()}"
        window = _root_window(display)
        # Gives each program the whole display, and the keyboard; browsers choose other sizes.
        manager = subprocess.Popen([matchbox, "-display", display, "-use_titlebar", "no"])
        grabber = subprocess.Popen(
            [
                ffmpeg, "-v", "error", "-nostdin", "-f", "x11grab", "-draw_mouse", "0",
                "-framerate", str(_RATE), "-video_size", f"{width}x{height}", "-i", display,
                "-f", "rawvideo", "-pix_fmt", "gray", "-",
            ],
            stdout=subprocess.PIPE,
        )  # fmt: skip
        reader = Screen(display, window, grabber, size)
        try:
            yield reader
        finally:
            reader.close()
            _end(manager)
    finally:
        _end(server)


def _root_window(display: str) -> int:
    command = [tool("xwininfo", "x11-utils"), "-display", display, "-root"]
    process = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=_END_SECONDS
    )
    match = re.search(r"Window id: (0x[0-9a-f]+)", process.stdout)
    assert match is not None
    return int(match[1], 16)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
