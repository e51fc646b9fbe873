"""nginx as a reverse proxy, with the configuration of docs/deploy.md."""

import getpass
import re
import socket
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.e2e.service import SCALE, ServiceProcess
from tests.support.waiting import poll

PAGE = Path(__file__).parents[3] / "docs" / "deploy.md"
HOST = "video.example.org"
_NGINX = "/usr/sbin/nginx"
# The enclosing /etc/nginx/nginx.conf.
_AROUND = """\
daemon off;
user {user};
worker_processes 1;
pid {folder}/pid;
error_log {folder}/error.log warn;
events {{ worker_connections 256; }}
http {{
    access_log off;
    client_body_temp_path {folder}/temporary;
    proxy_temp_path {folder}/temporary;
    fastcgi_temp_path {folder}/temporary;
    uwsgi_temp_path {folder}/temporary;
    scgi_temp_path {folder}/temporary;
    {configuration}
}}
"""


@dataclass
class Front:
    """A running nginx."""

    port: int
    folder: Path

    @property
    def certificate(self) -> Path:
        return self.folder / "fullchain.pem"

    def curl(self, path: str, *options: str) -> tuple[str, bytes]:
        """Return a response's HTTP version with its status, and its body."""
        body = self.folder / "body"
        body.unlink(missing_ok=True)
        done = subprocess.run(
            ["curl", "--silent", "--show-error", "--http2", "--cacert", self.certificate,
             "--resolve", f"{HOST}:{self.port}:127.0.0.1", "--output", body,
             "--write-out", "%{http_version} %{http_code}", "--max-time", str(30 * SCALE),
             *options, f"https://{HOST}:{self.port}{path}"],
            capture_output=True, text=True, timeout=60 * SCALE, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout, body.read_bytes() if body.exists() else b""


@contextmanager
def front(folder: Path, headend: ServiceProcess) -> Generator[Front]:
    """Run nginx on a free port in front of the service, with its own certificate."""
    (folder / "temporary").mkdir(parents=True)
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-days", "1", "-subj", f"/CN={HOST}", "-addext", f"subjectAltName=DNS:{HOST}",
         "-keyout", folder / "privkey.pem", "-out", folder / "fullchain.pem"],
        capture_output=True, timeout=30 * SCALE, check=True,
    )  # fmt: skip
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    text = _documented(
        {
            "127.0.0.1:8080": f"127.0.0.1:{headend.port_of(headend.http)}",
            "listen 443 ": f"listen 127.0.0.1:{port} ",
            "    listen [::]:443 ssl http2;\n": "",  # not every machine has IPv6
            f"/etc/letsencrypt/live/{HOST}/fullchain.pem": str(folder / "fullchain.pem"),
            f"/etc/letsencrypt/live/{HOST}/privkey.pem": str(folder / "privkey.pem"),
        }
    )
    settings = folder / "nginx.conf"
    settings.write_text(_AROUND.format(user=getpass.getuser(), folder=folder, configuration=text))
    command = [_NGINX, "-e", folder / "error.log", "-p", folder, "-c", settings]
    with subprocess.Popen(command) as process:
        try:
            poll(lambda: process.poll() is not None or _accepts(port), within=10, what="nginx")
            assert process.poll() is None, (folder / "error.log").read_text()
            yield Front(port, folder)
        finally:
            process.terminate()


def _documented(changes: dict[str, str]) -> str:
    """Return the documented configuration with the changes for a test."""
    match = re.search(r"^```nginx\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert match is not None
    text = match[1]
    for old, new in changes.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def _accepts(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False
