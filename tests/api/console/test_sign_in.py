"""Signing in and out: by a token, by a link, and attacks by strangers and other pages."""

import logging

import pytest

from api.http.caller_limits import RateLimits
from storage.catalog.records.common import Change
from tests.support.api.application import NOW_US, STREAMS, ApiService
from tests.support.api.console_client import COOKIE, SAME_ORIGIN, Browser

MINUTE_US = 60_000_000


@pytest.fixture
def browser(api_service: ApiService) -> Browser:
    return Browser(api_service)


async def test_a_token_signs_in_and_its_session_opens_pages_and_the_api(browser: Browser) -> None:
    answer = await browser.sign_in()
    assert (answer.status_code, answer.headers["location"]) == (303, "/console")
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith(f"{COOKIE}=")
    parts = set(cookie.split("; ")[1:])
    assert {"Path=/", "HttpOnly", "SameSite=Strict", "Secure", "Max-Age=7776000"} == parts
    assert (await browser.get("/console")).status_code == 200
    assert (await browser.act("GET", STREAMS)).status_code == 200
    added = await browser.act("POST", STREAMS, {"title": "From the console"})
    assert added.status_code == 201, added.text


async def test_a_wrong_token_is_refused_counted_and_logged(
    api_service: ApiService, browser: Browser, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "security"):
        answer = await browser.sign_in("headend_" + "A" * 43)
    assert answer.status_code == 403
    assert "not known, or has been revoked" in answer.text
    assert "aria-invalid=true" in answer.text
    assert "set-cookie" not in answer.headers
    assert [record.message for record in caplog.records if record.name == "security"] == [
        "token refused"
    ]


async def test_signing_in_is_logged_with_the_number_of_the_token(
    browser: Browser, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "security"):
        await browser.sign_in()
    (record,) = [record for record in caplog.records if record.name == "security"]
    assert record.message == "signed in"
    assert vars(record)["token"] == 1


async def test_a_valid_token_signs_in_a_few_times_a_minute_and_then_writes_nothing(
    limited_service: ApiService, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever has a token that may only read must not keep the database busy."""
    browser = Browser(limited_service)
    _, token = await limited_service.catalog.tokens.add("reader", 1, Change(NOW_US), write=False)
    answers = [await Browser(limited_service).sign_in(token) for _ in range(30)]
    assert {answer.status_code for answer in answers} == {303}
    with caplog.at_level(logging.INFO, "security"):
        refused = await browser.sign_in(token)
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "2")
    assert "too many requests" in refused.text
    assert browser.secret is None
    (record,) = [record for record in caplog.records if record.name == "security"]
    assert (record.message, vars(record)["token"]) == ("rate limited", 2)
    # Others are not affected, nor is a link, which is made by somebody with a shell.
    assert (await browser.sign_in()).status_code == 303
    link = await limited_service.catalog.sessions.add_link(2, NOW_US)
    assert (await browser.send("/console/sign-in", {"link": link})).status_code == 303


@pytest.mark.parametrize("rates", [RateLimits(requests=5, attempts=0)])
async def test_a_sign_in_counts_as_a_request_of_its_token(limited_service: ApiService) -> None:
    headers = await limited_service.headers_of("reader", 1, write=False)
    token = headers["Authorization"].removeprefix("Bearer ")
    for _ in range(5):
        assert (await Browser(limited_service).sign_in(token)).status_code == 303
    assert (await limited_service.client.get(STREAMS, headers=headers)).status_code == 429
    assert (await Browser(limited_service).sign_in(token)).status_code == 429


@pytest.mark.parametrize("token", ["", " ", "headend_", "x" * 513, "ключ", "\x00"])
async def test_no_token_is_refused_in_words(browser: Browser, token: str) -> None:
    answer = await browser.send("/console/sign-in", {"token": token})
    assert answer.status_code == 403
    assert browser.secret is None


async def test_a_link_signs_in_once_and_opening_it_does_not_use_it_up(
    api_service: ApiService, browser: Browser
) -> None:
    secret = await api_service.catalog.sessions.add_link(1, NOW_US)
    for _ in range(3):  # a browser keeps what follows the "#" of a link to itself
        page = await browser.get("/console/sign-in")
        assert page.status_code == 200
        assert "A link that signs in works with JavaScript alone" in page.text
    answer = await browser.send("/console/sign-in", {"link": secret})
    assert answer.status_code == 303
    assert (await browser.get("/console")).status_code == 200
    other = Browser(api_service)
    second_answer = await other.send("/console/sign-in", {"link": secret})
    assert second_answer.status_code == 403
    assert "has been used" in second_answer.text
    assert other.secret is None


async def test_a_link_expires_after_15_minutes(api_service: ApiService, browser: Browser) -> None:
    secret = await api_service.catalog.sessions.add_link(1, NOW_US - 15 * MINUTE_US)
    assert (await browser.send("/console/sign-in", {"link": secret})).status_code == 403
    newer = await api_service.catalog.sessions.add_link(1, NOW_US - 15 * MINUTE_US + 1)
    assert (await browser.send("/console/sign-in", {"link": newer})).status_code == 303


async def test_signing_out_ends_the_session_and_not_only_the_cookie(
    api_service: ApiService, browser: Browser
) -> None:
    await browser.sign_in()
    stolen = Browser(api_service)
    stolen.secret = browser.secret
    assert (await stolen.get("/console")).status_code == 200
    answer = await browser.send("/console/sign-out", {})
    assert (answer.status_code, answer.headers["location"]) == (303, "/console/sign-in")
    assert "Max-Age=0" in answer.headers["set-cookie"]
    assert browser.secret is None
    assert (await stolen.get("/console")).status_code == 303
    assert (await stolen.act("GET", STREAMS)).status_code == 401


async def test_signing_in_replaces_a_planted_session(
    api_service: ApiService, browser: Browser
) -> None:
    """Session fixation: a cookie that an attacker has set before is useless after signing in."""
    attacker = Browser(api_service)
    _, token = await api_service.catalog.tokens.add("attacker", None, Change(NOW_US), write=False)
    await attacker.sign_in(token)
    planted = browser.secret = attacker.secret
    await browser.sign_in()
    assert browser.secret not in (None, planted)
    assert (await attacker.get("/console")).status_code == 303, "the planted session has ended"
    made_up = Browser(api_service)
    made_up.secret = "A" * 43
    await made_up.sign_in()
    assert made_up.secret not in (None, "A" * 43)


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({}, id="nothing said"),
        pytest.param({"Sec-Fetch-Site": "cross-site"}, id="another site"),
        pytest.param({"Sec-Fetch-Site": "same-site"}, id="another host or port"),
        pytest.param({"Sec-Fetch-Site": "none"}, id="no page"),
        pytest.param({"Origin": "https://evil.example"}, id="another origin"),
        pytest.param({"Origin": "null"}, id="no origin"),
        pytest.param({"Origin": "http://[bad"}, id="no address"),
    ],
)
async def test_other_pages_cannot_sign_a_browser_in_or_out(
    browser: Browser, api_service: ApiService, headers: dict[str, str]
) -> None:
    await browser.sign_in()
    mine = browser.secret
    token = api_service.owner["Authorization"].removeprefix("Bearer ")
    for path in ("/console/sign-in", "/console/sign-out"):
        answer = await browser.send(path, {"token": token}, headers)
        assert answer.status_code == 403, answer.text
        assert "set-cookie" not in answer.headers
    assert browser.secret == mine
    assert (await browser.get("/console")).status_code == 200


async def test_without_fetch_metadata_the_origin_counts(browser: Browser) -> None:
    """Over plain HTTP, browsers send no fetch metadata."""
    host = {"Host": "192.0.2.7:8080"}
    answer = await browser.send(
        "/console/sign-out", {}, {**host, "Origin": "http://192.0.2.7:8080"}
    )
    assert answer.status_code == 303
    answer = await browser.send("/console/sign-out", {}, {**host, "Origin": "http://192.0.2.7"})
    assert answer.status_code == 403


@pytest.mark.parametrize(
    ("requested", "expected"),
    [
        ("/console/1/streams?page=2", "/console/1/streams?page=2"),
        ("https://evil.example", "/console"),
        ("//evil.example", "/console"),
        ("/console\\@evil.example", "/console"),
        ("/consolation", "/console"),
        ("/console/sign-in?next=x", "/console"),
        ("/console/\r\nSet-Cookie: a=b", "/console"),
        ("/console/" + "x" * 1000, "/console"),
    ],
)
async def test_signing_in_redirects_within_the_console_only(
    browser: Browser, requested: str, expected: str
) -> None:
    answer = await browser.sign_in(next=requested)
    assert (answer.status_code, answer.headers["location"]) == (303, expected)


async def test_a_signed_in_browser_is_redirected_to_its_page(browser: Browser) -> None:
    assert (await browser.get("/console/sign-in?next=/console/1/streams")).status_code == 200
    await browser.sign_in()
    answer = await browser.get("/console/sign-in?next=/console/1/streams")
    assert (answer.status_code, answer.headers["location"]) == (303, "/console/1/streams")
    # Its script comes back from there with a link, which may be of another token.
    answer = await browser.get("/console/sign-in?by=link")
    assert answer.status_code == 200
    assert "data-resume" not in answer.text


async def test_the_form_escapes_what_it_repeats(browser: Browser) -> None:
    answer = await browser.get('/console/sign-in?next=/console?"><script>alert(1)</script>')
    assert "<script>alert" not in answer.text
    assert "&#34;&gt;&lt;script&gt;" in answer.text


async def test_a_body_that_is_no_form_is_422(api_service: ApiService) -> None:
    for body in (b"\xff\xfe", b"&".join(b"a=b" for _ in range(11))):
        answer = await api_service.client.post(
            "/console/sign-in",
            content=body,
            headers={**SAME_ORIGIN, "Content-Type": "application/x-www-form-urlencoded"},
        )
        assert answer.status_code == 422
        assert "The form was not understood." in answer.text
