"""A run of a day, made into a video: how long that takes, and how much memory."""

import gc
import time
import tracemalloc
from pathlib import Path

import msgspec
import pytest

from delivery.recording.finalize import finalize
from delivery.recording.pages import RecordingPage, RecordingTotals
from delivery.recording.recording_store import MEDIA, RecordingStore
from delivery.run.run_state import PAGE_STEPS, Step, StepSegment
from media.hls.m3u8 import MAX_TEXT, parse
from media.hls.playlist import MediaPlaylist
from media.ladder import AUDIO_RENDITION, Rendition
from storage.objects.addresses import video_page
from tests.support.storage.engine_reports import HASH, NOON_US, ORIGIN, TWO
from tests.support.storage.recorded_run import run_recorder
from tests.support.waiting import SCALE

DAY = 43_200  # steps of 2 s
LONG = pytest.mark.parametrize(
    "steps",
    [pytest.param(DAY, id="a day", marks=pytest.mark.prove), pytest.param(DAY // 6, id="4 h")],
)
RUNGS = tuple(
    Rendition(name=name, width=16 * lines // 9, height=lines, rate=lines * 4000)
    for name, lines in (("1080p", 1080), ("720p", 720), ("480p", 480), ("360p", 360))
)
NAMES = (*(rung.name for rung in RUNGS), AUDIO_RENDITION)
CODECS = dict.fromkeys(NAMES, "avc1.64001F") | {AUDIO_RENDITION: "mp4a.40.2"}


def a_step(sequence: int) -> Step:
    cut = StepSegment(
        start=ORIGIN + sequence * TWO, duration=TWO, size=1000, frames=60, parts=4,
        init=sequence // 1000,
    )  # fmt: skip
    return Step(
        sequence=sequence,
        epoch=sequence // 1000,
        discontinuity=sequence > 0 and sequence % 1000 == 0,
        origin_us=NOON_US,
        segments=dict.fromkeys(NAMES, cut),
    )


def write_pages(root: Path, hash_: str, count: int) -> None:
    """Write the pages that a recorder leaves of so many steps, without media."""
    root.joinpath(video_page(hash_, MEDIA, 0)).parent.mkdir(parents=True)
    running_totals = RecordingTotals()
    for start in range(0, count, PAGE_STEPS):
        steps = tuple(a_step(number) for number in range(start, start + PAGE_STEPS))
        for step in steps:
            running_totals = running_totals.with_step(step, RUNGS, CODECS, {})
        page = RecordingPage(steps=steps, totals=running_totals)
        path = root / video_page(hash_, MEDIA, start // PAGE_STEPS)
        path.write_bytes(msgspec.json.encode(page))


@LONG
async def test_a_day_is_a_video_within_seconds(tmp_path: Path, steps: int) -> None:
    async with run_recorder(tmp_path) as fixture:
        row = await fixture.catalog.recordings.begin(HASH, "20260131T110000123", 7, NOON_US)
        assert row is not None
        write_pages(fixture.disk.root, row.hash, steps)
        began, busy = time.perf_counter(), time.process_time()
        record = await RecordingStore.load(fixture.disk, row.hash)
        assert await finalize(
            fixture.disk, fixture.catalog.recordings, row, record, None, lambda: NOON_US, str.lower
        )
        seconds, busy = time.perf_counter() - began, time.process_time() - busy
        (video,) = await fixture.videos()
        assert video.length_us == steps * 2_000_000
        for name in NAMES:
            text = (fixture.folder(video) / name / "index.m3u8").read_text()
            assert len(text) < MAX_TEXT // 2
            playlist = parse(text)
            assert isinstance(playlist, MediaPlaylist)
            assert len(playlist.segments) == steps
            assert sum(one.discontinuity for one in playlist.segments) == (steps - 1) // 1000
        # On a machine with nothing else to do, that is how long it takes.
        assert busy < 5 * max(SCALE, 3)
        assert seconds < 10 * SCALE


@LONG
async def test_a_day_costs_no_more_memory_than_its_playlists(tmp_path: Path, steps: int) -> None:
    async with run_recorder(tmp_path) as fixture:
        write_pages(fixture.disk.root, "abcdefABCDE0", steps)
        record = await RecordingStore.load(fixture.disk, "abcdefABCDE0")
        gc.collect()
        tracemalloc.start()
        try:
            size = (await record.write_playlists()).size
            most = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        # The texts of all renditions, once as pieces and one of them in whole and as bytes.
        assert most < 4 * size
