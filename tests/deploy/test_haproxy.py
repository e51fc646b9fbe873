"""The configuration of HAProxy: understood by it, and an encoder's way to the next host."""

import http.server
import shutil
import socket
import subprocess
import threading
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.support.free_ports import free_ports
from tests.support.in_thread import in_thread
from tests.support.waiting import poll

pytestmark = pytest.mark.real

FILE = Path(__file__).parents[2] / "deploy" / "haproxy.cfg"
HOSTS = ("10.0.0.11", "10.0.0.12")


def program() -> str:
    found = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
    assert found is not None, "haproxy is missing: apt-get install haproxy"
    return found


def test_haproxy_understands_its_configuration() -> None:
    done = subprocess.run(
        [program(), "-c", "-f", FILE], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stderr, done.stderr


class _Ready(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/readyz" else 404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # as inherited
        """Say nothing."""


@contextmanager
def ready(address: tuple[str, int]) -> Generator[None]:
    """Answer the health check of a host for the length of the block."""
    with http.server.ThreadingHTTPServer(address, _Ready) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def greeting(address: tuple[str, int], name: bytes) -> Generator[None]:
    """Accept encoders as a host of that name for the length of the block: it says its name."""
    with socket.create_server(address) as listener:
        listener.settimeout(0.05)
        over = threading.Event()

        def accept() -> None:
            while not over.is_set():
                try:
                    connection, _ = listener.accept()
                except TimeoutError:
                    continue
                with connection:
                    connection.sendall(name)

        with in_thread(accept, over.set):
            yield


def reached(port: int) -> str:
    """Return the name of the host that an encoder reaches, "" for none."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
            return connection.recv(16).decode()
    except OSError:
        return ""


def test_primary_and_backup_begin_with_different_hosts_and_go_on_to_the_other(
    tmp_path: Path,
) -> None:
    primary, backup, secure, backup_secure, status, rtmp, rtmps = free_ports(7)
    text = FILE.read_text()
    for old, new in (
        ("sc0_conn_rate gt 30", "sc0_conn_rate gt 3000"),  # as this test asks again and again
        ("bind :1935\n", f"bind 127.0.0.1:{primary}\n"),
        ("bind :1936\n", f"bind 127.0.0.1:{secure}\n"),
        ("bind :1945\n", f"bind 127.0.0.1:{backup}\n"),
        ("bind :1946\n", f"bind 127.0.0.1:{backup_secure}\n"),
        ("dst_port 1936", f"dst_port {secure}"),
        ("dst_port 1946", f"dst_port {backup_secure}"),
        ("check port 8081", f"check port {status}"),
        *((f"{host}:1935", f"127.0.0.{n}:{rtmp}") for n, host in enumerate(HOSTS, 2)),
        *((f"{host}:1936", f"127.0.0.{n}:{rtmps}") for n, host in enumerate(HOSTS, 2)),
    ):
        assert old in text, old
        text = text.replace(old, new)
    file = tmp_path / "haproxy.cfg"
    file.write_text(text)
    with ExitStack() as stack:
        for number, name in ((2, b"ingest-1"), (3, b"ingest-2")):
            for port in (rtmp, rtmps):
                stack.enter_context(greeting((f"127.0.0.{number}", port), name))
        stack.enter_context(ready(("127.0.0.3", status)))
        first = stack.enter_context(ExitStack())
        first.enter_context(ready(("127.0.0.2", status)))
        proxy = stack.enter_context(
            subprocess.Popen([program(), "-db", "-f", file], stdout=subprocess.DEVNULL)
        )
        stack.callback(proxy.terminate)
        for port, name in (
            (primary, "ingest-1"),
            (secure, "ingest-1"),
            (backup, "ingest-2"),
            (backup_secure, "ingest-2"),
        ):
            poll(lambda port=port, name=name: reached(port) == name, within=20, what=name)
        first.close()  # it is not ready any more
        poll(lambda: reached(primary) == "ingest-2", within=20, what="the other host")
        assert reached(backup) == "ingest-2"
