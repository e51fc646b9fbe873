"""The list of videos, as a browser gets it."""

import re
from pathlib import Path

import pytest

from storage.catalog.records.common import Change
from storage.catalog.records.videos import VideoRecord
from tests.support.api.application import NOW_US, ApiService
from tests.support.api.console_client import Browser
from tests.support.sql import run_sql
from tests.support.storage.new_videos import new_video

HOSTILE = "\"><script>alert('title')</script>"


async def add_video(api_service: ApiService, title: str, size: int = 1) -> VideoRecord:
    video = new_video(title=title, size=size)
    return (await api_service.catalog.videos.add(1, video, Change(NOW_US))).video


async def titles(browser: Browser, path: str) -> list[str]:
    answer = await browser.get(path)
    assert answer.status_code == 200, answer.text
    return re.findall(r'<h2><a href="[^"]*">([^<]*)</a></h2>', answer.text)


async def test_an_empty_list_explains_the_first_step(
    api_service: ApiService, browser: Browser
) -> None:
    page = (await browser.get(f"/console/{api_service.key}/videos")).text
    assert "There are no videos yet." in page
    assert f'href="/console/{api_service.key}/upload"' in page
    narrow = (await browser.get(f"/console/{api_service.key}/videos?search=none&type=&sort=")).text
    assert "No video is like that." in narrow


async def test_videos_are_searched_and_sorted(api_service: ApiService, browser: Browser) -> None:
    for title, size in (("Beta", 3), ("alpha", 1), ("Gamma film", 2)):
        await add_video(api_service, title, size=size)
    path = f"/console/{api_service.key}/videos"
    assert await titles(browser, path) == ["Gamma film", "alpha", "Beta"]
    assert await titles(browser, f"{path}?sort=title") == ["alpha", "Beta", "Gamma film"]
    assert await titles(browser, f"{path}?sort=largest") == ["Beta", "Gamma film", "alpha"]
    assert await titles(browser, f"{path}?search=FILM&type=inprogress") == ["Gamma film"]
    assert await titles(browser, f"{path}?type=completed") == []


async def test_pages_keep_what_was_asked(api_service: ApiService, browser: Browser) -> None:
    for number in range(31):
        await add_video(api_service, f"Film {number:02}")
    first = (await browser.get(f"/console/{api_service.key}/videos?search=Film&sort=title")).text
    assert 'href="?search=Film&amp;sort=title&amp;page=2"' in first
    second = f"/console/{api_service.key}/videos?search=Film&sort=title&page=2"
    assert await titles(browser, second) == ["Film 30"]
    assert "Page 2 of 2" in (await browser.get(second)).text


async def test_each_state_is_shown_in_words(
    api_service: ApiService, browser: Browser, catalog_database: Path
) -> None:
    video = await add_video(api_service, "Film")
    path = f"/console/{api_service.key}/videos"
    for values, words in (
        ("state = 'uploading'", "Uploading"),
        ("state = 'queued'", "Waiting to be transcoded"),
        ("state = 'transcoding', progress = 40, eta = 200", "Transcoding, 40 %"),
        ("state = 'failed', reason = 'The file breaks off.'", "The file breaks off."),
        ("state = 'completed', published = true", "Published"),
        ("hidden = true, published = false", "Unpublished"),
    ):
        run_sql(catalog_database, f"UPDATE videos SET {values} WHERE id = {video.id}")
        assert words in (await browser.fragment(path, "videos")).text, words


async def test_titles_are_text(api_service: ApiService, browser: Browser) -> None:
    await add_video(api_service, HOSTILE)
    page = (await browser.get(f"/console/{api_service.key}/videos?search=%22%3E%3Cscript%3E")).text
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page


async def test_a_fragment_has_the_list_only(api_service: ApiService, browser: Browser) -> None:
    await add_video(api_service, "Film")
    fragment = (await browser.fragment(f"/console/{api_service.key}/videos", "videos")).text
    assert "Film" in fragment
    assert "<html" not in fragment


async def test_a_token_that_reads_sees_no_acts(api_service: ApiService) -> None:
    await add_video(api_service, "Film")
    _, token = await api_service.catalog.tokens.add("reader", 1, Change(NOW_US), write=False)
    reader = Browser(api_service)
    await reader.sign_in(token)
    page = (await reader.get(f"/console/{api_service.key}/videos")).text
    assert "Film" in page
    assert "data-pick" not in page
    assert "data-bulk" not in page
    assert (await reader.get(f"/console/{api_service.key}/upload")).status_code == 403


async def test_another_project_is_not_found(api_service: ApiService) -> None:
    other = await api_service.catalog.projects.add("Other", Change(NOW_US))
    _, token = await api_service.catalog.tokens.add("theirs", other.id, Change(NOW_US), write=True)
    stranger = Browser(api_service)
    await stranger.sign_in(token)
    for room in ("videos", "upload", "settings", "videos/1"):
        assert (await stranger.get(f"/console/{api_service.key}/{room}")).status_code == 404, room


@pytest.mark.parametrize("query", ["type=none", "from=2026-01-01", "from=x&to=y", "page=0"])
async def test_an_invalid_query_is_answered_with_a_page(
    api_service: ApiService, browser: Browser, query: str
) -> None:
    answer = await browser.get(f"/console/{api_service.key}/videos?{query}")
    assert answer.status_code == 422
    assert "<h1>That did not work</h1>" in answer.text
