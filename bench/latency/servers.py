"""The two servers that are watched: Headend as `headend serve` runs it, and nginx-rtmp.

nginx has one worker and the usual configuration of HLS: fragments of 2 s, a playlist of 30 s (its
default), everything else as it is. Headend makes its whole ladder, which nginx does not.
"""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from bench.nginx import running_nginx
from bench.service import bench_service
from bench.tools import ToolMissing, tool
from tests.support.free_ports import free_port

_RTMP_MODULE: Final = Path("/usr/lib/nginx/modules/ngx_rtmp_module.so")
_MAIN: Final = """\
load_module {module};
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
"""
_HTTP: Final = """\
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
    with bench_service(folder) as running:
        added = [running.add_stream(f"Stream {number}") for number in range(streams)]
        first, *others = [f"{running.server}/{each['stream']}" for each in added]
        name = added[0]["hash"]
        yield LiveServer(
            publish=first,
            playlist=f"{running.http}/live/{name}/index.m3u8",
            watch=f"{running.http}/watch/{name}",
            pid=running.process.pid,
            others=tuple(others),
        )


@contextmanager
def nginx(folder: Path) -> Generator[LiveServer]:
    """Run nginx-rtmp for the block.

    Raises:
        ToolMissing: it is not installed.
        NoAnswer: it does not start.
    """
    packages = "nginx-light libnginx-mod-rtmp"
    tool("nginx", packages)
    if not _RTMP_MODULE.exists():
        raise ToolMissing("nginx-rtmp is missing: apt-get install libnginx-mod-rtmp")
    rtmp, http = free_port(), free_port()
    with running_nginx(
        folder,
        rtmp,
        main=_MAIN.format(module=_RTMP_MODULE, folder=folder, rtmp=rtmp),
        http=_HTTP.format(folder=folder, http=http),
        packages=packages,
    ) as pid:
        yield LiveServer(
            publish=f"rtmp://127.0.0.1:{rtmp}/live/clock",
            playlist=f"http://127.0.0.1:{http}/clock.m3u8",
            watch="",
            pid=pid,
        )
