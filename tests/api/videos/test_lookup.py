"""The video of a path, and which tokens may see it."""

from pathlib import Path

import pytest

from tests.api.videos.test_item import shown
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
        one = f"/api/videos/{number}"
        for method, path, body in (
            ("GET", one, None),
            ("PUT", one, {}),
            ("DELETE", one, None),
            ("GET", f"{one}/status", None),
            ("POST", f"{one}/publish", None),
            ("POST", f"{one}/unpublish", None),
            ("POST", f"{one}/retry", None),
            ("POST", f"{one}/keep", None),
            ("PUT", f"{one}/player", {"player": None}),
        ):
            answer = await api_service.client.request(
                method, path, json=body, headers=api_service.owner
            )
            assert answer.status_code == 404, (method, path, answer.text)
            assert set(answer.json()) == {"message"}


async def test_another_projects_videos_are_as_if_not_there(api_service: ApiService) -> None:
    made = (await upload(api_service))["video"]
    other = await api_service.catalog.projects.add("other", NOW_US)
    stranger = await api_service.headers_of("stranger", other.id, write=True)
    reader = await api_service.headers_of("reader", 1, write=False)
    one = f"/api/videos/{made['id']}"
    for method, path in (
        ("GET", one), ("PUT", one), ("DELETE", one), ("GET", f"{one}/status"),
        ("POST", f"{one}/publish"), ("POST", f"{one}/unpublish"), ("POST", f"{one}/retry"),
        ("POST", f"{one}/keep"), ("PUT", f"{one}/player"), ("PUT", f"{one}/poster"),
        ("GET", VIDEOS), ("POST", VIDEOS), ("POST", f"{VIDEOS}/retry"),
    ):  # fmt: skip
        answer = await api_service.client.request(method, path, headers=stranger)
        assert answer.status_code == 404, (method, path)
        unknown = await api_service.client.request(method, path)
        assert unknown.status_code == 401, (method, path)
        read = await api_service.client.request(method, path, headers=reader)
        assert read.status_code == (200 if method == "GET" else 403), (method, path)
    assert (await shown(api_service, made["id"]))["title"] == "clip"
