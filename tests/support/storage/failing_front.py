"""HAProxy in front of an S3 server: counts requests, and can answer half of them with 503."""

import shutil
import socket
import subprocess
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from tests.support.free_ports import free_port
from tests.support.waiting import poll

_SETTINGS: Final = """
global
    stats socket {folder}/haproxy.sock level admin
    maxconn 4000
defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
frontend s3
    bind {host}:{port}
    acl refusing str(yes) -f {folder}/refusing
    http-request return status 503 if refusing {{ rand(2) eq 0 }}
    use_backend writing if METH_PUT
    default_backend gateway
backend gateway
    option redispatch
    server gateway {gateway}
backend writing
    option redispatch
    server gateway {gateway}
"""


class FailingFront:
    """A proxy at `endpoint`, which passes everything on until `refuse`."""

    def __init__(self, folder: Path, gateway: str) -> None:
        place = urlsplit(gateway)
        self._folder = folder
        port = free_port()
        self.endpoint = f"http://{place.hostname}:{port}"
        (folder / "refusing").write_text("")
        text = _SETTINGS.format(folder=folder, host=place.hostname, port=port, gateway=place.netloc)
        (folder / "haproxy.cfg").write_text(text)

    def refuse(self) -> None:
        """Answer half of all requests with 503 from now on."""
        self._tell(f"add acl {self._folder}/refusing yes")

    def pass_all(self) -> None:
        """Pass all requests on again."""
        self._tell(f"clear acl {self._folder}/refusing")

    def _tell(self, command: str) -> str:
        with closing(socket.socket(socket.AF_UNIX)) as sock:
            sock.connect(str(self._folder / "haproxy.sock"))
            sock.sendall(f"{command}\n".encode())
            return sock.makefile().read()

    def refused(self) -> int:
        """Return the number of refused requests."""
        return self._count("hrsp_5xx")

    def requests(self) -> int:
        """Return the number of all requests."""
        return self._count("req_tot")

    def writes(self) -> int:
        """Return the number of requests that write or copy, which services charge most for."""
        return self._count("req_tot", "writing,BACKEND")

    def _count(self, column: str, proxy: str = "s3,FRONTEND") -> int:
        # A client has an answer a moment before its request is counted.
        poll(lambda: not self._is_busy(), within=2, what="requests' ends")
        return int(self._statistics()[proxy][column])

    def _is_busy(self) -> bool:
        lines = self._statistics()
        return any(int(lines[f"{name},BACKEND"]["scur"]) for name in ("gateway", "writing"))

    def _statistics(self) -> dict[str, dict[str, str]]:
        """Return the statistics by the names of proxy and service."""
        titles, *lines = self._tell("show stat").lstrip("# ").splitlines()
        values = [dict(zip(titles.split(","), x.split(","), strict=False)) for x in lines if x]
        return {f"{each['pxname']},{each['svname']}": each for each in values}

    @contextmanager
    def running(self) -> Generator[None]:
        """Run the proxy for the length of the block."""
        program = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
        assert program is not None, "haproxy is missing: apt-get install haproxy"
        with subprocess.Popen([program, "-db", "-f", str(self._folder / "haproxy.cfg")]) as process:
            try:
                poll((self._folder / "haproxy.sock").exists, within=10, what="HAProxy")
                yield
            finally:
                process.terminate()


@contextmanager
def failing_front(folder: Path, gateway: str) -> Generator[FailingFront]:
    """Run a proxy in front of the server at a URL for the length of the block."""
    folder.mkdir()
    front = FailingFront(folder, gateway)
    with front.running():
        yield front
