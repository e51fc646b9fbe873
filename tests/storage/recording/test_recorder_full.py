"""Recording on a disk that is really full: the run comes first, and what was recorded plays."""

import shutil
from collections.abc import Generator
from pathlib import Path

import pytest

from media.ladder import AUDIO_RENDITION
from storage.live.publication import Publication
from tests.support.storage.engine_reports import (
    HASH,
    LOW,
    TOP,
    ReportMaker,
    append_until_full,
    begin_epoch,
    on_disk,
)
from tests.support.storage.full_disk import KIB, MIB, SmallDisk, small_disk
from tests.support.storage.recorded_run import RecorderFixture, run_recorder

SIZES = {TOP.name: 200_000, LOW.name: 40_000, AUDIO_RENDITION: 8_000}
# 14 steps of 250 kB are listed or kept: 3.5 MB. The rest is for what is recorded.
ROOM = 24 * MIB


@pytest.fixture
def disk(tmp_path: Path) -> Generator[SmallDisk]:
    with small_disk(tmp_path / "disk", ROOM) as made:
        yield made


async def steps(
    made: RecorderFixture, publication: Publication, maker: ReportMaker, number: int
) -> int:
    """Go on, with the recorder at its heels; return how often something did not fit."""
    failures = 0
    for _ in range(number):
        failures += await append_until_full(publication, maker.step(size=SIZES))
        made.clock.now += 2.0
        made.free = shutil.disk_usage(made.disk.root).free
    return failures


async def test_a_recording_that_fills_the_disk_stops_before_the_run_does(
    tmp_path: Path, disk: SmallDisk
) -> None:
    async with run_recorder(tmp_path, objects=disk.folder, min_free_bytes=6 * MIB) as made:
        publication = await made.open()
        maker = ReportMaker(TOP, LOW)
        await begin_epoch(publication, maker)
        failures = 0
        for _ in range(10):
            failures += await steps(made, publication, maker, 10)
            if made.events_of("recording stopped"):
                break
            await made.caught_up(publication)
        (video,) = await made.all_over()
        assert len(made.events_of("recording stopped")) == 1
        failures += await steps(made, publication, maker, 30)
        assert failures == 0  # the run lacked nothing
        await made.check(video)
        recorded = made.playlist(video, TOP.name).segments
        assert 40 < len(recorded) < 100
        assert not any(one.gap for one in recorded)
        await publication.finish()
        live = on_disk(made.disk, TOP.name).segments
        assert not any(one.gap or one.discontinuity for one in live)
        await made.recorder.release(HASH)
        assert await made.all_over() == [video]


async def test_a_disk_that_others_fill_costs_gaps_and_no_lies(
    tmp_path: Path, disk: SmallDisk
) -> None:
    async with run_recorder(tmp_path, objects=disk.folder, min_free_bytes=0) as made:
        publication = await made.open()
        maker = ReportMaker(TOP, LOW)
        await begin_epoch(publication, maker)
        await steps(made, publication, maker, 8)
        await made.caught_up(publication)
        for leave in (0, 64 * KIB, 300 * KIB):
            disk.fill(leave)
            assert await steps(made, publication, maker, 3) > 0
            disk.empty()
            await steps(made, publication, maker, 3)
        await publication.finish()
        (video,) = await made.all_over()
        await made.check(video, exact=False)
        recorded = made.playlist(video, TOP.name).segments
        assert any(one.gap or one.discontinuity for one in recorded)
        # All that was whole is there: three times three steps were not.
        assert sum(not one.gap for one in recorded) >= 8 + 9 - 3
