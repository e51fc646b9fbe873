"""Ownership of streams among the hosts of a shared catalog.

A host claims a stream when its first encoder connects, and releases it when its run has ended. It
stops serving a stream that another host owns, which it learns from the catalog and from every write
to the bucket. A host that cannot reach the catalog continues: without the catalog no other host can
take its streams, and if it alone is cut off, it detects a takeover when it writes.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

from delivery.edge.base import EdgeWriter
from headend.hosts.presence import HostPresence
from ingest.stream.ports import Grant, Ownership, PortError
from ingest.stream.registry import LiveStreams
from media.stream_keys import PublicHash
from storage.catalog import Catalog
from storage.catalog.hosts.owners import OrphanedStream
from storage.errors import HostGone, StorageError
from storage.objects.addresses import live_stream
from transcode.live.service import LiveTranscoding

log = logging.getLogger(__name__)

_INTERVAL_SECONDS: Final = 2.0
# Orphaned streams that are checked concurrently: a bucket answers after some 20 ms.
_CONCURRENCY: Final = 16


class CatalogOwnership:
    """Claims and releases streams in the catalog; an `ingest.stream.ports.StreamOwnership`."""

    def __init__(self, catalog: Catalog, presence: HostPresence) -> None:
        self._catalog = catalog
        self._presence = presence

    async def claim(
        self, grant: Grant, *, ended_owner: int | None = None, silent_owner: int | None = None
    ) -> Ownership:
        """Return the stream's owner: this host or one with room, if no living host owns it.

        Raises:
            PortError: the owner cannot be determined at present.
        """
        try:
            return await self.claim_stream(
                grant.stream, ended_owner=ended_owner, silent_owner=silent_owner, hand_over=True
            )
        except StorageError as error:
            raise PortError(str(error)) from error

    async def release(self, grant: Grant, generation: int) -> None:
        """Release a stream; `OrphanedRuns` checks later whether its last run has ended.

        Raises:
            PortError: it could not be stored.
        """
        try:
            await self.release_stream(grant.stream, generation, ended=False)
        except StorageError as error:
            raise PortError(str(error)) from error

    async def claim_stream(
        self,
        stream: int,
        *,
        ended_owner: int | None = None,
        silent_owner: int | None = None,
        hand_over: bool = False,
    ) -> Ownership:
        """Return the owner of the stream with this number, as `claim` does.

        With `hand_over` it may become another host, if this one has no room.

        Raises:
            StorageError: the owner cannot be determined at present.
        """
        host = self._presence.host
        if host is None:
            raise HostGone(0)
        owner = await self._catalog.owners.claim(
            stream,
            host,
            dead_seconds=self._presence.dead_seconds,
            ended_owner=ended_owner,
            silent_owner=silent_owner,
            hand_over=hand_over,
        )
        address = None if owner.host == host else (owner.address or "")
        return Ownership(generation=owner.generation, address=address)

    async def release_stream(self, stream: int, generation: int, *, ended: bool) -> None:
        """Release the stream with this number; `ended`: none of its runs is open.

        Raises:
            StorageError: it could not be stored.
        """
        if self._presence.host is not None:
            await self._catalog.owners.release(stream, self._presence.host, generation, ended=ended)

    async def find_orphaned(self, after: int = 0) -> tuple[OrphanedStream, ...]:
        """Return the next streams whose owners are gone, if this is the first living host.

        They have numbers greater than `after`, in that order; empty if there are no more.

        Raises:
            StorageError: the catalog does not answer.
        """
        host = self._presence.host
        if host is None:
            return ()
        seconds = self._presence.dead_seconds
        return await self._catalog.owners.find_orphaned(host, seconds, after=after)

    async def forget(self, streams: Sequence[OrphanedStream]) -> None:
        """Record that these streams, which were released, have no open run.

        Raises:
            StorageError: the catalog does not answer.
        """
        await self._catalog.owners.forget(streams)

    async def end_pause(self, hash_: PublicHash) -> None:
        """End the pause of a stream that has no run any more.

        Raises:
            StorageError: the catalog does not answer.
        """
        await self._catalog.live_state.end_pauses([hash_], self._catalog.clock.now_us())


class OwnershipWatch:
    """Stops this host from serving streams that another host owns by now."""

    def __init__(self, streams: LiveStreams, edge: EdgeWriter) -> None:
        self._streams = streams
        self._edge = edge
        self._served: dict[int, int] = {}  # by number, when the catalog was read last
        self._was_unseen = False
        self._lost: asyncio.Queue[tuple[int, int]] = asyncio.Queue()

    def on_owned(self, owned: Mapping[int, int]) -> None:
        """Handle what this host owns: generations, by the numbers of the streams."""
        if self._was_unseen:  # others may have marked its streams off air meanwhile
            self._was_unseen = False
            self._streams.rewrite_states()
        served = self._streams.generations
        for stream, generation in served.items():
            # What was claimed since the catalog was read is not in `owned` yet.
            if self._served.get(stream) == generation != owned.get(stream):
                self._lost.put_nowait((stream, generation))
        self._served = served

    def on_unseen(self) -> None:
        """Handle that this host was not seen for so long that it counts as dead."""
        self._was_unseen = True

    def on_run_lost(self, hash_: str, generation: int) -> None:
        """Handle that the run of a stream was taken over."""
        for stream, served in self._streams.hashes.items():
            if served == hash_:
                self._lost.put_nowait((stream, generation))

    async def run(self) -> None:
        """Stop what was lost, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                tasks.create_task(self._surrender(*await self._lost.get()))

    async def _surrender(self, stream: int, generation: int) -> None:
        hash_ = self._streams.hashes.get(stream)
        try:
            if hash_ is not None and await self._streams.surrender(stream, generation):
                # Viewers get what its owner publishes.
                await self._edge.drop_folder(live_stream(hash_))
        except Exception:  # one stream's fault must not prevent the others
            log.exception("stream not surrendered", extra={"stream": hash_})


class SoleRuns:
    """Ends runs where this host owns all streams."""

    def __init__(self, transcoding: LiveTranscoding) -> None:
        self._transcoding = transcoding

    async def end_interrupted(self, stream: int, hash_: str) -> bool:
        """End a run that a restart left open; return False if there is none."""
        del stream
        return await self._transcoding.end_interrupted(hash_)


class OrphanedRuns:
    """Ends runs that no host serves.

    It does so at once by command, and otherwise if the host that owned the run is gone and the
    encoder did not return to any host: players would wait for ever in a playlist without an end.
    Only the first living host does so. `reconnect_seconds` is how long a run waits for its encoder
    if the stream has no setting.

    It also releases streams that this host owns and does not serve, because the answer to a claim
    or a release was lost.
    """

    def __init__(
        self,
        ownership: CatalogOwnership,
        streams: LiveStreams,
        transcoding: LiveTranscoding,
        *,
        reconnect_seconds: float,
    ) -> None:
        self._ownership = ownership
        self._streams = streams
        self._transcoding = transcoding
        self._reconnect_seconds = reconnect_seconds
        self._first_seen: dict[tuple[int, int], float] = {}  # when it was first found orphaned
        self._failed: dict[int, OrphanedStream] = {}  # claimed, maybe, and not ended yet
        self._owned: Mapping[int, int] = {}  # by the catalog, which was read recently
        self._unserved: dict[int, int] = {}  # of these, at the last check
        self._held: Counter[int] = Counter()  # uses of `holding`, by stream

    def on_owned(self, owned: Mapping[int, int]) -> None:
        """Handle what this host owns: generations, by the numbers of the streams."""
        self._owned = owned

    async def end_interrupted(self, stream: int, hash_: str) -> bool:
        """End a run that no host serves; return False if there is none.

        Raises:
            StorageError: the catalog or the store failed.
        """
        async with self._streams.unserved(stream) as free:
            if not free:
                return False
            owner = await self._ownership.claim_stream(stream)
            if owner.address is not None:
                return False
            ended = await self._transcoding.end_interrupted(hash_, owner.generation)
            await self._ownership.release_stream(stream, owner.generation, ended=True)
            return ended

    @asynccontextmanager
    async def holding(self, stream: int) -> AsyncGenerator[bool]:
        """Own a stream for the length of the block; False if another host owns it.

        Raises:
            StorageError: the catalog does not answer.
        """
        if stream in self._streams.generations:
            yield True
            return
        self._held[stream] += 1
        try:
            async with self._streams.unserved(stream):  # one claim or release at a time
                owner = await self._ownership.claim_stream(stream)
            try:
                yield owner.address is None
            finally:
                async with self._streams.unserved(stream) as free:
                    if free and owner.address is None and self._held[stream] == 1:
                        await self._ownership.release_stream(stream, owner.generation, ended=False)
        finally:
            self._held -= Counter([stream])

    async def run(self) -> None:
        """End runs whose owners are gone, until cancelled."""
        clock = asyncio.get_running_loop().time
        while True:
            await asyncio.sleep(_INTERVAL_SECONDS)
            try:
                await self.end_due(clock())
            except StorageError as error:
                log.warning("abandoned runs not listed", extra={"cause": repr(error)})

    async def end_due(self, now: float) -> None:
        """End the runs that have been orphaned for too long; `now` is in seconds.

        Failures are retried by the next call, since a stream that was claimed is not orphaned.

        Raises:
            StorageError: the catalog does not answer.
        """
        first_seen: dict[tuple[int, int], float] = {}
        due: dict[int, OrphanedStream] = {}
        after = 0
        while page := await self._ownership.find_orphaned(after):
            after = page[-1].stream
            for orphan in await self._without_ended(page):
                key = orphan.stream, orphan.generation
                first_seen[key] = self._first_seen.get(key, now)
                if now - first_seen[key] >= self._patience(orphan):
                    due[orphan.stream] = orphan
        self._first_seen = first_seen
        await _for_each((self._failed | due).values(), self._end)
        await self._release_unserved()

    def _patience(self, orphan: OrphanedStream) -> float:
        seconds = orphan.reconnect_seconds
        return self._reconnect_seconds if seconds is None else seconds

    async def _without_ended(self, page: Sequence[OrphanedStream]) -> list[OrphanedStream]:
        """Forget the streams of a page that have no open run; return the others.

        Only released streams are forgotten: an owner that seems gone may resume and begin a run.
        """
        ended: dict[int, OrphanedStream] = {}

        async def check(orphan: OrphanedStream) -> None:
            with suppress(StorageError):
                if not await self._transcoding.has_open_run(orphan.hash):
                    ended[orphan.stream] = orphan

        new_orphans = [
            orphan for orphan in page if (orphan.stream, orphan.generation) not in self._first_seen
        ]
        await _for_each(
            [orphan for orphan in new_orphans if orphan.released and not orphan.paused], check
        )
        await self._ownership.forget(list(ended.values()))
        return [orphan for orphan in page if orphan.stream not in ended]

    async def _end(self, orphan: OrphanedStream) -> None:
        try:
            await self.end_interrupted(orphan.stream, orphan.hash)
            await self._ownership.end_pause(orphan.hash)
        except StorageError as error:
            if orphan.stream not in self._failed:  # once, however long it lasts
                log.warning("run not ended", extra={"stream": orphan.hash, "cause": str(error)})
            self._failed[orphan.stream] = orphan
        else:
            self._failed.pop(orphan.stream, None)

    async def _release_unserved(self) -> None:
        """Release the streams that this host has owned, but not served, since the last call."""
        busy = self._streams.generations.keys() | self._failed.keys() | self._held.keys()
        unserved = {number: each for number, each in self._owned.items() if number not in busy}
        for stream, generation in unserved.items():
            if self._unserved.get(stream) != generation:
                continue
            async with self._streams.unserved(stream) as free:
                if free and stream not in self._held:
                    log.warning("unserved stream released", extra={"number": stream})
                    await self._ownership.release_stream(stream, generation, ended=False)
        self._unserved = unserved


async def _for_each(
    orphans: Collection[OrphanedStream], work: Callable[[OrphanedStream], Awaitable[None]]
) -> None:
    """Do some work for each of these streams, for `_CONCURRENCY` of them at a time."""
    waiting = iter(orphans)

    async def work_off() -> None:
        for orphan in waiting:
            await work(orphan)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(min(len(orphans), _CONCURRENCY)):
            tasks.create_task(work_off())
