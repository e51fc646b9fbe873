"""The list of videos: its form, its filters and its pages."""

from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from storage.catalog.records.common import Change
from tests.api.videos.test_item import FULL, list_videos
from tests.support.api.application import NOW_US, ApiService
from tests.support.api.upload_clips import VIDEOS, upload
from tests.support.storage.new_videos import new_video


@pytest.fixture
def catalog_database(either_database: str | Path) -> str | Path:
    return either_database


ITEM = FULL - {"category", "countries", "player", "resolutions", "tags"}


async def test_a_list_item_omits_what_is_documented(api_service: ApiService) -> None:
    video = (await upload(api_service))["video"]
    body = await list_videos(api_service)
    assert set(body) == {"data", "links", "meta"}
    (item,) = body["data"]
    assert set(item) == ITEM
    assert {key: item[key] for key in ITEM - {"embed"}} == {
        key: video[key] for key in ITEM - {"embed"}
    }
    assert body["meta"]["per_page"] == 30
    assert body["meta"]["total"] == 1
    assert [link["label"] for link in body["meta"]["links"]] == ["« Previous", "1", "Next »"]


async def test_lists_are_filtered_and_repeat_their_filters(api_service: ApiService) -> None:
    for title in ("Ștefan 100%", "stefan", "other"):
        await upload(api_service, texts={"title": title})
    assert [video["title"] for video in (await list_videos(api_service))["data"]] == [
        "other", "stefan", "Ștefan 100%",
    ]  # fmt: skip
    page = await list_videos(
        api_service, "?search=%C8%99TEFAN&type=inprogress&from=2023-11-14&to=2023-11-14"
    )
    assert [video["title"] for video in page["data"]] == ["stefan", "Ștefan 100%"]
    assert parse_qs(urlsplit(str(page["links"]["first"])).query) == {
        "type": ["inprogress"],
        "search": ["șTEFAN"],
        "from": ["2023-11-14"],
        "to": ["2023-11-14"],
        "page": ["1"],
    }
    assert (await list_videos(api_service, "?search=%25"))["meta"]["total"] == 1
    assert (await list_videos(api_service, "?search=_"))["meta"]["total"] == 0
    assert (await list_videos(api_service, "?type=recent"))["meta"]["total"] == 3
    assert (await list_videos(api_service, "?type=inprogress"))["meta"]["total"] == 3
    assert (await list_videos(api_service, "?type=completed"))["meta"]["total"] == 0
    assert (await list_videos(api_service, "?type=failed"))["meta"]["total"] == 0
    assert (await list_videos(api_service, "?from=2023-11-15&to=2023-11-16"))["meta"]["total"] == 0
    assert (await list_videos(api_service, "?from=2023-11-13&to=2023-11-14"))["meta"]["total"] == 3
    assert (await list_videos(api_service, "?from=2023-11-13&to=2023-11-13"))["meta"]["total"] == 0


async def test_pages_hold_thirty_and_go_on_beyond_the_end(api_service: ApiService) -> None:
    for number in range(32):
        file = new_video(file_title=f"file {number}")
        await api_service.catalog.videos.add(1, file, Change(NOW_US))
    first = await list_videos(api_service)
    assert len(first["data"]) == 30
    assert (first["meta"]["from"], first["meta"]["to"], first["meta"]["total"]) == (1, 30, 32)
    assert first["links"]["next"] == f"https://live.example{VIDEOS}?page=2"
    second = await list_videos(api_service, "?page=2")
    assert len(second["data"]) == 2
    assert not {video["id"] for video in first["data"]} & {video["id"] for video in second["data"]}
    beyond = await list_videos(api_service, "?page=999999999999")
    assert beyond["data"] == []
    assert (beyond["meta"]["from"], beyond["meta"]["to"]) == (None, None)
    assert beyond["links"]["prev"] == f"https://live.example{VIDEOS}?page=2"


WRONG = (
    ("?type=new", {"type"}),  # unknown type
    ("?from=2023-01-01", {"to"}),  # from alone
    ("?to=2023-01-01", {"from"}),  # to alone
    ("?from=2023-02-30&to=x", {"from", "to"}),  # no days
    ("?from=20230101&to=2023-01-02", {"from"}),  # another form of a day
    ("?from=2023-01-01T00:00&to=2023-01-02", {"from"}),  # a moment
    ("?page=0", {"page"}),  # page nought
    ("?search=" + "x" * 256, {"search"}),  # a long search
    ("?search=a%00", {"search"}),  # a control character
)


async def test_a_wrong_filter_is_named(api_service: ApiService) -> None:
    for query, fields in WRONG:
        assert set((await list_videos(api_service, query, 422))["errors"]) == fields, query
