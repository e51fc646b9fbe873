"""The page of one video, as a browser gets it, and what its forms send."""

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
SUBTITLES = (
    '[{"folder":"1-1","rendition":"s0","title":"Română","language":"ro","forced":true,"size":10}]'
)


@pytest.fixture
async def video(api_service: ApiService) -> VideoRecord:
    facts = new_video(title="A film", size=1_400_000, rungs=((1, 640, 360), (3, 1280, 720)))
    return (await api_service.catalog.videos.add(1, facts, Change(NOW_US))).video


def page_of(api_service: ApiService, video: VideoRecord) -> str:
    return f"/console/{api_service.key}/videos/{video.id}"


async def test_the_page_shows_the_record(
    api_service: ApiService, browser: Browser, video: VideoRecord, catalog_database: Path
) -> None:
    run_sql(
        catalog_database,
        f"UPDATE videos SET state = 'completed', subtitles = '{SUBTITLES}', media = '1-1',"
        f" previews = 'previews-1' WHERE id = {video.id}",
        f"UPDATE video_resolutions SET transcoded = true, size = 5000 WHERE video_id = {video.id}",
    )
    answer = await browser.get(page_of(api_service, video))
    assert answer.status_code == 200, answer.text
    page = answer.text
    assert re.search(r"<h1[^>]*>A film<", page)
    assert f'src="/embed/{video.hash}"' in page
    assert "1280 \N{MULTIPLICATION SIGN} 720" in page
    assert "5.0 kB" in page
    assert re.search(r"Română \(ro\), always shown", page)
    assert f'data-previews="/videos/{video.hash}/previews-1/previews.vtt"' in page
    assert f'href="/api/videos/{video.id}/file"' in page
    assert "Choose a moment" in page
    assert f"https://live.example/watch/{video.hash}" in page


async def test_what_the_form_sends_is_what_the_api_takes(
    api_service: ApiService, browser: Browser, video: VideoRecord
) -> None:
    page = (await browser.get(page_of(api_service, video))).text
    stamp = re.search(r'data-version="([0-9a-f]+)"', page)
    assert stamp is not None
    tags = [{"name": "news"}, {"name": "Berlin, live"}]
    body = {"title": "Other", "tags": tags, "countries": [642], "category": None}
    path = f"/api/videos/{video.id}"
    act = {"X-Headend-Console": "1", "Sec-Fetch-Site": "same-origin"}
    mine = {**act, "If-Match": f'"{stamp[1]}"'}
    saved = await browser.act("PUT", path, body, headers=mine)
    assert saved.status_code == 200, saved.text
    details = (await browser.fragment(page_of(api_service, video), "details")).text
    assert 'value="Other"' in details
    assert (await browser.fragment(page_of(api_service, video), "heading")).text.strip() == "Other"
    for name in ("news", "Berlin, live"):  # a comma is part of a name
        assert f'data-type="named" value="{name}" checked>' in details
    assert re.search(r'value="642" checked', details)
    # An edit with the old page's version is refused.
    assert (await browser.act("PUT", path, body, headers=mine)).status_code == 412


async def test_a_failed_video_shows_its_reason_and_a_retry(
    api_service: ApiService, browser: Browser, video: VideoRecord, catalog_database: Path
) -> None:
    run_sql(
        catalog_database,
        "UPDATE videos SET state = 'failed', phase = 'failed', reason = 'It breaks off.'"
        f" WHERE id = {video.id}",
    )
    state = (await browser.fragment(page_of(api_service, video), "state")).text
    assert "It breaks off." in state
    assert f'data-api="POST /api/videos/{video.id}/retry"' in state


async def test_a_recording_shows_its_deletion_date_and_can_be_kept(
    api_service: ApiService, browser: Browser, video: VideoRecord, catalog_database: Path
) -> None:
    run_sql(
        catalog_database,
        f"UPDATE videos SET state = 'completed', source = NULL, expires_us = {NOW_US + 1}"
        f" WHERE id = {video.id}",
    )
    state = (await browser.fragment(page_of(api_service, video), "state")).text
    assert f'data-api="POST /api/videos/{video.id}/keep"' in state
    assert (
        "There is no file to download"
        in (await browser.fragment(page_of(api_service, video), "file")).text
    )
    assert (await browser.act("POST", f"/api/videos/{video.id}/keep")).status_code == 200
    assert "/keep" not in (await browser.fragment(page_of(api_service, video), "state")).text


async def test_texts_of_strangers_are_text(api_service: ApiService, browser: Browser) -> None:
    facts = new_video(title=HOSTILE, description=HOSTILE)
    video = (await api_service.catalog.videos.add(1, facts, Change(NOW_US))).video
    tags = [{"name": HOSTILE}]
    await browser.act("PUT", f"/api/videos/{video.id}", {"tags": tags})
    page = (await browser.get(page_of(api_service, video))).text
    assert "<script>alert" not in page


async def test_a_video_of_another_project_is_not_found_on_the_pages_of_this_one(
    api_service: ApiService, browser: Browser
) -> None:
    other = await api_service.catalog.projects.add("Other", Change(NOW_US))
    theirs = (await api_service.catalog.videos.add(other.id, new_video(), Change(NOW_US))).video
    assert (await browser.get(page_of(api_service, theirs))).status_code == 404
    assert (await browser.get(f"/console/{other.key}/videos/{theirs.id}")).status_code == 200
    assert (await browser.get(f"/console/{api_service.key}/videos/none")).status_code == 404


async def test_a_token_that_reads_sees_no_acts(api_service: ApiService, video: VideoRecord) -> None:
    _, token = await api_service.catalog.tokens.add("reader", 1, Change(NOW_US), write=False)
    reader = Browser(api_service)
    await reader.sign_in(token)
    page = (await reader.get(page_of(api_service, video))).text
    assert "A film" in page
    assert "data-api" not in page
    assert 'type="file"' not in page


async def test_a_video_without_previews_offers_no_moments(
    api_service: ApiService, browser: Browser, video: VideoRecord, catalog_database: Path
) -> None:
    run_sql(catalog_database, f"UPDATE videos SET media = '1-1' WHERE id = {video.id}")
    poster = (await browser.fragment(page_of(api_service, video), "poster")).text
    assert "Stop the player at the picture that you like." in poster
    assert "moments" not in poster
