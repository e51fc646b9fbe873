"""An installation of several hosts: processes that share PostgreSQL, a bucket and nothing else."""

import os
import signal
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from tests.support.e2e.service import Running, service
from tests.support.free_ports import free_ports
from tests.support.sql import run_sql

__all__ = ["Hosts", "frozen"]

_HEADEND = str(Path(sys.executable).with_name("headend"))


class Hosts:
    """Starts the hosts; each has a data folder of its own below `folder`."""

    def __init__(self, folder: Path, database: str, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._database = database
        self._environment = {**environment, "HEADEND_DATABASE__URL": database}
        done = subprocess.run(
            [_HEADEND, "migrate", "--data", str(folder / "api")],
            env={**os.environ, **self._environment}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        self._ports = dict(zip("abc", free_ports(3), strict=True))

    def url(self, name: str, stream: str, *, slot: int = 0) -> str:
        """Return the address of a slot at a host."""
        application = f"live-backup-{slot}" if slot else "live"
        return f"rtmp://127.0.0.1:{self._ports[name]}/{application}/{stream}"

    @contextmanager
    def ingest(self, name: str) -> Generator[Running]:
        """Run a host that receives streams, "a", "b" or "c"."""
        own = {"HEADEND_HOSTS__NAME": name, "HEADEND_HOSTS__RELAY_LISTEN": "127.0.0.1:0"}
        ports = ("--rtmp", f"127.0.0.1:{self._ports[name]}", "--rtmps", "127.0.0.1:0")
        with service(
            self._folder / name,
            role="ingest",
            environment={**self._environment, **own},
            arguments=ports,
        ) as running:
            yield running

    @contextmanager
    def api(self, name: str = "api") -> Generator[Running]:
        """Run a host that serves viewers and callers."""
        ports = ("--rtmp", f"127.0.0.1:{self._ports['a']}", "--rtmps", "127.0.0.1:1936")
        with service(
            self._folder / name, role="api", environment=self._environment, arguments=ports
        ) as running:
            yield running

    def owner(self, stream: int) -> tuple[str, int] | None:
        """Return the name of the host that owns a stream, and its generation."""
        found = run_sql(
            self._database,
            "SELECT hosts.name, generation FROM stream_owners JOIN hosts ON hosts.id = host_id"
            f" WHERE stream_id = {stream}",
        )
        return cast("tuple[str, int]", found[0]) if found else None


@contextmanager
def frozen(host: Running) -> Generator[None]:
    """Stop a host's process for the length of the block; its connections stay open."""
    host.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        host.process.send_signal(signal.SIGCONT)
