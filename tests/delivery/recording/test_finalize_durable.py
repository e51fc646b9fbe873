"""A recording's media are on the disk before the row of the video that names them."""

from pathlib import Path

from tests.support.storage.disk_trace import are_synced_before, traced_disk
from tests.support.storage.engine_reports import TOP, ReportMaker, append_all, begin_epoch
from tests.support.storage.recorded_run import run_recorder


async def test_a_recording_is_on_the_disk_before_its_video(tmp_path: Path) -> None:
    async with run_recorder(tmp_path) as fixture:
        publication = await fixture.open()
        maker = ReportMaker(TOP)
        await begin_epoch(publication, maker)
        for _ in range(3):
            await append_all(publication, maker.step())
            fixture.clock.now += 2.0
        await fixture.caught_up(publication)
        await publication.finish()
        with traced_disk(fixture.disk.root) as trace:
            await fixture.all_over()
        assert are_synced_before(trace, "INSERT INTO videos")
