"""The two operations on streams, key by key, through the whole application."""

import html
import re

import pytest

from storage.catalog.records.common import Change
from tests.support.api.application import STREAMS, ApiService

# The keys in the interface's table of a stream.
FULL = {
    "id", "hash", "title", "description", "application", "stream", "published", "resolutions",
    "tags", "category", "countries", "rtmps_url", "rtmp_url", "stream_url", "published_url", "live",
    "live_channel", "live_event", "receiving_count", "processing", "paused",
    "web_socket_broadcaster", "web_socket_key", "web_socket_cluster", "image_urls", "embed",
    "player", "backups", "no_audio_stream",
}  # fmt: skip
OMITTED = {
    "published_url", "receiving_count", "processing", "paused", "backups", "no_audio_stream",
}  # fmt: skip
UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"


async def test_adding_answers_with_the_full_form_and_nothing_else(api_service: ApiService) -> None:
    answer = await api_service.client.post(
        STREAMS, json={"title": "Știri"}, headers=api_service.owner
    )
    assert answer.status_code == 201
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store"
    body = answer.json()
    assert set(body) == {"message", "stream"}
    assert body["message"] == "Stream added."
    assert set(body["stream"]) == FULL


async def test_a_new_stream_is_as_documented_in_every_field(api_service: ApiService) -> None:
    stream = await api_service.add("Știri")
    name = stream["hash"]
    assert re.fullmatch("[0-9A-Za-z]{12}", name)
    assert re.fullmatch(f"{name}_{UUID}", stream.pop("stream"))
    embed = stream.pop("embed")
    assert set(embed) == {"iframe", "script", "link"}
    (backup,) = stream.pop("backups")
    assert backup == {
        "id": backup["id"],
        "name": "Backup 1",
        "rtmps_url": "rtmps://spare.example:1936/live-backup-1",
        "rtmp_url": "rtmp://spare.example:1935/live-backup-1",
        "publish": False,
        "live": False,
    }
    assert stream == {
        "id": 2,
        "hash": name,
        "title": "Știri",
        "description": "",
        "application": "live",
        "published": False,
        "resolutions": [
            {"id": 1, "name": "360p", "active": True},
            {"id": 2, "name": "480p", "active": True},
            {"id": 3, "name": "720p", "active": True},
            {"id": 4, "name": "1080p", "active": True},
            {"id": 5, "name": "1440p", "active": False},
            {"id": 6, "name": "2160p", "active": False},
        ],
        "tags": [],
        "category": None,
        "countries": [],
        "rtmps_url": "rtmps://in.example:1936/live",
        "rtmp_url": "rtmp://in.example:1935/live",
        "stream_url": f"https://live.example/live/{name}/index.m3u8",
        "published_url": f"https://cdn.example/live/{name}/index.m3u8",
        "live": False,
        "live_channel": f"stream.{name}",
        "live_event": "live",
        "receiving_count": 0,
        "processing": False,
        "paused": False,
        "web_socket_broadcaster": "pusher",
        "web_socket_key": api_service.broadcaster_key,
        "web_socket_cluster": "headend",
        "image_urls": None,
        "player": None,
        "no_audio_stream": False,
    }


async def test_a_list_item_omits_what_is_documented_and_shows_the_bare_uuid(
    api_service: ApiService,
) -> None:
    added = await api_service.add()
    item = (await api_service.listed())["data"][0]
    assert set(item) == FULL - OMITTED
    assert re.fullmatch(UUID, item["stream"])
    assert item["stream"] == added["stream"].removeprefix(f"{added['hash']}_")
    same = FULL - OMITTED - {"stream"}
    assert {key: item[key] for key in same} == {key: added[key] for key in same}


async def test_a_title_cannot_break_out_of_the_snippets(api_service: ApiService) -> None:
    title = """"'><script>alert(1)</script>&amp;"""
    stream = await api_service.add(title)
    assert stream["title"] == title
    iframe = stream["embed"]["iframe"]
    assert iframe.count("<") == 2
    (quoted,) = re.findall(r' title="([^"]*)"', iframe)
    assert html.unescape(quoted) == title
    page = f"https://live.example/embed/{stream['hash']}"
    assert f'src="{page}"' in iframe
    assert stream["embed"]["link"] == f"https://live.example/watch/{stream['hash']}"
    script = stream["embed"]["script"]
    assert 'src="https://live.example/embed.js"' in script
    assert f'data-stream="{stream["hash"]}"' in script


async def test_a_stream_on_air_shows_it(api_service: ApiService) -> None:
    stream = await api_service.add()
    await api_service.catalog.live_state.set(
        stream["id"],
        live=True,
        processing=True,
        on_air=1,
        sending={0, 1},
        no_audio=True,
        now_us=5,
    )
    item = (await api_service.listed())["data"][0]
    assert (item["live"], item["published"]) == (True, True)


async def test_streams_of_one_state_are_listed(api_service: ApiService) -> None:
    live, idle = await api_service.add("On air"), await api_service.add("Idle")
    await api_service.catalog.live_state.set(
        live["id"], live=True, processing=True, on_air=0, sending={0}, no_audio=False, now_us=5
    )
    body = await api_service.listed("?state=live")
    assert [item["id"] for item in body["data"]] == [live["id"]]
    assert body["links"]["first"] == "https://live.example/api/projects/1/streams?state=live&page=1"
    assert idle["id"] in [item["id"] for item in (await api_service.listed("?state=idle"))["data"]]
    for wrong in ("", "LIVE", "dead"):
        answer = await api_service.client.get(f"{STREAMS}?state={wrong}", headers=api_service.owner)
        assert answer.status_code == 422
        assert list(answer.json()["errors"]) == ["state"]


@pytest.mark.parametrize(
    "title", ["x", "é" * 255, "👩‍👩‍👧 日本 — “ok”", "\U0001d518", "a\u00a0b", "مباشر", "100%_\\/"]
)
async def test_any_line_of_text_may_be_a_title(api_service: ApiService, title: str) -> None:
    await api_service.add(title)
    assert (await api_service.listed())["data"][0]["title"] == title


async def test_a_title_is_trimmed(api_service: ApiService) -> None:
    assert (await api_service.add(" \t Evening news \n"))["title"] == "Evening news"


@pytest.mark.parametrize(
    ("body", "field", "text"),
    [
        pytest.param({}, "title", "is required", id="absent"),
        pytest.param({"title": None}, "title", "is required", id="null"),
        pytest.param({"title": ""}, "title", "is required", id="empty"),
        pytest.param({"title": " \n"}, "title", "is required", id="blank"),
        pytest.param({"title": "\u200b\u200d"}, "title", "is required", id="invisible"),
        pytest.param({"title": 5}, "title", "must be a string", id="a number"),
        pytest.param({"title": ["x"]}, "title", "must be a string", id="a list"),
        pytest.param({"title": "x" * 256}, "title", "at most 255", id="too long"),
        pytest.param({"title": "a\x00b"}, "title", "control", id="NUL"),
        pytest.param({"title": "a\nb"}, "title", "control", id="two lines"),
        pytest.param({"title": "a\u2028b"}, "title", "control", id="a line separator"),
        pytest.param({"title": "a", "Title": "b"}, "Title", "not known", id="another case"),
        pytest.param({"title": "a", "description": "b"}, "description", "not known", id="unknown"),
    ],
)
async def test_a_wrong_body_is_refused_with_the_fields_name(
    api_service: ApiService, body: dict[str, object], field: str, text: str
) -> None:
    answer = await api_service.client.post(STREAMS, json=body, headers=api_service.owner)
    assert answer.status_code == 422
    assert set(answer.json()) == {"message", "errors"}
    assert list(answer.json()["errors"]) == [field]
    assert text in answer.json()["errors"][field][0]
    assert (await api_service.listed())["meta"]["total"] == 1


async def test_an_empty_list_is_one_empty_page(api_service: ApiService) -> None:
    other = await api_service.catalog.projects.add("Empty", Change(1))
    base = f"https://live.example/api/projects/{other.id}/streams"
    assert await api_service.listed(path=f"/api/projects/{other.id}/streams") == {
        "data": [],
        "links": {"first": f"{base}?page=1", "last": f"{base}?page=1", "prev": None, "next": None},
        "meta": {
            "current_page": 1,
            "from": None,
            "last_page": 1,
            "links": [
                {"url": None, "label": "« Previous", "active": False},
                {"url": f"{base}?page=1", "label": "1", "active": True},
                {"url": None, "label": "Next »", "active": False},
            ],
            "path": base,
            "per_page": 10,
            "to": None,
            "total": 0,
        },
    }


async def test_every_page_link_leads_to_its_page(api_service: ApiService) -> None:
    for number in range(20):
        await api_service.add(f"Stream {number:02}")
    seen: list[str] = []
    url: str | None = "https://live.example" + STREAMS
    pages = 0
    while url is not None:
        page = await api_service.listed(path=url.removeprefix("https://live.example"))
        seen += [item["title"] for item in page["data"]]
        pages += 1
        assert page["meta"]["current_page"] == pages
        url = page["links"]["next"]
    assert pages == 3
    assert seen == [f"Stream {number:02}" for number in reversed(range(20))] + ["My first stream"]


async def test_a_page_beyond_the_end_is_empty_and_the_last_is_before_it(
    api_service: ApiService,
) -> None:
    page = await api_service.listed("?page=7")
    base = "https://live.example" + STREAMS
    assert page["data"] == []
    assert page["links"] == {
        "first": f"{base}?page=1",
        "last": f"{base}?page=1",
        "prev": f"{base}?page=1",
        "next": None,
    }
    meta = page["meta"]
    assert (meta["current_page"], meta["last_page"], meta["total"]) == (7, 1, 1)
    assert (meta["from"], meta["to"]) == (None, None)
    assert not any(link["active"] for link in meta["links"])


async def test_filters_are_repeated_in_page_urls(api_service: ApiService) -> None:
    for number in range(11):
        await api_service.add(f"a&b=c% {number}")
    query = "?sort_column=title&search=A%26B%3Dc%25&sort_order=desc"
    page = await api_service.listed(query)
    assert page["meta"]["total"] == 11
    following = page["links"]["next"].removeprefix("https://live.example")
    again = await api_service.listed(path=following)
    assert [item["title"] for item in again["data"]] == ["a&b=c% 0"]
    for link in again["meta"]["links"]:
        if link["url"] is not None:
            assert "search=A%26B%3Dc%25" in link["url"]
            assert "sort_column=title" in link["url"]
            assert "sort_order=desc" in link["url"]


@pytest.mark.parametrize(
    ("query", "titles"),
    [
        pytest.param("", ["b", "A", "My first stream"], id="newest first"),
        pytest.param("?sort_column=id", ["My first stream", "A", "b"], id="a column alone"),
        pytest.param("?sort_column=id&sort_order=desc", ["b", "A", "My first stream"], id="desc"),
        pytest.param("?sort_order=asc", ["My first stream", "A", "b"], id="an order alone"),
        pytest.param("?sort_column=title", ["A", "b", "My first stream"], id="by title"),
        pytest.param("?search=", ["b", "A", "My first stream"], id="an empty search"),
        pytest.param("?search=FIRST", ["My first stream"], id="a search"),
        pytest.param("?search=%25", [], id="a literal per cent"),
        pytest.param("?search=_", [], id="a literal underscore"),
        pytest.param("?unheard=of", ["b", "A", "My first stream"], id="a stranger's parameter"),
    ],
)
async def test_lists_come_in_the_order_that_was_asked_for(
    api_service: ApiService, query: str, titles: list[str]
) -> None:
    await api_service.add("A")
    await api_service.add("b")
    assert [item["title"] for item in (await api_service.listed(query))["data"]] == titles


@pytest.mark.parametrize(
    ("query", "fields"),
    [
        ("?page=0", {"page"}),
        ("?page=-1", {"page"}),
        ("?page=1.0", {"page"}),
        ("?page=", {"page"}),
        ("?page=%C2%B2", {"page"}),
        ("?page=" + "9" * 400, {"page"}),
        ("?sort_column=hash", {"sort_column"}),
        ("?sort_column=", {"sort_column"}),
        ("?sort_order=ASC", {"sort_order"}),
        ("?search=" + "x" * 256, {"search"}),
        ("?search=a%00b", {"search"}),
        ("?page=x&sort_column=x&sort_order=x", {"page", "sort_column", "sort_order"}),
    ],
)
async def test_a_wrong_parameter_is_refused_by_name(
    api_service: ApiService, query: str, fields: set[str]
) -> None:
    answer = await api_service.client.get(STREAMS + query, headers=api_service.owner)
    assert answer.status_code == 422
    assert set(answer.json()["errors"]) == fields
