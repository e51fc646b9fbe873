"""The addresses of the console's pages, and the target of `/`."""

from api.app import create_app
from api.console.routes import PAGES
from api.http.caller_limits import CallerRateLimiter, RateLimits
from tests.support.api.application import ADDRESSES, BROADCASTER_KEY, NOW_US, ApiService
from tests.support.api.console_client import COOKIE, Browser
from tests.support.api.in_loop_client import client_of


async def test_the_first_page_is_the_console(api_service: ApiService) -> None:
    answer = await api_service.client.get("/", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/console")
    assert answer.headers["cache-control"] == "no-cache"


async def test_an_operator_may_have_another_first_page(api_service: ApiService) -> None:
    app = create_app(
        catalog=api_service.catalog,
        addresses=ADDRESSES,
        broadcaster_key=BROADCASTER_KEY,
        home="https://www.example.org/tv",
    )
    async with client_of(app) as client:
        answer = await client.get("/", follow_redirects=False)
        assert answer.headers["location"] == "https://www.example.org/tv"
        assert (await client.get("/console", follow_redirects=False)).status_code == 303


async def test_pages_are_not_operations_of_the_api(api_service: ApiService) -> None:
    document = (await api_service.client.get("/schema/openapi.json")).json()
    assert not [path for path in document["paths"] if "console" in path]
    assert PAGES


async def test_pages_count_as_requests_of_their_token(api_service: ApiService) -> None:
    app = create_app(
        catalog=api_service.catalog,
        addresses=ADDRESSES,
        broadcaster_key=BROADCASTER_KEY,
        rate_limiter=CallerRateLimiter(RateLimits(requests=2, attempts=0), clock=lambda: 0.0),
        clock_us=lambda: NOW_US,
    )
    browser = Browser(api_service)
    await browser.sign_in()
    headers = {"Cookie": f"{COOKIE}={browser.secret}"}
    async with client_of(app) as client:
        answers = [await client.get("/console", headers=headers) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert "Too many requests" in answers[-1].text
