"""A real PgBouncer in front of a test's PostgreSQL."""

import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.support.postgres import PostgresServer
from tests.support.waiting import SCALE, poll

_PROGRAM: Final = Path("/usr/sbin/pgbouncer")  # Debian installs it outside of PATH
_MISSING: Final = "the tests need PgBouncer: apt-get install pgbouncer"
_PORT: Final = 6432  # by which its socket is named; it listens on no address


@contextmanager
def running_pgbouncer(
    server: PostgresServer, folder: Path, *, mode: str, ignored: str = ""
) -> Generator[Path]:
    """Run it for the length of the block, and return the folder of its socket.

    `mode` is session or transaction; `ignored` are the parameters of a start that it drops, instead
    of refusing the connection.
    """
    assert _PROGRAM.exists(), _MISSING
    settings = folder / "pgbouncer.ini"
    settings.write_text(
        f"[databases]\n* = host={server.folder} port={server.port} user=postgres\n[pgbouncer]\n"
        f"unix_socket_dir = {folder}\nlisten_port = {_PORT}\nauth_type = any\n"
        f"pool_mode = {mode}\nignore_startup_parameters = {ignored}\n"
    )
    # It refuses to run as root.
    user = server.user
    if user is not None:
        for place in (folder, settings):
            place.chmod(0o777)
    with subprocess.Popen(
        [str(_PROGRAM), "--quiet", str(settings)],
        user=user,
        extra_groups=[] if user else None,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
    ) as process:
        try:
            poll((folder / f".s.PGSQL.{_PORT}").exists, within=10 * SCALE, what="PgBouncer")
            yield folder
        finally:
            process.terminate()
