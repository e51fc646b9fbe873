"""Foreign WebSocket clients: pusher-js and Laravel Echo, run under Node."""

import json
import shutil
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, cast

from tests.support.api.pusher_client import signed_query
from tests.support.e2e.service import SCALE, ServiceProcess, fetch
from tests.support.npm_packages import install_packages

SOURCE = Path(__file__).parents[2] / "e2e" / "node"
EVENTS = ("live", "progress", "completed", "failed", "greeting")

ClientOutput = dict[str, Any]  # Any: the content of the client's output lines


def _node(name: str) -> str:
    program = shutil.which(name)
    assert program is not None, f"{name} is missing: apt-get install nodejs npm"
    return program


def installed(folder: Path) -> Path:
    """Install the client and its locked packages in a folder."""
    for file in ("package.json", "package-lock.json", ".npmrc", "client.mjs", "upload.mjs"):
        shutil.copy(SOURCE / file, folder)
    install_packages(folder, [_node("npm")], "e2e")
    return folder


class WebSocketProgram:
    """A running client; `output` are its output lines so far."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.output: list[ClientOutput] = []
        self._process = process
        self._more = threading.Condition()
        self._reader = threading.Thread(target=self._read, name="client")
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._more:
                self.output.append(json.loads(line))
                self._more.notify_all()

    def wait(
        self, condition: Callable[[list[ClientOutput]], bool], seconds: float, what: str
    ) -> None:
        """Wait until the output meets `condition`; the `TimeoutError` says `what` is missing."""
        deadline = time.monotonic() + seconds * SCALE
        with self._more:
            while not condition(self.output):
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    raise TimeoutError(f"no {what}: {self.output}")
                self._more.wait(remaining)

    def wait_for(
        self, kind: str, seconds: float = 20, *, count: int = 1, **facts: object
    ) -> ClientOutput:
        """Wait for `count` lines of a kind with these facts, and return the last one."""
        self.wait(
            lambda received: len(_like(received, kind, facts)) >= count,
            seconds,
            f"{count} {kind} {facts}",
        )
        return _like(self.output, kind, facts)[count - 1]

    def events(self, channel: str) -> list[ClientOutput]:
        """Return the data of a channel's events so far, oldest first."""
        return [
            cast("ClientOutput", each["data"])
            for each in self.output
            if each["kind"] == "event" and each["channel"] == channel
        ]

    def close(self) -> None:
        """End the client."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(timeout=10 * SCALE)
        finally:
            self._process.kill()
            self._process.wait()
            self._reader.join()
            if self._process.stdout is not None:
                self._process.stdout.close()


def _like(
    received: Sequence[ClientOutput], kind: str, facts: dict[str, object]
) -> list[ClientOutput]:
    return [
        each
        for each in received
        if each["kind"] == kind and all(each.get(name) == value for name, value in facts.items())
    ]


def options(headend: ServiceProcess, *, token: str | None = None) -> ClientOutput:
    """Return the client options from the documentation of the broadcaster."""
    client_options: ClientOutput = {
        "cluster": "headend",
        "wsHost": "127.0.0.1",
        "wsPort": headend.port_of(headend.http),
        "forceTLS": False,
        "enabledTransports": ["ws", "wss"],
        "disableStats": True,
    }
    if token is not None:
        authorization = {"Authorization": f"Bearer {token}"}
        client_options["channelAuthorization"] = {
            "endpoint": f"{headend.http}/broadcasting/auth",
            "transport": "ajax",
            "headers": authorization,
        }
        # Laravel Echo's names of the same options.
        client_options["authEndpoint"] = f"{headend.http}/broadcasting/auth"
        client_options["auth"] = {"headers": authorization}
    return client_options


def key_of(headend: ServiceProcess) -> str:
    """Return the broadcaster's key from a stream's record."""
    answer = fetch(f"{headend.http}/api/projects/1/streams", token=headend.token)
    records = cast("list[ClientOutput]", answer.json["data"])
    return cast("str", records[0]["web_socket_key"])


def credentials(headend: ServiceProcess) -> dict[str, str]:
    """Return app, key and secret from the operator's command."""
    return _credentials(headend.data)


@cache
def _credentials(data: Path) -> dict[str, str]:
    """Run the command once per data folder: it takes seconds of CPU."""
    command = [Path(sys.executable).with_name("headend"), "broadcaster", "--data", data]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60 * SCALE, check=True)
    return dict(line.split("\t") for line in done.stdout.splitlines())


def greet(headend: ServiceProcess, channel: str, words: str) -> None:
    """Publish a greeting."""
    publish(headend, credentials(headend), channel, "greeting", {"words": words})


def publish(
    headend: ServiceProcess, app: dict[str, str], channel: str, name: str, data: object
) -> None:
    """Publish an event over HTTP, signed with the credentials of an `app`."""
    event = {"name": name, "channel": channel, "data": json.dumps(data)}
    body = json.dumps(event).encode()
    path = f"/apps/{app['app']}/events"
    query = signed_query(path, body, app["key"], app["secret"], int(time.time()))
    request = urllib.request.Request(f"{headend.http}{path}?{query}", data=body, method="POST")
    with urllib.request.urlopen(request, timeout=10 * SCALE) as answer:
        assert answer.status == 200


@contextmanager
def client(
    folder: Path,
    headend: ServiceProcess,
    *channels: str,
    library: str = "pusher",
    token: str | None = None,
    key: str | None = None,
) -> Generator[WebSocketProgram]:
    """Run a client for the length of the block; `folder` is a result of `installed`."""
    order = {
        "library": library,
        "key": key or key_of(headend),
        "options": options(headend, token=token),
        "channels": channels,
        "events": EVENTS,
    }
    process = subprocess.Popen(
        [_node("node"), "client.mjs", json.dumps(order)],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    running = WebSocketProgram(process)
    try:
        yield running
    finally:
        running.close()
