"""What waits for the disk or the event loop is not blamed on the engine."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from storage.objects.disk import DiskObjects
from tests.support.engine.sources import Source, scenes, source_of
from tests.support.transcode.live_runs import children, playlist, running, send, tracks_of
from tests.support.waiting import until
from transcode.live import live_run

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
    """Let nothing be written for the length of the block."""
    going_on = threading.Event()
    loop = asyncio.get_running_loop()
    for _ in range(64):
        loop.run_in_executor(None, going_on.wait)
    try:
        yield
    finally:
        going_on.set()


def test_an_engine_is_not_blamed_for_a_disk_that_stalls(
    tmp_path: Path, source: Source, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> int:
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

    assert asyncio.run(story()) == 0
    assert "engine silent" not in caplog.text
    made = playlist(tmp_path)
    assert made.ended
    assert not any(segment.discontinuity for segment in made.segments)


def test_an_engine_that_is_silent_is_killed(
    tmp_path: Path, source: Source, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
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

    asyncio.run(story())
    assert "engine silent: killed" in caplog.text
