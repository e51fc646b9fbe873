"""Videos fetched from a server on loopback, which the settings allow: played, killed, refused."""

import json
import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.e2e.test_videos import X264, completed, get_json
from tests.support.e2e.hls_reader import CollectedRendition, collect
from tests.support.e2e.service import ServiceProcess, fetch, service
from tests.support.engine.upload_files import film
from tests.support.waiting import poll

pytestmark = pytest.mark.e2e

SECRET = "hush-hush"


class FileServer:
    """A server with one file; until `released` is set it stops in the file's middle."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.released = threading.Event()
        self.requests = 0
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://localhost:{self.port}/film.mp4?X-Signature={SECRET}"


@contextmanager
def file_server(data: bytes) -> Generator[FileServer]:
    files = FileServer(data)

    class FileHandler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            files.requests += 1
            self.send_response(200)
            self.send_header("Content-Length", str(len(files.data)))
            self.end_headers()
            half = len(files.data) // 2
            self.wfile.write(files.data[:half])
            self.wfile.flush()
            if files.released.wait(timeout=120):
                self.wfile.write(files.data[half:])

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # its own name
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), FileHandler)
    files.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield files
    finally:
        files.released.set()
        server.shutdown()
        thread.join()
        server.server_close()


def settings(server: FileServer, **more: str) -> dict[str, str]:
    return {
        "HEADEND_STORAGE__MIN_FREE_BYTES": "0",
        "HEADEND_IMPORTS__PORTS": f"80, 443, {server.port}",
        "HEADEND_IMPORTS__ALLOW_PRIVATE": "127.0.0.0/8",
        **more,
    }


def begin_import(headend: ServiceProcess, server: FileServer) -> int:
    answer = fetch(
        f"{headend.http}/api/projects/1/imports",
        method="POST",
        token=headend.token,
        body={"url": server.url},
    )
    assert answer.status == 201, answer.text
    video = json.loads(answer.body)["video"]
    assert video["uploading"] is True
    assert video["title"] == "film"
    return video["id"]


def test_a_video_from_an_address_plays(tmp_path: Path) -> None:
    path = film(tmp_path / "film.mp4", *X264, seconds=6, size=(640, 360), rate=30)
    with (
        file_server(path.read_bytes()) as server,
        service(tmp_path / "data", environment=settings(server)) as headend,
    ):
        server.released.set()
        video = begin_import(headend, server)
        completed(headend, video, within=90)
        record = get_json(headend, f"/api/videos/{video}")
        collected: dict[str, CollectedRendition] = {}
        collect(f"{headend.http}/{record['media_resource']}", collected)
        assert {"360p", "audio"} <= set(collected)
        assert all(each.segments for each in collected.values())
        assert 5.5 < record["length"] < 6.5
        headend.stop()
        assert SECRET not in headend.log.read_text()
        assert server.requests == 1


def test_an_import_from_a_private_network_that_is_not_allowed_fails(tmp_path: Path) -> None:
    with file_server(b"secret") as server:
        server.released.set()
        closed = settings(server, HEADEND_IMPORTS__ALLOW_PRIVATE="")
        with service(tmp_path / "data", environment=closed) as headend:
            video = begin_import(headend, server)

            def has_failed() -> bool:
                state = get_json(headend, f"/api/videos/{video}/status")
                return state["state"] == "failed" and "private network" in state["reason"]

            poll(has_failed, within=30, what="the refusal")
        assert server.requests == 0


@pytest.mark.prove
def test_an_import_survives_a_killed_worker(tmp_path: Path) -> None:
    path = film(tmp_path / "film.mp4", *X264, seconds=6, size=(640, 360), rate=30)
    data = tmp_path / "data"
    with file_server(path.read_bytes()) as server:
        environment = settings(server, HEADEND_TRANSCODE__LEASE_SECONDS="3")
        with service(data, environment=environment) as headend:
            video = begin_import(headend, server)
            poll(lambda: server.requests == 1, within=30, what="the first try")
            headend.process.send_signal(signal.SIGKILL)
            headend.process.wait()
        server.released.set()
        with service(data, environment=environment) as headend:
            # Once the lease of the killed worker has expired.
            completed(headend, video, within=120)
        assert server.requests == 2
        sources = [each for each in (data / "objects" / "sources").rglob("*") if each.is_file()]
        assert [each.name for each in sources] == ["1-2"]
        assert sources[0].read_bytes() == path.read_bytes()
