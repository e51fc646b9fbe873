"""Two people change the settings of one stream or project: the later one is told."""

import pytest

from tests.support.api.application import ApiService, Json


async def path_of(house: ApiService, noun: str) -> str:
    if noun == "project":
        return "/api/projects/1/settings"
    return f"/api/streams/{(await house.add())['id']}/settings"


@pytest.mark.parametrize(
    ("noun", "first", "second"),
    [
        ("stream", {"latency": "normal"}, {"dvr_seconds": 60}),
        ("stream", {"failover": {"mode": "sticky"}}, {"recording": {"enabled": True}}),
        ("project", {"dvr_seconds": 60}, {"latency": "low"}),
    ],
)
async def test_who_changes_what_was_changed_since_is_told(
    house: ApiService, noun: str, first: Json, second: Json
) -> None:
    path = await path_of(house, noun)
    read = await house.client.get(path, headers=house.owner)
    tag = read.headers["etag"]
    mine = {**house.owner, "If-Match": tag}
    done = await house.client.put(path, json=first, headers=mine)
    assert done.status_code == 200
    refused = await house.client.put(path, json=second, headers=mine)
    assert refused.status_code == 412
    assert set(refused.json()) == {"message"}
    shown = await house.client.get(path, headers=house.owner)
    assert shown.json()["data"] == done.json()["settings"]
    assert shown.headers["etag"] == done.headers["etag"] != tag
    again = {**house.owner, "If-Match": done.headers["etag"]}
    assert (await house.client.put(path, json=second, headers=again)).status_code == 200


async def test_an_edit_of_the_stream_is_no_change_of_its_settings(house: ApiService) -> None:
    path = await path_of(house, "stream")
    tag = (await house.client.get(path, headers=house.owner)).headers["etag"]
    stream = path.removesuffix("/settings")
    assert (
        await house.client.put(stream, json={"title": "New"}, headers=house.owner)
    ).status_code == 200
    mine = {**house.owner, "If-Match": tag}
    answer = await house.client.put(path, json={"latency": "low"}, headers=mine)
    assert answer.status_code == 200
