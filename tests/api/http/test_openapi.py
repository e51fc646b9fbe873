"""The description as a page."""

import re

import pytest

from tests.support.api.application import ApiService

pytestmark = pytest.mark.anyio


async def test_the_page_describes_every_operation_and_calls_nobody(house: ApiService) -> None:
    answer = await house.client.get("/schema")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    page = answer.text
    assert "POST /api/projects/{project_id}/streams" in page
    assert "GET /api/projects/{project_id}/streams" in page
    assert "sort_column" in page
    assert "<script" not in page
    assert re.findall(r"""(?:src|href)=["']?(?:https?:)?//""", page) == []


async def test_every_link_of_the_page_leads_somewhere(house: ApiService) -> None:
    page = (await house.client.get("/schema")).text
    links = set(re.findall(r'href="([^"]+)"', page))
    names = set(re.findall(r'id="([^"]+)"', page))
    assert {link[1:] for link in links if link.startswith("#")} <= names
    assert len(names) > 5
    for link in links:
        if not link.startswith("#"):
            assert (await house.client.get(link)).status_code == 200
