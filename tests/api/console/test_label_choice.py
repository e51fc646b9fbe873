"""The tags that forms offer."""

from api.console.tag_choice import tag_choice
from storage.catalog.records.common import Named
from tests.support.api.application import ApiService
from tests.support.api.console_client import Browser


async def test_the_records_own_tags_come_first_and_each_once(api_service: ApiService) -> None:
    browser = Browser(api_service)
    await browser.sign_in()
    for name, active in (("news", True), ("Berlin, live", True), ("old", False)):
        body = {"name": name, "active": active}
        added = await browser.act("POST", "/api/projects/1/tags", body)
        assert added.status_code == 201, added.text
    own = [Named(id=2, name="Berlin, live"), Named(id=3, name="old")]
    assert await tag_choice(api_service.catalog, 1, own) == ["Berlin, live", "old", "news"]
    assert await tag_choice(api_service.catalog, 2, []) == []


async def test_a_tag_with_a_comma_is_one_choice_on_the_pages(api_service: ApiService) -> None:
    """In a common text field it would be sent as two tags."""
    browser = Browser(api_service)
    await browser.sign_in()
    stream = await api_service.add()
    tags = {"tags": [{"name": "Berlin, live"}]}
    answer = await browser.act("PUT", f"/api/streams/{stream['id']}", tags)
    assert answer.status_code == 200, answer.text
    details = await browser.fragment(f"/console/1/streams/{stream['id']}", "details")
    assert 'data-type="named" value="Berlin, live" checked>' in details.text
