"""Pages and their fragments, and the headers that keep a page to itself."""

import msgspec

from api.console.page import page_headers
from storage.catalog.records.common import Change
from tests.support.api.application import ADDRESSES, ApiService
from tests.support.api.console_client import Browser


def policy(headers: dict[str, str]) -> dict[str, str]:
    """Return the directives of a policy."""
    parts = headers["Content-Security-Policy"].split("; ")
    return {name: text for name, _, text in (part.partition(" ") for part in parts)}


def test_a_page_loads_runs_and_is_framed_by_our_own_alone() -> None:
    directives = policy(page_headers(ADDRESSES))
    assert directives["default-src"] == "'none'"
    assert (
        directives["script-src"] == directives["style-src"] == directives["form-action"] == "'self'"
    )
    assert directives["frame-ancestors"] == directives["base-uri"] == "'none'"
    assert directives["img-src"] == "'self' data: blob: https://cdn.example"
    assert directives["connect-src"] == "'self' ws://live.example wss://live.example"
    assert "unsafe" not in str(directives)
    own = msgspec.structs.replace(ADDRESSES, playback=ADDRESSES.http)
    assert policy(page_headers(own))["media-src"] == "'self' blob:"


async def test_every_page_has_these_headers(browser: Browser) -> None:
    for path in ("/console", "/console/sign-in?by=link", "/console/nothing"):
        answer = await browser.get(path)
        for name, text in page_headers(ADDRESSES).items():
            assert answer.headers[name] == text, (path, name)
        assert answer.headers["cache-control"] == "no-store"


async def test_a_script_gets_only_the_fragment_and_a_person_the_page(browser: Browser) -> None:
    page = (await browser.get("/console")).text
    fragment = await browser.fragment("/console", "projects")
    assert fragment.status_code == 200
    assert "<html" not in fragment.text
    assert fragment.text.strip() in page
    assert page.count("<h1") == 1
    unknown = await browser.fragment("/console", "nothing")
    assert "<html" in unknown.text
    opened = await browser.get("/console", {"HX-Target": "projects"})
    assert "<html" in opened.text


async def test_a_page_names_its_token_and_offers_only_what_it_may_do(
    api_service: ApiService, browser: Browser
) -> None:
    page = (await browser.get("/console")).text
    assert "Signed in with the token owner" in page
    assert "/console/operations" in page
    _, token = await api_service.catalog.tokens.add("reader", 1, Change(1), write=False)
    reader = Browser(api_service)
    await reader.sign_in(token)
    page = (await reader.get("/console")).text
    assert "Signed in with the token reader" in page
    assert "/console/operations" not in page
    assert "data-api" not in page


async def test_no_page_has_a_script_or_a_style_of_its_own(browser: Browser) -> None:
    page = (await browser.get("/console")).text
    assert page.count("<script") == page.count("<script src=") > 0
    assert "<style" not in page
    assert " style=" not in page
    assert " on" not in {text[:3] for text in page.split('"')}
