"""The settings of a project, as a browser gets them, and what its forms send."""

import re

import pytest

from storage.catalog.records.common import Change
from tests.support.api.application import NOW_US, ApiService
from tests.support.api.console_client import Browser

HOSTILE = "\"><script>alert('name')</script>"


async def test_every_section_is_there(api_service: ApiService, browser: Browser) -> None:
    answer = await browser.get(f"/console/{api_service.key}/settings")
    assert answer.status_code == 200, answer.text
    for title in (
        "Project", "All streams of the project", "Players", "Tags", "Categories", "Countries",
        "Tokens",
    ):  # fmt: skip
        assert f">{title}</h2>" in answer.text, title
    assert "everything plays everywhere" in answer.text


async def test_defaults_are_shown_as_they_were_set(
    api_service: ApiService, browser: Browser
) -> None:
    body = {
        "latency": "normal",
        "recording": {"enabled": True, "keep_days": 30},
        "failover": {"mode": "sticky", "detect_seconds": 2.5},
    }
    answer = await browser.act("PUT", "/api/projects/1/settings", body)
    assert answer.status_code == 200, answer.text
    defaults = (await browser.fragment(f"/console/{api_service.key}/settings", "defaults")).text
    for value in ("normal", "true", "sticky"):
        assert re.search(rf'<option value="{value}" selected>', defaults), value
    assert re.search(r'name="recording.keep_days"[^>]*value="30"', defaults)
    assert re.search(r'name="failover.detect_seconds"[^>]*value="2.5"', defaults)
    assert re.search(r'name="failover.return_seconds"[^>]*value=""', defaults)


async def test_names_of_strangers_are_text(api_service: ApiService, browser: Browser) -> None:
    await browser.act("PUT", "/api/projects/1", {"name": HOSTILE})
    for place in ("players", "tags", "categories"):
        added = await browser.act("POST", f"/api/projects/1/{place}", {"name": HOSTILE})
        assert added.status_code == 201, added.text
    await browser.act("POST", "/api/tokens", {"name": HOSTILE})
    page = (await browser.get(f"/console/{api_service.key}/settings")).text
    assert "<script>alert" not in page
    assert page.count("&lt;script&gt;") >= 5


async def test_restricted_records_are_listed(api_service: ApiService, browser: Browser) -> None:
    stream = await api_service.add("For Romania")
    body = {"countries": ["RO"]}
    assert (await browser.act("PUT", f"/api/streams/{stream['id']}", body)).status_code == 200
    page = (await browser.get(f"/console/{api_service.key}/settings")).text
    assert f'href="/console/{api_service.key}/streams/{stream["id"]}">For Romania</a>' in page
    assert "Romania</span>" in page


async def test_tokens_are_those_that_the_caller_manages(api_service: ApiService) -> None:
    other = await api_service.catalog.projects.add("Other", Change(NOW_US))
    for name, project in (("of all", None), ("of mine", 1), ("of theirs", other.id)):
        await api_service.catalog.tokens.add(name, project, Change(NOW_US), write=True)
    owner, member, reader = Browser(api_service), Browser(api_service), Browser(api_service)
    await owner.sign_in()
    for browser, write in ((member, True), (reader, False)):
        _, token = await api_service.catalog.tokens.add("one", 1, Change(NOW_US), write=write)
        await browser.sign_in(token)
    path = f"/console/{api_service.key}/settings"
    owner_text = (await owner.fragment(path, "tokens")).text
    assert {"of all", "of mine", "of theirs"} <= set(re.findall(r"of \w+", owner_text))
    member_text = (await member.fragment(path, "tokens")).text
    assert "of mine" in member_text
    assert "of theirs" not in member_text
    assert "of all" not in member_text
    reader_page = await reader.get(path)
    assert "of mine" not in reader_page.text
    assert 'data-api="DELETE' not in reader_page.text


async def test_an_edit_of_project_settings_that_have_changed_since_is_refused(
    api_service: ApiService, browser: Browser
) -> None:
    page = f"/console/{api_service.key}/settings"
    stamp = re.search(
        r'data-version="([0-9a-f]+)"', (await browser.fragment(page, "defaults")).text
    )
    assert stamp is not None
    act = {"X-Headend-Console": "1", "Sec-Fetch-Site": "same-origin"}
    mine = {**act, "If-Match": f'"{stamp[1]}"'}
    path = "/api/projects/1/settings"
    first = await browser.act("PUT", path, {"latency": "normal"}, headers=mine)
    assert first.status_code == 200, first.text
    second = await browser.act("PUT", path, {"dvr_seconds": 60}, headers=mine)
    assert second.status_code == 412
    newer_stamp = re.search(
        r'data-version="([0-9a-f]+)"', (await browser.fragment(page, "defaults")).text
    )
    assert newer_stamp is not None
    assert f'"{newer_stamp[1]}"' == first.headers["etag"]


async def test_an_edit_of_a_project_that_has_changed_since_is_refused(
    api_service: ApiService, browser: Browser
) -> None:
    page = (await browser.fragment(f"/console/{api_service.key}/settings", "project")).text
    stamp = re.search(r'data-version="([0-9a-f]+)"', page)
    assert stamp is not None
    act = {"X-Headend-Console": "1", "Sec-Fetch-Site": "same-origin"}
    mine = {**act, "If-Match": f'"{stamp[1]}"'}
    first = await browser.act("PUT", "/api/projects/1", {"name": "Mine"}, headers=mine)
    assert first.status_code == 200, first.text
    second = await browser.act("PUT", "/api/projects/1", {"name": "Theirs"}, headers=mine)
    assert second.status_code == 412
    assert "Mine" in (await browser.get(f"/console/{api_service.key}/settings")).text


@pytest.mark.parametrize("nouns", ["players", "tags", "categories"])
async def test_an_edit_of_a_player_or_label_that_has_changed_since_is_refused(
    api_service: ApiService, browser: Browser, nouns: str
) -> None:
    added = await browser.act("POST", f"/api/projects/1/{nouns}", {"name": "First"})
    number = next(value["id"] for key, value in added.json().items() if key != "message")
    page = (await browser.fragment(f"/console/{api_service.key}/settings", nouns)).text
    stamp = re.search(r'data-version="([0-9a-f]+)"', page)
    assert stamp is not None
    act = {"X-Headend-Console": "1", "Sec-Fetch-Site": "same-origin"}
    mine = {**act, "If-Match": f'"{stamp[1]}"'}
    path = f"/api/{nouns}/{number}"
    first = await browser.act("PUT", path, {"name": "Mine"}, headers=mine)
    assert first.status_code == 200, first.text
    second = await browser.act("PUT", path, {"name": "Theirs"}, headers=mine)
    assert second.status_code == 412
    newer_page = (await browser.fragment(f"/console/{api_service.key}/settings", nouns)).text
    assert f'data-version="{first.headers["etag"].strip(chr(34))}"' in newer_page
