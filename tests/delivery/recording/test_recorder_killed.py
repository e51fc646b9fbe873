"""A process that is killed at any write while it records, and the one that comes after it.

The disk and the catalog stop taking writes at the n-th one, whoever writes it, run or recorder.
"""

import asyncio
import contextlib
from pathlib import Path

import pytest

from media.ladder import AUDIO_RENDITION
from tests.support.storage.engine_reports import (
    TOP,
    Killed,
    ReportMaker,
    append_all,
    begin_epoch,
    resume_run,
)
from tests.support.storage.recorded_run import RecorderFixture, run_recorder

STEPS = 15  # more than a page
# Run and recorder write side by side, so each time other writes are met.
STRIDES = [12, pytest.param(6, marks=pytest.mark.prove)]


async def one_life(fixture: RecorderFixture) -> int:
    """Broadcast until the disk stops; return how many steps viewers were surely told of."""
    listed = 0
    maker = ReportMaker(TOP, salt="first")
    with contextlib.suppress(Killed):
        publication = await fixture.open()
        await begin_epoch(publication, maker)
        for number in range(STEPS):
            await append_all(publication, maker.step())
            listed = number + 1
            fixture.clock.now += 2.0
            await asyncio.sleep(0.002)  # let the recorder run, too
        await publication.finish()
    await fixture.release()
    fixture.recorder.check_ended()
    for _ in range(20):
        if fixture.objects.writes_left == 0 or not await fixture.catalog.recordings.find_all():
            break
        await asyncio.sleep(0.01)
    return listed


async def check(fixture: RecorderFixture, listed: int, more: int) -> None:
    """Check that there is one video, which has all that viewers were shown."""
    videos = await fixture.all_over()
    if not listed and not more:
        assert len(videos) <= 1
        return
    (video,) = videos
    await fixture.check(video, exact=False)
    for name in (TOP.name, AUDIO_RENDITION):
        playlist = fixture.playlist(video, name)
        assert not any(one.gap for one in playlist.segments)
        numbers = [int(one.uri.removesuffix(".m4s")) for one in playlist.segments]
        # The last step of the killed process may be missing; a discontinuity marks it.
        assert numbers[:listed] == list(range(listed))
        assert listed + more <= len(numbers) <= listed + 1 + more
        parted = [n for n, one in enumerate(playlist.segments) if one.discontinuity]
        assert parted in ([], [len(numbers) - more])


async def writes_of_a_life(folder: Path) -> int:
    async with run_recorder(folder) as fixture:
        await one_life(fixture)
        await fixture.all_over()
        return fixture.objects.writes


@pytest.mark.parametrize("stride", STRIDES)
async def test_a_recording_is_resumed_wherever_its_process_was_killed(
    tmp_path: Path, stride: int
) -> None:
    lives = 0
    for writes in range(0, await writes_of_a_life(tmp_path / "whole"), stride):
        folder = tmp_path / str(writes)
        async with run_recorder(folder, writes=writes) as fixture:
            listed = await one_life(fixture)
        async with run_recorder(folder) as fixture:
            resumed = await resume_run(fixture.objects, fixture.edge, fixture.clock)
            if resumed is not None:
                fixture.follow(resumed, keep_days=7)
                maker = ReportMaker.continuing(resumed, salt="second")
                await begin_epoch(resumed, maker)
                for number in range(2):
                    await append_all(resumed, maker.step(discontinuity=number == 0))
                await resumed.finish()
                await fixture.release()  # or no recording may have begun yet
            await check(fixture, listed, 2 if resumed is not None else 0)
        lives += 1
    assert lives > 72 // stride


@pytest.mark.parametrize("stride", STRIDES)
async def test_a_recording_that_no_process_resumes_is_finished(tmp_path: Path, stride: int) -> None:
    lives = 0
    for writes in range(4, await writes_of_a_life(tmp_path / "whole"), stride):
        folder = tmp_path / str(writes)
        async with run_recorder(folder, writes=writes) as fixture:
            listed = await one_life(fixture)
        async with run_recorder(folder) as fixture:
            begun = await fixture.catalog.recordings.find_all() or await fixture.videos()
            resumed = await resume_run(fixture.objects, fixture.edge, fixture.clock)
            if resumed is not None:
                await resumed.finish()
                fixture.recorder.check_ended()
            if begun:
                await check(fixture, listed, 0)
        lives += 1
    assert lives > 72 // stride
