"""Attacks by hostile RTMP peers, and the cause that the log gives for each disconnect."""

import itertools
import select
import socket
import struct
import time
from contextlib import suppress
from dataclasses import dataclass

from ingest.rtmp import amf0
from ingest.rtmp.limits import Limits
from ingest.rtmp.messages import MessageType
from tests.support.e2e import bad_media
from tests.support.e2e.bad_media import sends
from tests.support.e2e.hostile_peer import AT_ONCE, Run, Target
from tests.support.e2e.service import SCALE
from tests.support.ingest import rtmp_peer
from tests.support.ingest.rtmp_peer import HANDSHAKE, command, connect, head, header, message, whole

LIMITS = Limits()
VIDEO = MessageType.VIDEO
TICK = 3.0  # seconds past a deadline: clock ticks of 0.5 s, the final messages, and a busy machine
WRONG = "01234567-89ab-cdef-0123-456789abcdef"
TLS_HELLO = bytes.fromhex("16030100c8010000c40303") + bytes(190)


# -- what is not RTMP -----------------------------------------------------------------------------


def _greets(data: bytes, *, secure: bool = False) -> Run:
    def run(target: Target) -> None:
        with target.dial(secure=secure) as line:
            line.send_bytes(data)
            line.must_close(AT_ONCE)
            assert secure or line.read == b""  # a peer with another protocol gets no response

    return run


# -- broken RTMP ----------------------------------------------------------------------------------


def _sends_and_is_closed(*pieces: bytes, within: float = AT_ONCE) -> Run:
    """Send the handshake and the pieces, and expect to be disconnected."""

    def run(target: Target) -> None:
        with target.dial() as line:
            line.send_bytes(HANDSHAKE)
            for data in pieces:
                if not line.send_bytes(data):
                    break
            line.must_close(within)

    return run


def one_byte_chunks(target: Target) -> None:
    """An endless message in chunks of one byte, 1 MB/s."""
    tiny = whole(2, MessageType.SET_CHUNK_SIZE, struct.pack(">I", 1))
    first = head(0, 6) + header(VIDEO, 8_000_000) + b"x"
    with target.dial() as line:
        line.send_bytes(HANDSHAKE + connect() + tiny + first)
        line.send_at_rate(
            itertools.repeat((head(3, 6) + b"x") * 20_000),
            seconds=10 * SCALE,
            bytes_per_second=1_000_000,
        )
        line.must_close(AT_ONCE + 10)


def interleaved_giants(target: Target) -> None:
    """63 chunk streams at once, each with the header of a message of maximum length."""
    piece = bytes(65_536)
    with target.dial() as line:
        line.send_bytes(HANDSHAKE + connect() + bad_media.LARGE_CHUNKS)
        for turn, number in itertools.product(range(128), range(3, 66)):
            first = head(3, number) if turn else head(0, number) + header(VIDEO, 8 << 20)
            if not line.send_bytes(first + piece):
                break
        line.must_close(10)


def never_reads(target: Target) -> None:
    """Read nothing, while every read makes the service respond.

    What was read together gets one response. So it depends on the machine whether too many of them
    are left unread, or too many messages came, before that.
    """
    window = whole(2, MessageType.WINDOW_SIZE, struct.pack(">I", 1))
    sound = rtmp_peer.audio(rtmp_peer.audio_body(b"x"))
    with target.dial(room=4096) as line:
        line.send_bytes(rtmp_peer.opening(name=target.key))
        line.wait_for_leave()
        line.send_bytes(window)
        deadline = time.monotonic() + 30 * SCALE
        while line.send_bytes(sound):
            assert time.monotonic() < deadline, "still open"
            select.select([], [], [], 0.0002)  # so that they arrive separately


def never_reads_and_slow(target: Target) -> None:
    """The same with few responses: the kernel closes the connection."""
    window = whole(2, MessageType.WINDOW_SIZE, struct.pack(">I", 1))
    with target.dial(room=4096) as line:
        line.send_bytes(rtmp_peer.opening(name=target.key))
        line.wait_for_leave()
        line.send_bytes(window + rtmp_peer.MEDIA)
        sound = rtmp_peer.audio(rtmp_peer.audio_body(b"x"))
        # Some 15 s until the buffers are full, and the kernel's last probe is late.
        deadline = line.began + (LIMITS.silence_seconds + 40) * SCALE
        while line.send_bytes(sound):
            assert time.monotonic() < deadline, "still open"
            select.select([], [], [], 0.01)


def acknowledgements(target: Target) -> None:
    """Send endless acknowledgements of bytes that were never sent."""
    ack = whole(2, MessageType.ACKNOWLEDGEMENT, bytes(4))
    with target.publishing() as line:
        line.send_at_rate(
            itertools.repeat(ack * 4_000), seconds=20 * SCALE, bytes_per_second=2_000_000
        )
        assert line.closed


def early_media(target: Target) -> None:
    """Send pictures without a publish command."""
    picture = rtmp_peer.video(rtmp_peer.video_body(bytes(30_000), key=True))
    with target.dial() as line:
        line.send_bytes(HANDSHAKE + connect() + command("createStream", 2.0, None))
        line.send_at_rate(itertools.repeat(picture), seconds=10 * SCALE, bytes_per_second=5_000_000)
        assert line.closed


# -- admission ------------------------------------------------------------------------------------


def wrong_keys(target: Target) -> None:
    """Guess keys: the first guesses are answered at once, the next one is delayed."""
    refusals = 0
    deadline = time.monotonic() + 20 * SCALE
    while True:
        with target.dial() as line:
            line.send_bytes(rtmp_peer.opening(name=f"zzzzzzzzzzzz_{WRONG}"))
            if refusals == LIMITS.wrong_keys_per_minute:
                line.receive_for(2.0)
                if not line.closed:
                    break
            line.must_close(AT_ONCE)
            if b"no stream has this key" in line.read:
                refusals += 1
            else:  # more than ten connections in a second
                line.receive_for(0.0)
        assert time.monotonic() < deadline
    assert refusals == LIMITS.wrong_keys_per_minute


def connections(target: Target) -> None:
    """Open 300 connections as fast as possible, and keep those that are accepted."""
    sockets: list[socket.socket] = []
    try:
        for _ in range(300):
            sock = socket.socket()
            sockets.append(sock)
            sock.settimeout(5 * SCALE)
            sock.bind((target.home, 0))
            with suppress(OSError):
                sock.connect(("127.0.0.1", target.port))
        # Refused connections have an end to read; accepted ones time out.
        deadline = time.monotonic() + AT_ONCE * SCALE
        while True:
            ended = select.select(sockets, [], [], 0.05)[0]
            if len(sockets) - len(ended) <= LIMITS.connections_per_address:
                return
            assert time.monotonic() < deadline, f"{len(sockets) - len(ended)} let in"
    finally:
        for sock in sockets:
            sock.close()


# -- slow peers -----------------------------------------------------------------------------------


def slow_handshake(target: Target) -> None:
    """Send one byte a second."""
    with target.dial() as line:
        while line.send_bytes(b"\x03") and line.receive_for(1.0):
            pass
        line.must_close(LIMITS.handshake_seconds + TICK, not_before=LIMITS.handshake_seconds)


def silent(target: Target) -> None:
    with target.dial() as line:
        line.must_close(LIMITS.handshake_seconds + TICK, not_before=LIMITS.handshake_seconds)


def silent_tls(target: Target) -> None:
    with target.dial(secure=True) as line:
        seconds = LIMITS.tls_handshake_seconds
        line.must_close(seconds + TICK, not_before=seconds)


def never_publishes(target: Target) -> None:
    """Send pings and some pictures, but never a publish command."""
    with target.dial() as line:
        line.send_bytes(HANDSHAKE + connect() + command("createStream", 2.0, None))
        picture = rtmp_peer.video(rtmp_peer.video_body(b"x", key=True))
        while line.send_bytes(picture) and line.receive_for(1.0):
            pass
        line.must_close(LIMITS.publish_seconds + TICK, not_before=LIMITS.publish_seconds)


def never_sends(target: Target) -> None:
    """Publish, answer every ping, and send no media."""
    with target.publishing() as line:
        pong = whole(2, MessageType.USER_CONTROL, b"\0\x07\0\0\0\0")
        while line.send_bytes(pong) and line.receive_for(1.0):
            pass
        seconds = LIMITS.first_media_seconds
        line.must_close(seconds + TICK + AT_ONCE, not_before=seconds)


def falls_silent(target: Target) -> None:
    """Send some media, then nothing, like a peer that lost its network."""
    with target.publishing() as line:
        line.send_bytes(rtmp_peer.MEDIA)
        seconds = LIMITS.idle_media_seconds
        line.must_close(seconds + TICK + AT_ONCE, not_before=seconds)


@dataclass(frozen=True)
class Attack:
    """An attack, and the cause that the log gives (a pattern; "" if it is not disconnected)."""

    name: str
    run: Run
    cause: str
    key: bool = False


_HUGE = head(0, 6) + header(VIDEO, 0xFF_FFFF) + bytes(128)
_SIZE = MessageType.SET_CHUNK_SIZE

QUICK = (
    Attack("HTTP", _greets(b"GET / HTTP/1.1\r\nHost: tv.example\r\n\r\n"), "version 71"),
    Attack("TLS on the plain port", _greets(TLS_HELLO), "version 22"),
    Attack("RTMP on the TLS port", _greets(HANDSHAKE, secure=True), "TLS handshake"),
    Attack("HTTP on the TLS port", _greets(b"GET / HTTP/1.1\r\n\r\n", secure=True), "TLS hand"),
    Attack("version 6", _greets(b"\x06" + bytes(3072)), "version 6"),
    Attack(
        "chunk size 0", _sends_and_is_closed(connect(), whole(2, _SIZE, bytes(4))), "chunk size 0"
    ),
    Attack(
        "chunk size 2^31",
        _sends_and_is_closed(connect(), whole(2, _SIZE, b"\x80\0\0\0")),
        "chunk size 2147483648",
    ),
    Attack("one-byte chunks", one_byte_chunks, "chunks a second"),
    Attack("16 MB messages", _sends_and_is_closed(connect(), _HUGE), "more than 8,388,608"),
    Attack("63 giants at once", interleaved_giants, "unfinished"),
    Attack(
        "form 3 on a fresh chunk stream",
        _sends_and_is_closed(connect(), head(3, 9) + b"x"),
        "chunk stream 9",
    ),
    Attack(
        "AMF nested 5000 deep",
        _sends_and_is_closed(
            message(3, MessageType.COMMAND, amf0.encode("connect", 1.0) + b"\x03\0\x01a" * 5000)
        ),
        "AMF",
    ),
    Attack(
        "an array of 2^32-1",
        _sends_and_is_closed(
            message(3, MessageType.COMMAND, amf0.encode("connect", 1.0) + b"\x0a" + b"\xff" * 4)
        ),
        "AMF",
    ),
    Attack(
        "a string cut off",
        _sends_and_is_closed(
            message(3, MessageType.COMMAND, amf0.encode("connect", 1.0) + b"\x02\xff\xffshort")
        ),
        "AMF",
    ),
    Attack("1000 connects", _sends_and_is_closed(connect() * 1000), "connect while"),
    Attack(
        "a flood of pings",
        _sends_and_is_closed(
            connect(), whole(2, MessageType.USER_CONTROL, b"\0\x06\0\0\0\1") * 1000
        ),
        "commands before publish",
    ),
    Attack("media before publish", early_media, "before permission"),
    Attack("wrong keys", wrong_keys, "wrong key"),
    Attack("300 connections", connections, "too many new connections"),
    Attack("a flood of acknowledgements", acknowledgements, "a second", key=True),
    Attack("reads nothing", never_reads, "left unread|messages a second", key=True),
    Attack("aggregate bombs", bad_media.aggregate_bombs, "messages in an aggregate", key=True),
    Attack("huge metadata", bad_media.huge_metadata, "more than 65,536", key=True),
    Attack("five times too much", bad_media.too_much, "bits a second", key=True),
    Attack("garbage as keyframes", sends(bad_media.garbage_pictures, seconds=2), "", key=True),
    Attack(
        "absurd timestamps",
        sends(bad_media.absurd_times, seconds=2 * SCALE),
        "new configurations and clock jumps",
        key=True,
    ),
    Attack("16384 x 16384 in 200 bytes", sends(bad_media.decode_bomb, seconds=2), "", key=True),
    Attack("a level that lies", sends(bad_media.level_lie, seconds=2), "", key=True),
)
SLOW = (
    Attack("a byte a second", slow_handshake, "no handshake for 5 s"),
    Attack("silent", silent, "no handshake for 5 s"),
    Attack("silent on the TLS port", silent_tls, "TLS handshake"),
    Attack("never asks to publish", never_publishes, "no publish for 15 s"),
    Attack("never sends media", never_sends, "no first packet for 20 s", key=True),
    Attack("reads nothing, slowly", never_reads_and_slow, "", key=True),
    Attack("falls silent", falls_silent, "no packet for 10 s", key=True),
)
