"""The list of streams, and the page that adds one."""

import re

from storage.catalog.records.common import Change
from storage.catalog.streams.live_state import AirState
from tests.support.api.application import NOW_US, ApiService
from tests.support.api.console_client import Browser

HOSTILE = "\"><script>alert('title')</script>"
ON_AIR = AirState(live=True, processing=True, on_air=0, sending=[0], no_audio=False)


async def names(browser: Browser, path: str) -> list[str]:
    """Return the titles of a list, in order."""
    text = (await browser.fragment(path, "streams")).text
    return re.findall(r'class="name"[^>]*>([^<]*)<', text)


async def test_an_empty_list_explains_the_first_step(
    api_service: ApiService, browser: Browser
) -> None:
    other = await api_service.catalog.projects.add("Other", Change(1))
    page = (await browser.get(f"/console/{other.key}/streams")).text
    assert "No streams yet" in page
    assert f'href="/console/{other.key}/streams/new"' in page


async def test_streams_are_listed_with_their_states(
    api_service: ApiService, browser: Browser
) -> None:
    live = await api_service.add("On air")
    hidden = await api_service.add("Hidden")
    await api_service.catalog.live_state.set(live["id"], now_us=2, **ON_AIR)
    await api_service.catalog.streams.unpublish(hidden["id"], Change(3))
    page = (await browser.get(f"/console/{api_service.key}/streams")).text
    assert 'class="state good">Live<' in page
    assert 'class="state warn">Unpublished<' in page
    assert f'href="/console/{api_service.key}/streams/{live["id"]}"' in page
    assert "1 encoder sends" in page
    assert f'data-live="project.{api_service.key}"' in page


async def test_search_state_and_order_choose_what_is_listed(
    api_service: ApiService, browser: Browser
) -> None:
    path = "/console/1/streams"
    (first,) = await names(browser, path)
    live, _ = await api_service.add("Alpha live"), await api_service.add("Beta & <co>")
    await api_service.catalog.live_state.set(live["id"], now_us=2, **ON_AIR)
    assert await names(browser, path) == ["Beta &amp; &lt;co&gt;", "Alpha live", first]
    assert await names(browser, f"{path}?order=oldest") == [
        first,
        "Alpha live",
        "Beta &amp; &lt;co&gt;",
    ]
    assert (await names(browser, f"{path}?order=title"))[0] == "Alpha live"
    assert await names(browser, f"{path}?search=ALPHA") == ["Alpha live"]
    assert await names(browser, f"{path}?state=live") == ["Alpha live"]
    assert "Alpha live" not in await names(browser, f"{path}?state=idle")
    # Unknown choices are ignored, since addresses are typed, and kept for years.
    assert len(await names(browser, f"{path}?state=dead&order=random")) == 3
    page = (await browser.get(f"{path}?search=%22%3E%3Cscript%3E")).text
    assert "No stream is like that." in page
    assert 'value="&#34;&gt;&lt;script&gt;"' in page


async def test_pages_of_a_list_keep_the_choice(api_service: ApiService, browser: Browser) -> None:
    for number in range(11):
        await api_service.catalog.streams.add(1, f"Show & {number:02}", Change(NOW_US))
    page = (await browser.get("/console/1/streams?search=show+%26&order=title")).text
    following = "/console/1/streams?search=show+%26&amp;order=title&amp;page=2"
    assert f'href="{following}" rel="next"' in page
    assert "Page 1 of 2, 11 streams" in page
    assert await names(browser, following.replace("&amp;", "&")) == ["Show &amp; 10"]
    beyond = (await browser.get("/console/1/streams?search=show&page=3")).text
    assert "This page is behind the end of the list." in beyond
    assert 'href="/console/1/streams?search=show&amp;page=1"' in beyond
    answer = await browser.get("/console/1/streams?page=x")
    assert answer.status_code == 422


async def test_titles_are_text_everywhere(api_service: ApiService, browser: Browser) -> None:
    await api_service.add(HOSTILE)
    page = (await browser.get("/console/1/streams")).text
    assert "alert(" in page
    assert "<script>alert" not in page
    assert HOSTILE not in page


async def test_a_reader_sees_no_acts(api_service: ApiService) -> None:
    _, token = await api_service.catalog.tokens.add("reader", 1, Change(NOW_US), write=False)
    reader = Browser(api_service)
    await reader.sign_in(token)
    page = (await reader.get("/console/1/streams")).text
    assert "New stream" not in page
    assert "data-bulk" not in page
    assert 'name="stream"' not in page


async def test_streams_of_another_project_are_not_found(
    api_service: ApiService,
) -> None:
    other = await api_service.catalog.projects.add("Other", Change(1))
    _, token = await api_service.catalog.tokens.add("theirs", other.id, Change(NOW_US), write=True)
    browser = Browser(api_service)
    await browser.sign_in(token)
    for path in ("/console/1/streams", "/console/1/streams/new", "/console/nothing/streams"):
        assert (await browser.get(path)).status_code == 404


async def test_the_form_adds_a_stream_and_leads_to_its_room(
    api_service: ApiService, browser: Browser
) -> None:
    page = (await browser.get(f"/console/{api_service.key}/streams/new")).text
    (request,) = re.findall(r'data-api="([^"]*)"', page)
    (done,) = re.findall(r'data-done="goto:([^"]*)"', page)
    method, path = request.split(" ")
    answer = await browser.act(method, path, {"title": HOSTILE})
    assert answer.status_code == 201
    room = await browser.get(done.replace("{stream.id}", str(answer.json()["stream"]["id"])))
    assert room.status_code == 200
    assert HOSTILE not in room.text
