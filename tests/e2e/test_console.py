"""The console in a real Chromium: signing in and out, and attacks by pages of other sites."""

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from tests.support.browser import Chromium, Viewer
from tests.support.e2e.console_pages import HEIGHT, WIDTH, must_be_for_everybody, sign_in
from tests.support.e2e.foreign_site import site
from tests.support.e2e.publishers import ffmpeg, publishing
from tests.support.e2e.service import HEADEND, ServiceProcess, fetch, run_headend, service
from tests.support.e2e.tcp_relay import relaying
from tests.support.e2e.websocket_clients import credentials, publish
from tests.support.waiting import poll

pytestmark = pytest.mark.e2e

HOSTILE = "\"'><img src=x onerror=alert(1)><script>window.pwned = true</script>"
SIGNED_IN = "() => document.querySelector('header.top') !== null"
OFFERED = "() => document.querySelector('main').innerText.includes('This link signs this')"
SIGNED_OUT = "() => location.pathname === '/console/sign-in'"
CHARTS = "() => document.querySelectorAll('#health canvas').length === 3"
AUTHORISED = """() => performance.getEntriesByType("resource")
  .filter(({ name }) => name.endsWith("/broadcasting/auth")).length"""
CHANNELS = """() => [...new Set([...document.querySelectorAll("[data-live]")]
  .map((each) => each.dataset.live))]"""
TELL = """() => {
  window.told = 0;
  document.addEventListener("headend:event", () => { window.told += 1; }, true);
}"""
TITLES = """() => [...document.querySelectorAll("#projects h3")].map((each) => each.innerText)"""


@pytest.fixture(scope="module")
def headend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    environment = {
        "HEADEND_LIVE__GOODBYE_SECONDS": "3",
        "HEADEND_STORAGE__MIN_FREE_BYTES": "0",
    }
    with service(tmp_path_factory.mktemp("console") / "data", environment=environment) as running:
        yield running


def must_keep_its_policy(viewer: Viewer) -> None:
    assert viewer.breaches() == []
    assert [line for line in viewer.console if "Content Security" in line] == []


def test_the_link_of_a_first_start_signs_in_once(tmp_path: Path, browser: Chromium) -> None:
    with service(tmp_path / "data") as headend:
        viewer = browser.open(headend.console, width=WIDTH, height=HEIGHT)
        viewer.wait_for_page(OFFERED, 10, "offered")
        viewer.click("main button")
        viewer.wait_for_page(SIGNED_IN, 10, "signed in")
        assert viewer.evaluate("() => location.pathname + location.search") == "/console"
        assert viewer.evaluate("() => document.cookie") == "", "scripts see the cookie"
        must_keep_its_policy(viewer)
        second_viewer = browser.open(headend.console, width=WIDTH, height=HEIGHT)
        second_viewer.wait_for_page(OFFERED, 10, "offered")
        second_viewer.click("main button")
        second_viewer.wait_for_page(
            "() => document.querySelector('#problem') !== null", 10, "refused"
        )
        problem = second_viewer.text("#problem")
        assert "has been used" in problem
        assert f"`{HEADEND} console-link`" in problem, "PATH does not lead to it"
        headend.stop()
    with service(tmp_path / "data") as restarted:
        assert restarted.console == f"{restarted.http}/console", "a browser has signed in already"


def test_the_secret_of_a_link_is_in_the_body_of_one_request_alone(
    tmp_path: Path, browser: Chromium
) -> None:
    """No log of a server, no `Referer` and no history has it."""
    sent = bytearray()
    with (
        service(tmp_path / "data") as headend,
        relaying(headend.port_of(headend.http), sent) as relay,
    ):
        secret = headend.console.partition("#link=")[2]
        assert len(secret) == 43
        own, here = headend.http, f"http://127.0.0.1:{relay.port}"
        viewer = browser.open(headend.console.replace(own, here), width=WIDTH, height=HEIGHT)
        viewer.wait_for_page(OFFERED, 10, "offered")
        assert viewer.evaluate("() => location.href") == f"{here}/console/sign-in"
        assert viewer.evaluate("() => document.activeElement.innerText") == "Sign in"
        assert secret.encode() not in sent
        viewer.press("Enter")
        viewer.wait_for_page(SIGNED_IN, 10, "signed in")
        must_keep_its_policy(viewer)
    assert sent.count(secret.encode()) == 1
    assert f"\r\n\r\nnext=%2Fconsole&link={secret}" in sent.decode("latin-1")


def test_a_link_is_offered_where_the_page_is_open_and_where_one_is_signed_in(
    headend: ServiceProcess, browser: Chromium
) -> None:
    body = {"name": "second", "write": False}
    added = fetch(f"{headend.http}/api/tokens", method="POST", token=headend.token, body=body).json
    record = cast("dict[str, object]", added["token"])
    done = run_headend("console-link", "--token", str(record["id"]), "--data", str(headend.data))
    secret = done.stdout.strip().partition("#link=")[2]
    viewer = sign_in(browser, headend)
    viewer.visit(f"{headend.http}/console/sign-in#link={secret}")
    viewer.wait_for_page(OFFERED, 10, "offered although signed in")
    assert viewer.evaluate("() => location.href") == f"{headend.http}/console/sign-in"
    viewer.reload()
    viewer.wait_for_page(SIGNED_IN, 10, "signed in still")
    viewer.click("header.top button")
    viewer.wait_for_page(SIGNED_OUT, 10, "signed out")
    viewer.evaluate("(link) => { location.hash = link; }", f"link={secret}")
    viewer.wait_for_page(OFFERED, 10, "offered on the open page")
    viewer.click("main button")
    viewer.wait_for_page(SIGNED_IN, 10, "signed in")
    assert "second" in str(viewer.evaluate("() => document.querySelector('header button').title"))


def test_without_javascript_a_link_says_what_to_do(
    headend: ServiceProcess, browser: Chromium
) -> None:
    viewer = browser.open(f"{headend.http}/console/sign-in#link=x", scripts=False)
    assert "works with JavaScript alone. Without it, sign in with a token." in viewer.text("main")
    viewer.fill("#token", headend.token)
    viewer.click("main button")
    assert "Sign out" in viewer.text("header.top")


@pytest.mark.parametrize(
    ("name", "path"),
    [
        pytest.param(
            "headend_session", "/", id="of a service on the usual port", marks=pytest.mark.prove
        ),
        pytest.param(
            "headend_session_1", "/", id="of a service on another port", marks=pytest.mark.prove
        ),
        pytest.param("headend_session_PORT", "/console", id="with our name"),
    ],
)
def test_a_cookie_of_another_port_signs_nobody_out(
    headend: ServiceProcess, browser: Chromium, name: str, path: str
) -> None:
    """The ports of a host share cookies: a second Headend there would overwrite the first one's."""
    name = name.replace("PORT", str(headend.port_of(headend.http)))
    cookie = f"{name}={'A' * 43}; Path={path}; HttpOnly"
    viewer = sign_in(browser, headend)
    with site({"/": "another application"}, {"Set-Cookie": cookie}) as other:
        viewer.visit(other.replace("localhost", "127.0.0.1"))
    viewer.visit(f"{headend.http}/console")
    assert viewer.evaluate(SIGNED_IN) is True
    viewer.click("header.top button")
    viewer.wait_for_page(SIGNED_OUT, 10, "signed out")


def test_signing_in_leads_to_the_requested_page_and_signing_out_ends_the_session(
    headend: ServiceProcess, browser: Chromium
) -> None:
    viewer = sign_in(browser, headend, "/console?page=1")
    assert viewer.evaluate("() => location.pathname + location.search") == "/console?page=1"
    viewer.click("header.top button")
    viewer.wait_for_page(SIGNED_OUT, 10, "signed out")
    viewer.visit(f"{headend.http}/console")
    assert viewer.evaluate(SIGNED_OUT) is True


def test_a_link_on_another_site_leads_to_the_console_still_signed_in(
    headend: ServiceProcess, browser: Chromium
) -> None:
    viewer = sign_in(browser, headend)
    with site({"/": f'<a href="{headend.http}/console?page=1">the console</a>'}) as stranger:
        viewer.visit(f"{stranger}/")
        viewer.click("a")
        viewer.wait_for_page(SIGNED_IN, 10, "signed in")
    assert viewer.evaluate("() => location.pathname + location.search") == "/console?page=1"


def test_a_revoked_token_signs_its_browser_out(headend: ServiceProcess, browser: Chromium) -> None:
    answer = fetch(
        f"{headend.http}/api/tokens",
        method="POST",
        token=headend.token,
        body={"name": "editor", "write": True},
    ).json
    viewer = browser.open(f"{headend.http}/console", width=WIDTH, height=HEIGHT)
    viewer.fill("#token", str(answer["secret"]))
    viewer.press("Enter")
    viewer.wait_for_page(SIGNED_IN, 10, "signed in")
    record = answer["token"]
    assert isinstance(record, dict)
    number = record["id"]  # pyright: ignore[reportUnknownVariableType]  # JSON
    deletion = fetch(f"{headend.http}/api/tokens/{number}", method="DELETE", token=headend.token)
    assert deletion.status == 204
    # A fragment of the page is fetched every few seconds.
    viewer.wait_for_page(SIGNED_OUT, 20, "signed out")


def test_a_pages_private_channels_go_on_with_a_newer_session_and_end_with_the_last(
    headend: ServiceProcess, browser: Chromium
) -> None:
    """Signing in anew ends the session before, as in another tab of the same browser."""
    viewer = sign_in(browser, headend, "/console/1/streams")
    viewer.evaluate(TELL)
    app = credentials(headend)
    (channel,) = cast("list[str]", viewer.evaluate(CHANNELS))

    def hears() -> bool:
        publish(headend, app, f"private-{channel}", "live", {"version": 0})
        return (
            viewer.evaluate("() => { const { told } = window; window.told = 0; return told; }") != 0
        )

    def authorised() -> int:
        return cast("int", viewer.evaluate(AUTHORISED))

    poll(hears, what="events of the first session")
    before = authorised()
    signed_in = viewer.evaluate(
        """async (token) => (await fetch("/console/sign-in",
          { method: "POST", body: new URLSearchParams({ token }) })).status""",
        headend.token,
    )
    assert signed_in == 200
    poll(lambda: authorised() > before, within=10, what="the end of the first session")
    viewer.evaluate("() => { window.told = 0; }")
    poll(hears, what="events of the second session")
    assert viewer.evaluate(SIGNED_IN) is True
    viewer.evaluate("async () => { await fetch('/console/sign-out', { method: 'POST' }); }")
    # This page asks for nothing by itself.
    viewer.wait_for_page(SIGNED_OUT, 10, "signed out")


def test_no_page_of_another_site_can_frame_or_use_the_console(
    headend: ServiceProcess, browser: Chromium
) -> None:
    """Clickjacking, and requests with the user's cookie from another port of the same site."""
    viewer = sign_in(browser, headend)
    framed = site({"/": f'<!doctype html><iframe src="{headend.http}/console"></iframe>'})
    with framed as stranger:
        near = stranger.replace("localhost", "127.0.0.1")  # the same site, by another port
        viewer.visit(f"{near}/")
        frame = viewer.framed()
        assert frame.evaluate("() => document.querySelector('header.top, #token')") is None
        for method, path in (("POST", "/api/projects"), ("DELETE", "/api/streams/1")):
            outcome = viewer.evaluate(
                """async ([address, method]) => {
                  const body = method === "POST" ? '{"name": "stolen"}' : undefined;
                  const plain = fetch(address, { method, body, mode: "no-cors",
                    credentials: "include" }).then(() => "sent", () => "refused");
                  const own = fetch(address, { method, body, credentials: "include",
                    headers: { "X-Headend-Console": "1" } }).then(() => "sent", () => "refused");
                  return [await plain, await own];
                }""",
                [headend.http + path, method],
            )
            assert outcome == ["sent" if method == "POST" else "refused", "refused"]
    listed = fetch(f"{headend.http}/api/projects", token=headend.token).text
    assert "stolen" not in listed
    stream = fetch(f"{headend.http}/api/streams/1", token=headend.token)
    assert stream.status == 200


def test_a_project_is_added_by_keyboard_and_its_name_is_text(
    headend: ServiceProcess, browser: Chromium
) -> None:
    viewer = sign_in(browser, headend)
    viewer.evaluate("() => document.querySelector('#content summary').focus()")
    viewer.press("Enter")
    viewer.fill("#project-name", HOSTILE)
    viewer.press("Enter")
    viewer.wait_for_page(
        "() => document.querySelector('#projects').innerText.includes('window.pwned')", 10, "added"
    )
    titles = viewer.evaluate(TITLES)
    assert isinstance(titles, list)
    assert HOSTILE in titles
    assert viewer.evaluate("() => window.pwned") is None
    assert viewer.evaluate("() => document.querySelectorAll('#projects img').length") == 0
    assert viewer.evaluate("() => document.querySelector('#project-name').value") == ""
    viewer.fill("#project-name", " ")
    viewer.press("Enter")
    viewer.wait_for_page(
        "() => document.activeElement.getAttribute('aria-invalid') === 'true'", 10, "refused"
    )
    described = viewer.evaluate(
        "() => document.getElementById("
        "document.activeElement.getAttribute('aria-describedby')).textContent"
    )
    assert isinstance(described, str)
    assert described
    must_keep_its_policy(viewer)


def test_a_stream_that_goes_live_shows_by_itself(
    headend: ServiceProcess, browser: Chromium, small_source: Path, axe: str
) -> None:
    viewer = sign_in(browser, headend)
    viewer.evaluate("() => { window.same = true; }")
    assert "Nothing is live" in viewer.text("#live")
    with publishing(ffmpeg(small_source, f"{headend.server}/{headend.key}", "-stream_loop", "-1")):
        viewer.wait_for_page(
            "() => document.querySelector('#live .state.good') !== null", 30, "live"
        )
        assert "My first stream" in viewer.text("#live")
        viewer.wait_for_page(
            "() => document.querySelector('#live img.poster')?.naturalWidth > 0", 60, "a picture"
        )
        must_be_for_everybody(viewer, axe)
        room = sign_in(browser, headend, f"/console/1/streams/{headend.number}")
        room.wait_for_page(CHARTS, 40, "the charts")
        must_be_for_everybody(room, axe)
        room.close()
    viewer.wait_for_page(
        "() => document.querySelector('#live').innerText.includes('Nothing is live')", 90, "over"
    )
    assert viewer.evaluate("() => window.same") is True, "the page was loaded anew"
    must_keep_its_policy(viewer)
