"""The operations on videos, key by key, through the whole application, on both databases."""

import re
from pathlib import Path

import pytest

from storage.objects.disk import DiskObjects
from tests.support.api.application import ApiService, Json
from tests.support.api.upload_clips import VIDEOS, clip, picture, upload
from tests.support.shared_engines import mostly_on

# Both databases get the same statements here; their differences have separate tests.
pytestmark = mostly_on("sqlite")

# The keys in the interface's tables of a video.
FULL = {
    "id", "hash", "title", "description", "name", "size", "length", "iso8601_duration", "width",
    "height", "video", "uploading", "uploaded_at", "transcoding_progress", "transcoding_at",
    "transcoding_eta", "completed", "completed_at", "created_at", "updated_at", "published",
    "published_at", "published_url", "category", "countries", "player", "resolutions", "tags",
    "image_urls", "image_update_at", "embed", "project_json", "video_json", "storage_size",
}  # fmt: skip
SHOWN = {
    "id", "hash", "title", "description", "name", "size", "length", "iso8601_duration", "width",
    "height", "video", "uploaded_at", "completed", "completed_at", "created_at", "updated_at",
    "published", "published_at", "tags", "category", "countries", "image_urls", "embed",
    "project_json", "video_json", "media_resource", "image", "resolutions",
}  # fmt: skip
STAMP = "2023-11-14T22:13:20.123456Z"


@pytest.fixture
def catalog_database(either_database: str | Path) -> str | Path:
    return either_database


async def get_video(api_service: ApiService, video: int) -> Json:
    answer = await api_service.client.get(f"/api/videos/{video}", headers=api_service.owner)
    assert answer.status_code == 200, answer.text
    assert set(answer.json()) == {"data"}
    return answer.json()["data"]


async def edit_video(api_service: ApiService, video: int, body: object, status: int = 200) -> Json:
    answer = await api_service.client.put(
        f"/api/videos/{video}", json=body, headers=api_service.owner
    )
    assert answer.status_code == status, answer.text
    return answer.json()


async def list_videos(api_service: ApiService, query: str = "", status: int = 200) -> Json:
    answer = await api_service.client.get(VIDEOS + query, headers=api_service.owner)
    assert answer.status_code == status, answer.text
    return answer.json()


async def test_an_upload_answers_with_the_full_form_but_the_snippets(
    api_service: ApiService,
) -> None:
    body = await upload(api_service, name="Ferien Über Øresund.mp4")
    assert set(body) == {
        "message", "video", "web_socket_broadcaster", "web_socket_key", "web_socket_cluster",
    }  # fmt: skip
    assert body["message"] == "Video added."
    assert body["web_socket_broadcaster"] == "pusher"
    assert body["web_socket_key"] == api_service.broadcaster_key
    assert body["web_socket_cluster"] == "headend"
    video = body["video"]
    assert set(video) == FULL - {"embed"}
    name = video["hash"]
    assert re.fullmatch("[0-9A-Za-z]{12}", name)
    assert type(video["id"]) is int
    assert type(video["length"]) is float
    assert video == {
        "id": video["id"],
        "hash": name,
        "title": "Ferien Über Øresund",
        "description": "",
        "name": "ferien-uber-oresund",
        "size": len(clip()),
        "length": video["length"],
        "iso8601_duration": "PT1S",
        "width": 640,
        "height": 360,
        "video": f"https://live.example/videos/{name}/index.m3u8",
        "uploading": False,
        "uploaded_at": STAMP,
        "transcoding_progress": 0,
        "transcoding_at": None,
        "transcoding_eta": 0,
        "completed": False,
        "completed_at": None,
        "created_at": STAMP,
        "updated_at": STAMP,
        "published": False,
        "published_at": None,
        "published_url": f"https://cdn.example/videos/{name}/index.m3u8",
        "category": None,
        "countries": [],
        "player": None,
        "resolutions": [{"id": 1, "name": "360p", "width": 640, "height": 360}],
        "tags": [],
        "image_urls": {},
        "image_update_at": None,
        "project_json": f"https://live.example/json/projects/{api_service.key}.json",
        "video_json": f"https://live.example/json/videos/{name}.json",
        "storage_size": 0,
    }
    assert video["length"] == pytest.approx(1, abs=0.1)


async def test_the_show_form_has_its_own_keys(api_service: ApiService) -> None:
    uploaded = (await upload(api_service, texts={"description": "Two\nlines"}))["video"]
    video = await get_video(api_service, uploaded["id"])
    assert set(video) == SHOWN
    for key in SHOWN & (FULL - {"resolutions", "embed"}):
        assert video[key] == uploaded[key], key
    name = uploaded["hash"]
    assert video["media_resource"] == f"videos/{name}/index.m3u8"
    assert video["image"] == f"https://live.example/videos/{name}/poster/default.jpg"
    assert set(video["embed"]) == {"iframe", "script", "link"}
    assert video["embed"]["link"] == f"https://live.example/watch/{name}"
    assert video["resolutions"] == [
        {
            "resolution": "360p",
            "resolution_id": 1,
            "transcoded": 0,
            "vertical_value": 360,
            "horizontal_value": 640,
            "size": 0,
            "transcode_duration": 0,
        }
    ]


async def test_an_edit_answers_with_the_full_form(api_service: ApiService) -> None:
    uploaded = (await upload(api_service))["video"]
    category = await api_service.client.post(
        "/api/projects/1/categories", json={"name": "News"}, headers=api_service.owner
    )
    number = category.json()["category"]["id"]
    body = await edit_video(
        api_service,
        uploaded["id"],
        {
            "title": "Șah & <mat>",
            "description": "Über\nalles",
            "category": number,
            "countries": [642, "de", "RO"],
            "tags": [{"name": "One"}, {"name": "one"}, {"name": "Two"}],
        },
    )
    assert set(body) == {"message", "video"}
    assert body["message"] == "Video updated."
    video = body["video"]
    assert set(video) == FULL
    assert video["title"] == "Șah & <mat>"
    assert video["description"] == "Über\nalles"
    assert video["category"] == {"id": number, "name": "News"}
    assert video["countries"] == [
        {"id": 642, "code": "RO", "name": "Romania"},
        {"id": 276, "code": "DE", "name": "Germany"},
    ]
    assert [tag["name"] for tag in video["tags"]] == ["One", "Two"]
    assert "&lt;mat&gt;" in video["embed"]["iframe"]
    # As records show them, tags link by id.
    relinked = await edit_video(
        api_service, uploaded["id"], {"tags": video["tags"][:1], "countries": None}
    )
    assert relinked["video"]["tags"] == video["tags"][:1]
    assert relinked["video"]["countries"] == []
    assert relinked["video"]["title"] == video["title"]
    cleared = await edit_video(
        api_service,
        uploaded["id"],
        {"title": "", "description": None, "category": None, "tags": []},
    )
    assert cleared["video"]["title"] == "clip"
    assert cleared["video"]["description"] == ""
    assert cleared["video"]["category"] is None
    assert cleared["video"]["tags"] == []


REFUSED: tuple[tuple[Json, str], ...] = (
    ({"title": 1}, "title"),  # title of another type
    ({"title": "x" * 256}, "title"),  # title too long
    ({"title": "a\x00b"}, "title"),  # title with a control character
    ({"description": "x" * 10_001}, "description"),  # description too long
    ({"category": 99}, "category"),  # unknown category
    ({"category": "1"}, "category"),  # category of another type
    ({"category": True}, "category"),  # category true
    ({"category": 1 << 70}, "category"),  # category beyond any number
    ({"countries": ["XX"]}, "countries"),  # unknown country
    ({"countries": [1.5]}, "countries"),  # country of another type
    ({"countries": "RO"}, "countries"),  # countries no list
    ({"tags": [{"id": 99}]}, "tags"),  # unknown tag
    ({"tags": [{}]}, "tags"),  # tag without anything
    ({"tags": ["a"]}, "tags"),  # tag of another type
    ({"tags": [{"id": 1 << 70}]}, "tags"),  # tag beyond any number
    ({"resolutions": [1]}, "resolutions"),  # a key of streams
    ({"hash": "x"}, "hash"),  # a key that is not to be set
)


async def test_a_refused_edit_names_the_field_and_changes_nothing(api_service: ApiService) -> None:
    video = (await upload(api_service))["video"]
    before = await get_video(api_service, video["id"])
    good = {"title": "New", "tags": [{"name": "fresh"}], "description": "New"}
    for body, field in REFUSED:
        answer = await edit_video(api_service, video["id"], {**good, **body}, 422)
        assert set(answer["errors"]) == {field}, body
    assert await get_video(api_service, video["id"]) == before
    tags = await api_service.client.get("/api/projects/1/tags", headers=api_service.owner)
    assert tags.json()["data"] == []


async def test_a_deleted_video_is_gone_with_its_files(
    api_service: ApiService, objects: DiskObjects
) -> None:
    deleted = (await upload(api_service, files={"poster": ("p.png", picture(), "image/png")}))[
        "video"
    ]
    other = (await upload(api_service))["video"]
    name = deleted["hash"]
    assert await objects.addresses(f"sources/{name}") == [f"sources/{name}/1"]
    assert len(await objects.addresses(f"videos/{name}")) == 1
    answer = await api_service.client.delete(
        f"/api/videos/{deleted['id']}", headers=api_service.owner
    )
    assert answer.status_code == 204
    assert answer.content == b""
    assert await objects.addresses(f"sources/{name}") == [f"sources/{name}/1"], "for now"
    (item,) = (await api_service.listed(path="/api/projects/1/trash"))["data"]
    await api_service.client.delete(f"/api/trash/{item['id']}", headers=api_service.owner)
    assert await objects.addresses(f"sources/{name}") == []
    assert await objects.addresses(f"videos/{name}") == []
    assert len(await objects.addresses(f"sources/{other['hash']}")) == 1
    second_answer = await api_service.client.delete(
        f"/api/videos/{deleted['id']}", headers=api_service.owner
    )
    assert second_answer.status_code == 404
    assert [video["id"] for video in (await list_videos(api_service))["data"]] == [other["id"]]


async def test_every_change_is_in_the_projects_events(api_service: ApiService) -> None:
    video = (await upload(api_service))["video"]
    await edit_video(api_service, video["id"], {"title": "x"})
    await api_service.client.delete(f"/api/videos/{video['id']}", headers=api_service.owner)
    events = await api_service.client.get("/api/projects/1/events", headers=api_service.owner)
    recorded = [
        (event["type"], event["token"])
        for event in events.json()["data"]
        if event["subject"] == video["hash"]
    ]
    assert [kind for kind, _ in recorded] == ["video deleted", "video edited", "video added"]
    assert {type(token) for _, token in recorded} == {int}
