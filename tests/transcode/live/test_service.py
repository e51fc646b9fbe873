"""The parent's side of a live engine, with real engines, a real disk and the real edge."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from media.hls import m3u8
from media.hls.playlist import MediaPlaylist
from media.packet import MediaPacket
from media.track import Track
from storage.edge.memory import MemoryEdge
from storage.live.publication import LiveWindow
from storage.objects.disk import DiskObjects
from tests.support.engine.sources import Source, scenes, source_of
from transcode.live import service as live_service
from transcode.live.backlog import QUEUE_BYTES
from transcode.live.live_run import LiveRun
from transcode.live.service import LiveTranscoding

STREAM = "Ab3dEf6hIj9l"
RUNG = "144p"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Source:
    path = tmp_path_factory.mktemp("source") / "small.flv"
    return source_of(scenes(path, seconds=8, gop=1, size=(256, 144)))


def tracks_of(source: Source) -> tuple[Track, ...]:
    return tuple(track for track in (source.video, source.audio) if track is not None)


def send(run: LiveRun, source: Source, start: int = 0, end: int = 1 << 40) -> None:
    """Offer what the source sends from `start` to `end`, in ms."""
    for packet in source.packets:
        track = source.video if packet.video else source.audio
        if track is not None and start <= packet.dts < end:
            run.offer(
                MediaPacket(
                    track=track, dts=packet.dts, pts=packet.pts, key=packet.key, data=packet.data
                )
            )


async def until(question: Callable[[], bool], seconds: float = 15.0) -> None:
    async with asyncio.timeout(seconds):
        while not question():  # noqa: ASYNC110 # a process's doings raise no event
            await asyncio.sleep(0.01)


def children() -> list[int]:
    """Return the engines among the children of this process; a database may be another."""
    own = os.getpid()
    pids = Path(f"/proc/{own}/task/{own}/children").read_text().split()
    return [int(pid) for pid in pids if b"transcode.engine" in _command(pid)]


def _command(pid: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # it ended meanwhile
        return b""


@asynccontextmanager
async def running(objects: DiskObjects) -> AsyncGenerator[LiveRun, None]:
    transcoding = LiveTranscoding(
        objects=objects, edge=MemoryEdge(), window=LiveWindow(listed_seconds=60, kept_seconds=70)
    )
    async with transcoding.run(
        stream=STREAM, active=frozenset(), window=60.0, notify=lambda: None
    ) as run:
        yield run


def playlist(root: Path, rendition: str = RUNG) -> MediaPlaylist:
    """Return the newest run's playlist as it stands on disk; what it names must be there."""
    newest = max(path for path in (root / "live" / STREAM).iterdir() if path.is_dir())
    parsed = m3u8.parse((newest / rendition / "index.m3u8").read_text())
    assert isinstance(parsed, MediaPlaylist)
    assert all((newest / rendition / segment.uri).stat().st_size for segment in parsed.segments)
    return parsed


def test_what_is_offered_is_published_and_ended(tmp_path: Path, source: Source) -> None:
    async def story() -> None:
        with DiskObjects(tmp_path) as objects:
            async with running(objects) as run:
                run.begin(tracks_of(source))
                send(run, source)
                run.finish()
                run.end()
            assert run.playable

    asyncio.run(story())
    made = playlist(tmp_path)
    assert made.ended
    assert len(made.segments) == 4
    assert not any(segment.discontinuity for segment in made.segments)
    assert children() == []


def test_a_run_that_is_left_without_an_end_stays_open(tmp_path: Path, source: Source) -> None:
    async def story() -> None:
        with DiskObjects(tmp_path) as objects:
            for _ in range(2):
                async with running(objects) as run:
                    run.begin(tracks_of(source))
                    send(run, source)
                    run.finish()

    asyncio.run(story())
    made = playlist(tmp_path)
    assert not made.ended
    assert [segment.discontinuity for segment in made.segments] == [False] * 4 + [True] + [
        False
    ] * 3


def test_a_killed_engine_is_replaced_and_the_run_goes_on(tmp_path: Path, source: Source) -> None:
    async def story() -> int:
        with DiskObjects(tmp_path) as objects:
            async with running(objects) as run:
                run.begin(tracks_of(source))
                send(run, source, end=3500)
                await until(lambda: run.playable)
                (pid,) = children()
                os.kill(pid, signal.SIGKILL)
                await until(lambda: run.metrics.deaths == 1)
                send(run, source, start=3500)
                run.finish()
                run.end()
            return run.metrics.deaths

    assert asyncio.run(story()) == 1
    for rendition in (RUNG, "audio"):
        made = playlist(tmp_path, rendition)
        assert made.ended
        marks = [segment.discontinuity for segment in made.segments]
        assert marks.count(True) == 1
        assert not marks[0]
        assert len(marks) >= 3


def test_sources_that_begin_faster_than_they_are_made_are_all_made(
    tmp_path: Path, source: Source
) -> None:
    async def story() -> int:
        with DiskObjects(tmp_path) as objects:
            async with running(objects) as run:
                for start in range(0, 7000, 1000):
                    run.begin(tracks_of(source))
                    send(run, source, start=start, end=start + 1000)
                    run.finish()
                run.end()
            return run.metrics.deaths

    assert asyncio.run(story()) == 0
    made = playlist(tmp_path)
    assert [segment.discontinuity for segment in made.segments] == [False] + [True] * 6


def test_engines_that_die_again_and_again_end_the_run(tmp_path: Path, source: Source) -> None:
    async def story() -> None:
        with DiskObjects(tmp_path) as objects:
            async with running(objects) as run:
                run.begin(tracks_of(source))
                for death in range(1, 6):
                    send(run, source)
                    await until(lambda: run.playable and bool(children()))
                    os.kill(children()[0], signal.SIGKILL)
                    await until(lambda at=death: run.metrics.deaths == at)
                await asyncio.sleep(10)
                raise AssertionError("the run went on")

    with pytest.raises(BaseExceptionGroup) as caught:
        asyncio.run(story())
    assert "engine ended with status" in repr(caught.value)
    assert playlist(tmp_path).ended
    assert children() == []


def test_an_engine_that_stands_still_costs_media_and_not_memory(
    tmp_path: Path, source: Source, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> LiveRun:
        with DiskObjects(tmp_path) as objects:
            async with running(objects) as run:
                run.begin(tracks_of(source))
                send(run, source, end=3500)
                await until(lambda: run.playable)
                (pid,) = children()
                os.kill(pid, signal.SIGSTOP)
                size = sum(len(packet.data) for packet in source.packets)
                for _ in range(2 * QUEUE_BYTES // size):
                    send(run, source)
                    await asyncio.sleep(0)
                assert run.backlog.bytes <= QUEUE_BYTES
                os.kill(pid, signal.SIGKILL)
                run.finish()
                run.end()
            return run

    run = asyncio.run(story())
    assert run.metrics.dropped > 0
    assert "engine too slow" in caplog.text
    assert playlist(tmp_path).ended


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
                await until(lambda: run.playable)
                (pid,) = children()
                os.kill(pid, signal.SIGSTOP)
                send(run, source, start=3500)
                run.finish()
                run.end()

    asyncio.run(story())
    assert playlist(tmp_path).ended, "who watches is told"
    assert "run cut short" in caplog.text
    assert children() == []
