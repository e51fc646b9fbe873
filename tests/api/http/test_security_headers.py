"""Every response forbids browsers to guess its type, and limits what it may load."""

from pathlib import Path

import pytest

from api.http.response import HttpResponse
from api.http.security_headers import DATA_POLICY, MEDIA_POLICY
from tests.support.api.application import STREAMS, ApiService
from tests.support.api.origin_client import SEGMENT, VARIANTS, OriginSite

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
