"""The two servers: Headend's origin, and a well-configured nginx with the same files.

nginx has one worker, `sendfile`, an open file cache as long as a playlist is fresh, gzip for
playlists at its default level, keep-alive for the whole load, no access log, and the headers that
browsers need from an origin. It compresses a playlist for each request.
"""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.ingest.processes import NoAnswer, child
from bench.nginx import running_nginx
from tests.support.free_ports import free_port

ROOT: Final = Path(__file__).parents[2]
START_SECONDS: Final = 60.0  # a deadline; both start within 3 s on an idle machine

_HTTP: Final = """\
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
"""


class Broken(NoAnswer):
    """A server gives a wrong response."""


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
        NoAnswer: it does not start.
    """
    command = [sys.executable, "-m", "bench.origin.ours", folder]
    with child(command, folder / "ours.log", cwd=ROOT) as running:
        facts = running.wait("listening", START_SECONDS)
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
        NoAnswer: it does not start.
    """
    folder.mkdir()
    port = free_port()
    http = _HTTP.format(port=port, objects=published.objects)
    with running_nginx(folder, port, http=http) as pid:
        yield Serving(port, pid)
