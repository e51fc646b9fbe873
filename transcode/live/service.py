"""The live runs of a process, and what they share: storage, events, and the machine's CPU."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final
from weakref import WeakValueDictionary

from delivery.edge.base import EdgeWriter
from delivery.run.observers import ObserverFactory
from delivery.run.publication import Publication
from delivery.run.run_objects import RunOwner
from delivery.run.run_state import LiveWindow
from delivery.run.run_store import newest_run
from media.loop_lag import LoopLag
from media.no_op import do_nothing
from media.run_policy import ResolvedPolicy
from media.stream_events import StreamEvent
from storage.errors import StorageError
from storage.objects.base import Objects
from storage.wall_clock import wall_clock_us
from transcode.live.cpu_idle import IdleMeter
from transcode.live.engine_deaths import EngineDeaths
from transcode.live.live_run import LiveRun
from transcode.live.load_shedding import LoadShedder, RunLoad
from transcode.live.ports import RunSettings
from transcode.live.posters import LivePosters
from transcode.live.room import RoomMeter
from transcode.live.spare_engines import SpareEngines
from transcode.protocol.engine_process import EngineProcess

log = logging.getLogger(__name__)

_CLOSE_SECONDS: Final = 10.0
_ANY_AGE: Final = 100 * 365 * 86_400.0  # seconds: however long ago
_SHEDDING_SECONDS: Final = 1.0
# A slate's image that cannot be read must not hold up a run.
_PICTURE_SECONDS: Final = 2.0
# A JPEG of 1920 x 1080 has 2 MB at most; an engine refuses a message of 64 MiB.
_PICTURE_BYTES: Final = 8 << 20

# Stream, kind and facts of an event; returns at once.
RecordEvent = Callable[[str, StreamEvent], None]


class LiveTranscoding:
    """Opens live runs and connects them to storage.

    `record_event` records events for the streams' owners (see `transcode.live.event_queue`).
    `posters` stores posters of the streams (None: none are made); each run is offered to
    `observers`. `lag` is that of the event loop. With `fenced` other hosts may write to the same
    store. `wall_us` is this host's clock. `now_us` is the one that all these hosts share, by which
    runs are named and dated; None: this host's.

    Attributes:
        on_lost: Called with a stream and the generation by which this host owned it, once another
            host is found to have taken its run over.
        on_stored: Called with a stream and the time until which its media are stored, by their
            arrival, in microseconds since the Unix epoch.
    """

    def __init__(  # noqa: PLR0913  # the parts of the service, each by its name
        self,
        *,
        objects: Objects,
        edge: EdgeWriter,
        window: LiveWindow,
        wall_us: Callable[[], int] = wall_clock_us,
        now_us: Callable[[], int] | None = None,
        record_event: RecordEvent = do_nothing,
        posters: LivePosters | None = None,
        observers: Sequence[ObserverFactory] = (),
        lag: LoopLag | None = None,
        fenced: bool = False,
    ) -> None:
        self.on_lost: Callable[[str, int], None] = do_nothing
        self.on_stored: Callable[[str, int], None] = do_nothing
        self.wall_us = wall_us
        self._now_us = wall_us if now_us is None else now_us
        self.record_event = record_event
        self.lag = LoopLag() if lag is None else lag
        self.runs: dict[str, LiveRun] = {}
        self.room = RoomMeter()
        self.spares = SpareEngines()
        self._objects = objects
        self._edge = edge
        self._window = window
        self._posters = posters
        self._observers = observers
        self._fenced = fenced
        # One run of a stream is opened or ended at a time.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._deaths: dict[str, EngineDeaths] = {}  # of recent engines, by stream

    async def read_slate_image(self, stream: str, address: str) -> bytes | None:
        """Return the JPEG of a slate; log and return None if it cannot be read."""
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
        """True while a run lacks rungs because the machine cannot make all of them.

        Rungs that are not made anyway do not count: while the slate is shown, and when the top rung
        is made of the source's own packets again.
        """
        return any(load.off for load in self._loads())

    def _loads(self) -> list[RunLoad]:
        """Return the loads of the runs on air."""
        return [load for run in self.runs.values() if (load := run.load()) is not None]

    async def shed_load(self) -> None:
        """Shed rungs of runs that fall behind and let them return, until cancelled."""
        shedder, meter = LoadShedder(), IdleMeter()
        measured = time.monotonic()
        while True:
            await asyncio.sleep(_SHEDDING_SECONDS)
            now = time.monotonic()
            idle, measured = meter.idle(now - measured), now
            loads = self._loads()
            self.room.note(loads, idle)
            for stream, off in shedder.decide(now, loads, idle).items():
                self.runs[stream].shed_rungs(off)

    async def open_publication(
        self, stream: str, settings: RunSettings, *, picture: bool
    ) -> Publication:
        """Resume the stream's newest run if a restart interrupted it, else begin another."""
        policy = settings.policy
        owner = self._owner(stream, settings.generation)
        async with self._opening(stream):
            within = policy.failover.reconnect_seconds
            resumed = await self._resume(stream, within, owner, policy)
            if resumed is not None:
                if bool(resumed.renditions) is picture:
                    self._observe(resumed, policy)
                    return resumed
                await self._finish(resumed)
            publication = await Publication.open(
                self._objects,
                self._edge,
                hash=stream,
                now_us=self._now_us(),
                window=self._window,
                policy=policy,
                owner=owner,
            )
            self._observe(publication, policy)
            return publication

    def _opening(self, stream: str) -> asyncio.Lock:
        return self._locks.setdefault(stream, asyncio.Lock())

    def _owner(self, stream: str, generation: int) -> RunOwner:
        return RunOwner(
            generation=generation,
            fenced=self._fenced,
            on_lost=lambda: self.on_lost(stream, generation),
        )

    def _observe(self, publication: Publication, policy: ResolvedPolicy | None) -> None:
        for make in self._observers:
            publication.add_observer(make, policy)

    async def _finish(self, interrupted: Publication) -> None:
        """End a run that was resumed only for that."""
        self._observe(interrupted, None)
        await interrupted.finish()

    async def end_older(self, streams: Collection[str], window: float) -> None:
        """End the runs that a stop interrupted more than `window` seconds ago.

        Younger runs continue unchanged for their viewers. No playlist must be served before this
        returns, since stored playlists have normal latency.
        """
        for stream in streams:
            await self._end_if_older(stream, window)

    async def end_abandoned(self, streams: Collection[str], window: float) -> None:
        """End the runs whose publishers have not reconnected `window` seconds from now.

        Players would otherwise wait for ever in a playlist without an end.
        """
        started = time.monotonic()
        # Encoders could not connect while the loop was held up.
        while (elapsed := self.lag.elapsed(started, time.monotonic())) < window:  # noqa: ASYNC110  # a clock
            await asyncio.sleep(window - elapsed)
        for stream in streams:
            await self._end_if_older(stream, 0.0)

    async def _end_if_older(self, stream: str, window: float) -> None:
        try:
            await self._end_abandoned(stream, window)
        except StorageError as error:
            log.warning("run not ended", extra={"stream": stream, "cause": str(error)})

    async def has_open_run(self, stream: str) -> bool:
        """Return whether a run of the stream is stored that has not ended.

        Raises:
            ObjectError: the store failed.
        """
        newest = await newest_run(self._objects, stream)
        return newest is not None and not newest.state.ended

    async def end_interrupted(self, stream: str, generation: int = 0) -> bool:
        """End the stream's interrupted run at once; return False if there is none.

        `generation` is that by which this host owns the stream.
        """
        return await self._end_abandoned(stream, 0.0, generation)

    async def _end_abandoned(self, stream: str, window: float, generation: int = 0) -> bool:
        owner = self._owner(stream, generation)
        async with self._opening(stream):
            resumed = stream in self.runs or await self._resume(stream, window, owner)
            interrupted = None if resumed else await self._resume(stream, _ANY_AGE, owner)
            if interrupted is not None:
                await self._finish(interrupted)
                log.info("run ended", extra={"stream": stream, "run": interrupted.run})
            return interrupted is not None

    async def _resume(
        self,
        stream: str,
        within: float,
        owner: RunOwner,
        policy: ResolvedPolicy | None = None,
    ) -> Publication | None:
        return await Publication.resume(
            self._objects,
            self._edge,
            hash=stream,
            now_us=self._now_us(),
            window=self._window,
            within_seconds=within,
            policy=policy,
            owner=owner,
        )

    @asynccontextmanager
    async def run(
        self,
        *,
        stream: str,
        active: frozenset[str],
        settings: RunSettings,
        notify: Callable[[], None],
        slate: str | None = None,
    ) -> AsyncGenerator[LiveRun, None]:
        """Open a run for the length of the block (see `ingest.stream.ports.SinkFactory`).

        `slate` is the address of the JPEG that
        viewers see while no source is on air; None shows a card.
        """
        run = LiveRun(
            services=self,
            stream=stream,
            active=active,
            settings=settings,
            on_playable=notify,
            posters=self._posters,
            slate=slate,
        )
        async with run.observed(), asyncio.TaskGroup() as tasks:
            serving = tasks.create_task(run.serve())
            self.runs[stream] = run
            try:
                yield run
                run.close()
                try:
                    async with asyncio.timeout(_CLOSE_SECONDS):
                        await serving
                except TimeoutError:
                    # The engine did not finish the queue: that media is lost, but the playlist must
                    # end, or players would wait for ever.
                    log.warning("run cut short", extra={"stream": stream})
                    await run.end_publication()
            finally:
                del self.runs[stream]
                serving.cancel()

    def engine(self, stream: str) -> AbstractAsyncContextManager[EngineProcess]:
        """Run an engine for the length of a block: one that waits for the stream, or a new one."""
        return self.spares.engine(stream)

    def engine_deaths(self, stream: str) -> EngineDeaths:
        """Return the recent deaths of a stream's engines, also those of its previous run."""
        now = time.monotonic()
        for name in [name for name, deaths in self._deaths.items() if deaths.is_over(now)]:
            if name not in self.runs:
                del self._deaths[name]
        return self._deaths.setdefault(stream, EngineDeaths())
