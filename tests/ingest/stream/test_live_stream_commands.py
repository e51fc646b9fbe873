"""Commands for a live stream: end the run, disconnect publishers with a revoked key."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import msgspec
import pytest

from ingest.stream.registry import LiveStreams
from media.stream_keys import StreamKey
from tests.ingest.stream.test_live_stream import GRANT, FakePorts, FakePublisher, streams
from tests.support.ingest import rtmp_peer
from tests.support.ingest.loopback import (
    BAD_NAME,
    HASH,
    START,
    STOPPED,
    LoopbackPorts,
    last_description,
    loopback_listener,
    real_time,
)
from tests.support.ingest.virtual_clock import virtual_time
from tests.support.waiting import until

pytestmark = pytest.mark.real

OLD = msgspec.structs.replace(GRANT, proof="old")
NEW = msgspec.structs.replace(GRANT, proof="new")


async def join(live: LiveStreams, proof: str = "old") -> FakePublisher:
    encoder = FakePublisher()
    grant = msgspec.structs.replace(GRANT, proof=proof)
    encoder.session = await live.attach(grant, encoder)
    return encoder


@virtual_time
async def test_an_end_ends_the_run_at_once_and_is_written_to_the_journal() -> None:
    ports = FakePorts()
    async with streams(ports) as live:
        encoder = await join(live)
        encoder.send(packets=1)
        await asyncio.sleep(1)
        assert ports.states[-1].live
        began = asyncio.get_running_loop().time()
        assert await live.end(1, "over")
        assert asyncio.get_running_loop().time() - began < 1
        assert encoder.disconnected == "over"
        assert ports.sinks[0].recorded[-2:] == ["finish", "end"]
        state = ports.states[-1]
        assert (state.live, state.processing, state.sending) == (False, False, frozenset())


@virtual_time
async def test_an_end_while_the_run_opens_leaves_no_run() -> None:
    ports = FakePorts(opening=3.0)
    async with streams(ports) as live:
        encoder = await join(live)
        encoder.send(packets=1)
        await asyncio.sleep(1)
        assert await live.end(1, "over")
        assert [sink.recorded for sink in ports.sinks] == [["end"]]


@virtual_time
async def test_an_end_in_the_window_does_not_wait_for_its_end() -> None:
    ports = FakePorts()
    async with streams(ports) as live:
        encoder = await join(live)
        encoder.send(packets=1)
        await asyncio.sleep(1)
        assert encoder.session is not None
        encoder.session.close(goodbye=False)
        await asyncio.sleep(1)
        assert await live.end(1, "over")
        assert ports.sinks[0].recorded[-1] == "end"
        assert not await live.end(1, "over")


@virtual_time
async def test_an_encoder_that_connects_after_an_end_begins_a_new_run() -> None:
    ports = FakePorts()
    async with streams(ports) as live:
        (await join(live)).send(packets=1)
        await asyncio.sleep(1)
        async with asyncio.TaskGroup() as tasks:
            ending = tasks.create_task(live.end(1, "over"))
            second = await join(live)
            second.send(packets=1)
        assert ending.result()
        await asyncio.sleep(5)
        assert second.disconnected is None
        assert len(ports.sinks) == 2
        assert ports.sinks[1].recorded[:2] == ["begin VideoTrack AudioTrack", "offer 0"]
        assert ports.states[-1].live


@virtual_time
async def test_an_end_disconnects_an_encoder_that_has_sent_no_media() -> None:
    ports = FakePorts()
    async with streams(ports) as live:
        encoder = await join(live)
        await asyncio.sleep(1)
        assert ports.states[-1].sending
        assert await live.end(1, "over")
        assert encoder.disconnected == "over"
        assert not ports.states[-1].sending
        assert ports.sinks == []


@virtual_time
async def test_ending_a_stream_without_encoders_does_nothing() -> None:
    ports = FakePorts()
    async with streams(ports) as live:
        assert not await live.end(1, "over")
        (await join(live)).send(packets=1)
        assert not await live.end(2, "over")
        await asyncio.sleep(1)
        assert ports.states[-1].live


@virtual_time
async def test_a_key_that_changed_closes_its_encoder_and_keeps_the_run() -> None:
    ports = FakePorts()
    async with streams(ports) as live:
        old = await join(live)
        old.send(packets=1)
        await asyncio.sleep(1)
        assert await live.disconnect(1, "new", "the key was changed") == 1
        assert old.disconnected == "the key was changed"
        assert not ports.states[-1].sending
        new = await join(live, "new")
        new.send(packets=1)
        await asyncio.sleep(1)
        assert await live.disconnect(1, "new", "the key was changed") == 0
        assert new.disconnected is None
        assert len(ports.sinks) == 1


@virtual_time
async def test_an_encoder_with_the_old_key_is_replaced_by_one_that_waits_with_the_new_key() -> None:
    ports = FakePorts()
    async with streams(ports) as live:
        (await join(live)).send(packets=1)
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(join(live, "new"))
            await asyncio.sleep(1)
            assert not waiting.done()
            assert await live.disconnect(1, "new", "the key was changed") == 1
        await asyncio.sleep(1)
        assert waiting.result().disconnected is None


@asynccontextmanager
async def delayed_grants(ports: LoopbackPorts) -> AsyncGenerator[None, None]:
    """Delay the directory's answers until the end of the block."""
    ports.answering.clear()
    try:
        yield
    finally:
        ports.answering.set()


@real_time
async def test_a_key_that_changes_while_it_is_looked_up_admits_no_encoder() -> None:
    """The command finds no encoder to disconnect; the outdated answer arrives after it."""

    ports = LoopbackPorts()
    async with loopback_listener(ports) as listener:
        wire = await listener.dial()
        async with delayed_grants(ports):
            await wire.send(ports.opening())
            await until(lambda: len(ports.asked) == 1)
            ports.key = StreamKey.new(HASH)
            assert await listener.listener.streams.disconnect(1, "new", "changed") == 0
        assert await wire.status() == BAD_NAME
        assert last_description(await wire.read_to_end()) == "no stream has this key"
        await wire.close()
        assert len(ports.asked) == 2
        assert ports.runs == []


@real_time
async def test_the_encoder_of_an_ended_stream_gets_the_reason(loop: str) -> None:
    ports = LoopbackPorts()
    async with loopback_listener(ports) as listener:
        wire = await listener.publishing(ports)
        assert await listener.listener.streams.end(1, "the stream was ended by its owner")
        assert await wire.status(2) == STOPPED
        assert last_description(await wire.read_to_end()) == "the stream was ended by its owner"
        await wire.close()
        assert "end" in ports.runs[0].calls
        again = await listener.publishing(ports)
        assert len(ports.runs) == 2
        assert "end" not in ports.runs[1].calls
        await again.close()


@real_time
async def test_a_command_during_the_look_up_of_another_stream_only_repeats_the_look_up() -> None:
    ports = LoopbackPorts()
    async with loopback_listener(ports) as listener:
        wire = await listener.dial()
        async with delayed_grants(ports):
            await wire.send(ports.opening())
            await until(lambda: len(ports.asked) == 1)
            await listener.listener.streams.disconnect(7, None, "deleted")
        assert await wire.status() == START
        assert len(ports.asked) == 2
        await wire.send(rtmp_peer.MEDIA)
        await until(lambda: len(ports.packets) >= 3)
        await wire.close()
