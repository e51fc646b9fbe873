"""The first page: live streams, videos in processing, and problems."""

import re
from pathlib import Path

import pytest

from api.app import create_app
from api.console.overview import state_of
from api.operations.report import LoggedProblem, SpareRoom
from storage.catalog.records.common import Change, StreamRecord
from tests.support.api.application import ADDRESSES, BROADCASTER_KEY, NOW_US, ApiService
from tests.support.api.console_client import COOKIE, Browser
from tests.support.api.in_loop_client import client_of
from tests.support.api.operations_site import operations_site
from tests.support.sql import run_sql
from tests.support.storage.new_videos import new_video

HOSTILE = "\"><script>alert('title')</script>"


async def stream_of(api_service: ApiService, number: int) -> StreamRecord:
    record = await api_service.catalog.streams.find(number)
    assert record is not None
    return record


async def test_a_new_installation_explains_the_first_steps(browser: Browser) -> None:
    page = (await browser.get("/console")).text
    assert "Nothing is live. A stream goes live as soon as an encoder sends to it." in page
    assert "No file is being transcoded." in page
    assert "Needs attention" not in page


async def test_live_streams_and_videos_in_processing_are_shown_with_links(
    api_service: ApiService, browser: Browser, catalog_database: Path
) -> None:
    stream = await api_service.add("Evening show")
    added = await api_service.catalog.videos.add(1, new_video(title="A film"), Change(1))
    failed = await api_service.catalog.videos.add(1, new_video(title="A broken film"), Change(1))
    run_sql(
        catalog_database,
        "UPDATE streams SET live = true, on_air = 0, receiving_count = 2,"
        f" poster_labels = '360p,720p' WHERE id = {stream['id']}",
        "UPDATE videos SET state = 'transcoding', progress = 40, eta = 75"
        f" WHERE id = {added.video.id}",
        f"UPDATE videos SET state = 'failed', phase = 'failed' WHERE id = {failed.video.id}",
    )
    live = (await browser.fragment("/console", "live")).text
    assert f'href="/console/{api_service.key}/streams/{stream["id"]}"' in live
    assert f'src="/live/{stream["hash"]}/poster/360p.jpg"' in live
    assert "Evening show" in live
    assert "2 encoders" in live
    assert 'class="state good">Live<' in live
    working = (await browser.fragment("/console", "working")).text
    assert f'href="/console/{api_service.key}/videos/{added.video.id}"' in working
    assert "40 %, 1:15 left" in working
    assert f'href="/console/{api_service.key}/videos/{failed.video.id}"' in working
    run_sql(catalog_database, f"UPDATE videos SET eta = 0 WHERE id = {added.video.id}")
    working = (await browser.fragment("/console", "working")).text
    assert "40 %" in working
    assert "left" not in working


async def test_the_state_of_a_stream_is_what_its_viewers_have(
    api_service: ApiService, catalog_database: Path
) -> None:
    number = (await api_service.add())["id"]
    for values, kind, word in (
        ("on_air = 0", "good", "live"),
        ("on_air = 1", "warn", "backup"),
        ("on_air = NULL", "bad", "slate"),
        ("on_air = 0, paused = true", "warn", "paused"),
    ):
        run_sql(catalog_database, f"UPDATE streams SET live = true, {values} WHERE id = {number}")
        state = state_of(await stream_of(api_service, number))
        assert (state.kind, state.word) == (kind, word)


async def test_titles_and_names_are_text(
    api_service: ApiService, browser: Browser, catalog_database: Path
) -> None:
    await api_service.catalog.projects.add(HOSTILE, Change(NOW_US))
    await api_service.add(HOSTILE)
    await api_service.catalog.videos.add(1, new_video(title=HOSTILE), Change(1))
    _, token = await api_service.catalog.tokens.add(HOSTILE, None, Change(NOW_US), write=True)
    run_sql(catalog_database, "UPDATE streams SET live = true")
    named = Browser(api_service)
    await named.sign_in(token)
    for viewer in (browser, named):
        page = (await viewer.get("/console")).text
        assert "alert(" in page
        assert "<script>alert" not in page
        assert HOSTILE not in page


async def test_a_token_of_one_project_sees_that_one(
    api_service: ApiService, catalog_database: Path
) -> None:
    other = await api_service.catalog.projects.add("Other", Change(NOW_US))
    await api_service.add("Of the first")
    await api_service.catalog.streams.add(other.id, "Of the other", Change(NOW_US))
    run_sql(catalog_database, "UPDATE streams SET live = true")
    _, token = await api_service.catalog.tokens.add("editor", other.id, Change(NOW_US), write=True)
    browser = Browser(api_service)
    await browser.sign_in(token)
    page = (await browser.get("/console")).text
    assert "Of the other" in page
    assert "Of the first" not in page
    assert f"/console/{api_service.key}/" not in page
    assert "New project" not in page


async def test_problems_of_the_service_are_shown_to_owners_only(
    api_service: ApiService, browser: Browser
) -> None:
    async def problems() -> list[str]:
        return ["the disk of the data folder is <full>"]

    app = create_app(
        catalog=api_service.catalog,
        addresses=ADDRESSES,
        broadcaster_key=BROADCASTER_KEY,
        clock_us=lambda: NOW_US,
        problems=problems,
    )
    _, token = await api_service.catalog.tokens.add("editor", 1, Change(NOW_US), write=True)
    editor = Browser(api_service)
    await editor.sign_in(token)
    async with client_of(app) as client:
        pages = {
            viewer: (
                await client.get("/console", headers={"Cookie": f"{COOKIE}={viewer.secret}"})
            ).text
            for viewer in (browser, editor)
        }
    assert "the disk of the data folder is &lt;full&gt;" in pages[browser]
    assert "Needs attention" not in pages[editor]


async def test_streams_without_their_primary_on_air_need_attention(
    api_service: ApiService, browser: Browser, catalog_database: Path
) -> None:
    numbers = {title: (await api_service.add(title))["id"] for title in ("well", "backup", "slate")}
    numbers |= {title: (await api_service.add(title))["id"] for title in ("paused", "idle")}
    run_sql(
        catalog_database,
        f"UPDATE streams SET live = true, on_air = 0 WHERE id = {numbers['well']}",
        f"UPDATE streams SET live = true, on_air = 1 WHERE id = {numbers['backup']}",
        f"UPDATE streams SET live = true WHERE id IN ({numbers['slate']}, {numbers['paused']})",
        f"UPDATE streams SET paused = true WHERE id = {numbers['paused']}",
    )
    _, token = await api_service.catalog.tokens.add("of one", 1, Change(NOW_US), write=False)
    member = Browser(api_service)
    await member.sign_in(token)
    for viewer in (browser, member):
        attention = (await viewer.fragment("/console", "attention")).text
        links = re.findall(r'href="/console/\w+/streams/(\d+)"', attention)
        assert links == [str(numbers["slate"]), str(numbers["backup"])]
        assert 'class="state bad">no encoder is on air, viewers see the slate<' in attention
        assert 'class="state warn">a backup encoder is on air' in attention


async def test_findings_of_the_doctor_are_shown_to_owners_only(tmp_path: Path) -> None:
    async def no_problems() -> list[str]:
        return []

    line = LoggedProblem(at_us=NOW_US, level="error", event="none", facts={})
    folder = tmp_path / "data"
    async with operations_site(folder, problems=no_problems, line=line, write=True) as site:
        owner = Browser(site)
        await owner.sign_in()
        assert "Needs attention" not in (await owner.get("/console")).text
        # An invalid certificate, which no client could use either.
        (folder / "tls").mkdir(exist_ok=True)
        (folder / "tls" / "rtmps.pem").write_text("")
        attention = (await owner.fragment("/console", "attention")).text
        assert "certificate rtmps.pem: " in attention
        assert "cannot be read" in attention
        assert 'href="/console/operations"' in attention
        _, token = await site.catalog.tokens.add("reader", None, Change(NOW_US), write=False)
        reader = Browser(site)
        await reader.sign_in(token)
        page = (await reader.get("/console")).text
        assert page.count('href="/console/operations"') == 2
        assert (await reader.get("/console/operations")).status_code == 200
        _, token = await site.catalog.tokens.add("editor", 1, Change(NOW_US), write=True)
        editor = Browser(site)
        await editor.sign_in(token)
        assert "certificate" not in (await editor.fragment("/console", "attention")).text


@pytest.mark.parametrize(
    ("room", "words"),
    [
        (None, None),
        (SpareRoom(more=0, basis="running"), "This machine has no room for another stream."),
        (SpareRoom(more=1, basis="running"), "has room for about 1 more stream like these."),
        (SpareRoom(more=7, basis="running"), "has room for about 7 more streams like these."),
        (SpareRoom(more=0, basis="before"), "too busy now for a stream like the last ones."),
        (SpareRoom(more=2, basis="before"), "room for about 2 streams like the last ones."),
        (SpareRoom(more=0, basis="usual"), "may be too busy now for a stream of 1080p."),
        (SpareRoom(more=3, basis="usual"), "room for about 3 streams of 1080p."),
    ],
)
async def test_the_room_for_more_streams_is_shown_where_it_is_known(
    api_service: ApiService, browser: Browser, room: SpareRoom | None, words: str | None
) -> None:
    """The room is shown even if no stream is on air."""
    app = create_app(
        catalog=api_service.catalog,
        addresses=ADDRESSES,
        broadcaster_key=BROADCASTER_KEY,
        clock_us=lambda: NOW_US,
        room=lambda: room,
    )
    async with client_of(app) as client:
        headers = {"Cookie": f"{COOKIE}={browser.secret}"}
        page = (await client.get("/console", headers=headers)).text
    assert ("his machine" in page) is (words is not None)
    assert words is None or words in page


async def test_projects_are_shown_ten_a_page(api_service: ApiService, browser: Browser) -> None:
    for number in range(10):
        await api_service.catalog.projects.add(f"Project {number}", Change(NOW_US))
    first = (await browser.fragment("/console", "projects")).text
    assert 'href="?page=2"' in first
    assert "Page 1 of 2" in first
    second = (await browser.fragment("/console?page=2", "projects")).text
    assert 'href="?page=1"' in second
    assert "default" in second
