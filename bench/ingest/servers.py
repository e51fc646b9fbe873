"""The compared servers: how each is installed, started, and reports what it received.

What a server counts differs: Headend the packets and their bytes, pyrtmp the bodies of messages,
nginx and node-media-server the bytes of the connection. `BenchServer.lost` compares the right one.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.ingest.clip import SourceClip
from bench.ingest.processes import Child, NoAnswer, child
from bench.tools import ToolMissing, install, wait_for_port
from media.no_op import do_nothing
from tests.support.free_ports import free_port

ROOT: Final = Path(__file__).parents[2]
START_SECONDS: Final = 60.0  # a deadline; each starts within 2 s on an idle machine
END_SECONDS: Final = 20.0  # from the end of a publisher to the server's report of it
NGINX_MODULES: Final = Path("/usr/lib/nginx/modules")
# Chunk sizes as each server announces them; ffmpeg uses the announced size. nginx-rtmp's default of
# 4096 costs it a fifth more, so it is measured at its best.
NGINX_CHUNK, NMS_CHUNK = 60_000, 65_535
_HANDSHAKE_BYTES: Final = 3073


@dataclass(frozen=True)
class TlsFiles:
    """The files of a certificate."""

    certificate: Path
    key: Path


@dataclass
class RunningServer:
    """A running server: its port, its first process, and a call that awaits a publisher's end."""

    port: int
    pid: int
    closed: Callable[[], dict[str, Any]]


@dataclass(frozen=True)
class BenchServer:
    """One of the compared servers.

    `serve` runs it for the length of a block, given a folder of its own and, for RTMPS, a
    certificate; `prepare` installs what it needs; `lost` describes what is missing from its counts
    for one publisher, "" if nothing is.
    """

    name: str
    about: str
    prepare: Callable[[bool], None]
    serve: Callable[[Path, TlsFiles | None], Any]
    lost: Callable[[dict[str, Any], SourceClip], str]


# -- ours ---------------------------------------------------------------------------------------


def ours(name: str, about: str, *options: str) -> BenchServer:
    """Return Headend's listener with these options of `bench.ingest.ours`."""

    @contextmanager
    def serve(folder: Path, tls: TlsFiles | None) -> Generator[RunningServer, None, None]:
        door = ["--tls", tls.certificate, tls.key] if tls else []
        command = [sys.executable, "-m", "bench.ingest.ours", *options, *door]
        with child(command, folder / "log", cwd=ROOT) as running:
            yield _of_lines(running)

    return BenchServer(name, about, do_nothing, serve, _lost_packets)


def _of_lines(running: Child) -> RunningServer:
    port = int(running.wait("listening", START_SECONDS)["port"])
    return RunningServer(port, running.process.pid, lambda: running.wait("closed", END_SECONDS))


def _lost_packets(counted: dict[str, Any], clip: SourceClip) -> str:
    received = (counted["packets"], counted["bytes"])
    return "" if received in clip.packets() else f"{received} packets and bytes"


# -- nginx --------------------------------------------------------------------------------------


def _prepare_nginx(tls: bool) -> None:
    needed = {"nginx-light": "nginx", "libnginx-mod-rtmp": "ngx_rtmp_module.so"}
    if tls:
        needed["libnginx-mod-stream"] = "ngx_stream_module.so"
    path = os.environ.get("PATH", "") + ":/usr/sbin"
    for package, file in needed.items():
        if not (NGINX_MODULES / file).exists() and shutil.which(file, path=path) is None:
            raise ToolMissing(f"nginx-rtmp needs {package}: apt-get install {' '.join(needed)}")


@contextmanager
def _nginx(folder: Path, tls: TlsFiles | None) -> Generator[RunningServer, None, None]:
    """Run nginx-rtmp; for RTMPS its `stream` module terminates TLS in the same worker."""
    plain, secure = free_port(), free_port()
    access = folder / "access.log"
    access.touch()
    (folder / "nginx.conf").write_text(_nginx_conf(folder, plain, secure if tls else None, tls))
    command = ["nginx", "-e", folder / "error.log", "-p", folder, "-c", folder / "nginx.conf"]
    path = os.environ.get("PATH", "") + ":/usr/sbin"
    with child(command, folder / "log", env={"PATH": path}) as running:
        port = secure if tls else plain
        if not wait_for_port(port, running.process, START_SECONDS):
            raise NoAnswer("nginx does not listen")
        with access.open() as lines:
            yield RunningServer(port, running.process.pid, lambda: _next_line(lines.readline))


def _nginx_conf(folder: Path, plain: int, secure: int | None, tls: TlsFiles | None) -> str:
    stream = ""
    if tls is not None:
        stream = f"""
load_module {NGINX_MODULES}/ngx_stream_module.so;
stream {{ server {{
    listen 127.0.0.1:{secure} ssl;
    ssl_certificate {tls.certificate};
    ssl_certificate_key {tls.key};
    ssl_protocols TLSv1.2 TLSv1.3;
    proxy_pass 127.0.0.1:{plain};
}} }}"""
    modules, _, rest = stream.partition(";")
    user = "user root;" if os.geteuid() == 0 else ""
    return f"""
load_module {NGINX_MODULES}/ngx_rtmp_module.so;
{modules};
{user}
daemon off;
worker_processes 1;
pid {folder}/pid;
events {{ worker_connections 512; }}
{rest}
rtmp {{
    log_format bench '{{"event": "closed", "bytes": $bytes_received}}';
    access_log {folder}/access.log bench;
    server {{
        listen 127.0.0.1:{plain};
        chunk_size {NGINX_CHUNK};
        application live {{ live on; }}
    }}
}}
""".replace("\n;\n", "\n")


def _next_line(read: Callable[[], str]) -> dict[str, Any]:
    until = time.monotonic() + END_SECONDS
    while time.monotonic() < until:
        line = read()
        facts = json.loads(line) if line else None
        if facts and facts["bytes"] > _HANDSHAKE_BYTES:  # less is our own check of the port
            return facts
        time.sleep(0 if line else 0.05)
    raise NoAnswer("nginx did not log the end of a publisher")


# -- node-media-server --------------------------------------------------------------------------

NMS: Final = ROOT / "bench" / "nms"


def _prepare_nms(_tls: bool) -> None:
    install(NMS)


@contextmanager
def _nms(folder: Path, tls: TlsFiles | None) -> Generator[RunningServer, None, None]:
    door = [tls.certificate, tls.key] if tls else []
    command = ["node", NMS / "server.js", str(free_port()), folder / "store", *door]
    with child(command, folder / "log") as running:
        yield _of_lines(running)


# -- pyrtmp -------------------------------------------------------------------------------------

PYRTMP: Final = ROOT / "bench" / "pyrtmp"


def _prepare_pyrtmp(_tls: bool) -> None:
    make = [ROOT / "scripts" / "environment.sh", PYRTMP / ".venv", PYRTMP / "requirements.txt"]
    subprocess.run(make, cwd=ROOT, check=True, timeout=300, stdout=subprocess.DEVNULL)


@contextmanager
def _pyrtmp(_folder: Path, tls: TlsFiles | None) -> Generator[RunningServer, None, None]:
    door = [tls.certificate, tls.key] if tls else []
    command = [PYRTMP / ".venv" / "bin" / "python", PYRTMP / "server.py", "127.0.0.1", *door]
    # It logs each message; the log is discarded and not part of the measurement.
    with child(command, Path(os.devnull)) as running:
        yield _of_lines(running)


def _lost_bodies(counted: dict[str, Any], clip: SourceClip) -> str:
    received = int(counted["bytes"])
    return "" if received in clip.body_bytes() else f"{received} bytes of bodies"


def lost_wire(chunk_bytes: int) -> Callable[[dict[str, Any], SourceClip], str]:
    """Return a check of a connection's bytes, at the chunk size that the server announces."""

    def lost(counted: dict[str, Any], clip: SourceClip) -> str:
        received = int(counted["bytes"])
        least, most = clip.wire_bytes(chunk_bytes)
        return "" if least <= received <= most else f"{received} bytes, not {least} to {most}"

    return lost


# -- all ----------------------------------------------------------------------------------------


SERVERS: Final = {
    server.name: server
    for server in (
        ours("ours", "Headend: uvloop, a beat of 50 ms"),
        ours("ours-now", "Headend: uvloop, reads at once", "--limits", '{"read_seconds": 0}'),
        ours("ours-asyncio", "Headend: asyncio's loop, a beat of 50 ms", "--loop", "asyncio"),
        BenchServer(
            "nginx",
            "nginx-rtmp (Debian's), one worker",
            _prepare_nginx,
            _nginx,
            lost_wire(NGINX_CHUNK),
        ),
        BenchServer("nms", "node-media-server 4.4.3", _prepare_nms, _nms, lost_wire(NMS_CHUNK)),
        BenchServer("pyrtmp", "pyrtmp 0.3.1, asyncio", _prepare_pyrtmp, _pyrtmp, _lost_bodies),
    )
}
