"""A stalled disk or event loop is not blamed on the engine."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import msgspec
import pytest

from delivery.edge.memory import MemoryEdge
from delivery.run.run_state import LiveWindow
from media.loop_lag import BEAT_SECONDS, LoopLag
from media.no_op import do_nothing
from storage.objects.disk import DiskObjects
from tests.support.engine.sources import Source, scenes, source_of
from tests.support.transcode.live_runs import (
    STREAM,
    children,
    playlist,
    running,
    send,
    tracks_of,
)
from tests.support.waiting import until
from transcode.live import live_run
from transcode.live.live_run import LiveRun
from transcode.live.ports import RunSettings
from transcode.live.service import LiveTranscoding

_SILENT_SECONDS = 3.0


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Source:
    path = tmp_path_factory.mktemp("source") / "small.flv"
    return source_of(scenes(path, seconds=8, gop=1, size=(256, 144)))


@pytest.fixture(autouse=True)
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_run, "SILENT_SECONDS", _SILENT_SECONDS)


@contextmanager
def stalled_disk() -> Generator[None]:
    """Block all writes for the length of the block."""
    going_on = threading.Event()
    loop = asyncio.get_running_loop()
    for _ in range(64):
        loop.run_in_executor(None, going_on.wait)
    try:
        yield
    finally:
        going_on.set()


def is_whole(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Check that the run ended as if nothing had happened."""
    assert "engine silent" not in caplog.text
    media_playlist = playlist(folder)
    assert media_playlist.ended
    assert not any(segment.discontinuity for segment in media_playlist.segments)


async def test_an_engine_is_not_blamed_for_a_disk_that_stalls(
    tmp_path: Path, source: Source, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> int:
        with DiskObjects(tmp_path) as objects:
            async with running(objects) as run:
                run.begin(tracks_of(source))
                with stalled_disk():  # before the publication is opened
                    send(run, source, end=3500)
                    await asyncio.sleep(_SILENT_SECONDS + 2)
                await until(lambda: run.playable)
                with stalled_disk():
                    send(run, source, start=3500)
                    await asyncio.sleep(_SILENT_SECONDS + 2)
                run.finish()
                run.end()
            return run.metrics.deaths

    assert await scenario() == 0
    is_whole(tmp_path, caplog)


async def test_an_engine_that_is_silent_is_killed(
    tmp_path: Path, source: Source, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        with DiskObjects(tmp_path) as objects:
            async with running(objects) as run:
                run.begin(tracks_of(source))
                send(run, source, end=3500)
                await until(lambda: run.playable)
                (pid,) = children()
                os.kill(pid, signal.SIGSTOP)
                began = time.monotonic()
                await until(lambda: run.metrics.deaths == 1)
                assert time.monotonic() - began >= _SILENT_SECONDS - 1
                run.finish()
                run.end()

    await scenario()
    assert "engine silent: killed" in caplog.text


async def test_an_engine_that_does_not_read_the_start_of_a_source_is_killed(
    tmp_path: Path, source: Source, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        with DiskObjects(tmp_path) as objects:
            async with running(objects) as run:
                run.begin(tracks_of(source))
                send(run, source, end=3500)
                await until(lambda: run.playable)
                (pid,) = children()
                os.kill(pid, signal.SIGSTOP)
                assert source.video is not None
                # More than the pipe and its buffer hold.
                config = source.video.config + bytes(2 << 20)
                run.begin((msgspec.structs.replace(source.video, config=config),), splice=True)
                await until(lambda: run.metrics.deaths == 1)
                run.begin(tracks_of(source))
                send(run, source, start=3500)
                run.finish()
                run.end()

    await scenario()
    assert "engine silent: killed" in caplog.text
    assert playlist(tmp_path).ended


class HeldUpLoop(LoopLag):
    """The lag of a loop whose clock and beat the test moves, and how often a run asked for it."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.looks = 0

    def clock(self) -> float:
        return self.now

    def read_until(self, now: float) -> float:
        self.looks += 1
        return super().read_until(now)

    def advance(self, seconds: float) -> None:
        """Let time pass, and have the loop run once at its end."""
        self.now += seconds
        self.beat(self.now)

    async def deaths_of(self, run: LiveRun) -> int:
        """Return how many engines died, once the run has judged its engine twice or lost it."""
        looks, deaths = self.looks, run.metrics.deaths
        await until(lambda: self.looks >= looks + 2 or run.metrics.deaths > deaths)
        return run.metrics.deaths


@asynccontextmanager
async def running_on(loop: HeldUpLoop, objects: DiskObjects) -> AsyncGenerator[LiveRun]:
    """Open a run that lives by the clock of `loop`."""
    transcoding = LiveTranscoding(objects=objects, edge=MemoryEdge(), window=LiveWindow(), lag=loop)
    run = LiveRun(
        services=transcoding,
        stream=STREAM,
        active=frozenset(),
        settings=RunSettings(),
        on_playable=do_nothing,
        clock=loop.clock,
    )
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(run.serve())
        yield run
        run.close()


async def hold_up(run: LiveRun, loop: HeldUpLoop, source: Source) -> int:
    """Hold up the loop of a run that plays for longer than an engine may be silent.

    The engine is stopped meanwhile, so that it reports nothing; its process is returned.
    """
    loop.advance(0.0)
    run.begin(tracks_of(source))
    send(run, source, end=3500)
    await until(lambda: run.playable)
    (pid,) = children()
    os.kill(pid, signal.SIGSTOP)
    loop.now += _SILENT_SECONDS + 5
    assert await loop.deaths_of(run) == 0, "judged before the late beat"
    loop.advance(0.0)
    assert await loop.deaths_of(run) == 0, "judged after it, before the sockets"
    return pid


async def test_an_engine_is_not_blamed_for_a_loop_that_was_held_up(
    tmp_path: Path, source: Source, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> int:
        loop = HeldUpLoop()
        with DiskObjects(tmp_path) as objects:
            async with running_on(loop, objects) as run:
                pid = await hold_up(run, loop, source)
                os.kill(pid, signal.SIGCONT)
                segments_before = run.metrics.segments
                send(run, source, start=3500)
                await until(lambda: run.metrics.segments > segments_before)
                loop.advance(BEAT_SECONDS)
                await loop.deaths_of(run)
                run.finish()
                run.end()
            return run.metrics.deaths

    assert await scenario() == 0
    is_whole(tmp_path, caplog)


async def test_an_engine_that_is_silent_after_a_loop_was_held_up_is_killed(
    tmp_path: Path, source: Source, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        loop = HeldUpLoop()
        with DiskObjects(tmp_path) as objects:
            async with running_on(loop, objects) as run:
                await hold_up(run, loop, source)
                loop.advance(BEAT_SECONDS)  # all sockets have had their turn
                await until(lambda: run.metrics.deaths == 1)
                run.finish()
                run.end()

    await scenario()
    assert "engine silent: killed" in caplog.text
