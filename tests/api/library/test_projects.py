"""The operations on projects, key by key, through the whole application."""

from typing import Any

import httpx
import pytest

from headend.duties.media_remover import StoredMedia
from headend.duties.project_remover import remove_projects
from media.no_op import do_nothing_async
from storage.objects.disk import DiskObjects
from tests.support.api.application import NOW_US, ApiService, Json

PROJECTS = "/api/projects"
NOW = "2023-11-14T22:13:20.123456Z"


async def add(
    api_service: ApiService, headers: dict[str, str] | None = None, **body: object
) -> httpx.Response:
    headers = api_service.owner if headers is None else headers
    return await api_service.client.post(PROJECTS, json=body, headers=headers)


async def create_project(api_service: ApiService, name: str) -> Json:
    answer = await add(api_service, name=name)
    assert answer.status_code == 201, answer.text
    project: Json = answer.json()["project"]
    return project


async def edit(api_service: ApiService, project: object, **body: object) -> httpx.Response:
    return await api_service.client.put(
        f"{PROJECTS}/{project}", json=body, headers=api_service.owner
    )


async def delete(api_service: ApiService, project: object) -> httpx.Response:
    return await api_service.client.delete(f"{PROJECTS}/{project}", headers=api_service.owner)


async def test_adding_answers_with_the_project_and_nothing_else(api_service: ApiService) -> None:
    answer = await add(api_service, name="Știri")
    assert answer.status_code == 201
    project = answer.json()["project"]
    assert answer.json() == {
        "message": "Project added.",
        "project": {
            "id": 2,
            "key": project["key"],
            "name": "Știri",
            "origins": [],
            "created_at": NOW,
            "updated_at": NOW,
            "project_json": f"https://live.example/json/projects/{project['key']}.json",
        },
    }
    events = await api_service.listed(path=f"{PROJECTS}/2/events")
    assert [(event["type"], event["token"]) for event in events["data"]] == [("project added", 1)]
    # Streams can be added to it.
    stream = await api_service.add("A stream", f"{PROJECTS}/{project['key']}/streams")
    assert (await api_service.listed(path=f"{PROJECTS}/2/streams"))["data"][0]["id"] == stream["id"]


async def test_a_project_is_shown_by_its_number_and_by_its_key(api_service: ApiService) -> None:
    project = await create_project(api_service, "One")
    for name in (project["id"], project["key"]):
        answer = await api_service.client.get(f"{PROJECTS}/{name}", headers=api_service.owner)
        assert (answer.status_code, answer.json()) == (200, {"data": project})
    for name in ("999", project["key"].swapcase(), "9" * 40):
        answer = await api_service.client.get(f"{PROJECTS}/{name}", headers=api_service.owner)
        assert answer.status_code == 404


async def test_an_edit_changes_the_name_and_keeps_the_rest(api_service: ApiService) -> None:
    project = await create_project(api_service, "One")
    answer = await edit(api_service, project["key"], name="Doi")
    assert answer.status_code == 200
    assert answer.json() == {"message": "Project updated.", "project": project | {"name": "Doi"}}
    newest = (await api_service.listed(path=f"{PROJECTS}/{project['id']}/events"))["data"][0]
    assert (newest["type"], newest["facts"]) == (
        "project edited",
        {"project": project["id"], "keys": ["name"]},
    )
    assert (await edit(api_service, project["id"])).json()["project"]["name"] == "Doi"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": None}, "name"),
        ({"name": " "}, "name"),
        ({"name": "x" * 256}, "name"),
        ({"name": "a\tb"}, "name"),
        ({"name": "x", "key": "mine"}, "key"),
    ],
)
async def test_a_body_that_is_wrong_is_refused(
    api_service: ApiService, body: dict[str, Any], field: str
) -> None:
    for answer in (await add(api_service, **body), await edit(api_service, 1, **body)):
        assert answer.status_code == 422
        assert set(answer.json()["errors"]) == {field}
    assert (await add(api_service)).status_code == 422
    listed = (await api_service.listed(path=PROJECTS))["data"]
    assert [(item["id"], item["name"]) for item in listed] == [(1, "default")]


async def test_an_edit_answers_with_the_new_version_and_any_body_is_checked_against_it(
    api_service: ApiService,
) -> None:
    path = f"{PROJECTS}/1"
    before = (await api_service.client.get(path, headers=api_service.owner)).headers["etag"]
    edited = await edit(api_service, 1, name="Doi")
    assert edited.headers["etag"] != before
    shown = await api_service.client.get(path, headers=api_service.owner)
    assert edited.headers["etag"] == shown.headers["etag"]
    for version, status in ((before, 412), (edited.headers["etag"], 200)):
        headers = {**api_service.owner, "If-Match": version}
        answer = await api_service.client.put(path, json={}, headers=headers)
        assert answer.status_code == status
    assert answer.headers["etag"] == edited.headers["etag"]


async def test_projects_are_listed_as_far_as_the_token_reaches(api_service: ApiService) -> None:
    projects = [await create_project(api_service, f"{number}") for number in range(11)]
    body = await api_service.listed(path=PROJECTS)
    assert body["data"] == projects[:0:-1]
    assert (body["meta"]["total"], body["meta"]["last_page"]) == (12, 2)
    assert body["links"]["next"] == "https://live.example/api/projects?page=2"
    assert len((await api_service.listed("?page=2", PROJECTS))["data"]) == 2
    reader = await api_service.headers_of("reader", projects[3]["id"], write=False)
    answer = await api_service.client.get(PROJECTS, headers=reader)
    assert answer.json()["data"] == [projects[3]]
    assert answer.json()["meta"]["total"] == 1
    answer = await api_service.client.get(f"{PROJECTS}/1", headers=reader)
    assert answer.status_code == 404


async def test_a_token_of_one_project_neither_adds_nor_deletes_any(api_service: ApiService) -> None:
    project = await create_project(api_service, "One")
    mine = await api_service.headers_of("mine", project["id"], write=True)
    reader = await api_service.headers_of("reader", None, write=False)
    record_path = f"{PROJECTS}/{project['id']}"
    for headers, status in ((mine, 403), (reader, 403), ({}, 401)):
        assert (await add(api_service, headers, name="x")).status_code == status
        assert (await api_service.client.delete(record_path, headers=headers)).status_code == status
    # It may rename its own project; others do not exist for it.
    answer = await api_service.client.put(record_path, json={"name": "Ours"}, headers=mine)
    assert answer.status_code == 200
    answer = await api_service.client.put(f"{PROJECTS}/1", json={"name": "x"}, headers=mine)
    assert answer.status_code == 404
    assert (await api_service.listed(path=PROJECTS))["meta"]["total"] == 2


async def test_a_deleted_project_is_gone_with_its_media(
    api_service: ApiService, objects: DiskObjects
) -> None:
    project = await create_project(api_service, "Doomed")
    path = f"{PROJECTS}/{project['id']}/streams"
    stream = await api_service.add("A stream", path)
    other = await api_service.add("Another project's")
    mine = await api_service.headers_of("mine", project["id"], write=True)
    for hash_ in (stream["hash"], other["hash"]):
        await objects.put(f"live/{hash_}/index.m3u8", b"#EXTM3U")
    answer = await delete(api_service, project["key"])
    assert (answer.status_code, answer.content) == (204, b"")
    (deleted,) = (await api_service.listed(path="/api/trash"))["data"]
    for _ in range(3):  # in the trash, removed from there, and after its rows are removed
        for missing in (f"{PROJECTS}/{project['id']}", path, f"/api/streams/{stream['id']}"):
            assert (
                await api_service.client.get(missing, headers=api_service.owner)
            ).status_code == 404
        assert (await api_service.client.get(PROJECTS, headers=mine)).status_code == 401
        assert (await delete(api_service, project["id"])).status_code == 404
        await remove_projects(
            api_service.catalog.removed_projects, StoredMedia(objects, do_nothing_async)
        )
        path_of_it = f"/api/trash/{deleted['id']}"
        await api_service.client.delete(path_of_it, headers=api_service.owner)
    assert await objects.addresses("live") == [f"live/{other['hash']}/index.m3u8"]
    newest = (await api_service.listed(path=f"{PROJECTS}/1/events"))["data"][:2]
    assert [(each["type"], each["facts"]["name"]) for each in newest] == [
        ("project removed for good", "Doomed"),
        ("project deleted", "Doomed"),
    ]


async def test_the_first_project_and_one_on_air_stay(api_service: ApiService) -> None:
    project = await create_project(api_service, "Live")
    stream = await api_service.add("A stream", f"{PROJECTS}/{project['id']}/streams")
    await api_service.catalog.live_state.set(
        stream["id"], live=True, processing=True, on_air=0, sending=(0,), no_audio=False,
        now_us=NOW_US,
    )  # fmt: skip
    for name in (1, api_service.key, project["id"]):
        answer = await delete(api_service, name)
        assert answer.status_code == 409
        assert set(answer.json()) == {"message"}
    assert (await api_service.listed(path=PROJECTS))["meta"]["total"] == 2
