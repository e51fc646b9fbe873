"""The trash, as a browser gets it, and what its buttons send."""

import re

from storage.catalog.records.common import Change
from tests.support.api.application import NOW_US, ApiService
from tests.support.api.console_client import Browser

HOSTILE = "\"><script>alert('title')</script>"


async def deleted_stream(api_service: ApiService, title: str) -> None:
    stream = await api_service.add(title)
    await api_service.client.delete(f"/api/streams/{stream['id']}", headers=api_service.owner)


async def test_an_empty_trash_says_so(api_service: ApiService, browser: Browser) -> None:
    for path in (f"/console/{api_service.key}/trash", "/console/trash"):
        answer = await browser.get(path)
        assert answer.status_code == 200, answer.text
        assert "The trash is empty." in answer.text


async def test_what_is_in_the_trash_is_restored_by_its_buttons(
    api_service: ApiService, browser: Browser
) -> None:
    await deleted_stream(api_service, HOSTILE)
    path = f"/console/{api_service.key}/trash"
    page = (await browser.get(path)).text
    assert HOSTILE not in page
    assert "Stream" in page
    sent = re.findall(r'data-api="(POST|DELETE) ([^"]*)"', page)
    assert [method for method, _ in sent] == ["POST", "DELETE"]
    method, address = sent[0]
    assert (await browser.act(method, address)).status_code == 200
    assert "The trash is empty." in (await browser.fragment(path, "trash")).text


async def test_pages_follow_each_other(api_service: ApiService, browser: Browser) -> None:
    for number in range(31):
        await deleted_stream(api_service, f"Stream {number:02}")
    path = f"/console/{api_service.key}/trash"
    assert 'href="?page=2"' in (await browser.get(path)).text
    assert "Stream 00" in (await browser.get(f"{path}?page=2")).text


async def test_deleted_projects_are_shown_to_tokens_for_all(
    api_service: ApiService, browser: Browser
) -> None:
    project = await api_service.catalog.projects.add("Doomed", Change(NOW_US))
    await browser.act("DELETE", f"/api/projects/{project.id}")
    assert "Doomed" in (await browser.get("/console/trash")).text
    _, token = await api_service.catalog.tokens.add("own", 1, Change(NOW_US), write=False)
    reader = Browser(api_service)
    await reader.sign_in(token)
    assert (await reader.get("/console/trash")).status_code == 403
    page = (await reader.get(f"/console/{api_service.key}/trash")).text
    assert "data-api" not in page


async def test_questions_say_for_how_long(api_service: ApiService, browser: Browser) -> None:
    stream = await api_service.add("Morning")
    page = (await browser.get(f"/console/{api_service.key}/streams/{stream['id']}")).text
    assert "It can be restored from the trash for 7 days." in page
    assert "This cannot be undone." not in page
