"""A strict player, which follows all playlists of a stream and records inconsistencies.

These are listed objects that do not exist, numbers that go back, names whose media change, and gaps
in a rendition's timeline without a discontinuity. While the service is unreachable, it waits.
"""

import struct
import threading
import time
import urllib.error
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPException
from urllib.parse import urljoin

from media.hls import m3u8
from media.hls.playlist import MediaPlaylist, MultivariantPlaylist
from media.no_op import do_nothing
from tests.support.e2e.service import Answer, fetch
from tests.support.in_thread import in_thread

_LOOK_SECONDS = 0.25
_AWAY = (urllib.error.URLError, HTTPException, OSError)


def timeline(segment: bytes) -> tuple[int, int]:
    """Return the decode times of a segment's begin and end, in its own timescale."""
    start: int | None = None
    end = 0
    for kind, body in _boxes(segment):
        if kind != b"moof":
            continue
        (traf,) = [inner for name, inner in _boxes(body) if name == b"traf"]
        parts = dict(_boxes(traf))
        (begins,) = struct.unpack_from(">Q", parts[b"tfdt"], 4)
        if start is not None and begins != end:
            raise AssertionError(f"a fragment begins at {begins}, not at {end}")
        start = begins if start is None else start
        end = begins + _duration(parts[b"tfhd"], parts[b"trun"])
    assert start is not None, "no fragment in a segment"
    return start, end


def _duration(tfhd: bytes, trun: bytes) -> int:
    flags = int.from_bytes(trun[1:4], "big")
    (count,) = struct.unpack_from(">I", trun, 4)
    if not flags & 0x100:  # no durations per sample: the header's default applies
        (default,) = struct.unpack_from(">I", tfhd, 8)
        return int(count * default)
    width = 4 * (flags >> 8 & 0xF).bit_count()
    first = 8 + 4 * bool(flags & 1) + 4 * bool(flags & 4)
    return sum(struct.unpack_from(">I", trun, first + width * n)[0] for n in range(count))


def _boxes(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    place = 0
    while place < len(data):
        size, kind = struct.unpack_from(">I4s", data, place)
        yield kind, data[place + 8 : place + size]
        place += size


@dataclass
class PlayedRendition:
    """The state of one rendition's playlist."""

    first: int = 0
    discontinuities: int = 0
    names: dict[int, str] = field(default_factory=dict[int, str])
    last: tuple[int, int] | None = None  # number and end of the newest fetched segment
    inits: set[str] = field(default_factory=set[str])


class Follower:
    """Follows the stream whose multivariant playlist is at `url`; `ask` fetches a URL.

    Attributes:
        on_read: Called with a media playlist and its URL, once its new segments were fetched.
        on_media: Called with a segment's bytes and their URL.
    """

    def __init__(self, url: str, ask: Callable[[str], Answer] = fetch) -> None:
        self.url = url
        self.on_read: Callable[[str, MediaPlaylist], None] = do_nothing
        self.on_media: Callable[[str, bytes], None] = do_nothing
        self._ask = ask
        self.faults: list[str] = []
        self.segments = 0
        self.marks: dict[str, int] = {}  # discontinuities so far, by rendition
        self.gaps = 0
        self.looks = 0
        self.newest = -1
        self._seen: dict[str, PlayedRendition] = {}
        self._was_away = False
        self._over = threading.Event()

    def run(self) -> None:
        """Poll until `stop`."""
        while not self._over.wait(_LOOK_SECONDS):
            try:
                self.refresh()
                self._was_away = False
            except _AWAY:
                self._was_away = True

    def stop(self) -> None:
        """End `run`."""
        self._over.set()

    def refresh(self) -> None:
        """Read all playlists once, and fetch their new segments."""
        answer = self._ask(self.url)
        if answer.status != 200:
            if self._seen:
                self.faults.append(f"the multivariant playlist: {answer.status}")
            return
        playlist = m3u8.parse(answer.text)
        assert isinstance(playlist, MultivariantPlaylist)
        uris = [each.uri for each in (*playlist.variants, *playlist.sounds)]
        for uri in uris:
            self._seen.setdefault(urljoin(self.url, uri), PlayedRendition())
        for address, played in self._seen.items():
            self._read(address, played)
        self.looks += 1

    def _read(self, address: str, played: PlayedRendition) -> None:
        answer = self._ask(address)
        if answer.status != 200:
            self.faults.append(f"{address}: {answer.status}")
            return
        playlist = m3u8.parse(answer.text)
        assert isinstance(playlist, MediaPlaylist)
        end = playlist.sequence + len(playlist.segments)
        if playlist.sequence < played.first or end < max(played.names, default=-1) + 1:
            self.faults.append(f"{address}: numbers go back: {playlist.sequence} to {end}")
        if playlist.discontinuities < played.discontinuities:
            self.faults.append(f"{address}: discontinuities go back")
        played.first, played.discontinuities = playlist.sequence, playlist.discontinuities
        for number, segment in enumerate(playlist.segments, playlist.sequence):
            earlier = played.names.setdefault(number, segment.uri)
            if earlier != segment.uri:
                self.faults.append(f"{address}: {number} was {earlier}, is {segment.uri}")
            if segment.gap:
                self._gap(address, played, number, marked=segment.discontinuity)
                continue
            fresh = played.last is None or number > played.last[0]
            if fresh:
                self._describe(address, played, segment.map_uri)
                self._place(address, played, number, segment.uri, marked=segment.discontinuity)
            elif self._was_away:  # after a restart, all listed objects must still exist
                self._fetch_listed(urljoin(address, segment.uri))
        self.on_read(address, playlist)

    def _mark(self, address: str, *, marked: bool) -> None:
        name = address.split("/")[-2]
        self.marks[name] = self.marks.get(name, 0) + marked

    def _gap(self, address: str, played: PlayedRendition, number: int, *, marked: bool) -> None:
        if played.last is None or number > played.last[0]:
            self.gaps += 1
            self._mark(address, marked=marked)
            played.last = None if played.last is None else (number, -1)

    def _fetch_listed(self, url: str) -> bytes:
        answer = self._ask(url)
        if answer.status != 200 or not answer.body:
            self.faults.append(f"{url}: {answer.status}, {len(answer.body)} bytes")
        return answer.body

    def _describe(self, address: str, played: PlayedRendition, map_uri: str | None) -> None:
        if map_uri is None:
            self.faults.append(f"{address}: media without an init section")
        elif map_uri not in played.inits:
            self._fetch_listed(urljoin(address, map_uri))
            played.inits.add(map_uri)

    def _place(
        self, address: str, played: PlayedRendition, number: int, uri: str, *, marked: bool
    ) -> None:
        body = self._fetch_listed(urljoin(address, uri))
        if not body:
            return
        self.on_media(urljoin(address, uri), body)
        start, end = timeline(body)
        previous = played.last
        if previous is not None and not marked and previous[1] >= 0:
            if previous[0] + 1 != number:
                self.faults.append(f"{address}: {number} follows {previous[0]}")
            elif start != previous[1]:
                self.faults.append(f"{address}: {number} begins at {start}, not at {previous[1]}")
        played.last = (number, end)
        self.newest = max(self.newest, number)
        self.segments += 1
        self._mark(address, marked=marked)


@contextmanager
def following(url: str) -> Generator[Follower]:
    """Follow a stream for the length of the block, and check that it was consistent."""
    with keeping_up(Follower(url)) as follower:
        yield follower


@contextmanager
def keeping_up(follower: Follower) -> Generator[Follower]:
    """Run a follower for the length of the block, and check that the stream was consistent."""
    with in_thread(follower.run, follower.stop):
        yield follower
        time.sleep(2 * _LOOK_SECONDS)
    assert follower.faults == []
    assert follower.looks > 0
