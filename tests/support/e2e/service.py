"""A complete Headend service: the real command in its own process, on free loopback ports."""

import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
import tty
import urllib.error
import urllib.request
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, cast

from headend.install.installation import DATABASE, create_data_folder
from tests.support.forks import Process, fork
from tests.support.sql import migrated
from tests.support.waiting import SCALE

START_SECONDS = max(60.0, 20 * SCALE)  # a busy machine that runs a bench has no scale
_FOR_TESTS = "HEADEND_TEST_"
HEADEND = Path(sys.executable).with_name("headend")
# `make test` forks services to save the imports, which are most of a start.
_MAY_FORK = os.environ.get("HEADEND_TEST_FORKS") == "1"
_DATABASE_URL = "HEADEND_DATABASE__URL"
_COMMAND = "tests.support.e2e.forked_commands:run_command"
# Set for a fork that starts its engines itself.
OWN_ENGINES = f"{_FOR_TESTS}OWN_ENGINES"
# Does what systemd does with the sockets of a unit, and becomes the command (sd_listen_fds(3)).
_PASSING = """
import fcntl, os, sys
count = int(sys.argv[1])
kept = [fcntl.fcntl(int(held), fcntl.F_DUPFD, 100) for held in sys.argv[2:2 + count]]
for number, held in enumerate(kept, 3):
    os.dup2(held, number)
os.environ |= {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": str(count)}
os.execv(sys.argv[2 + count], sys.argv[2 + count:])
"""
# The last line that each role prints once it is ready.
LAST_LINE = {"ingest": rb"Status .*\n", "transcode": rb"is ready\.\n"}


@dataclass(frozen=True)
class Answer:
    """An HTTP response."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> dict[str, object]:
        return json.loads(self.body)


def fetch(
    url: str,
    *,
    method: str = "GET",
    token: str | None = None,
    body: object = None,
    data: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    timeout: float = 10 * SCALE,
) -> Answer:
    """Send a request, and return the response, also for errors.

    `body` is sent as JSON, `data` unchanged. `timeout` is the read timeout in seconds.
    """
    request = urllib.request.Request(url, data=data, method=method, headers=dict(headers or {}))
    if token is not None:
        request.add_header("Authorization", f"Bearer {token}")
    if body is not None:
        request.data = json.dumps(body).encode()
        request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return Answer(answer.status, dict(answer.headers), answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, dict(error.headers), error.read())


def without_slate(headend: "ServiceProcess") -> None:
    """Let runs end with their encoders' goodbye, so that they contain encoders' media only."""
    settle(headend, goodbye_seconds=0)


def settle(headend: "ServiceProcess", **failover: object) -> None:
    """Set the failover's settings of the first project."""
    body = {"failover": failover}
    address = f"{headend.http}/api/projects/1/settings"
    answer = fetch(address, method="PUT", token=headend.token, body=body)
    assert answer.status == 200, answer.text


@dataclass
class ServiceProcess:
    """A running service, and the stream and addresses that it printed at its first start."""

    process: Process
    data: Path
    log: Path
    printed: str
    started_seconds: float
    number: int = 1  # of the printed stream

    def _printed(self, pattern: str) -> str:
        match = re.search(pattern, self.printed)
        assert match is not None, self.printed
        return match[1]

    @property
    def watch(self) -> str:
        return self._printed(r"Watch\s+(\S+)")

    @property
    def console(self) -> str:
        """The console's URL, with the printed single-use sign-in link if there is one."""
        return self._printed(r"Console\s+(\S+)")

    @property
    def http(self) -> str:
        return self.watch.rsplit("/watch/", 1)[0]

    @property
    def hash(self) -> str:
        return self.watch.rsplit("/", 1)[1]

    @property
    def server(self) -> str:
        return self._printed(r"Server\s+(\S+)")

    @property
    def secure_server(self) -> str:
        return self._printed(r"Over TLS\s+(\S+)")

    @property
    def authority(self) -> str:
        return self._printed(r"trust\s+(\S+)")

    @property
    def key(self) -> str:
        return self._printed(r"Stream Key\s+(\S+)")

    @property
    def status(self) -> str:
        return self._printed(r"Status\s+(\S+)/readyz")

    @property
    def token(self) -> str:
        return (self.data / "owner.token").read_text().strip()

    @property
    def playlist(self) -> str:
        return f"{self.http}/live/{self.hash}/index.m3u8"

    def port_of(self, url: str) -> int:
        return int(url.split("://")[1].split("/")[0].rsplit(":", 1)[1])

    def add_stream(self, title: str) -> dict[str, object]:
        """Add a stream through the API, and return its record."""
        answer = fetch(
            f"{self.http}/api/projects/1/streams",
            method="POST",
            token=self.token,
            body={"title": title},
        )
        assert answer.status == 201, answer.text
        stream = answer.json["stream"]
        assert isinstance(stream, dict)
        return stream  # pyright: ignore[reportUnknownVariableType]  # JSON

    def another(self, title: str = "Of its own") -> "ServiceProcess":
        """Return this service with a new stream as its stream."""
        stream = self.add_stream(title)
        printed = self.printed.replace(self.key, str(stream["stream"]))
        printed = printed.replace(self.hash, str(stream["hash"]))
        return replace(self, printed=printed, number=cast("int", stream["id"]))

    def has_shed(self) -> bool:
        """Return whether encoded rungs of the stream were shed, as on a busy machine."""
        return f'event="rung shed" stream={self.hash}' in self.log.read_text()

    def delete_stream(self) -> None:
        """Delete the stream, also while it is live; it may be gone already."""
        address = f"{self.http}/api/streams/{self.number}"
        answer = fetch(address, method="DELETE", token=self.token)
        assert answer.status in {204, 404}, answer.text

    def empty_trash(self, trash: str = "/api/projects/1/trash") -> None:
        """Remove all for good that is in a trash."""
        data = fetch(f"{self.http}{trash}", token=self.token).json["data"]
        for item in cast("list[dict[str, object]]", data):
            address = f"{self.http}/api/trash/{item['id']}"
            assert fetch(address, method="DELETE", token=self.token).status == 204

    def stop(self, number: int = signal.SIGTERM, *, within: float = 30) -> int:
        self.process.send_signal(number)
        return self.process.wait(timeout=within * SCALE)


def run_headend(
    *command: str, environment: Mapping[str, str] | None = None, program: Path = HEADEND
) -> subprocess.CompletedProcess[str]:
    """Run `headend`, or another version of it, to its end; it may be a fork, like a service."""
    arguments = [str(program), *command]
    with TemporaryFile("w+") as output, TemporaryFile("w+") as errors:
        process = start_headend(arguments, environment or {}, output, errors)
        try:
            status = process.wait(60 * SCALE)
        finally:
            process.kill()
        for file in (output, errors):
            file.seek(0)
        return subprocess.CompletedProcess(arguments, status, output.read(), errors.read())


def start_headend(
    arguments: list[str], environment: Mapping[str, str], output: IO[str], errors: IO[str]
) -> Process:
    """Start `headend`, or another version of it; it may be a fork, like a service."""
    whole = {**os.environ, **environment}
    if _MAY_FORK and arguments[0] == str(HEADEND):
        with Path(os.devnull).open("rb") as nothing:
            files = (nothing.fileno(), output.fileno(), errors.fileno())
            return fork(_COMMAND, arguments, files, whole)
    return subprocess.Popen(arguments, stdout=output, stderr=errors, env=whole)


@contextmanager
def service(
    data: Path,
    *,
    role: str = "serve",
    environment: Mapping[str, str] | None = None,
    arguments: tuple[str, ...] = (),
    terminal: bool = True,
    descriptors: int | None = None,
    program: Path = HEADEND,
    machine: tuple[str, ...] = (),
    may_fork: bool = _MAY_FORK,
    own_engines: bool = False,
    sockets: Sequence[socket.socket] = (),
) -> Generator[ServiceProcess]:
    """Run `headend serve` (or another role) on a data folder for the length of the block.

    It prints to a terminal, as for a newcomer; to anything else it does not print the stream key.
    It may open `descriptors` files and sockets, or as many as the test. `program` is the command,
    by default this version's; `machine` is what runs a command on another machine (see
    `tests.support.e2e.network_namespaces`). With `may_fork`, the service and its engines may be
    forks that have imported their modules (see `tests.support.forks`); tests of the start itself
    pass False. With `own_engines`, the engines are children of the service. It gets `sockets` as a
    service manager passes those that it holds.
    """
    log = data.parent / f"{data.name}{'' if role == 'serve' else f'-{role}'}.log"
    limit = [] if descriptors is None else ["prlimit", f"--nofile={descriptors}:{descriptors}"]
    held = [str(sock.fileno()) for sock in sockets]
    passing = [sys.executable, "-c", _PASSING, str(len(held)), *held] if held else []
    command = [
        *machine,
        *limit,
        *passing,
        str(program),
        role,
        "--data",
        str(data),
        "--http",
        "127.0.0.1:0",
        "--rtmp",
        "[::]:0",
        "--rtmps",
        "[::]:0",
        "--status",
        "127.0.0.1:0",
        *arguments,
    ]
    clean = {n: value for n, value in os.environ.items() if not n.startswith(_FOR_TESTS)}
    may_fork = may_fork and command[0] == str(HEADEND)
    if may_fork and own_engines:
        clean[OWN_ENGINES] = "1"
    if may_fork and role == "serve" and _DATABASE_URL not in {*clean, *(environment or {})}:
        _spare_tables(data)
    began = time.monotonic()
    reading, printing = os.openpty() if terminal else os.pipe()
    if terminal:
        tty.setraw(printing)  # raw mode keeps the line endings
    with log.open("a") as errors:
        process = _started(
            command,
            clean,
            environment or {},
            printing,
            os.fdopen(reading),
            errors,
            may_fork=may_fork,
            descriptors=tuple(sock.fileno() for sock in sockets),
        )
    os.close(printing)
    try:
        printed = _read_welcome(process, log, LAST_LINE.get(role, rb"Owner token.*\n"))
        yield ServiceProcess(process, data, log, printed, time.monotonic() - began)
    finally:
        if process.poll() is None:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=30 * SCALE)
            process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def _spare_tables(data: Path) -> None:
    """Create the empty database that the service would create, which takes ten times the CPU.

    The service does everything else of a first start.
    """
    if not data.exists():
        create_data_folder(data)
        migrated(data / DATABASE).chmod(0o600)


def _started(
    command: list[str],
    clean: Mapping[str, str],
    environment: Mapping[str, str],
    printing: int,
    reading: IO[str],
    errors: IO[str],
    *,
    may_fork: bool,
    descriptors: tuple[int, ...],
) -> Process:
    """Start a command whose output can be read from the descriptor `reading`."""
    whole = {**clean, **environment}
    # The interpreter and libraries read some variables only when they start.
    if may_fork and all(map(_is_ours, environment)):
        with Path(os.devnull).open("rb") as nothing:
            files = (nothing.fileno(), printing, errors.fileno())
            return fork(_COMMAND, command, files, whole, reading)
    process = subprocess.Popen(
        command, stdout=printing, stderr=errors, text=True, env=whole, pass_fds=descriptors
    )
    process.stdout = reading
    return process


def _is_ours(variable: str) -> bool:
    return variable.startswith(("HEADEND_", "AWS_"))


def _read_welcome(process: Process, log: Path, last: bytes) -> str:
    """Read the service's output up to the last line of its welcome."""
    assert process.stdout is not None
    deadline = time.monotonic() + START_SECONDS
    printed = b""
    while time.monotonic() < deadline:
        if not select.select([process.stdout], [], [], 0.2)[0]:
            continue
        try:
            data = os.read(process.stdout.fileno(), 65536)
        except OSError:  # the program has closed the terminal
            data = b""
        printed += data
        if not data or re.search(last, printed):
            break
    if re.search(last, printed):
        return printed.decode()
    raise AssertionError(f"no welcome: {printed.decode()}\n{log.read_text()}")
