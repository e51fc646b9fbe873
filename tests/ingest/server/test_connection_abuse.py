"""Peers on real sockets that are not encoders, or hostile."""

import asyncio
import contextlib
import logging
import struct

import msgspec
import pytest

from headend.install.certificates import CertificateFiles
from ingest.publishing.log_throttle import LINES_PER_NETWORK, PERIOD_SECONDS
from ingest.rtmp.amf import Amf
from ingest.rtmp.messages import MessageType
from tests.support.ingest import rtmp_peer
from tests.support.ingest.loopback import (
    LIMITS,
    LoopbackPorts,
    full_log,
    lines,
    loopback_listener,
    play,
    real_time,
    server_context,
)
from tests.support.ingest.virtual_clock import play_fast
from tests.support.waiting import until

# -- what is not RTMP -----------------------------------------------------------------------------

TLS_HELLO = bytes.fromhex("16030100c8010000c40303") + bytes(190)


@pytest.mark.parametrize(
    ("address", "sent"),
    [
        pytest.param("v4", b"GET / HTTP/1.1\r\nHost: tv.example\r\n\r\n", id="HTTP"),
        pytest.param("v4", TLS_HELLO, id="TLS on the plain port"),
        pytest.param("v6", bytes(range(256)) * 40, id="anything"),
        pytest.param(
            "v4", rtmp_peer.HANDSHAKE + b"\xff" * 5000, id="anything behind the handshake"
        ),
        pytest.param("tls", rtmp_peer.HANDSHAKE, id="RTMP on the TLS port"),
        pytest.param("tls", b"GET / HTTP/1.1\r\n\r\n", id="HTTP on the TLS port"),
    ],
)
def test_a_peer_with_another_protocol_is_closed_with_one_log_line(
    address: str,
    sent: bytes,
    loop: str,
    certificates: CertificateFiles,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)

    async def scenario() -> None:
        ports = LoopbackPorts()
        async with loopback_listener(ports, tls=server_context(certificates)) as listener:
            steady = await listener.publishing(ports)
            wire = await listener.dial(address)
            await wire.send(sent)
            await wire.closed()
            await until(lambda: listener.counters.connections == 1)
            assert lines(caplog.records, wire.name) in (["closed"], ["refused"])
            assert sum(listener.counters.refused.values()) == 1
            await steady.send(rtmp_peer.MEDIA)
            await until(lambda: len(ports.packets) == 6)
            await steady.close()
            await wire.close()

    play(scenario(), loop)
    assert [record for record in caplog.records if record.name == "asyncio"] == []
    assert not any(record.exc_info for record in caplog.records)


# -- what we write --------------------------------------------------------------------------------

PING = rtmp_peer.whole(2, MessageType.USER_CONTROL, b"\0\x06\0\0\0\x01")
SMALL_WINDOW = rtmp_peer.whole(2, MessageType.WINDOW_SIZE, struct.pack(">I", 1))


@pytest.mark.parametrize(
    "flood",
    [
        pytest.param(PING, id="pings"),
        pytest.param(rtmp_peer.command("releaseStream", 2.0, None, "x"), id="commands"),
    ],
)
@real_time
async def test_a_flood_of_messages_that_need_answers_is_closed(flood: bytes, loop: str) -> None:
    ports = LoopbackPorts()
    async with loopback_listener(ports) as listener, listener.unread_socket() as sock:
        send = asyncio.get_running_loop().sock_sendall
        await send(sock, ports.opening())
        await until(lambda: listener.counters.publishers == 1)
        floods = 0
        with contextlib.suppress(ConnectionError):
            while listener.counters.connections:
                await send(sock, flood)
                floods += 1
        # Ten a second, plus the commands that are allowed before publishing.
        assert LIMITS.commands_before_publish <= floods
        assert listener.counters.refused == {"LimitExceeded": 1}


@real_time
async def test_a_peer_that_reads_nothing_is_closed_when_too_much_is_unread(loop: str) -> None:
    ports = LoopbackPorts()
    # Each piece is read and answered by itself: what is read together gets one acknowledgement.
    limits = msgspec.structs.replace(LIMITS, read_seconds=0)
    async with (
        loopback_listener(ports, limits=limits) as listener,
        listener.unread_socket() as sock,
    ):
        send = asyncio.get_running_loop().sock_sendall
        await send(sock, ports.opening() + SMALL_WINDOW)
        await until(lambda: listener.counters.publishers == 1)
        # An acknowledgement of 16 bytes for each: the most that a peer can make us write.
        acknowledged = 0
        with contextlib.suppress(ConnectionError):
            while not listener.counters.refused:
                await send(sock, rtmp_peer.audio(rtmp_peer.audio_body(b"x")))
                acknowledged += 16
                await asyncio.sleep(0)
        assert acknowledged < 256 << 10
        assert listener.counters.refused == {"LimitExceeded": 1}
        assert listener.counters.publishers == 0
        await until(lambda: listener.counters.connections == 0)


# -- every bound, through a socket ----------------------------------------------------------------

STRANGER = rtmp_peer.HANDSHAKE + rtmp_peer.connect()
CREATED = STRANGER + rtmp_peer.command("createStream", 2.0, None)
AGGREGATE = (bytes((MessageType.AUDIO, 0, 0, 0)) + bytes(7) + (11).to_bytes(4, "big")) * 4
TWENTY: list[Amf] = [1.0] * 20
CHUNKS_OF_1000 = rtmp_peer.whole(2, MessageType.SET_CHUNK_SIZE, struct.pack(">I", 1000))


def giants(count: int) -> bytes:
    """Return `count` unfinished messages, with 1000 bytes each so far."""
    return CHUNKS_OF_1000 + b"".join(
        rtmp_peer.message(number, MessageType.VIDEO, bytes(2000), size=1000)[:1012]
        for number in range(10, 10 + count)
    )


@pytest.mark.parametrize(
    ("bound", "sent", "words"),
    [
        pytest.param(
            {"chunks_per_second": 10, "chunks_average_seconds": 1.0},
            STRANGER + PING * 20,
            "more than 10 chunks a second",
            id="chunks_per_second",
        ),
        pytest.param(
            {"messages_per_second": 1},
            STRANGER + rtmp_peer.audio(b"x") * 20,
            "more than 1 messages a second",
            id="messages_per_second",
        ),
        pytest.param(
            {"chunk_streams": 3},
            STRANGER + b"".join(rtmp_peer.whole(n, MessageType.AUDIO, b"x") for n in range(4, 7)),
            "more than 3 chunk streams",
            id="chunk_streams",
        ),
        pytest.param(
            {"message_streams": 2},
            STRANGER + rtmp_peer.command("createStream", 2.0, None) * 3,
            "more than 2 message streams",
            id="message_streams",
        ),
        pytest.param(
            {"media_message_bytes": 900},
            STRANGER + rtmp_peer.video(bytes(901)),
            "more than 900 bytes in a message of type 9",
            id="media_message_bytes",
        ),
        pytest.param(
            {"other_message_bytes": 900},
            STRANGER + rtmp_peer.message(4, MessageType.DATA, bytes(901)),
            "more than 900 bytes in a message of type 18",
            id="other_message_bytes",
        ),
        pytest.param(
            {"unfinished_bytes": 4500},
            STRANGER + giants(5),
            "more than 4,500 bytes in unfinished messages",
            id="unfinished_bytes",
        ),
        pytest.param(
            {"commands_before_publish": 5},
            STRANGER + PING * 5,
            "more than 5 commands before publish",
            id="commands_before_publish",
        ),
        pytest.param(
            {"early_media_bytes": 3000},
            CREATED + rtmp_peer.video(bytes(3000)),
            "more than 3,000 bytes before permission to publish",
            id="early_media_bytes",
        ),
        pytest.param(
            {"media_bits_per_second": 40_000, "media_average_seconds": 1.0, "media_burst": 1},
            STRANGER + rtmp_peer.message(4, MessageType.VIDEO, bytes(5000)),
            "more than 40,000 bits a second",
            id="media_bits_per_second",
        ),
        pytest.param(
            {"amf_depth": 3},
            STRANGER + rtmp_peer.command("releaseStream", 2.0, {"a": {"b": {"c": {"d": 1.0}}}}),
            "nested more than 3 deep",
            id="amf_depth",
        ),
        pytest.param(
            {"amf_nodes": 9},
            STRANGER + rtmp_peer.command("releaseStream", 2.0, TWENTY),
            "more than 9 values",
            id="amf_nodes",
        ),
        pytest.param(
            {"amf_string_bytes": 50},
            STRANGER + rtmp_peer.command("releaseStream", 2.0, "x" * 51),
            "a string of 51 bytes",
            id="amf_string_bytes",
        ),
        pytest.param(
            {"application_bytes": 10},
            rtmp_peer.opening(app="x" * 11),
            "the application has more than 10 bytes",
            id="application_bytes",
        ),
        pytest.param(
            {"name_bytes": 10},
            CREATED + rtmp_peer.publish("x" * 11),
            "the stream key has more than 10 bytes",
            id="name_bytes",
        ),
        pytest.param(
            {"query_bytes": 10},
            CREATED + rtmp_peer.publish("name?" + "x" * 11),
            "the query has more than 10 bytes",
            id="query_bytes",
        ),
        pytest.param(
            {"address_bytes": 30},
            rtmp_peer.HANDSHAKE + rtmp_peer.connect(url="rtmp://tv.example/" + "x" * 20),
            "more than 30 bytes in an address",
            id="address_bytes",
        ),
    ],
)
@real_time
async def test_every_bound_closes_one_connection(
    bound: dict[str, float], sent: bytes, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    limits = msgspec.structs.replace(LIMITS, **bound)
    async with loopback_listener(LoopbackPorts(), limits=limits) as listener:
        wire = await listener.dial()
        await wire.send(sent)
        await wire.closed()
        await until(lambda: listener.counters.connections == 0)
        assert sum(listener.counters.refused.values()) == 1
        await wire.close()
    (closed,) = [vars(record) for record in caplog.records if record.msg == "closed"]
    assert closed["peer"] == wire.name
    assert words in closed["cause"]


@pytest.mark.parametrize(
    ("bound", "sent", "words"),
    [
        pytest.param(
            {"commands_per_second": 0.1, "commands_before_publish": 5},
            PING * 6,
            "0.1 commands a second",
            id="commands_per_second",
        ),
        pytest.param(
            {"aggregate_messages": 3},
            rtmp_peer.message(7, MessageType.AGGREGATE, AGGREGATE, stream=1),
            "more than 3 messages in an aggregate",
            id="aggregate_messages",
        ),
        pytest.param(
            {"beginnings_per_minute": 4},
            b"".join(rtmp_peer.video(rtmp_peer.video_body(b"x"), at * 60_000) for at in range(4)),
            "more than 4 new configurations and clock jumps",
            id="clock jumps a minute",
        ),
        pytest.param(
            {"beginnings_per_minute": 4},
            b"".join(
                rtmp_peer.audio(rtmp_peer.audio_config(bytes((0x12, 0x10 - at))))
                for at in (0, 8) * 3
            ),
            "more than 4 new configurations and clock jumps",
            id="configurations a minute",
        ),
    ],
)
@real_time
async def test_every_bound_of_a_publisher_closes_one_connection(
    bound: dict[str, float], sent: bytes, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    ports = LoopbackPorts()
    limits = msgspec.structs.replace(LIMITS, **bound)
    async with loopback_listener(ports, limits=limits) as listener:
        wire = await listener.publishing(ports)
        await wire.send(sent)
        await wire.closed()
        await until(lambda: listener.counters.connections == 0)
        assert listener.counters.refused == {"LimitExceeded": 1}
        assert listener.counters.publishers == 0
        await wire.close()
    (closed,) = [vars(record) for record in caplog.records if record.msg == "closed"]
    assert words in closed["cause"]


# -- the log --------------------------------------------------------------------------------------


def test_a_flood_of_wrong_keys_is_counted_and_logged_in_a_few_lines(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    secret = "01234567-89ab-cdef-0123-456789abcdef"

    async def scenario() -> None:
        async with loopback_listener(LoopbackPorts()) as listener:
            for _ in range(60):
                wire = await listener.dial()
                await wire.send(rtmp_peer.opening(name=f"Ab3dEf6hIj9l_{secret}"))
                await wire.closed()
                await wire.close()
            assert listener.counters.refused == {"wrong key": 60}
            await asyncio.sleep(PERIOD_SECONDS + 1)

    play_fast(scenario())
    refusals = [record for record in caplog.records if record.msg == "refused"]
    assert len(refusals) == LINES_PER_NETWORK
    (summed,) = [record for record in caplog.records if record.msg == "%s %d more"]
    assert summed.getMessage() == f"refused {60 - LINES_PER_NETWORK} more"
    assert vars(summed)["cause"] == "wrong key"
    assert secret not in full_log(caplog.records)
    events = [(each.msg, vars(each)["peer"]) for each in caplog.records if each.name == "security"]
    assert events == [("wrong key", "127.0.0.1")] * 60


def test_summaries_are_logged_at_the_end_too(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def scenario() -> None:
        async with loopback_listener(LoopbackPorts()) as listener:
            for _ in range(9):
                wire = await listener.dial()
                await wire.send(b"GET / HTTP/1.1\r\n\r\n")
                await wire.closed()
                await wire.close()
            assert listener.counters.refused == {"HandshakeError": 9}

    play(scenario())
    assert "closed 4 more" in caplog.text
