"""What happens to a live stream while a player watches it.

Two encoders publish; the one on air is killed, then both, then they return, and then the stream's
owner ends it.
"""

import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from bench.ingest.processes import child
from bench.players.verdict import LiveCourse

_ROOT: Final = Path(__file__).parents[2]
_ACCEPTED_SECONDS: Final = 60.0
# Seconds after the player was opened, and how long the encoders are away.
_LOST_SECONDS: Final = 10.0
_AWAY_SECONDS: Final = 18.0
_SLATE_SECONDS: Final = 4.0
END_SECONDS: Final = 34.0


def now_ms() -> float:
    """Return the time of day in ms since the epoch."""
    return time.time() * 1000


class Encoders:
    """The encoders at a stream's addresses: the first one is on air, the other is its backup."""

    def __init__(self, stack: ExitStack, folder: Path, urls: tuple[str, str]) -> None:
        self._stack, self._folder, self._urls = stack, folder, urls
        self._running: list[ExitStack] = []
        self.start()

    def start(self) -> float:
        """Start both, and return when the first one was accepted (ms since the epoch)."""
        self._running = [self._start(0)]
        accepted = now_ms()
        self._running.append(self._start(1))
        return accepted

    def _start(self, slot: int) -> ExitStack:
        command = [sys.executable, "-m", "bench.latency.encoder", self._urls[slot]]
        running = self._stack.enter_context(ExitStack())
        log = self._folder / f"encoder-{slot}.log"
        encoder = running.enter_context(child([*command, "--profile", "obs"], log, cwd=_ROOT))
        encoder.wait("accepted", _ACCEPTED_SECONDS)
        return running

    def lose(self) -> None:
        """Kill the one on air."""
        self._running.pop(0).close()


class Events:
    """The events of one stream, as a thread causes them; times are ms since the epoch."""

    def __init__(self, encoders: Encoders, end: Callable[[], object]) -> None:
        self._encoders, self._end_stream = encoders, end
        self._opened = now_ms()
        self._lost = self._away = self._back = self.end = float("inf")
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="events")
        self._thread.start()

    def _run(self) -> None:
        if self._over.wait(_LOST_SECONDS):
            return
        self._lost = now_ms()
        self._encoders.lose()
        if self._over.wait(_AWAY_SECONDS - _LOST_SECONDS):
            return
        self._away = now_ms()
        self._encoders.lose()
        if self._over.wait(_SLATE_SECONDS):
            return
        self._back = self._encoders.start()
        if self._over.wait(max(0.0, END_SECONDS - (now_ms() - self._opened) / 1000)):
            return
        self.end = now_ms()
        self._end_stream()

    def close(self) -> None:
        """Leave out what has not happened yet."""
        self._over.set()
        self._thread.join()

    def course(self, known: float | None) -> LiveCourse:
        """Return what happened; the player knew of the end at `known`."""
        return LiveCourse(
            opened=self._opened,
            lost=self._lost,
            away=self._away,
            back=self._back,
            end=self.end,
            known=known,
        )


@contextmanager
def events(encoders: Encoders, end: Callable[[], object]) -> Generator[Events]:
    """Let the events happen within the block."""
    running = Events(encoders, end)
    try:
        yield running
    finally:
        running.close()
