"""Which requests may see pages, and where the others are redirected."""

import logging

import pytest

from api.console.access import is_console, next_page, sign_in_path
from api.http.caller_limits import RateLimits
from tests.support.api.application import STREAMS, ApiService
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


@pytest.mark.parametrize("rates", [RateLimits(requests=0, attempts=3)])
async def test_a_session_that_has_ended_leads_to_sign_in_and_never_to_429(
    limited_service: ApiService, caplog: pytest.LogCaptureFixture
) -> None:
    """Its tabs ask on. Others behind the same address must not suffer, nor an alarm be given."""
    browser = Browser(limited_service)
    await browser.sign_in()
    stale = browser.secret
    await browser.send("/console/sign-out", {})
    browser.secret = stale
    caplog.clear()
    with caplog.at_level(logging.INFO, "security"):
        for _ in range(10):
            assert (await browser.get("/console")).status_code == 303
            assert (await browser.fragment("/console", "live")).headers["hx-refresh"] == "true"
            assert (await browser.act("GET", STREAMS)).status_code == 401
            assert (await browser.act("POST", STREAMS, {"title": "x"})).status_code == 401
    assert not caplog.records
    neighbour = Browser(limited_service)
    assert (await neighbour.sign_in("headend_" + "A" * 43)).status_code == 403
    # A wrong token is counted, with such a cookie or without one.
    wrong = {"Authorization": "Bearer wrong"}
    statuses = [(await browser.act("GET", STREAMS, headers=wrong)).status_code for _ in range(3)]
    assert statuses == [401, 401, 429]
    assert (await browser.get("/console")).status_code == 303
