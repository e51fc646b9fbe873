"""Upload links: made, listed and deleted."""

import pytest

from storage.objects.disk import DiskObjects
from tests.api.uploads.test_link_uploads import LINKS, create, form, link, listed, videos
from tests.support.api.application import NOW_US, ApiService, Json
from tests.support.api.tus_client import OFFSETS, TUS, path_of
from tests.support.api.upload_clips import clip


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"most_bytes": 0}, "most_bytes"),
        ({"expires_seconds": 59}, "expires_seconds"),
        ({"expires_seconds": 1 << 40}, "expires_seconds"),
        ({"title": "a\0"}, "title"),
        ({"countries": ["XX"]}, "countries"),
        ({"poem": 1}, "poem"),
    ],
)
async def test_a_link_that_makes_no_sense_is_not_made(
    house: ApiService, said: Json, field: str
) -> None:
    answer = await house.client.post(LINKS, json=said, headers=house.owner)
    assert answer.status_code == 422
    assert set(answer.json()["errors"]) == {field}


async def test_links_are_listed_without_what_opens_them(house: ApiService) -> None:
    paths = [await link(house, title=f"Film {number}") for number in range(12)]
    await create(house, paths[11])
    found = await listed(house)
    assert [each["title"] for each in found] == [f"Film {11 - number}" for number in range(10)]
    assert set(found[0]) == {
        "id", "title", "state", "most_bytes", "created_at", "expires_at", "used_at", "video_id",
    }  # fmt: skip
    assert (found[0]["state"], found[1]["state"]) == ("used", "open")
    assert (found[0]["used_at"], found[1]["used_at"]) == (found[0]["created_at"], None)
    assert len(await listed(house, "?page=2")) == 2
    text = (await house.client.get(LINKS, headers=house.owner)).text
    assert not any(path.rsplit("/", 1)[1] in text for path in paths)
    reader = await house.headers_of("reader", 1, write=False)
    assert (await house.client.get(LINKS, headers=reader)).status_code == 403


async def test_a_link_that_is_deleted_opens_nothing_and_ends_what_came(
    house: ApiService, objects: DiskObjects
) -> None:
    path = await link(house)
    at = path_of(await create(house, path))
    headers = {**TUS, **OFFSETS, "Upload-Offset": "0"}
    assert (await house.client.patch(at, headers=headers, content=clip()[:99])).status_code == 204
    (record,) = await listed(house)
    one = f"{LINKS}/{record['id']}"
    reader = await house.headers_of("reader", 1, write=False)
    assert (await house.client.delete(one, headers=reader)).status_code == 403
    other = await house.catalog.projects.add("other", NOW_US)
    elsewhere = f"/api/projects/{other.id}/upload-links/{record['id']}"
    assert (await house.client.delete(elsewhere, headers=house.owner)).status_code == 404
    assert (await house.client.delete(one, headers=house.owner)).status_code == 204
    assert await listed(house) == []
    assert (await house.client.head(at, headers=TUS)).status_code == 404
    assert (await house.client.post(path, headers=TUS)).status_code == 404
    assert await videos(house) == []
    assert await objects.addresses("uploads") == []
    assert (await house.client.delete(one, headers=house.owner)).status_code == 404
    kinds = [each.kind for each in (await house.catalog.events.find_page(1)).items]
    assert {"upload link deleted", "upload deleted"} <= set(kinds)


async def test_what_came_through_a_link_outlives_it(house: ApiService) -> None:
    path = await link(house)
    answer = await house.client.post(path, **form())
    assert answer.status_code == 201, answer.text
    (record,) = await listed(house)
    one = f"{LINKS}/{record['id']}"
    assert (await house.client.delete(one, headers=house.owner)).status_code == 204
    assert [video["id"] for video in await videos(house)] == [answer.json()["video"]["id"]]
