"""A demo with two hosts of each role on this machine, PostgreSQL, Redis and a bucket.

    make demo-hosts
    .venv/bin/python -m scripts.demo_hosts [--every 30] [--http 127.0.0.1:8080]

Two encoders send the same test picture, each to its own ingest host. The host that runs the stream
is killed every `--every` seconds (0: never) and restarted. The demo prints what happens; a viewer
in this process counts the segments that it receives. All data are temporary. Times are in seconds.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, cast

import click

from headend.demo import sentence, stamped
from tests.support.e2e.encoder_pair import EncoderPair, pair
from tests.support.e2e.hosts import HostProcess, HostProcesses, running_engines
from tests.support.e2e.service import ServiceProcess, fetch
from tests.support.e2e.strict_player import Follower

# A host is back after about 6 s; its encoder is on air again after 10 s without a fault.
EVERY_SECONDS: Final = 30.0
_AWAY_SECONDS: Final = 3.0  # before a killed host is started again
_HEAD_START: Final = 5.0  # so that the primary begins the run
_POLL_SECONDS: Final = 0.5
_RETRY_SECONDS: Final = 1.0  # between two attempts of an encoder
_STOP_SECONDS: Final = 5.0
_PICTURE: Final = {"seconds": None, "size": (854, 480), "fps": 30}
_SLOTS: Final = (("a", "primary"), ("b", "backup"))


def _print_line(text: str) -> None:
    click.echo(stamped(text))


def owner_text(host: str, killed: float | None, now: float) -> str:
    """Return the line about a new owner; `killed` is when its predecessor was killed."""
    after = "" if killed is None else f", {now - killed:.1f} s after the kill"
    return f"ingest host {host} runs the stream{after}"


def count_text(viewer: Follower) -> str:
    """Return the line about the viewer's results so far."""
    wrong = viewer.faults[-1] if viewer.faults else "nothing missing, nothing wrong"
    marks = max(viewer.marks.values(), default=0)
    return f"a viewer has got {viewer.segments} segments, {marks} discontinuities: {wrong}"


class _Encoder:
    """A test encoder in its own process, which reconnects when it loses its connection."""

    def __init__(self, title: str, url: str) -> None:
        self._title, self._order = title, {**_PICTURE, "url": url}
        self._child: subprocess.Popen[bytes] | None = None
        self._next = 0.0  # when it may be started
        self._is_lost = False

    def restart_if_ended(self, now: float) -> None:
        """Start the encoder, unless it runs."""
        if self._child is not None and self._child.poll() is None:
            return
        if self._child is not None:
            if not self._is_lost:
                _print_line(f"the {self._title}'s encoder has lost its connection, and tries again")
            self._is_lost = True
            self._child, self._next = None, now + _RETRY_SECONDS
        if now >= self._next:
            self._start()

    def report_connected(self) -> None:
        """Print that the encoder is connected again, if it was lost."""
        if self._is_lost:
            _print_line(f"the {self._title}'s encoder is connected again")
        self._is_lost = False

    def _start(self) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-m", "transcode.engine.testsource.pattern"],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # a refused connection is expected
        )
        if self._child.stdin is not None:
            # The URL holds the stream key, and the arguments of a process are public.
            self._child.stdin.write(json.dumps(self._order).encode() + b"\n")
            self._child.stdin.flush()

    def stop(self) -> None:
        """End the encoder."""
        if self._child is None:
            return
        self._child.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._child.wait(_STOP_SECONDS)
        self._child.kill()
        self._child.wait()
        if self._child.stdin is not None:
            self._child.stdin.close()


class _PrintedEvents:
    """Prints a stream's events as sentences."""

    def __init__(self, api: ServiceProcess, stream: EncoderPair) -> None:
        self._api = api
        self._address = f"{api.http}/api/projects/1/events?stream={stream.number}"
        self._hash = stream.hash
        self._last = 0

    def print_new(self) -> None:
        """Print the events since the last call."""
        answer = fetch(self._address, token=self._api.token)
        if answer.status != 200:
            return
        page = cast("list[dict[str, Any]]", answer.json["data"])  # JSON
        for event in sorted(page, key=lambda each: each["id"]):
            if event["subject"] == self._hash and event["id"] > self._last:
                self._last = event["id"]
                if text := sentence(event["type"], event["facts"]):
                    _print_line(text)


class _HostKiller:
    """Kills the host that runs the stream at intervals, and restarts it."""

    def __init__(self, hosts: Mapping[str, HostProcess], every: float, now: float) -> None:
        self.killed: float | None = None  # when the last one was killed
        self._hosts = hosts
        self._every = every
        self._next = now + every if every else float("inf")
        self._gone: HostProcess | None = None
        self._starting: Future[ServiceProcess] | None = None
        self._aside = ThreadPoolExecutor(1)  # a start takes seconds

    @property
    def is_busy(self) -> bool:
        """True while a killed host is not back yet."""
        return self._gone is not None

    def update(self, owner: str | None, now: float) -> bool:
        """Kill or restart a host if that is due; return whether a killed host is back."""
        if self._gone is None:
            if owner is not None and now >= self._next:
                self._kill(self._hosts[owner], now)
            return False
        if self._starting is None:
            if self.killed is not None and now >= self.killed + _AWAY_SECONDS:
                self._starting = self._aside.submit(self._gone.start)
            return False
        if not self._starting.done():
            return False
        self._starting.result()  # raises the error of a failed start
        _print_line(f"ingest host {self._gone.name} is back")
        self._gone, self._starting = None, None
        return True

    def _kill(self, host: HostProcess, now: float) -> None:
        host.kill()
        _print_line(f"ingest host {host.name}, which runs the stream, is killed")
        self._gone, self.killed = host, now
        self._next = now + self._every

    def stop(self) -> None:
        """Wait for a start in progress."""
        self._aside.shutdown()


@contextmanager
def _viewer(url: str) -> Generator[Follower]:
    follower = Follower(url)

    def watch() -> None:
        try:
            follower.run()
        except AssertionError as error:  # media that no player accepts: stop following
            follower.faults.append(str(error))

    thread = threading.Thread(target=watch, name="viewer", daemon=True)
    thread.start()
    try:
        yield follower
    finally:
        follower.stop()
        thread.join()


class _Demo:
    """All hosts, and a stream."""

    def __init__(self, hosts: HostProcesses, http: str) -> None:
        self.hosts = hosts
        with ThreadPoolExecutor() as starting:  # each call waits until its host is ready
            api = starting.submit(hosts.api, http=http)
            second_api = starting.submit(hosts.api, "api-2")
            ingest = {name: starting.submit(hosts.ingest, name) for name, _ in _SLOTS}
            transcoders = [starting.submit(hosts.transcode, f"transcode-{n}") for n in (1, 2)]
        for transcoder in transcoders:
            transcoder.result()
        self.api = api.result().running
        self.ingest = {name: host.result() for name, host in ingest.items()}
        self.stream = pair(self.api, "The demo of several hosts")
        self.pages = (
            self.stream.watch,
            f"{second_api.result().running.http}/watch/{self.stream.hash}",
        )

    def play(self, every: float) -> None:
        """Run the encoders, and kill hosts, until Ctrl-C."""
        with ExitStack() as stack:
            encoders: list[_Encoder] = []
            for slot, (name, title) in enumerate(_SLOTS):
                encoders.append(_Encoder(title, self.hosts.url(name, self.stream.key, slot=slot)))
                stack.callback(encoders[-1].stop)
            began = time.monotonic()
            while fetch(self.stream.playlist).status != 200:
                if _interrupted():
                    return
                now = time.monotonic()
                for encoder in encoders[: 1 if now < began + _HEAD_START else 2]:
                    encoder.restart_if_ended(now)
            killer = _HostKiller(self.ingest, every, time.monotonic())
            stack.callback(killer.stop)
            viewer = stack.enter_context(_viewer(f"{self.stream.playlist}?latency=normal"))
            self._watch(encoders, killer, viewer)

    def _watch(self, encoders: list[_Encoder], killer: _HostKiller, viewer: Follower) -> None:
        events, last_owner = _PrintedEvents(self.api, self.stream), None
        while not _interrupted():
            now = time.monotonic()
            owner = self.hosts.owner(self.stream.number)
            if owner is not None and owner != last_owner:
                _print_line(
                    owner_text(owner[0], None if last_owner is None else killer.killed, now)
                )
                last_owner = owner
            for encoder in encoders:
                encoder.restart_if_ended(now)
            with suppress(OSError, AssertionError):  # the API host is busy
                events.print_new()
                # The last state stays until another host owns the stream.
                if not killer.is_busy and self.stream.receives() == len(_SLOTS):
                    for encoder in encoders:
                        encoder.report_connected()
            if killer.update(None if owner is None else owner[0], now):
                _print_line(count_text(viewer))


def _interrupted() -> bool:
    """Wait for a moment; return whether Ctrl-C was pressed."""
    return signal.sigtimedwait({signal.SIGINT}, _POLL_SECONDS) is not None


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m scripts.demo_hosts")
    parser.add_argument(
        "--every",
        type=float,
        default=EVERY_SECONDS,
        help=f"seconds after which the host that runs the stream is killed ({EVERY_SECONDS:.0f};"
        " 0: never)",
    )
    parser.add_argument("--http", default="127.0.0.1:8080", help="HOST:PORT of the first API host")
    return parser.parse_args()


def _leave(*_: object) -> None:
    raise SystemExit(0)


def main() -> None:
    """Run the demo until Ctrl-C or SIGTERM."""
    options = _options()
    # Child processes inherit this: only this process handles Ctrl-C, and stops them in order.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    signal.signal(signal.SIGTERM, _leave)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headend-demo-")))
        _print_line("PostgreSQL, Redis and an S3 server are started")
        engines = stack.enter_context(running_engines(folder))
        # At low latency, a viewer waits up to 4 s for the next owner.
        latency = os.environ.get("HEADEND_LIVE__LATENCY", "normal")
        environment = {**engines.environment, "HEADEND_LIVE__LATENCY": latency}
        _print_line("two ingest, two API and two transcoding hosts are started")
        hosts = stack.enter_context(HostProcesses(folder, engines.database, environment))
        demo = _Demo(hosts, options.http)
        click.echo(f"  Watch        {demo.pages[0]}")
        click.echo(f"  or, at the other API host, {demo.pages[1]}")
        click.echo("  Ctrl-C       ends it")
        demo.play(options.every)
        _print_line("all hosts and engines are stopped")


if __name__ == "__main__":
    main()
