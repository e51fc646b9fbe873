"""Runs and what they share: where their media are kept, and the CPU of one machine."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from typing import Final

from media.no_op import do_nothing_async
from storage.edge.base import Edge
from storage.errors import StorageError
from storage.live.publication import LiveWindow, Publication
from storage.objects.base import Objects
from storage.recording.recorder import Recorder
from transcode.live.cpu_idle import IdleMeter
from transcode.live.live_run import LiveRun
from transcode.live.load_shedding import Governor
from transcode.live.posters import LivePosters

__all__ = ["Chronicle", "LiveTranscoding"]

log = logging.getLogger(__name__)

_CLOSE_SECONDS: Final = 10.0
_EVER: Final = 100 * 365 * 86_400.0  # seconds: however long ago
_GOVERN_SECONDS: Final = 1.0
# An event that cannot be written must not hold a run up.
_CHRONICLE_SECONDS: Final = 5.0
# Nor may a slate's picture, which is read from the disk.
_PICTURE_SECONDS: Final = 2.0
# A JPEG of 1920 x 1080 has 2 MB at most; an engine takes no order of 64 MiB.
_PICTURE_BYTES: Final = 8 << 20

# Stream, kind and facts of an event.
Chronicle = Callable[[str, str, dict[str, object]], Awaitable[None]]


class LiveTranscoding:
    """Makes runs: binds engines to the places where their media is kept.

    `chronicle` is told what the streams' owners may want to know; what it raises as `StorageError`
    is logged. `posters` keeps the pictures that stand for the streams; None: none are made.
    `recorder` makes videos of runs, None: nobody does.
    """

    def __init__(
        self,
        *,
        objects: Objects,
        edge: Edge,
        window: LiveWindow,
        wall_us: Callable[[], int] = lambda: time.time_ns() // 1000,
        chronicle: Chronicle = do_nothing_async,
        posters: LivePosters | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        self.wall_us = wall_us
        self.runs: dict[str, LiveRun] = {}
        self._objects = objects
        self._edge = edge
        self._listed = window
        self._chronicle = chronicle
        self._posters = posters
        self._recorder = recorder
        self._recorded: dict[str, int] = {}  # by stream: for how many days its runs are kept
        self._opening = asyncio.Lock()

    async def happened(self, stream: str, kind: str, facts: dict[str, object]) -> None:
        """Write an event down; one that cannot be written is lost, and the log says so."""
        try:
            async with asyncio.timeout(_CHRONICLE_SECONDS):
                await self._chronicle(stream, kind, facts)
        except (StorageError, TimeoutError) as error:
            log.warning("event not written", extra={"stream": stream, "cause": repr(error)})

    async def picture(self, stream: str, address: str) -> bytes | None:
        """Return an owner's picture; where it cannot be had the log says so."""
        try:
            async with asyncio.timeout(_PICTURE_SECONDS):
                stat = await self._objects.stat(address)
                if stat is not None and stat.size <= _PICTURE_BYTES:
                    return await self._objects.get(address)
                cause = "too large" if stat is not None else "no such object"
        except (StorageError, TimeoutError) as error:
            cause = repr(error)
        log.warning("slate not read", extra={"stream": stream, "cause": cause})
        return None

    @property
    def is_shedding(self) -> bool:
        """Whether a run does without rungs, as the machine cannot make all of them."""
        return any(run.figures.off for run in self.runs.values())

    async def govern(self) -> None:
        """Shed rungs where runs fall behind, and let them return: until cancelled."""
        governor, meter = Governor(), IdleMeter()
        before = time.monotonic()
        while True:
            await asyncio.sleep(_GOVERN_SECONDS)
            now = time.monotonic()
            idle, before = meter.idle(now - before), now
            loads = [load for run in self.runs.values() if (load := run.load()) is not None]
            for stream, off in governor.decide(now, loads, idle).items():
                await self.runs[stream].make_all_but(off)

    async def open_publication(self, stream: str, window: float, *, picture: bool) -> Publication:
        """Go on with the stream's newest run where a restart cut it off, else begin another."""
        async with self._opening:
            resumed = await self._resume(stream, window)
            if resumed is not None:
                if bool(resumed.renditions) is picture:
                    self._record(resumed)
                    return resumed
                await resumed.finish()
            publication = await Publication.open(
                self._objects, self._edge, hash=stream, now_us=self.wall_us(), window=self._listed
            )
            self._record(publication)
            return publication

    def _record(self, publication: Publication) -> None:
        """Have a run recorded; a recording that a restart cut off goes on in any case."""
        if self._recorder is not None:
            days = self._recorded.get(publication.hash)
            self._recorder.follow(publication, may_begin=days is not None, keep_days=days or 0)
            self._recorder.check_ended()  # the run before it is over

    async def end_abandoned(self, streams: Collection[str], window: float) -> None:
        """End the runs that a stop cut off and whose encoders did not come back.

        Those older than `window` seconds are ended at once, the others when it is over; a player
        would else wait in an open playlist for ever.
        """
        for patience in (0.0, window):
            await asyncio.sleep(patience)
            for stream in streams:
                try:
                    await self._end_abandoned(stream, 0.0 if patience else window)
                except StorageError as error:
                    log.warning("run not ended", extra={"stream": stream, "cause": str(error)})

    async def end_left(self, stream: str) -> bool:
        """End the stream's run that a stop cut off, at once; False where there is none."""
        return await self._end_abandoned(stream, 0.0)

    async def _end_abandoned(self, stream: str, window: float) -> bool:
        async with self._opening:
            going_on = stream in self.runs or await self._resume(stream, window) is not None
            left = None if going_on else await self._resume(stream, _EVER)
            if left is not None:
                await left.finish()
                log.info("run ended", extra={"stream": stream, "run": left.run})
                if self._recorder is not None:
                    self._recorder.check_ended()
            return left is not None

    async def _resume(self, stream: str, within: float) -> Publication | None:
        return await Publication.resume(
            self._objects,
            self._edge,
            hash=stream,
            now_us=self.wall_us(),
            window=self._listed,
            within_seconds=within,
        )

    @asynccontextmanager
    async def run(
        self,
        *,
        stream: str,
        active: frozenset[str],
        window: float,
        notify: Callable[[], None],
        record: bool = False,
        keep_days: int = 30,
        slate: str | None = None,
    ) -> AsyncGenerator[LiveRun, None]:
        """Open a run for the length of the block (see `ingest.stream.ports.SinkFactory`).

        `record` keeps it as a video, for `keep_days` days. `slate` is the object that viewers see
        while nobody is on air, a JPEG; None is a card.
        """
        run = LiveRun(
            home=self,
            stream=stream,
            active=active,
            window=window,
            notify=notify,
            posters=self._posters,
            slate=slate,
        )
        kept = self._kept(stream, keep_days if record else None)
        async with kept, asyncio.TaskGroup() as tasks:
            serving = tasks.create_task(run.serve())
            self.runs[stream] = run
            try:
                yield run
                run.close()
                try:
                    async with asyncio.timeout(_CLOSE_SECONDS):
                        await serving
                except TimeoutError:
                    # Its engine did not get through with what was left: that is lost, the run is
                    # not. In a playlist without an end viewers would wait for ever.
                    log.warning("run cut short", extra={"stream": stream})
                    await run.over()
            finally:
                del self.runs[stream]
                serving.cancel()

    @asynccontextmanager
    async def _kept(self, stream: str, days: int | None) -> AsyncGenerator[None, None]:
        """Have the stream's run recorded where `days` says so, up to its last step."""
        if days is not None:
            self._recorded[stream] = days
        try:
            yield
        finally:
            self._recorded.pop(stream, None)
            if self._recorder is not None:
                await self._recorder.release(stream)
