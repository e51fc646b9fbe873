"""Strangers who share the connections of a web server with the owner, or forge an address.

Each forged request is sent through nginx, Caddy and HAProxy as docs/web-server.md configures them,
and through nginx as it was documented earlier, which passes on every offer of another protocol.
"""

import contextlib
import socket
import ssl
import time
from collections.abc import Iterator

import pytest

from tests.support.e2e.front import FRONTS, HOST, PERMISSIVE, Front, front
from tests.support.e2e.service import ServiceProcess, fetch, service
from tests.support.geo_database import NOWHERE, ROMANIAN, countries

pytestmark = pytest.mark.e2e

# Seconds between the head and the body of a forged request: the body must reach the service in a
# packet of its own, but before the web server has got the answer.
PAUSES = (0.0, 0.0005, 0.001, 0.0015, 0.002, 0.003, 0.005)
TOKENS = (
    "foo", "h2c", "websocket",
    *(pytest.param(each, marks=pytest.mark.prove) for each in ("foo, websocket", "TLS/1.0")),
)  # fmt: skip
PATHS = ("/app/of-nobody", "/api/projects", "/live/nothing/index.m3u8")


@pytest.fixture(scope="module")
def headend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    folder = tmp_path_factory.mktemp("strangers")
    environment = {
        "HEADEND_GEO__DATABASE": str(countries(folder / "countries.mmdb")),
        "HEADEND_HTTP__TRUSTED_PROXIES": "127.0.0.1",
        "HEADEND_STORAGE__MIN_FREE_BYTES": "0",
    }
    with service(folder / "data", environment=environment) as running:
        yield running


@pytest.fixture(scope="module", params=[*FRONTS, PERMISSIVE])
def web_server(
    request: pytest.FixtureRequest,
    headend: ServiceProcess,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Front]:
    folder = tmp_path_factory.mktemp("strangers") / "front"
    with front(folder, headend, request.param) as running:
        yield running


def answer_of(connection: ssl.SSLSocket) -> tuple[bytes, bytes]:
    """Read one answer with a known length; return its head and its body, b"" twice at the end."""
    received = b""
    while b"\r\n\r\n" not in received:
        piece = connection.recv(65_536)
        if not piece:
            return b"", b""
        received += piece
    head, _, body = received.partition(b"\r\n\r\n")
    lines = [line.partition(b":") for line in head.lower().split(b"\r\n")]
    length = next((int(each[2]) for each in lines if each[0] == b"content-length"), None)
    while length is not None and len(body) < length:
        piece = connection.recv(65_536)
        assert piece, head
        body += piece
    return head, body


@pytest.mark.parametrize("framing", ["content-length", "chunked"])
@pytest.mark.parametrize("token", TOKENS)
def test_a_stranger_cannot_act_through_the_next_request_on_a_shared_connection(
    headend: ServiceProcess, web_server: Front, token: str, framing: str
) -> None:
    """The body is the beginning of a request, which the owner's next one would complete."""
    stream = headend.another(f"{token} {framing}")
    record = f"/api/streams/{stream.number}"
    hidden = f"DELETE {record} HTTP/1.1\r\nHost: {HOST}\r\nX-Rest: ".encode()
    for path in PATHS:
        for pause in PAUSES:
            _send_forged(web_server, path, token, framing, hidden, pause)
            with web_server.connection() as owner:
                owner.sendall(
                    f"GET {record} HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n"
                    f"Authorization: Bearer {headend.token}\r\n\r\n".encode()
                )
                head, body = answer_of(owner)
            assert head.startswith(b"HTTP/1.1 200 "), (path, head, body)
            assert stream.hash.encode() in body
    assert fetch(f"{headend.http}{record}", token=headend.token).status == 200


def _send_forged(  # the parts of a request
    at: Front, path: str, token: str, framing: str, hidden: bytes, pause: float
) -> None:
    """Send a request with an offer of another protocol, and its body in a later packet."""
    head = f"POST {path} HTTP/1.1\r\nHost: {HOST}\r\nConnection: Upgrade\r\nUpgrade: {token}\r\n"
    if framing == "chunked":
        head += "Transfer-Encoding: chunked\r\n\r\n"
        body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(hidden), hidden)
    else:
        head += f"Content-Length: {len(hidden)}\r\n\r\n"
        body = hidden
    with at.connection() as stranger, contextlib.suppress(OSError):
        stranger.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stranger.sendall(head.encode())
        time.sleep(pause)
        stranger.sendall(body)
        answer_of(stranger)


FORGED = {
    "a field": (f"X-Forwarded-For: {ROMANIAN}\r\n\r\n", ""),
    "an underscore": (f"X_Forwarded_For: {ROMANIAN}\r\n\r\n", ""),
    "a trailer": ("Transfer-Encoding: chunked\r\n\r\n", f"X-Forwarded-For: {ROMANIAN}\r\n"),
    "an announced trailer": (
        "TE: trailers\r\nTrailer: X-Forwarded-For\r\nTransfer-Encoding: chunked\r\n\r\n",
        f"X-Forwarded-For: {ROMANIAN}\r\n",
    ),
}


@pytest.mark.parametrize("forged", FORGED)
def test_a_viewer_cannot_choose_a_country(
    headend: ServiceProcess, web_server: Front, forged: str
) -> None:
    fields, trailer = FORGED[forged]
    stream = headend.another(f"Romanian {forged}")
    answer = fetch(
        f"{headend.http}/api/streams/{stream.number}",
        method="PUT",
        token=headend.token,
        body={"countries": ["RO"]},
    )
    assert answer.status == 200, answer.text
    page = f"/watch/{stream.hash}"
    direct = {"X-Forwarded-For": ROMANIAN}
    assert fetch(f"{headend.http}{page}", headers=direct).status == 200
    for method in ("GET", "POST") if trailer else ("GET",):
        with web_server.connection() as viewer:
            request = f"{method} {page} HTTP/1.1\r\nHost: {HOST}\r\n{fields}"
            if trailer:
                request += f"1\r\nx\r\n0\r\n{trailer}\r\n"
            viewer.sendall(request.encode())
            status = answer_of(viewer)[0].split()[1]
        assert status in (b"451", b"405", b"400", b"501"), (method, status)
        if method == "GET" and not trailer:
            assert status == b"451"
    assert fetch(f"{headend.http}{page}", headers={"X-Forwarded-For": NOWHERE}).status == 451
