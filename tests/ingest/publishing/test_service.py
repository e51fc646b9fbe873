"""The door for any protocol: encoders of one that is made up here, beside those of RTMP."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import pytest

from ingest.publishing.admission import AdmissionLimits
from ingest.publishing.service import Denial, PublishingService
from ingest.rtmp.events import TrackFound
from ingest.stream.live_stream import ALIVE_SECONDS
from ingest.stream.ports import PortError, StreamEnded
from ingest.stream.registry import LiveStreams
from ingest.stream.slot_session import CloseReason, PublisherSession
from media.loop_lag import LoopLag
from media.packet import MediaPacket
from media.track import Track
from tests.ingest.rtmp.test_session_captures import expected
from tests.support.ingest import rtmp_peer
from tests.support.ingest.loopback import HASH, LoopbackPorts, loopback_listener
from tests.support.ingest.virtual_clock import run, virtual_sockets, virtual_time
from tests.support.waiting import until

WRONG = f"{HASH}_01234567-89ab-cdef-0123-456789abcdef"
OCCUPIED = "another encoder is sending with this key"
# What a real encoder sent, as values.
RECORDED: list[Track | MediaPacket] = [
    event.track if isinstance(event, TrackFound) else event
    for event in expected("ffmpeg")[2]
    if isinstance(event, TrackFound | MediaPacket)
]
PACKETS = [each for each in RECORDED if isinstance(each, MediaPacket)]


class Telegraph:
    """A connection of a protocol without bytes: media come as values, and words go as texts."""

    def __init__(self, service: PublishingService, host: str = "192.0.2.7") -> None:
        encoder = service.admit(host, 7, "telegraph")
        assert encoder is not None
        self.encoder = encoder
        self.peer = encoder.peer
        self.told: list[str | None] = []
        self.last_received = asyncio.get_running_loop().time()
        self._session: PublisherSession | None = None

    async def dial(self, key: str, slot: str = "live") -> None:
        answer = await self.encoder.request(slot, key, self)
        if isinstance(answer, Denial):
            self.told.append(answer.words)
            self.encoder.leave()
        elif answer is not None:
            self.told.append("go ahead")
            self.encoder.begin(answer)
            self._session = answer

    def send(self, media: Sequence[Track | MediaPacket]) -> None:
        assert self._session is not None
        self.last_received = now = asyncio.get_running_loop().time()
        for each in media:
            if isinstance(each, MediaPacket):
                self._session.receive_packets([each], now)
            else:
                self._session.receive_track(each, now)

    def disconnect(self, reason: str, *, moved: bool = False) -> None:
        self.told.append(reason)
        self.encoder.close(CloseReason.CLOSED)
        asyncio.get_running_loop().call_soon(self.encoder.leave)


@asynccontextmanager
async def door(
    ports: LoopbackPorts, limits: AdmissionLimits | None = None
) -> AsyncGenerator[PublishingService]:
    """Open the door to real streams for the length of the block; all have left at its end."""
    async with asyncio.TaskGroup() as tasks:
        lag = LoopLag()
        streams = LiveStreams(ports, ports, tasks, lag)
        service = PublishingService(limits or AdmissionLimits(), ports, streams, lag)
        yield service
        streams.drain()
        await streams.wait_closed()
    assert service.counters.publishers == service.counters.connections == 0


def facts(ports: LoopbackPorts) -> list[object]:
    return [each.facts.get("reason") for each in ports.recorded if each.kind == "encoder off"]


# -- permission -----------------------------------------------------------------------------------


def test_an_encoder_of_any_protocol_publishes(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        ports = LoopbackPorts()
        async with door(ports) as service:
            encoder = Telegraph(service)
            await encoder.dial(ports.key.text)
            encoder.send(RECORDED)
            await until(lambda: ports.packets == PACKETS)
            assert (service.counters.connections, service.counters.publishers) == (1, 1)
            encoder.encoder.stop(goodbye=True)
            await until(lambda: facts(ports) == ["goodbye"])
            assert (service.counters.connections, service.counters.publishers) == (1, 0)
            # It may ask again on its connection.
            await encoder.dial(ports.key.text)
            encoder.encoder.leave()
            await until(lambda: facts(ports) == ["goodbye", "lost"])
            assert encoder.told == ["go ahead"] * 2
            assert service.counters.refused == {}

    caplog.set_level(logging.INFO)
    run(scenario())
    on, off, *_ = [vars(each) for each in caplog.records if each.msg.startswith("publisher o")]
    assert (on["by"], on["peer"], on["stream"]) == ("telegraph", "192.0.2.7:7", HASH)
    assert (on["slot"], off["goodbye"]) == ("primary", True)


@pytest.mark.parametrize(
    ("failure", "key", "cause", "words"),
    [
        (None, WRONG, "wrong key", "no stream has this key"),
        (None, "no key at all", "wrong key", "no stream has this key"),
        (PortError("busy"), None, "look-up failed", "the service cannot look keys up now"),
        (StreamEnded(HASH, 60), None, "ended", str(StreamEnded(HASH, 60))),
    ],
)
@virtual_time
async def test_a_refusal_has_a_cause_and_words(
    failure: Exception | None,
    key: str | None,
    cause: str,
    words: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    ports = LoopbackPorts()
    ports.failure = failure
    async with door(ports) as service:
        encoder = Telegraph(service)
        await encoder.dial(key or ports.key.text)
        assert encoder.told == [words]
        assert service.counters.refused == {cause: 1}
        assert ports.runs == []
    (line,) = [vars(each) for each in caplog.records if each.msg == "refused"]
    assert (line["cause"], line["peer"], line["by"]) == (cause, encoder.peer, "telegraph")
    assert line["stream"] == (HASH if cause == "ended" else "-")


@virtual_time
async def test_wrong_keys_are_answered_late_and_in_the_end_not_at_all() -> None:
    ports = LoopbackPorts()
    clock = asyncio.get_running_loop().time
    async with door(ports, AdmissionLimits(wrong_keys_per_minute=10)) as service:
        began = clock()
        encoders = [Telegraph(service, f"2001:db8::{number}") for number in range(10)]
        for encoder in encoders:
            await encoder.dial(WRONG)
        assert clock() == began
        await asyncio.sleep(2)
        late, later, never = (Telegraph(service, f"2001:db8::a{number}") for number in range(3))
        async with asyncio.TaskGroup() as tasks:
            for encoder in (late, later, never):
                tasks.create_task(encoder.dial(WRONG))
            await asyncio.sleep(1)
            assert (late.told, later.told, never.told) == ([], [], [None])
            later.encoder.leave()  # who leaves is not waited for
            await asyncio.sleep(1)
            assert later.told == ["no stream has this key"]
        assert 3 < clock() - began - 2 < 7
        assert service.counters.refused == {
            "wrong key": 12,
            "too many wrong keys from one address": 1,
        }


@virtual_time
async def test_who_leaves_during_the_look_up_leaves_its_slot_free() -> None:
    ports = LoopbackPorts()
    async with door(ports) as service, asyncio.TaskGroup() as tasks:
        ports.answering.clear()
        hasty = Telegraph(service)
        asking = tasks.create_task(hasty.dial(ports.key.text))
        await until(lambda: len(ports.asked) == 1)
        hasty.encoder.leave()
        ports.answering.set()
        await asking
        assert hasty.told == []
        other = Telegraph(service)
        await other.dial(ports.key.text)
        assert other.told == ["go ahead"]
        assert service.counters.refused == {}
    assert "taken over" not in {each.kind for each in ports.recorded}


# -- while it publishes ---------------------------------------------------------------------------


@virtual_time
async def test_a_revoked_encoder_is_disconnected() -> None:
    ports = LoopbackPorts()
    async with door(ports) as service:
        encoder = Telegraph(service)
        await encoder.dial(ports.key.text)
        encoder.send(RECORDED)
        assert await service.streams.disconnect(1, "new", "the key was changed") == 1
        assert encoder.told == ["go ahead", "the key was changed"]
        assert service.counters.publishers == 0
        assert facts(ports) == ["closed by us"]


@virtual_time
async def test_an_encoder_that_was_looked_up_before_a_revocation_is_refused() -> None:
    """It waits for its slot, whose encoder still seems alive."""

    ports = LoopbackPorts()
    async with door(ports) as service, asyncio.TaskGroup() as tasks:
        first, second = Telegraph(service), Telegraph(service)
        await first.dial(ports.key.text)
        first.send(RECORDED)
        asking = tasks.create_task(second.dial(ports.key.text))
        await until(lambda: ports.answered == 2)
        key, ports.key = ports.key, type(ports.key).new(HASH)
        assert not ports.key.matches(key.secret)
        await service.streams.disconnect(1, "new", "the key was changed")
        await asking
        assert second.told == ["no stream has this key"]
        await until(lambda: facts(ports) == ["closed by us"] * 2)
        assert service.counters.refused == {"wrong key": 1}


@virtual_time
async def test_a_silent_encoder_is_taken_over_and_a_live_one_is_not() -> None:
    ports = LoopbackPorts()
    async with door(ports) as service:
        first, second, third = (Telegraph(service) for _ in range(3))
        await first.dial(ports.key.text)
        first.send(RECORDED)
        await asyncio.sleep(ALIVE_SECONDS)
        await second.dial(ports.key.text)
        assert (first.told[1:], second.told) == (["another connection took over"], ["go ahead"])
        assert service.counters.publishers == 1

        async def chat() -> None:
            while True:
                second.send(PACKETS[-1:])
                await asyncio.sleep(0.2)

        second.send(RECORDED)
        async with asyncio.TaskGroup() as tasks:
            chatting = tasks.create_task(chat())
            await third.dial(ports.key.text)
            chatting.cancel()
        assert third.told == [OCCUPIED]
        assert service.counters.refused == {"occupied": 1}
        assert len(ports.runs) == 1


# -- several protocols at one door ----------------------------------------------------------------


@pytest.mark.real
@virtual_sockets
async def test_another_protocol_takes_over_a_slot_of_rtmp() -> None:
    ports = LoopbackPorts()
    async with loopback_listener(ports) as listener:
        wire = await listener.publishing(ports)
        await asyncio.sleep(ALIVE_SECONDS)
        encoder = Telegraph(listener.listener.publishing)
        await encoder.dial(ports.key.text)
        assert encoder.told == ["go ahead"]
        await wire.read_to_end()
        assert rtmp_peer.statuses(wire.read)[-1][2] == "NetStream.Unpublish.Success"
        await wire.close()
        await until(lambda: listener.counters.connections == 1)
        encoder.send(RECORDED)
        await until(lambda: ports.packets[-1:] == PACKETS[-1:])
        assert len(ports.runs) == 1
        assert listener.counters.publishers == 1


@virtual_time
async def test_all_protocols_share_the_limits() -> None:
    ports = LoopbackPorts()
    limits = AdmissionLimits(connections=2, connections_per_address=1)
    async with door(ports, limits) as service:
        first, second = Telegraph(service, "192.0.2.1"), Telegraph(service, "192.0.2.2")
        assert service.admit("192.0.2.1", 8, "semaphore") is None
        assert service.admit("192.0.2.3", 8, "semaphore") is None
        first.encoder.leave()
        first.encoder.leave()  # whoever is told twice counts once
        assert service.admit("192.0.2.2", 8, "semaphore") is None
        assert service.counters.connections == 1
        second.encoder.leave()
    assert service.counters.refused == {
        "too many connections": 2,
        "too many connections from one address": 1,
    }


def test_what_breaks_a_protocol_is_counted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        ports = LoopbackPorts()
        async with door(ports) as service:
            encoder = Telegraph(service)
            for _ in range(9):
                encoder.encoder.broke_protocol("OutOfInk", "no ink for 5 s")
            encoder.encoder.failed(RuntimeError("a bug"))
            encoder.encoder.refuse_connection("wax", "wax: it melts")
            encoder.encoder.leave()
            assert service.counters.refused == {"OutOfInk": 9, "failure": 1, "wax": 1}
            service.close()

    caplog.set_level(logging.INFO)
    run(scenario())
    lines = [each.getMessage() for each in caplog.records if each.name.startswith("ingest.publ")]
    assert lines == [*["closed"] * 5, "connection failed", "refused", "closed 4 more"]
    assert vars(caplog.records[0])["cause"] == "no ink for 5 s"
