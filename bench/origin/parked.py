"""Thousands of blocking playlist requests, answered together (RFC 8216bis, section 6.2.5.2).

Each of the connections asks for the playlist with the next part; the server publishes that when all
wait. Measured are the time from the publication to each answer, as the client sees it, and the
server's memory and CPU time. The first round opens the connections, the others use them again, as
players do. The client is one thread with epoll and shares the machine with the server, so its own
work is part of the times.
"""

import gzip
import os
import select
import signal
import socket
import statistics
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from bench.ingest.processes import Child, child, cpu_ns, rss_bytes
from bench.origin.servers import ROOT, START_SECONDS, Broken
from bench.tools import verdict
from headend.http.descriptors import raise_limit

Facts = dict[str, Any]  # a line of JSON
SERVERS: Final = ("ours", "plain")
_ROUNDS: Final = 3
_DEADLINE_SECONDS: Final = 60.0
_SETTLED_SECONDS: Final = 0.3  # without CPU time of the server
_REQUEST: Final = (
    b"GET %s HTTP/1.1"
    b"\r\nHost: 127.0.0.1\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64) Chrome/140.0 Safari/537.36"
    b"\r\nAccept: */*\r\nAccept-Encoding: gzip, deflate, br\r\nAccept-Language: en-GB,en;q=0.9"
    b"\r\nOrigin: https://video.example.org\r\nReferer: https://video.example.org/\r\n\r\n"
)
# Targets: a part lasts 500 ms, and a player holds back three of them.
_MEDIAN_MS: Final = 300.0
_LAST_MS: Final = 1000.0
_BYTES_EACH: Final = 12_000


@dataclass(frozen=True)
class ParkedFigures:
    """What one server needed for `count` parked requests; each round has its own times.

    `memory` is the resident memory, in bytes, that the parked connections added in the first round,
    `parking_cpu` and `answering_cpu` are seconds per round (the first also accepts connections).
    """

    count: int
    median_ms: Sequence[float]
    last_ms: Sequence[float]
    memory: int
    parking_cpu: Sequence[float]
    answering_cpu: Sequence[float]


def report(count: int) -> int:
    """Measure both servers, print the table, and return 1 if a target was missed, else 0.

    Raises:
        NoAnswer: a server does not start, or an answer is wrong.
    """
    raise_limit()
    figures = {server: measure(server, count) for server in SERVERS}
    print(f"\n{count} parked requests, {_ROUNDS} rounds\n")
    print(table(figures))
    return verdict(missed(figures["ours"]), "Every target is kept.")


def measure(server: str, count: int) -> ParkedFigures:
    """Park requests at a server and have them answered.

    Raises:
        NoAnswer: it does not start, or an answer is wrong.
    """
    with TemporaryDirectory(prefix="headend-bench-") as folder, _started(server, folder) as running:
        pid, facts = running.process.pid, _listening(running)
        before, memory = rss_bytes(pid), 0
        median_ms, last_ms, parking, answering = (list[float]() for _ in range(4))
        with _connections(int(facts["port"]), count) as (sockets, poll):
            for number in range(_ROUNDS):
                cpu = cpu_ns(pid)
                for client in sockets:
                    client.sendall(_REQUEST % facts["target"].encode())
                _settle(pid)
                if number == 0:
                    cpu, memory = 0, rss_bytes(pid) - before
                parked = cpu_ns(pid)
                parking.append((parked - cpu) / 1e9)
                times, facts = _answered(running, sockets, poll, facts["part"])
                answering.append((cpu_ns(pid) - parked) / 1e9)
                median_ms.append(statistics.median(times))
                last_ms.append(max(times))
                print(f"{server}, round {number + 1}: last answer after {max(times):.0f} ms")
        return ParkedFigures(count, median_ms, last_ms, memory, parking, answering)


@contextmanager
def _started(server: str, folder: str) -> Generator[Child, None, None]:
    command = [sys.executable, "-m", "bench.origin.parked_servers", server, folder]
    with child(command, Path(folder) / f"{server}.log", cwd=ROOT) as running:
        yield running


def _listening(running: Child) -> Facts:
    facts = running.wait("listening", START_SECONDS)
    _settle(running.process.pid)
    return facts


@contextmanager
def _connections(
    port: int, count: int
) -> Generator[tuple[list[socket.socket], select.epoll], None, None]:
    sockets: list[socket.socket] = []
    try:
        with select.epoll() as poll:
            for _ in range(count):
                sockets.append(socket.create_connection(("127.0.0.1", port), _DEADLINE_SECONDS))
                poll.register(sockets[-1], select.EPOLLIN)
            yield sockets, poll
    finally:
        for client in sockets:
            client.close()


def _settle(pid: int) -> None:
    """Wait until the server has nothing to do."""
    until = time.monotonic() + _DEADLINE_SECONDS
    spent = -1
    while (now := cpu_ns(pid)) - spent > _SETTLED_SECONDS * 1e9 / 50:  # idle: below 2 %
        if time.monotonic() > until:
            raise Broken("the server does not come to rest")
        spent = now
        time.sleep(_SETTLED_SECONDS)


def _answered(
    running: Child, sockets: Sequence[socket.socket], poll: select.epoll, part: str
) -> tuple[list[float], Facts]:
    """Have the next part published.

    Return the time from that to each answer, in ms, and the server's line about the part after it.
    """
    waiting = {each.fileno(): each for each in sockets}
    begun: dict[int, bytes] = {}
    arrivals: list[int] = []
    answers: set[bytes] = set()
    os.kill(running.process.pid, signal.SIGUSR1)
    while waiting:
        ready = poll.poll(_DEADLINE_SECONDS)
        if not ready:
            raise Broken(f"{len(waiting)} requests were not answered")
        for handle, _ in ready:
            piece = waiting[handle].recv(65_536)
            answer = begun.pop(handle, b"") + piece
            if not piece:
                raise Broken(f"a connection was closed after {answer[:200]!r}")
            if _is_whole(answer):
                arrivals.append(time.monotonic_ns())
                del waiting[handle]
                answers.add(_body(answer))
            else:  # head and body may come one by one
                begun[handle] = answer
    # Their reports on the audio differ, because its part is published while they are sent.
    if any(f'URI="{part}"'.encode() not in gzip.decompress(answer) for answer in answers):
        raise Broken(f"an answer does not list {part}")
    facts = running.wait("published", _DEADLINE_SECONDS)
    return [(each - int(facts["at_ns"])) / 1e6 for each in arrivals], facts


def _is_whole(answer: bytes) -> bool:
    head, _, body = answer.partition(b"\r\n\r\n")
    length = b"content-length: %d" % len(body)
    return head.startswith(b"HTTP/1.1 200 ") and length in head.split(b"\r\n")


def _body(answer: bytes) -> bytes:
    return answer.partition(b"\r\n\r\n")[2]


def missed(ours: ParkedFigures) -> list[str]:
    """Return the targets that were missed, as sentences."""
    figures = [
        (statistics.median(ours.median_ms), _MEDIAN_MS, "ms to the median answer"),
        (max(ours.last_ms), _LAST_MS, "ms to the last answer"),
        (ours.memory / ours.count, _BYTES_EACH, "bytes for each parked request"),
    ]
    return [f"{value:.0f} {unit}, more than {most:.0f}" for value, most, unit in figures
            if value > most]  # fmt: skip


def table(figures: dict[str, ParkedFigures]) -> str:
    """Return the figures as a table in Markdown."""
    lines = [f"| | {' | '.join(figures)} | target |", "|---|" + "---|" * (len(figures) + 1)]

    def row(name: str, cells: Sequence[str], target: str = "") -> None:
        lines.append(f"| {name} | {' | '.join(cells)} | {target} |")

    all_ = list(figures.values())
    row("median answer, ms after the part (median of rounds)",
        [f"{statistics.median(each.median_ms):.0f}" for each in all_],
        f"<= {_MEDIAN_MS:.0f}")  # fmt: skip
    row("last answer, ms (least to most)",
        [f"{min(each.last_ms):.0f} to {max(each.last_ms):.0f}" for each in all_],
        f"<= {_LAST_MS:.0f}")  # fmt: skip
    row("memory of all, MB", [f"{each.memory / 1e6:.1f}" for each in all_])
    row("memory of each, bytes", [f"{each.memory / each.count:.0f}" for each in all_],
        f"<= {_BYTES_EACH}")  # fmt: skip
    row("CPU to park them, s (best)", [f"{min(each.parking_cpu[1:]):.2f}" for each in all_])
    row("CPU to answer them, s (best)", [f"{min(each.answering_cpu):.2f}" for each in all_])
    return "\n".join(lines)
