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
from itertools import dropwhile
from typing import IO, Final

from bench.latency.clock import read, since
from bench.players.verdict import SeenPicture
from bench.tools import tool

__all__ = ["SIZE", "Pictures", "Screen", "screen"]

SIZE: Final = (640, 360)
_RATE: Final = 10
_START_SECONDS: Final = 20.0
_END_SECONDS: Final = 5.0


class Pictures:
    """The clocks of gray pictures of `SIZE`, as they come through a pipe."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self.shown: list[SeenPicture] = []
        self._pipe = pipe
        self._reader = threading.Thread(target=self._read, name="pictures")
        self._reader.start()

    def _read(self) -> None:
        width, height = SIZE
        while len(data := self._pipe.read(width * height)) == width * height:
            at = time.time() * 1000
            clock = read(memoryview(data), width, width, height)
            if clock is not None:
                self.shown.append(SeenPicture(at, round(at - since(clock, at))))

    def since(self, at: float) -> list[SeenPicture]:
        """Return what was shown from a time of day (ms) on, without what was there already."""
        before = next((each.drawn for each in reversed(self.shown) if each.at < at), None)
        pictures = [each for each in self.shown if each.at >= at]
        return (
            pictures
            if before is None
            else list(dropwhile(lambda each: each.drawn == before, pictures))
        )

    def close(self) -> None:
        """Stop reading, after the end of the program that writes."""
        self._reader.join(_END_SECONDS)
        self._pipe.close()


class Screen(Pictures):
    """A display that is being read; `window` is the number of its root window."""

    def __init__(self, display: str, window: int, grabber: subprocess.Popen[bytes]) -> None:
        assert grabber.stdout is not None
        super().__init__(grabber.stdout)
        self.display = display
        self.window = window
        self._grabber = grabber

    def close(self) -> None:
        """Stop reading."""
        _end(self._grabber)
        super().close()


@contextmanager
def screen() -> Generator[Screen]:
    """Run a display for the length of the block.

    Raises:
        ToolMissing: Xvfb, ffmpeg or xwininfo is not installed.
    """
    width, height = SIZE
    xvfb, ffmpeg = tool("Xvfb", "xvfb"), tool("ffmpeg", "ffmpeg")
    read_end, write_end = os.pipe()
    server = subprocess.Popen(
        [
            xvfb, "-displayfd", str(write_end), "-screen", "0", f"{width}x{height}x24",
            "-nolisten", "tcp", "-ac",
        ],
        pass_fds=[write_end], stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(write_end)
    try:
        with os.fdopen(read_end) as lines:
            display = f":{lines.readline().strip()}"
        window = _root_window(display)
        grabber = subprocess.Popen(
            [
                ffmpeg, "-v", "error", "-nostdin", "-f", "x11grab", "-draw_mouse", "0",
                "-framerate", str(_RATE), "-video_size", f"{width}x{height}", "-i", display,
                "-f", "rawvideo", "-pix_fmt", "gray", "-",
            ],
            stdout=subprocess.PIPE,
        )  # fmt: skip
        reader = Screen(display, window, grabber)
        try:
            yield reader
        finally:
            reader.close()
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
