"""Live runs with real engines, a real disk and the real edge."""

import asyncio
import errno
import logging
import os
import signal
from asyncio.subprocess import Process
from pathlib import Path
from typing import Any

import msgspec
import pytest

from delivery.edge.memory import MemoryEdge
from delivery.run.run_state import LiveWindow, RunState
from delivery.run.run_store import next_run_name
from media.hls.segment import InitSection, Part, Segment, SegmentStart
from media.stream_events import StreamEvent
from storage.objects.addresses import live_state
from storage.objects.disk import DiskObjects
from storage.wall_clock import wall_clock_us
from tests.support.engine.sources import Source, scenes, source_of
from tests.support.transcode.flooding_engine import MIB, flood_engines, measured_growth
from tests.support.transcode.live_runs import (
    RUNG,
    STREAM,
    children,
    playlist,
    running,
    send,
    tracks_of,
)
from tests.support.waiting import until
from transcode.live.backlog import QUEUE_BYTES
from transcode.live.live_run import LiveRun
from transcode.live.ports import RunSettings
from transcode.live.service import LiveTranscoding
from transcode.protocol import engine_process
from transcode.protocol.messages import EngineReport, Posters, Prepared, Spliced, Trouble

WINDOW = LiveWindow(listed_seconds=60, kept_seconds=70)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Source:
    path = tmp_path_factory.mktemp("source") / "small.flv"
    return source_of(scenes(path, seconds=8, gop=1, size=(256, 144)))


async def test_what_is_offered_is_published_and_ended(tmp_path: Path, source: Source) -> None:
    async def scenario() -> None:
        with DiskObjects(tmp_path) as objects:
            async with running(objects) as run:
                run.begin(tracks_of(source))
                send(run, source)
                run.finish()
                run.end()
            assert run.playable

    await scenario()
    media_playlist = playlist(tmp_path)
    assert media_playlist.ended
    assert len(media_playlist.segments) == 4
    assert not any(segment.discontinuity for segment in media_playlist.segments)
    assert children() == []


async def test_a_run_that_is_left_without_an_end_stays_open(tmp_path: Path, source: Source) -> None:
    async def scenario() -> None:
        with DiskObjects(tmp_path) as objects:
            for _ in range(2):
                async with running(objects) as run:
                    run.begin(tracks_of(source))
                    send(run, source)
                    run.finish()

    await scenario()
    media_playlist = playlist(tmp_path)
    assert not media_playlist.ended
    assert [segment.discontinuity for segment in media_playlist.segments] == [False] * 4 + [
        True
    ] + [False] * 3


@pytest.mark.parametrize(("part_seconds", "parts"), [(0.5, 4), (1.0, 2)])
async def test_parts_are_as_long_as_the_run_wants_them(
    tmp_path: Path, source: Source, part_seconds: float, parts: int
) -> None:
    """The source has a keyframe each second and 30 frames; its segments last 2 s."""

    async def scenario() -> None:
        with DiskObjects(tmp_path) as objects:
            async with running(objects, settings=RunSettings(part_seconds=part_seconds)) as run:
                run.begin(tracks_of(source))
                send(run, source, end=5000)
                run.finish()

    await scenario()
    (path,) = (tmp_path / "live" / STREAM).glob("*/state.json")
    state = msgspec.json.decode(path.read_bytes(), type=RunState)
    assert {step.segments[RUNG].parts for step in state.tail[:2]} == {parts}


async def test_a_killed_engine_is_replaced_and_the_run_continues(
    tmp_path: Path, source: Source
) -> None:
    async def scenario() -> int:
        with DiskObjects(tmp_path) as objects:
            async with running(objects) as run:
                run.begin(tracks_of(source))
                send(run, source, end=3500)
                await until(lambda: run.playable, within=15)
                (pid,) = children()
                os.kill(pid, signal.SIGKILL)
                await until(lambda: run.metrics.deaths == 1, within=15)
                send(run, source, start=3500)
                run.finish()
                run.end()
            return run.metrics.deaths

    assert await scenario() == 1
    for rendition in (RUNG, "audio"):
        media_playlist = playlist(tmp_path, rendition)
        assert media_playlist.ended
        marks = [segment.discontinuity for segment in media_playlist.segments]
        assert marks.count(True) == 1
        assert not marks[0]
        assert len(marks) >= 3


async def test_sources_that_begin_faster_than_they_are_made_are_all_made(
    tmp_path: Path, source: Source
) -> None:
    async def scenario() -> int:
        with DiskObjects(tmp_path) as objects:
            async with running(objects) as run:
                for start in range(0, 7000, 1000):
                    run.begin(tracks_of(source))
                    send(run, source, start=start, end=start + 1000)
                    run.finish()
                run.end()
            return run.metrics.deaths

    assert await scenario() == 0
    media_playlist = playlist(tmp_path)
    assert [segment.discontinuity for segment in media_playlist.segments] == [False] + [True] * 6


async def test_engines_that_die_again_and_again_end_the_run(
    tmp_path: Path, source: Source, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="security")

    async def scenario() -> None:
        with DiskObjects(tmp_path) as objects:
            async with running(objects) as run:
                run.begin(tracks_of(source))
                for death in range(1, 6):
                    send(run, source)
                    await until(lambda: run.playable and bool(children()), within=15)
                    os.kill(children()[0], signal.SIGKILL)
                    await until(lambda at=death: run.metrics.deaths == at, within=15)
                await asyncio.sleep(10)
                raise AssertionError("the run went on")

    with pytest.raises(BaseExceptionGroup) as caught:
        await scenario()
    assert "engine ended with status" in repr(caught.value)
    assert playlist(tmp_path).ended
    assert children() == []
    lost = [vars(each)["stream"] for each in caplog.records if each.name == "security"]
    assert len(lost) == 5


async def test_an_engine_that_cannot_be_started_is_started_later(
    tmp_path: Path, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = engine_process.create_subprocess_exec  # pyright: ignore[reportPrivateImportUsage]
    refusals = 2

    async def start_later(*command: str, **settings: Any) -> Process:  # those of the original
        nonlocal refusals
        if refusals:
            refusals -= 1
            raise BlockingIOError(errno.EAGAIN, "too many processes")
        return await start(*command, **settings)

    monkeypatch.setattr(engine_process, "create_subprocess_exec", start_later)

    async def scenario() -> int:
        with DiskObjects(tmp_path) as objects:
            async with running(objects) as run:
                run.begin(tracks_of(source))
                send(run, source)
                await until(lambda: run.playable, within=15)
                run.finish()
                run.end()
            return run.metrics.deaths

    assert await scenario() == 2
    assert playlist(tmp_path).ended


async def test_a_run_that_fails_ends_its_playlists(tmp_path: Path, source: Source) -> None:
    def record(_stream: str, event: StreamEvent) -> None:
        raise ZeroDivisionError(event.kind)

    async def scenario() -> None:
        with DiskObjects(tmp_path) as objects:
            async with running(objects, record) as run:
                run.begin(tracks_of(source))
                send(run, source)
                await until(lambda: run.playable and bool(children()), within=15)
                os.kill(children()[0], signal.SIGKILL)
                await asyncio.sleep(10)
                raise AssertionError("the run went on")

    with pytest.raises(BaseExceptionGroup) as caught:
        await scenario()
    assert "ZeroDivisionError('engine lost')" in repr(caught.value)
    assert playlist(tmp_path).ended
    assert children() == []


async def test_no_other_engine_is_begun_for_a_stream_that_another_host_owns(
    tmp_path: Path, source: Source
) -> None:
    losses: list[tuple[str, int]] = []

    async def scenario() -> int:
        with DiskObjects(tmp_path) as objects:
            later = msgspec.json.encode(RunState(generation=3))
            await objects.put(live_state(STREAM, next_run_name(wall_clock_us(), None)), later)
            transcoding = LiveTranscoding(
                objects=objects, edge=MemoryEdge(), window=WINDOW, fenced=True
            )
            transcoding.on_lost = lambda stream, generation: losses.append((stream, generation))
            async with transcoding.run(
                stream=STREAM,
                active=frozenset(),
                settings=RunSettings(generation=2),
                notify=lambda: None,
            ) as run:
                run.begin(tracks_of(source))
                send(run, source, end=3000)
                await until(lambda: bool(losses) and not children(), within=15)
                send(run, source, start=3000)
            return run.metrics.deaths

    assert await scenario() == 0
    assert losses == [(STREAM, 2)]


async def test_an_engine_that_hangs_costs_media_and_not_memory(
    tmp_path: Path, source: Source, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> LiveRun:
        with DiskObjects(tmp_path) as objects:
            async with running(objects) as run:
                run.begin(tracks_of(source))
                send(run, source, end=3500)
                await until(lambda: run.playable, within=15)
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

    run = await scenario()
    assert run.metrics.dropped > 0
    assert "engine too slow" in caplog.text
    assert playlist(tmp_path).ended


async def test_the_owner_is_told_once_that_the_sound_was_moved(
    tmp_path: Path, source: Source
) -> None:
    """An encoder with two clocks connects twice: its sound is a minute ahead each time."""
    ahead = msgspec.structs.replace(
        source,
        packets=tuple(
            packet
            if packet.video
            else msgspec.structs.replace(packet, dts=packet.dts + 60_000, pts=packet.pts + 60_000)
            for packet in source.packets
        ),
    )
    events: list[StreamEvent] = []

    def record(_: str, event: StreamEvent) -> None:
        events.append(event)

    async def scenario() -> None:
        with DiskObjects(tmp_path) as objects:
            async with running(objects, record) as run:
                for _ in range(2):
                    run.begin(tracks_of(ahead))
                    send(run, ahead)
                    run.finish()
                run.end()

    await scenario()
    assert [each.kind for each in events] == ["sound moved"]
    facts = events[0].facts
    assert facts == {"offset_ms": pytest.approx(60_000, abs=50), "moved_ms": facts["moved_ms"]}
    assert facts["moved_ms"] == pytest.approx(-60_000, abs=50)


PREPARED = Prepared(epoch=0, names=(RUNG, "audio"), reused=None)
INIT = InitSection(rendition=RUNG, number=0, codecs="avc1.64001F", data=bytes(60_000))
PART = Part(rendition=RUNG, sequence=0, index=0, duration=0, independent=True, data=bytes(MIB))


def gap(sequence: int) -> Segment:
    return Segment(
        rendition=RUNG, sequence=sequence, epoch=0, start=0, duration=180_000, size=0, frames=0,
        parts=0, init=0, discontinuity=False, gap=True,
    )  # fmt: skip


@pytest.mark.usefixtures("children_start")
@pytest.mark.parametrize(
    ("first", "flood"),
    [
        pytest.param([], [Trouble(what="x", detail="y")], id="troubles"),
        pytest.param([], [Posters(posters=())], id="posters", marks=pytest.mark.prove),
        pytest.param([PREPARED], [INIT], id="init sections"),
        pytest.param([PREPARED, INIT], [PART], id="parts", marks=pytest.mark.prove),
        pytest.param([PREPARED], [gap(number) for number in range(99)], id="one rendition alone"),
        pytest.param([], [Prepared(epoch=7, names=(), reused=None)], id="an unknown epoch"),
        pytest.param(
            [], [Spliced(epoch=7, reused=None)], id="an unknown source", marks=pytest.mark.prove
        ),
    ],
)
async def test_an_engine_that_floods_is_lost_and_replaced(
    first: list[EngineReport],
    flood: list[EngineReport],
    tmp_path: Path,
    source: Source,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The next engine is a real one: the run goes on with it."""
    caplog.set_level(logging.INFO, "security")
    start = SegmentStart(
        rendition=RUNG, sequence=0, epoch=0, start=0, init=0, discontinuity=False
    )  # fmt: skip
    first = [*first, start] if INIT in first else first
    with DiskObjects(tmp_path / "data") as objects, measured_growth() as growth:
        async with running(objects) as run:
            with monkeypatch.context() as patched:
                flood_engines(patched, tmp_path, flood, first=first)
                run.begin(tracks_of(source))
                await until(lambda: run.metrics.deaths == 1, within=15)
            send(run, source)
            await until(lambda: run.playable, within=15)
            run.finish()
            run.end()
    assert growth.peak < 96 * MIB
    lines = [each for each in caplog.records if each.name == "security"]
    assert [line.message for line in lines] == ["engine lost"]
    assert playlist(tmp_path / "data").ended
