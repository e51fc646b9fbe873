"""All streams that have a publisher or a run, by their numbers.

The registry creates the owner of a stream for its first publisher, hands later publishers to it,
and forwards commands to it: end a run, revoke a key, pause, resume, drill. Where several hosts
accept encoders, a stream is served here only while this host owns it.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, Protocol
from weakref import WeakValueDictionary

import msgspec

from ingest.stream.live_stream import LiveStream, SlotOccupied
from ingest.stream.one_host import OneHost
from ingest.stream.ports import (
    Grant,
    LiveJournal,
    OpenComparer,
    Ownership,
    PortError,
    PublishRefused,
    SinkFactory,
    StreamOwnership,
)
from ingest.stream.report import stream_report
from ingest.stream.slot_session import ConnectedPublisher, PublisherSession, SlotSession
from media.loop_lag import LoopLag
from media.no_op import do_nothing
from media.stream_keys import Slot

log = logging.getLogger(__name__)

# As long as a state may take to be written. A stream that is not released in time is found later
# among those that this host owns and does not serve.
_RELEASE_SECONDS: Final = 5.0


RenewGrant = Callable[[], Awaitable[Grant | None]]
"""Looks a publisher's key up again; None if it is no longer valid.

It raises `StreamEnded` as `KeyDirectory.grant` does, and `PortError` or `TimeoutError` if keys
cannot be looked up.
"""


class OwnedElsewhere(Exception):
    """Another host owns the stream: `owner`."""

    def __init__(self, owner: Ownership) -> None:
        super().__init__(f"generation {owner.generation} at {owner.address or 'no address'}")
        self.owner = owner


class NotRelayed(PublishRefused):
    """The stream's owner does not accept the publisher."""

    cause = "not relayed"


class LiveStreams:
    """All live streams; lives as long as its task group.

    `lag` is that of the event loop. `ownership` decides which host owns a stream; without it, this
    one owns them all. `relay` attaches publishers at other hosts; without it, publishers of their
    streams are refused. `open_comparer` makes what compares the encoders of a stream.

    Attributes:
        on_over: Called with the number of a stream that is not served here any more: all that was
            received of it is stored, as far as it can be, and it is released.
    """

    def __init__(
        self,
        sinks: SinkFactory,
        journal: LiveJournal,
        tasks: asyncio.TaskGroup,
        lag: LoopLag | None = None,
        *,
        ownership: StreamOwnership | None = None,
        relay: "StreamRelay | None" = None,
        open_comparer: OpenComparer | None = None,
    ) -> None:
        self.on_over: Callable[[int], None] = do_nothing
        self._sinks = sinks
        self._journal = journal
        self._tasks = tasks
        self._lag = lag
        self._ownership = OneHost() if ownership is None else ownership
        self._relay = relay
        self._open_comparer = open_comparer
        # One claim or release of a stream at a time.
        self._locks: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()
        self._streams: dict[int, LiveStream] = {}
        self._serving: dict[LiveStream, asyncio.Task[None]] = {}
        self._empty = asyncio.Event()
        self._empty.set()
        self._draining = False
        self._cancelled = False
        self._revocations = 0

    def __len__(self) -> int:
        return len(self._streams)

    @property
    def generations(self) -> dict[int, int]:
        """The streams that are served here, each with the generation of its ownership."""
        return {number: stream.generation for number, stream in self._streams.items()}

    @property
    def hashes(self) -> dict[int, str]:
        """The public names of the streams that are served here."""
        return {number: stream.hash for number, stream in self._streams.items()}

    @asynccontextmanager
    async def unserved(self, stream: int) -> AsyncGenerator[bool]:
        """Keep a stream from being opened for the length of the block; False if it is served."""
        async with self._lock(stream):
            yield stream not in self._streams

    def generation_of(self, stream: int) -> int:
        """Return the generation of a stream that is served here, 0 if it is not."""
        served = self._streams.get(stream)
        return 0 if served is None else served.generation

    @property
    def is_draining(self) -> bool:
        """True once the service is stopping: no publisher is accepted any more."""
        return self._draining

    async def attach(
        self, grant: Grant, publisher: ConnectedPublisher, renew: RenewGrant | None = None
    ) -> PublisherSession:
        """Give a publisher its slot.

        `renew` looks the publisher's key up again, for the host that owns its stream next.

        Raises:
            SlotOccupied: the slot has a live publisher, or the service is stopping.
            NotRelayed: another host owns the stream, and does not accept the publisher.
            PortError: the stream's owner cannot be determined.
        """
        try:
            return await self.attach_here(grant, publisher)
        except OwnedElsewhere as elsewhere:
            if self._relay is None:
                raise NotRelayed("another host serves this stream") from elsewhere
            session = await self._relay.attach(self, grant, publisher, elsewhere.owner, renew)
        # A revocation since the look-up may have reached the owner before the publisher did.
        self._revocations += 1
        return session

    async def attach_here(
        self,
        grant: Grant,
        publisher: ConnectedPublisher,
        *,
        ended_owner: int | None = None,
        silent_owner: int | None = None,
    ) -> SlotSession:
        """Give a publisher its slot if this host owns the stream, or if no other living host does.

        `ended_owner` is the generation of an owner that is known to have ended, `silent_owner` that
        of one that sends nothing to this host.

        Raises:
            SlotOccupied: the slot has a live publisher, or the service is stopping.
            OwnedElsewhere: another host owns the stream.
            PortError: the stream's owner cannot be determined.
        """
        stream = self._streams.get(grant.stream)
        if stream is None:
            async with self._lock(grant.stream):
                stream = self._streams.get(grant.stream) or await self._open(
                    grant, ended_owner, silent_owner
                )
        return await stream.attach(grant, publisher)  # never waits if the stream is empty

    async def _open(
        self, grant: Grant, ended_owner: int | None, silent_owner: int | None
    ) -> LiveStream:
        """Claim a stream and serve it; the caller attaches a publisher at once."""
        if self._draining:
            raise SlotOccupied
        owner = await self._ownership.claim(
            grant, ended_owner=ended_owner, silent_owner=silent_owner
        )
        if owner.address is not None:
            raise OwnedElsewhere(owner)
        stream = LiveStream(
            grant,
            self._sinks,
            self._journal,
            self._lag,
            owner.generation,
            self._open_comparer,
        )
        if self._draining:
            await self._release(grant, stream)
            raise SlotOccupied
        self._streams[grant.stream] = stream
        self._empty.clear()
        task = self._tasks.create_task(self._serve(grant, stream))
        self._serving[stream] = task
        # Not at the end of the task: one that is cancelled at once never begins.
        task.add_done_callback(lambda _: self._served(grant.stream, stream))
        return stream

    def _lock(self, stream: int) -> asyncio.Lock:
        return self._locks.setdefault(stream, asyncio.Lock())

    @property
    def revocations(self) -> int:
        """How often keys were revoked or streams ended; look-ups before the last time must be
        repeated.

        So must one whose publisher is relayed, since revocations reach the stream's owner alone.
        """
        return self._revocations

    async def disconnect(self, stream: int, proof: str | None, reason: str) -> int:
        """Disconnect publishers whose key is no longer valid and return their number.

        `proof` is that of the stream's present key, None if the stream was deleted.
        """
        self._revocations += 1
        served = self._streams.get(stream)
        return 0 if served is None else await served.disconnect(proof, reason)

    async def end(self, stream: int, reason: str) -> bool:
        """Disconnect a stream's publishers and end its run; return False if there was neither.

        A publisher that was waiting for its slot, or for its look-up, is looked up again.
        """
        self._revocations += 1
        served = self._streams.get(stream)
        return served is not None and await served.end(reason)

    async def pause(self, stream: int) -> bool:
        """Show the slate until `resume`; return False if there is no run."""
        served = self._streams.get(stream)
        return served is not None and await served.pause()

    async def resume(self, stream: int) -> bool:
        """Put a source on air again in a paused run; return False if there is no run."""
        served = self._streams.get(stream)
        return served is not None and await served.resume()

    async def drill(self, stream: int) -> dict[str, object]:
        """Test a stream's failover (see `LiveStream.drill`)."""
        served = self._streams.get(stream)
        return {"refused": "no encoder is on air"} if served is None else await served.drill()

    def report(self, stream: int) -> dict[str, object]:
        """Return the report of a stream's encoders (`StreamReport`) as JSON values."""
        served = self._streams.get(stream)
        report = stream_report(None, {}, frozenset(), 0.0) if served is None else served.report()
        return msgspec.to_builtins(report)

    def behind_ms(self) -> dict[tuple[str, Slot], int]:
        """Return how far encoders are behind others of their streams (see `LiveStream`)."""
        return {
            (stream.hash, slot): behind
            for stream in self._streams.values()
            for slot, behind in stream.behind_ms.items()
        }

    def rewrite_states(self) -> None:
        """Write the states of all streams again, since others may have changed what is stored."""
        for stream in self._streams.values():
            stream.rewrite_state()

    async def surrender(self, stream: int, generation: int) -> bool:
        """Stop serving a stream that another host owns; return False if it is not served.

        `generation` is that of the ownership that was lost. The publishers are disconnected.
        Nothing is written any more: what is stored of the stream belongs to its new owner.
        """
        async with self._lock(stream):
            served = self._streams.get(stream)
            if served is None or served.generation != generation:
                return False
            log.warning(
                "stream surrendered", extra={"stream": served.hash, "generation": generation}
            )
            del self._streams[stream]
            serving = self._serving[served]
            serving.cancel()
            served.surrender()
            await asyncio.wait([serving])
            return True

    def expect(self, hash_: str) -> None:
        """Prepare to serve the stream with this public name, whose owner may be gone."""
        self._sinks.expect(hash_)

    def drain(self) -> None:
        """Stop every stream but keep its run for a restart; the tasks end by themselves.

        Each stream is released as soon as its media are stored, so that another host can continue
        its run while this one still stores others.
        """
        self._draining = True
        for stream in list(self._streams.values()):
            stream.drain()

    async def wait_closed(self) -> None:
        """Wait until no stream is served any more."""
        await self._empty.wait()

    def cancel(self) -> None:
        """Stop the remaining streams at once; their runs stay open for a restart."""
        self._cancelled = True
        for task in self._serving.values():
            task.cancel()

    async def _serve(self, grant: Grant, stream: LiveStream) -> None:
        try:
            # A publisher may have been attached while the last state was being written.
            while not stream.idle:
                await stream.serve()
        except Exception:  # one stream's fault must not end the others
            log.exception("stream failed", extra={"stream": grant.hash})
            if not self._cancelled:
                # A task group that failed may have left one (see `storage.cancellation`).
                _take_back_cancellations()
                await stream.fail()
        finally:
            if self._streams.get(grant.stream) is stream:  # it was not surrendered
                del self._streams[grant.stream]
                async with self._lock(grant.stream):
                    # Keep the stream if a publisher came meanwhile; do not wait at the exit.
                    if grant.stream not in self._streams and not self._cancelled:
                        await self._release(grant, stream)

    def _served(self, number: int, stream: LiveStream) -> None:
        del self._serving[stream]
        if number not in self._streams:
            self.on_over(number)
        if not self._serving:
            self._empty.set()

    async def _release(self, grant: Grant, stream: LiveStream) -> None:
        try:
            async with asyncio.timeout(_RELEASE_SECONDS):
                await self._ownership.release(grant, stream.generation)
        except (TimeoutError, PortError) as error:
            about = {"stream": grant.hash, "cause": repr(error)}
            log.warning("stream not released", extra=about)


def _take_back_cancellations() -> None:
    task = asyncio.current_task()
    while task is not None and task.cancelling():
        task.uncancel()


class StreamRelay(Protocol):
    """Attaches publishers at other hosts (see `ingest.relay.client`)."""

    async def attach(
        self,
        streams: LiveStreams,
        grant: Grant,
        publisher: ConnectedPublisher,
        owner: Ownership,
        renew: RenewGrant | None,
    ) -> PublisherSession:
        """Give a publisher its slot at the owner of its stream, or here if that owner is gone.

        `renew` looks its key up again; without it, the grant remains as it is.

        Raises:
            SlotOccupied: the slot has a live publisher.
            NotRelayed: no owner accepts the publisher.
        """
        ...
