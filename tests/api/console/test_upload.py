"""The page for uploads and imports."""

import msgspec
import pytest

from api.app import create_app
from headend.roles.upload_intake import create_intake
from storage.catalog.records.common import Change
from storage.catalog.records.details import VideoDetails
from storage.objects.disk import DiskObjects
from tests.support.api.application import ADDRESSES, BROADCASTER_KEY, NOW_US, ApiService
from tests.support.api.console_client import COOKIE, Browser
from tests.support.api.in_loop_client import client_of


async def test_the_page_names_where_files_go(api_service: ApiService, browser: Browser) -> None:
    answer = await browser.get(f"/console/{api_service.key}/upload")
    assert answer.status_code == 200, answer.text
    assert f'data-uploads="/api/projects/{api_service.key}/uploads"' in answer.text
    assert f'data-live="project.{api_service.key}"' in answer.text


async def test_an_upload_of_the_page_is_one_of_the_project(
    api_service: ApiService, browser: Browser
) -> None:
    page_headers = {
        "X-Headend-Console": "1",
        "Sec-Fetch-Site": "same-origin",
        "Tus-Resumable": "1.0.0",
        "Upload-Length": "100",
        "Upload-Metadata": "filename ZmlsbS5tcDQ=",
    }
    begun = await browser.act(
        "POST", f"/api/projects/{api_service.key}/uploads", headers=page_headers
    )
    assert begun.status_code == 201, begun.text
    assert "film" in (await browser.get(f"/console/{api_service.key}/videos")).text
    # Another site's page cannot begin one.
    foreign = {**page_headers, "Sec-Fetch-Site": "cross-site"}
    refused = await browser.act("POST", f"/api/projects/{api_service.key}/uploads", headers=foreign)
    assert refused.status_code == 403


async def test_links_are_listed_without_their_addresses(
    api_service: ApiService, browser: Browser
) -> None:
    path = f"/api/projects/{api_service.key}/upload-links"
    link = (await browser.act("POST", path, {"title": "Your greeting"})).json()["upload_link"]
    links = (await browser.fragment(f"/console/{api_service.key}/upload", "links")).text
    assert "Your greeting" in links
    assert "open until" in links
    assert link["address"].rpartition("/")[2] not in links
    assert (await browser.act("DELETE", f"{path}/{link['id']}")).status_code == 204
    assert (
        "Your greeting"
        not in (await browser.fragment(f"/console/{api_service.key}/upload", "links")).text
    )


async def test_all_links_are_reachable_page_by_page(
    api_service: ApiService, browser: Browser
) -> None:
    for number in range(11):
        wanted = VideoDetails(title=f"Greeting {number:02}")
        await api_service.catalog.links.add(
            1, wanted, Change(NOW_US), most_bytes=1, expires_us=NOW_US
        )
    path = f"/console/{api_service.key}/upload"
    first = (await browser.fragment(path, "links")).text
    assert "Greeting 01" in first
    assert "Greeting 00" not in first
    assert 'href="?links=2#links"' in first
    second = (await browser.fragment(f"{path}?links=2", "links")).text
    assert "Greeting 00" in second
    assert "Greeting 01" not in second
    beyond = (await browser.fragment(f"{path}?links=3", "links")).text
    assert 'href="?links=2#links"' in beyond
    assert (await browser.get(f"{path}?links=x")).status_code == 422


@pytest.mark.parametrize(
    ("hours", "words"),
    [(0.5, "for 0.5 hours."), (1, "for 1 hour."), (24, "for 24 hours.")],
)
async def test_the_page_says_how_long_an_upload_is_kept(
    api_service: ApiService, objects: DiskObjects, browser: Browser, hours: float, words: str
) -> None:
    intake = create_intake(objects, min_free_bytes=0)
    app = create_app(
        catalog=api_service.catalog,
        addresses=ADDRESSES,
        broadcaster_key=BROADCASTER_KEY,
        intake=msgspec.structs.replace(intake, keep_us=int(hours * 3_600_000_000)),
        clock_us=lambda: NOW_US,
    )
    async with client_of(app) as client:
        headers = {"Cookie": f"{COOKIE}={browser.secret}"}
        page = (await client.get("/console/1/upload", headers=headers)).text
    assert words in page
