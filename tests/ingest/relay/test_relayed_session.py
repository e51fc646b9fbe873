"""Encoders whose stream another host owns, while that host is there and after it has gone."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from ingest.relay.relayed_session import RECOVER_SECONDS
from ingest.stream.live_stream import SlotOccupied
from ingest.stream.ports import Grant, StreamEnded
from media.packet import MediaPacket
from tests.ingest.stream.test_live_stream import GRANT, SMALL, VIDEO
from tests.support.ingest.relay_hosts import Encoder, RelayHost, installation
from tests.support.ingest.simulated_encoders import BACKUP, PRIMARY, pictures, whole
from tests.support.ingest.virtual_clock import virtual_sockets


def newest(host: RelayHost) -> list[int]:
    """Return the picture times of the newest source in a host's newest run."""
    return pictures(host.ports.sinks[-1].recorded)[-1]


def now_ms() -> float:
    return asyncio.get_running_loop().time() * 1000


def storing(owner: RelayHost, until_ms: float) -> Callable[[Grant], Awaitable[None]]:
    """Return a function that stores a run up to a time, and reports that."""

    async def store(grant: Grant) -> None:
        owner.relay.media_stored(grant.stream, (now_ms() - until_ms) / 1000)

    return store


# -- while the owner is there ---------------------------------------------------------------------


@virtual_sockets
async def test_media_are_relayed_to_the_owner_and_into_its_run() -> None:
    async with installation() as hosts:
        owner, other = await hosts.start(), await hosts.start()
        await owner.attach(BACKUP)  # which sends nothing
        encoder = await other.publish(PRIMARY)
        await asyncio.sleep(5)
        assert owner.ports.states[-1].on_air == PRIMARY
        assert other.streams.generations == {}
        assert other.ports.sinks == []
        (source,) = pictures(owner.ports.sinks[0].recorded)
        assert len(source) >= 48
        assert whole(source)
        encoder.leave(goodbye=True)
        await asyncio.sleep(1)
        assert owner.ports.recorded[-1].facts["reason"] == "goodbye"
        assert other.links == []  # nothing is relayed any more


@virtual_sockets
async def test_a_relayed_backup_replaces_a_local_primary_and_makes_way_for_it() -> None:
    async with installation() as hosts:
        owner, other = await hosts.start(), await hosts.start()
        primary = await owner.publish(PRIMARY)
        await other.publish(BACKUP, phase=0.5)
        await asyncio.sleep(5)
        assert owner.ports.states[-1].on_air == PRIMARY
        primary.stalled = True
        await asyncio.sleep(4)
        assert owner.ports.states[-1].on_air == BACKUP
        primary.stalled = False
        await asyncio.sleep(14)
        assert owner.ports.states[-1].on_air == PRIMARY
        assert [each.kind for each in owner.ports.recorded].count("switched") == 2
        assert len(owner.ports.sinks) == 1


@virtual_sockets
async def test_a_slot_with_a_live_encoder_is_refused_through_any_host() -> None:
    async with installation() as hosts:
        owner, other = await hosts.start(), await hosts.start()
        await owner.publish(PRIMARY)
        with pytest.raises(SlotOccupied):
            await other.attach(PRIMARY)
        await other.publish(BACKUP)
        with pytest.raises(SlotOccupied):
            await owner.attach(BACKUP)


@virtual_sockets
async def test_an_encoder_that_comes_back_through_another_host_replaces_its_dead_connection() -> (
    None
):
    async with installation() as hosts:
        owner, other, third = await hosts.start(), await hosts.start(), await hosts.start()
        await owner.attach(BACKUP)
        lost = await other.publish(PRIMARY)
        await asyncio.sleep(3)
        lost.stalled = True  # its network is gone
        second = await third.publish(PRIMARY)
        await asyncio.sleep(3)
        assert lost.disconnected == "another connection took over"
        assert second.disconnected is None
        assert owner.ports.states[-1].on_air == PRIMARY
        assert newest(owner)[-1] > now_ms() - 300


@virtual_sockets
async def test_a_revoked_key_and_an_end_disconnect_relayed_encoders() -> None:
    async with installation() as hosts:
        owner, other = await hosts.start(), await hosts.start()
        await owner.attach(BACKUP, proof="new")
        revocations = other.streams.revocations
        encoder = await other.publish(PRIMARY, proof="old")
        # Its key is looked up again, since only the owner is told of revocations.
        assert other.streams.revocations > revocations
        await asyncio.sleep(3)
        assert await owner.streams.disconnect(1, "new", "the stream key was changed") == 1
        await asyncio.sleep(0.5)
        assert encoder.disconnected == "the stream key was changed"
        second = await other.publish(PRIMARY, proof="new")
        await asyncio.sleep(3)
        assert await owner.streams.end(1, "the stream was ended by its owner")
        await asyncio.sleep(0.5)
        assert second.disconnected == "the stream was ended by its owner"
        assert other.links == []


@virtual_sockets
async def test_jumps_and_new_tracks_are_relayed_too() -> None:
    async with installation() as hosts:
        owner, other = await hosts.start(), await hosts.start()
        await owner.attach(BACKUP)
        encoder = await other.publish(PRIMARY)
        await asyncio.sleep(3)
        encoder.stalled = True
        session = encoder.session
        assert session is not None
        session.clock_jumped()
        session.receive_track(SMALL, asyncio.get_running_loop().time())
        packet = MediaPacket(track=SMALL, dts=7, pts=9, key=True, data=b"small")
        session.receive_packets([packet], asyncio.get_running_loop().time())
        await asyncio.sleep(0.3)
        recorded_events = owner.ports.sinks[0].recorded
        assert recorded_events[-3:] == ["finish", "begin VideoTrack AudioTrack", "offer 7"]


@virtual_sockets
async def test_a_slow_keyframe_keeps_its_encoder_alive() -> None:
    async with installation() as hosts:
        owner, other = await hosts.start(), await hosts.start()
        await owner.attach(BACKUP)
        encoder = await other.publish(PRIMARY)
        await asyncio.sleep(3)
        encoder.stalled = True
        assert encoder.session is not None
        for _ in range(50):  # one packet arrives for 5 s
            encoder.session.receive_part(asyncio.get_running_loop().time())
            await asyncio.sleep(0.1)
        assert owner.ports.states[-1].on_air == PRIMARY
        await asyncio.sleep(4)
        assert owner.ports.states[-1].on_air is None


@virtual_sockets
async def test_the_owner_records_what_cannot_be_used_wherever_it_arrives() -> None:
    async with installation() as hosts:
        owner, other = await hosts.start(), await hosts.start()
        await owner.publish(BACKUP)
        encoder = await other.publish(PRIMARY)
        assert encoder.session is not None
        for _ in range(30):
            now = asyncio.get_running_loop().time()
            encoder.session.receive_unusable("no sets", now, video=True)
            await asyncio.sleep(0.05)
        assert [each for each in owner.ports.recorded if each.kind == "picture unusable"] == []
        encoder.stalled = True
        for _ in range(30):
            now = asyncio.get_running_loop().time()
            encoder.session.receive_unusable("no sets", now, video=True)
            encoder.session.receive_unusable("no header", now, video=False)
            await asyncio.sleep(0.05)
        found = [each for each in owner.ports.recorded if each.kind.endswith("unusable")]
        assert sorted((each.kind, each.facts["cause"]) for each in found) == [
            ("picture unusable", "no sets"), ("sound unusable", "no header"),
        ]  # fmt: skip
        assert PRIMARY in owner.ports.states[-1].sending


# -- when the owner goes away ---------------------------------------------------------------------


@virtual_sockets
async def test_when_the_owner_is_killed_the_backups_host_takes_over_at_once() -> None:
    async with installation() as hosts:
        owner, other = await hosts.start(), await hosts.start()
        await owner.publish(PRIMARY)
        backup = await other.publish(BACKUP)
        await asyncio.sleep(8)
        killed = now_ms()
        owner.kill()  # the catalog does not know, but nothing listens there any more
        await asyncio.sleep(1)
        assert hosts.table.owners[1] == (other.address, 2)
        assert other.ports.generations == [2]
        assert other.ports.states[-1].on_air == BACKUP
        assert backup.disconnected is None
        source = newest(other)
        assert source[0] < killed - 6_000  # all that was received, as nothing was stored
        assert whole(source)
        assert source[-1] > now_ms() - 300
        # The run is told when its first packet arrived.
        assert other.ports.sinks[0].late[0] == pytest.approx(8, abs=0.3)


@virtual_sockets
async def test_the_new_owner_begins_where_the_stored_media_end() -> None:
    async with installation() as hosts:
        owner, other = await hosts.start(), await hosts.start()
        await owner.attach(BACKUP)
        await other.publish(PRIMARY)
        began = now_ms()
        await asyncio.sleep(9)
        owner.relay.media_stored(1, 3.1)  # up to 5.9 s after the beginning
        await asyncio.sleep(0.2)
        owner.die()
        await asyncio.sleep(1)
        assert newest(other)[0] - began == pytest.approx(4_000, abs=150)


@virtual_sockets
async def test_an_owner_that_is_cut_off_is_replaced_when_it_is_known_to_be_dead() -> None:
    async with installation() as hosts:
        owner, other = await hosts.start(cable=True), await hosts.start()
        await owner.attach(BACKUP)
        encoder = await other.publish(PRIMARY)
        await asyncio.sleep(5)
        assert owner.cable is not None
        owner.cable.cut()
        await asyncio.sleep(5)  # it does not answer, but the catalog says that it is alive
        assert other.streams.generations == {}
        hosts.table.dead.add(owner.address)
        await asyncio.sleep(0.5)  # although connecting to it takes 2 s to fail
        assert other.streams.generations == {1: 2}
        assert whole(newest(other))
        assert encoder.disconnected is None


@virtual_sockets
async def test_a_host_with_an_encoder_of_a_third_host_relays_to_the_new_owner() -> None:
    async with installation() as hosts:
        owner, other, third = await hosts.start(), await hosts.start(), await hosts.start()
        await owner.publish(PRIMARY)
        await other.publish(BACKUP)
        late = await third.publish(type(BACKUP)(2))
        await asyncio.sleep(5)
        owner.die()
        await asyncio.sleep(4)
        (new,) = [each for each in (other, third) if each.streams.generations]
        assert hosts.table.owners[1] == (new.address, 2)
        assert sorted(slot.number for slot in new.ports.states[-1].sending) == [1, 2]
        assert new.ports.states[-1].on_air is not None
        assert late.disconnected is None
        primary = await third.publish(PRIMARY)
        await asyncio.sleep(14)
        assert new.ports.states[-1].on_air == PRIMARY
        assert primary.disconnected is None


@virtual_sockets
async def test_a_broken_link_is_reopened_and_lost_media_are_sent_again() -> None:
    async with installation() as hosts:
        owner, other = await hosts.start(), await hosts.start()
        await owner.attach(BACKUP)
        encoder = await other.publish(PRIMARY)
        await asyncio.sleep(5)
        before = newest(owner)[-1]
        for link in owner.links:
            link.drop("a cable was pulled out")
        await asyncio.sleep(3)
        assert abs(newest(owner)[0] - before) <= 1_100  # half of two keyframes' distance
        assert hosts.table.owners[1] == (owner.address, 1)
        assert owner.ports.states[-1].on_air == PRIMARY
        assert encoder.disconnected is None
        assert whole(newest(owner))
        assert newest(owner)[-1] > now_ms() - 300


@virtual_sockets
async def test_an_owner_that_stops_hands_its_streams_over_with_their_relayed_encoders() -> None:
    async with installation() as hosts:
        owner, other = await hosts.start(), await hosts.start()
        local = await owner.publish(PRIMARY)
        relayed = await other.publish(BACKUP)
        await asyncio.sleep(5)
        owner.ports.store = storing(owner, now_ms())
        stopped = now_ms()
        owner.streams.drain()
        await owner.streams.wait_closed()
        assert hosts.table.released == [(owner.address, 1)]
        await asyncio.sleep(2)
        owner.relay.close()
        await asyncio.sleep(2)
        assert local.disconnected == "the service is stopping"
        assert relayed.disconnected is None
        assert hosts.table.owners[1] == (other.address, 2)
        assert other.ports.states[-1].on_air == BACKUP
        # The owner stored what it had received: nothing of that is shown again.
        assert abs(newest(other)[0] - stopped) <= 1_100  # half of two keyframes' distance


@virtual_sockets
async def test_an_owner_that_stops_hands_each_stream_over_once_its_media_are_stored() -> None:
    async with installation() as hosts:
        owner, other = await hosts.start(), await hosts.start()
        await owner.attach(PRIMARY)
        slow = await other.publish(BACKUP)
        await owner.attach(PRIMARY, stream=2, hash="Bb3dEf6hIj9l")
        quick = await other.publish(BACKUP, stream=2, hash="Bb3dEf6hIj9l")
        await asyncio.sleep(5)
        stopped, slow_store = now_ms(), asyncio.Event()
        store = storing(owner, stopped)

        async def store_slowly(grant: Grant) -> None:
            if grant.stream == 1:
                await slow_store.wait()
            await store(grant)

        owner.ports.store = store_slowly
        owner.streams.drain()
        await asyncio.sleep(3)
        assert hosts.table.owners == {1: (owner.address, 1), 2: (other.address, 2)}
        assert other.streams.generations == {2: 2}
        slow_store.set()
        await asyncio.sleep(1)
        assert hosts.table.owners == {1: (other.address, 2), 2: (other.address, 2)}
        assert slow.disconnected is quick.disconnected is None
        for sink in other.ports.sinks:
            (source,) = pictures(sink.recorded)
            assert abs(source[0] - stopped) <= 1_100
            assert whole(source)
            assert source[-1] > now_ms() - 300


@virtual_sockets
async def test_an_owner_that_stops_and_cannot_store_claims_nothing_as_stored() -> None:
    async with installation() as hosts:
        owner, other = await hosts.start(), await hosts.start()
        await owner.attach(PRIMARY)
        began = now_ms()
        await other.publish(BACKUP)
        await asyncio.sleep(5)
        owner.streams.drain()
        await owner.streams.wait_closed()
        await asyncio.sleep(1)
        assert other.streams.generations == {1: 2}
        assert newest(other)[0] - began < 1_100  # all that was ever received


@virtual_sockets
async def test_relayed_encoders_of_a_surrendered_stream_move_to_the_new_owner() -> None:
    async with installation() as hosts:
        owner, other, third = await hosts.start(), await hosts.start(), await hosts.start()
        await owner.publish(PRIMARY)
        relayed = await other.publish(BACKUP)
        await asyncio.sleep(5)
        hosts.table.owners[1] = (third.address, 2)
        assert await owner.streams.surrender(1, 1)
        await asyncio.sleep(3)
        assert relayed.disconnected is None
        assert third.streams.generations == {1: 2}
        assert third.ports.states[-1].on_air == BACKUP


@virtual_sockets
async def test_the_new_owner_uses_the_settings_changed_since_the_encoder_connected() -> None:
    async with installation() as hosts:
        owner, other = await hosts.start(), await hosts.start()
        await owner.attach(BACKUP)
        encoder = await other.publish(PRIMARY)
        await asyncio.sleep(5)
        assert encoder.grant is not None
        encoder.grant = msgspec.structs.replace(encoder.grant, paused=True)
        owner.die()
        await asyncio.sleep(2)
        assert other.ports.states[-1].paused
        assert other.ports.states[-1].on_air is None


@virtual_sockets
async def test_a_key_that_was_revoked_when_the_owner_died_takes_nothing_over() -> None:
    async with installation() as hosts:
        owner, other = await hosts.start(), await hosts.start()
        await owner.attach(BACKUP)
        encoder = await other.publish(PRIMARY)
        await asyncio.sleep(5)
        encoder.grant = None
        owner.die()
        await asyncio.sleep(1)
        assert encoder.disconnected == "the stream key is not valid any more"
        assert hosts.table.owners[1] == (owner.address, 1)


@virtual_sockets
async def test_the_encoder_of_a_stream_that_was_ended_when_its_owner_died_takes_nothing_over() -> (
    None
):
    async with installation() as hosts:
        owner, other = await hosts.start(), await hosts.start()
        await owner.attach(BACKUP)
        encoder = await other.publish(PRIMARY)
        await asyncio.sleep(5)
        encoder.ended = StreamEnded("Ab3dEf6hIj9l", 60)
        owner.die()
        await asyncio.sleep(1)
        assert encoder.disconnected == str(encoder.ended)
        assert hosts.table.owners[1] == (owner.address, 1)


@virtual_sockets
async def test_while_keys_cannot_be_looked_up_sessions_return_to_a_reachable_owner() -> None:
    async with installation() as hosts:
        owner, other = await hosts.start(), await hosts.start()
        await owner.attach(BACKUP)
        encoder = await other.publish(PRIMARY)
        await asyncio.sleep(5)
        encoder.no_answer = True
        for link in owner.links:
            link.drop("a cable was pulled out")
        await asyncio.sleep(3)
        assert encoder.disconnected is None
        assert owner.ports.states[-1].on_air == PRIMARY
        owner.die()  # an old grant is not enough to own the stream
        await asyncio.sleep(5)
        assert other.streams.generations == {}
        encoder.no_answer = False
        await asyncio.sleep(2)
        assert other.streams.generations == {1: 2}


@virtual_sockets
async def test_an_encoder_without_media_takes_nothing_over_and_is_disconnected_in_time() -> None:
    async with installation() as hosts:
        owner, other = await hosts.start(), await hosts.start()
        await owner.attach(PRIMARY)
        silent = await other.attach(BACKUP)
        owner.die()
        await asyncio.sleep(RECOVER_SECONDS - 2)
        assert hosts.table.owners[1] == (owner.address, 1)
        assert silent.disconnected is None
        await asyncio.sleep(4)
        assert silent.disconnected is not None
        assert "cannot be reached" in silent.disconnected
        assert hosts.table.owners[1] == (owner.address, 1)


@virtual_sockets
async def test_without_an_owner_or_a_catalog_the_encoder_is_disconnected() -> None:
    async with installation() as hosts:
        owner, other = await hosts.start(), await hosts.start()
        await owner.attach(BACKUP)
        encoder = await other.publish(PRIMARY)
        await asyncio.sleep(3)
        hosts.table.down = True
        owner.die()
        await asyncio.sleep(RECOVER_SECONDS - 2)
        assert encoder.disconnected is None
        await asyncio.sleep(4)
        assert encoder.disconnected is not None
        assert other.links == []


@virtual_sockets
async def test_an_encoder_that_leaves_while_its_owner_is_sought_takes_nothing_over() -> None:
    async with installation() as hosts:
        owner, other = await hosts.start(cable=True), await hosts.start()
        await owner.attach(BACKUP)
        encoder = await other.publish(PRIMARY)
        await asyncio.sleep(3)
        assert owner.cable is not None
        owner.cable.cut()
        await asyncio.sleep(3)
        encoder.leave()
        hosts.table.dead.add(owner.address)
        other.stop_encoders()
        await asyncio.sleep(5)
        assert other.streams.generations == {}
        assert other.ports.sinks == []
        # Its connection is not closed: it may have another session by now.
        assert encoder.disconnected is None


@virtual_sockets
async def test_a_catalog_that_does_not_answer_delays_the_disconnect_only_by_seconds() -> None:
    async with installation() as hosts:
        owner, other = await hosts.start(), await hosts.start()
        await owner.attach(BACKUP)
        encoder = await other.publish(PRIMARY)
        await asyncio.sleep(3)
        hosts.table.answering.clear()
        owner.die()
        await asyncio.sleep(RECOVER_SECONDS - 2)
        assert encoder.disconnected is None
        await asyncio.sleep(8)
        assert encoder.disconnected is not None


@virtual_sockets
async def test_an_encoder_without_sound_is_relayed() -> None:
    """The first packets wait at the owner until the tracks are known, as they do locally."""

    async with installation() as hosts:
        owner, other = await hosts.start(), await hosts.start()
        await owner.attach(BACKUP)
        encoder: Encoder = await other.attach(PRIMARY)
        encoder.sound = False
        encoder.send(VIDEO, packets=3, sound=False)
        await asyncio.sleep(2)
        assert owner.ports.sinks[0].recorded[:2] == ["begin VideoTrack", "offer 0"]


@virtual_sockets
async def test_a_relaying_host_prepares_the_run_of_an_owner_that_may_be_gone() -> None:
    async with installation() as hosts:
        owner, other = await hosts.start(cable=True), await hosts.start()
        await owner.attach(BACKUP)
        await other.publish(PRIMARY)
        await asyncio.sleep(5)
        assert other.ports.expected == []
        assert owner.cable is not None
        owner.cable.cut()
        await asyncio.sleep(3)
        assert other.ports.expected == [GRANT.hash]
        assert other.streams.generations == {}
        # Its claims name the silent owner's generation; before, the owner answered.
        assert hosts.table.silent[0] is None
        assert set(hosts.table.silent[-4:]) == {1}
