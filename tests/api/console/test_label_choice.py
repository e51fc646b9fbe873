"""The tags and categories that forms offer."""

import re

from api.console.label_choice import category_choice, tag_choice
from storage.catalog.records.common import Change, Named
from tests.support.api.application import NOW_US, ApiService
from tests.support.api.console_client import Browser
from tests.support.storage.new_videos import new_video


async def test_the_records_own_tags_come_first_and_each_once(
    api_service: ApiService, browser: Browser
) -> None:
    for name, active in (("news", True), ("Berlin, live", True), ("old", False)):
        body = {"name": name, "active": active}
        added = await browser.act("POST", "/api/projects/1/tags", body)
        assert added.status_code == 201, added.text
    own = [Named(id=2, name="Berlin, live"), Named(id=3, name="old")]
    assert await tag_choice(api_service.catalog, 1, own) == ["Berlin, live", "old", "news"]
    assert await tag_choice(api_service.catalog, 2, []) == []


async def test_a_tag_with_a_comma_is_one_choice_on_the_pages(
    api_service: ApiService, browser: Browser
) -> None:
    """In a common text field it would be sent as two tags."""
    stream = await api_service.add()
    tags = {"tags": [{"name": "Berlin, live"}]}
    answer = await browser.act("PUT", f"/api/streams/{stream['id']}", tags)
    assert answer.status_code == 200, answer.text
    details = await browser.fragment(f"/console/1/streams/{stream['id']}", "details")
    assert 'data-type="named" value="Berlin, live" checked>' in details.text


async def test_an_inactive_category_is_offered_to_its_own_records_only(
    api_service: ApiService, browser: Browser
) -> None:
    ids: dict[str, int] = {}
    for name, active in (("Sports", True), ("Old", False), ("News", True)):
        body = {"name": name, "active": active}
        added = await browser.act("POST", "/api/projects/1/categories", body)
        ids[name] = added.json()["category"]["id"]
    catalog = api_service.catalog
    offered = [Named(id=ids[name], name=name) for name in ("News", "Sports", "Old")]
    assert await category_choice(catalog, 1, None) == offered[:2]
    assert await category_choice(catalog, 1, offered[0]) == offered[:2]
    assert await category_choice(catalog, 1, offered[2]) == offered
    video = (await catalog.videos.add(1, new_video(), Change(NOW_US))).video
    stream = await api_service.add()
    for path in (f"videos/{video.id}", f"streams/{stream['id']}"):
        option = f'<option value="{ids["Old"]}"'
        assert option not in (await browser.fragment(f"/console/1/{path}", "details")).text
        answer = await browser.act("PUT", f"/api/{path}", {"category": ids["Old"]})
        assert answer.status_code == 200, answer.text
        details = (await browser.fragment(f"/console/1/{path}", "details")).text
        assert re.search(f"{option} *selected>Old</option>", details)
