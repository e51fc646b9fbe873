"""Concurrent edits of a stream's or project's settings: the later one is refused."""

import pytest

from tests.support.api.application import ApiService, Json


async def path_of(api_service: ApiService, noun: str) -> str:
    if noun == "project":
        return "/api/projects/1/settings"
    return f"/api/streams/{(await api_service.add())['id']}/settings"


@pytest.mark.parametrize(
    ("noun", "first", "second"),
    [
        ("stream", {"latency": "normal"}, {"dvr_seconds": 60}),
        ("stream", {"failover": {"mode": "sticky"}}, {"recording": {"enabled": True}}),
        ("project", {"dvr_seconds": 60}, {"latency": "low"}),
    ],
)
async def test_an_edit_of_settings_that_have_changed_since_is_refused(
    api_service: ApiService, noun: str, first: Json, second: Json
) -> None:
    path = await path_of(api_service, noun)
    original = await api_service.client.get(path, headers=api_service.owner)
    tag = original.headers["etag"]
    mine = {**api_service.owner, "If-Match": tag}
    first_answer = await api_service.client.put(path, json=first, headers=mine)
    assert first_answer.status_code == 200
    refused = await api_service.client.put(path, json=second, headers=mine)
    assert refused.status_code == 412
    assert set(refused.json()) == {"message"}
    unchanged = await api_service.client.get(path, headers=api_service.owner)
    assert unchanged.json()["data"] == first_answer.json()["settings"]
    assert unchanged.headers["etag"] == first_answer.headers["etag"] != tag
    newer_headers = {**api_service.owner, "If-Match": first_answer.headers["etag"]}
    assert (
        await api_service.client.put(path, json=second, headers=newer_headers)
    ).status_code == 200


async def test_an_edit_of_the_stream_is_no_change_of_its_settings(api_service: ApiService) -> None:
    path = await path_of(api_service, "stream")
    tag = (await api_service.client.get(path, headers=api_service.owner)).headers["etag"]
    stream = path.removesuffix("/settings")
    assert (
        await api_service.client.put(stream, json={"title": "New"}, headers=api_service.owner)
    ).status_code == 200
    mine = {**api_service.owner, "If-Match": tag}
    answer = await api_service.client.put(path, json={"latency": "low"}, headers=mine)
    assert answer.status_code == 200
