"""Headend's listener as a peer: the sockets and connections of `headend serve`, without a ladder.

Event loop, limits, sockets and TLS context are those of `headend serve`. The directory accepts
any key, as that of a separate stream; the sink counts packets. Standard output carries JSON lines:
`listening` with the port, then for each source that is over `closed` with its packets and their
bytes.

Usage: python -m bench.ingest.ours [--loop asyncio] [--limits JSON] [--tls CERTIFICATE KEY]
"""

import argparse
import asyncio
import itertools
import json
import signal
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import uvloop

from headend.config.listen_sockets import bind
from headend.install.certificates import tls_context
from ingest.rtmp.limits import Limits
from ingest.server.listener import listening
from ingest.stream.ports import Grant, LiveState
from media.packet import MediaPacket
from media.source_mark import FindMarks, no_marks
from media.stream_events import StreamEvent
from media.stream_keys import PublicHash, Slot, StreamKey
from media.track import Track

LOOPS = {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}
DRAIN_SECONDS = 2.0


def grant_of(stream: int, hash_: PublicHash) -> Grant:
    """Return the permission to publish to a stream."""
    return Grant(
        stream=stream,
        hash=hash_,
        slot=Slot(0),
        active=frozenset(),
        reconnect_seconds=0.0,
        goodbye_seconds=0.0,
    )


class CountingRun:
    """A run that discards its packets."""

    playable = True

    def __init__(self) -> None:
        self.packets = 0
        self.bytes = 0

    def begin(
        self,
        tracks: tuple[Track, ...],
        late: float,
        *,
        splice: bool = False,
        continues: bool = False,
        new_clock: bool = False,
        show_from: int | None = None,
        show_until: int | None = None,
        marks: FindMarks = no_marks,
    ) -> None: ...

    def offer(self, packets: Sequence[MediaPacket]) -> None:
        self.packets += len(packets)
        self.bytes += sum(len(packet.data) for packet in packets)

    def slate(self, late: float) -> None:  # noqa: ARG002 # the source has ended
        self.finish()

    def finish(self) -> None:
        print(
            json.dumps({"event": "closed", "packets": self.packets, "bytes": self.bytes}),
            flush=True,
        )
        self.packets = self.bytes = 0

    def end(self) -> None: ...


class Anyone:
    """Directory, sinks and journal in one: every key opens a stream, all with one run if given."""

    def __init__(self, run: CountingRun | None = None) -> None:
        self._numbers = itertools.count(1)
        self._run = run

    async def grant(self, application: str, key: StreamKey) -> Grant | None:  # noqa: ARG002
        return grant_of(next(self._numbers), key.hash)

    @asynccontextmanager
    async def run(
        self,
        grant: Grant,  # noqa: ARG002 # every run is the same
        notify: Callable[[], None],  # noqa: ARG002 # no state depends on it
        generation: int,  # noqa: ARG002 # one host owns all streams
    ) -> AsyncGenerator[CountingRun, None]:
        yield CountingRun() if self._run is None else self._run

    def expect(self, hash_: str) -> None: ...

    async def write(self, state: LiveState, events: tuple[StreamEvent, ...]) -> None: ...


async def serve(limits: Limits, tls: list[str] | None) -> None:
    """Serve on a free port until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    sock = bind("127.0.0.1:0")
    port = int(sock.getsockname()[1])
    context = tls_context(Path(tls[0]), Path(tls[1])) if tls else None
    anyone = Anyone()
    async with listening(
        limits=limits,
        directory=anyone,
        sinks=anyone,
        journal=anyone,
        sockets=[(sock, context)],
        drain_seconds=DRAIN_SECONDS,
    ):
        print(json.dumps({"event": "listening", "port": port}), flush=True)
        await stop.wait()


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--loop", choices=LOOPS, default="uvloop")
    parser.add_argument("--limits", default="{}")
    parser.add_argument("--tls", nargs=2)
    options = parser.parse_args()
    # The bench's publishers connect at once, from one address.
    doors = {"connections_per_address": 1_000, "new_per_address_per_second": 1_000}
    limits = msgspec.convert({**doors, **json.loads(options.limits)}, Limits)
    with asyncio.Runner(loop_factory=LOOPS[options.loop]) as runner:
        runner.run(serve(limits, options.tls))


if __name__ == "__main__":
    main()
