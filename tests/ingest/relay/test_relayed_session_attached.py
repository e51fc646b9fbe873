"""How an encoder's session is attached when its stream's owner does not answer or refuses it."""

import asyncio

import pytest

from ingest.stream.live_stream import SlotOccupied
from ingest.stream.registry import NotRelayed
from tests.support.ingest.relay_hosts import RelayHost, installation
from tests.support.ingest.shared_ownership import OwnershipTable
from tests.support.ingest.simulated_encoders import BACKUP, PRIMARY
from tests.support.ingest.virtual_clock import virtual_sockets


@virtual_sockets
async def test_the_refusal_of_an_owner_that_accepts_no_relay_names_the_remedy() -> None:
    async with installation() as hosts:
        owner, other = await hosts.start(reachable=False), await hosts.start()
        await owner.publish(PRIMARY)
        with pytest.raises(NotRelayed, match="cannot be reached: try again"):
            await other.attach(BACKUP)
        assert len(owner.ports.sinks) == 1


@virtual_sockets
async def test_a_publisher_of_a_killed_owners_stream_waits_until_the_owner_is_marked_dead() -> None:
    async with installation() as hosts:
        owner, other = await hosts.start(), await hosts.start()
        await owner.publish(PRIMARY)
        owner.kill()
        async with asyncio.TaskGroup() as tasks:
            coming = tasks.create_task(other.attach(PRIMARY))
            await asyncio.sleep(3)
            # Nothing listens there, but this host never had a connection to it.
            assert not coming.done()
            hosts.table.dead.add(owner.address)
            await coming
        assert other.streams.generations == {1: 2}


@virtual_sockets
async def test_hosts_of_another_installation_relay_nothing() -> None:
    async with installation() as hosts:
        owner, stranger = await hosts.start(), await hosts.start(b"another secret, as long")
        await owner.publish(PRIMARY)
        with pytest.raises(NotRelayed):
            await stranger.attach(BACKUP)
        assert owner.links == []
        assert len(owner.ports.states[-1].sending) == 1


@virtual_sockets
async def test_a_slot_that_its_owner_gives_is_returned_when_this_host_refuses_the_encoder() -> None:
    async def meanwhile(table: OwnershipTable, owner: RelayHost, other: RelayHost) -> None:
        assert owner.cable is not None
        await asyncio.sleep(0.02)  # the first claim names the owner
        table.answering.clear()
        await asyncio.sleep(0.3)  # without an answer of the owner, the host claims the stream
        assert len(table.claims) == 3
        owner.cable.repair()
        await asyncio.sleep(0.5)
        assert owner.relay.encoders == 1
        table.dead.add(owner.address)
        other.streams.drain()
        table.answering.set()

    async with installation() as hosts:
        owner, other = await hosts.start(cable=True), await hosts.start()
        assert owner.cable is not None
        await owner.attach(BACKUP)
        owner.cable.cut()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(meanwhile(hosts.table, owner, other))
            with pytest.raises(SlotOccupied):
                await other.attach(PRIMARY)
        await asyncio.sleep(0.5)
        assert owner.relay.encoders == 0
        assert other.links == []
