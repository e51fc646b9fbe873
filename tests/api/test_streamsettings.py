"""What is set for a stream, and for a project as the default of its streams."""

import pytest

from tests.api.house import House, Json

pytestmark = pytest.mark.anyio

NOTHING = {"failover": {"reconnect_seconds": None, "goodbye_seconds": None}}
PROJECT = "/api/projects/1/settings"


async def put(house: House, path: str, failover: object) -> Json:
    answer = await house.client.put(path, json={"failover": failover}, headers=house.owner)
    assert answer.status_code == 200, answer.text
    body: Json = answer.json()
    assert set(body) == {"message", "settings"}
    assert body["message"] == "Settings updated."
    return body["settings"]  # type: ignore[no-any-return]  # JSON


async def get(house: House, path: str) -> Json:
    answer = await house.client.get(path, headers=house.owner)
    assert answer.status_code == 200, answer.text
    assert set(answer.json()) == {"data"}
    return answer.json()["data"]  # type: ignore[no-any-return]  # JSON


async def path_of(house: House, kind: str) -> str:
    stream = await house.add()
    return PROJECT if kind == "project" else f"/api/streams/{stream['id']}/settings"


both = pytest.mark.parametrize("kind", ["stream", "project"])


@both
async def test_nothing_is_set_at_first(house: House, kind: str) -> None:
    assert await get(house, await path_of(house, kind)) == NOTHING


@both
async def test_what_is_set_stays_until_null_takes_it_back(house: House, kind: str) -> None:
    path = await path_of(house, kind)
    one = {"failover": {"reconnect_seconds": 12.5, "goodbye_seconds": None}}
    assert await put(house, path, {"reconnect_seconds": 12.5}) == one
    two = {"failover": {"reconnect_seconds": 12.5, "goodbye_seconds": 0.0}}
    assert await put(house, path, {"goodbye_seconds": 0}) == two
    assert await put(house, path, {}) == two
    assert await get(house, path) == two
    three = {"failover": {"reconnect_seconds": None, "goodbye_seconds": 0.0}}
    assert await put(house, path, {"reconnect_seconds": None}) == three
    answer = await house.client.put(path, json={}, headers=house.owner)
    assert answer.json()["settings"] == three


async def test_a_streams_own_settings_and_its_projects_are_told_apart(house: House) -> None:
    path = await path_of(house, "stream")
    await put(house, PROJECT, {"goodbye_seconds": 5})
    assert await get(house, path) == NOTHING
    await put(house, path, {"goodbye_seconds": 6})
    assert (await get(house, PROJECT))["failover"]["goodbye_seconds"] == 5


@both
@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"failover": {"reconnect_seconds": -1}}, "failover"),
        ({"failover": {"reconnect_seconds": 86_401}}, "failover"),
        ({"failover": {"goodbye_seconds": "5"}}, "failover"),
        ({"failover": {"goodbye_seconds": True}}, "failover"),
        ({"failover": {"stalled_seconds": 5}}, "failover"),
        ({"failover": None}, "failover"),
        ({"failover": []}, "failover"),
        ({"recording": {}}, "recording"),
    ],
)
async def test_what_cannot_be_set_is_named(house: House, kind: str, body: Json, field: str) -> None:
    path = await path_of(house, kind)
    answer = await house.client.put(path, json=body, headers=house.owner)
    assert answer.status_code == 422, answer.text
    assert set(answer.json()["errors"]) == {field}
    assert await get(house, path) == NOTHING


async def test_a_project_is_found_by_its_key_too_and_another_ones_token_finds_none(
    house: House,
) -> None:
    await put(house, f"/api/projects/{house.key}/settings", {"goodbye_seconds": 5})
    assert (await get(house, PROJECT))["failover"]["goodbye_seconds"] == 5
    other = await house.catalog.add_project("Other", 1)
    theirs = await house.headers_of("theirs", other.id, write=True)
    assert (await house.client.get(PROJECT, headers=theirs)).status_code == 404
    assert (await house.client.put(PROJECT, json={}, headers=theirs)).status_code == 404
    reader = await house.headers_of("reader", 1, write=False)
    assert (await house.client.put(PROJECT, json={}, headers=reader)).status_code == 403
