"""The protocols of the edge: the newest parts and playlists in memory, by address.

The edge is a cache. What it does not hold is read from the object store.
"""

import gzip
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Protocol

from media.hls.timeline import Timeline

# Appended to the address of a live multivariant playlist for players that do not want low latency;
# the playlists that it names have the same query.
NORMAL_LATENCY: Final = "?latency=normal"


@dataclass(frozen=True)
class CachedPlaylist:
    """A playlist ready to be sent."""

    body: bytes

    @classmethod
    def from_text(cls, text: str) -> "CachedPlaylist":
        """Return the playlist with this text."""
        return cls(text.encode())

    @cached_property
    def compressed(self) -> bytes:
        """The body, gzipped; equal bodies give equal bytes."""
        # On playlists level 6 halves the size of level 1, at about 0.1 ms.
        return gzip.compress(self.body, 6, mtime=0)

    @cached_property
    def tag(self) -> str:
        """The entity tag, without quotes."""
        return hashlib.blake2b(self.body, digest_size=12).hexdigest()


class ShownRun(Protocol):
    """What viewers see of a run that its owner has left."""

    @property
    def timelines(self) -> Mapping[str, Timeline]:
        """The timelines, by rendition."""
        ...

    @property
    def playlists(self) -> Mapping[str, str]:
        """The multivariant playlists of the stream, by address."""
        ...

    async def read(self, addresses: Sequence[str]) -> dict[str, bytes]:
        """Return those of these parts, init sections and segments that there are, by address."""
        ...


class EdgeWriter(Protocol):
    """What a process that makes live streams tells the edge."""

    async def put_part(self, address: str, data: bytes) -> None:
        """Store a part, an init section or a segment until newer ones displace it."""
        ...

    async def put_timelines(
        self,
        folder: str,
        timelines: Mapping[str, Timeline],
        *,
        low_latency: bool,
        generation: int = 0,
    ) -> None:
        """Publish timelines of a live run, by rendition, and wake the requests that wait for them.

        `folder` is that of the run. With `low_latency` its playlists have the tags of low latency.
        `generation` rises with each owner of the stream: other processes ignore an owner whose
        generation is over.
        """
        ...

    async def put_playlists(self, playlists: Mapping[str, str]) -> None:
        """Store playlists, replacing older ones all at once."""
        ...

    async def take_over(self, folder: str, *, generation: int) -> ShownRun | None:
        """Return what viewers see of the run in a folder, to which its last owner adds no more.

        None is returned if it is not known. `generation` is that of the next owner.
        """
        ...

    async def drop_parts(self, addresses: Iterable[str]) -> None:
        """Drop parts that will not be requested any more."""
        ...

    async def drop_folder(self, prefix: str) -> None:
        """Drop everything below `prefix`."""
        ...


class EdgeReader(Protocol):
    """What viewers get of live streams, whichever process makes them."""

    async def get_part(self, address: str) -> bytes | None:
        """Return a part, an init section or a segment; None if it is not cached."""
        ...

    def knows(self, address: str) -> bool:
        """Return whether this process is up to date on the stream that an address belongs to.

        If not, `catch_up` may bring it up to date.
        """
        ...

    async def catch_up(self, address: str) -> None:
        """Bring this process up to date on the stream of an address, as far as possible."""
        ...

    def local_part(self, address: str) -> bytes | None:
        """Return a part from this process's memory; `get_part` may still find it elsewhere."""
        ...

    def local_playlist(
        self, address: str, *, low_latency: bool = False, skip: bool = False
    ) -> CachedPlaylist | None:
        """Return a playlist, or None if it is not in memory.

        The playlist of a live rendition has the tags of low latency if `low_latency` is set; with
        `skip` it is a delta update.
        """
        ...

    def timeline(self, address: str) -> Timeline | None:
        """Return the timeline behind the media playlist at `address` of a live run."""
        ...

    def wait(
        self, address: str, msn: int, part: int | None, ready: Callable[[], None]
    ) -> Callable[[], None]:
        """Call `ready` once a media playlist lists a part; return what cancels that.

        With `part` None, wait for the whole segment. `ready` is also called if that will not
        happen: the run has ended or is gone, or three target durations have passed since the first
        request for the same part.
        """
        ...
