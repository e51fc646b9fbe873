"""Viewers behind nginx, Caddy and HAProxy: the configurations of docs/web-server.md, HTTP/2."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from media.hls import m3u8
from media.hls.playlist import MediaPlaylist, MultivariantPlaylist
from media.hls.timeline import Timeline
from tests.support.e2e.front import FRONTS, HOST, Front, front
from tests.support.e2e.publishers import ffmpeg, publishing
from tests.support.e2e.service import ServiceProcess, service
from tests.support.e2e.websocket_clients import key_of
from tests.support.hls.timeline_parser import parse_timeline
from tests.support.waiting import poll

pytestmark = pytest.mark.e2e

OK = "2 200"
VIEWER = {name: f"127.0.0.{number}" for number, name in enumerate(FRONTS, 9)}  # not the front's


@pytest.fixture(scope="module")
def headend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    environment = {
        "HEADEND_HTTP__TRUSTED_PROXIES": "127.0.0.1",
        "HEADEND_STORAGE__MIN_FREE_BYTES": "0",
    }
    folder = tmp_path_factory.mktemp("front")
    with service(folder / "data", environment=environment) as running:
        yield running


@pytest.fixture(scope="module")
def on_air(headend: ServiceProcess, small_source: Path) -> Iterator[ServiceProcess]:
    with publishing(ffmpeg(small_source, f"{headend.server}/{headend.key}", "-stream_loop", "-1")):
        yield headend


@pytest.fixture(scope="module", params=FRONTS)
def web_server(
    request: pytest.FixtureRequest,
    headend: ServiceProcess,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[str, Front]]:
    folder = tmp_path_factory.mktemp("front") / "front"
    with front(folder, headend, request.param) as running:
        yield request.param, running


Named = tuple[str, Front]


def test_a_stream_is_fetched_over_http_2(on_air: ServiceProcess, web_server: Named) -> None:
    _, at = web_server
    listed = poll(lambda: _variant(at, on_air), within=30, what="a playlist")
    status, body = at.curl(listed, "--compressed")
    assert status == OK
    playlist = m3u8.parse(body.decode())
    assert isinstance(playlist, MediaPlaylist)
    newest = playlist.segments[-1]
    folder = listed.rsplit("/", 1)[0]
    assert newest.map_uri is not None
    for uri, box in ((newest.map_uri, b"ftyp"), (newest.uri, b"")):
        status, data = at.curl(f"{folder}/{uri}")
        assert (status, data[4 : 4 + len(box)]) == (OK, box)
    status, piece = at.curl(f"{folder}/{newest.uri}", "--range", "100-199")
    assert (status, piece) == ("2 206", data[100:200])
    status, whole = at.curl(listed, "--range", "0-20")  # playlists have no ranges
    assert (status, whole[:8]) == (OK, b"#EXTM3U\n")
    assert len(whole) > 21
    assert at.curl(f"{folder}/{newest.uri}", "--head", "--max-time", "5")[0] == OK


def _variant(at: Front, stream: ServiceProcess) -> str | None:
    """Return the path of a stream's first playlist of video, None before there is one."""
    folder = f"/live/{stream.hash}"
    status, body = at.curl(f"{folder}/index.m3u8")
    if status == "2 404":
        return None
    assert status == OK
    playlist = m3u8.parse(body.decode())
    assert isinstance(playlist, MultivariantPlaylist)
    listed = f"{folder}/{playlist.variants[0].uri}"
    status, body = at.curl(listed)
    return listed if status == OK and b"#EXTINF" in body else None


def test_blocking_requests_are_answered_once_the_media_exist(
    on_air: ServiceProcess, web_server: Named
) -> None:
    """Blocking playlist reload and a hinted part (RFC 8216bis, sections 6.2.5.2 and 6.2.6)."""
    _, at = web_server
    listed = poll(lambda: _variant(at, on_air), within=30, what="a playlist")

    def read(query: str) -> Timeline:
        status, body = at.curl(listed + query, "--compressed")
        assert status == OK, query
        return parse_timeline(body.decode())[0]

    before = read("")
    msn = before.next_msn + 1
    assert not before.has(msn, None)
    assert read(f"?_HLS_msn={msn}").has(msn, None)

    def hinted() -> bytes | None:
        following = read("").next_msn + 1
        opened = read(f"?_HLS_msn={following}&_HLS_part=0")
        assert opened.has(following, 0)
        status, part = at.curl(f"{listed.rsplit('/', 1)[0]}/{opened.hint}")
        return part if status == OK else None  # on a busy machine, the request comes too late

    assert b"moof" in poll(hinted, within=20, what="the hinted part")[:200]


def test_a_connection_to_the_service_is_kept_after_the_answer(
    headend: ServiceProcess, web_server: Named
) -> None:
    _, at = web_server

    def kept() -> bool:
        assert at.curl(f"/watch/{headend.hash}")[0] == OK
        return _connections_to(headend.port_of(headend.http)) > 0

    poll(kept, what="an idle connection")


def _connections_to(port: int) -> int:
    """Return how many connections to a port of this machine are established."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(row[2].endswith(f":{port:04X}") and row[3] == "01" for row in rows)


def test_a_viewer_is_known_by_the_address_that_the_web_server_names(
    headend: ServiceProcess, web_server: Named
) -> None:
    name, at = web_server
    viewer = VIEWER[name]
    status, _ = at.curl(
        "/api/projects", "--interface", viewer, "--header", "Authorization: Bearer of-nobody"
    )
    assert status == "2 401"
    log = headend.data / "security-serve.log"
    poll(lambda: f'"peer":"{viewer}"' in log.read_text().replace(": ", ":"), what="the address")


def test_a_web_socket_passes(headend: ServiceProcess, web_server: Named) -> None:
    _, at = web_server
    response = _exchange(
        at,
        f"GET /app/{key_of(headend)}?protocol=7 HTTP/1.1",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        until=b"connection_established",
    )
    assert response.startswith(b"HTTP/1.1 101 ")


@pytest.mark.parametrize("path", ["/watch", "/app"])
def test_an_offer_of_http_2_in_the_clear_is_answered_without_it(
    headend: ServiceProcess, web_server: Named, path: str
) -> None:
    """Java's HTTP client sends one with its first request."""
    _, at = web_server
    response = _exchange(
        at,
        f"GET {path}/{headend.hash} HTTP/1.1",
        "Connection: Upgrade, HTTP2-Settings",
        "Upgrade: h2c",
        "HTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA",
        until=b"\r\n\r\n",
    )
    assert response.split()[1] == (b"200" if path == "/watch" else b"426"), response


def _exchange(at: Front, *lines: str, until: bytes) -> bytes:
    """Send a head over HTTP/1.1; return what comes, up to some bytes."""
    request, *fields = lines
    with at.connection() as secure:
        secure.sendall("\r\n".join((request, f"Host: {HOST}", *fields, "", "")).encode())
        response = b""
        while until not in response:
            piece = secure.recv(4096)
            assert piece, response
            response += piece
    return response


def test_an_upload_is_not_cut_by_a_limit_of_the_web_server(
    headend: ServiceProcess, web_server: Named, tmp_path: Path
) -> None:
    _, at = web_server
    body = tmp_path / "not-media.bin"
    body.write_bytes(bytes(3 << 20))  # nginx alone refuses more than 1 MiB with 413
    token = ("--header", f"Authorization: Bearer {headend.token}")
    status, answer = at.curl(
        "/api/projects/1/videos", *token, "--form", f"video=@{body}"  # which is read to its end
    )  # fmt: skip
    assert status == "2 422", answer
    # The same in pieces (tus), the second in chunks of unknown length.
    tus = (*token, "--header", "Tus-Resumable: 1.0.0")
    head = tmp_path / "head"
    status, answer = at.curl(
        "/api/projects/1/uploads", "--request", "POST", *tus,
        "--header", f"Upload-Length: {body.stat().st_size}", "--dump-header", str(head),
    )  # fmt: skip
    assert status == "2 201", answer
    lines = head.read_text().splitlines()
    (location,) = (each.split(": ")[1] for each in lines if each.lower().startswith("location: "))
    path = "/" + location.split("/", 3)[3]
    piece = (
        *tus,
        "--request",
        "PATCH",
        "--header",
        "Content-Type: application/offset+octet-stream",
    )
    first = tmp_path / "first"
    first.write_bytes(bytes(1 << 20))
    status, answer = at.curl(
        path, *piece, "--header", "Upload-Offset: 0", "--data-binary", f"@{first}"
    )
    assert status == "2 204", answer
    rest = tmp_path / "rest"
    rest.write_bytes(bytes(2 << 20))
    status, answer = at.curl(
        path, *piece, "--http1.1", "--header", f"Upload-Offset: {1 << 20}",
        "--header", "Transfer-Encoding: chunked", "--upload-file", str(rest),
    )  # fmt: skip
    assert status == "1.1 422", answer
