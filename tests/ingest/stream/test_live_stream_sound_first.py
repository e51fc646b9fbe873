"""Encoders whose sound comes before their picture, and what of it reaches a run."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from ingest.stream.failover import Policy
from ingest.stream.track_finder import PICTURE_SECONDS
from media.encoder_report import StreamReport
from media.packet import MediaPacket
from tests.ingest.stream.test_live_stream import AUDIO, GRANT, VIDEO, FakePorts
from tests.ingest.stream.test_live_stream_events import of
from tests.support.ingest.simulated_encoders import (
    BACKUP,
    PRIMARY,
    SimulatedEncoder,
    SimulatedStream,
    simulated_stream,
)
from tests.support.ingest.virtual_clock import run

FOREVER = 1e9


def advised(stream: SimulatedStream) -> list[str]:
    """Return what the encoder report advises for the only encoder."""
    (slot,) = msgspec.convert(stream.live.report(GRANT.stream), StreamReport).slots
    return slot.advice


def play(scenario: Callable[[SimulatedStream], Awaitable[None]], window: float = 60.0) -> None:
    """Run a scenario with a stream whose runs wait for so many seconds."""

    async def go() -> None:
        policy = Policy(picture_seconds=window)
        async with simulated_stream(FakePorts(), policy, reconnect_seconds=window) as stream:
            await scenario(stream)

    run(go())


async def send(encoder: SimulatedEncoder, seconds: float, *, picture_after: float) -> None:
    """Send ten packets a second of each kind, a keyframe a second, with the picture later."""
    assert encoder.session is not None
    clock = asyncio.get_running_loop().time
    began = clock()
    encoder.session.receive_track(AUDIO, began)
    for number in range(round(seconds * 10)):
        at = round(clock() * 1000)
        pictured = number - round(picture_after * 10)
        if pictured == 0:
            encoder.session.receive_track(VIDEO, clock())
        for track in (AUDIO, VIDEO) if pictured >= 0 else (AUDIO,):
            key = track is AUDIO or pictured % 10 == 0
            packet = MediaPacket(track=track, dts=at, pts=at, key=key, data=b"x")
            encoder.session.receive_packets([packet], clock())
        await asyncio.sleep(0.1)


async def connect(stream: SimulatedStream, *, announced: bool, slot: int = 0) -> SimulatedEncoder:
    encoder = await stream.add_encoder((PRIMARY, BACKUP)[slot], phase=FOREVER)
    if announced:
        assert encoder.session is not None
        encoder.session.picture_announced()
    return encoder


@pytest.mark.parametrize("announced", [True, False])
@pytest.mark.parametrize("late", [0.5, 1.0, 4.0, 10.4])
def test_an_encoder_that_returns_with_sound_first_continues_its_run(
    late: float, announced: bool
) -> None:
    async def scenario(stream: SimulatedStream) -> None:
        first = await connect(stream, announced=True)
        await send(first, 5, picture_after=0)
        first.leave()
        await asyncio.sleep(5)
        again = await connect(stream, announced=announced)
        await send(again, late + 5, picture_after=late)
        assert stream.recorded == [
            "begin VideoTrack AudioTrack",
            "slate",
            "begin VideoTrack AudioTrack",
        ]
        assert len(stream.ports.sinks) == 1
        assert stream.on_air == PRIMARY

    play(scenario)


@pytest.mark.parametrize("late", [0.5, 2.0, 4.0, 10.4])
def test_a_run_begins_with_the_picture_that_its_encoder_announces(late: float) -> None:
    async def scenario(stream: SimulatedStream) -> None:
        encoder = await connect(stream, announced=True)
        began = round(asyncio.get_running_loop().time() * 1000)
        await send(encoder, late + 5, picture_after=late)
        (sink,) = stream.ports.sinks
        assert stream.recorded == ["begin VideoTrack AudioTrack"]
        times = [int(each.split()[1]) for each in sink.recorded if each.startswith("offer")]
        assert min(times) == pytest.approx(began + 1000 * late, abs=150)

    play(scenario)


def test_sound_alone_begins_a_run_once_its_announced_picture_is_late() -> None:
    async def scenario(stream: SimulatedStream) -> None:
        encoder = await connect(stream, announced=True)
        await send(encoder, PICTURE_SECONDS - 0.5, picture_after=FOREVER)
        assert stream.ports.sinks == []
        assert of(stream.ports, "picture awaited") == [
            {"slot": "primary", "cause": "the encoder announced one"}
        ]
        await send(encoder, 2, picture_after=FOREVER)
        assert stream.on_air == PRIMARY
        assert stream.recorded == ["begin AudioTrack"]
        assert any("sends only sound" in each for each in advised(stream))

    play(scenario)


def test_sound_alone_begins_a_run_at_once_if_no_picture_is_announced() -> None:
    async def scenario(stream: SimulatedStream) -> None:
        encoder = await connect(stream, announced=False)
        await send(encoder, 1.5, picture_after=FOREVER)
        assert stream.on_air == PRIMARY
        await send(encoder, 5, picture_after=FOREVER)
        assert of(stream.ports, "picture awaited") == []
        assert not any("sends only sound" in each for each in advised(stream))

    play(scenario)


def test_an_unusable_picture_is_not_waited_for() -> None:
    async def scenario(stream: SimulatedStream) -> None:
        encoder = await connect(stream, announced=True)
        assert encoder.session is not None
        encoder.session.receive_unusable("no sets", asyncio.get_running_loop().time(), video=True)
        await send(encoder, 2, picture_after=FOREVER)
        assert stream.ports.sinks == []
        encoder.session.receive_unusable("no sets", asyncio.get_running_loop().time(), video=True)
        await send(encoder, 0.5, picture_after=FOREVER)
        assert stream.on_air == PRIMARY
        assert not any("sends only sound" in each for each in advised(stream))

    play(scenario)


def test_an_encoder_that_leaves_before_its_picture_makes_no_run() -> None:
    async def scenario(stream: SimulatedStream) -> None:
        encoder = await connect(stream, announced=True)
        await send(encoder, 6, picture_after=FOREVER)
        encoder.leave()
        await asyncio.sleep(2)
        assert stream.ports.sinks == []
        assert len(stream.live) == 0

    play(scenario)


@pytest.mark.parametrize(("window", "waits"), [(60.0, 60.0), (20.0, 22.0)])
def test_sound_for_good_ends_the_run_when_no_picture_is_expected_any_more(
    window: float, waits: float
) -> None:
    """After the window for lost encoders; if it began late in it, after its own patience."""

    async def scenario(stream: SimulatedStream) -> None:
        first = await connect(stream, announced=True)
        await send(first, 5, picture_after=0)
        first.leave()
        await asyncio.sleep(10)
        again = await connect(stream, announced=False)
        await send(again, waits - 11, picture_after=FOREVER)
        (sink,) = stream.ports.sinks
        assert sink.recorded[-1] == "slate"
        assert stream.ports.state.live
        assert of(stream.ports, "picture awaited") == [
            {"slot": "primary", "cause": "the run has one"}
        ]
        await send(again, 3, picture_after=FOREVER)
        assert stream.ports.sinks[0].recorded[-1] == "end"
        assert stream.recorded == ["begin AudioTrack"]

    play(scenario, window)


def test_a_backup_with_sound_alone_does_not_end_the_run_of_a_primary_that_returns() -> None:
    async def scenario(stream: SimulatedStream) -> None:
        backup = await connect(stream, announced=False, slot=1)
        primary = await connect(stream, announced=True)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(send(backup, 60, picture_after=FOREVER))
            await send(primary, 20, picture_after=0)
            assert stream.on_air == PRIMARY
            primary.leave()
            await asyncio.sleep(15)
            assert stream.on_air is None
            assert stream.ports.state.slate
            primary = await connect(stream, announced=True)
            await send(primary, 10, picture_after=4)
        (sink,) = stream.ports.sinks
        assert [each for each in sink.recorded if not each.startswith("offer")][:3] == [
            "begin VideoTrack AudioTrack",
            "slate",
            "begin VideoTrack AudioTrack",
        ]

    play(scenario)


def test_a_pause_counts_neither_for_nor_against_a_picture_that_is_there() -> None:
    async def scenario(stream: SimulatedStream) -> None:
        backup = await connect(stream, announced=False, slot=1)
        primary = await connect(stream, announced=True)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(send(backup, 200, picture_after=FOREVER))
            tasks.create_task(send(primary, 100, picture_after=0))
            await asyncio.sleep(5)
            assert await stream.live.pause(1)
            await asyncio.sleep(94)
            primary.leave()
            assert await stream.live.resume(1)
            await asyncio.sleep(30)
            assert stream.on_air is None
            assert len(stream.ports.sinks) == 1

    play(scenario)
