"""Splices and slates of a run, with real engines, a real disk and the real edge."""

import asyncio
import io
import os
import signal
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path

import av
import msgspec
import pytest
from av.video.frame import VideoFrame

from delivery.edge.memory import MemoryEdge
from delivery.run.run_state import LiveWindow
from media.hls.playlist import MediaPlaylist, PlaylistSegment
from storage.objects.disk import DiskObjects
from tests.support.engine.sources import Source, ffmpeg, scenes, source_of
from tests.support.transcode.live_runs import RUNG, STREAM, children, playlist, send, tracks_of
from tests.support.waiting import until
from transcode.live.live_run import LiveRun
from transcode.live.ports import RunSettings
from transcode.live.service import LiveTranscoding

SHIFT = 1_000_000
SLATE = "slates/p-test/1.jpg"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Source:
    path = tmp_path_factory.mktemp("source") / "small.flv"
    return source_of(scenes(path, seconds=8, gop=1, size=(256, 144)))


@pytest.fixture(scope="module")
def other(source: Source) -> Source:
    """The same from another encoder: with another clock."""
    moved = tuple(
        msgspec.structs.replace(packet, dts=packet.dts + SHIFT, pts=packet.pts + SHIFT)
        for packet in source.packets
    )
    return msgspec.structs.replace(source, packets=moved)


def jpeg(colour: str, size: str = "256x144") -> bytes:
    path = Path(f"/dev/shm/headend-slate-{os.getpid()}.jpg")
    try:
        picture = f"color={colour}:s={size},format=yuvj420p"
        ffmpeg("-f", "lavfi", "-i", picture, "-frames:v", "1", "-q:v", "2", "-y", path)
        return path.read_bytes()
    finally:
        path.unlink(missing_ok=True)


@asynccontextmanager
async def running(root: Path, slate: bytes | None = None) -> AsyncGenerator[LiveRun]:
    with DiskObjects(root) as objects:
        if slate:
            await objects.put(SLATE, slate)
        transcoding = LiveTranscoding(
            objects=objects,
            edge=MemoryEdge(),
            window=LiveWindow(listed_seconds=60, kept_seconds=70),
        )
        async with transcoding.run(
            stream=STREAM,
            active=frozenset(),
            settings=RunSettings(),
            notify=lambda: None,
            slate=SLATE if slate is not None else None,
        ) as run:
            yield run


def listed(root: Path, rendition: str = RUNG) -> list[PlaylistSegment]:
    """Return the segments that viewers have now."""
    path = next((root / "live" / STREAM).glob(f"*/{rendition}/index.m3u8"), None)
    return list(playlist(root, rendition).segments) if path is not None else []


def seconds(segments: list[PlaylistSegment]) -> float:
    return sum(segment.duration for segment in segments) / 90_000


def pictures(root: Path, media_playlist: MediaPlaylist, offset: int) -> list[VideoFrame]:
    """Return the pictures of one listed segment."""
    segment = media_playlist.segments[offset]
    folder = next((root / "live" / STREAM).glob(f"*/{RUNG}"))
    assert segment.map_uri is not None
    data = (folder / segment.map_uri).read_bytes() + (folder / segment.uri).read_bytes()
    with av.open(io.BytesIO(data), "r") as container:
        return list(container.decode(video=0))


def middle(frame: VideoFrame) -> tuple[int, ...]:
    """Y, Cb and Cr in the middle of the left half: beside what a card draws."""
    shades: list[int] = []
    for plane in frame.planes:
        row = plane.height // 2 * plane.line_size
        shades.append(bytes(plane)[row + plane.width // 4])
    return tuple(shades)


def is_red(frame: VideoFrame) -> bool:
    _, blue, red = middle(frame)
    return blue < 110 and red > 200


def is_card(frame: VideoFrame) -> bool:
    luma, blue, red = middle(frame)
    return luma < 45 and 128 <= blue <= 140 and 120 <= red <= 128


def clocks(media_playlist: MediaPlaylist) -> list[float]:
    """By how much each segment's date differs from where the one before it ended, in seconds."""
    seconds: list[float] = []
    for before, after in pairwise(media_playlist.segments):
        assert before.wall_us is not None
        assert after.wall_us is not None
        seconds.append((after.wall_us - before.wall_us) / 1e6 - before.duration / 90_000)
    return seconds


async def test_a_splice_leaves_no_mark_in_any_playlist(
    tmp_path: Path, source: Source, other: Source
) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as run:
            run.begin(tracks_of(source))
            send(run, source, end=3_400)
            run.begin(tracks_of(other), 0.5, splice=True)
            send(run, other, start=SHIFT + 3_000)
            run.finish()
            run.end()

    await scenario()
    for rendition in (RUNG, "audio"):
        media_playlist = playlist(tmp_path, rendition)
        assert media_playlist.ended
        assert not any(segment.discontinuity for segment in media_playlist.segments)
        assert len({segment.map_uri for segment in media_playlist.segments}) == 1
        assert seconds(list(media_playlist.segments)) == pytest.approx(8.4, abs=0.1)
        assert max(map(abs, clocks(media_playlist))) < 0.01, "dates go on as if nothing had been"


async def test_a_killed_engine_after_a_splice_is_replaced(
    tmp_path: Path, source: Source, other: Source
) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as run:
            run.begin(tracks_of(source))
            send(run, source, end=3_400)
            run.begin(tracks_of(other), splice=True)
            send(run, other, start=SHIFT + 3_000, end=SHIFT + 6_000)
            await until(lambda: len(listed(tmp_path)) >= 2, within=15)
            os.kill(children()[0], signal.SIGKILL)
            await until(lambda: run.metrics.deaths == 1, within=15)
            send(run, other, start=SHIFT + 6_000)
            run.finish()
            run.end()

    await scenario()
    media_playlist = playlist(tmp_path)
    assert media_playlist.ended
    assert [segment.discontinuity for segment in media_playlist.segments].count(True) == 1


async def test_a_source_that_disappears_leaves_the_slate_and_returns_in_the_same_run(
    tmp_path: Path, source: Source, other: Source
) -> None:
    async def scenario() -> float:
        async with running(tmp_path, jpeg("red")) as run:
            run.begin(tracks_of(source), 3.4 + 2.0)
            send(run, source, end=3_400)
            began = time.monotonic()
            run.slate(2.0)
            await until(lambda: len(listed(tmp_path)) >= 6, within=25)
            gone = time.monotonic() - began + 2.0
            run.begin(tracks_of(other), splice=False)
            send(run, other, start=SHIFT + 3_000)
            run.finish()
            run.end()
            return gone

    gone = await scenario()
    media_playlist = playlist(tmp_path)
    assert media_playlist.ended
    marks = [
        number for number, segment in enumerate(media_playlist.segments) if segment.discontinuity
    ]
    assert len(marks) == 2, "the encoder takes the source's rung over, and gives it back"
    on_slate = seconds(list(media_playlist.segments[marks[0] : marks[1]]))
    assert on_slate == pytest.approx(gone, abs=1.0), "as long as nobody was there"
    first = pictures(tmp_path, media_playlist, marks[0])
    assert not is_red(first[0]), "the last picture, before the slate"
    assert not is_red(first[15])
    for index in range(marks[0] + 1, marks[1]):
        assert all(is_red(frame) for frame in pictures(tmp_path, media_playlist, index)[1:])
    assert not is_red(pictures(tmp_path, media_playlist, marks[1])[0])
    assert max(map(abs, clocks(media_playlist))) < 0.7, "the wall clock goes on over both seams"
    lengths = [segment.duration for segment in media_playlist.segments[marks[0] : marks[1] - 1]]
    assert all(abs(length - 180_000) <= 3_000 for length in lengths)


async def test_a_slate_that_cannot_be_shown_is_a_card(tmp_path: Path, source: Source) -> None:
    async def scenario() -> None:
        async with running(tmp_path, b"no picture at all") as run:
            run.begin(tracks_of(source))
            send(run, source, end=2_100)
            run.slate(6.0)
            await until(lambda: len(listed(tmp_path)) >= 4, within=15)
            run.end()
            assert run.metrics.deaths == 0

    await scenario()
    media_playlist = playlist(tmp_path)
    assert is_card(pictures(tmp_path, media_playlist, 3)[-1])


@pytest.mark.parametrize("size", [0, 9 << 20], ids=["none", "far too large"])
async def test_a_slate_that_is_not_there_is_a_card(
    tmp_path: Path, source: Source, caplog: pytest.LogCaptureFixture, size: int
) -> None:
    async def scenario() -> None:
        async with running(tmp_path, bytes(size)) as run:
            run.begin(tracks_of(source))
            send(run, source, end=2_100)
            run.slate(6.0)
            await until(lambda: len(listed(tmp_path)) >= 4, within=15)
            run.end()

    await scenario()
    media_playlist = playlist(tmp_path)
    assert media_playlist.ended
    assert is_card(pictures(tmp_path, media_playlist, 3)[-1])
    assert caplog.text.count("slate not read") == 1


async def test_an_engine_that_dies_on_the_slate_is_replaced_and_shows_it(
    tmp_path: Path, source: Source, other: Source
) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as run:
            run.begin(tracks_of(source))
            send(run, source, end=2_100)
            run.slate(0.0)
            await until(lambda: len(listed(tmp_path)) >= 3, within=15)
            os.kill(children()[0], signal.SIGKILL)
            await until(lambda: run.metrics.deaths == 1, within=15)
            count = len(listed(tmp_path))
            await until(lambda: len(listed(tmp_path)) >= count + 2, within=25)
            run.begin(tracks_of(other), 0.0)
            send(run, other, start=SHIFT + 3_000, end=SHIFT + 5_100)
            run.finish()
            run.end()
            assert run.metrics.deaths == 1

    await scenario()
    media_playlist = playlist(tmp_path)
    assert media_playlist.ended
    marks = [segment.discontinuity for segment in media_playlist.segments]
    assert marks.count(True) == 3, [
        (s.uri, s.duration, s.gap, s.discontinuity) for s in media_playlist.segments
    ]
    anew = [number for number, mark in enumerate(marks) if mark][1]
    assert is_card(pictures(tmp_path, media_playlist, anew)[0]), "no last picture is left to show"


async def test_a_paused_run_begins_with_the_slate(tmp_path: Path, source: Source) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as run:
            run.begin(tracks_of(source))
            run.slate(0.0)
            await until(lambda: run.playable, within=15)
            assert run.load() is None, "nobody decides about rungs of a run without a source"

    await scenario()
    media_playlist = playlist(tmp_path)
    assert not media_playlist.ended, "a restart can go on with it"
    assert is_card(pictures(tmp_path, media_playlist, 0)[0])
    assert not media_playlist.segments[0].discontinuity


async def test_sound_alone_goes_silent(tmp_path: Path, source: Source) -> None:
    assert source.audio is not None
    shortened = tuple(packet for packet in source.packets if not packet.video)
    alone = msgspec.structs.replace(source, video=None, packets=shortened)

    async def scenario() -> None:
        async with running(tmp_path) as run:
            run.begin(tracks_of(alone))
            send(run, alone, end=3_000)
            run.slate(4.0)
            await until(lambda: len(listed(tmp_path, "audio")) >= 3, within=15)
            run.begin(tracks_of(alone))
            send(run, alone, start=3_000)
            run.finish()
            run.end()

    await scenario()
    media_playlist = playlist(tmp_path, "audio")
    assert media_playlist.ended
    assert not any(segment.discontinuity for segment in media_playlist.segments)
    assert seconds(list(media_playlist.segments)) > 11.5


async def test_the_slate_goes_as_far_as_the_clock(tmp_path: Path, source: Source) -> None:
    """A clock that only jumps makes as much slate as it jumps by, at once."""
    now = 1_000.0

    async def scenario() -> None:
        nonlocal now
        with DiskObjects(tmp_path) as objects:
            home = LiveTranscoding(
                objects=objects,
                edge=MemoryEdge(),
                window=LiveWindow(listed_seconds=60, kept_seconds=70),
            )
            run = LiveRun(
                services=home,
                stream=STREAM,
                active=frozenset(),
                settings=RunSettings(),
                on_playable=lambda: None,
                clock=lambda: now,
            )
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(run.serve())
                run.begin(tracks_of(source))
                send(run, source, end=2_100)
                run.slate(0.0)
                await until(lambda: run.playable, within=15)
                for jump in range(1, 5):  # below what makes an engine's silence too long
                    now += 5
                    await until(lambda least=5 * jump - 2: seconds(listed(tmp_path)) > least)
                assert seconds(listed(tmp_path)) < 25
                run.end()
                run.close()

    await scenario()
    assert playlist(tmp_path).ended


async def test_a_burst_of_a_backups_ring_sheds_nothing(
    tmp_path: Path, source: Source, other: Source
) -> None:
    """After a stall of two seconds four seconds of media come in at once."""
    decided: list[bool] = []

    def note(run: LiveRun) -> bool:
        load = run.load()
        decided.append(load is not None and load.is_behind and load.pace < 1.02)
        return run.metrics.lag < 1.5 and run.metrics.pace > 0

    async def scenario() -> None:
        async with running(tmp_path) as run:
            run.begin(tracks_of(source))
            for start in range(0, 2_000, 250):
                send(run, source, start=start, end=start + 250)
                await asyncio.sleep(0.25)
            await asyncio.sleep(2.5)
            assert not any(decided)
            run.begin(tracks_of(other), 4.0, splice=True)
            send(run, other, start=SHIFT + 1_000, end=SHIFT + 5_000)
            for start in range(5_000, 8_000, 250):
                send(run, other, start=SHIFT + start, end=SHIFT + start + 250)
                note(run)
                await asyncio.sleep(0.25)
            run.finish()
            run.end()
            assert run.metrics.sheds == 0

    await scenario()
    assert not any(decided)
