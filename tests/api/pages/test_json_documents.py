"""The public documents of projects and videos."""

from collections.abc import Generator
from typing import Any

import msgspec
import pytest

from tests.support.api.public_records import (
    HIDDEN,
    HOSTILE,
    STREAM,
    VIDEO,
    Client,
    Records,
    serving_pages,
)

DOCUMENT = f"/json/videos/{VIDEO.hash}.json"


@pytest.fixture(scope="module")
def client() -> Generator[Client]:
    with serving_pages(Records()) as client:
        yield client


def test_a_video_is_described_for_players(client: Client) -> None:
    answer = client.get(DOCUMENT)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["access-control-allow-origin"] == "*"
    assert answer.headers["cache-control"] == "public, max-age=5"
    assert "set-cookie" not in answer.headers
    at = "http://headend.test"
    assert answer.json() == {
        "hash": VIDEO.hash,
        "title": VIDEO.title,
        "description": VIDEO.description,
        "playable": True,
        "playlist": f"{at}/videos/{VIDEO.hash}/index.m3u8",
        "duration": 61.235,
        "width": 1440,
        "height": 1080,
        "poster": f"{at}/videos/{VIDEO.hash}/poster/default.jpg",
        "posters": {
            "360p": f"{at}/videos/{VIDEO.hash}/poster/360p.jpg",
            "480p": f"{at}/videos/{VIDEO.hash}/poster/480p.jpg",
        },
        "previews": f"{at}/videos/{VIDEO.hash}/previews-1-1/previews.vtt",
        "embed": f"{at}/embed/{VIDEO.hash}",
        "watch": f"{at}/watch/{VIDEO.hash}",
    }


@pytest.mark.parametrize("change", [{"published": False}, {"media": None}])
def test_a_video_that_does_not_play_yet_says_so(change: dict[str, Any]) -> None:
    with serving_pages(Records(msgspec.structs.replace(VIDEO, **change))) as client:
        answer = client.get(DOCUMENT)
    assert (answer.status_code, answer.json()["playable"]) == (200, False)


def test_a_project_is_known_by_its_key_and_has_no_number(client: Client) -> None:
    answer = client.get("/json/projects/aProjectsKey.json")
    assert answer.status_code == 200
    assert answer.json() == {"key": "aProjectsKey", "name": f"A house {HOSTILE}"}
    assert answer.headers["access-control-allow-origin"] == "*"
    assert client.get("/json/projects/7.json").status_code == 404


@pytest.mark.parametrize(
    "path",
    [
        "/json/projects/unknown.json",
        "/json/projects/aProjectsKey",
        f"/json/videos/{STREAM.hash}.json",
        f"/json/videos/{HIDDEN.hash}.json",
        "/json/videos/zzzzzzzzzzzz.json",
        f"/json/videos/{VIDEO.hash}",
        f"/json/videos/{VIDEO.hash}.json/more",
        "/json/videos/..%2fx.json",
        "/json/videos/ä.json",
        "/json",
        "/json/",
        f"/jsonvideos/{VIDEO.hash}.json",
    ],
)
def test_missing_documents_are_404_in_json(client: Client, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 404
    assert answer.headers["content-type"].startswith("application/json")
    assert "title" not in answer.text


def test_a_restricted_video_is_visible_in_its_countries_and_to_its_owner() -> None:
    restricted = msgspec.structs.replace(VIDEO, countries=frozenset({"RO"}))
    with serving_pages(Records(restricted)) as client:
        blocked = client.get(DOCUMENT)
        assert blocked.status_code == 451
        assert blocked.json() == {"message": "not available in your country"}
        assert blocked.headers["cache-control"] == "private, no-store"
        assert client.get(DOCUMENT, headers={"from": "DE"}).status_code == 451
        for headers in ({"from": "RO"}, {"authorization": f"Bearer {VIDEO.hash}"}):
            answer = client.get(DOCUMENT, headers=headers)
            assert answer.status_code == 200
            assert answer.headers["cache-control"] == "private, no-store"


def test_an_unpublished_record_is_visible_to_its_owner_only() -> None:
    with serving_pages(Records(msgspec.structs.replace(VIDEO, hidden=True))) as client:
        assert client.get(DOCUMENT).status_code == 404
        owner = {"authorization": f"Bearer {VIDEO.hash}"}
        assert client.get(DOCUMENT, headers=owner).status_code == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_documents_are_only_read(client: Client, method: str) -> None:
    assert client.request(method, DOCUMENT).status_code == 405
    assert client.head(DOCUMENT).content == b""
