"""The two servers that are watched: Headend as `headend serve` runs it, and nginx-rtmp.

nginx has one worker, and of its HLS the usual configuration: fragments of 2 s, a playlist of 30 s
(its default), everything else as it is. Headend makes its whole ladder, which nginx does not.
"""

import grp
import os
import pwd
import socket
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from bench.ingest.processes import NoAnswer, child
from bench.service import service
from bench.tools import ToolMissing, free_port, tool

__all__ = ["LiveServer", "headend", "nginx"]

_RTMP_MODULE: Final = Path("/usr/lib/nginx/modules/ngx_rtmp_module.so")
_START_SECONDS: Final = 60.0  # a deadline; it starts at once

_CONFIGURATION: Final = """\
load_module {module};
daemon off;
user {user} {group};
worker_processes 1;
pid {folder}/pid;
error_log stderr warn;
events {{ worker_connections 512; }}
rtmp {{ server {{
    listen 127.0.0.1:{rtmp};
    chunk_size 60000;
    application live {{
        live on;
        hls on;
        hls_path {folder}/hls;
        hls_fragment 2s;
    }}
}} }}
http {{
    access_log off;
    client_body_temp_path {folder}/temporary;
    proxy_temp_path {folder}/temporary;
    fastcgi_temp_path {folder}/temporary;
    uwsgi_temp_path {folder}/temporary;
    scgi_temp_path {folder}/temporary;
    types {{
        application/vnd.apple.mpegurl m3u8;
        video/mp2t ts;
    }}
    server {{
        listen 127.0.0.1:{http};
        root {folder}/hls;
        add_header access-control-allow-origin *;
        add_header cache-control no-cache;
    }}
}}
"""


class LiveServer(msgspec.Struct, frozen=True):
    """A server: where to publish, where to watch, and its first process.

    `watch` is the address of its own page, "" if it has none; `others` are the addresses of
    further streams to publish.
    """

    publish: str
    playlist: str
    watch: str
    pid: int
    others: tuple[str, ...] = ()


@contextmanager
def headend(folder: Path, streams: int = 1) -> Generator[LiveServer]:
    """Run `headend serve` with so many streams for the block."""
    with service(folder) as running:
        added = [running.add_stream(f"Stream {number}") for number in range(streams)]
        first, *others = [f"{running.rtmp}/{key}" for _, key in added]
        name = added[0][0]
        yield LiveServer(
            publish=first,
            playlist=f"{running.http}/live/{name}/index.m3u8",
            watch=f"{running.http}/watch/{name}",
            pid=running.pid,
            others=tuple(others),
        )


@contextmanager
def nginx(folder: Path) -> Generator[LiveServer]:
    """Run nginx-rtmp for the block.

    Raises:
        ToolMissing: it is not installed.
        NoAnswer: it does not start.
    """
    program = tool("nginx", "nginx-light libnginx-mod-rtmp")
    if not _RTMP_MODULE.exists():
        raise ToolMissing("nginx-rtmp is missing: apt-get install libnginx-mod-rtmp")
    rtmp, http = free_port(), free_port()
    text = _CONFIGURATION.format(
        module=_RTMP_MODULE,
        folder=folder,
        rtmp=rtmp,
        http=http,
        # The user that made the folder can write there; nginx would change from root to `nobody`.
        user=pwd.getpwuid(os.getuid()).pw_name,
        group=grp.getgrgid(os.getgid()).gr_name,
    )
    settings, log = folder / "nginx.conf", folder / "log"
    settings.write_text(text)
    with child([program, "-e", "stderr", "-p", folder, "-c", settings], log) as running:
        until = time.monotonic() + _START_SECONDS
        while not _answers(rtmp):
            if running.process.poll() is not None or time.monotonic() > until:
                raise NoAnswer(f"nginx does not start: {log.read_text()[-2000:]}")
            time.sleep(0.02)
        yield LiveServer(
            publish=f"rtmp://127.0.0.1:{rtmp}/live/clock",
            playlist=f"http://127.0.0.1:{http}/clock.m3u8",
            watch="",
            pid=running.process.pid,
        )


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
