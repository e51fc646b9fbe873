"""An installation of several hosts: processes that share PostgreSQL, a bucket, and maybe Redis.

They share no folder. A test can kill, restart or freeze each of them, and cut off the network of
one on a separate machine (`tests.support.e2e.network_namespaces`).
"""

import os
import signal
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple, cast

from tests.support.e2e.network_namespaces import NetworkHost
from tests.support.e2e.service import HEADEND, ServiceProcess, run_headend, service
from tests.support.free_ports import free_port, free_ports
from tests.support.postgres import PostgresServer, running_postgres
from tests.support.redis_server import RedisServer, redis_server
from tests.support.sql import run_sql
from tests.support.storage.counted_generations import BEFORE_FIRST, count_generations
from tests.support.storage.s3_server import running_s3


class SharedEngines(NamedTuple):
    """What hosts share: an empty database, and the environment with the other engines."""

    postgres: PostgresServer
    redis: RedisServer
    database: str
    environment: dict[str, str]

    def processes(self) -> tuple[int, ...]:
        """Return the engines' root processes, whose descendants include no hosts."""
        return os.getpid(), self.postgres.processes()[0]


@contextmanager
def running_engines(folder: Path) -> Generator[SharedEngines]:
    """Run PostgreSQL, Redis and an S3 server for the length of the block."""
    with (
        running_postgres() as postgres,
        redis_server(folder) as redis,
        running_s3() as bucket,
        postgres.empty_database() as database,
    ):
        environment = {
            **bucket.settings(bucket.new_bucket("media")),
            "HEADEND_REDIS__URL": redis.url,
            "HEADEND_STORAGE__MIN_FREE_BYTES": "0",
        }
        yield SharedEngines(postgres, redis, database, environment)


class HostProcess:
    """One process, which keeps its ports and data folder over restarts.

    `program` is the version that `start` runs.
    """

    def __init__(
        self,
        role: str,
        data: Path,
        environment: Mapping[str, str],
        arguments: tuple[str, ...],
        program: Path = HEADEND,
        machine: NetworkHost | None = None,
    ) -> None:
        self.name = data.name
        self.program = program
        self.machine = machine
        self._start = partial(
            service,
            data,
            role=role,
            environment=environment,
            arguments=arguments,
            machine=() if machine is None else machine.command,
        )
        self._stack = ExitStack()
        self._running: ServiceProcess | None = None

    @property
    def running(self) -> ServiceProcess:
        """The started process."""
        assert self._running is not None
        return self._running

    def start(self) -> ServiceProcess:
        """Start the process, and wait until it is ready."""
        self._running = self._stack.enter_context(self._start(program=self.program))
        return self._running

    def kill(self) -> None:
        """Kill the process."""
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

    @contextmanager
    def cut_off(self) -> Generator[None]:
        """Silently drop all its traffic for the length of the block."""
        assert self.machine is not None, "it has no machine of its own"
        with self.machine.cut_off():
            yield

    def log_has(self, text: str) -> bool:
        """Return whether the process has logged a text."""
        return text in self.running.log.read_text()


class HostProcesses:
    """Starts hosts, each with its own data folder below `folder`.

    `program` is the version that creates the catalog and runs the hosts. A host runs on the one of
    the `machines` with its name, or on loopback.
    """

    def __init__(
        self,
        folder: Path,
        database: str,
        environment: Mapping[str, str],
        program: Path = HEADEND,
        machines: Mapping[str, NetworkHost] | None = None,
    ) -> None:
        self.program = program
        self._folder = folder
        self._database = database
        self._machines = machines or {}
        self._environment = {**environment, "HEADEND_DATABASE__URL": database}
        self._stack = ExitStack()
        self._rtmp = dict(zip("abc", free_ports(3), strict=True))
        self.migrate("api")  # its data folder then has the owner's token
        count_generations(database, *range(1, 10))

    def migrate(self, name: str, *, refused: str = "") -> None:
        """Run `headend migrate` on a host; with `refused` it must refuse in these words."""
        done = run_headend(
            *("migrate", "--data", str(self._folder / name)),
            environment=self._environment,
            program=self.program,
        )
        assert (done.returncode != 0) is bool(refused), done.stderr
        assert refused in done.stderr

    def __enter__(self) -> "HostProcesses":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def port(self, name: str) -> int:
        """Return a host's RTMP port."""
        return self._rtmp[name]

    def url(self, name: str, stream: str, *, slot: int = 0) -> str:
        """Return the URL of a slot on an ingest host."""
        application = f"live-backup-{slot}" if slot else "live"
        return f"rtmp://{self._listen(name, self._rtmp[name])}/{application}/{stream}"

    def ingest(self, name: str, **more: str) -> HostProcess:
        """Start an ingest host ("a", "b" or "c"); `more` are its own settings."""
        own_service = {
            "HEADEND_HOSTS__NAME": name,
            "HEADEND_HOSTS__RELAY_LISTEN": self._listen(name, 0),
            **more,
        }
        ports = ("--rtmp", self._listen(name, self._rtmp[name]), "--rtmps", self._listen(name, 0))
        return self._started(name, "ingest", ports, own_service)

    def api(self, name: str = "api", *, http: str = "") -> HostProcess:
        """Start a host of the API and the origin, on a free port or at HOST:PORT."""
        listen = http or self._listen(name, free_port())
        return self._started(name, "api", ("--http", listen, *self._elsewhere()))

    def transcode(self, name: str) -> HostProcess:
        """Start a transcode host."""
        return self._started(name, "transcode", self._elsewhere())

    def owner(self, stream: int) -> tuple[str, int] | None:
        """Return the name of the host that owns a stream, and the number of owners so far."""
        rows = run_sql(
            self._database,
            f"SELECT hosts.name, generation - {BEFORE_FIRST} FROM stream_owners"
            f" JOIN hosts ON hosts.id = host_id WHERE stream_id = {stream}",
        )
        return cast("tuple[str, int]", rows[0]) if rows else None

    def _listen(self, name: str, port: int) -> str:
        machine = self._machines.get(name)
        return f"{'127.0.0.1' if machine is None else machine.address}:{port}"

    def _elsewhere(self) -> tuple[str, ...]:
        return ("--rtmp", self._listen("a", self._rtmp["a"]), "--rtmps", self._listen("a", 1936))

    def _started(
        self,
        name: str,
        role: str,
        ports: tuple[str, ...],
        own_service: Mapping[str, str] | None = None,
    ) -> HostProcess:
        environment = {**self._environment, **(own_service or {})}
        machine = self._machines.get(name)
        host = HostProcess(role, self._folder / name, environment, ports, self.program, machine)
        self._stack.callback(host.stop)
        host.start()
        return host
