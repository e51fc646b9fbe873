"""A primary encoder that fails in every known way, and recovers."""

import signal
import subprocess
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager

import msgspec

from tests.support.e2e import clock_video
from tests.support.e2e.encoder_pair import EncoderPair, Json
from tests.support.e2e.publishers import publishing
from tests.support.e2e.tcp_relay import Relay, relaying
from tests.support.waiting import poll

GOP_SECONDS = 2.0
RETURN_SECONDS = 2.0  # the failover's setting that `fail_once` waits for


class Primary:
    """The failing encoder, behind a relay that can fail too.

    `command` is called when it starts, at once.
    """

    def __init__(self, command: Callable[[], list[str]], relay: Relay) -> None:
        self._command = command
        self._relay = relay
        self._process: subprocess.Popen[bytes] | None = None
        self._stack = ExitStack()

    def start(self) -> None:
        self._process = self._stack.enter_context(publishing(self._command()))

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._stack.close()

    def lose_connection(self) -> None:
        self._relay.cut()

    def stop(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def lose_network(self) -> None:
        self._relay.darken()

    def restore_network(self) -> None:
        self._relay.lighten()

    def insist(self) -> None:
        """Restart the encoder after it exits, as with automatic reconnection."""
        if self._process is None or self._process.poll() is not None:
            self._stack.close()
            self.start()

    def close(self) -> None:
        self._relay.lighten()
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGCONT)
        self._stack.close()


class Cause(msgspec.Struct, frozen=True):
    """A failure: what begins it, what ends it, and the reason that the owner's event gives."""

    name: str
    begins: Callable[[Primary], None]
    ends: Callable[[Primary], None]
    reason: str


CAUSES = (
    Cause("SIGKILL", Primary.kill, Primary.start, "lost"),
    Cause("SIGSTOP", Primary.stop, Primary.resume, "stalled"),
    Cause("packets lost", Primary.lose_network, Primary.restore_network, "stalled"),
)


class Switch(msgspec.Struct, frozen=True):
    """A switch and its event.

    `began` is the time of day when the test caused it, `at` that of the event.
    """

    cause: str
    began: float
    at: float
    facts: Json


@contextmanager
def primary_of(stream: EncoderPair, *, size: str = clock_video.TWO_RUNGS) -> Generator[Primary]:
    """Run the primary encoder through a relay for the length of the block."""
    port = stream.headend.port_of(stream.headend.server)
    with relaying(port) as relay:
        command = clock_video.encoder(stream.url(0, port=relay.port), size=size)
        primary = Primary(lambda: command, relay)
        try:
            primary.start()
            yield primary
        finally:
            primary.close()


def next_switch(
    stream: EncoderPair, cause: str, number: int, within: float, primary: Primary | None = None
) -> Switch:
    """Wait for a stream's `number`-th switch (from 1); odd ones are to the backup."""
    began = time.time()

    def moved() -> bool:
        time.sleep(0.15)  # polling faster would load the service
        if primary is not None:
            primary.insist()
        return stream.backup_is_on_air() == (number % 2 == 1)

    poll(moved, within=within, what=f"switch {number}, {cause}")
    at = time.time()
    events = stream.listed_events("switched")
    assert len(events) == number, events
    return Switch(cause, began, at, events[-1]["facts"])


def fail_once(
    stream: EncoderPair, primary: Primary, cause: Cause, switches: list[Switch], *, detect: float
) -> None:
    """Make the primary fail and recover, and check both switches."""
    began = time.monotonic()
    noticed = detect if cause.reason == "stalled" else 0.0
    cause.begins(primary)
    within = noticed + GOP_SECONDS + 2
    away = next_switch(stream, cause.name, len(switches) + 1, within)
    assert time.monotonic() - began >= noticed - 0.5
    facts = away.facts
    assert (facts["from"], facts["to"], facts["reason"]) == ("primary", "backup-1", cause.reason)
    switches.append(away)
    time.sleep(4)  # until the live edge is where it was
    back = time.monotonic()
    cause.ends(primary)
    home = next_switch(
        stream, f"{cause.name} over", len(switches) + 1, RETURN_SECONDS + 10, primary
    )
    assert time.monotonic() - back >= RETURN_SECONDS - 0.1, "back before it was well for so long"
    facts = home.facts
    assert (facts["from"], facts["to"], facts["reason"]) == ("backup-1", "primary", "returned")
    switches.append(home)
