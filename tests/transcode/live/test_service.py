"""Live runs opened by the service, and ended when their block ends."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest

from delivery.edge.memory import MemoryEdge
from delivery.run.observers import ObservedRun, RunObserver
from delivery.run.publication import Publication
from delivery.run.run_state import LiveWindow, RunState, Step
from media.hls import m3u8
from media.hls.playlist import MediaPlaylist
from media.run_policy import DEFAULTS, RunPolicy, RunRecording, resolve
from media.stream_events import RungShedEvent, StreamEvent
from media.ticks import VIDEO_SCALE
from storage.objects.disk import DiskObjects
from tests.support.engine.sources import Source, scenes, source_of
from tests.support.storage.engine_reports import (
    HASH,
    LOW,
    NOON_US,
    WINDOW,
    ReportMaker,
    append_all,
    append_until_full,
)
from tests.support.transcode.live_runs import children, playlist, running, send, tracks_of
from tests.support.waiting import SCALE, until
from transcode.live import service as live_service
from transcode.live.event_queue import EventQueue
from transcode.live.live_run import LiveRun
from transcode.live.ports import RunSettings
from transcode.live.service import LiveTranscoding

HOUR_US = 3_600_000_000


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Source:
    path = tmp_path_factory.mktemp("source") / "small.flv"
    return source_of(scenes(path, seconds=8, gop=1, size=(256, 144)))


async def test_a_run_whose_engine_does_not_finish_ends(
    tmp_path: Path,
    source: Source,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live_service, "_CLOSE_SECONDS", 0.5)

    async def scenario() -> None:
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

    await scenario()
    assert playlist(tmp_path).ended, "who watches is told"
    assert "run cut short" in caplog.text
    assert children() == []


@pytest.mark.parametrize(("dvr", "listed"), [(0.0, 12.0), (40.0, 40.0)])
async def test_a_publication_lists_what_the_runs_settings_ask_for(
    tmp_path: Path, dvr: float, listed: float
) -> None:
    with DiskObjects(tmp_path) as objects:
        home = LiveTranscoding(objects=objects, edge=MemoryEdge(), window=WINDOW)
        settings = RunSettings(policy=resolve(RunPolicy(dvr_seconds=dvr)))
        maker = ReportMaker(LOW)
        for _ in range(2):  # the second one resumes the run of the first
            publication = await home.open_publication(HASH, settings, picture=True)
            if publication.renditions:
                maker = ReportMaker.continuing(publication, salt="resumed")
            await publication.prepare(maker.epoch, (LOW,), NOON_US)
            await append_all(publication, maker.begin())
            for _ in range(30):
                await append_all(publication, maker.step())
        playlists = list((tmp_path / "live" / HASH).glob("*/*/index.m3u8"))
        assert len(playlists) == 2
        for path in playlists:
            parsed = m3u8.parse(path.read_text())
            assert isinstance(parsed, MediaPlaylist)
            assert sum(segment.duration for segment in parsed.segments) == listed * VIDEO_SCALE


async def test_observers_are_offered_each_run_that_opens_is_resumed_or_is_only_ended(
    tmp_path: Path,
) -> None:
    offered: list[ObservedRun] = []

    class Told(RunObserver):
        def on_step_listed(self, step: Step, state: RunState, codecs: Mapping[str, str]) -> None:
            told.append(step.sequence)

        def on_ended(self) -> None:
            told.append("end")

    def make(run: ObservedRun) -> RunObserver:
        offered.append(run)
        return Told()

    with DiskObjects(tmp_path) as objects:
        home = LiveTranscoding(
            objects=objects, edge=MemoryEdge(), window=WINDOW, observers=[make, lambda _: None]
        )
        told: list[int | str] = []
        publication = await home.open_publication(HASH, RunSettings(), picture=True)
        maker = ReportMaker(LOW)
        await publication.prepare(maker.epoch, (LOW,), NOON_US)
        await append_all(publication, [*maker.begin(), *maker.step()])
        assert told == [0]
        await publication.suspend()
        resumed = await home.open_publication(HASH, RunSettings(), picture=True)
        assert resumed.run == publication.run
        await resumed.suspend()
        assert await home.end_interrupted(HASH)
    assert told == [0, 0, 0, "end"]
    assert {(each.stream, each.run) for each in offered} == {(HASH, publication.run)}
    assert [each.policy for each in offered] == [DEFAULTS, DEFAULTS, None]


async def test_a_run_keeps_what_was_set_when_it_began_whatever_is_set_when_it_goes_on(
    tmp_path: Path,
) -> None:
    """As after a restart: its viewers may be 40 s behind, and its first half was not recorded."""
    began = resolve(RunPolicy(dvr_seconds=40.0, latency="normal"))
    changed = resolve(RunPolicy(recording=RunRecording(enabled=True)))
    offered: list[ObservedRun] = []
    with DiskObjects(tmp_path) as objects:
        for policy in (began, changed):
            home = LiveTranscoding(
                objects=objects, edge=MemoryEdge(), window=WINDOW, observers=[offered.append]
            )
            settings = RunSettings(policy=policy)
            publication = await home.open_publication(HASH, settings, picture=True)
            if policy is began:
                maker = ReportMaker(LOW)
                await publication.prepare(maker.epoch, (LOW,), NOON_US)
                await append_all(publication, maker.begin())
                for _ in range(30):
                    await append_all(publication, maker.step())
                await publication.suspend()
        await home.end_interrupted(HASH)
    assert [each.policy for each in offered] == [began, began, None]
    (path,) = (tmp_path / "live" / HASH).glob(f"*/{LOW.name}/index.m3u8")
    parsed = m3u8.parse(path.read_text())
    assert isinstance(parsed, MediaPlaylist)
    assert parsed.ended
    assert sum(segment.duration for segment in parsed.segments) == 40 * VIDEO_SCALE


async def test_a_host_is_told_that_another_has_taken_over_its_run(tmp_path: Path) -> None:
    lost: list[tuple[str, int]] = []
    with DiskObjects(tmp_path) as objects:
        hosts = [
            LiveTranscoding(objects=objects, edge=MemoryEdge(), window=WINDOW, fenced=True)
            for _ in range(2)
        ]
        hosts[0].on_lost = lambda stream, generation: lost.append((stream, generation))
        publications: list[tuple[Publication, ReportMaker]] = []
        for generation, host in enumerate(hosts, 1):
            settings = RunSettings(generation=generation)
            publication = await host.open_publication(HASH, settings, picture=True)
            maker = ReportMaker(LOW)
            if publications:
                assert publication.run == publications[0][0].run
                maker = ReportMaker.continuing(publication, salt="second")
            await publication.prepare(maker.epoch, (LOW,), NOON_US)
            await append_all(publication, maker.begin())
            await append_all(publication, maker.step())
            publications.append((publication, maker))
        assert lost == []
        first, second = publications
        assert await append_until_full(first[0], first[1].step()) > 0
        assert lost == [(HASH, 1)]
        await append_all(second[0], second[1].step())


async def test_the_clock_that_all_hosts_share_decides_whether_a_run_is_resumed(
    tmp_path: Path,
) -> None:
    shared_us = NOON_US
    with DiskObjects(tmp_path) as objects:
        hosts = [
            LiveTranscoding(
                objects=objects,
                edge=MemoryEdge(),
                window=WINDOW,
                wall_us=lambda own=own_us: own,
                now_us=lambda: shared_us,
                fenced=True,
            )
            for own_us in (NOON_US, NOON_US + HOUR_US, NOON_US - HOUR_US)
        ]
        runs: list[str] = []
        for generation, host in enumerate(hosts, 1):
            settings = RunSettings(generation=generation)
            publication = await host.open_publication(HASH, settings, picture=True)
            runs.append(publication.run)
            maker = (
                ReportMaker.continuing(publication, salt=str(generation))
                if publication.renditions
                else ReportMaker(LOW)
            )
            await publication.prepare(maker.epoch, (LOW,), NOON_US)
            await append_all(publication, maker.begin())
            await append_all(publication, maker.step())
            await publication.suspend()
            if generation == 2:
                shared_us += 90_000_000
        assert runs[0] == runs[1]
        assert runs[2] > runs[1]


async def test_viewers_get_a_run_that_a_kill_interrupted_before_its_encoder_returns(
    tmp_path: Path,
) -> None:
    now_us = NOON_US
    with DiskObjects(tmp_path) as objects:
        first = LiveTranscoding(
            objects=objects, edge=MemoryEdge(), window=WINDOW, now_us=lambda: NOON_US
        )
        publication = await first.open_publication(HASH, RunSettings(), picture=True)
        maker = ReportMaker(LOW)
        await publication.prepare(maker.epoch, (LOW,), NOON_US)
        await append_all(publication, maker.begin())
        for _ in range(3):
            await append_all(publication, maker.step())
        (stored,) = (tmp_path / "live" / HASH / publication.run).glob("*p/index.m3u8")
        address = str(stored.relative_to(tmp_path))
        edge = MemoryEdge()
        second = LiveTranscoding(
            objects=objects, edge=edge, window=WINDOW, now_us=lambda: now_us + 59_000_000
        )
        await second.end_older([HASH], 60.0)
        timeline = edge.timeline(address)
        assert timeline is not None
        assert not timeline.ended
        assert timeline.part_target, "its playlists have low latency again"
        assert timeline.hint is None, "what comes next has another init section"
        now_us += 62_000_000
        await second.end_older([HASH], 60.0)
    assert "#EXT-X-ENDLIST" in stored.read_text()


async def test_a_run_that_was_killed_before_its_first_step_stays_open_no_longer_than_others(
    tmp_path: Path,
) -> None:
    """Its viewers had it from memory alone."""
    with DiskObjects(tmp_path) as objects:
        first, second = (
            LiveTranscoding(
                objects=objects, edge=MemoryEdge(), window=WINDOW, now_us=lambda: NOON_US
            )
            for _ in range(2)
        )
        publication = await first.open_publication(HASH, RunSettings(), picture=True)
        maker = ReportMaker(LOW)
        await publication.prepare(maker.epoch, (LOW,), NOON_US)
        await append_all(publication, [*maker.begin(), *maker.step()[:-1]])
        assert publication.is_playable
        assert await second.has_open_run(HASH)
        await second.end_older([HASH], 60.0)
        assert not await second.has_open_run(HASH)
        assert not await second.end_interrupted(HASH)
        assert await objects.folder_names(f"live/{HASH}") == set()


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Source:
    """A source of which one smaller rung is encoded."""
    path = tmp_path_factory.mktemp("source") / "large.flv"
    return source_of(scenes(path, seconds=8, gop=1, size=(854, 480)))


async def test_a_run_that_ends_while_rungs_are_shed_ends_no_shedding(
    tmp_path: Path, large: Source
) -> None:
    """The event of the first run's shedding is written after the second run has ended."""
    shed: list[str] = []
    ended = asyncio.Event()

    async def write(stream: str, event: StreamEvent) -> None:
        if isinstance(event, RungShedEvent):
            shed.append(stream)
            await ended.wait()

    def overload(runs: list[LiveRun]) -> bool:
        for run in runs:
            run.metrics.lag, run.metrics.pace, run.metrics.cores = 30.0, 0.3, 1.0
            run.metrics.costs = {"360p": 0.5}  # a quick engine is done before it is measured
        return bool(shed)

    async def scenario(objects: DiskObjects) -> None:
        events = EventQueue(write)
        home = LiveTranscoding(
            objects=objects, edge=MemoryEdge(), window=LiveWindow(), record_event=events.add
        )
        async with asyncio.TaskGroup() as tasks, contextlib.AsyncExitStack() as stack:
            runs: list[LiveRun] = []
            blocks = [contextlib.AsyncExitStack() for _ in range(2)]
            for number, block in enumerate(blocks):
                await stack.enter_async_context(block)
                opening = home.run(
                    stream=f"Ab3dEf6hIj9{number}",
                    active=frozenset({"480p", "360p"}),
                    settings=RunSettings(),
                    notify=lambda: None,
                )
                run = await block.enter_async_context(opening)
                run.begin(tracks_of(large))
                send(run, large)
                runs.append(run)
            chores = [tasks.create_task(events.run()), tasks.create_task(home.shed_load())]
            async with asyncio.timeout(10 * SCALE):
                while not overload(runs):  # noqa: ASYNC110 - it changes what it asks for
                    await asyncio.sleep(0.01)  # what engines report meanwhile is not to count
            other = next(number for number in (0, 1) if runs[number].stream != shed[0])
            await blocks[other].aclose()
            ended.set()
            await asyncio.sleep(1.5)  # the shedder decides once a second
            assert not any(chore.done() for chore in chores)
            for chore in chores:
                chore.cancel()

    with DiskObjects(tmp_path) as objects:
        await scenario(objects)
    # On a busy machine the remaining run may shed another rung.
    assert set(shed) == {"Ab3dEf6hIj90", "Ab3dEf6hIj91"}


async def test_rungs_that_nothing_would_make_now_are_not_shed(
    tmp_path: Path, large: Source
) -> None:
    """Files are transcoded again during the slate, and once packets are reused as the top rung."""
    with DiskObjects(tmp_path) as objects:
        home = LiveTranscoding(objects=objects, edge=MemoryEdge(), window=LiveWindow())
        async with home.run(
            stream=HASH,
            active=frozenset({"480p", "360p"}),
            settings=RunSettings(),
            notify=lambda: None,
        ) as run:
            assert not home.is_shedding
            run.begin(tracks_of(large))
            send(run, large)
            await until(lambda: run.playable)
            run.metrics.costs = {"360p": 0.5}  # a quick engine is done before it is measured
            run.shed_rungs(frozenset({"360p"}))
            assert home.is_shedding
            run.slate()
            await until(lambda: not home.is_shedding)
            run.begin(tracks_of(large))
            send(run, large)
            await until(lambda: home.is_shedding)
            # The source's own packets are the top rung.
            run.shed_rungs(frozenset({"480p"}))
            assert not home.is_shedding
