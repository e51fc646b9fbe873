"""oEmbed descriptions for other sites."""

import html
import re
from collections.abc import Generator
from typing import Any
from urllib.parse import quote

import httpx
import msgspec
import pytest

from api.pages.oembed import oembed_address
from tests.support.api.public_records import (
    HIDDEN,
    STREAM,
    VIDEO,
    Client,
    Records,
    addresses,
    serving_pages,
)

AT = "http://headend.test"
WATCH = f"{AT}/watch/{VIDEO.hash}"


@pytest.fixture(scope="module")
def client() -> Generator[Client]:
    with serving_pages(Records()) as client:
        yield client


def get_oembed(client: Client, url: str, more: str = "", **headers: str) -> httpx.Response:
    return client.get(f"/oembed?url={quote(url, safe='')}{more}", headers=headers)


@pytest.mark.parametrize(
    "url",
    [
        WATCH,
        f"{AT}/embed/{VIDEO.hash}",
        f"https://HEADEND.test/watch/{VIDEO.hash}?t=3#here",
        f"{WATCH}/",
    ],
)
def test_a_page_of_ours_is_described(client: Client, url: str) -> None:
    answer = get_oembed(client, url)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["access-control-allow-origin"] == "*"
    description = answer.json()
    assert {name: description[name] for name in ("version", "type", "title")} == {
        "version": "1.0",
        "type": "video",
        "title": VIDEO.title,
    }
    assert (description["width"], description["height"]) == (640, 480)
    assert description["thumbnail_url"] == f"{AT}/videos/{VIDEO.hash}/poster/default.jpg"
    assert (description["thumbnail_width"], description["thumbnail_height"]) == (640, 480)
    frame = description["html"]
    assert f'src="{AT}/embed/{VIDEO.hash}"' in frame
    assert 'width="640" height="480"' in frame
    assert html.escape(VIDEO.title) in frame
    assert "<script" not in frame


@pytest.mark.parametrize(
    ("most", "size"),
    [
        ("&maxwidth=320", (320, 240)),
        ("&maxheight=120", (160, 120)),
        ("&maxwidth=4000&maxheight=480", (640, 480)),
        ("&maxwidth=1", (1, 1)),
        ("&maxwidth=999999999", (640, 480)),
    ],
)
def test_a_frame_is_no_larger_than_requested(
    client: Client, most: str, size: tuple[int, int]
) -> None:
    description = get_oembed(client, WATCH, most).json()
    assert (description["width"], description["height"]) == size


def test_a_record_without_a_poster_is_described_without_a_thumbnail(client: Client) -> None:
    description = get_oembed(client, f"{AT}/watch/{STREAM.hash}").json()
    assert not [name for name in description if name.startswith("thumbnail")]
    assert (description["width"], description["height"]) == (640, 360)


def test_a_portrait_video_has_a_portrait_frame_and_thumbnail() -> None:
    upright = msgspec.structs.replace(VIDEO, width=1080, height=1920)
    with serving_pages(Records(upright)) as client:
        description = get_oembed(client, WATCH, "&maxheight=640").json()
    assert (description["width"], description["height"]) == (360, 640)
    assert (description["thumbnail_width"], description["thumbnail_height"]) == (480, 853)


@pytest.mark.parametrize(
    "url",
    [
        f"{AT}/watch/zzzzzzzzzzzz",
        f"{AT}/watch/{HIDDEN.hash}",
        f"{AT}/live/{VIDEO.hash}",
        f"http://elsewhere.test/watch/{VIDEO.hash}",
        f"ftp://headend.test/watch/{VIDEO.hash}",
        "http://[",
        "nonsense",
        "",
    ],
)
def test_what_is_no_page_of_ours_is_not_found(client: Client, url: str) -> None:
    answer = get_oembed(client, url)
    assert answer.status_code in {400, 404}
    assert answer.json()["message"]


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("", 400),
        (f"url={WATCH}&format=xml", 501),
        (f"url={WATCH}&maxwidth=0", 400),
        (f"url={WATCH}&maxwidth=-1", 400),
        (f"url={WATCH}&maxheight=wide", 400),
        (f"url={WATCH}&maxheight=%D9%A3", 400),
        ("&".join(f"x{n}=1" for n in range(500)), 400),
    ],
)
def test_an_invalid_request_is_refused(client: Client, query: str, status: int) -> None:
    assert client.get(f"/oembed?{query}").status_code == status


def test_restricted_countries_apply() -> None:
    with serving_pages(
        Records(msgspec.structs.replace(VIDEO, countries=frozenset({"RO"})))
    ) as client:
        assert get_oembed(client, WATCH).status_code == 451
        answer = get_oembed(client, WATCH, **{"from": "RO"})
        assert answer.status_code == 200
        assert answer.headers["cache-control"] == "private, no-store"


def test_the_watch_page_names_its_description(client: Client) -> None:
    page = client.get(f"/watch/{VIDEO.hash}").text
    link: Any = re.search(r'type="application/json\+oembed" href="([^"]+)"', page)
    address = html.unescape(link[1])
    assert address == oembed_address(addresses(), VIDEO.hash)
    assert client.get(address).json()["title"] == VIDEO.title


def test_a_stream_that_was_on_air_has_a_thumbnail_of_its_shape() -> None:
    pictured = msgspec.structs.replace(
        STREAM, poster_labels=("360p", "720p"), width=720, height=1280
    )
    with serving_pages(Records(pictured)) as client:
        description = get_oembed(client, f"{AT}/watch/{STREAM.hash}").json()
    assert description["thumbnail_url"] == f"{AT}/live/{STREAM.hash}/poster/default.jpg"
    assert (description["thumbnail_width"], description["thumbnail_height"]) == (720, 1280)
