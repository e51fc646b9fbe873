"""A process of `bench.relay`: the owner of all streams, or a host that encoders are connected to.

Both run what `headend serve` runs beside the RTMP sessions and the engines; runs count their
packets. The owner prints a JSON line `listening` with its port. The other prints `sending` once all
encoders are attached. At SIGTERM encoders leave, and each prints `closed` with the packets that its
encoders have sent (`sent`) and that came into runs (`taken`).

python -m bench.relay.host owner
python -m bench.relay.host WHERE STREAMS BITS READ_SECONDS [PORT]
    WHERE: nowhere (packets are made and dropped), here, or relayed to the owner at PORT
"""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import uvloop

from bench.ingest.ours import Anyone, CountingRun, grant_of
from bench.relay.encoders import BenchEncoder, send
from headend.config.listen_sockets import bind
from headend.install.relay_key import relay_tls
from headend.roles.loop_watch import watch_loop
from ingest.rtmp.limits import Limits
from ingest.server.listener import OtherHosts, RtmpListener, listening
from ingest.stream.one_host import OneHost
from ingest.stream.ports import Grant, Ownership
from ingest.stream.slot_session import CloseReason
from media.loop_lag import LoopLag
from media.packet import MediaPacket
from media.track import Track

_TLS: Final = relay_tls(b"the secret of a benchmark")
_DRAIN_SECONDS: Final = 5.0
# Segments of 2 s, stored a moment after they are complete.
_STORED_EVERY: Final = 2.0
_STORED_AGE: Final = 1.0


class _Totals(CountingRun):
    """Counts the packets of all runs together, which the end of one does not change."""

    def finish(self) -> None: ...


class _Elsewhere:
    """The owner of all streams is another process; a `StreamOwnership`."""

    def __init__(self, address: str) -> None:
        self._owner = Ownership(generation=1, address=address)

    async def claim(
        self,
        grant: Grant,  # noqa: ARG002
        *,
        ended_owner: int | None = None,  # noqa: ARG002
        silent_owner: int | None = None,  # noqa: ARG002
    ) -> Ownership:
        return self._owner

    async def release(self, grant: Grant, generation: int) -> None: ...


class _Nowhere:
    """Drops what an encoder sends; a `PublisherSession`."""

    def receive_track(self, track: Track, now: float) -> None: ...

    def receive_packets(self, packets: Sequence[MediaPacket], now: float) -> None: ...

    def receive_part(self, now: float) -> None: ...

    def receive_unusable(self, cause: str, now: float, *, video: bool) -> None: ...

    def picture_announced(self) -> None: ...

    def clock_jumped(self) -> None: ...

    def close(self, *, goodbye: bool, reason: CloseReason | None = None) -> None: ...


@asynccontextmanager
async def _hosting(totals: _Totals, hosts: OtherHosts) -> AsyncGenerator[RtmpListener, None]:
    lag, anyone = LoopLag(), Anyone(totals)
    async with asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(watch_loop(lag))
        async with listening(
            limits=Limits(),
            directory=anyone,
            sinks=anyone,
            journal=anyone,
            sockets=[],
            drain_seconds=_DRAIN_SECONDS,
            lag=lag,
            hosts=hosts,
        ) as listener:
            yield listener
        watching.cancel()


def _print(event: str, **facts: int) -> None:
    print(json.dumps({"event": event, **facts}), flush=True)


def _stopping() -> asyncio.Event:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    return stop


async def serve_owner() -> None:
    """Own all streams until SIGTERM."""
    stop, totals = _stopping(), _Totals()
    sock = bind("127.0.0.1:0")
    port = int(sock.getsockname()[1])
    accepts = (sock, _TLS.server)
    hosts = OtherHosts(ownership=OneHost(), client_tls=None, accepts=accepts)
    async with _hosting(totals, hosts) as listener:
        _print("listening", port=port)
        while not stop.is_set():
            for stream in listener.streams.generations:
                if listener.relay is not None:
                    listener.relay.media_stored(stream, _STORED_AGE)
            try:
                async with asyncio.timeout(_STORED_EVERY):
                    await stop.wait()
            except TimeoutError:
                continue
    _print("closed", taken=totals.packets, bytes=totals.bytes)


async def serve_encoders(
    where: str, streams: int, bits: int, read_seconds: float, port: int
) -> None:
    """Let encoders send until SIGTERM."""
    stop, totals = _stopping(), _Totals()
    ownership = _Elsewhere(f"127.0.0.1:{port}") if where == "relayed" else OneHost()
    hosts = OtherHosts(ownership=ownership, client_tls=_TLS.client, accepts=None)
    encoders = [
        BenchEncoder(number + 1, bits=bits, delay_ms=2000 * number // streams)
        for number in range(streams)
    ]
    async with _hosting(totals, hosts) as listener:
        await _attach(encoders, listener, where)
        _print("sending")
        await send(encoders, read_seconds, stop)
        disconnections = [each.ended for each in encoders if each.ended is not None]
        for encoder in encoders:
            encoder.leave()
    if disconnections:
        sys.exit(f"disconnected: {disconnections[0]}")
    sent = sum(each.packets for each in encoders)
    _print("closed", sent=sent, taken=totals.packets, bytes=sum(each.bytes for each in encoders))


async def _attach(encoders: Sequence[BenchEncoder], listener: RtmpListener, where: str) -> None:
    clock = asyncio.get_running_loop().time
    for encoder in encoders:
        if where == "nowhere":
            encoder.begin(_Nowhere(), clock())
        else:
            grant = grant_of(encoder.stream, f"bench{encoder.stream:07}")
            session = await listener.streams.attach(grant, encoder)
            encoder.begin(session, clock())


def main() -> None:
    """Parse the command line."""
    where, *rest = sys.argv[1:]
    if where == "owner":
        uvloop.run(serve_owner())
    else:
        streams, bits, read_seconds, *port = rest
        uvloop.run(
            serve_encoders(
                where, int(streams), int(bits), float(read_seconds), int(port[0]) if port else 0
            )
        )


if __name__ == "__main__":
    main()
