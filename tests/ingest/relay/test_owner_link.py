"""The relaying host's end: sessions at an owner that answers, refuses, falls silent or leaves."""

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from ingest.relay.link import RelayLink, run_ticks
from ingest.relay.messages import (
    MAX_AGE_MS,
    Attach,
    Attached,
    AttachRefused,
    Close,
    Disconnect,
    PartReceived,
    RelayedGrant,
    RelayedJump,
    RelayedPacket,
    RelayedTrack,
    Stored,
)
from ingest.relay.owner_link import Attachment, OwnerLink, OwnerUnreachable
from ingest.stream.live_stream import SlotOccupied
from ingest.stream.slot_session import CloseReason
from media.loop_lag import LoopLag
from media.packet import MediaPacket
from tests.ingest.relay.test_link import User
from tests.ingest.stream.test_live_stream import AUDIO, GRANT, VIDEO
from tests.support.ingest.virtual_clock import virtual_sockets


class RecordedCalls:
    """Records the calls of an attachment."""

    def __init__(self) -> None:
        self.ended: list[str] = []
        self.stored: list[float] = []

    def attachment_ended(self, attachment: Attachment, cause: str) -> None:
        self.ended.append(cause)

    def media_stored(self, attachment: Attachment, seconds_ago: float) -> None:
        self.stored.append(seconds_ago)


class Ends:
    """A link, and an owner at its far end with the test's answers."""

    def __init__(self) -> None:
        self.closed: list[str] = []
        self.owner = OwnerLink(
            "192.0.2.9:1937", LoopLag(), lambda _, cause: self.closed.append(cause)
        )
        self.far = User()
        self.far_link = RelayLink(self.far, "relaying", LoopLag())

    async def attach(self, session: RecordedCalls, answer: Attached | AttachRefused) -> Attachment:
        async with asyncio.TaskGroup() as tasks:
            attaching = tasks.create_task(self.owner.attach(GRANT, "192.0.2.7:5", session))
            await asyncio.sleep(0.05)
            self.far_link.send(answer)
        return attaching.result()


@asynccontextmanager
async def ends() -> AsyncGenerator[Ends, None]:
    both_ends, (near, far) = Ends(), socket.socketpair()
    loop = asyncio.get_running_loop()
    await loop.create_connection(lambda: both_ends.owner.link, sock=near)
    await loop.create_connection(lambda: both_ends.far_link, sock=far)
    async with asyncio.TaskGroup() as tasks:
        ticking = tasks.create_task(run_ticks({both_ends.owner.link, both_ends.far_link}))
        await both_ends.owner.wait_ready()
        yield both_ends
        ticking.cancel()
    both_ends.owner.link.drop("over")
    both_ends.far_link.drop("over")
    await asyncio.sleep(0.05)


ATTACHED = Attached(number=0, generation=6)


@virtual_sockets
async def test_a_session_is_attached_and_its_media_are_sent() -> None:
    async with ends() as each:
        attachment = await each.attach(RecordedCalls(), ATTACHED)
        assert attachment.generation == 6
        assert attachment.address == "192.0.2.9:1937"
        packet = MediaPacket(track=AUDIO, dts=1, pts=2, key=True, data=b"s")
        now = asyncio.get_running_loop().time()
        attachment.receive_track(VIDEO, now)
        attachment.receive_track(AUDIO, now - 1.5)
        attachment.receive_packets([packet], now)
        attachment.receive_packets([packet], now - 1e9)
        attachment.receive_packets([packet], now + 0.1)
        for later in (0.15, 0.25):  # the first part is soon after a packet
            attachment.receive_part(now + later)
            attachment.receive_unusable("odd", now + later, video=True)
        attachment.picture_announced()
        attachment.clock_jumped()
        await asyncio.sleep(0.05)
        sound = RelayedPacket(number=0, age_ms=0, video=False, dts=1, pts=2, key=True, data=b"s")
        old = RelayedPacket(
            number=0, age_ms=MAX_AGE_MS, video=False, dts=1, pts=2, key=True, data=b"s"
        )
        assert each.far.messages == [
            Attach(number=0, grant=RelayedGrant.of(GRANT), peer="192.0.2.7:5"),
            RelayedTrack(number=0, age_ms=0, track=VIDEO),
            RelayedTrack(number=0, age_ms=1_500, track=AUDIO),
            sound,
            old,
            sound,
            PartReceived(number=0, video=True, unusable="odd"),
            PartReceived(number=0),
            PartReceived(number=0, video=True, unusable="odd"),
            PartReceived(number=0, announced=True),
            RelayedJump(number=0),
        ]


@virtual_sockets
async def test_the_end_of_the_last_session_closes_the_link() -> None:
    async with ends() as each:
        session = RecordedCalls()
        first = await each.attach(session, ATTACHED)
        second = await each.attach(session, Attached(number=1, generation=6))
        first.close(goodbye=True, reason=None)
        first.close(goodbye=True, reason=None)
        assert each.owner.link.is_open
        second.close(goodbye=False, reason=CloseReason.SILENT)
        await asyncio.sleep(0.05)
        assert each.far.messages[2:] == [
            Close(number=0, goodbye=True, reason=None),
            Close(number=1, goodbye=False, reason=CloseReason.SILENT),
        ]
        assert not each.owner.link.is_open
        assert each.closed == ["closed here"]
        assert session.ended == []


@pytest.mark.parametrize(("occupied", "error"), [(True, SlotOccupied), (False, OwnerUnreachable)])
@virtual_sockets
async def test_a_refusal_is_an_error(occupied: bool, error: type[Exception]) -> None:
    async with ends() as each:
        refusal = AttachRefused(number=0, occupied=occupied, reason="why")
        with pytest.raises(ExceptionGroup) as group:
            await each.attach(RecordedCalls(), refusal)
        assert group.group_contains(error)


@virtual_sockets
async def test_attaching_fails_if_the_owner_does_not_answer() -> None:
    async with ends() as each:
        with pytest.raises(OwnerUnreachable, match="not answer"):
            await each.owner.attach(GRANT, "-", RecordedCalls())
        await asyncio.sleep(0.05)
        # The owner may have attached the session meanwhile.
        assert each.far.messages[-1] == Close(number=0, goodbye=False, reason=None)


@virtual_sockets
async def test_a_link_that_is_lost_ends_all_sessions_and_attempts() -> None:
    async def lost(each: Ends) -> None:
        with pytest.raises(OwnerUnreachable):
            await each.owner.attach(GRANT, "-", RecordedCalls())

    async with ends() as each:
        session = RecordedCalls()
        attachment = await each.attach(session, ATTACHED)
        async with asyncio.TaskGroup() as tasks:
            attaching = tasks.create_task(lost(each))
            await asyncio.sleep(0.05)
            each.far_link.drop("killed")
        assert attaching.done()
        assert len(session.ended) == len(each.closed) == 1
        assert not attachment.is_open
        assert attachment.farewell is None
        attachment.picture_announced()  # has no effect


@virtual_sockets
async def test_an_owner_can_end_sessions_and_reports_stored_media() -> None:
    async with ends() as each:
        session = RecordedCalls()
        attachment = await each.attach(session, ATTACHED)
        farewell = Disconnect(number=0, moved=True, reason="the service is stopping")
        each.far_link.send(Stored(number=0, age_ms=2_500))
        each.far_link.send(farewell)
        each.far_link.send(Stored(number=0, age_ms=1))  # which comes too late
        await asyncio.sleep(0.05)
        assert session.stored == [2.5]
        assert session.ended == ["the service is stopping"]
        assert attachment.farewell == farewell


@virtual_sockets
async def test_messages_that_owners_never_send_end_the_link() -> None:
    async with ends() as each:
        session = RecordedCalls()
        await each.attach(session, ATTACHED)
        each.far_link.send(PartReceived(number=0))
        await asyncio.sleep(0.05)
        assert each.closed == ["PartReceived from an owner"]
        assert session.ended == each.closed


@virtual_sockets
async def test_a_link_lost_before_it_is_ready_reports_the_cause() -> None:
    lost: list[str] = []
    owner = OwnerLink("-", LoopLag(), lambda _, cause: lost.append(cause))
    owner.link.drop("not opened")
    with pytest.raises(OwnerUnreachable, match="not opened"):
        await owner.wait_ready()
    assert not owner.is_ready
    assert lost == ["not opened"]
