"""An installation of several hosts: processes that share PostgreSQL, a bucket, perhaps Redis.

They have no folder in common. Each may be killed and started again, or frozen for a while.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import cast

from tests.support.e2e.service import Running, service
from tests.support.free_ports import free_port, free_ports
from tests.support.sql import run_sql
from tests.support.storage.counted_generations import BEFORE_FIRST, count_generations

__all__ = ["Host", "Hosts"]

_HEADEND = str(Path(sys.executable).with_name("headend"))


class Host:
    """One process, which comes back with the same ports and data folder."""

    def __init__(
        self,
        role: str,
        data: Path,
        environment: Mapping[str, str],
        arguments: tuple[str, ...],
    ) -> None:
        self.name = data.name
        self._start = partial(
            service, data, role=role, environment=environment, arguments=arguments
        )
        self._stack = ExitStack()
        self._running: Running | None = None

    @property
    def running(self) -> Running:
        """The process, once it has started."""
        assert self._running is not None
        return self._running

    def start(self) -> Running:
        """Start the process, and wait until it is ready."""
        self._running = self._stack.enter_context(self._start())
        return self._running

    def kill(self) -> None:
        """End the process without a word."""
        self.running.process.send_signal(signal.SIGKILL)
        self.running.process.wait()
        self._stack.close()

    def stop(self) -> None:
        """Stop the process, if it runs."""
        self._stack.close()

    @contextmanager
    def frozen(self) -> Generator[None]:
        """Stop the process for the length of the block; its connections stay open."""
        self.running.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.running.process.send_signal(signal.SIGCONT)

    def log_has(self, text: str) -> bool:
        """Say whether the process has logged a text."""
        return text in self.running.log.read_text()


class Hosts:
    """Starts the hosts; each has a data folder of its own below `folder`."""

    def __init__(self, folder: Path, database: str, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._database = database
        self._environment = {**environment, "HEADEND_DATABASE__URL": database}
        self._stack = ExitStack()
        self._rtmp = dict(zip("abc", free_ports(3), strict=True))
        for name in ("api", "api-2", "api-3"):  # the owner's token is where the catalog was made
            done = subprocess.run(
                [_HEADEND, "migrate", "--data", str(folder / name)],
                env={**os.environ, **self._environment}, capture_output=True, text=True,
                check=False,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
        count_generations(database, *range(1, 10))

    def __enter__(self) -> "Hosts":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def url(self, name: str, stream: str, *, slot: int = 0) -> str:
        """Return the address of a slot at a host that receives streams."""
        application = f"live-backup-{slot}" if slot else "live"
        return f"rtmp://127.0.0.1:{self._rtmp[name]}/{application}/{stream}"

    def ingest(self, name: str) -> Host:
        """Start a host that receives streams: "a", "b" or "c"."""
        own = {"HEADEND_HOSTS__NAME": name, "HEADEND_HOSTS__RELAY_LISTEN": "127.0.0.1:0"}
        ports = ("--rtmp", f"127.0.0.1:{self._rtmp[name]}", "--rtmps", "127.0.0.1:0")
        return self._started(name, "ingest", ports, own)

    def api(self, name: str = "api", *, http: str = "") -> Host:
        """Start a host that serves viewers and callers, on a free port or at HOST:PORT."""
        listen = http or f"127.0.0.1:{free_port()}"
        return self._started(name, "api", ("--http", listen, *self._elsewhere()))

    def transcode(self, name: str) -> Host:
        """Start a host that transcodes uploaded files."""
        return self._started(name, "transcode", self._elsewhere())

    def owner(self, stream: int) -> tuple[str, int] | None:
        """Return the name of the host that owns a stream, and how many owners it has had."""
        found = run_sql(
            self._database,
            f"SELECT hosts.name, generation - {BEFORE_FIRST} FROM stream_owners"
            f" JOIN hosts ON hosts.id = host_id WHERE stream_id = {stream}",
        )
        return cast("tuple[str, int]", found[0]) if found else None

    def _elsewhere(self) -> tuple[str, ...]:
        return ("--rtmp", f"127.0.0.1:{self._rtmp['a']}", "--rtmps", "127.0.0.1:1936")

    def _started(
        self, name: str, role: str, ports: tuple[str, ...], own: Mapping[str, str] | None = None
    ) -> Host:
        environment = {**self._environment, **(own or {})}
        host = Host(role, self._folder / name, environment, ports)
        self._stack.callback(host.stop)
        host.start()
        return host
