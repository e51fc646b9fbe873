"""Edits that count only if nobody else has edited meanwhile."""

import pytest
from httpx import Response

from api.http.errors import ApiError
from api.http.preconditions import edit_tag, unless_edited
from tests.support.api.application import ApiService
from tests.support.api.console_client import Browser
from tests.support.storage.new_videos import new_video


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


async def test_of_two_owners_who_edit_one_stream_the_later_one_is_told(
    api_service: ApiService,
) -> None:
    path = f"/api/streams/{(await api_service.add('First'))['id']}"
    one, two = Browser(api_service), Browser(api_service)
    await one.sign_in()
    await two.sign_in()
    seen = (await one.act("GET", path)).headers["etag"]
    assert (await two.act("GET", path)).headers["etag"] == seen
    answer = await edit(one, path, {"title": "Mine"}, seen)
    assert answer.status_code == 200
    newer = answer.headers["etag"]
    assert newer != seen
    late = await edit(two, path, {"description": "Theirs"}, seen)
    assert late.status_code == 412
    assert "edited meanwhile" in late.json()["message"]
    shown = (await two.act("GET", path)).json()["data"]
    assert (shown["title"], shown["description"]) == ("Mine", "")
    assert (await edit(two, path, {"description": "Theirs"}, newer)).status_code == 200


async def test_a_stream_that_goes_live_or_is_hidden_is_not_an_edited_one(
    api_service: ApiService,
) -> None:
    path = f"/api/streams/{(await api_service.add())['id']}"
    before = await api_service.client.get(path, headers=api_service.owner)
    await api_service.client.post(f"{path}/unpublish", headers=api_service.owner)
    await api_service.client.post(f"{path}/backups", headers=api_service.owner)
    after = await api_service.client.get(path, headers=api_service.owner)
    assert after.headers["etag"] == before.headers["etag"]


async def test_of_two_owners_who_edit_one_video_the_later_one_is_told(
    api_service: ApiService,
) -> None:
    added = await api_service.catalog.videos.add(1, new_video(title="First"), 1, by=None)
    path = f"/api/videos/{added.video.id}"
    browser = Browser(api_service)
    await browser.sign_in()
    seen = (await browser.act("GET", path)).headers["etag"]
    assert (await edit(browser, path, {"tags": [{"name": "new"}]}, seen)).status_code == 200
    assert (await edit(browser, path, {"title": "Late"}, seen)).status_code == 412
    shown = await browser.act("GET", path)
    assert shown.json()["data"]["title"] == "First"
    assert (await edit(browser, path, {"title": "Now"}, shown.headers["etag"])).status_code == 200
    assert (await browser.act("PUT", path, {"title": "Unasked"})).status_code == 200


async def edit(browser: Browser, path: str, body: dict[str, object], version: str) -> Response:
    headers = {"Sec-Fetch-Site": "same-origin", "X-Headend-Console": "1", "If-Match": version}
    return await browser.act("PUT", path, body, headers)
