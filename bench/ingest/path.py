"""The cost of all Python on a publisher's way: bytes to session, slot, switcher and feed.

Without sockets, wake-ups and cold caches: what the process costs beyond this, its wake-ups cost.
"""

import asyncio
import os
import statistics
import time
from collections.abc import Iterable
from typing import Final

from bench.ingest.ours import Anyone
from ingest.rtmp.chunks import ChunkWriter
from ingest.rtmp.events import TrackFound
from ingest.rtmp.handshake import ENTROPY_BYTES
from ingest.rtmp.limits import Limits
from ingest.rtmp.messages import MessageType, command, word
from ingest.rtmp.session import Session
from ingest.stream.live_stream import LiveStream
from ingest.stream.slot_session import SlotSession
from media.packet import MediaPacket
from media.stream_keys import StreamKey

READ_MS: Final = 50
ROUNDS: Final = 5
_CHUNK_BYTES: Final = 65_536


class _Publisher:
    peer = "bench"
    last_received = 0.0

    def disconnect(self, reason: str, *, moved: bool = False) -> None: ...


def path_ms(tags: Iterable[tuple[int, int, bytes]]) -> float:
    """Return the ms of CPU per second of a stream, which is read every `READ_MS`."""
    writer, reads = ChunkWriter(), [b""]
    writer.chunk_bytes = _CHUNK_BYTES
    for kind, stamp, body in tags:
        if stamp >= READ_MS * len(reads):
            reads.append(b"")
        reads[-1] += writer.write(4, kind, body, stream=1, timestamp=stamp)
    rounds = [asyncio.run(_once(reads)) for _ in range(ROUNDS)]
    return statistics.median(rounds) / (len(reads) * READ_MS) * 1e6


async def _once(reads: list[bytes]) -> float:
    key, anyone = StreamKey.new("bench0000001"), Anyone()
    session = Session(limits=Limits(), now=0.0, entropy=os.urandom(ENTROPY_BYTES))
    session.receive(_opening(key), 0.0)
    session.allow()
    grant = await anyone.grant("live", key)
    assert grant is not None
    stream = LiveStream(grant, anyone, anyone)
    async with asyncio.TaskGroup() as tasks:
        serving = tasks.create_task(stream.serve())
        slot = await stream.attach(grant, _Publisher())
        _pass(session, slot, reads[0], 0)
        await asyncio.sleep(0.05)  # the run opens
        began = time.process_time()
        for number, data in enumerate(reads[1:], 1):
            _pass(session, slot, data, number)
        seconds = time.process_time() - began
        serving.cancel()
    return seconds


def _pass(session: Session, slot: SlotSession, data: bytes, number: int) -> None:
    """Pass on what one read brought, as a connection does."""
    now = number * READ_MS / 1000
    packets: list[MediaPacket] = []
    for event in session.receive(data, now):
        if isinstance(event, MediaPacket):
            packets.append(event)
        elif isinstance(event, TrackFound):
            slot.receive_track(event.track, now)
    if packets:
        slot.receive_packets(packets, now)
    session.outgoing()


def _opening(key: StreamKey) -> bytes:
    """Return what a publisher sends before its media."""
    writer = ChunkWriter()
    app = {"app": "live", "tcUrl": "rtmp://localhost/live"}
    return b"".join(
        (
            b"\x03" + bytes(3072),
            writer.write(3, MessageType.COMMAND, command("connect", 1.0, dict(app))),
            writer.write(3, MessageType.COMMAND, command("createStream", 2.0, None)),
            writer.write(
                3, MessageType.COMMAND, command("publish", 3.0, None, key.text, "live"), stream=1
            ),
            writer.write(2, MessageType.SET_CHUNK_SIZE, word(_CHUNK_BYTES)),
        )
    )
