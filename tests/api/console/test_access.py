"""Which requests may see pages, and where the others are redirected."""

import logging

import pytest

from api.console.access import is_console, next_page, sign_in_path
from tests.support.api.application import ApiService
from tests.support.api.console_client import Browser


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/console", True),
        ("/console/", True),
        ("/console/1/streams", True),
        ("/consolation", False),
        ("/api/console", False),
        ("/", False),
    ],
)
def test_which_paths_are_pages(path: str, expected: bool) -> None:
    assert is_console(path) is expected


@pytest.mark.parametrize("text", [None, "", "/", "/api", "console", "javascript:alert(1)"])
def test_without_a_requested_page_signing_in_leads_to_the_first_one(text: str | None) -> None:
    assert next_page(text) == "/console"


def test_the_way_back_is_part_of_the_way_to_sign_in() -> None:
    assert sign_in_path("/console", "") == "/console/sign-in"
    assert sign_in_path("/console/1/streams", "page=2&search=a b") == "/console/sign-in"
    assert sign_in_path("/console/1/streams", "page=2&search=a%20b") == (
        "/console/sign-in?next=%2Fconsole%2F1%2Fstreams%3Fpage%3D2%26search%3Da%2520b"
    )


async def test_a_stranger_is_led_to_sign_in_and_back(api_service: ApiService) -> None:
    browser = Browser(api_service)
    answer = await browser.get("/console?page=2")
    assert answer.status_code == 303
    place = answer.headers["location"]
    assert place == "/console/sign-in?next=%2Fconsole%3Fpage%3D2"
    page = await browser.get(place)
    assert 'name="next" value="/console?page=2"' in page.text
    assert "data-resume" in page.text


async def test_no_token_opens_a_page(api_service: ApiService) -> None:
    """A page allows everything that its user may do, so it requires the browser's own cookie."""
    answer = await api_service.client.get(
        "/console", headers=api_service.owner, follow_redirects=False
    )
    assert answer.status_code == 303


async def test_a_script_without_a_session_is_not_led_into_its_fragment(
    api_service: ApiService,
) -> None:
    answer = await Browser(api_service).fragment("/console", "live")
    assert answer.status_code == 401
    assert answer.headers["hx-refresh"] == "true"
    assert answer.text == ""


async def test_a_made_up_session_is_counted_and_logged_as_a_wrong_token(
    api_service: ApiService, caplog: pytest.LogCaptureFixture
) -> None:
    browser = Browser(api_service)
    with caplog.at_level(logging.INFO, "security"):
        await browser.get("/console")
        assert not caplog.records
        browser.secret = "A" * 43
        assert (await browser.get("/console")).status_code == 303
    assert [record.message for record in caplog.records] == ["token refused"]
