"""nginx for comparison: one worker on loopback, no access log, temporary files in a folder."""

import grp
import os
import pwd
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.ingest.processes import NoAnswer, child
from bench.tools import tool, wait_for_port

_START_SECONDS: Final = 60.0  # a deadline for busy machines

_CONFIGURATION: Final = """\
{main}
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
{http}
}}
"""


@contextmanager
def running_nginx(
    folder: Path, port: int, *, http: str, main: str = "", packages: str = "nginx-light"
) -> Generator[int]:
    """Run nginx for the length of the block, and yield the ID of its main process.

    `http` and `main` are its configuration within and outside of the block `http`; it has started
    once it accepts connections on `port`. `packages` are the Debian packages that it needs.

    Raises:
        ToolMissing: it is not installed.
        NoAnswer: it does not start.
    """
    program = tool("nginx", packages)
    text = _CONFIGURATION.format(
        main=main,
        http=http,
        folder=folder,
        # The folder's owner can write there; as root, nginx would switch to the user `nobody`.
        user=pwd.getpwuid(os.getuid()).pw_name,
        group=grp.getgrgid(os.getgid()).gr_name,
    )
    settings, log = folder / "nginx.conf", folder / "log"
    settings.write_text(text)
    with child([program, "-e", "stderr", "-p", folder, "-c", settings], log) as running:
        if not wait_for_port(port, running.process, _START_SECONDS):
            raise NoAnswer(f"nginx does not start: {log.read_text()[-2000:]}")
        yield running.process.pid
