"""Files that wait for live streams, which need the machine: the API and the console say so."""

from pathlib import Path

from api.operations.report import LoggedProblem
from storage.catalog.records.common import Change
from storage.catalog.videos.jobs import TRANSCODE
from tests.support.api.application import NOW_US
from tests.support.api.console_client import Browser
from tests.support.api.operations_site import operations_site
from tests.support.storage.new_videos import new_video

LINE = LoggedProblem(at_us=NOW_US, level="warning", event="an event", facts={})


async def no_problems() -> list[str]:
    return []


async def test_files_that_wait_for_live_streams_say_so_while_these_need_the_machine(
    tmp_path: Path,
) -> None:
    is_busy = True
    async with operations_site(
        tmp_path / "data", problems=no_problems, line=LINE, write=True, files_wait=lambda: is_busy
    ) as site:
        browser = Browser(site)
        await browser.sign_in()
        project = (await site.catalog.projects.find_page()).items[0]
        video = (await site.catalog.videos.add(project.id, new_video(), Change(NOW_US))).video

        async def told() -> tuple[str, bool, bool]:
            path = f"/api/videos/{video.id}/status"
            answer = await site.client.get(path, headers=site.owner)
            page = await browser.get(f"/console/{project.key}/videos/{video.id}")
            overview = await browser.get("/console")
            return (
                answer.json()["data"]["waits_for"],
                "Live streams need this machine now" in page.text,
                "waits for live streams" in overview.text,
            )

        assert await told() == ("live streams", True, True)
        is_busy = False
        assert await told() == ("", False, False)
        is_busy = True
        job = await site.catalog.jobs.lease("worker", NOW_US, TRANSCODE)
        assert job is not None
        await site.catalog.transcoding.begin(job, NOW_US)
        assert await told() == ("live streams", True, True), "its spans wait"
        await site.catalog.transcoding.fail(job, "damaged", NOW_US)
        assert await told() == ("", False, False), "it does not wait any more"
