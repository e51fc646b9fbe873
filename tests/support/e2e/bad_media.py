"""Malicious media of a publisher with a valid key."""

import itertools
import struct
import time
from collections.abc import Callable, Iterator
from random import Random

from ingest.rtmp import amf0
from ingest.rtmp.amf import Amf
from ingest.rtmp.messages import MessageType
from tests.media.codecs.test_sps import BASELINE, BitWriter, finish, start
from tests.support.e2e.hostile_peer import AT_ONCE, Run, Target
from tests.support.e2e.service import SCALE
from tests.support.ingest import rtmp_peer
from tests.support.ingest.rtmp_peer import head, header, message, whole
from tests.support.media.avc_records import config_of

VIDEO, AUDIO, DATA = MessageType.VIDEO, MessageType.AUDIO, MessageType.DATA
LARGE_CHUNKS = whole(2, MessageType.SET_CHUNK_SIZE, struct.pack(">I", 65_536))


def _config(side: int, level: int) -> bytes:
    """Return a Baseline decoder configuration of `side` macroblocks square and a level."""
    sps = bytearray(finish(start(BASELINE), side, side))
    sps[3] = level
    pps = (
        BitWriter().ue(0, 0).u(1, 0).u(1, 0).ue(0, 0, 0).u(1, 0).u(2, 0).ue(0, 0, 0).u(3, 0).unit()
    )
    return config_of(bytes(sps), b"\x68" + pps[1:])


def _bomb(noise: Random) -> bytes:
    """Return a truncated IDR picture: a valid start, then a few of its million macroblocks."""
    begun = BitWriter().ue(0, 7, 0).u(4, 0).ue(0).u(4, 0).u(2, 0).ue(0).unit()
    slice_ = b"\x65" + begun[1:] + noise.randbytes(200).replace(b"\0\0", b"\1\1")
    return len(slice_).to_bytes(4, "big") + slice_


def _pictures(config: bytes, picture: Callable[[], bytes]) -> Iterator[bytes]:
    """Yield 30 pictures a second, all marked as keyframes, and their sound."""
    yield rtmp_peer.video(rtmp_peer.video_config(config)) + rtmp_peer.audio(
        rtmp_peer.audio_config()
    )
    for number in itertools.count():
        stamp = number * 33
        yield (
            rtmp_peer.video(rtmp_peer.video_body(picture(), key=True), stamp)
            + rtmp_peer.audio(rtmp_peer.audio_body(b"\x01\x18\x20\x07"), stamp)
        )


def sends(pieces: Callable[[], Iterator[bytes]], *, seconds: float) -> Run:
    """Publish one piece of media every 33 ms."""

    def run(target: Target) -> None:
        with target.publishing() as line:
            deadline = time.monotonic() + seconds
            for piece in pieces():
                if (
                    not line.send_bytes(piece)
                    or not line.receive_for(0.033)
                    or time.monotonic() > deadline
                ):
                    break

    return run


def garbage_pictures() -> Iterator[bytes]:
    noise = Random(1)

    def picture() -> bytes:
        data = bytes((0x65,)) + noise.randbytes(4_000)
        return len(data).to_bytes(4, "big") + data

    return _pictures(rtmp_peer.AVC_CONFIG, picture)


def decode_bomb() -> Iterator[bytes]:
    noise = Random(2)
    return _pictures(_config(1024, 62), lambda: _bomb(noise))


def level_lie() -> Iterator[bytes]:
    """Declare a level of at most 176 x 144 for pictures of 8192 x 8192."""
    noise = Random(3)
    return _pictures(_config(512, 10), lambda: _bomb(noise))


def absurd_times() -> Iterator[bytes]:
    """Jump back and forth by hours or days with every picture, in composition times too."""
    noise = Random(4)
    yield rtmp_peer.video(rtmp_peer.video_config()) + rtmp_peer.audio(rtmp_peer.audio_config())
    stamp = 0
    for step in itertools.cycle((3_600_000, -7_200_000, 1 << 30, (1 << 31) - 1, 3_600_000)):
        stamp = (stamp + step) % (1 << 32)
        data = noise.randbytes(500)
        body = rtmp_peer.video_body(
            len(data).to_bytes(4, "big") + data, key=True, offset=-(1 << 23)
        )
        sound = rtmp_peer.audio_body(b"\x01\x18\x20\x07")
        yield rtmp_peer.video(body, stamp) + rtmp_peer.audio(sound, stamp)


def too_much(target: Target) -> None:
    """Send five times the allowed bit rate, without a keyframe, so that nothing is stored."""
    body = rtmp_peer.video_body(bytes((0, 0, 0xEA, 0x5C, 0x41)) + bytes(59_995))
    picture = message(6, VIDEO, body, stream=1, size=65_536)
    with target.publishing() as line:
        line.send_bytes(rtmp_peer.video(rtmp_peer.video_config()) + LARGE_CHUNKS)
        line.send_at_rate(
            itertools.repeat(picture), seconds=30 * SCALE, bytes_per_second=25_000_000
        )
        assert line.closed


def aggregate_bombs(target: Target) -> None:
    """Send aggregate messages of 8 MiB with half a million messages each."""
    tag = bytes((AUDIO, 0, 0, 2)) + bytes(7) + b"\xaf\x01" + (13).to_bytes(4, "big")
    size = whole(2, MessageType.SET_CHUNK_SIZE, struct.pack(">I", 0xFF_FFFF))
    body = tag * ((8 << 20) // len(tag))
    bomb = head(0, 7) + header(MessageType.AGGREGATE, len(body), stream=1) + body
    with target.publishing() as line:
        line.send_bytes(size + rtmp_peer.audio(rtmp_peer.audio_config()))
        for _ in range(4):
            line.send_bytes(bomb)
        assert line.closed or not line.receive_for(AT_ONCE * SCALE)


def huge_metadata(target: Target) -> None:
    """Send long metadata that differs each time: it is ignored, and the connection stays open."""
    with target.publishing() as line:
        for turn in range(100):
            values: dict[str, Amf] = {f"{turn} {number}": float(number) for number in range(2_000)}
            body = amf0.encode("@setDataFrame", "onMetaData", values)[:60_000]
            line.send_bytes(message(4, DATA, body, stream=1))
        assert line.receive_for(0.3)
        line.send_bytes(head(0, 4) + header(DATA, 70_000, stream=1) + bytes(128))
        line.must_close(10)
