"""The video of a path, and which tokens may see it."""

from pathlib import Path

import pytest

from storage.catalog.records.common import Change
from tests.api.videos.test_item import get_video
from tests.support.api.application import NOW_US, ApiService
from tests.support.api.upload_clips import VIDEOS, upload
from tests.support.shared_engines import mostly_on

# Both databases get the same statements here; their differences have separate tests.
pytestmark = mostly_on("sqlite")


@pytest.fixture
def catalog_database(either_database: str | Path) -> str | Path:
    return either_database


OUT_OF_RANGE = ("0", "-1", "99", "2147483648", "9223372036854775808", "9" * 40, "x", "1.5", "01")


async def test_numbers_of_no_video_are_not_found_by_any_operation(api_service: ApiService) -> None:
    for number in OUT_OF_RANGE:
        base = f"/api/videos/{number}"
        for method, path, body in (
            ("GET", base, None),
            ("PUT", base, {}),
            ("DELETE", base, None),
            ("GET", f"{base}/status", None),
            ("POST", f"{base}/publish", None),
            ("POST", f"{base}/unpublish", None),
            ("POST", f"{base}/retry", None),
            ("POST", f"{base}/keep", None),
            ("PUT", f"{base}/player", {"player": None}),
        ):
            answer = await api_service.client.request(
                method, path, json=body, headers=api_service.owner
            )
            assert answer.status_code == 404, (method, path, answer.text)
            assert set(answer.json()) == {"message"}


async def test_videos_of_another_project_are_not_found(api_service: ApiService) -> None:
    video = (await upload(api_service))["video"]
    other = await api_service.catalog.projects.add("other", Change(NOW_US))
    stranger = await api_service.headers_of("stranger", other.id, write=True)
    reader = await api_service.headers_of("reader", 1, write=False)
    base = f"/api/videos/{video['id']}"
    for method, path in (
        ("GET", base), ("PUT", base), ("DELETE", base), ("GET", f"{base}/status"),
        ("POST", f"{base}/publish"), ("POST", f"{base}/unpublish"), ("POST", f"{base}/retry"),
        ("POST", f"{base}/keep"), ("PUT", f"{base}/player"), ("PUT", f"{base}/poster"),
        ("GET", VIDEOS), ("POST", VIDEOS), ("POST", f"{VIDEOS}/retry"),
    ):  # fmt: skip
        answer = await api_service.client.request(method, path, headers=stranger)
        assert answer.status_code == 404, (method, path)
        anonymous = await api_service.client.request(method, path)
        assert anonymous.status_code == 401, (method, path)
        readers = await api_service.client.request(method, path, headers=reader)
        assert readers.status_code == (200 if method == "GET" else 403), (method, path)
    assert (await get_video(api_service, video["id"]))["title"] == "clip"
