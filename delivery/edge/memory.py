"""The edge in this process's memory, with bounds.

Once the parts exceed their limit in bytes, the oldest are dropped. Once there are too many
playlists, the one unchanged for longest is dropped. A dropped playlist is read from the object
store; a dropped part is gone, but the store has its segment.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from delivery.edge.base import CachedPlaylist, ShownRun
from delivery.edge.live_view import LiveView
from delivery.edge.waiting import WAIT_SECONDS, WaitingRequests
from media.hls.timeline import Timeline

# 20 s at 100 Mbit/s: all rungs of a dozen streams, several segments each.
MAX_PARTS_BYTES: Final = 256 << 20
MAX_PLAYLISTS: Final = 4096  # multivariant ones, 1 kB each with its compressed copy
# Each has a playlist of 12 kB for each of five renditions: 60 MB at most, and more with a window
# of hours. Ended runs go first.
MAX_RUNS: Final = 1024
_INDEX: Final = "/index.m3u8"


class MemoryEdge:
    """The newest media of all streams of this process (see `delivery.edge.base`)."""

    def __init__(
        self,
        *,
        max_parts_bytes: int = MAX_PARTS_BYTES,
        max_playlists: int = MAX_PLAYLISTS,
        wait_seconds: float = WAIT_SECONDS,
    ) -> None:
        self._max_parts_bytes = max_parts_bytes
        self._max_playlists = max_playlists
        # Dicts keep the order of insertion.
        self._parts: dict[str, bytes] = {}
        self._playlists: dict[str, CachedPlaylist] = {}
        self._runs: dict[str, LiveView] = {}  # by folder
        self._waiting = WaitingRequests(wait_seconds=wait_seconds)
        self._held_bytes = 0

    @property
    def held_bytes(self) -> int:
        """The size in bytes of all cached parts."""
        return self._held_bytes

    async def put_part(self, address: str, data: bytes) -> None:
        """Store a part until newer ones displace it."""
        self._held_bytes -= len(self._parts.pop(address, b""))
        self._parts[address] = data
        self._held_bytes += len(data)
        while self._held_bytes > self._max_parts_bytes:
            oldest = next(iter(self._parts))
            self._held_bytes -= len(self._parts.pop(oldest))

    @property
    def waiting(self) -> int:
        """How many requests wait for a part."""
        return len(self._waiting)

    async def put_timelines(
        self,
        folder: str,
        timelines: Mapping[str, Timeline],
        *,
        low_latency: bool,
        generation: int = 0,  # noqa: ARG002  # for other processes only
    ) -> None:
        """Publish timelines of a live run, and wake the requests that wait for them."""
        run = self._runs.get(folder)
        if run is None or run.low_latency is not low_latency:
            run = LiveView(low_latency=low_latency)
        else:
            del self._runs[folder]
        self._runs[folder] = run  # the newest is last
        run.update(timelines)
        while len(self._runs) > MAX_RUNS:
            await self.drop_folder(next(iter(self._runs)))
        for name, timeline in timelines.items():
            self._waiting.wake(f"{folder}/{name}{_INDEX}", timeline)

    async def put_playlists(self, playlists: Mapping[str, str]) -> None:
        """Store playlists, replacing older ones all at once."""
        ready = {address: CachedPlaylist.from_text(text) for address, text in playlists.items()}
        for address, text in ready.items():
            self._playlists.pop(address, None)
            self._playlists[address] = text
        while len(self._playlists) > self._max_playlists:
            del self._playlists[next(iter(self._playlists))]

    async def take_over(self, folder: str, *, generation: int) -> ShownRun | None:  # noqa: ARG002
        """Return None: what the last owner showed was in its memory."""
        return None

    async def get_part(self, address: str) -> bytes | None:
        """Return a part, or None if it is not cached."""
        return self._parts.get(address)

    async def drop_parts(self, addresses: Iterable[str]) -> None:
        """Drop parts that will not be requested any more."""
        for address in addresses:
            self._held_bytes -= len(self._parts.pop(address, b""))

    async def drop_folder(self, prefix: str) -> None:
        """Drop everything below `prefix`."""
        below = prefix + "/"
        await self.drop_parts([name for name in self._parts if name.startswith(below)])
        for address in [name for name in self._playlists if name.startswith(below)]:
            del self._playlists[address]
        for folder in [name for name in self._runs if f"{name}/".startswith(below)]:
            del self._runs[folder]
        self._waiting.drop(below)

    def knows(self, address: str) -> bool:  # noqa: ARG002  # the same for all
        """Return True; this process's memory is the only cache."""
        return True

    async def catch_up(self, address: str) -> None:
        """Do nothing; this process's memory is the only cache."""

    def local_part(self, address: str) -> bytes | None:
        """Return a part, or None; this process's memory is the only cache."""
        return self._parts.get(address)

    def local_playlist(
        self, address: str, *, low_latency: bool = False, skip: bool = False
    ) -> CachedPlaylist | None:
        """Return a playlist, or None; this process's memory is the only cache."""
        playlist = self._playlists.get(address)
        if playlist is not None:
            return playlist
        run, name = self._find(address)
        return None if run is None else run.playlist(name, low_latency=low_latency, skip=skip)

    def timeline(self, address: str) -> Timeline | None:
        """Return the timeline behind the media playlist at `address` of a live run."""
        run, name = self._find(address)
        return None if run is None else run.timeline(name)

    def wait(
        self, address: str, msn: int, part: int | None, ready: Callable[[], None]
    ) -> Callable[[], None]:
        """Call `ready` once a media playlist lists a part; return what cancels that."""
        return self._waiting.add(address, msn, part, ready)

    def _find(self, address: str) -> tuple[LiveView | None, str]:
        folder, _, name = address.removesuffix(_INDEX).rpartition("/")
        return self._runs.get(folder), name
