"""The two servers: Headend's origin, and a well-configured nginx with the same files.

nginx has one worker, `sendfile`, an open file cache as long as a playlist is fresh, gzip for
playlists at its default level, keep-alive for the whole load, no access log, and the headers that
browsers need from an origin. It compresses a playlist for each request.
"""

import grp
import os
import pwd
import socket
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.ingest.processes import NoAnswer, child
from bench.tools import free_port, tool

__all__ = ["Broken", "Published", "Serving", "nginx", "ours"]

ROOT: Final = Path(__file__).parents[2]
START_SECONDS: Final = 60.0  # a deadline; both start within 3 s on an idle machine
_LOOK_SECONDS: Final = 0.02

_CONFIGURATION: Final = """\
daemon off;
user {user} {group};
worker_processes 1;
pid {folder}/pid;
error_log stderr warn;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    client_body_temp_path {folder}/temporary;
    proxy_temp_path {folder}/temporary;
    fastcgi_temp_path {folder}/temporary;
    uwsgi_temp_path {folder}/temporary;
    scgi_temp_path {folder}/temporary;
    types {{
        application/vnd.apple.mpegurl m3u8;
        video/mp4 mp4 m4s;
    }}
    sendfile on;
    tcp_nopush on;
    keepalive_requests 100000000;
    open_file_cache max=1000 inactive=30s;
    open_file_cache_valid 1s;
    gzip on;
    gzip_types application/vnd.apple.mpegurl;
    gzip_vary on;
    add_header access-control-allow-origin *;
    add_header access-control-expose-headers "Content-Length, Content-Range, ETag, Date";
    add_header cross-origin-resource-policy cross-origin;
    add_header timing-allow-origin *;
    add_header x-content-type-options nosniff;
    server {{
        listen 127.0.0.1:{port};
        root {objects};
        location / {{ add_header cache-control "public, max-age=31536000, immutable"; }}
        location ~ m3u8$ {{ add_header cache-control "public, max-age=1"; }}
    }}
}}
"""


class Broken(Exception):
    """A server does not start, or gives a wrong response."""


@dataclass(frozen=True)
class Published:
    """The published media: the folder of the files, and the addresses to request."""

    objects: Path
    playlist: str
    long: str
    segment: str


@dataclass(frozen=True)
class Serving:
    """A running server: its port and its first process."""

    port: int
    pid: int


@contextmanager
def ours(folder: Path) -> Generator[tuple[Serving, Serving, Published], None, None]:
    """Run Headend's origin; yield it with the fast path, without it (same process), and its media.

    Raises:
        Broken: it does not start.
    """
    command = [sys.executable, "-m", "bench.origin.ours", folder]
    with child(command, folder / "ours.log", cwd=ROOT) as running:
        try:
            facts = running.wait("listening", START_SECONDS)
        except NoAnswer as error:
            raise Broken(f"Headend does not start: {error}") from error
        yield (
            Serving(int(facts["port"]), running.process.pid),
            Serving(int(facts["asgi_port"]), running.process.pid),
            Published(Path(facts["objects"]), facts["playlist"], facts["long"], facts["segment"]),
        )


@contextmanager
def nginx(folder: Path, published: Published) -> Generator[Serving, None, None]:
    """Run nginx with the files.

    Raises:
        ToolMissing: it is not installed.
        Broken: it does not start.
    """
    program = tool("nginx", "nginx-light")
    folder.mkdir()
    port = free_port()
    settings = folder / "nginx.conf"
    text = _CONFIGURATION.format(
        folder=folder,
        port=port,
        objects=published.objects,
        # The user that made the files can read them; nginx would change from root to `nobody`.
        user=pwd.getpwuid(os.getuid()).pw_name,
        group=grp.getgrgid(os.getgid()).gr_name,
    )
    settings.write_text(text)
    log = folder / "log"
    with child([program, "-e", "stderr", "-p", folder, "-c", settings], log) as running:
        until = time.monotonic() + START_SECONDS
        while not _answers(port):
            if running.process.poll() is not None or time.monotonic() > until:
                raise Broken(f"nginx does not start: {log.read_text()[-2000:]}")
            time.sleep(_LOOK_SECONDS)
        yield Serving(port, running.process.pid)


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False
