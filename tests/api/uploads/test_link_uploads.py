"""Upload links: the address allows one upload, and nothing else."""

import logging
from collections.abc import AsyncGenerator
from typing import Any

import httpx
import msgspec
import pytest

from api.app import create_app
from api.http.caller_limits import CallerRateLimiter, RateLimits
from headend.roles.upload_intake import create_intake
from storage.catalog.records.common import Change
from storage.catalog.records.details import VideoDetails
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


async def add_link(api_service: ApiService, **extra: object) -> str:
    """Add a link, and return its path."""
    answer = await api_service.client.post(LINKS, json=extra, headers=api_service.owner)
    assert answer.status_code == 201, answer.text
    body = answer.json()
    assert set(body) == {"message", "upload_link"}
    assert set(body["upload_link"]) == {
        "id", "address", "most_bytes", "expires_at", "video_id",
    }  # fmt: skip
    return httpx.URL(body["upload_link"]["address"]).path


async def videos(api_service: ApiService) -> list[Json]:
    return (await api_service.client.get(VIDEOS, headers=api_service.owner)).json()["data"]


def form(data: bytes | None = None, **texts: str) -> dict[str, Any]:  # Any: what httpx takes
    return {"files": {"video": ("a.mp4", data or clip(), "video/mp4")}, "data": texts}


async def create(api_service: ApiService, path: str, **headers: str) -> httpx.Response:
    extra = {"Upload-Length": str(len(clip())), **headers}
    return await api_service.client.post(path, headers={**TUS, **extra})


async def test_a_file_can_be_uploaded_in_pieces_through_a_link_without_a_token(
    api_service: ApiService,
) -> None:
    path = await add_link(api_service, title="From outside", tags=[{"name": "Sent in"}])
    extra = metadata(title="Mine", description="A greeting.", filename="a.mp4")
    created = await create(api_service, path, **{"Upload-Metadata": extra})
    assert created.status_code == 201, created.text
    at = path_of(created)
    assert at.startswith(f"{path}/")
    data = clip()
    for start, end in ((0, 999), (999, len(data))):
        headers = {**TUS, **OFFSETS, "Upload-Offset": str(start)}
        answer = await api_service.client.patch(at, headers=headers, content=data[start:end])
        assert answer.status_code == 204, answer.text
        state = await api_service.client.head(at, headers=TUS)
        assert state.headers["upload-offset"] == str(end)
    (video,) = await videos(api_service)
    assert (video["title"], video["description"]) == ("From outside", "A greeting.")
    assert not video["uploading"]
    record = await api_service.client.get(f"/api/videos/{video['id']}", headers=api_service.owner)
    assert [tag["name"] for tag in record.json()["data"]["tags"]] == ["Sent in"]
    for refused in (await create(api_service, path), await api_service.client.post(path, **form())):
        assert refused.status_code == 409
    assert len(await videos(api_service)) == 1
    assert (await api_service.client.get(at)).json()["data"]["done"]


async def test_a_form_can_be_uploaded_through_a_link(api_service: ApiService) -> None:
    path = await add_link(api_service)
    answer = await api_service.client.post(path, **form(title="Mine"))
    assert answer.status_code == 201, answer.text
    (video,) = await videos(api_service)
    assert answer.json()["video"] == {key: video[key] for key in ("id", "hash", "title", "size")}
    assert video["title"] == "Mine"
    assert (await create(api_service, path)).status_code == 409
    events = (
        await api_service.client.get("/api/projects/1/events", headers=api_service.owner)
    ).json()["data"]
    assert [(each["type"], each["token"]) for each in events[:2]] == [
        ("video added", None),
        ("upload link added", 1),
    ]


async def test_a_file_that_is_no_video_does_not_use_up_the_link(
    api_service: ApiService, objects: DiskObjects
) -> None:
    path = await add_link(api_service)
    answer = await api_service.client.post(path, **form(b"Dear diary"))
    assert answer.status_code == 422
    await nothing_is_left(api_service, objects)
    assert (await api_service.client.post(path, **form())).status_code == 201


async def test_a_link_takes_no_more_bytes_than_its_limit(api_service: ApiService) -> None:
    path = await add_link(api_service, most_bytes=1000)
    assert (await create(api_service, path)).status_code == 413
    assert (await api_service.client.post(path, **form())).status_code == 413
    deferred = await api_service.client.post(path, headers={**TUS, "Upload-Defer-Length": "1"})
    assert deferred.status_code == 201
    headers = {**TUS, **OFFSETS, "Upload-Offset": "0"}
    answer = await api_service.client.patch(path_of(deferred), headers=headers, content=b"x" * 1001)
    assert answer.status_code == 413


async def test_an_upload_through_a_link_sets_no_tags(api_service: ApiService) -> None:
    path = await add_link(api_service)
    refused = await create(
        api_service, path, **{"Upload-Metadata": metadata(tags='[{"name":"x"}]')}
    )
    assert refused.status_code == 422
    assert (await create(api_service, path)).status_code == 201


async def test_an_expired_link_begins_no_upload(api_service: ApiService) -> None:
    _, secret = await api_service.catalog.links.add(
        1,
        VideoDetails(),
        Change(1, by=1),
        most_bytes=1 << 30,
        expires_us=NOW_US,
    )
    path = f"/api/upload-links/{secret}"
    assert (await create(api_service, path)).status_code == 410
    assert (await api_service.client.post(path, **form())).status_code == 410


async def test_a_link_gives_access_to_its_own_upload_only(api_service: ApiService) -> None:
    first, second = await add_link(api_service), await add_link(api_service)
    mine = path_of(await create(api_service, first))
    name = mine.rpartition("/")[2]
    for path in (f"{second}/{name}", f"{first}x/{name}", f"/api/upload-links/x/{name}"):
        for method in ("HEAD", "GET", "PATCH", "DELETE"):
            headers = {**TUS, **OFFSETS, "Upload-Offset": "0"}
            answer = await api_service.client.request(method, path, headers=headers)
            assert answer.status_code == 404, (method, path)
    assert (await api_service.client.get(VIDEOS)).status_code == 401
    owned = f"/api/projects/1/uploads/{name}"
    assert (await api_service.client.get(owned, headers=api_service.owner)).status_code == 200
    ended = await api_service.client.delete(mine, headers=TUS)
    assert ended.status_code == 204
    assert (await create(api_service, first)).status_code == 409


@pytest.fixture
async def strict(api_service: ApiService, objects: DiskObjects) -> AsyncGenerator[ApiService]:
    """The application with a limit of two attempts, on a clock that does not advance."""
    rates = RateLimits(requests=0, attempts=2)
    app = create_app(
        catalog=api_service.catalog,
        addresses=ADDRESSES,
        broadcaster_key=BROADCASTER_KEY,
        intake=create_intake(objects, min_free_bytes=0),
        rate_limiter=CallerRateLimiter(rates, clock=lambda: 1000.0),
        clock_us=lambda: NOW_US,
    )
    async with client_of(app) as client:
        yield msgspec.structs.replace(api_service, client=client)


async def test_wrong_links_are_429_and_good_ones_beside_them_are_not(strict: ApiService) -> None:
    first, second = await add_link(strict), await add_link(strict)
    wrong = "/api/upload-links/wrong"
    upload_path = path_of(await create(strict, first))
    statuses = [(await create(strict, wrong)).status_code for _ in range(4)]
    assert statuses == [404, 404, 429, 429]
    headers = {**TUS, **OFFSETS, "Upload-Offset": "0"}
    answer = await strict.client.patch(upload_path, headers=headers, content=clip())
    assert answer.status_code == 204, answer.text
    # A link that was not seen before is looked up like any other.
    assert (await strict.client.post(second, **form())).status_code == 201
    assert len(await videos(strict)) == 2
    assert (await create(strict, wrong)).status_code == 429


async def test_wrong_links_and_wrong_tokens_are_attempts_alike(strict: ApiService) -> None:
    path = await add_link(strict)
    assert (await create(strict, "/api/upload-links/wrong")).status_code == 404
    assert (await strict.client.get(VIDEOS)).status_code == 401
    assert (await strict.client.get(VIDEOS)).status_code == 429
    assert (await create(strict, "/api/upload-links/wrong")).status_code == 429
    assert (await create(strict, path)).status_code == 201


async def test_no_log_and_no_event_holds_the_secret(
    api_service: ApiService, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    path = await add_link(api_service)
    secret = path.rpartition("/")[2]
    at = path_of(await create(api_service, path))
    await api_service.client.patch(
        at, headers={**TUS, **OFFSETS, "Upload-Offset": "5"}, content=b"x"
    )
    await api_service.client.delete(at, headers=TUS)
    events = await api_service.client.get("/api/projects/1/events", headers=api_service.owner)
    assert secret not in events.text
    ours = [record for record in caplog.records if not record.name.startswith("httpx")]
    assert all(secret not in repr(record.__dict__) for record in ours)


async def list_links(api_service: ApiService, query: str = "") -> list[Json]:
    answer = await api_service.client.get(LINKS + query, headers=api_service.owner)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]
