"""The page of the installation, as a browser gets it."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from api.operations.report import LoggedProblem
from headend.install.installation import DATABASE
from storage.catalog.records.common import Change
from tests.support.api.application import NOW_US, ApiService
from tests.support.api.console_client import Browser
from tests.support.api.operations_site import operations_site
from tests.support.storage.leases import queue_errand
from tests.support.storage.new_videos import new_video

HOSTILE = "\"><script>alert('event')</script>"
LINE = LoggedProblem(at_us=NOW_US, level="error", event="engine lost", facts={"cause": HOSTILE})


async def one_problem() -> list[str]:
    return ["the bucket does not answer"]


@pytest.fixture
async def operations_service(tmp_path: Path) -> AsyncGenerator[ApiService]:
    async with operations_site(
        tmp_path / "data", problems=one_problem, line=LINE, write=True
    ) as opened:
        yield opened


async def test_machine_queue_and_log_are_shown(
    operations_service: ApiService, tmp_path: Path
) -> None:
    queue_errand(tmp_path / "data" / DATABASE, 1)
    added = await operations_service.catalog.videos.add(1, new_video(title=HOSTILE), Change(NOW_US))
    browser = Browser(operations_service)
    await browser.sign_in()
    answer = await browser.get("/console/operations")
    assert answer.status_code == 200, answer.text
    page = answer.text
    assert "the bucket does not answer" in page
    assert "1 to transcode: queued" in page
    assert f"/videos/{added.video.id}" in page
    assert "1 errand: queued" in page
    assert "/videos/0" not in page
    assert "engine lost" in page
    assert "<script>alert" not in page
    assert "1.2.3" in page
    assert "room for about 3 streams of 1080p" in page
    assert "needs your" not in page  # nothing was examined


async def test_the_doctor_examines_on_request_only(operations_service: ApiService) -> None:
    await operations_service.catalog.videos.add(
        1, new_video(), Change(NOW_US)
    )  # its file does not exist
    browser = Browser(operations_service)
    await browser.sign_in()
    page = (await browser.get("/console/operations?examine=1")).text
    assert "Something needs your attention." in page
    assert "uploaded file" in page
    # The fragment that is fetched every few seconds does not repeat the examination.
    fragment = (await browser.fragment("/console/operations?examine=1", "installation")).text
    assert "engine lost" in fragment
    assert "uploaded file" not in fragment


async def test_a_token_of_one_project_is_refused(operations_service: ApiService) -> None:
    _, token = await operations_service.catalog.tokens.add("theirs", 1, Change(NOW_US), write=True)
    browser = Browser(operations_service)
    await browser.sign_in(token)
    assert (await browser.get("/console/operations")).status_code == 403


async def test_a_service_without_a_reporter_has_no_such_page(api_service: ApiService) -> None:
    browser = Browser(api_service)
    await browser.sign_in()
    assert (await browser.get("/console/operations")).status_code == 404
