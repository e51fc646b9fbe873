"""The names of bodies in the OpenAPI document, and the bounds of settings."""

import pytest

from api.http.errors import ApiError
from api.http.json_body import parse_fields
from api.streams.schemas import SettingsEdit
from tests.support.api.application import ApiService


async def test_bodies_keep_their_names_in_the_document(api_service: ApiService) -> None:
    document = (await api_service.client.get("/schema/openapi.json")).json()
    schemas = document["components"]["schemas"]
    names = {"Failover", "Recording", "Settings", "Slate", "Encoder"}
    assert names <= set(schemas)
    assert all(schemas[name]["title"] == name for name in names)
    assert not any(name.endswith("Body") and name[:-4] in names for name in schemas)


@pytest.mark.parametrize(
    "failover",
    [{"mode": "other"}, {"detect_seconds": -1}, {"reconnect_seconds": 1e9}, {"unknown": 1}],
)
def test_a_setting_out_of_its_bounds_is_refused(failover: dict[str, object]) -> None:
    with pytest.raises(ApiError) as refused:
        parse_fields({"failover": failover}, SettingsEdit)
    assert set(refused.value.errors or ()) == {"failover"}
