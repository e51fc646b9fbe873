"""A process that is killed at any write while it records, and the one that comes after it.

The disk and the catalog stop taking writes at the n-th one, whoever writes it, run or recorder.
"""

import asyncio
import contextlib
from pathlib import Path

import pytest

from media.ladder import AUDIO_RENDITION
from tests.support.storage.engine_reports import (
    HASH,
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


async def one_life(made: RecorderFixture) -> int:
    """Broadcast until the disk stops; return how many steps viewers were surely told of."""
    listed = 0
    maker = ReportMaker(TOP, salt="first")
    with contextlib.suppress(Killed):
        publication = await made.open()
        await begin_epoch(publication, maker)
        for number in range(STEPS):
            await append_all(publication, maker.step())
            listed = number + 1
            made.clock.now += 2.0
            await asyncio.sleep(0.002)  # the recorder has its turn, too
        await publication.finish()
    await made.recorder.release(HASH)
    made.recorder.check_ended()
    for _ in range(20):
        if made.objects.writes_left == 0 or not await made.catalog.recordings.find_all():
            break
        await asyncio.sleep(0.01)
    return listed


async def check(made: RecorderFixture, listed: int, more: int) -> None:
    """There is one video, and in it all that viewers were shown."""
    videos = await made.all_over()
    if not listed and not more:
        assert len(videos) <= 1
        return
    (video,) = videos
    await made.check(video, exact=False)
    for name in (TOP.name, AUDIO_RENDITION):
        playlist = made.playlist(video, name)
        assert not any(one.gap for one in playlist.segments)
        numbers = [int(one.uri.removesuffix(".m4s")) for one in playlist.segments]
        # The step that was under way is there or not; a hole stands where it was left out.
        assert numbers[:listed] == list(range(listed))
        assert listed + more <= len(numbers) <= listed + 1 + more
        parted = [n for n, one in enumerate(playlist.segments) if one.discontinuity]
        assert parted in ([], [len(numbers) - more])


async def writes_of_a_life(folder: Path) -> int:
    async with run_recorder(folder) as made:
        await one_life(made)
        await made.all_over()
        return made.objects.writes


@pytest.mark.parametrize("stride", STRIDES)
async def test_a_recording_goes_on_from_wherever_its_process_was_killed(
    tmp_path: Path, stride: int
) -> None:
    lives = 0
    for writes in range(0, await writes_of_a_life(tmp_path / "whole"), stride):
        folder = tmp_path / str(writes)
        async with run_recorder(folder, writes=writes) as made:
            listed = await one_life(made)
        async with run_recorder(folder) as made:
            resumed = await resume_run(made.objects, made.edge, made.clock)
            if resumed is not None:
                made.recorder.follow(resumed, may_begin=True, keep_days=7)
                maker = ReportMaker.continuing(resumed, salt="second")
                await begin_epoch(resumed, maker)
                for number in range(2):
                    await append_all(resumed, maker.step(discontinuity=number == 0))
                await resumed.finish()
            await check(made, listed, 2 if resumed is not None else 0)
        lives += 1
    assert lives > 72 // stride


@pytest.mark.parametrize("stride", STRIDES)
async def test_a_recording_that_nobody_goes_on_with_is_finished(
    tmp_path: Path, stride: int
) -> None:
    lives = 0
    for writes in range(4, await writes_of_a_life(tmp_path / "whole"), stride):
        folder = tmp_path / str(writes)
        async with run_recorder(folder, writes=writes) as made:
            listed = await one_life(made)
        async with run_recorder(folder) as made:
            begun = await made.catalog.recordings.find_all() or await made.videos()
            left = await resume_run(made.objects, made.edge, made.clock)
            if left is not None:
                await left.finish()
                made.recorder.check_ended()
            if begun:
                await check(made, listed, 0)
        lives += 1
    assert lives > 72 // stride
