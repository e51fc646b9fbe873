"""A complete `headend serve` for the length of a block, and what benches ask of it."""

import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.support.e2e.service import ServiceProcess, fetch, service

_LOOPBACK: Final = ("--rtmp", "127.0.0.1:0", "--rtmps", "")
_METRIC: Final = re.compile(r"^(headend_\w+)\{([^}]*)\} (\S+)$", re.MULTILINE)


@contextmanager
def bench_service(
    folder: Path, settings: Mapping[str, str] | None = None
) -> Generator[ServiceProcess]:
    """Run a service with an empty data folder; `settings` are environment variables."""
    environment = {"HEADEND_STORAGE__MIN_FREE_BYTES": "0", **(settings or {})}
    with service(folder / "data", environment=environment, arguments=_LOOPBACK) as running:
        yield running


def send(
    running: ServiceProcess, method: str, path: str, body: Mapping[str, object] | None = None
) -> Any:
    """Execute an operation of the API as the owner, and return its answer's JSON."""
    answer = fetch(f"{running.http}{path}", method=method, token=running.token, body=body)
    if answer.status >= 400:
        raise SystemExit(f"{method} {path}: {answer.status} {answer.text}")
    return answer.json


def metrics(running: ServiceProcess) -> dict[tuple[str, str, str], float]:
    """Return the metrics by name, stream and rendition."""
    values: dict[tuple[str, str, str], float] = {}
    text = fetch(f"{running.http}/metrics", token=running.token).text
    for name, labels, value in _METRIC.findall(text):
        fields = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        if "stream" in fields:
            values[name, fields["stream"], fields.get("rendition", "")] = float(value)
    return values
