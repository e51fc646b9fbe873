"""Upload links: adding, listing and deleting them."""

import pytest

from storage.catalog.records.common import Change
from storage.objects.disk import DiskObjects
from tests.api.uploads.test_link_uploads import LINKS, add_link, create, form, list_links, videos
from tests.support.api.application import NOW_US, ApiService, Json
from tests.support.api.tus_client import OFFSETS, TUS, path_of
from tests.support.api.upload_clips import clip


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"most_bytes": 0}, "most_bytes"),
        ({"expires_seconds": 59}, "expires_seconds"),
        ({"expires_seconds": 1 << 40}, "expires_seconds"),
        ({"title": "a\0"}, "title"),
        ({"countries": ["XX"]}, "countries"),
        ({"poem": 1}, "poem"),
    ],
)
async def test_an_invalid_link_is_refused(api_service: ApiService, body: Json, field: str) -> None:
    answer = await api_service.client.post(LINKS, json=body, headers=api_service.owner)
    assert answer.status_code == 422
    assert set(answer.json()["errors"]) == {field}


async def test_links_are_listed_without_what_opens_them(api_service: ApiService) -> None:
    paths = [await add_link(api_service, title=f"Film {number}") for number in range(12)]
    await create(api_service, paths[11])
    links = await list_links(api_service)
    assert [each["title"] for each in links] == [f"Film {11 - number}" for number in range(10)]
    assert set(links[0]) == {
        "id", "title", "state", "most_bytes", "created_at", "expires_at", "used_at", "video_id",
    }  # fmt: skip
    assert (links[0]["state"], links[1]["state"]) == ("used", "open")
    assert (links[0]["used_at"], links[1]["used_at"]) == (links[0]["created_at"], None)
    assert len(await list_links(api_service, "?page=2")) == 2
    text = (await api_service.client.get(LINKS, headers=api_service.owner)).text
    assert not any(path.rsplit("/", 1)[1] in text for path in paths)
    reader = await api_service.headers_of("reader", 1, write=False)
    assert (await api_service.client.get(LINKS, headers=reader)).status_code == 403


async def test_a_link_that_is_deleted_opens_nothing_and_ends_what_came(
    api_service: ApiService, objects: DiskObjects
) -> None:
    path = await add_link(api_service)
    upload_path = path_of(await create(api_service, path))
    headers = {**TUS, **OFFSETS, "Upload-Offset": "0"}
    assert (
        await api_service.client.patch(upload_path, headers=headers, content=clip()[:99])
    ).status_code == 204
    (record,) = await list_links(api_service)
    link_path = f"{LINKS}/{record['id']}"
    reader = await api_service.headers_of("reader", 1, write=False)
    assert (await api_service.client.delete(link_path, headers=reader)).status_code == 403
    other = await api_service.catalog.projects.add("other", Change(NOW_US))
    elsewhere = f"/api/projects/{other.id}/upload-links/{record['id']}"
    assert (
        await api_service.client.delete(elsewhere, headers=api_service.owner)
    ).status_code == 404
    assert (
        await api_service.client.delete(link_path, headers=api_service.owner)
    ).status_code == 204
    assert await list_links(api_service) == []
    assert (await api_service.client.head(upload_path, headers=TUS)).status_code == 404
    assert (await api_service.client.post(path, headers=TUS)).status_code == 404
    assert await videos(api_service) == []
    assert await objects.addresses("uploads") == []
    assert (
        await api_service.client.delete(link_path, headers=api_service.owner)
    ).status_code == 404
    kinds = [each.kind for each in (await api_service.catalog.events.find_page(1)).items]
    assert {"upload link deleted", "upload deleted"} <= set(kinds)


async def test_an_uploaded_video_outlives_its_link(api_service: ApiService) -> None:
    path = await add_link(api_service)
    answer = await api_service.client.post(path, **form())
    assert answer.status_code == 201, answer.text
    (record,) = await list_links(api_service)
    link_path = f"{LINKS}/{record['id']}"
    assert (
        await api_service.client.delete(link_path, headers=api_service.owner)
    ).status_code == 204
    assert [video["id"] for video in await videos(api_service)] == [answer.json()["video"]["id"]]
