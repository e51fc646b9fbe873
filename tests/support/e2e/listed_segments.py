"""Watches all playlists of a stream: what they have listed once, they list unchanged.

Of a segment these are its number, URI, duration, init section, discontinuity and bytes, and of an
open segment its parts, until it is closed.
"""

import hashlib
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from http.client import HTTPException
from urllib.parse import urljoin, urlsplit

import msgspec

from media.hls.playlist import PartialSegment, PlaylistSegment
from media.hls.timeline import Timeline
from tests.support.e2e.hls_reader import addresses
from tests.support.e2e.service import fetch
from tests.support.hls.timeline_parser import parse_timeline
from tests.support.in_thread import in_thread

_LOOK_SECONDS = 0.2


class ListedSegments:
    """What the playlists of the stream at `url` have listed.

    Attributes:
        faults: What changed, or could not be read.
        waits: For how long no rendition listed anything new, when that exceeded 1 s.
        digests: The MD5 of the segments, by path.
    """

    def __init__(self, url: str) -> None:
        self.faults: list[str] = []
        self.waits: list[float] = []
        self.digests: dict[str, str] = {}
        self._playlists = addresses(url)
        self._segments: dict[tuple[str, int], PlaylistSegment] = {}
        self._parts: dict[tuple[str, int], tuple[PartialSegment, ...]] = {}
        self._newest: dict[str, tuple[int, int | None] | None] = {}
        self._changed = time.monotonic()
        self._over = threading.Event()

    @property
    def gaps(self) -> list[tuple[str, int]]:
        """The gaps, by rendition and number."""
        return [key for key, segment in self._segments.items() if segment.gap]

    def is_last_of_source(self, name: str, number: int) -> bool:
        """Return whether a discontinuity follows a segment or gap."""
        following = self._segments.get((name, number + 1))
        return following is not None and following.discontinuity

    def parts_of(self, name: str, number: int) -> int:
        """Return how many parts of a segment or gap were listed."""
        return len(self._parts.get((name, number), ()))

    @property
    def count(self) -> int:
        """The number of segments seen so far."""
        return len(self._segments)

    def run(self) -> None:
        """Read the playlists until `stop`."""
        while not self._over.wait(_LOOK_SECONDS):
            for name, address in self._playlists.items():
                try:
                    self._read(name, address)
                except (OSError, HTTPException) as error:
                    self.faults.append(f"{address}: {error!r}")

    def stop(self) -> None:
        """End `run`."""
        self._over.set()

    def _read(self, name: str, address: str) -> None:
        answer = fetch(address)
        if answer.status != 200:
            self.faults.append(f"{address}: {answer.status}")
            return
        timeline, _ = parse_timeline(answer.text)
        if timeline.newest != self._newest.get(name):
            now = time.monotonic()
            if now - self._changed > 1:
                self.waits.append(now - self._changed)
            self._newest[name], self._changed = timeline.newest, now
        for number, segment in enumerate(timeline.segments, timeline.sequence):
            self._compare(address, name, number, segment)
        self._compare_parts(address, name, timeline)

    def _compare(self, address: str, name: str, number: int, segment: PlaylistSegment) -> None:
        if segment.gap:  # which needs an init section only while it has parts
            segment = msgspec.structs.replace(segment, map_uri=None)
        before = self._segments.get((name, number))
        if before is None:
            self._segments[name, number] = segment
            if not segment.gap:
                self._fetch(urljoin(address, segment.uri))
        elif before != segment:
            self.faults.append(f"{name} {number} was {before}, is {segment}")
            self._segments[name, number] = segment

    def _compare_parts(self, address: str, name: str, timeline: Timeline) -> None:
        parts = {
            number: closed.parts
            for number, closed in enumerate(
                timeline.recent, timeline.next_msn - len(timeline.recent)
            )
            if closed.parts
        }
        if timeline.parts:
            parts[timeline.next_msn] = timeline.parts
        for number, listed in parts.items():
            before = self._parts.get((name, number), ())
            if listed[: len(before)] != before:
                self.faults.append(f"{name} {number} had {before}, has {listed}")
            self._parts[name, number] = listed

    def _fetch(self, url: str) -> None:
        answer = fetch(url)
        if answer.status != 200:
            self.faults.append(f"{url}: {answer.status}")
            return
        digest = hashlib.md5(answer.body, usedforsecurity=False).hexdigest()
        self.digests[urlsplit(url).path] = digest

    def fetch_again(self) -> int:
        """Read all segments that are still stored again; return how many there are."""
        count = 0
        for name, address in self._playlists.items():
            timeline, _ = parse_timeline(fetch(address).text)
            for segment in timeline.segments:
                if segment.gap:
                    continue
                url = urljoin(address, segment.uri)
                before = self.digests.get(urlsplit(url).path)
                self._fetch(url)
                count += 1
                if before not in (None, self.digests[urlsplit(url).path]):
                    self.faults.append(f"{name} {segment.uri}: other bytes than before")
        return count


@contextmanager
def watching(url: str) -> Generator[ListedSegments]:
    """Watch a stream for the length of the block."""
    listed = ListedSegments(url)
    with in_thread(listed.run, listed.stop):
        yield listed
