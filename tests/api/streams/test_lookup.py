"""The stream of a path, and which tokens may see it."""

import pytest

from storage.catalog.records.common import Change
from tests.api.streams.test_item import call, get_stream
from tests.support.api.application import ApiService

NEVER = [0, -1, "x", "1.0", "01", 99, 2**31, 2**63, 2**64, "9" * 400]


OPERATIONS = [
    ("GET", ""),
    ("PUT", ""),
    ("DELETE", ""),
    ("POST", "/publish"),
    ("POST", "/unpublish"),
    ("POST", "/end"),
    ("POST", "/allow"),
    ("POST", "/pause"),
    ("POST", "/resume"),
    ("POST", "/failover-drill"),
    ("POST", "/rotate-key"),
    ("GET", "/settings"),
    ("PUT", "/settings"),
    ("PUT", "/slate"),
    ("DELETE", "/slate"),
    ("POST", "/backups"),
    ("DELETE", "/backups/1"),
]


every = pytest.mark.parametrize(("method", "path"), OPERATIONS)


@every
async def test_a_stream_that_is_not_there_is_404(
    api_service: ApiService, method: str, path: str
) -> None:
    for stream in NEVER:
        answer = await call(api_service, method, stream, path)
        assert answer.status_code == 404, (stream, answer.text)
        assert set(answer.json()) == {"message"}


@every
async def test_another_projects_token_finds_nothing(
    api_service: ApiService, method: str, path: str
) -> None:
    stream = await api_service.add("Mine")
    other = await api_service.catalog.projects.add("Other", Change(1))
    theirs = await api_service.headers_of("theirs", other.id, write=True)
    answer = await call(api_service, method, stream["id"], path, headers=theirs)
    assert answer.status_code == 404
    assert await get_stream(api_service, stream) == stream


@every
async def test_a_token_that_may_only_read_changes_nothing(
    api_service: ApiService, method: str, path: str
) -> None:
    stream = await api_service.add("Mine")
    reader = await api_service.headers_of("reader", 1, write=False)
    answer = await call(api_service, method, stream["id"], path, headers=reader)
    assert answer.status_code == (200 if method == "GET" else 403)
    assert (await call(api_service, method, stream["id"], path, headers={})).status_code == 401
    assert await get_stream(api_service, stream) == stream
