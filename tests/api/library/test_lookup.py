"""The project of a path, its records with a name, and which tokens may see them."""

from typing import Any

import pytest

from storage.catalog.records.common import Change
from tests.support.api.application import ApiService, Json

# The noun of a record, the plural in the addresses of its list, and an edit.
KINDS = [
    ("tag", "tags", {"active": False}),
    ("category", "categories", {"active": False}),
    ("player", "players", {"muted": True}),
]
each_kind = pytest.mark.parametrize(("noun", "nouns", "edit"), KINDS)


async def add(api_service: ApiService, noun: str, nouns: str) -> Json:
    answer = await api_service.client.post(
        f"/api/projects/1/{nouns}", json={"name": "News"}, headers=api_service.owner
    )
    assert answer.status_code == 201, answer.text
    record: Json = answer.json()[noun]
    return record


async def test_a_project_is_named_by_its_number_or_its_key(api_service: ApiService) -> None:
    path = f"/api/projects/{api_service.key}/streams"
    added = await api_service.add("By key", path)
    assert (await api_service.listed())["data"][0]["id"] == added["id"]
    assert (await api_service.listed(path=path))["meta"]["path"] == f"https://live.example{path}"


@pytest.mark.parametrize("project", ["2", "0", "01", "unknown", "%00", "1%2F2", "-1"])
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_project_that_is_not_there_is_not_found(
    api_service: ApiService, project: str, method: str
) -> None:
    path = f"/api/projects/{project}/streams"
    answer = await api_service.client.request(
        method, path, headers=api_service.owner, json={"title": "x"} if method == "POST" else None
    )
    assert answer.status_code == 404
    assert set(answer.json()) == {"message"}


@each_kind
async def test_a_deleted_record_is_gone(
    api_service: ApiService, noun: str, nouns: str, edit: Json
) -> None:
    record = await add(api_service, noun, nouns)
    client, path = api_service.client, f"/api/{nouns}/{record['id']}"
    answer = await client.delete(path, headers=api_service.owner)
    assert (answer.status_code, answer.content) == (204, b"")
    assert (await api_service.newest_event())["type"] == f"{noun} deleted"
    assert (await client.delete(path, headers=api_service.owner)).status_code == 404
    assert (await client.put(path, json=edit, headers=api_service.owner)).status_code == 404
    body = await api_service.listed(path=f"/api/projects/1/{nouns}")
    assert (body["data"], body["meta"]["total"]) == ([], 0)


@each_kind
@pytest.mark.parametrize(
    "number",
    ["0", "-1", "01", "1.5", "abc", "%00", "999", "2147483648", "9999999999", "9" * 30, "1" * 5000],
)
async def test_what_is_no_records_number_is_not_found(
    api_service: ApiService, noun: str, nouns: str, edit: Json, number: str
) -> None:
    path = f"/api/{nouns}/{number}"
    for answer in (
        await api_service.client.get(path, headers=api_service.owner),
        await api_service.client.put(path, json=edit, headers=api_service.owner),
        await api_service.client.delete(path, headers=api_service.owner),
    ):
        assert answer.status_code == 404
        assert answer.json() == {"message": f"There is no such {noun}."}


@each_kind
async def test_changes_require_a_token_that_may_write(
    api_service: ApiService, noun: str, nouns: str, edit: Json
) -> None:
    record = await add(api_service, noun, nouns)
    other = (await api_service.catalog.projects.add("Other", Change(1))).id
    stranger = await api_service.headers_of("stranger", other, write=True)
    reader = await api_service.headers_of("reader", 1, write=False)
    listed, path = f"/api/projects/1/{nouns}", f"/api/{nouns}/{record['id']}"
    for headers, change_status, show_status in (
        ({}, 401, 401),
        (reader, 403, 200),
        (stranger, 404, 404),
    ):
        answers = [
            await api_service.client.post(listed, json={"name": "x"}, headers=headers),
            await api_service.client.put(path, json=edit, headers=headers),
            await api_service.client.delete(path, headers=headers),
            await api_service.client.get(listed, headers=headers),
            await api_service.client.get(path, headers=headers),
        ]
        expected = [change_status] * 3 + [show_status] * 2
        assert [answer.status_code for answer in answers] == expected
        if show_status == 200:
            assert answers[-1].json() == {"data": record}
    assert (await api_service.listed(path=listed))["data"] == [record]


@each_kind
async def test_an_edit_of_what_has_changed_since_is_refused(
    api_service: ApiService, noun: str, nouns: str, edit: Json
) -> None:
    record = await add(api_service, noun, nouns)
    path = f"/api/{nouns}/{record['id']}"

    async def put(body: Json, tag: str | None = None) -> Any:
        headers = api_service.owner | ({} if tag is None else {"If-Match": tag})
        return await api_service.client.put(path, json=body, headers=headers)

    original = await api_service.client.get(path, headers=api_service.owner)
    assert (original.status_code, original.json()) == (200, {"data": record})
    tag = original.headers["etag"]
    first = await put(edit, tag)
    assert first.status_code == 200
    assert (await put({"name": "Theirs"}, tag)).status_code == 412
    unchanged = await api_service.client.get(path, headers=api_service.owner)
    assert unchanged.json()["data"] == record | edit
    assert unchanged.headers["etag"] == first.headers["etag"] != tag
    third = await put({"name": "Theirs"}, unchanged.headers["etag"])
    assert third.json()[noun]["name"] == "Theirs"
    assert (await put({"name": "Without"})).status_code == 200
