"""Recording on a disk that is really full: the run comes first, and what was recorded plays."""

import shutil
from collections.abc import Generator
from pathlib import Path

import pytest

from delivery.run.publication import Publication
from media.ladder import AUDIO_RENDITION
from tests.support.storage.engine_reports import (
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
    with small_disk(tmp_path / "disk", ROOM) as volume:
        yield volume


async def steps(
    fixture: RecorderFixture, publication: Publication, maker: ReportMaker, number: int
) -> int:
    """Append steps, each followed by the recorder; return how often something did not fit."""
    failures = 0
    for _ in range(number):
        failures += await append_until_full(publication, maker.step(size=SIZES))
        fixture.clock.now += 2.0
        fixture.free = shutil.disk_usage(fixture.disk.root).free
    return failures


async def test_a_recording_that_fills_the_disk_stops_before_the_run_does(
    tmp_path: Path, disk: SmallDisk
) -> None:
    async with run_recorder(tmp_path, objects=disk.folder, min_free_bytes=6 * MIB) as fixture:
        publication = await fixture.open()
        maker = ReportMaker(TOP, LOW)
        await begin_epoch(publication, maker)
        failures = 0
        for _ in range(10):
            failures += await steps(fixture, publication, maker, 10)
            if fixture.events_of("recording stopped"):
                break
            await fixture.caught_up(publication)
        (video,) = await fixture.all_over()
        assert len(fixture.events_of("recording stopped")) == 1
        failures += await steps(fixture, publication, maker, 30)
        assert failures == 0  # the run lacked nothing
        await fixture.check(video)
        recorded = fixture.playlist(video, TOP.name).segments
        assert 40 < len(recorded) < 100
        assert not any(one.gap for one in recorded)
        await publication.finish()
        live = on_disk(fixture.disk, TOP.name).segments
        assert not any(one.gap or one.discontinuity for one in live)
        await fixture.release()
        assert await fixture.all_over() == [video]


async def test_a_disk_that_others_fill_costs_gaps_and_no_wrong_playlists(
    tmp_path: Path, disk: SmallDisk
) -> None:
    async with run_recorder(tmp_path, objects=disk.folder, min_free_bytes=0) as fixture:
        publication = await fixture.open()
        maker = ReportMaker(TOP, LOW)
        await begin_epoch(publication, maker)
        await steps(fixture, publication, maker, 8)
        await fixture.caught_up(publication)
        for leave in (0, 64 * KIB, 300 * KIB):
            disk.fill(leave)
            assert await steps(fixture, publication, maker, 3) > 0
            disk.empty()
            await steps(fixture, publication, maker, 3)
        await publication.finish()
        (video,) = await fixture.all_over()
        await fixture.check(video, exact=False)
        recorded = fixture.playlist(video, TOP.name).segments
        assert any(one.gap or one.discontinuity for one in recorded)
        # All complete steps are recorded; three times three steps did not fit.
        assert sum(not one.gap for one in recorded) >= 8 + 9 - 3
