"""Live encoders: one ffmpeg for each address sends the recording in real time.

How far each has come is read from its own progress report, in seconds of media.
"""

import re
import subprocess
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

_REPORT_SECONDS: Final = "0.2"
END_SECONDS: Final = 5.0


class FfmpegPublisher:
    """One ffmpeg process."""

    def __init__(self, clip: Path, url: str) -> None:
        self._process = subprocess.Popen(
            [
                *("ffmpeg", "-hide_banner", "-nostdin", "-loglevel", "error", "-nostats"),
                *("-progress", "pipe:1", "-stats_period", _REPORT_SECONDS),
                *("-re", "-i", str(clip), "-c", "copy", "-flvflags", "no_duration_filesize"),
                *("-f", "flv", url),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._sent = 0.0
        self._errors = ""
        self._readers = [
            threading.Thread(target=each, daemon=True) for each in (self._follow, self._listen)
        ]
        for reader in self._readers:
            reader.start()

    @property
    def sent(self) -> float:
        """The seconds of media sent so far."""
        return self._sent

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def said(self) -> str:
        """The content of its standard error."""
        return self._errors.strip()

    def _follow(self) -> None:
        for line in self._process.stdout or ():
            if match := re.match(r"out_time_us=(\d+)", line):
                self._sent = int(match[1]) / 1e6

    def _listen(self) -> None:
        self._errors = self._process.stderr.read() if self._process.stderr else ""

    def wait(self, seconds: float) -> int | None:
        """Return its exit status, None if it did not end in time."""
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        for reader in self._readers:
            reader.join(END_SECONDS)
        return code

    def end(self) -> None:
        """Kill it."""
        self._process.kill()
        self.wait(END_SECONDS)
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()


@contextmanager
def publishing(clip: Path, urls: Sequence[str]) -> Generator[list[FfmpegPublisher], None, None]:
    """Publish to each address for the length of the block at most.

    They begin a little apart: encoders in the world do not send their pictures in step.
    """
    with ExitStack() as stack:
        publishers: list[FfmpegPublisher] = []
        for url in urls:
            publisher = FfmpegPublisher(clip, url)
            stack.callback(publisher.end)
            publishers.append(publisher)
            time.sleep(1 / 30 / len(urls) + 0.05)
        yield publishers


@contextmanager
def looping(clip: Path, url: str) -> Generator[None, None, None]:
    """Publish a recording again and again for the length of the block."""
    command = ["ffmpeg", "-v", "error", "-nostdin", "-re", "-stream_loop", "-1", "-i", str(clip)]
    process = subprocess.Popen([*command, "-c", "copy", "-f", "flv", url])
    try:
        yield
    finally:
        process.kill()
        process.wait()
