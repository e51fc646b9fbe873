"""Live runs opened by the service, and ended when their block ends."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from storage.objects.disk import DiskObjects
from tests.support.engine.sources import Source, scenes, source_of
from tests.support.transcode.live_runs import children, playlist, running, send, tracks_of
from tests.support.waiting import until
from transcode.live import service as live_service


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Source:
    path = tmp_path_factory.mktemp("source") / "small.flv"
    return source_of(scenes(path, seconds=8, gop=1, size=(256, 144)))


def test_a_run_whose_engine_does_not_come_to_its_end_ends_all_the_same(
    tmp_path: Path,
    source: Source,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live_service, "_CLOSE_SECONDS", 0.5)

    async def story() -> None:
        with DiskObjects(tmp_path) as objects:
            async with running(objects) as run:
                run.begin(tracks_of(source))
                send(run, source, end=3500)
                await until(lambda: run.playable, within=15)
                (pid,) = children()
                os.kill(pid, signal.SIGSTOP)
                send(run, source, start=3500)
                run.finish()
                run.end()

    asyncio.run(story())
    assert playlist(tmp_path).ended, "who watches is told"
    assert "run cut short" in caplog.text
    assert children() == []
