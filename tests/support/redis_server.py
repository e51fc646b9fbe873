"""A real Redis without persistence, which tests may stop and start again."""

import shutil
import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from redis import Redis
from redis.exceptions import RedisError

from headend.install.certificates import CertificateFiles
from tests.support.free_ports import free_port
from tests.support.waiting import poll


class RedisServer:
    """A server that listens on an address and port, and on a socket in a folder.

    With `certificates` the port speaks TLS alone, and the URL names their authority.
    """

    def __init__(
        self, port: int, folder: Path, address: str = "127.0.0.1",
        certificates: CertificateFiles | None = None,
    ) -> None:  # fmt: skip
        self.port = port
        self.address = address
        self.url = f"redis://{address}:{port}/0"
        self._listen = ["--port", str(port)]
        if certificates is not None:
            self.url = f"rediss://{address}:{port}/0?ssl_ca_certs={certificates.authority}"
            self._listen = [
                "--port", "0", "--tls-port", str(port), "--tls-auth-clients", "no",
                "--tls-cert-file", str(certificates.leaf),
                "--tls-key-file", str(certificates.leaf_key),
                "--tls-ca-cert-file", str(certificates.authority),
            ]  # fmt: skip
        self.socket = folder / "redis.socket"
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the server, and wait until it responds."""
        program = shutil.which("redis-server")
        assert program is not None, "redis-server is missing: apt-get install redis-server"
        self._process = subprocess.Popen(
            [program, *self._listen, "--bind", self.address, "--save", "",
             "--protected-mode", "no", "--dir", self._folder, "--unixsocket", self.socket],
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        poll(self._answers, within=10, what="Redis")

    def stop(self) -> None:
        """Kill the server, if it runs; its data are lost."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def freeze(self) -> None:
        """Stop responding until `thaw`, with all connections open."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Resume after `freeze`."""
        self._signal(signal.SIGCONT)

    def command(self, *words: str) -> Any:  # Any: as Redis answers
        """Execute a command, and return its result."""
        client = Redis(unix_socket_path=str(self.socket))
        try:
            return client.execute_command(*words)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  # redis-py annotates in part only
        finally:
            client.close()

    def _signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def _answers(self) -> bool:
        try:
            return bool(self.command("PING"))
        except RedisError:
            return False


@contextmanager
def redis_server(
    folder: Path,
    port: int | None = None,
    *,
    address: str = "127.0.0.1",
    certificates: CertificateFiles | None = None,
) -> Generator[RedisServer]:
    """Run a server for the length of the block, on a free port unless one is given."""
    server = RedisServer(free_port() if port is None else port, folder, address, certificates)
    server.start()
    try:
        yield server
    finally:
        server.stop()
