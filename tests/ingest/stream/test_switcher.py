"""Several encoders of one stream: which is on air, and what is lost or repeated at a switch."""

import asyncio

import pytest

from ingest.stream.failover import Mode, Policy
from ingest.stream.slot_session import SlotSession
from media.track import AudioCodec, AudioTrack
from tests.ingest.stream.test_live_stream import SMALL, VIDEO, FakePorts
from tests.support.ingest.simulated_encoders import (
    BACKUP,
    PRIMARY,
    SECOND,
    pictures,
    seam,
    simulated_stream,
    soon,
    whole,
)
from tests.support.ingest.virtual_clock import virtual_time


@pytest.mark.parametrize("phase", [0.2, 0.7, 1.0, 1.3, 1.9])
@pytest.mark.parametrize("goodbye", [True, False])
@virtual_time
async def test_a_backup_takes_over_from_a_primary_that_leaves_at_the_nearest_keyframe(
    goodbye: bool, phase: float
) -> None:
    ports = FakePorts()
    async with simulated_stream(ports) as stream:
        primary = await stream.add_encoder(PRIMARY)
        await stream.add_encoder(BACKUP, phase=phase)
        await asyncio.sleep(7.05)
        state = ports.states[-1]
        assert (state.on_air, state.sending) == (PRIMARY, {PRIMARY, BACKUP})
        primary.leave(goodbye=goodbye)
        # At once, unless the next keyframe is nearer than the newest one.
        await (soon() if phase < 1.05 else asyncio.sleep(1.0))
        state = ports.states[-1]
        assert (state.on_air, state.sending, state.live) == (BACKUP, {BACKUP}, True)
        await asyncio.sleep(100)  # past every window
        assert ports.states[-1].on_air == BACKUP
        (sink,) = ports.sinks
        assert stream.recorded == [
            "begin VideoTrack AudioTrack",
            "splice VideoTrack AudioTrack",
        ]
        first, second = pictures(sink.recorded)
        assert whole(first)
        assert whole(second)
        assert abs(seam(first, second)) <= 1.05  # half a GOP
        ((kind, facts),) = ports.events
        assert kind == "switched"
        assert facts == {
            "from": "primary",
            "to": "backup-1",
            "reason": "lost",
            "gap_ms": pytest.approx(1000 * (seam(first, second) + 0.1), abs=2),
        }
        assert sink.late[1] == pytest.approx(max(0, -seam(first, second) - 0.05), abs=0.1)


@pytest.mark.parametrize("phase", [0.0, 0.3, 0.9, 1.1, 1.6])
@virtual_time
async def test_media_that_a_stalled_primary_did_not_send_come_from_the_backups_buffer(
    phase: float,
) -> None:
    ports = FakePorts()
    async with simulated_stream(ports) as stream:
        primary = await stream.add_encoder(PRIMARY)
        await stream.add_encoder(BACKUP, phase=phase)
        await asyncio.sleep(9.05)
        primary.stalled = True
        await asyncio.sleep(1.8)
        assert stream.on_air == PRIMARY
        await asyncio.sleep(0.6)
        state = ports.states[-1]
        assert (state.on_air, state.sending) == (BACKUP, {BACKUP})
        assert primary.disconnected is None
        (sink,) = ports.sinks
        first, second = pictures(sink.recorded)
        assert whole(second)
        assert abs(seam(first, second)) <= 1.05  # half a GOP
        # Media sent before the stall was noticed are offered at once.
        now = asyncio.get_running_loop().time()
        assert second[-1] / 1000 >= now - 0.2


@virtual_time
async def test_a_keyframe_that_stays_away_is_not_waited_for() -> None:
    ports = FakePorts()
    async with simulated_stream(ports) as stream:
        primary = await stream.add_encoder(PRIMARY)
        backup = await stream.add_encoder(BACKUP, phase=1.3)
        await asyncio.sleep(7.05)
        backup.gop = 1000  # its next keyframe stays away
        primary.leave()
        await asyncio.sleep(0.2)
        assert stream.on_air == PRIMARY  # the backup's keyframe is due in 50 ms
        await asyncio.sleep(0.65)
        assert stream.on_air == BACKUP
        first, second = pictures(ports.sinks[0].recorded)
        assert seam(first, second) == pytest.approx(-1.8, abs=0.11)


@virtual_time
async def test_an_encoder_that_returns_while_a_keyframe_is_awaited_counts_as_new() -> None:
    ports = FakePorts()
    async with simulated_stream(ports) as stream:
        primary = await stream.add_encoder(PRIMARY)
        await stream.add_encoder(BACKUP, phase=1.9)
        await asyncio.sleep(7.05)
        primary.leave()
        await asyncio.sleep(0.2)
        await stream.add_encoder(PRIMARY)
        await asyncio.sleep(1.5)
        assert stream.on_air in {BACKUP, PRIMARY}
        first, second = pictures(ports.sinks[0].recorded)[:2]
        assert abs(seam(first, second)) <= 1.05
        assert [kind for kind, _ in ports.events if kind == "slate"] == []


@virtual_time
async def test_the_primary_returns_at_a_keyframe_once_it_has_been_healthy_for_long_enough() -> None:
    ports = FakePorts()
    # Between two of its keyframes, which come every 2 s.
    async with simulated_stream(ports, Policy(return_seconds=9.0)) as stream:
        primary = await stream.add_encoder(PRIMARY)
        await stream.add_encoder(BACKUP, phase=0.7)
        await asyncio.sleep(5)
        primary.leave()
        await asyncio.sleep(5)
        back = asyncio.get_running_loop().time()
        await stream.add_encoder(PRIMARY)
        await asyncio.sleep(9.9)
        assert stream.on_air == BACKUP
        await asyncio.sleep(2.4)  # a GOP, and a little
        assert stream.on_air == PRIMARY
        (sink,) = ports.sinks
        _, second, third = pictures(sink.recorded)
        assert whole(second)
        assert whole(third)
        assert third[0] / 1000 == pytest.approx(back + 10, abs=0.1)
        assert abs(seam(second, third)) <= 0.11
        assert [facts["reason"] for _, facts in ports.events] == ["lost", "returned"]


@virtual_time
async def test_a_flapping_primary_does_not_switch_the_stream_back_and_forth() -> None:
    ports = FakePorts()
    async with simulated_stream(ports) as stream:
        primary = await stream.add_encoder(PRIMARY)
        await stream.add_encoder(BACKUP)
        await asyncio.sleep(3)
        primary.leave()
        for _ in range(6):
            primary = await stream.add_encoder(PRIMARY)
            await asyncio.sleep(9)
            primary.leave()
            await asyncio.sleep(1)
        assert stream.on_air == BACKUP
        assert len(ports.events) == 1
        assert len(ports.sinks) == 1


@virtual_time
async def test_the_newest_grant_sets_the_detection_time() -> None:
    ports = FakePorts()
    async with simulated_stream(ports) as stream:
        primary = await stream.add_encoder(PRIMARY)
        await stream.add_encoder(BACKUP, policy=Policy(detect_seconds=6.0))
        await asyncio.sleep(10.05)
        primary.stalled = True
        await asyncio.sleep(5.8)
        assert stream.on_air == PRIMARY
        await asyncio.sleep(0.6)
        assert stream.on_air == BACKUP
        # Buffers reach as far back as a stall may last.
        first, second = pictures(ports.sinks[0].recorded)
        assert abs(seam(first, second)) <= 1.05
        await stream.add_encoder(SECOND, policy=Policy(mode=Mode.STICKY))
        primary.stalled = False
        await asyncio.sleep(30)
        assert stream.on_air == BACKUP


@virtual_time
async def test_a_sticky_stream_stays_with_its_backup() -> None:
    ports = FakePorts()
    async with simulated_stream(ports, Policy(mode=Mode.STICKY)) as stream:
        primary = await stream.add_encoder(PRIMARY)
        backup = await stream.add_encoder(BACKUP)
        await asyncio.sleep(3)
        primary.leave()
        await stream.add_encoder(PRIMARY)
        await asyncio.sleep(60)
        assert stream.on_air == BACKUP
        backup.leave()
        await soon()
        assert stream.on_air == PRIMARY


@virtual_time
async def test_the_window_begins_when_the_last_encoder_has_left() -> None:
    ports = FakePorts()
    async with simulated_stream(ports) as stream:
        primary = await stream.add_encoder(PRIMARY)
        backup = await stream.add_encoder(BACKUP)
        await asyncio.sleep(3)
        primary.leave()
        await asyncio.sleep(70)
        backup.leave()
        await asyncio.sleep(59)
        (sink,) = ports.sinks
        assert ports.states[-1].live
        assert stream.on_air is None
        assert sink.recorded[-1] == "slate"
        await stream.add_encoder(SECOND)
        await soon()
        assert stream.on_air == SECOND
        assert len(ports.sinks) == 1
        assert ports.events == [
            ("switched", ports.events[0][1] | {"from": "primary", "to": "backup-1"}),
            ("slate", {"reason": "lost"}),
            ("back on air", {"slot": "backup-2", "gap_ms": pytest.approx(59_000, abs=150)}),
        ]


@virtual_time
async def test_a_backup_that_leaves_while_the_primary_is_on_air_changes_nothing_for_viewers() -> (
    None
):
    ports = FakePorts()
    async with simulated_stream(ports) as stream:
        await stream.add_encoder(PRIMARY)
        backup = await stream.add_encoder(BACKUP)
        await asyncio.sleep(5)
        backup.leave()
        await asyncio.sleep(5)
        (sink,) = ports.sinks
        assert len(pictures(sink.recorded)) == 1
        assert whole(pictures(sink.recorded)[0])
        assert ports.states[-1].sending == {PRIMARY}
        assert ports.events == []


@virtual_time
async def test_a_single_backup_is_on_air_until_the_primary_takes_over() -> None:
    ports = FakePorts()
    async with simulated_stream(ports) as stream:
        await stream.add_encoder(BACKUP)
        await asyncio.sleep(5)
        assert stream.on_air == BACKUP
        await stream.add_encoder(PRIMARY)
        await asyncio.sleep(13)
        assert stream.on_air == PRIMARY
        (sink,) = ports.sinks
        first, second = pictures(sink.recorded)
        assert abs(seam(first, second)) <= 0.11


@virtual_time
async def test_a_backup_with_another_picture_size_continues_the_same_run() -> None:
    ports = FakePorts()
    async with simulated_stream(ports) as stream:
        primary = await stream.add_encoder(PRIMARY)
        await stream.add_encoder(BACKUP, SMALL)
        await asyncio.sleep(5)
        primary.leave()
        await asyncio.sleep(5)
        assert len(ports.sinks) == 1
        assert stream.on_air == BACKUP


@virtual_time
async def test_a_backup_without_a_picture_is_on_air_only_while_there_is_no_other() -> None:
    """It ends the run, and so does the picture's return: the kinds of a run's tracks are fixed."""

    ports = FakePorts()
    async with simulated_stream(ports) as stream:
        primary = await stream.add_encoder(PRIMARY)
        await stream.add_encoder(BACKUP, None)
        second = await stream.add_encoder(SECOND)
        await asyncio.sleep(5)
        primary.leave()
        await soon()
        assert stream.on_air == SECOND
        second.leave()
        await asyncio.sleep(59)
        assert stream.on_air is None
        assert len(ports.sinks) == 1  # the picture may come back
        await asyncio.sleep(2)
        assert stream.on_air == BACKUP
        assert not ports.states[-1].no_audio
        assert len(ports.sinks) == 2
        assert ports.sinks[0].recorded[-1] == "end"
        await stream.add_encoder(PRIMARY)
        await asyncio.sleep(15)
        assert stream.on_air == PRIMARY
        assert len(ports.sinks) == 3


@pytest.mark.parametrize("order", ["end", "disconnect"])
@virtual_time
async def test_a_command_disconnects_all_encoders_and_none_goes_on_air_meanwhile(
    order: str,
) -> None:
    ports = FakePorts()
    async with simulated_stream(ports) as stream:
        cameras = [await stream.add_encoder(slot) for slot in (PRIMARY, BACKUP, SECOND)]
        await asyncio.sleep(5)
        if order == "end":
            assert await stream.live.end(1, "over")
        else:
            assert await stream.live.disconnect(1, "another", "over") == 3
        assert [camera.disconnected for camera in cameras] == ["over"] * 3
        await asyncio.sleep(1)
        (sink,) = ports.sinks
        assert len(pictures(sink.recorded)) == 1
        assert ("end" in sink.recorded) == (order == "end")
        state = ports.states[-1]
        assert (state.on_air, state.sending) == (None, frozenset())
        slate = [("slate", {"reason": "closed by us"})]
        assert ports.events == (slate if order == "disconnect" else [])


@virtual_time
async def test_a_backup_takes_over_while_the_run_still_opens() -> None:
    ports = FakePorts(opening=6.0)
    async with simulated_stream(ports) as stream:
        primary = await stream.add_encoder(PRIMARY)
        await stream.add_encoder(BACKUP)
        await asyncio.sleep(3)
        primary.leave()
        await asyncio.sleep(8)
        (sink,) = ports.sinks
        (only,) = pictures(sink.recorded)
        assert whole(only)
        assert stream.on_air == BACKUP


@virtual_time
async def test_a_single_encoder_has_no_buffer() -> None:
    ports = FakePorts()
    async with simulated_stream(ports) as stream:
        primary = await stream.add_encoder(PRIMARY)
        await asyncio.sleep(5)
        assert isinstance(primary.session, SlotSession)
        assert primary.session.buffer.size_bytes == 0
        backup = await stream.add_encoder(BACKUP)
        await asyncio.sleep(5)
        assert primary.session.buffer.size_bytes > 0
        backup.leave()
        assert primary.session.buffer.size_bytes == 0


@pytest.mark.parametrize("kind", ["picture", "sound", "both"])
@virtual_time
async def test_a_source_counts_from_when_its_first_packet_came(kind: str) -> None:
    """A source of one kind is held back for a second, in case the other kind comes."""

    ports = FakePorts()
    async with simulated_stream(ports) as stream:
        video = None if kind == "sound" else VIDEO
        await stream.add_encoder(PRIMARY, video, sound=kind != "picture")
        await asyncio.sleep(3.05)
        (sink,) = ports.sinks
        assert sink.late == pytest.approx([0.0 if kind == "both" else 1.0], abs=0.05)
        (sent,) = pictures(sink.recorded)
        assert whole(sent)


@pytest.mark.parametrize("gop", [20, 100], ids=["2 s", "10 s"])
@virtual_time
async def test_late_and_changed_sound_and_another_clock_lose_no_picture(gop: int) -> None:
    ports = FakePorts()
    async with simulated_stream(ports) as stream:
        primary = await stream.add_encoder(PRIMARY, sound=False)
        primary.gop = gop
        await asyncio.sleep(3.05)
        assert primary.session is not None
        for config in (b"d", b"e"):
            sound = AudioTrack(codec=AudioCodec.AAC, config=config, rate=48_000, channels=2)
            primary.session.receive_track(sound, asyncio.get_running_loop().time())
            await asyncio.sleep(3)
        primary.session.clock_jumped()
        await asyncio.sleep(3)
        assert stream.recorded == [
            "begin VideoTrack",
            "go on with VideoTrack AudioTrack",
            "go on with VideoTrack AudioTrack",
            "restart the clock of VideoTrack AudioTrack",
        ]
        (sink,) = ports.sinks
        assert whole([at for source in pictures(sink.recorded) for at in source])


@virtual_time
async def test_a_backup_whose_sound_changes_can_take_over_at_once() -> None:
    """Its next keyframe would be 10 s away."""

    ports = FakePorts()
    async with simulated_stream(ports) as stream:
        primary = await stream.add_encoder(PRIMARY)
        backup = await stream.add_encoder(BACKUP)
        backup.gop = 100
        await asyncio.sleep(13.05)
        assert backup.session is not None
        sound = AudioTrack(codec=AudioCodec.AAC, config=b"e", rate=48_000, channels=2)
        backup.session.receive_track(sound, asyncio.get_running_loop().time())
        await asyncio.sleep(0.3)
        primary.leave()
        await soon()
        assert stream.on_air == BACKUP
        assert [kind for kind, _ in ports.events] == ["switched"]


@virtual_time
async def test_another_picture_begins_anew() -> None:
    ports = FakePorts()
    async with simulated_stream(ports) as stream:
        primary = await stream.add_encoder(PRIMARY)
        await asyncio.sleep(3.05)
        assert primary.session is not None
        primary.session.receive_track(SMALL, asyncio.get_running_loop().time())
        await soon()
        begin = "begin VideoTrack AudioTrack"
        assert stream.recorded == [begin, "finish", begin]
