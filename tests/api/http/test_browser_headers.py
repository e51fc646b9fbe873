"""Pages on other origins, which of them may upload; and answers that are no pages."""

from pathlib import Path

import httpx
import pytest

from api.http.browser_headers import DATA_POLICY, MEDIA_POLICY, normalize_origins, origins_error
from api.http.response import HttpResponse
from tests.api.uploads.test_link_uploads import add_link
from tests.support.api.application import STREAMS, ApiService
from tests.support.api.origin_client import SEGMENT, VARIANTS, OriginSite
from tests.support.api.tus_client import TUS, UPLOADS, create, send
from tests.support.api.upload_clips import VIDEOS, clip

APP = "https://app.example"
ASKED = {
    "Origin": APP,
    "Access-Control-Request-Method": "PATCH",
    "Access-Control-Request-Headers": "authorization,tus-resumable,upload-offset",
}


async def admit(api_service: ApiService, *origins: str) -> httpx.Response:
    answer = await api_service.client.put(
        "/api/projects/1", json={"origins": list(origins)}, headers=api_service.owner
    )
    assert answer.status_code == 200, answer.text
    return answer


async def test_a_preflight_is_answered_without_a_token_for_the_origins_of_the_project(
    api_service: ApiService,
) -> None:
    path = await create(api_service)
    link_path = await add_link(api_service)
    for address in (UPLOADS, path, link_path, f"{link_path}/x"):
        preflight = await api_service.client.options(address, headers=ASKED)
        assert preflight.status_code == 204, address
        assert "access-control-allow-origin" not in preflight.headers
    answer = await admit(api_service, "https://other.example", APP)
    assert answer.json()["project"]["origins"] == ["https://other.example", APP]
    for address in (UPLOADS, path, link_path, f"{link_path}/x"):
        answer = await api_service.client.options(address, headers=ASKED)
        assert answer.status_code == 204
        assert answer.headers["access-control-allow-origin"] == APP
        assert "PATCH" in answer.headers["access-control-allow-methods"]
        allowed = answer.headers["access-control-allow-headers"].lower().split(", ")
        assert {"authorization", "tus-resumable", "upload-offset", "content-type"} <= set(allowed)
        assert "access-control-allow-credentials" not in answer.headers
        assert answer.headers["vary"] == "Origin"
        assert answer.headers["tus-version"] == "1.0.0"
        assert answer.headers["tus-max-size"] == str(50 << 30)
        assert "creation-defer-length" in answer.headers["tus-extension"].split(",")
        stranger = await api_service.client.options(
            address, headers={**ASKED, "Origin": f"{APP}.evil"}
        )
        assert "access-control-allow-origin" not in stranger.headers


async def test_answers_and_refusals_can_be_read_by_admitted_pages(api_service: ApiService) -> None:
    await admit(api_service, "*")
    path = await create(api_service)
    answer = await send(api_service, path, 0, clip()[:9], {"Origin": APP})
    assert answer.headers["access-control-allow-origin"] == APP
    assert "Upload-Offset" in answer.headers["access-control-expose-headers"]
    for refused in (
        await send(api_service, path, 0, b"x", {"Origin": APP}),
        await api_service.client.head(path, headers={**TUS, "Origin": APP}),
        await api_service.client.post(UPLOADS, headers={**api_service.owner, "Origin": APP}),
    ):
        assert refused.status_code in (401, 409, 412)
        assert refused.headers["access-control-allow-origin"] == APP
        assert refused.headers["tus-resumable"] == "1.0.0"


async def test_other_operations_stay_closed_to_other_origins(api_service: ApiService) -> None:
    await admit(api_service, "*")
    headers = {**api_service.owner, "Origin": APP}
    for path in (VIDEOS, "/api/projects/1", "/api/tokens", "/api/projects/1/upload-links"):
        for answer in (
            await api_service.client.get(path, headers=headers),
            await api_service.client.options(path, headers={**ASKED, **api_service.owner}),
        ):
            assert "access-control-allow-origin" not in answer.headers, path
        assert (await api_service.client.options(path, headers=ASKED)).status_code == 401


async def test_invalid_origins_are_refused(api_service: ApiService) -> None:
    for wrong in (
        "app.example",
        "https://app.example/",
        "https://a b",
        "null",
        "",
        "**",
        "https://",
    ):
        answer = await api_service.client.put(
            "/api/projects/1", json={"origins": [wrong]}, headers=api_service.owner
        )
        assert answer.status_code == 422, wrong
        assert set(answer.json()["errors"]) == {"origins"}
    assert origins_error(["https://a.example"] * 51) is not None
    assert origins_error(["http://localhost:3000", "https://[::1]:8443", "app://main"]) is None
    assert normalize_origins(["HTTPS://App.example", "https://app.example"]) == (
        "https://app.example",
    )


pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("path", "status", "policy"),
    [
        pytest.param(STREAMS, 200, DATA_POLICY, id="data"),
        pytest.param("/api/streams/99", 404, DATA_POLICY, id="a refusal"),
        pytest.param("/nowhere", 404, DATA_POLICY, id="no route"),
        pytest.param("/schema/openapi.json", 200, "default-src 'none'", id="a document"),
        pytest.param("/schema", 200, "style-src 'unsafe-inline'", id="the reference page"),
    ],
)
async def test_answers_of_the_api_run_nothing(
    api_service: ApiService, path: str, status: int, policy: str
) -> None:
    answer = await api_service.client.get(path, headers=api_service.owner)
    assert answer.status_code == status
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert policy in answer.headers["content-security-policy"]
    assert "script-src" not in answer.headers["content-security-policy"]


async def test_media_run_nothing_by_either_way_to_them(tmp_path: Path) -> None:
    site = OriginSite(tmp_path)
    await site.publish()
    for path in (VARIANTS, SEGMENT, "/live/nowhere/index.m3u8"):
        answer = await site.get(path)
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-security-policy"] == MEDIA_POLICY
    quick = site.origin.fast_path("GET", SEGMENT, ())
    assert isinstance(quick, HttpResponse)
    assert (b"content-security-policy", MEDIA_POLICY.encode()) in quick.headers
    quick.close()
