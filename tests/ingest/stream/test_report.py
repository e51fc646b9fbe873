"""The report on a stream's encoders, as they connect and leave."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from ingest.stream.registry import LiveStreams
from media.encoder_report import StreamReport
from media.packet import MediaPacket
from media.stream_keys import Slot
from media.track import VideoTrack
from tests.ingest.stream.test_live_stream import (
    AUDIO,
    GRANT,
    SMALL,
    VIDEO,
    FakePorts,
    FakePublisher,
    streams,
)
from tests.support.ingest.virtual_clock import run


async def attach_encoder(live: LiveStreams, slot: int) -> FakePublisher:
    encoder = FakePublisher()
    grant = msgspec.structs.replace(GRANT, slot=Slot(slot), active=frozenset({"360p", "720p"}))
    encoder.session = await live.attach(grant, encoder)
    return encoder


async def send(encoder: FakePublisher, video: VideoTrack, seconds: int, first: int = 0) -> None:
    """Send 25 pictures a second, a keyframe every five seconds, on the loop's clock."""
    clock = asyncio.get_running_loop().time
    assert encoder.session is not None
    encoder.session.receive_track(video, clock())
    encoder.session.receive_track(AUDIO, clock())
    for number in range(25 * seconds):
        at = first + 40 * number
        for track, key in ((video, number % 125 == 0), (AUDIO, True)):
            packet = MediaPacket(track=track, dts=at, pts=at, key=key, data=bytes(1000))
            encoder.session.receive_packets([packet], clock())
        await asyncio.sleep(0.04)


def stream_report(live: LiveStreams) -> StreamReport:
    return msgspec.convert(live.report(GRANT.stream), StreamReport)


def play(scenario: Callable[[LiveStreams], Awaitable[None]]) -> None:
    async def go() -> None:
        async with streams(FakePorts()) as live:
            await scenario(live)

    run(go())


def test_a_stream_without_encoders_has_no_slots() -> None:
    async def scenario(live: LiveStreams) -> None:
        nobody = StreamReport(live=False, on_air=None, slots=[], advice=[])
        assert stream_report(live) == nobody

    play(scenario)


def test_an_encoder_is_reported_from_attaching_until_it_leaves() -> None:
    async def scenario(live: LiveStreams) -> None:
        encoder = await attach_encoder(live, 0)
        (slot,) = stream_report(live).slots
        assert (slot.slot, slot.number, slot.peer) == ("primary", 0, encoder.peer)
        assert (slot.encoder.video, slot.encoder.audio, slot.advice) == (None, None, [])
        await send(encoder, VIDEO, 21)
        report = stream_report(live)
        (slot,) = report.slots
        assert (report.live, report.on_air) == (True, "primary")
        assert slot.connected_seconds == 21
        assert slot.encoder.video is not None
        assert slot.encoder.video.frame_rate == 25
        assert slot.encoder.video.keyframes.median_seconds == 5
        assert slot.encoder.network.longest_silence_seconds <= 0.05
        assert any("keyframe interval is 5 s" in each for each in slot.advice)
        assert encoder.session is not None
        encoder.session.close(goodbye=False)
        assert stream_report(live).slots == []

    play(scenario)


def test_the_picture_is_compared_with_the_active_resolutions() -> None:
    async def scenario(live: LiveStreams) -> None:
        encoder = await attach_encoder(live, 0)
        await send(encoder, msgspec.structs.replace(VIDEO, width=1920, height=1080), 3)
        (slot,) = stream_report(live).slots
        assert any("send 720p" in each for each in slot.advice)

    play(scenario)


def test_a_backup_is_measured_and_compared_with_the_primary() -> None:
    async def scenario(live: LiveStreams) -> None:
        backup, primary = await attach_encoder(live, 1), await attach_encoder(live, 0)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(send(primary, VIDEO, 12))
            tasks.create_task(send(backup, SMALL, 12, first=500_000))
        report = stream_report(live)
        assert [each.slot for each in report.slots] == ["primary", "backup-1"]
        assert [each.encoder.clock.jumps for each in report.slots] == [0, 0]
        (advice,) = report.advice
        assert "1280x720 and 640x360" in advice

    play(scenario)


def test_a_clock_jump_is_reported() -> None:
    async def scenario(live: LiveStreams) -> None:
        encoder = await attach_encoder(live, 0)
        await send(encoder, VIDEO, 3)
        assert encoder.session is not None
        encoder.session.clock_jumped()
        await send(encoder, VIDEO, 3, first=900_000)
        (slot,) = stream_report(live).slots
        assert slot.encoder.clock.jumps == 1
        assert slot.encoder.video is not None
        assert slot.encoder.video.frames_missing == 0
        assert slot.encoder.network.measured_seconds == 3

    play(scenario)
