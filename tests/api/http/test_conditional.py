"""Ranges, conditions and compression, and edits of what was not edited meanwhile."""

import pytest
from httpx import Response
from hypothesis import given
from hypothesis import strategies as st

from api.http.conditional import (
    Unsatisfiable,
    accepts_gzip,
    byte_range,
    edit_tag,
    has_entity_tag,
    unless_edited,
)
from api.http.errors import ApiError
from storage.catalog.records.common import Change
from tests.support.api.application import ApiService
from tests.support.api.console_client import Browser
from tests.support.storage.new_videos import new_video


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, None),
        ("bytes=0-", (0, 100)),
        ("bytes=0-0", (0, 1)),
        ("bytes=10-19", (10, 20)),
        ("bytes=90-1000", (90, 100)),
        ("bytes=99-99", (99, 100)),
        ("bytes=-10", (90, 100)),
        ("bytes=-1000", (0, 100)),
        ("BYTES=1-2", (1, 3)),
        (" bytes=1-2 ", (1, 3)),
        ("bytes=20-10", None),
        ("bytes=-", None),
        ("bytes=a-b", None),
        ("bytes=0-1,5-6", None),
        ("items=0-1", None),
        ("bytes=1٢-", None),
        ("", None),
    ],
)
def test_a_range_is_clipped_to_the_object_and_an_invalid_one_is_ignored(
    header: str | None, expected: tuple[int, int] | None
) -> None:
    assert byte_range(header, 100) == expected


@pytest.mark.parametrize(
    ("header", "size"), [("bytes=100-", 100), ("bytes=-0", 100), ("bytes=0-", 0), ("bytes=-5", 0)]
)
def test_a_range_behind_the_end_cannot_be_satisfied(header: str, size: int) -> None:
    with pytest.raises(Unsatisfiable):
        byte_range(header, size)


@given(st.text(max_size=40) | st.from_regex(r"bytes=\d{0,20}-\d{0,20}"), st.integers(0, 10**9))
def test_any_range_lies_within_the_object(header: str, size: int) -> None:
    try:
        span = byte_range(header, size)
    except Unsatisfiable:
        return
    assert span is None or 0 <= span[0] < span[1] <= size


@pytest.mark.parametrize(
    ("header", "matches"),
    [
        (None, False),
        ("*", True),
        ('"a"', True),
        ('W/"a"', True),
        ('"b", "a"', True),
        ('"b",W/"a" ', True),
        ('"b"', False),
        ("a", False),
        ('"a', False),
        ("", False),
    ],
)
def test_if_none_match_is_a_list_of_tags_compared_weakly(header: str | None, matches: bool) -> None:
    assert has_entity_tag(header, '"a"') is matches


@pytest.mark.parametrize(
    ("header", "accepted"),
    [
        (None, False),
        ("", False),
        ("gzip", True),
        ("GZIP", True),
        ("deflate, gzip, br", True),
        ("gzip;q=0", False),
        ("gzip; q=0.000", False),
        ("gzip ; q=0.5", True),
        ("*", True),
        ("*;q=0", False),
        ("gzip;q=0, *", False),
        ("identity", False),
        ("br", False),
        ("gzip;q=high", False),
    ],
)
def test_gzip_is_used_if_the_client_accepts_it(header: str | None, accepted: bool) -> None:
    assert accepts_gzip(header) is accepted


def test_a_tag_names_one_version_of_what_can_be_edited() -> None:
    assert edit_tag("a", None, [1, 2]) == edit_tag("a", None, (1, 2))
    tags = {edit_tag(*values) for values in (("a",), ("b",), ("a", None), ("a", [1]), (1,))}
    assert len(tags) == 5
    assert all(tag.isalnum() and len(tag) == 16 for tag in tags)


@pytest.mark.parametrize(
    ("header", "passes"),
    [
        ('"now"', True),
        ('"before", "now"', True),
        ("*", True),
        ('"before"', False),
        ("now", False),
        ("", False),
    ],
)
def test_an_edit_passes_if_its_version_is_the_present_one(header: str, passes: bool) -> None:
    check = unless_edited(header, str)
    assert check is not None
    if passes:
        check("now")
        return
    with pytest.raises(ApiError) as raised:
        check("now")
    assert raised.value.status_code == 412


def test_without_the_header_every_edit_passes() -> None:
    assert unless_edited(None, str) is None


async def test_the_later_of_two_edits_of_one_stream_is_refused(
    api_service: ApiService,
) -> None:
    path = f"/api/streams/{(await api_service.add('First'))['id']}"
    first, second = Browser(api_service), Browser(api_service)
    await first.sign_in()
    await second.sign_in()
    version = (await first.act("GET", path)).headers["etag"]
    assert (await second.act("GET", path)).headers["etag"] == version
    answer = await edit(first, path, {"title": "Mine"}, version)
    assert answer.status_code == 200
    newer = answer.headers["etag"]
    assert newer != version
    late = await edit(second, path, {"description": "Theirs"}, version)
    assert late.status_code == 412
    assert "edited meanwhile" in late.json()["message"]
    record = (await second.act("GET", path)).json()["data"]
    assert (record["title"], record["description"]) == ("Mine", "")
    assert (await edit(second, path, {"description": "Theirs"}, newer)).status_code == 200


async def test_a_stream_that_goes_live_or_is_hidden_is_not_an_edited_one(
    api_service: ApiService,
) -> None:
    path = f"/api/streams/{(await api_service.add())['id']}"
    before = await api_service.client.get(path, headers=api_service.owner)
    await api_service.client.post(f"{path}/unpublish", headers=api_service.owner)
    await api_service.client.post(f"{path}/backups", headers=api_service.owner)
    after = await api_service.client.get(path, headers=api_service.owner)
    assert after.headers["etag"] == before.headers["etag"]


async def test_the_later_of_two_edits_of_one_video_is_refused(
    api_service: ApiService,
) -> None:
    added = await api_service.catalog.videos.add(1, new_video(title="First"), Change(1))
    path = f"/api/videos/{added.video.id}"
    browser = Browser(api_service)
    await browser.sign_in()
    version = (await browser.act("GET", path)).headers["etag"]
    assert (await edit(browser, path, {"tags": [{"name": "new"}]}, version)).status_code == 200
    assert (await edit(browser, path, {"title": "Late"}, version)).status_code == 412
    shown = await browser.act("GET", path)
    assert shown.json()["data"]["title"] == "First"
    assert (await edit(browser, path, {"title": "Now"}, shown.headers["etag"])).status_code == 200
    assert (await browser.act("PUT", path, {"title": "Unasked"})).status_code == 200


async def edit(browser: Browser, path: str, body: dict[str, object], version: str) -> Response:
    headers = {"Sec-Fetch-Site": "same-origin", "X-Headend-Console": "1", "If-Match": version}
    return await browser.act("PUT", path, body, headers)
