"""Encoders of `bench.relay`: packets at the times at which a connection would read them.

Each encoder sends 1080p30 at a constant rate, a keyframe of six times the mean size every 2 s, and
AAC at 160 kbit/s. All are read at the same moments, as `ingest.server.read_batcher` reads RTMP.
"""

import asyncio
import os
from collections.abc import Sequence
from typing import Final

from ingest.stream.slot_session import PublisherSession
from media.packet import MediaPacket
from media.track import AudioCodec, AudioTrack, VideoCodec, VideoTrack

_VIDEO: Final = VideoTrack(codec=VideoCodec.AVC, config=bytes(40), width=1920, height=1080)
_AUDIO: Final = AudioTrack(codec=AudioCodec.AAC, config=bytes(2), rate=48_000, channels=2)
_AUDIO_BYTES: Final = 427  # 1024 samples at 160 kbit/s
_GOP_MS: Final = 2_000
_GOP_PICTURES: Final = 60
_KEYFRAME: Final = 6  # times the mean size


class BenchEncoder:
    """An encoder of a stream; the `ConnectedPublisher` that the stream sees.

    It begins `delay_ms` late, so that keyframes of several do not coincide. `ended` is why it was
    disconnected.
    """

    def __init__(self, stream: int, *, bits: int, delay_ms: int) -> None:
        self.stream = stream
        self.packets = 0
        self.bytes = 0
        self.ended: str | None = None
        self.last_received = 0.0
        self._delay_ms = delay_ms
        self._gop = _gop(bits)
        self._next = 0
        self._session: PublisherSession | None = None

    @property
    def peer(self) -> str:
        """An address."""
        return f"bench:{self.stream}"

    def disconnect(self, reason: str, *, moved: bool = False) -> None:  # noqa: ARG002 # it ends
        """Record why it was disconnected."""
        self.ended = reason

    def begin(self, session: PublisherSession, now: float) -> None:
        """Send the tracks; packets follow by `send_until`."""
        self._session = session
        session.receive_track(_VIDEO, now)
        session.receive_track(_AUDIO, now)

    def send_until(self, elapsed_ms: int, now: float) -> None:
        """Send the packets that are due `elapsed_ms` after the beginning."""
        session = self._session
        if session is None or self.ended is not None:
            return
        until = elapsed_ms - self._delay_ms
        self.last_received = now
        packets: list[MediaPacket] = []
        while True:
            turn, number = divmod(self._next, len(self._gop))
            pattern = self._gop[number]
            at = pattern.dts + turn * _GOP_MS
            if at > until:
                break
            packet = MediaPacket(
                track=pattern.track, dts=at, pts=at, key=pattern.key, data=pattern.data
            )
            packets.append(packet)
            self._next += 1
            self.bytes += len(packet.data)
        if packets:
            self.packets += len(packets)
            session.receive_packets(packets, now)

    def leave(self) -> None:
        """Say goodbye."""
        if self._session is not None and self.ended is None:
            self._session.close(goodbye=True)


def _gop(bits: int) -> list[MediaPacket]:
    """Return the packets of 2 s, in the order of time; the data are random in each call."""
    mean = bits // 8 * _GOP_MS // 1000 // (_GOP_PICTURES - 1 + _KEYFRAME)
    pictures = [
        MediaPacket(
            track=_VIDEO,
            dts=number * _GOP_MS // _GOP_PICTURES,
            pts=0,
            key=not number,
            data=os.urandom(mean if number else _KEYFRAME * mean),
        )
        for number in range(_GOP_PICTURES)
    ]
    frames = _GOP_MS * _AUDIO.rate // 1000 // 1024
    sounds = [
        MediaPacket(
            track=_AUDIO,
            dts=number * _GOP_MS // frames,
            pts=0,
            key=True,
            data=os.urandom(_AUDIO_BYTES),
        )
        for number in range(frames)
    ]
    return sorted([*pictures, *sounds], key=lambda each: each.dts)


async def send(encoders: Sequence[BenchEncoder], read_seconds: float, stop: asyncio.Event) -> None:
    """Let all send in real time until `stop`, every `read_seconds`."""
    clock = asyncio.get_running_loop().time
    began = due = clock()
    while not stop.is_set():
        now = clock()
        for encoder in encoders:
            encoder.send_until(round((now - began) * 1000), now)
        due += read_seconds
        await asyncio.sleep(max(0.0, due - clock()))
