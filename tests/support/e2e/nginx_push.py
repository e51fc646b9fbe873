"""nginx-rtmp as a relay: what an encoder publishes to it, it pushes on to a service.

A push begins once its connection is made, wherever the encoder's picture is by then.
"""

import getpass
import socket
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.support.free_ports import free_port
from tests.support.waiting import poll

_MODULE: Final = Path("/usr/lib/nginx/modules/ngx_rtmp_module.so")
_CONFIGURATION: Final = """
load_module {module};
user {user};
daemon off;
worker_processes 1;
pid {folder}/pid;
events {{ worker_connections 64; }}
rtmp {{ server {{
    listen 127.0.0.1:{port};
    application push {{
        live on;
        push {target};
        push_reconnect 1s;
    }}
}} }}
"""


@contextmanager
def pushing(folder: Path, target: str) -> Generator[str]:
    """Push to an address with a key for the length of the block; yield where encoders publish."""
    assert _MODULE.exists(), "nginx-rtmp is missing: apt-get install nginx-light libnginx-mod-rtmp"
    port, settings, log = free_port(), folder / "nginx.conf", folder / "error.log"
    settings.write_text(
        _CONFIGURATION.format(
            module=_MODULE, user=getpass.getuser(), folder=folder, port=port, target=target
        )
    )
    command = ["/usr/sbin/nginx", "-e", log, "-p", folder, "-c", settings]
    with log.open("ab") as errors, subprocess.Popen(command, stderr=errors) as process:
        try:
            poll(lambda: process.poll() is not None or _accepts(port), within=20, what="nginx-rtmp")
            assert process.poll() is None, log.read_text()
            yield f"rtmp://127.0.0.1:{port}/push/source"
        finally:
            process.terminate()


def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
