"""Viewers behind nginx: the configuration of docs/deploy.md, HTTP/2, a stream that is on air."""

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from media.hls import m3u8
from media.hls.playlist import MediaPlaylist, MultivariantPlaylist
from media.hls.timeline import Timeline
from tests.support.e2e.front import HOST, Front, front
from tests.support.e2e.publishers import ffmpeg, publishing
from tests.support.e2e.service import SCALE, ServiceProcess, service
from tests.support.e2e.websocket_clients import key_of
from tests.support.hls.timeline_parser import parse_timeline
from tests.support.waiting import poll

pytestmark = pytest.mark.e2e

OK = "2 200"
VIEWER = "127.0.0.9"  # not the address of the web server


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
def nginx(headend: ServiceProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    with front(tmp_path_factory.mktemp("front") / "nginx", headend) as running:
        yield running


def test_a_stream_is_fetched_over_http_2(
    headend: ServiceProcess, nginx: Front, small_source: Path
) -> None:
    with publishing(ffmpeg(small_source, f"{headend.server}/{headend.key}")):
        listed = poll(lambda: _variant(nginx, headend), within=30, what="a playlist")
        status, body = nginx.curl(listed, "--compressed")
        assert status == OK
        playlist = m3u8.parse(body.decode())
        assert isinstance(playlist, MediaPlaylist)
        newest = playlist.segments[-1]
        folder = listed.rsplit("/", 1)[0]
        assert newest.map_uri is not None
        for uri, box in ((newest.map_uri, b"ftyp"), (newest.uri, b"")):
            status, data = nginx.curl(f"{folder}/{uri}")
            assert (status, data[4 : 4 + len(box)]) == (OK, box)
        status, piece = nginx.curl(f"{folder}/{newest.uri}", "--range", "100-199")
        assert (status, piece) == ("2 206", data[100:200])


def _variant(nginx: Front, stream: ServiceProcess) -> str | None:
    """Return the path of a stream's first playlist of video, None before there is one."""
    folder = f"/live/{stream.hash}"
    status, body = nginx.curl(f"{folder}/index.m3u8")
    if status == "2 404":
        return None
    assert status == OK
    playlist = m3u8.parse(body.decode())
    assert isinstance(playlist, MultivariantPlaylist)
    return f"{folder}/{playlist.variants[0].uri}"


def test_blocking_requests_are_answered_once_the_media_exist(
    headend: ServiceProcess, nginx: Front, small_source: Path
) -> None:
    """Blocking playlist reload and a hinted part (RFC 8216bis, sections 6.2.5.2 and 6.2.6)."""
    stream = headend.another()
    with publishing(ffmpeg(small_source, f"{stream.server}/{stream.key}")):
        listed = poll(lambda: _variant(nginx, stream), within=30, what="a playlist")

        def read(query: str) -> Timeline:
            status, body = nginx.curl(listed + query, "--compressed")
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
            status, part = nginx.curl(f"{listed.rsplit('/', 1)[0]}/{opened.hint}")
            return part if status == OK else None  # on a busy machine, the request comes too late

        assert b"moof" in poll(hinted, within=20, what="the hinted part")[:200]


def test_a_connection_to_the_service_is_kept_after_the_answer(
    headend: ServiceProcess, nginx: Front
) -> None:
    def kept() -> bool:
        assert nginx.curl(f"/watch/{headend.hash}")[0] == OK
        return _connections_to(headend.port_of(headend.http)) > 0

    poll(kept, what="an idle connection")


def _connections_to(port: int) -> int:
    """Return how many connections to a port of this machine are established."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(row[2].endswith(f":{port:04X}") and row[3] == "01" for row in rows)


def test_a_viewer_is_known_by_the_address_that_nginx_names(
    headend: ServiceProcess, nginx: Front
) -> None:
    status, _ = nginx.curl(
        "/api/projects", "--interface", VIEWER, "--header", "Authorization: Bearer of-nobody"
    )
    assert status == "2 401"
    log = headend.data / "security-serve.log"
    poll(lambda: f'"peer":"{VIEWER}"' in log.read_text().replace(": ", ":"), what="the address")


def test_a_web_socket_passes(headend: ServiceProcess, nginx: Front) -> None:
    trusted = ssl.create_default_context(cafile=nginx.certificate)
    lines = (f"GET /app/{key_of(headend)}?protocol=7 HTTP/1.1", f"Host: {HOST}",
             "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
             "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "", "")  # fmt: skip
    with (
        socket.create_connection(("127.0.0.1", nginx.port), 20 * SCALE) as plain,
        trusted.wrap_socket(plain, server_hostname=HOST) as secure,
    ):
        secure.sendall("\r\n".join(lines).encode())
        response = b""
        while b"connection_established" not in response:
            piece = secure.recv(4096)
            assert piece, response
            response += piece
    assert response.startswith(b"HTTP/1.1 101 ")


def test_an_upload_is_not_cut_by_a_limit_of_nginx(
    headend: ServiceProcess, nginx: Front, tmp_path: Path
) -> None:
    body = tmp_path / "not-media.bin"
    body.write_bytes(bytes(3 << 20))  # nginx alone refuses more than 1 MiB with 413
    status, answer = nginx.curl(
        "/api/projects/1/videos", "--header", f"Authorization: Bearer {headend.token}",
        "--form", f"video=@{body}",  # which is read to its end
    )  # fmt: skip
    assert status == "2 422", answer
