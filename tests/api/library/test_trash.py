"""The operations on the trash, through the whole application."""

from typing import Final

import pytest

from storage.catalog.records.common import Change
from storage.catalog.records.videos import VideoFile
from tests.support.api.application import NOW_US, ApiService, Json
from tests.support.storage.new_videos import new_video

TRASH: Final = "/api/projects/1/trash"
DELETED: Final = "2023-11-14T22:13:20.123456Z"
UNTIL: Final = "2023-11-21T22:13:20.123456Z"


async def delete(api_service: ApiService, path: str) -> None:
    answer = await api_service.client.delete(f"/api/{path}", headers=api_service.owner)
    assert answer.status_code == 204, answer.text


async def add_video(api_service: ApiService) -> tuple[int, str]:
    """Add a video by the catalog; return its number and its hash."""
    whole = await api_service.catalog.videos.add(1, new_video(size=5), Change(NOW_US))
    return whole.video.id, whole.video.hash


async def trash_of(api_service: ApiService, path: str = TRASH) -> list[Json]:
    items: list[Json] = (await api_service.listed(path=path))["data"]
    return items


async def test_a_deleted_stream_is_listed_and_comes_back_as_it_was(api_service: ApiService) -> None:
    stream = await api_service.add("Morning")
    path = f"streams/{stream['id']}"
    await delete(api_service, path)
    shown = await api_service.client.get(f"/api/{path}", headers=api_service.owner)
    assert shown.status_code == 404
    (item,) = await trash_of(api_service)
    assert item == {
        "id": item["id"],
        "kind": "stream",
        "record": stream["id"],
        "hash": stream["hash"],
        "title": "Morning",
        "size": 0,
        "deleted_at": DELETED,
        "until": UNTIL,
    }
    restore = f"/api/trash/{item['id']}/restore"
    answer = await api_service.client.post(restore, headers=api_service.owner)
    assert (answer.status_code, answer.json()) == (
        200, {"message": "Stream restored.", "trash": item},
    )  # fmt: skip
    shown = await api_service.client.get(f"/api/{path}", headers=api_service.owner)
    assert shown.json()["data"] == stream, "with its key"
    assert await trash_of(api_service) == []
    assert (await api_service.newest_event())["type"] == "stream restored"
    answer = await api_service.client.post(restore, headers=api_service.owner)
    assert answer.status_code == 404


async def test_a_video_is_restored_and_deleted_for_good(api_service: ApiService) -> None:
    number, hash_ = await add_video(api_service)
    await delete(api_service, f"videos/{number}")
    (item,) = await trash_of(api_service)
    assert (item["kind"], item["record"], item["hash"], item["size"]) == ("video", number, hash_, 5)
    answer = await api_service.client.post(
        f"/api/trash/{item['id']}/restore", headers=api_service.owner
    )
    assert answer.json()["message"] == "Video restored."
    await delete(api_service, f"videos/{number}")
    (item,) = await trash_of(api_service)
    await delete(api_service, f"trash/{item['id']}")
    assert await trash_of(api_service) == []
    newest = await api_service.newest_event()
    assert newest["type"] == "video removed for good"
    assert newest["facts"] == {"title": "film", "expired": False}


async def test_each_file_that_was_replaced_is_restored(api_service: ApiService) -> None:
    number, hash_ = await add_video(api_service)
    keep = Change(NOW_US, keep_us=10)
    for size in (6, 7):
        file = VideoFile(source=f"sources/{hash_}/r-{size}", size=size)
        await api_service.catalog.videos.replace(number, file, keep)
    second, first = await trash_of(api_service)
    assert [(each["kind"], each["record"], each["size"]) for each in (second, first)] == [
        ("file", number, 6), ("file", number, 5),
    ]  # fmt: skip
    answer = await api_service.client.post(
        f"/api/trash/{first['id']}/restore", headers=api_service.owner
    )
    assert (answer.status_code, answer.json()["message"]) == (200, "The former file is back.")
    assert [each["size"] for each in await trash_of(api_service)] == [7, 6]
    await delete(api_service, f"trash/{second['id']}")
    assert [each["size"] for each in await trash_of(api_service)] == [7]


async def test_a_deleted_project_is_in_the_trash_of_the_installation(
    api_service: ApiService,
) -> None:
    added = await api_service.client.post(
        "/api/projects", json={"name": "Doomed"}, headers=api_service.owner
    )
    project = added.json()["project"]
    stream = await api_service.add("Its stream", f"/api/projects/{project['id']}/streams")
    theirs = await api_service.headers_of("theirs", project["id"], write=True)
    await delete(api_service, f"projects/{project['id']}")
    assert await trash_of(api_service) == [], "the first project's"
    (item,) = await trash_of(api_service, "/api/trash")
    assert (item["kind"], item["record"], item["hash"], item["title"]) == (
        "project", project["id"], project["key"], "Doomed",
    )  # fmt: skip
    paths = [
        f"streams/{stream['id']}",
        f"projects/{project['key']}",
        f"projects/{project['key']}/trash",
    ]
    for path in paths:
        answer = await api_service.client.get(f"/api/{path}", headers=api_service.owner)
        assert answer.status_code == 404
    answer = await api_service.client.get(f"/api/{paths[0]}", headers=theirs)
    assert answer.status_code == 401, "its tokens open nothing"
    answer = await api_service.client.post(
        f"/api/trash/{item['id']}/restore", headers=api_service.owner
    )
    assert answer.json() == {"message": "Project restored.", "trash": item}
    for path in paths:
        answer = await api_service.client.get(f"/api/{path}", headers=theirs)
        assert answer.status_code == 200, path
    await delete(api_service, f"projects/{project['id']}")
    (item,) = await trash_of(api_service, "/api/trash")
    await delete(api_service, f"trash/{item['id']}")
    assert await trash_of(api_service, "/api/trash") == []
    assert (await api_service.newest_event())["type"] == "project removed for good"


async def test_lists_have_pages_of_thirty(api_service: ApiService) -> None:
    for _ in range(31):
        number, _ = await add_video(api_service)
        await delete(api_service, f"videos/{number}")
    body = await api_service.listed("?page=2", TRASH)
    assert (len(body["data"]), body["meta"]["total"], body["meta"]["per_page"]) == (1, 31, 30)
    assert body["links"]["prev"] == f"https://live.example{TRASH}?page=1"
    for page in ("0", "x"):
        for path in (TRASH, "/api/trash"):
            answer = await api_service.client.get(
                path, params={"page": page}, headers=api_service.owner
            )
            assert answer.status_code == 422


@pytest.mark.parametrize("write", [True, False])
async def test_a_token_reaches_its_own_trash_alone(api_service: ApiService, write: bool) -> None:
    number, _ = await add_video(api_service)
    await delete(api_service, f"videos/{number}")
    (item,) = await trash_of(api_service)
    added = await api_service.client.post(
        "/api/projects", json={"name": "Other"}, headers=api_service.owner
    )
    other = await api_service.headers_of("other", added.json()["project"]["id"], write=True)
    own = await api_service.headers_of("own", 1, write=write)
    restore = f"/api/trash/{item['id']}/restore"
    client = api_service.client
    assert (await client.get("/api/trash", headers=own)).status_code == 403
    assert (await client.get(TRASH, headers=other)).status_code == 404
    assert (await client.post(restore, headers=other)).status_code == 404
    assert (await client.get(TRASH, headers=own)).status_code == 200
    assert (await client.post(restore, headers=own)).status_code == (200 if write else 403)


async def test_a_token_of_one_project_does_not_restore_it(api_service: ApiService) -> None:
    added = await api_service.client.post(
        "/api/projects", json={"name": "Doomed"}, headers=api_service.owner
    )
    await delete(api_service, f"projects/{added.json()['project']['id']}")
    (item,) = await trash_of(api_service, "/api/trash")
    own = await api_service.headers_of("own", 1, write=True)
    for answer in (
        await api_service.client.post(f"/api/trash/{item['id']}/restore", headers=own),
        await api_service.client.delete(f"/api/trash/{item['id']}", headers=own),
    ):
        assert answer.status_code == 404
