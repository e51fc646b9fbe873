"""The settings of a stream, and of a project as defaults of its streams; on both databases."""

from pathlib import Path
from typing import Any, Final

import pytest

from storage.catalog.records.common import Change
from tests.support.api import contract_shapes
from tests.support.api.application import ApiService, Json
from tests.support.api.contract_shapes import Nullable
from tests.support.api.upload_clips import picture
from tests.support.shared_engines import mostly_on

# Both databases get the same statements here; their differences have separate tests.
pytestmark = mostly_on("sqlite")

# Every setting of a stream or a project; null inherits the next level's value.
FAILOVER: Final = {
    "mode": Nullable(contract_shapes.STRING),
    "detect_seconds": Nullable(contract_shapes.NUMBER),
    "return_seconds": Nullable(contract_shapes.NUMBER),
    "reconnect_seconds": Nullable(contract_shapes.NUMBER),
    "goodbye_seconds": Nullable(contract_shapes.NUMBER),
    "align": Nullable(contract_shapes.STRING),
    "align_wait_seconds": Nullable(contract_shapes.NUMBER),
    "quality": Nullable(contract_shapes.STRING),
    "quality_seconds": Nullable(contract_shapes.NUMBER),
}
RECORDING: Final = {
    "enabled": Nullable(contract_shapes.BOOLEAN),
    "keep_days": Nullable(contract_shapes.INTEGER),
}
OTHERS: Final = {
    "latency": Nullable(contract_shapes.STRING),
    "dvr_seconds": Nullable(contract_shapes.NUMBER),
}
SLATE: Final = {"picture": Nullable(contract_shapes.URL)}
SETTINGS: Final = {"failover": FAILOVER, "slate": SLATE, "recording": RECORDING, **OTHERS}
NOTHING: Json = {
    "failover": dict.fromkeys(FAILOVER),
    "slate": dict.fromkeys(SLATE),
    "recording": dict.fromkeys(RECORDING),
    **dict.fromkeys(OTHERS),
}
PROJECT = "/api/projects/1/settings"


@pytest.fixture
def catalog_database(either_database: str | Path) -> str | Path:
    return either_database


async def put(api_service: ApiService, path: str, body: Json) -> Json:
    answer = await api_service.client.put(path, json=body, headers=api_service.owner)
    assert answer.status_code == 200, answer.text
    shape = {"message": contract_shapes.STRING, "settings": SETTINGS}
    changed: Json = answer.json()
    assert contract_shapes.faults(changed, shape) == []
    assert changed["message"] == "Settings updated."
    settings: Json = changed["settings"]
    return settings


async def get(api_service: ApiService, path: str) -> Json:
    answer = await api_service.client.get(path, headers=api_service.owner)
    assert answer.status_code == 200, answer.text
    body: Json = answer.json()
    assert contract_shapes.faults(body, {"data": SETTINGS}) == []
    settings: Json = body["data"]
    return settings


async def path_of(api_service: ApiService, kind: str) -> str:
    stream = await api_service.add()
    return PROJECT if kind == "project" else f"/api/streams/{stream['id']}/settings"


def settings_with(**changes: Any) -> Json:  # Any: a section, or a value
    """Return settings of which only the given ones are set."""
    settings = {**NOTHING, **changes}
    for section in ("failover", "slate", "recording"):
        settings[section] = {**NOTHING[section], **settings[section]}
    return settings


both = pytest.mark.parametrize("kind", ["stream", "project"])


@both
async def test_settings_stay_until_null_clears_them(api_service: ApiService, kind: str) -> None:
    path = await path_of(api_service, kind)
    assert await get(api_service, path) == NOTHING
    failover: Json = {"mode": "sticky", "reconnect_seconds": 12.5}
    assert await put(api_service, path, {"failover": failover}) == settings_with(failover=failover)
    failover["goodbye_seconds"] = 0
    settings = settings_with(failover=failover, recording={"enabled": True})
    body: Json = {"failover": {"goodbye_seconds": 0}, "recording": {"enabled": True}}
    assert await put(api_service, path, body) == settings
    settings |= await put(api_service, path, {"latency": "low", "dvr_seconds": 3600})
    assert (settings["latency"], settings["dvr_seconds"]) == ("low", 3600)
    settings = await put(api_service, path, {"latency": "normal"})
    assert settings == settings_with(
        failover=failover, recording={"enabled": True}, latency="normal", dvr_seconds=3600
    )
    unchanged: list[Json] = [{}, {"failover": {}}, {"recording": {}}]
    for nothing in unchanged:
        assert await put(api_service, path, nothing) == settings
    assert await get(api_service, path) == settings
    body = {"failover": {"mode": None}, "recording": {"enabled": None, "keep_days": 3}}
    body["latency"] = None
    del failover["mode"]
    cleared = settings_with(failover=failover, recording={"keep_days": 3}, dvr_seconds=3600)
    assert await put(api_service, path, body) == cleared
    assert await put(api_service, path, {"dvr_seconds": None}) == settings_with(
        failover=failover, recording={"keep_days": 3}
    )


@both
async def test_settings_may_equal_their_bounds(api_service: ApiService, kind: str) -> None:
    path = await path_of(api_service, kind)
    for failover, keep_days, dvr in (
        ({"detect_seconds": 0.5, "return_seconds": 0, "reconnect_seconds": 0}, 1, 0),
        ({"detect_seconds": 30, "return_seconds": 600, "reconnect_seconds": 86_400}, 3650, 43_200),
    ):
        body: Json = {"failover": failover, "recording": {"keep_days": keep_days}}
        body["dvr_seconds"] = dvr
        assert await put(api_service, path, body) == settings_with(**body)


async def test_the_settings_of_a_stream_and_its_project_are_separate(
    api_service: ApiService,
) -> None:
    path = await path_of(api_service, "stream")
    await put(api_service, PROJECT, {"failover": {"goodbye_seconds": 5}})
    assert await get(api_service, path) == NOTHING
    await put(api_service, path, {"failover": {"goodbye_seconds": 6}})
    assert (await get(api_service, PROJECT))["failover"]["goodbye_seconds"] == 5


@both
async def test_the_picture_is_among_the_settings_and_stays_when_they_change(
    api_service: ApiService, kind: str
) -> None:
    path = await path_of(api_service, kind)
    answer = await api_service.client.put(
        path.replace("/settings", "/slate"),
        files={"picture": ("p.png", picture())},
        headers=api_service.owner,
    )
    assert answer.status_code == 200, answer.text
    slate = answer.json()["settings"]["slate"]
    assert slate["picture"].startswith("https://live.example/slates/")
    changed = await put(api_service, path, {"failover": {"mode": "sticky"}})
    assert changed == settings_with(slate=slate, failover={"mode": "sticky"})


WRONG: list[tuple[Json, str]] = [
    ({"failover": {"mode": "primary"}}, "failover"),
    ({"failover": {"mode": ""}}, "failover"),
    ({"failover": {"detect_seconds": 0.4}}, "failover"),
    ({"failover": {"detect_seconds": 30.1}}, "failover"),
    ({"failover": {"return_seconds": -0.1}}, "failover"),
    ({"failover": {"return_seconds": 601}}, "failover"),
    ({"failover": {"reconnect_seconds": -1}}, "failover"),
    ({"failover": {"reconnect_seconds": 86_401}}, "failover"),
    ({"failover": {"goodbye_seconds": "5"}}, "failover"),
    ({"failover": {"goodbye_seconds": True}}, "failover"),
    ({"failover": {"stalled_seconds": 5}}, "failover"),
    ({"failover": None}, "failover"),
    ({"failover": []}, "failover"),
    ({"recording": {"enabled": 1}}, "recording"),
    ({"recording": {"keep_days": 0}}, "recording"),
    ({"recording": {"keep_days": 3651}}, "recording"),
    ({"recording": {"keep_days": 1.5}}, "recording"),
    ({"recording": {"days": 1}}, "recording"),
    ({"latency": "lowest"}, "latency"),
    ({"latency": ""}, "latency"),
    ({"latency": True}, "latency"),
    ({"dvr_seconds": -1}, "dvr_seconds"),
    ({"dvr_seconds": 43_201}, "dvr_seconds"),
    ({"dvr_seconds": "60"}, "dvr_seconds"),
    # The picture has a separate address.
    ({"slate": {"picture": None}}, "slate"),
    ({"recordings": {}}, "recordings"),
]


@both
async def test_an_invalid_setting_is_named_and_changes_nothing(
    api_service: ApiService, kind: str
) -> None:
    path = await path_of(api_service, kind)
    for body, field in WRONG:
        # A valid setting in the same body is not stored either.
        edit = {"failover": {"mode": "sticky"}, **body}
        answer = await api_service.client.put(path, json=edit, headers=api_service.owner)
        assert answer.status_code == 422, f"{body}: {answer.text}"
        assert contract_shapes.refusal_faults(answer.json()) == []
        assert set(answer.json()["errors"]) == {field}
    assert await get(api_service, path) == NOTHING


async def test_a_project_may_be_named_by_its_key_and_other_tokens_are_refused(
    api_service: ApiService,
) -> None:
    await put(
        api_service,
        f"/api/projects/{api_service.key}/settings",
        {"failover": {"goodbye_seconds": 5}},
    )
    assert (await get(api_service, PROJECT))["failover"]["goodbye_seconds"] == 5
    other = await api_service.catalog.projects.add("Other", Change(1))
    theirs = await api_service.headers_of("theirs", other.id, write=True)
    assert (await api_service.client.get(PROJECT, headers=theirs)).status_code == 404
    assert (await api_service.client.put(PROJECT, json={}, headers=theirs)).status_code == 404
    reader = await api_service.headers_of("reader", 1, write=False)
    assert (await api_service.client.put(PROJECT, json={}, headers=reader)).status_code == 403
