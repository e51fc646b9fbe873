"""All streams that are on their way to viewers now, by their numbers.

It makes the owner of a stream when its first publisher comes, hands publishers on to it, and passes
on what is ordered from outside: that a run ends, that a key is no longer right.
"""

import asyncio
import logging

import msgspec

from ingest.stream.live_stream import LiveStream, Occupied
from ingest.stream.ports import Grant, LiveJournal, SinkFactory
from ingest.stream.report import report_of
from ingest.stream.slot_session import Publisher, Seat

__all__ = ["LiveStreams"]

log = logging.getLogger(__name__)


class LiveStreams:
    """All streams that are on their way now; lives as long as its task group."""

    def __init__(self, sinks: SinkFactory, journal: LiveJournal, tasks: asyncio.TaskGroup) -> None:
        self._sinks = sinks
        self._journal = journal
        self._tasks = tasks
        self._streams: dict[int, LiveStream] = {}
        self._serving: dict[LiveStream, asyncio.Task[None]] = {}
        self._empty = asyncio.Event()
        self._empty.set()
        self._draining = False
        self._orders = 0

    def __len__(self) -> int:
        return len(self._streams)

    async def seat(self, grant: Grant, publisher: Publisher) -> Seat:
        """Give a publisher its slot.

        Raises:
            Occupied: the slot has a live publisher, or the service is stopping.
        """
        if self._draining:
            raise Occupied
        stream = self._streams.get(grant.stream)
        if stream is not None:
            return await stream.seat(grant, publisher)
        stream = LiveStream(grant, self._sinks, self._journal)
        self._streams[grant.stream] = stream
        seat = await stream.seat(grant, publisher)  # an empty stream: it does not wait
        self._empty.clear()
        self._serving[stream] = self._tasks.create_task(self._serve(grant, stream))
        return seat

    @property
    def orders(self) -> int:
        """How often keys have ceased to be right; who looked one up before must look again."""
        return self._orders

    async def disconnect(self, stream: int, proof: str | None, reason: str) -> int:
        """Take off who publishes with a key that is not right any more; returns how many.

        `proof` is that of the stream's present key, None where the stream is gone.
        """
        self._orders += 1
        served = self._streams.get(stream)
        return 0 if served is None else await served.disconnect(proof, reason)

    async def end(self, stream: int, reason: str) -> bool:
        """Take a stream's publishers off and end its run; False where there was neither."""
        served = self._streams.get(stream)
        return served is not None and await served.end(reason)

    async def pause(self, stream: int) -> bool:
        """Give a run's viewers the slate until `resume`; False where there is no run."""
        served = self._streams.get(stream)
        return served is not None and await served.pause()

    async def resume(self, stream: int) -> bool:
        """Give a paused run's viewers a source again; False where there is no run."""
        served = self._streams.get(stream)
        return served is not None and await served.resume()

    async def drill(self, stream: int) -> dict[str, object]:
        """Try a stream's failover (see `LiveStream.drill`)."""
        served = self._streams.get(stream)
        return {"refused": "no encoder is on air"} if served is None else await served.drill()

    def report(self, stream: int) -> dict[str, object]:
        """Return what a stream's encoders send (`media.encoder_report.StreamReport`), fit for
        JSON."""
        served = self._streams.get(stream)
        found = report_of(None, {}, frozenset(), 0.0) if served is None else served.report()
        return msgspec.to_builtins(found)

    def drain(self) -> None:
        """Stop every stream, keeping its run for a restart; their tasks end by themselves."""
        self._draining = True
        for stream in list(self._streams.values()):
            stream.drain()

    async def gone(self) -> None:
        """Wait until no stream is served any more."""
        await self._empty.wait()

    def cancel(self) -> None:
        """End the streams that are left at once; their runs stay open for a restart."""
        for task in self._serving.values():
            task.cancel()

    async def _serve(self, grant: Grant, stream: LiveStream) -> None:
        try:
            # A newcomer may have sat down while the last state was being written.
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
