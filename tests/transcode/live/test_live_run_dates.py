"""The dates of a run's segments, with real engines and a wall clock that the test sets."""

import os
import signal
from pathlib import Path

import msgspec
import pytest

from delivery.edge.memory import MemoryEdge
from delivery.run.run_state import LiveWindow
from media.ticks import rescale
from storage.objects.disk import DiskObjects
from tests.support.engine.sources import Source, scenes, source_of
from tests.support.storage.engine_reports import NOON_US
from tests.support.transcode.live_runs import STREAM, children, playlist, send, tracks_of
from tests.support.waiting import until
from transcode.live.live_run import LiveRun
from transcode.live.ports import RunSettings
from transcode.live.service import LiveTranscoding


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Source:
    """8 s with a keyframe every 2 s."""
    path = tmp_path_factory.mktemp("source") / "two.flv"
    return source_of(scenes(path, seconds=8, gop=2, size=(256, 144)))


class WallClock:
    """A wall clock that stands until a packet comes: packets come at their decode times."""

    def __init__(self) -> None:
        self.us = NOON_US

    def send(self, run: LiveRun, source: Source, start: int, end: int) -> None:
        """Offer the packets from `start` to `end`, in ms, each at its time."""
        for packet in source.packets:
            if start <= packet.dts < end:
                self.us = NOON_US + 1000 * packet.dts
                send(run, msgspec.structs.replace(source, packets=(packet,)))


async def make(root: Path, source: Source) -> None:
    """Make a run whose engine is killed 3.4 s after the beginning, within a GOP."""
    wall = WallClock()
    with DiskObjects(root) as objects:
        transcoding = LiveTranscoding(
            objects=objects,
            edge=MemoryEdge(),
            window=LiveWindow(listed_seconds=60, kept_seconds=70),
            wall_us=lambda: wall.us,
        )
        async with transcoding.run(
            stream=STREAM, active=frozenset(), settings=RunSettings(), notify=lambda: None
        ) as run:
            run.begin(tracks_of(source))
            wall.send(run, source, 0, 3400)
            await until(lambda: run.playable, within=15)
            (pid,) = children()
            os.kill(pid, signal.SIGKILL)
            await until(lambda: run.metrics.deaths == 1, within=15)
            wall.send(run, source, 3400, 3500)  # what comes is work for another engine
            await until(lambda: bool(children()) and not run.backlog, within=15)
            wall.send(run, source, 3500, 9000)
            run.finish()
            run.end()


async def test_after_an_engine_died_within_a_gop_dates_are_those_of_the_first_packets_shown(
    tmp_path: Path, source: Source
) -> None:
    """The next engine goes on within the GOP, and has the source's own packets again after it."""
    await make(tmp_path, source)
    # Renditions ended up to a part apart, and the dates of none may go back: so what is shown again
    # in one dates the others later.
    for rendition in ("144p", "audio"):
        segments = playlist(tmp_path, rendition).segments
        assert sum(each.discontinuity for each in segments) == 1
        elapsed = 0
        for each in segments:
            assert each.wall_us is not None
            # What came first is sound, which was shown from the first picture on.
            late_us = each.wall_us - NOON_US - rescale(elapsed, 90_000, 1_000_000)
            assert -30_000 <= late_us <= 530_000
            elapsed += each.duration
        assert -0.5 <= elapsed / 90_000 - 8 <= 0.55
