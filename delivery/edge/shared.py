"""The edges of a process: where it puts the streams that it makes, and where it reads all others.

With Redis, a process may make some streams and serve those of other processes, too.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from delivery.edge.base import CachedPlaylist, EdgeReader, EdgeWriter
from media.hls.timeline import Timeline
from storage.objects.addresses import live_stream_of

if TYPE_CHECKING:  # a process without Redis imports neither
    from delivery.edge.publishing import PublishingEdge
    from delivery.edge.remote import RemoteEdge


class SharedEdge:
    """Reads what this process makes from `own`, and what others make from `remote`."""

    def __init__(self, own: "PublishingEdge", remote: "RemoteEdge") -> None:
        self._own = own
        self._remote = remote

    def _of(self, address: str) -> EdgeReader:
        hash_ = live_stream_of(address)
        return self._own if hash_ is None or self._own.makes(hash_) else self._remote

    async def get_part(self, address: str) -> bytes | None:
        """Return a part, an init section or a segment; None if there is none."""
        return await self._of(address).get_part(address)

    def knows(self, address: str) -> bool:
        """Return whether this process is up to date on the stream of an address."""
        return self._of(address).knows(address)

    async def catch_up(self, address: str) -> None:
        """Bring this process up to date on the stream of an address."""
        await self._of(address).catch_up(address)

    def local_part(self, address: str) -> bytes | None:
        """Return a part from this process's memory."""
        return self._of(address).local_part(address)

    def local_playlist(
        self, address: str, *, low_latency: bool = False, skip: bool = False
    ) -> CachedPlaylist | None:
        """Return a playlist from this process's memory."""
        return self._of(address).local_playlist(address, low_latency=low_latency, skip=skip)

    def timeline(self, address: str) -> Timeline | None:
        """Return the timeline behind the media playlist at `address` of a live run."""
        return self._of(address).timeline(address)

    def wait(
        self, address: str, msn: int, part: int | None, ready: Callable[[], None]
    ) -> Callable[[], None]:
        """Call `ready` once a media playlist lists a part; return what cancels that."""
        return self._of(address).wait(address, msn, part, ready)


class Edges(msgspec.Struct, frozen=True, kw_only=True):
    """The edges of a process: `writer` has the streams that it makes, `reader` all that it serves.

    `publishing` and `remote` are the parts of them that use Redis, if there are any.
    """

    writer: EdgeWriter
    reader: EdgeReader
    publishing: "PublishingEdge | None" = None
    remote: "RemoteEdge | None" = None

    async def drop_folder(self, prefix: str) -> None:
        """Drop everything below `prefix`; what another process publishes is read again."""
        await self.writer.drop_folder(prefix)
        if self.remote is not None:
            await self.remote.drop_folder(prefix)
