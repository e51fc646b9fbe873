"""The edge of a process that makes some streams, and serves those of other processes too.

Its own streams come from its memory, all others from Redis.
"""

from collections.abc import Callable, Iterable, Mapping

from delivery.edge.base import CachedPlaylist, Edge, ShownRun
from delivery.edge.publishing import PublishingEdge
from media.hls.timeline import Timeline
from storage.objects.addresses import live_stream_of

__all__ = ["SharedEdge", "publishing_edge"]


class SharedEdge:
    """What this process makes is in `own`, what others make in `remote`."""

    def __init__(self, own: PublishingEdge, remote: Edge) -> None:
        self.own = own
        self.remote = remote

    def _of(self, address: str) -> Edge:
        hash_ = live_stream_of(address)
        return self.own if hash_ is None or self.own.makes(hash_) else self.remote

    async def put_part(self, address: str, data: bytes) -> None:
        """Store a part, an init section or a segment of a stream that this process makes."""
        await self.own.put_part(address, data)

    async def put_timelines(
        self,
        folder: str,
        timelines: Mapping[str, Timeline],
        *,
        low_latency: bool,
        generation: int = 0,
    ) -> None:
        """Publish timelines of a run that this process makes."""
        await self.own.put_timelines(
            folder, timelines, low_latency=low_latency, generation=generation
        )

    async def put_playlists(self, playlists: Mapping[str, str]) -> None:
        """Store playlists of streams that this process makes."""
        await self.own.put_playlists(playlists)

    async def take_over(self, folder: str, *, generation: int) -> ShownRun | None:
        """Return what viewers see of a run that this process makes from now on."""
        return await self.own.take_over(folder, generation=generation)

    async def drop_parts(self, addresses: Iterable[str]) -> None:
        """Drop parts of streams that this process makes."""
        await self.own.drop_parts(addresses)

    async def drop_folder(self, prefix: str) -> None:
        """Drop everything below `prefix`; what another process publishes is read again."""
        await self.own.drop_folder(prefix)
        await self.remote.drop_folder(prefix)

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


def publishing_edge(edge: Edge) -> PublishingEdge | None:
    """Return what publishes the streams that this process makes, if anything does."""
    own = edge.own if isinstance(edge, SharedEdge) else edge
    return own if isinstance(own, PublishingEdge) else None
