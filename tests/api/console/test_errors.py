"""Errors of pages are pages; those of the API stay as they are."""

import pytest

from storage.errors import CatalogBusy
from tests.support.api.application import ApiService
from tests.support.api.console_client import Browser


@pytest.mark.parametrize("path", ["/console/nothing/at/all", "/console/1/nothing"])
async def test_a_missing_page_is_answered_with_a_page(browser: Browser, path: str) -> None:
    answer = await browser.get(path)
    assert answer.status_code == 404
    assert answer.headers["content-type"].startswith("text/html")
    assert "There is nothing here" in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]


async def test_a_wrong_query_is_explained(browser: Browser) -> None:
    answer = await browser.get("/console?page=0")
    assert answer.status_code == 422
    assert "That did not work" in answer.text


async def test_a_fault_shows_a_number_and_nothing_else(
    browser: Browser, api_service: ApiService, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(**_facts: object) -> None:
        raise RuntimeError("<secret>")

    monkeypatch.setattr(api_service.catalog.overviews, "find", broken)
    answer = await browser.get("/console")
    assert answer.status_code == 500
    assert "Something went wrong here" in answer.text
    assert "secret" not in answer.text


async def test_a_busy_catalog_is_503_with_retry_after(
    browser: Browser, api_service: ApiService, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def busy(**_facts: object) -> None:
        raise CatalogBusy("busy")

    monkeypatch.setattr(api_service.catalog.overviews, "find", busy)
    answer = await browser.get("/console")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
    assert "try again in a moment" in answer.text


async def test_another_method_is_no_page(browser: Browser) -> None:
    answer = await browser.send("/console", {})
    assert answer.status_code == 405
    assert answer.headers["content-type"].startswith("text/html")


async def test_errors_of_the_api_stay_json(api_service: ApiService) -> None:
    for path in ("/api/nothing", "/consolation", "/nothing"):
        answer = await api_service.client.get(path, headers=api_service.owner)
        assert answer.status_code == 404
        assert answer.headers["content-type"] == "application/json"
