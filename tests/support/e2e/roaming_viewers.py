"""Viewers of a stream on several API hosts, which fail over between hosts.

This is what a browser behind a load balancer does, or one whose page has several addresses.
"""

import hashlib
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from http.client import HTTPException
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from media.hls.playlist import MediaPlaylist
from media.ticks import VIDEO_SCALE
from tests.support.e2e.service import Answer, fetch
from tests.support.e2e.strict_player import Follower
from tests.support.in_thread import in_thread
from tests.support.waiting import SCALE

_PATIENCE: Final = 1.0 * SCALE  # seconds to wait for one host
_AVOIDED: Final = 4.0  # seconds for which a host that did not respond is tried last
_HOLD_BACK: Final = 3  # target durations that a player stays behind the end (RFC 8216bis, 4.4.3.8)


class ApiHosts:
    """The API hosts in one viewer's order of preference."""

    def __init__(self, bases: Sequence[str]) -> None:
        self._bases = bases
        self._silent = dict.fromkeys(bases, -_AVOIDED)

    def ask(self, url: str) -> Answer:
        """Return the response of the first host that responds.

        Raises:
            OSError: none does.
        """
        path = urlunsplit(("", "", *urlsplit(url)[2:]))
        now = time.monotonic()
        last: Exception = OSError("no host")
        for base in sorted(self._bases, key=lambda each: now - self._silent[each] < _AVOIDED):
            try:
                return fetch(base + path, timeout=_PATIENCE)
            except (OSError, HTTPException) as error:
                self._silent[base], last = time.monotonic(), error
        raise OSError("no host answers") from last


class _Buffer:
    """A player's buffer of one rendition, in seconds; it plays in real time."""

    def __init__(self, playlist: MediaPlaylist, now: float) -> None:
        self.ahead = float(_HOLD_BACK * playlist.target)
        self.least = self.ahead
        self.stall = 0.0  # how long it has been empty
        self._following = playlist.sequence + len(playlist.segments)
        self._at = now

    def read(self, playlist: MediaPlaylist, now: float) -> None:
        """Play for the elapsed time, then add the new segments."""
        self.ahead -= now - self._at
        self._at = now
        self.least = min(self.least, self.ahead)
        self.stall = self.stall - self.ahead if self.ahead < 0 else 0.0
        self.ahead = max(self.ahead, 0.0)
        for number, segment in enumerate(playlist.segments, playlist.sequence):
            if number >= self._following:
                self.ahead += segment.duration / VIDEO_SCALE
                self._following = number + 1


class RoamingViewer(Follower):
    """A strict player at normal latency.

    Attributes:
        least: The lowest level of its buffer, in seconds; it stalls below 0.
        stalled: The longest stall, in seconds.
        digests: The MD5 of the received segments, by path.
    """

    def __init__(self, url: str, api_hosts: ApiHosts) -> None:
        super().__init__(url, api_hosts.ask)
        self.least = 3600.0
        self.stalled = 0.0
        self.digests: dict[str, str] = {}
        self._buffers: dict[str, _Buffer] = {}
        self.on_read = self._play
        self.on_media = self._note

    def _play(self, address: str, playlist: MediaPlaylist) -> None:
        now = time.monotonic()
        buffer = self._buffers.setdefault(address, _Buffer(playlist, now))
        buffer.read(playlist, now)
        self.least = min(self.least, buffer.least)
        self.stalled = max(self.stalled, buffer.stall)

    def _note(self, url: str, body: bytes) -> None:
        self.digests[urlsplit(url).path] = hashlib.md5(body, usedforsecurity=False).hexdigest()


class LowLatencyViewer:
    """Polls a media playlist every 0.1 s; `waits` are the longest waits for its next part.

    They are in seconds, each with its end on the monotonic clock.
    """

    def __init__(self, playlist: str, api_hosts: ApiHosts) -> None:
        self.waits: list[tuple[float, float]] = []
        self._playlist = playlist
        self._doors = api_hosts
        self._over = threading.Event()
        self._newest = ""
        self._since: float | None = None

    @property
    def longest(self) -> float:
        """The longest wait, in seconds."""
        return max((wait for wait, _ in self.waits), default=0.0)

    def run(self) -> None:
        """Poll until `stop`."""
        while not self._over.wait(0.1):
            try:
                answer = self._doors.ask(self._playlist)
            except OSError:
                continue
            parts = [each for each in answer.text.splitlines() if each.startswith("#EXT-X-PART:")]
            if answer.status == 200 and parts and parts[-1] != self._newest:
                self._newest = parts[-1]
                now = time.monotonic()
                if self._since is not None and now - self._since > 1:
                    self.waits.append((now - self._since, now))
                self._since = now

    def stop(self) -> None:
        """End `run`."""
        self._over.set()


@contextmanager
def waiting(viewer: LowLatencyViewer) -> Generator[LowLatencyViewer]:
    """Watch a stream at low latency for the length of the block."""
    with in_thread(viewer.run, viewer.stop):
        yield viewer
