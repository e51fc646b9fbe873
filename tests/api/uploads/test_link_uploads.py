"""Upload links: one upload for who has the address, and nothing else."""

import logging
from collections.abc import AsyncGenerator
from typing import Any

import httpx
import msgspec
import pytest

from api.app import create_app
from api.http.rate_limit import CallerRateLimiter, RateLimits
from headend.roles.upload_intake import create_intake
from storage.catalog.records.uploads import UploadDetails
from storage.objects.disk import DiskObjects
from tests.api.uploads.test_single_request import nothing_is_left
from tests.support.api.application import (
    ADDRESSES,
    BROADCASTER_KEY,
    NOW_US,
    ApiService,
    Json,
)
from tests.support.api.in_loop_client import client_of
from tests.support.api.tus_client import OFFSETS, TUS, metadata, path_of
from tests.support.api.upload_clips import VIDEOS, clip

LINKS = "/api/projects/1/upload-links"


async def link(house: ApiService, **said: object) -> str:
    """Make a link; return its path."""
    answer = await house.client.post(LINKS, json=said, headers=house.owner)
    assert answer.status_code == 201, answer.text
    made = answer.json()
    assert set(made) == {"message", "upload_link"}
    assert set(made["upload_link"]) == {
        "id", "address", "most_bytes", "expires_at", "video_id",
    }  # fmt: skip
    return httpx.URL(made["upload_link"]["address"]).path


async def videos(house: ApiService) -> list[Json]:
    return (await house.client.get(VIDEOS, headers=house.owner)).json()["data"]


def form(data: bytes | None = None, **texts: str) -> dict[str, Any]:  # Any: what httpx takes
    return {"files": {"video": ("a.mp4", data or clip(), "video/mp4")}, "data": texts}


async def create(house: ApiService, path: str, **headers: str) -> httpx.Response:
    said = {"Upload-Length": str(len(clip())), **headers}
    return await house.client.post(path, headers={**TUS, **said})


async def test_one_resumable_upload_comes_through_a_link_without_a_token(house: ApiService) -> None:
    path = await link(house, title="From outside", tags=[{"name": "Sent in"}])
    said = metadata(title="Mine", description="A greeting.", filename="a.mp4")
    made = await create(house, path, **{"Upload-Metadata": said})
    assert made.status_code == 201, made.text
    at = path_of(made)
    assert at.startswith(f"{path}/")
    data = clip()
    for start, end in ((0, 999), (999, len(data))):
        headers = {**TUS, **OFFSETS, "Upload-Offset": str(start)}
        answer = await house.client.patch(at, headers=headers, content=data[start:end])
        assert answer.status_code == 204, answer.text
        asked = await house.client.head(at, headers=TUS)
        assert asked.headers["upload-offset"] == str(end)
    (video,) = await videos(house)
    assert (video["title"], video["description"]) == ("From outside", "A greeting.")
    assert not video["uploading"]
    shown = await house.client.get(f"/api/videos/{video['id']}", headers=house.owner)
    assert [tag["name"] for tag in shown.json()["data"]["tags"]] == ["Sent in"]
    for again in (await create(house, path), await house.client.post(path, **form())):
        assert again.status_code == 409
    assert len(await videos(house)) == 1
    assert (await house.client.get(at)).json()["data"]["done"]


async def test_one_form_comes_through_a_link(house: ApiService) -> None:
    path = await link(house)
    answer = await house.client.post(path, **form(title="Mine"))
    assert answer.status_code == 201, answer.text
    (video,) = await videos(house)
    assert answer.json()["video"] == {key: video[key] for key in ("id", "hash", "title", "size")}
    assert video["title"] == "Mine"
    assert (await create(house, path)).status_code == 409
    events = (await house.client.get("/api/projects/1/events", headers=house.owner)).json()["data"]
    assert [(each["type"], each["token"]) for each in events[:2]] == [
        ("video added", None),
        ("upload link added", 1),
    ]


async def test_a_file_that_is_no_video_leaves_the_link_as_it_was(
    house: ApiService, objects: DiskObjects
) -> None:
    path = await link(house)
    answer = await house.client.post(path, **form(b"Dear diary"))
    assert answer.status_code == 422
    await nothing_is_left(house, objects)
    assert (await house.client.post(path, **form())).status_code == 201


async def test_a_link_takes_no_more_than_it_was_made_for(house: ApiService) -> None:
    path = await link(house, most_bytes=1000)
    assert (await create(house, path)).status_code == 413
    assert (await house.client.post(path, **form())).status_code == 413
    deferred = await house.client.post(path, headers={**TUS, "Upload-Defer-Length": "1"})
    assert deferred.status_code == 201
    headers = {**TUS, **OFFSETS, "Upload-Offset": "0"}
    answer = await house.client.patch(path_of(deferred), headers=headers, content=b"x" * 1001)
    assert answer.status_code == 413


async def test_a_stranger_sets_no_labels(house: ApiService) -> None:
    path = await link(house)
    refused = await create(house, path, **{"Upload-Metadata": metadata(tags='[{"name":"x"}]')})
    assert refused.status_code == 422
    assert (await create(house, path)).status_code == 201


async def test_a_link_that_is_over_begins_nothing(house: ApiService) -> None:
    _, secret = await house.catalog.links.add(
        1,
        UploadDetails(),
        most_bytes=1 << 30,
        expires_us=NOW_US,
        now_us=NOW_US - 60_000_000,
        by=None,
    )
    path = f"/api/upload-links/{secret}"
    assert (await create(house, path)).status_code == 410
    assert (await house.client.post(path, **form())).status_code == 410


async def test_a_link_opens_its_own_upload_alone(house: ApiService) -> None:
    first, second = await link(house), await link(house)
    mine = path_of(await create(house, first))
    name = mine.rpartition("/")[2]
    for path in (f"{second}/{name}", f"{first}x/{name}", f"/api/upload-links/x/{name}"):
        for method in ("HEAD", "GET", "PATCH", "DELETE"):
            headers = {**TUS, **OFFSETS, "Upload-Offset": "0"}
            answer = await house.client.request(method, path, headers=headers)
            assert answer.status_code == 404, (method, path)
    assert (await house.client.get(VIDEOS)).status_code == 401
    owned = f"/api/projects/1/uploads/{name}"
    assert (await house.client.get(owned, headers=house.owner)).status_code == 200
    ended = await house.client.delete(mine, headers=TUS)
    assert ended.status_code == 204
    assert (await create(house, first)).status_code == 409


@pytest.fixture
async def strict(house: ApiService, objects: DiskObjects) -> AsyncGenerator[ApiService]:
    """The application where a stranger has two attempts, and time stands."""
    rates = RateLimits(requests=0, attempts=2)
    app = create_app(
        catalog=house.catalog,
        addresses=ADDRESSES,
        broadcaster_key=BROADCASTER_KEY,
        intake=create_intake(objects, min_free_bytes=0),
        rate_limiter=CallerRateLimiter(rates, clock=lambda: 1000.0),
        clock_us=lambda: NOW_US,
    )
    async with client_of(app) as client:
        yield msgspec.structs.replace(house, client=client)


async def test_wrong_links_are_429_and_good_ones_beside_them_are_not(strict: ApiService) -> None:
    first, second = await link(strict), await link(strict)
    wrong = "/api/upload-links/wrong"
    begun = path_of(await create(strict, first))
    statuses = [(await create(strict, wrong)).status_code for _ in range(4)]
    assert statuses == [404, 404, 429, 429]
    headers = {**TUS, **OFFSETS, "Upload-Offset": "0"}
    sent = await strict.client.patch(begun, headers=headers, content=clip())
    assert sent.status_code == 204, sent.text
    # One that was not seen before is looked up like any other.
    assert (await strict.client.post(second, **form())).status_code == 201
    assert len(await videos(strict)) == 2
    assert (await create(strict, wrong)).status_code == 429


async def test_wrong_links_and_wrong_tokens_are_attempts_alike(strict: ApiService) -> None:
    path = await link(strict)
    assert (await create(strict, "/api/upload-links/wrong")).status_code == 404
    assert (await strict.client.get(VIDEOS)).status_code == 401
    assert (await strict.client.get(VIDEOS)).status_code == 429
    assert (await create(strict, "/api/upload-links/wrong")).status_code == 429
    assert (await create(strict, path)).status_code == 201


async def test_no_log_and_no_event_holds_the_secret(
    house: ApiService, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    path = await link(house)
    secret = path.rpartition("/")[2]
    at = path_of(await create(house, path))
    await house.client.patch(at, headers={**TUS, **OFFSETS, "Upload-Offset": "5"}, content=b"x")
    await house.client.delete(at, headers=TUS)
    events = await house.client.get("/api/projects/1/events", headers=house.owner)
    assert secret not in events.text
    ours = [record for record in caplog.records if not record.name.startswith("httpx")]
    assert all(secret not in repr(record.__dict__) for record in ours)


async def listed(house: ApiService, query: str = "") -> list[Json]:
    answer = await house.client.get(LINKS + query, headers=house.owner)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]
