"""The owner's end: what it accepts from other hosts, and its answers."""

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import msgspec
import pytest

from headend.install.relay_key import relay_tls
from ingest.relay.handshakes import OF_ONE_NETWORK
from ingest.relay.link import RelayLink
from ingest.relay.messages import (
    Attach,
    Attached,
    AttachRefused,
    Close,
    Disconnect,
    Message,
    PartReceived,
    RelayedGrant,
    RelayedJump,
    RelayedPacket,
    RelayedTrack,
    Stored,
)
from ingest.stream.ports import Grant
from ingest.stream.slot_session import CloseReason, ConnectedPublisher, SlotSession
from media.loop_lag import LoopLag
from tests.ingest.relay.test_link import User
from tests.ingest.stream.test_live_stream import AUDIO, GRANT, VIDEO
from tests.support.ingest.relay_hosts import SECRET, RelayHost, installation
from tests.support.ingest.simulated_encoders import BACKUP, PRIMARY
from tests.support.ingest.virtual_clock import play_fast, virtual_sockets

ATTACH = Attach(number=0, grant=RelayedGrant.of(GRANT), peer="192.0.2.7:5")


class RelayingHost(User):
    """A host that sends the test's messages."""

    def __init__(self) -> None:
        super().__init__()
        self.link = RelayLink(self, "owner", LoopLag())

    async def send(self, *messages: Message) -> list[Message]:
        """Send messages, and return the answers since the last call."""
        for message in messages:
            self.link.send(message)
        await asyncio.sleep(0.1)
        answers, self.messages = self.messages, []
        return answers


@asynccontextmanager
async def relaying(owner: RelayHost) -> AsyncGenerator[RelayingHost, None]:
    host = RelayingHost()
    name, port = owner.address.split(":")
    await asyncio.get_running_loop().create_connection(
        lambda: host.link, name, int(port), ssl=relay_tls(SECRET).client, server_hostname=""
    )
    yield host
    host.link.drop("over")
    await asyncio.sleep(0.1)


def packet(number: int = 0, *, video: bool = True, age_ms: int = 0) -> RelayedPacket:
    return RelayedPacket(
        number=number, age_ms=age_ms, video=video, dts=40, pts=80, key=True, data=b"x"
    )


TRACK = RelayedTrack(number=0, age_ms=0, track=VIDEO)
SOUND = RelayedTrack(number=0, age_ms=0, track=AUDIO)


@virtual_sockets
async def test_a_session_from_its_attachment_to_its_goodbye() -> None:
    async with installation() as hosts:
        owner = await hosts.start()
        async with relaying(owner) as host:
            assert await host.send(ATTACH) == [Attached(number=0, generation=1)]
            await host.send(TRACK, SOUND, packet(), packet(video=False))
            await asyncio.sleep(1)
            assert owner.ports.sinks[0].recorded == [
                "begin VideoTrack AudioTrack",
                "offer 40",
                "offer 40",
            ]
            await host.send(PartReceived(number=0), RelayedJump(number=0))
            await host.send(Close(number=0, goodbye=True, reason=None))
            await asyncio.sleep(1)
            assert owner.ports.recorded[-1].facts["reason"] == "goodbye"
            assert host.link.is_open


@virtual_sockets
async def test_media_are_timed_by_their_arrival_at_the_relaying_host() -> None:
    async with installation() as hosts:
        owner = await hosts.start()
        async with relaying(owner) as host:
            await host.send(ATTACH)
            await host.send(
                RelayedTrack(number=0, age_ms=7_000, track=VIDEO),
                RelayedTrack(number=0, age_ms=7_000, track=AUDIO),
                packet(age_ms=7_000),
            )
            await asyncio.sleep(0.3)
            assert owner.ports.sinks[0].late[0] == pytest.approx(7.0, abs=0.2)


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param([ATTACH, ATTACH], id="a number twice"),
        pytest.param([ATTACH, packet()], id="before it is attached"),
        pytest.param([Attached(number=0, generation=1)], id="what owners send"),
        pytest.param([Stored(number=0, age_ms=0)], id="what owners send of a session"),
    ],
)
@virtual_sockets
async def test_a_host_that_breaks_the_protocol_loses_its_link(messages: list[Message]) -> None:
    async with installation() as hosts:
        owner = await hosts.start()
        async with relaying(owner) as host:
            await host.send(*messages)
            assert len(host.lost) == 1
        await asyncio.sleep(1)
        assert owner.links == []
        assert len(owner.streams) == 0


def test_a_packet_without_a_track_ends_only_its_own_session(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        async with installation() as hosts:
            owner = await hosts.start()
            async with relaying(owner) as host:
                backup = msgspec.structs.replace(GRANT, slot=BACKUP)
                await host.send(
                    ATTACH, Attach(number=1, grant=RelayedGrant.of(backup), peer="192.0.2.8:5")
                )
                await host.send(TRACK, SOUND, packet())
                answers = await host.send(packet(number=1))
                reason = "a packet without a track"
                assert answers == [Disconnect(number=1, moved=False, reason=reason)]
                assert host.lost == []
                await asyncio.sleep(1)
                assert owner.ports.states[-1].sending == {PRIMARY}
                offered = len(owner.ports.sinks[0].recorded)
                await host.send(packet(number=1), packet())
                assert len(owner.ports.sinks[0].recorded) == offered + 1

    play_fast(scenario())
    assert caplog.messages.count("session refused") == 1


@virtual_sockets
async def test_messages_for_an_ended_session_are_ignored() -> None:
    async with installation() as hosts:
        owner = await hosts.start()
        async with relaying(owner) as host:
            await host.send(ATTACH)
            assert await owner.streams.disconnect(1, None, "the stream was deleted") == 1
            answers = await host.send(TRACK, packet(), Close(0, False, None))
            assert answers == [Disconnect(number=0, moved=False, reason="the stream was deleted")]
            assert host.link.is_open


def test_a_session_that_fails_does_not_end_others(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with installation() as hosts:
            owner = await hosts.start()
            async with relaying(owner) as host:
                await host.send(ATTACH)
                await host.send(TRACK, SOUND, packet())
                owner.ports.sinks[0].finish()  # from then on it accepts no packet
                answers = await host.send(packet())
                assert answers == [Disconnect(number=0, moved=False, reason="failure")]
                assert host.link.is_open
                assert len(owner.relay.links) == 1

    play_fast(scenario())
    assert "session failed" in [record.message for record in caplog.records]


@virtual_sockets
async def test_a_lost_link_ends_the_sessions_of_its_encoders() -> None:
    async with installation() as hosts:
        owner = await hosts.start()
        async with relaying(owner) as host:
            await host.send(ATTACH)
            await host.send(TRACK, SOUND, packet())
        await asyncio.sleep(1)
        facts = owner.ports.recorded[-1].facts
        assert facts["reason"] == CloseReason.LOST.value
        owner.relay.media_stored(1, 2.0)  # no session is left to be told


@virtual_sockets
async def test_an_encoder_that_leaves_before_it_is_attached_holds_no_slot() -> None:
    async with installation() as hosts:
        owner = await hosts.start()
        async with relaying(owner) as host:
            hosts.table.answering.clear()
            await host.send(ATTACH, Close(number=0, goodbye=False, reason=None))
            hosts.table.answering.set()
            assert await host.send() == []
        await asyncio.sleep(1)
        assert len(owner.streams) == 0
        assert hosts.table.owners[1] == (None, 1)


@virtual_sockets
async def test_a_stream_of_a_third_host_is_not_relayed_further() -> None:
    async with installation() as hosts:
        owner = await hosts.start()
        hosts.table.owners[1] = ("192.0.2.1:1937", 9)
        async with relaying(owner) as host:
            (answer,) = await host.send(ATTACH)
            assert isinstance(answer, AttachRefused)
            assert not answer.occupied
            assert "192.0.2.1" in answer.reason
            hosts.table.down = True
            (answer,) = await host.send(Attach(number=1, grant=RelayedGrant.of(GRANT), peer="-"))
            assert isinstance(answer, AttachRefused)
            assert not answer.occupied


@virtual_sockets
async def test_hosts_are_told_up_to_which_time_media_are_stored() -> None:
    async with installation() as hosts:
        owner = await hosts.start()
        async with relaying(owner) as host:
            await host.send(ATTACH)
            owner.relay.media_stored(1, 2.5)
            owner.relay.media_stored(2, 1.0)
            owner.relay.media_stored(1, 1e6)  # bounded by what a message can say
            answers = await host.send()
            assert answers == [
                Stored(number=0, age_ms=2_500),
                Stored(number=0, age_ms=60_000),
            ]


@virtual_sockets
async def test_of_an_encoder_that_is_ahead_more_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    sessions: list[SlotSession] = []
    async with installation() as hosts:
        owner = await hosts.start()
        attach_here = owner.streams.attach_here

        async def attached(grant: Grant, publisher: ConnectedPublisher) -> SlotSession:
            sessions.append(await attach_here(grant, publisher))
            return sessions[-1]

        monkeypatch.setattr(owner.streams, "attach_here", attached)
        async with relaying(owner) as host:
            await host.send(ATTACH)
            for lead in (1.0, 0.0, -1.0):
                sessions[0].lead = lead
                owner.relay.media_stored(1, 2.5)
            answers = await host.send()
            assert [each.age_ms for each in answers if isinstance(each, Stored)] == [
                3_750,
                2_500,
                2_500,
            ]


@virtual_sockets
async def test_strangers_do_not_keep_a_host_from_connecting_again() -> None:
    """They connect from its own address, which may have few concurrent handshakes, for seconds."""

    async with installation() as hosts:
        owner = await hosts.start()
        name, port = owner.address.split(":")
        loop = asyncio.get_running_loop()
        async with relaying(owner) as host:
            assert await host.send(ATTACH) == [Attached(number=0, generation=1)]
            strangers = [socket.socket() for _ in range(3 * OF_ONE_NETWORK)]
            for each in strangers:
                each.setblocking(False)
                await loop.sock_connect(each, (name, int(port)))
            began = loop.time()
            # The excess ones are closed at once, the others after a timeout.
            for each in strangers[OF_ONE_NETWORK:]:
                assert await loop.sock_recv(each, 100) == b""
            assert loop.time() - began < 2
            assert host.link.is_open
            await host.send(TRACK, SOUND, packet())
            for each in strangers[:OF_ONE_NETWORK]:
                assert await loop.sock_recv(each, 100) == b""
                each.close()
            assert loop.time() - began < 6
            async with relaying(owner) as again:
                backup = RelayedGrant.of(msgspec.structs.replace(GRANT, slot=BACKUP))
                second = Attach(number=0, grant=backup, peer="-")
                assert await again.send(second) == [Attached(number=0, generation=1)]
            for each in strangers:
                each.close()


@virtual_sockets
async def test_a_connection_that_does_not_authenticate_is_closed() -> None:
    async with installation() as hosts:
        owner = await hosts.start()
        name, port = owner.address.split(":")
        loop = asyncio.get_running_loop()
        with socket.socket() as silent, socket.socket() as plain:
            for each in (silent, plain):
                each.setblocking(False)
                await loop.sock_connect(each, (name, int(port)))
            await loop.sock_sendall(plain, b"\0\0\0\2\x92\0\1")
            began = loop.time()
            assert await loop.sock_recv(silent, 100) == b""
            assert loop.time() - began < 6
            while await loop.sock_recv(plain, 100):  # an alert
                pass
        assert owner.links == []
