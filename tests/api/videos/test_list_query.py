"""The orders of the list of videos."""

from pathlib import Path

import pytest

from storage.catalog.records.common import Change
from tests.api.videos.test_item import list_videos
from tests.support.api.application import NOW_US, ApiService
from tests.support.storage.new_videos import new_video


@pytest.fixture
def catalog_database(either_database: str | Path) -> str | Path:
    return either_database


async def titles(api_service: ApiService, query: str) -> list[str]:
    return [video["title"] for video in (await list_videos(api_service, query))["data"]]


@pytest.fixture
async def filled_service(api_service: ApiService) -> ApiService:
    for title, size, length_us in (("beta", 3, 1), ("Alpha", 1, 3), ("gamma", 2, 2)):
        video = new_video(title=title, size=size, length_us=length_us)
        await api_service.catalog.videos.add(1, video, Change(NOW_US))
    return api_service


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", ["gamma", "Alpha", "beta"]),
        ("?sort_column=id", ["beta", "Alpha", "gamma"]),
        ("?sort_column=title", ["Alpha", "beta", "gamma"]),
        ("?sort_column=title&sort_order=desc", ["gamma", "beta", "Alpha"]),
        ("?sort_column=size", ["Alpha", "gamma", "beta"]),
        ("?sort_column=length&sort_order=desc", ["Alpha", "gamma", "beta"]),
        ("?sort_order=asc", ["beta", "Alpha", "gamma"]),
        ("?sort_column=title&search=a&type=inprogress", ["Alpha", "beta", "gamma"]),
    ],
)
async def test_a_list_has_the_requested_order(
    filled_service: ApiService, query: str, expected: list[str]
) -> None:
    assert await titles(filled_service, query) == expected


async def test_pages_repeat_the_order(filled_service: ApiService) -> None:
    links = (await list_videos(filled_service, "?sort_column=title&sort_order=desc"))["links"]
    assert links["first"].endswith("?sort_column=title&sort_order=desc&page=1")


async def test_another_column_is_refused(api_service: ApiService) -> None:
    body = await list_videos(api_service, "?sort_column=state&sort_order=up", status=422)
    assert set(body["errors"]) == {"sort_column", "sort_order"}
