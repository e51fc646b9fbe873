"""Web servers in front of the service, with the configurations of docs/web-server.md."""

import getpass
import re
import socket
import ssl
import subprocess
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.support.e2e.service import SCALE, ServiceProcess
from tests.support.free_ports import free_port
from tests.support.waiting import poll

PAGE = Path(__file__).parents[3] / "docs" / "web-server.md"
HOST = "video.example.org"
# nginx as docs/deploy.md had it up to 0.2.0: any offer of another protocol is passed on.
PERMISSIVE: Final = "nginx of 0.2.0"
FRONTS: Final = ("nginx", "caddy", "haproxy")
# The enclosing /etc/nginx/nginx.conf.
_AROUND_NGINX = """\
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
_GLOBAL_CADDY = "{\n    admin off\n    auto_https disable_redirects\n}\n"


@dataclass
class Front:
    """A running web server in front of the service."""

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
    def connection(self, viewer: str = "127.0.0.9") -> Generator[ssl.SSLSocket]:
        """Connect for raw HTTP/1.1, from an address that is not the web server's own."""
        trusted = ssl.create_default_context(cafile=self.certificate)
        with (
            socket.create_connection(("127.0.0.1", self.port), 20 * SCALE, (viewer, 0)) as plain,
            trusted.wrap_socket(plain, server_hostname=HOST) as secure,
        ):
            yield secure


@contextmanager
def front(folder: Path, headend: ServiceProcess, name: str = "nginx") -> Generator[Front]:
    """Run a web server on a free port in front of the service, with its own certificate."""
    (folder / "temporary").mkdir(parents=True)
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-days", "1", "-subj", f"/CN={HOST}", "-addext", f"subjectAltName=DNS:{HOST}",
         "-keyout", folder / "privkey.pem", "-out", folder / "fullchain.pem"],
        capture_output=True, timeout=30 * SCALE, check=True,
    )  # fmt: skip
    running = Front(free_port(), folder)
    command = _COMMANDS[name](running, f"127.0.0.1:{headend.port_of(headend.http)}")
    log = folder / "error.log"
    with (
        log.open("ab") as errors,
        subprocess.Popen(
            command, stdout=errors, stderr=errors, env=_environment(folder)
        ) as process,
    ):
        try:
            poll(lambda: process.poll() is not None or _accepts(running.port), within=20, what=name)
            assert process.poll() is None, log.read_text()
            yield running
        finally:
            process.terminate()


def _environment(folder: Path) -> Mapping[str, str]:
    return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(folder)}


def _nginx(running: Front, service: str) -> list[str | Path]:
    folder = running.folder
    text = _documented("nginx", _nginx_changes(running, service))
    return _nginx_command(folder, text)


def _permissive_nginx(running: Front, service: str) -> list[str | Path]:
    changes = {
        **_nginx_changes(running, service),
        '    default         "";         # keep the connection\n    "~*^websocket$" upgrade;': (
            '    default upgrade;\n    "" "";'
        ),
        '    proxy_set_header Connection "";\n': (
            "    proxy_set_header Upgrade $http_upgrade;\n"
            "    proxy_set_header Connection $headend_connection;\n"
        ),
    }
    return _nginx_command(running.folder, _documented("nginx", changes))


def _nginx_changes(running: Front, service: str) -> dict[str, str]:
    return {
        "127.0.0.1:8080": service,
        "listen 443 ": f"listen 127.0.0.1:{running.port} ",
        "    listen [::]:443 ssl http2;\n": "",  # not every machine has IPv6
        f"/etc/letsencrypt/live/{HOST}/fullchain.pem": str(running.certificate),
        f"/etc/letsencrypt/live/{HOST}/privkey.pem": str(running.folder / "privkey.pem"),
    }


def _nginx_command(folder: Path, text: str) -> list[str | Path]:
    settings = folder / "nginx.conf"
    settings.write_text(
        _AROUND_NGINX.format(user=getpass.getuser(), folder=folder, configuration=text)
    )
    return ["nginx", "-e", folder / "error.log", "-p", folder, "-c", settings]


def _caddy(running: Front, service: str) -> list[str | Path]:
    folder = running.folder
    text = _documented(
        "caddy",
        {
            "127.0.0.1:8080": service,
            f"{HOST} {{\n": (
                f"https://{HOST}:{running.port} {{\n    bind 127.0.0.1\n"
                f"    tls {running.certificate} {folder / 'privkey.pem'}\n"
            ),
        },
    )
    settings = folder / "Caddyfile"
    settings.write_text(_GLOBAL_CADDY + text)
    return ["caddy", "run", "--adapter", "caddyfile", "--config", settings]


def _haproxy(running: Front, service: str) -> list[str | Path]:
    folder = running.folder
    both = folder / "both.pem"
    both.write_bytes(running.certificate.read_bytes() + (folder / "privkey.pem").read_bytes())
    text = _documented(
        "haproxy",
        {
            "127.0.0.1:8080": service,
            "bind :443 ": f"bind 127.0.0.1:{running.port} ",
            f"/etc/haproxy/{HOST}.pem": str(both),
        },
    )
    settings = folder / "haproxy.cfg"
    settings.write_text(text)
    return ["haproxy", "-db", "-f", settings]


_COMMANDS: Final[Mapping[str, Callable[[Front, str], list[str | Path]]]] = {
    "nginx": _nginx,
    "caddy": _caddy,
    "haproxy": _haproxy,
    PERMISSIVE: _permissive_nginx,
}


def _documented(language: str, changes: dict[str, str]) -> str:
    """Return the documented configuration with the changes for a test."""
    match = re.search(rf"^```{language}\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
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
