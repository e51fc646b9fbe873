"""The page for uploads and imports."""

import pytest

from tests.support.api.application import ApiService
from tests.support.api.console_client import Browser


@pytest.fixture
async def browser(api_service: ApiService) -> Browser:
    browser = Browser(api_service)
    await browser.sign_in()
    return browser


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
