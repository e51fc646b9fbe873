"""The session's cookie, and the requests that it authorizes."""

import pytest

from api.http.browser_sessions import BrowserSessions, SessionCookie, is_same_origin
from api.http.errors import ApiError
from storage.catalog.records.common import Change
from tests.support.api.application import NOW_US, STREAMS, ApiService
from tests.support.api.console_client import COOKIE, Browser

PLAIN, SECURE = SessionCookie(secure=False), SessionCookie(secure=True)
ACT = {"Sec-Fetch-Site": "same-origin", "X-Headend-Console": "1"}


def test_the_cookie_is_restricted_to_our_pages() -> None:
    assert PLAIN.issue("s") == (
        "headend_session=s; Max-Age=7776000; Path=/; HttpOnly; SameSite=Strict"
    )
    assert SECURE.issue("s") == (
        "__Host-headend_session=s; Max-Age=7776000; Path=/; HttpOnly; SameSite=Strict; Secure"
    )
    assert "Max-Age=0" in SECURE.clear()


@pytest.mark.parametrize(
    ("cookies", "secrets"),
    [
        (None, ()),
        ("", ()),
        ("headend_session=abc", ("abc",)),
        ("a=b; headend_session=abc; c=d", ("abc",)),
        ("a=b;headend_session=abc", ("abc",)),
        ("headend_session=first; headend_session=second", ("first", "second")),
        ("headend_session=first; headend_session=first", ("first",)),
        ("headend_session=; headend_session=second", ("second",)),
        ("headend_session=" + "x" * 65 + "; headend_session=second", ("second",)),
        ("; ".join(f"headend_session={each}" for each in range(99)), tuple(map(str, range(32)))),
        ("headend_session=", ()),
        ("headend_session", ()),
        ("headend_session=" + "x" * 65, ()),
        ("xheadend_session=abc", ()),
        ("__Host-headend_session=abc", ()),
        ("headend_session_8080=abc", ()),
    ],
)
def test_secrets_are_read_from_the_cookies_of_our_name(
    cookies: str | None, secrets: tuple[str, ...]
) -> None:
    assert PLAIN.secrets_in(cookies) == secrets


def test_services_on_other_ports_of_a_host_have_cookies_of_their_own() -> None:
    """The ports of a host share its cookies: one service would sign the other's users out."""
    one, other = (SessionCookie(secure=False, port=port) for port in (8080, 8090))
    pair = "; ".join(each.issue("s" + each.name).partition(";")[0] for each in (other, one))
    assert one.secrets_in(pair) == ("sheadend_session_8080",)
    assert other.secrets_in(pair) == ("sheadend_session_8090",)
    assert SessionCookie(secure=True, port=8443).name == "__Host-headend_session_8443"


def test_over_https_a_neighbours_cookie_does_not_count() -> None:
    """Only an https page of this very host can set one with the prefix."""
    assert not SECURE.secrets_in("headend_session=planted")
    assert SECURE.secrets_in("headend_session=planted; __Host-headend_session=mine") == ("mine",)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"sec-fetch-site": "same-origin"}, True),
        ({"sec-fetch-site": "same-site", "origin": "http://a", "host": "a"}, False),
        ({"sec-fetch-site": "cross-site"}, False),
        ({"sec-fetch-site": "none"}, False),
        ({"origin": "http://a:80", "host": "A:80"}, True),
        ({"origin": "http://a", "host": "a:80"}, False),
        ({"origin": "http://a"}, False),
        ({"origin": "null", "host": ""}, False),
        ({"host": "a"}, False),
        ({}, False),
    ],
)
def test_which_requests_are_of_our_pages(headers: dict[str, str], expected: bool) -> None:
    assert is_same_origin(headers) is expected


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({}, id="a form of another site"),
        pytest.param({"Sec-Fetch-Site": "same-origin"}, id="a form of ours"),
        pytest.param({"X-Headend-Console": "1"}, id="no page"),
        pytest.param({**ACT, "Sec-Fetch-Site": "cross-site"}, id="another site"),
        pytest.param({**ACT, "Sec-Fetch-Site": "same-site"}, id="another host or port"),
        pytest.param(
            {"X-Headend-Console": "1", "Origin": "https://evil.example"}, id="an old browser"
        ),
    ],
)
async def test_a_session_changes_nothing_for_other_pages(
    api_service: ApiService, headers: dict[str, str]
) -> None:
    browser = Browser(api_service)
    await browser.sign_in()
    stream = await api_service.add("Mine")
    path = f"/api/streams/{stream['id']}"
    for method, where in (("POST", STREAMS), ("PUT", path), ("DELETE", path)):
        answer = await browser.act(method, where, {"title": "Theirs"}, headers)
        assert answer.status_code == 403, answer.text
        assert "Only the console's own pages" in answer.json()["message"]
    assert [each["title"] for each in (await api_service.listed())["data"]] == [
        "Mine",
        "My first stream",
    ]
    # Reading is harmless, unless a browser says that another origin's page does it.
    elsewhere = headers.get("Sec-Fetch-Site") in {"cross-site", "same-site"}
    answer = await browser.act("GET", path, headers=headers)
    assert answer.status_code == (403 if elsewhere else 200)
    assert (await browser.act("PUT", path, {"title": "Mine still"})).status_code == 200


async def test_no_other_origin_may_send_the_header_or_read_an_answer(
    api_service: ApiService,
) -> None:
    """CORS allows neither, whichever origins may upload."""
    added = await api_service.client.put(
        "/api/projects/1", json={"origins": ["*"]}, headers=api_service.owner
    )
    assert added.status_code == 200, added.text
    browser = Browser(api_service)
    await browser.sign_in()
    preflight = {
        "Origin": "https://evil.example",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "x-headend-console",
    }
    for path in ("/api/projects/1/uploads", STREAMS, "/console"):
        answer = await browser.act("OPTIONS", path, headers=preflight)
        assert (
            "x-headend-console"
            not in answer.headers.get("access-control-allow-headers", "").lower()
        )
        assert "access-control-allow-credentials" not in answer.headers
    listed = await browser.act("GET", STREAMS, headers={"Origin": "https://evil.example"})
    assert listed.status_code == 200
    assert not [name for name in listed.headers if name.startswith("access-control")]


async def test_a_token_counts_before_a_cookie(api_service: ApiService) -> None:
    browser = Browser(api_service)
    await browser.sign_in()
    reader = await api_service.headers_of("reader", 1, write=False)
    answer = await browser.act("POST", STREAMS, {"title": "x"}, {**ACT, **reader})
    assert answer.status_code == 403
    assert "may read, but not write" in answer.json()["message"]
    answer = await browser.act("GET", STREAMS, headers={"Authorization": "Bearer wrong"})
    assert answer.status_code == 401


async def test_a_revoked_token_ends_what_its_browsers_do(api_service: ApiService) -> None:
    record, token = await api_service.catalog.tokens.add("editor", 1, Change(NOW_US), write=True)
    browser = Browser(api_service)
    await browser.sign_in(token)
    assert (await browser.act("GET", STREAMS)).status_code == 200
    await api_service.catalog.tokens.revoke(record.id, Change(NOW_US))
    assert (await browser.act("GET", STREAMS)).status_code == 401
    assert (await browser.act("POST", STREAMS, {"title": "x"})).status_code == 401
    page = await browser.get("/console?page=1")
    assert (page.status_code, page.headers["location"].split("?")[0]) == (303, "/console/sign-in")


async def test_a_session_has_the_rights_of_its_token_and_no_others(api_service: ApiService) -> None:
    other = await api_service.catalog.projects.add("Other", Change(NOW_US))
    _, token = await api_service.catalog.tokens.add("reader", other.id, Change(NOW_US), write=False)
    browser = Browser(api_service)
    await browser.sign_in(token)
    assert (await browser.act("GET", f"/api/projects/{other.id}/streams")).status_code == 200
    assert (await browser.act("GET", STREAMS)).status_code == 404
    answer = await browser.act("POST", f"/api/projects/{other.id}/streams", {"title": "x"})
    assert answer.status_code == 403


async def test_an_unknown_cookie_is_no_session(api_service: ApiService) -> None:
    for cookie in (f"{COOKIE}=", f"{COOKIE}={'A' * 43}", f"{COOKIE}=\xe9", "headend_session=x"):
        headers = [(b"Cookie", cookie.encode("latin-1"))]  # headers carry any bytes
        answer = await api_service.client.get(STREAMS, headers=headers)
        assert answer.status_code == 401


@pytest.mark.parametrize("before", [True, False])
async def test_a_foreign_cookie_of_our_name_signs_nobody_out(
    api_service: ApiService, before: bool
) -> None:
    """Over plain http, an application on another port or of a parent domain can set one."""
    catalog = api_service.catalog
    sessions = BrowserSessions(catalog, PLAIN, lambda: NOW_US)
    pairs = [f"headend_session={await catalog.sessions.add(1, NOW_US)}", "headend_session=foreign"]
    headers = {"cookie": "; ".join(reversed(pairs) if before else pairs)}
    principal = await sessions.find(headers)
    assert principal is not None
    assert principal.id == 1
    await sessions.end(headers)
    assert await sessions.find(headers) is None


async def test_thirty_foreign_cookies_before_ours_sign_nobody_out(api_service: ApiService) -> None:
    sessions = BrowserSessions(api_service.catalog, PLAIN, lambda: NOW_US)
    mine = await api_service.catalog.sessions.add(1, NOW_US)
    foreign = [f"headend_session=foreign{number}" for number in range(30)]
    assert await sessions.find({"cookie": "; ".join((*foreign, f"headend_session={mine}"))})


@pytest.mark.parametrize("site", ["same-site", "cross-site"])
async def test_a_page_of_another_origin_cannot_use_a_session_even_to_read(
    api_service: ApiService, site: str
) -> None:
    """It would see the size of an answer, and play a film, without being able to read either."""
    sessions = BrowserSessions(api_service.catalog, PLAIN, lambda: NOW_US)
    cookie = {"cookie": f"headend_session={await api_service.catalog.sessions.add(1, NOW_US)}"}
    assert await sessions.find_for("GET", cookie) is not None
    assert await sessions.find_for("GET", {**cookie, "sec-fetch-site": "same-origin"}) is not None
    with pytest.raises(ApiError):
        await sessions.find_for("GET", {**cookie, "sec-fetch-site": site})


async def test_a_session_of_another_token_beside_the_own_one_is_not_guessed_between(
    api_service: ApiService,
) -> None:
    """Whoever can set cookies here must not make the owner act with the attacker's token."""
    catalog = api_service.catalog
    sessions = BrowserSessions(catalog, PLAIN, lambda: NOW_US)
    attacker, _ = await catalog.tokens.add("attacker", None, Change(NOW_US), write=False)
    mine, again, planted = [
        f"headend_session={await catalog.sessions.add(token, NOW_US)}"
        for token in (1, 1, attacker.id)
    ]
    for cookies in (f"{mine}; {planted}", f"{planted}; {mine}"):
        assert await sessions.find({"cookie": cookies}) is None
        assert sessions.are_named({"cookie": cookies})
    both = await sessions.find({"cookie": f"{mine}; {again}"})
    assert both is not None
    assert both.id == 1
    # As signing in does, before it adds a session.
    await sessions.end({"cookie": f"{planted}; {mine}"})
    after = await sessions.find({"cookie": f"{planted}; {mine}; {again}"})
    assert after is not None
    assert after.id == 1
