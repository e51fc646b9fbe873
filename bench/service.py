"""A complete `headend serve` for the length of a block, on free loopback ports."""

import json
import os
import re
import select
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

_START_SECONDS: Final = 60.0
_METRIC: Final = re.compile(r"^(headend_\w+)\{([^}]*)\} (\S+)$", re.MULTILINE)


class BenchService(msgspec.Struct, frozen=True):
    """A running service: its HTTP and RTMP URLs, the owner's token, and its process."""

    http: str
    rtmp: str
    token: str
    pid: int

    def metrics(self) -> dict[tuple[str, str, str], float]:
        """Return the metrics by name, stream and rendition."""
        request = urllib.request.Request(
            f"{self.http}/metrics", headers={"Authorization": f"Bearer {self.token}"}
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            text = answer.read().decode()
        values: dict[tuple[str, str, str], float] = {}
        for name, labels, value in _METRIC.findall(text):
            fields = dict(re.findall(r'(\w+)="([^"]*)"', labels))
            if "stream" in fields:
                values[name, fields["stream"], fields.get("rendition", "")] = float(value)
        return values

    def add_stream(self, title: str) -> tuple[str, str]:
        """Add a stream, and return its hash and its key."""
        stream = self.send("POST", "/api/projects/1/streams", {"title": title})["stream"]
        return stream["hash"], stream["stream"]

    def send(self, method: str, path: str, body: Mapping[str, object] | None = None) -> Any:
        """Execute an operation of the API as the owner, and return its answer's JSON.

        Raises:
            urllib.error.HTTPError: it was refused.
        """
        request = urllib.request.Request(
            f"{self.http}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Authorization": f"Bearer {self.token}",
                "Content-Type": "application/json",
            },
        )
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            error.add_note(error.read().decode(errors="replace"))
            raise


@contextmanager
def service(folder: Path, settings: Mapping[str, str] | None = None) -> Generator[BenchService]:
    """Run a service with an empty data folder; `settings` are environment variables."""
    command = [
        str(Path(sys.executable).with_name("headend")), "serve", "--data", str(folder / "data"),
        "--http", "127.0.0.1:0", "--rtmp", "127.0.0.1:0", "--rtmps", "",
    ]  # fmt: skip
    environment = {**os.environ, "HEADEND_STORAGE__MIN_FREE_BYTES": "0", **(settings or {})}
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=environment)
    try:
        printed = _read_welcome(process)
        yield BenchService(
            http=_search(r"Watch\s+(\S+)/watch/", printed),
            rtmp=_search(r"Server\s+(\S+)", printed),
            token=(folder / "data" / "owner.token").read_text().strip(),
            pid=process.pid,
        )
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _read_welcome(process: subprocess.Popen[bytes]) -> str:
    assert process.stdout is not None
    printed, deadline = "", time.monotonic() + _START_SECONDS
    while "Owner token" not in printed and time.monotonic() < deadline:
        if select.select([process.stdout], [], [], 0.2)[0]:
            printed += os.read(process.stdout.fileno(), 65536).decode()
    return printed


def _search(pattern: str, printed: str) -> str:
    match = re.search(pattern, printed)
    if match is None:
        raise SystemExit(f"the service did not start: {printed}")
    return match[1]
