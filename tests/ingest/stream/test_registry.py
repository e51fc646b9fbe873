"""All live streams: one owner a stream, commands for streams that are not served, the drain."""

import asyncio

import msgspec
import pytest

from ingest.stream.live_stream import SlotOccupied
from media.encoder_report import StreamReport
from tests.ingest.stream.test_live_stream import GRANT, FakePorts, FakePublisher, streams
from tests.support.ingest.virtual_clock import run

OTHER = msgspec.structs.replace(GRANT, stream=2, hash="Zb3dEf6hIj9l")


def test_each_stream_has_one_owner_until_it_has_nothing_to_serve() -> None:
    async def scenario() -> None:
        ports = FakePorts()
        async with streams(ports) as live:
            first = await live.attach(GRANT, FakePublisher())
            second = await live.attach(OTHER, FakePublisher())
            assert len(live) == 2
            first.close(goodbye=False)
            second.close(goodbye=False)
            await live.wait_closed()
            assert len(live) == 0

    run(scenario())


def test_a_command_for_a_stream_that_is_not_served_finds_nothing() -> None:
    async def scenario() -> None:
        async with streams(FakePorts()) as live:
            assert not await live.end(1, "over")
            assert not await live.pause(1)
            assert not await live.resume(1)
            assert await live.drill(1) == {"refused": "no encoder is on air"}
            nothing = StreamReport(live=False, on_air=None, slots=[], advice=[])
            assert live.report(1) == msgspec.to_builtins(nothing)

    run(scenario())


def test_a_revocation_counts_even_if_no_publisher_is_connected() -> None:
    async def scenario() -> None:
        async with streams(FakePorts()) as live:
            assert live.revocations == 0
            assert await live.disconnect(1, "new", "the key was changed") == 0
            assert live.revocations == 1

    run(scenario())


def test_a_draining_registry_accepts_no_publisher() -> None:
    async def scenario() -> None:
        async with streams(FakePorts()) as live:
            publisher = FakePublisher()
            await live.attach(GRANT, publisher)
            live.drain()
            assert publisher.disconnected == "the service is stopping"
            with pytest.raises(SlotOccupied):
                await live.attach(OTHER, FakePublisher())
            async with asyncio.timeout(10):
                await live.wait_closed()

    run(scenario())
