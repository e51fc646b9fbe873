"""The requests: five kinds, first checked one by one, then sent as load.

`wrk` generates the load: 32 keep-alive connections, each with one request at a time. The cost of a
request is CPU time of the server's processes, not wall time, which on a shared machine depends on
the client.
"""

import argparse
import gzip
import http.client
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from bench.ingest.processes import cpu_ns
from bench.origin.servers import Broken, Published, Serving
from bench.tools import tool

CONNECTIONS: Final = 32
_RANGE_START, _RANGE_STOP = 500_000, 650_000
_DEADLINE_SECONDS: Final = 30.0
_DONE: Final = re.compile(r"^\s*([0-9]+) requests in ", re.MULTILINE)
_WRONG: Final = re.compile(r"^\s*(?:Socket errors|Non-2xx).*$", re.MULTILINE)


@dataclass(frozen=True)
class RequestKind:
    """One kind of request; `least` is Headend's target as a multiple of nginx."""

    name: str
    address: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    status: int = 200
    least: float | None = None
    conditional: bool = False  # sent with the ETag of the server


KINDS: Final = ("segment", "playlist", "long playlist", "not modified", "range")


def kinds(published: Published) -> list[RequestKind]:
    """Return the requests, in the order of `KINDS`."""
    packed = {"Accept-Encoding": "gzip"}
    part = {"Range": f"bytes={_RANGE_START}-{_RANGE_STOP - 1}"}
    return [
        RequestKind("segment", published.segment, least=1.0),
        RequestKind("playlist", published.playlist, packed, least=0.5),
        RequestKind("long playlist", published.long, packed, least=0.5),
        RequestKind("not modified", published.segment, status=304, conditional=True),
        RequestKind("range", published.segment, part, status=206),
    ]


def check(serving: Serving, kind: RequestKind, published: Published) -> dict[str, str]:
    """Send one request, compare the response with the file, and return the headers to send.

    Raises:
        Broken: the response is wrong.
    """
    headers = dict(kind.headers)
    if kind.conditional:
        headers["If-None-Match"] = _ask(serving, kind.address, headers)[1]["etag"]
    status, response_headers, body = _ask(serving, kind.address, headers)
    if response_headers.get("content-encoding") == "gzip":
        body = gzip.decompress(body)
    elif "Accept-Encoding" in headers:
        raise Broken(f"{kind.name}: not compressed")
    whole = (published.objects / kind.address).read_bytes()
    expected = {200: whole, 206: whole[_RANGE_START:_RANGE_STOP], 304: b""}[kind.status]
    if (status, body) != (kind.status, expected):
        raise Broken(f"{kind.name}: {status} with {len(body)} bytes is a wrong answer")
    return headers


def _ask(
    serving: Serving, address: str, headers: Mapping[str, str]
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", serving.port, timeout=_DEADLINE_SECONDS)
    try:
        connection.request("GET", f"/{address}", headers=dict(headers))
        answer = connection.getresponse()
        response_headers = {name.lower(): value for name, value in answer.getheaders()}
        return answer.status, response_headers, answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise Broken(f"no answer for {address}: {error}") from error
    finally:
        connection.close()


def requests_per_cpu_second(
    serving: Serving, kind: RequestKind, headers: Mapping[str, str], seconds: int
) -> float:
    """Send requests for some seconds; return requests per second of the server's CPU time.

    Raises:
        Broken: a request failed, or none was answered.
        ToolMissing: `wrk` is not installed.
    """
    before = cpu_ns(serving.pid)
    answered = wrk(f"http://127.0.0.1:{serving.port}/{kind.address}", headers, seconds)
    spent = cpu_ns(serving.pid) - before
    if not spent:
        raise Broken(f"{kind.name}: the server did nothing")
    return answered / (spent / 1e9)


def rounds_in_turn(
    servers: Mapping[str, Serving],
    compared: Sequence[RequestKind],
    headers: Callable[[str, RequestKind], Mapping[str, str]],
    options: argparse.Namespace,
) -> dict[str, dict[str, list[float]]]:
    """Return requests per CPU second by server and kind, for `options.rounds` rounds.

    Each round begins with the other server, so that none always follows the other.
    """
    figures = {server: {kind.name: list[float]() for kind in compared} for server in servers}
    for number in range(options.rounds):
        for kind in compared:
            for server in list(servers)[:: -1 if number % 2 else 1]:
                sent = headers(server, kind)
                rate = requests_per_cpu_second(servers[server], kind, sent, options.seconds)
                figures[server][kind.name].append(rate)
                print(f"round {number + 1}: {kind.name}, {server}: {rate:.0f}", flush=True)
    return figures


def wrk(url: str, headers: Mapping[str, str], seconds: int) -> int:
    """Send requests over `CONNECTIONS` connections for some seconds; return how many were answered.

    Raises:
        Broken: a request failed, or none was answered.
        ToolMissing: `wrk` is not installed.
    """
    command = [tool("wrk", "wrk"), "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--timeout", "20s"]
    for name, value in headers.items():
        command += ["-H", f"{name}: {value}"]
    process = subprocess.run(
        [*command, url],
        capture_output=True,
        text=True,
        timeout=seconds + _DEADLINE_SECONDS,
        check=False,
    )
    wrong, answered = _WRONG.search(process.stdout), _DONE.search(process.stdout)
    if process.returncode or wrong or answered is None or not int(answered[1]):
        raise Broken(f"{url}: {wrong[0].strip() if wrong else process.stdout + process.stderr}")
    return int(answered[1])
