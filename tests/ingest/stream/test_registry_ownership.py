"""Streams of several hosts: claimed before they are served, released after, and surrendered."""

import asyncio
from collections.abc import Awaitable

import msgspec
import pytest

from ingest.stream.live_stream import SlotOccupied
from ingest.stream.ports import PortError
from ingest.stream.registry import NotRelayed, OwnedElsewhere
from media.stream_keys import Slot
from tests.ingest.stream.test_live_stream import GRANT, FakePorts, FakePublisher, join, streams
from tests.support.ingest.shared_ownership import OwnershipTable
from tests.support.ingest.virtual_clock import virtual_time

HERE, THERE = "here:1", "there:1"
BACKUP = msgspec.structs.replace(GRANT, slot=Slot(1))


@virtual_time
async def test_a_run_has_the_generation_of_its_claim_which_is_released_at_the_end() -> None:
    table, ports = OwnershipTable(), FakePorts()
    table.owners[1] = (None, 6)
    async with streams(ports, table.host(HERE)) as live:
        encoder = await join(live, FakePublisher())
        encoder.send()
        await asyncio.sleep(1)
        assert live.generations == {1: 7}
        assert table.owners[1] == (HERE, 7)
        assert encoder.session is not None
        encoder.session.close(goodbye=True)
        assert await live.end(1, "over")
        await live.wait_closed()
        assert live.generations == {}
    assert ports.generations == [7]
    assert {state.generation for state in ports.states} == {7}
    assert table.released == [(HERE, 7)]
    assert table.owners[1] == (None, 7)


@virtual_time
async def test_two_publishers_at_once_claim_their_stream_once() -> None:
    table = OwnershipTable()
    table.answering.clear()
    async with streams(FakePorts(), table.host(HERE)) as live, asyncio.TaskGroup() as tasks:
        first = tasks.create_task(live.attach(GRANT, FakePublisher()))
        second = tasks.create_task(live.attach(BACKUP, FakePublisher()))
        await asyncio.sleep(1)
        table.answering.set()
        await asyncio.wait([first, second])
        assert len(live) == 1
        assert table.claims == [(HERE, None)]


@virtual_time
async def test_a_publisher_that_comes_during_the_release_keeps_a_stream_that_is_owned() -> None:
    table = OwnershipTable()
    async with streams(FakePorts(), table.host(HERE)) as live:
        encoder = await join(live, FakePublisher())
        table.answering.clear()
        assert encoder.session is not None
        encoder.session.close(goodbye=False)
        await asyncio.sleep(1)
        assert len(live) == 0  # and its release waits for an answer
        async with asyncio.TaskGroup() as tasks:
            coming = tasks.create_task(live.attach(GRANT, FakePublisher()))
            await asyncio.sleep(1)
            table.answering.set()
            await coming
        assert table.owners[1] == (HERE, 2)
        assert live.generations == {1: 2}


@virtual_time
async def test_a_stream_of_another_host_is_not_served_here() -> None:
    table = OwnershipTable()
    table.owners[1] = (THERE, 4)
    async with streams(FakePorts(), table.host(HERE)) as live:
        with pytest.raises(OwnedElsewhere) as elsewhere:
            await live.attach_here(GRANT, FakePublisher())
        assert (elsewhere.value.owner.generation, elsewhere.value.owner.address) == (4, THERE)
        with pytest.raises(NotRelayed, match="another host"):
            await live.attach(GRANT, FakePublisher())
        assert len(live) == 0


@virtual_time
async def test_a_stream_whose_owner_is_known_to_be_gone_is_served_here() -> None:
    table = OwnershipTable()
    table.owners[1] = (THERE, 4)
    async with streams(FakePorts(), table.host(HERE)) as live:
        await live.attach_here(GRANT, FakePublisher(), ended_owner=4)
        assert live.generations == {1: 5}


@virtual_time
async def test_without_an_answer_no_publisher_is_accepted() -> None:
    table = OwnershipTable()
    table.down = True
    async with streams(FakePorts(), table.host(HERE)) as live:
        with pytest.raises(PortError):
            await live.attach(GRANT, FakePublisher())
        assert len(live) == 0


@virtual_time
async def test_a_stream_that_is_claimed_while_the_service_stops_is_released() -> None:
    async def refused(attaching: Awaitable[object]) -> None:
        with pytest.raises(SlotOccupied):
            await attaching

    table = OwnershipTable()
    table.answering.clear()
    async with streams(FakePorts(), table.host(HERE)) as live, asyncio.TaskGroup() as tasks:
        coming = tasks.create_task(refused(live.attach(GRANT, FakePublisher())))
        await asyncio.sleep(1)
        live.drain()
        table.answering.set()
        await coming
    assert table.owners[1] == (None, 1)


@virtual_time
async def test_a_release_that_fails_or_hangs_delays_the_end_of_a_stream_by_seconds() -> None:
    table = OwnershipTable()
    async with streams(FakePorts(), table.host(HERE)) as live:
        for fault in ("down", "hangs"):
            encoder = await join(live, FakePublisher())
            assert encoder.session is not None
            table.down = fault == "down"
            if fault == "hangs":
                table.answering.clear()
            encoder.session.close(goodbye=False)
            async with asyncio.timeout(10):
                await live.wait_closed()
            table.down = False
            table.answering.set()
        assert table.released == []


@virtual_time
async def test_a_surrendered_stream_is_not_ended_and_writes_nothing_more() -> None:
    table, ports = OwnershipTable(), FakePorts()
    async with streams(ports, table.host(HERE)) as live:
        encoder = await join(live, FakePublisher())
        encoder.send()
        await asyncio.sleep(1)
        written = len(ports.entries)
        table.owners[1] = (THERE, 2)
        assert not await live.surrender(1, 2)  # which it never had
        assert not await live.surrender(2, 1)
        assert encoder.disconnected is None
        assert await live.surrender(1, 1)
        assert encoder.disconnected == "another host serves the stream now"
        assert encoder.moved
        assert live.generations == {}
        await live.wait_closed()
        assert len(ports.entries) == written
        assert (ports.closed, table.released) == (0, [])
        assert "end" not in ports.sinks[0].recorded


@virtual_time
async def test_a_stream_that_is_surrendered_before_it_is_served_is_over_too() -> None:
    table, ports = OwnershipTable(), FakePorts()
    async with streams(ports, table.host(HERE)) as live:
        encoder = await join(live, FakePublisher())
        assert await live.surrender(1, 1)
        assert encoder.moved
        async with asyncio.timeout(1):
            await live.wait_closed()
        await join(live, FakePublisher())
        live.drain()
        async with asyncio.timeout(1):
            await live.wait_closed()
    assert ports.generations == []


@virtual_time
async def test_a_command_that_waits_for_a_surrendered_stream_returns() -> None:
    table, ports = OwnershipTable(), FakePorts()
    async with streams(ports, table.host(HERE)) as live, asyncio.TaskGroup() as tasks:
        encoder = await join(live, FakePublisher())
        encoder.send()
        await asyncio.sleep(1)
        ports.hangs = True
        pausing = tasks.create_task(live.pause(1))
        await asyncio.sleep(1)
        assert await live.surrender(1, 1)
        async with asyncio.timeout(1):
            await pausing


@virtual_time
async def test_a_stream_that_returns_gets_a_new_live_stream() -> None:
    table, ports = OwnershipTable(), FakePorts()
    async with streams(ports, table.host(HERE)) as live:
        first = await join(live, FakePublisher())
        first.send()
        await asyncio.sleep(1)
        table.owners[1] = (None, 2)
        assert await live.surrender(1, 1)
        second = await join(live, FakePublisher())
        second.send()
        await asyncio.sleep(1)
        assert live.generations == {1: 3}
    assert ports.generations == [1, 3]
