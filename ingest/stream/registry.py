"""All streams that have a publisher or a run, by their numbers.

The registry creates the owner of a stream for its first publisher, hands later publishers to it,
and forwards the commands of the outside: end a run, revoke a key, pause, resume, drill.
"""

import asyncio
import logging

import msgspec

from ingest.stream.live_stream import LiveStream, SlotOccupied
from ingest.stream.ports import Grant, LiveJournal, SinkFactory
from ingest.stream.report import stream_report
from ingest.stream.slot_session import ConnectedPublisher, SlotSession
from media.loop_lag import LoopLag

__all__ = ["LiveStreams"]

log = logging.getLogger(__name__)


class LiveStreams:
    """All live streams; lives as long as its task group. `lag` is that of the event loop."""

    def __init__(
        self,
        sinks: SinkFactory,
        journal: LiveJournal,
        tasks: asyncio.TaskGroup,
        lag: LoopLag | None = None,
    ) -> None:
        self._sinks = sinks
        self._journal = journal
        self._tasks = tasks
        self._lag = lag
        self._streams: dict[int, LiveStream] = {}
        self._serving: dict[LiveStream, asyncio.Task[None]] = {}
        self._empty = asyncio.Event()
        self._empty.set()
        self._draining = False
        self._revocations = 0

    def __len__(self) -> int:
        return len(self._streams)

    async def attach(self, grant: Grant, publisher: ConnectedPublisher) -> SlotSession:
        """Give a publisher its slot.

        Raises:
            SlotOccupied: the slot has a live publisher, or the service is stopping.
        """
        if self._draining:
            raise SlotOccupied
        stream = self._streams.get(grant.stream)
        if stream is not None:
            return await stream.attach(grant, publisher)
        stream = LiveStream(grant, self._sinks, self._journal, self._lag)
        self._streams[grant.stream] = stream
        session = await stream.attach(grant, publisher)  # never waits: the stream is empty
        self._empty.clear()
        self._serving[stream] = self._tasks.create_task(self._serve(grant, stream))
        return session

    @property
    def revocations(self) -> int:
        """How often keys were revoked; look-ups before the last revocation must be repeated."""
        return self._revocations

    async def disconnect(self, stream: int, proof: str | None, reason: str) -> int:
        """Disconnect publishers whose key is no longer valid and return their number.

        `proof` is that of the stream's present key, None if the stream was deleted.
        """
        self._revocations += 1
        served = self._streams.get(stream)
        return 0 if served is None else await served.disconnect(proof, reason)

    async def end(self, stream: int, reason: str) -> bool:
        """Disconnect a stream's publishers and end its run; return False if there was neither."""
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

    def drain(self) -> None:
        """Stop every stream but keep its run for a restart; the tasks end by themselves."""
        self._draining = True
        for stream in list(self._streams.values()):
            stream.drain()

    async def wait_closed(self) -> None:
        """Wait until no stream is served any more."""
        await self._empty.wait()

    def cancel(self) -> None:
        """Stop the remaining streams at once; their runs stay open for a restart."""
        for task in self._serving.values():
            task.cancel()

    async def _serve(self, grant: Grant, stream: LiveStream) -> None:
        try:
            # A publisher may have been attached while the last state was being written.
            while not stream.idle:
                await stream.serve()
        except Exception:  # one stream's fault must not end the others
            log.exception("stream failed", extra={"stream": grant.hash})
            await stream.fail()
        finally:
            if self._streams.get(grant.stream) is stream:
                del self._streams[grant.stream]
            del self._serving[stream]
            if not self._serving:
                self._empty.set()
