"""All live streams: one owner a stream, commands for streams that are not served, the drain."""

import asyncio

import msgspec
import pytest

from ingest.stream.live_stream import SlotOccupied
from ingest.stream.ports import Grant
from media.encoder_report import StreamReport
from tests.ingest.stream.test_live_stream import GRANT, FakePorts, FakePublisher, join, streams
from tests.support.ingest.virtual_clock import virtual_time

OTHER = msgspec.structs.replace(GRANT, stream=2, hash="Zb3dEf6hIj9l")


@virtual_time
async def test_each_stream_has_one_owner_until_it_has_nothing_to_serve() -> None:
    ports = FakePorts()
    async with streams(ports) as live:
        first = await live.attach(GRANT, FakePublisher())
        second = await live.attach(OTHER, FakePublisher())
        assert len(live) == 2
        first.close(goodbye=False)
        second.close(goodbye=False)
        await live.wait_closed()
        assert len(live) == 0


@virtual_time
async def test_a_command_for_a_stream_that_is_not_served_finds_nothing() -> None:
    async with streams(FakePorts()) as live:
        assert not await live.end(1, "over")
        assert not await live.pause(1)
        assert not await live.resume(1)
        assert await live.drill(1) == {"refused": "no encoder is on air"}
        nothing = StreamReport(live=False, on_air=None, slots=[], advice=[])
        assert live.report(1) == msgspec.to_builtins(nothing)


@virtual_time
async def test_a_revocation_counts_even_if_no_publisher_is_connected() -> None:
    async with streams(FakePorts()) as live:
        assert live.revocations == 0
        assert await live.disconnect(1, "new", "the key was changed") == 0
        assert live.revocations == 1


@virtual_time
async def test_an_end_makes_look_ups_before_it_outdated() -> None:
    async with streams(FakePorts()) as live:
        assert not await live.end(1, "over")
        assert live.revocations == 1


@virtual_time
async def test_a_draining_registry_accepts_no_publisher() -> None:
    async with streams(FakePorts()) as live:
        publisher = FakePublisher()
        await live.attach(GRANT, publisher)
        live.drain()
        assert publisher.disconnected == "the service is stopping"
        with pytest.raises(SlotOccupied):
            await live.attach(OTHER, FakePublisher())
        async with asyncio.timeout(10):
            await live.wait_closed()


@virtual_time
async def test_a_failed_stream_is_served_until_its_state_is_written() -> None:
    """It would otherwise be shown as live until the next start."""

    ports = FakePorts(broken=True)
    async with streams(ports) as live:
        encoder = await join(live, FakePublisher())
        await asyncio.sleep(1)
        assert ports.state.sending
        ports.hangs = True
        encoder.send()
        await asyncio.sleep(12)
        assert encoder.disconnected == "the stream cannot be made now: try again"
        ports.hangs, ports.refusals = False, 3
        await live.wait_closed()
    assert not ports.state.sending
    assert not ports.state.processing


@virtual_time
async def test_a_stream_whose_run_fails_at_its_end_is_served_until_its_state_is_written() -> None:
    """The task group of the run leaves a cancellation behind in Python 3.11 and 3.12."""

    async def fail() -> None:
        await asyncio.sleep(1)
        raise RuntimeError("the engine")

    async def store(_: Grant) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(fail())

    ports = FakePorts()
    ports.store = store
    async with streams(ports) as live:
        encoder = await join(live, FakePublisher())
        encoder.send()
        await asyncio.sleep(1)
        assert ports.state.live
        ports.hangs = True
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(live.end(GRANT.stream, "over"))
            await asyncio.sleep(20)
            assert len(live) == 1
            ports.hangs = False
        await live.wait_closed()
    assert not ports.state.live


@virtual_time
async def test_a_failed_stream_whose_state_cannot_be_written_ends_with_the_service() -> None:
    ports = FakePorts(broken=True)
    async with streams(ports) as live:
        encoder = await join(live, FakePublisher())
        ports.hangs = True
        encoder.send()
        await asyncio.sleep(60)
        assert len(live) == 1
        live.cancel()
        await live.wait_closed()
    assert ports.states == []
