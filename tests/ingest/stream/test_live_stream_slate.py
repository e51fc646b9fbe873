"""No slot is on air, by failure or pause: the run's slate, the live state, the end of the run."""

import asyncio

import pytest

from ingest.stream.failover import LOW_LATENCY_POLICY, Policy
from media.packet import MediaPacket
from tests.ingest.stream.test_live_stream import AUDIO, VIDEO, FakePorts
from tests.support.ingest.simulated_encoders import (
    BACKUP,
    PRIMARY,
    pictures,
    simulated_stream,
    soon,
    whole,
)
from tests.support.ingest.virtual_clock import virtual_time

BEGIN = "begin VideoTrack AudioTrack"
GOES_ON = "go on with VideoTrack AudioTrack"


def now() -> float:
    return asyncio.get_running_loop().time()


def sound_at(at: int) -> MediaPacket:
    return MediaPacket(track=AUDIO, dts=at, pts=at, key=True, data=b"x")


def picture_at(at: int) -> MediaPacket:
    return MediaPacket(track=VIDEO, dts=at, pts=at, key=False, data=b"x")


@virtual_time
async def test_a_stalled_single_encoder_is_replaced_by_the_slate_until_it_goes_on() -> None:
    ports = FakePorts()
    async with simulated_stream(ports) as stream:
        primary = await stream.add_encoder(PRIMARY)
        await asyncio.sleep(5.05)
        primary.stalled = True
        await asyncio.sleep(1.8)
        assert stream.on_air == PRIMARY
        await asyncio.sleep(0.6)
        state = ports.state
        assert (state.live, state.processing, state.slate) == (True, True, True)
        assert (state.on_air, state.sending, state.no_audio) == (None, frozenset(), False)
        (sink,) = ports.sinks
        # The slate counts from the last media, not from when the stall was noticed.
        assert 2.0 <= sink.late[-1] <= 2.4
        await asyncio.sleep(5)
        primary.stalled = False
        await asyncio.sleep(0.2)
        assert stream.recorded == [BEGIN, "slate", GOES_ON]
        assert ports.state.on_air == PRIMARY
        assert not ports.state.slate
        # From a picture that has just arrived, so that the clock does not step back.
        assert sink.late[-1] == pytest.approx(0, abs=0.01)
        _, again = pictures(sink.recorded)
        assert whole(again)
        gap = again[0] - pictures(sink.recorded)[0][-1]
        assert ports.events == [
            ("slate", {"reason": "stalled"}),
            ("back on air", {"slot": "primary", "gap_ms": pytest.approx(gap, abs=2)}),
        ]


@pytest.mark.parametrize("gop", [20, 100], ids=["2 s", "10 s"])
@pytest.mark.parametrize("policy", [Policy(), LOW_LATENCY_POLICY], ids=["normal", "low latency"])
@virtual_time
async def test_packets_that_a_network_held_up_are_all_shown_after_the_slate(
    gop: int, policy: Policy
) -> None:
    ports = FakePorts()
    async with simulated_stream(ports, policy) as stream:
        primary = await stream.add_encoder(PRIMARY)
        primary.gop = gop
        await asyncio.sleep(13.05)
        primary.held_until = now() + 2.5
        await asyncio.sleep(4.0)
        assert stream.recorded == [BEGIN, "slate", GOES_ON]
        before, after = pictures(ports.sinks[0].recorded)
        assert whole(before + after)
        assert [kind for kind, _ in ports.events] == ["slate", "back on air"]
        # A second stall is no different.
        primary.held_until = now() + 2.5
        await asyncio.sleep(4.0)
        assert stream.recorded[3:] == ["slate", GOES_ON]
        assert whole([at for each in pictures(ports.sinks[0].recorded) for at in each])


@virtual_time
async def test_a_stalled_encoder_goes_on_with_its_picture() -> None:
    """Its sound alone would be shown without one."""

    ports = FakePorts()
    async with simulated_stream(ports) as stream:
        primary = await stream.add_encoder(PRIMARY)
        await asyncio.sleep(5.05)
        primary.stalled = True
        await asyncio.sleep(3.0)
        assert primary.session is not None
        for number in range(10):
            primary.session.receive_packets([sound_at(8000 + number)], now())
        assert stream.recorded == [BEGIN, "slate"]
        primary.session.receive_packets([picture_at(8010)], now())
        assert stream.recorded == [BEGIN, "slate", GOES_ON]
        offered = [line for line in ports.sinks[0].recorded if line.startswith("offer 80")]
        assert offered == [f"offer {8000 + number}" for number in range(11)]


@virtual_time
async def test_a_stalled_encoder_that_was_paused_meanwhile_begins_at_a_keyframe() -> None:
    ports = FakePorts()
    async with simulated_stream(ports) as stream:
        primary = await stream.add_encoder(PRIMARY)
        await asyncio.sleep(5.05)
        primary.held_until = now() + 3.0
        await asyncio.sleep(2.5)
        await stream.live.pause(1)
        await asyncio.sleep(1.0)
        await stream.live.resume(1)
        await asyncio.sleep(2.5)
        assert stream.recorded == [BEGIN, "slate", BEGIN]


@virtual_time
async def test_a_lost_connection_starts_the_slate_at_once_and_the_next_encoder_ends_it() -> None:
    ports = FakePorts()
    async with simulated_stream(ports) as stream:
        primary = await stream.add_encoder(PRIMARY)
        backup = await stream.add_encoder(BACKUP)
        await asyncio.sleep(5.05)
        backup.stalled = True
        await asyncio.sleep(2.1)
        primary.leave()
        await soon()
        assert ports.sinks[0].late[-1] <= 0.11
        assert ports.state.slate
        primary = await stream.add_encoder(PRIMARY)
        primary.stalled = True
        await asyncio.sleep(4)
        backup.stalled = False
        await asyncio.sleep(2.1)
        # No waiting time: any healthy source is better than the slate.
        assert stream.on_air == BACKUP
        assert stream.recorded == [BEGIN, "slate", BEGIN]
        assert [kind for kind, _ in ports.events] == ["slate", "back on air"]


@virtual_time
async def test_a_stalled_encoder_that_stays_connected_keeps_the_run() -> None:
    ports = FakePorts()
    async with simulated_stream(ports) as stream:
        primary = await stream.add_encoder(PRIMARY)
        await asyncio.sleep(5)
        primary.stalled = True
        await asyncio.sleep(500)
        assert stream.recorded == [BEGIN, "slate"]
        assert ports.state.live
        primary.leave()
        await asyncio.sleep(59)
        assert ports.state.live
        await asyncio.sleep(2)
        assert stream.recorded == [BEGIN, "slate", "end"]
        assert not ports.state.live


@pytest.mark.parametrize("goodbye", [True, False])
@virtual_time
async def test_a_run_without_a_reconnect_window_ends_at_once_without_a_slate(goodbye: bool) -> None:
    ports = FakePorts()
    async with simulated_stream(ports, reconnect_seconds=0.0, goodbye_seconds=0.0) as stream:
        primary = await stream.add_encoder(PRIMARY)
        await asyncio.sleep(5)
        primary.leave(goodbye=goodbye)
        await asyncio.sleep(1)
        assert stream.recorded == [BEGIN, "finish", "end"]
        assert ports.events == []
        assert not ports.state.live


@virtual_time
async def test_a_goodbye_starts_the_slate_for_the_goodbye_window() -> None:
    ports = FakePorts()
    async with simulated_stream(ports) as stream:
        primary = await stream.add_encoder(PRIMARY)
        await asyncio.sleep(5)
        primary.leave(goodbye=True)
        await asyncio.sleep(9.5)
        assert ports.state.slate
        assert ports.events == [("slate", {"reason": "goodbye"})]
        await asyncio.sleep(1)
        assert stream.recorded == [BEGIN, "slate", "end"]


@virtual_time
async def test_a_goodbye_while_another_is_connected_but_silent_waits_for_that_one() -> None:
    ports = FakePorts()
    async with simulated_stream(ports, goodbye_seconds=0.0) as stream:
        primary = await stream.add_encoder(PRIMARY)
        backup = await stream.add_encoder(BACKUP)
        await asyncio.sleep(5)
        backup.stalled = True
        await asyncio.sleep(3)
        primary.leave(goodbye=True)
        await asyncio.sleep(30)
        assert stream.recorded == [BEGIN, "slate"]
        backup.stalled = False
        await asyncio.sleep(3)
        assert stream.on_air == BACKUP


@pytest.mark.parametrize("order", ["drain", "end"])
@virtual_time
async def test_an_end_during_the_slate_starts_no_other_slate(order: str) -> None:
    ports = FakePorts()
    async with simulated_stream(ports) as stream:
        primary = await stream.add_encoder(PRIMARY)
        await asyncio.sleep(5)
        primary.stalled = True
        await asyncio.sleep(5)
        if order == "end":
            await stream.live.end(1, "over")
        else:
            stream.live.drain()
            await stream.live.wait_closed()
        assert stream.recorded == [BEGIN, "slate", *(["end"] if order == "end" else [])]
        state = ports.state
        assert (state.live, state.slate, state.sending) == (False, False, frozenset())


@virtual_time
async def test_an_encoder_that_replaces_its_own_connection_ends_the_slate() -> None:
    ports = FakePorts()
    async with simulated_stream(ports) as stream:
        primary = await stream.add_encoder(PRIMARY)
        await asyncio.sleep(5)
        primary.stalled, primary.last = True, asyncio.get_running_loop().time()
        again = await stream.add_encoder(PRIMARY)
        await asyncio.sleep(1)
        assert primary.disconnected is not None
        assert again.disconnected is None
        assert stream.on_air == PRIMARY
        assert stream.recorded == [BEGIN, "slate", BEGIN]
        # The slate began when the stall was noticed or the slot was freed, as came first.
        assert [kind for kind, _ in ports.events if kind != "taken over"] == [
            "slate",
            "back on air",
        ]
        recorded_events = [(each.kind, each.facts) for each in ports.recorded]
        at = recorded_events.index(("taken over", {"slot": "primary"}))
        assert recorded_events[at + 1] == (
            "encoder off",
            {"slot": "primary", "receiving_count": 0, "reason": "taken over"},
        )


@virtual_time
async def test_a_missing_sound_is_recorded_only_while_its_source_is_on_air() -> None:
    ports = FakePorts()
    async with simulated_stream(ports) as stream:
        primary = await stream.add_encoder(PRIMARY, sound=False)
        await asyncio.sleep(5)
        assert ports.state.no_audio
        primary.stalled = True
        await asyncio.sleep(3)
        assert not ports.state.no_audio
        await stream.add_encoder(BACKUP)
        await asyncio.sleep(3)
        assert (ports.state.on_air, ports.state.no_audio) == (BACKUP, False)


@virtual_time
async def test_a_pause_starts_the_slate_at_once_and_a_resume_waits_for_a_keyframe() -> None:
    ports = FakePorts()
    async with simulated_stream(ports) as stream:
        primary = await stream.add_encoder(PRIMARY)
        backup = await stream.add_encoder(BACKUP, phase=0.7)
        await asyncio.sleep(5.05)
        assert await stream.live.pause(1)
        state = ports.state
        assert (state.paused, state.live, state.on_air) == (True, True, None)
        assert (state.slate, state.sending) == (True, {PRIMARY, BACKUP})
        # While paused, failures of encoders have no effect.
        primary.stalled = True
        await asyncio.sleep(20)
        primary.stalled = False
        await asyncio.sleep(20)
        backup.leave()
        await stream.add_encoder(BACKUP)
        await asyncio.sleep(20.5)
        assert stream.recorded == [BEGIN, "slate"]
        assert primary.disconnected is None
        assert await stream.live.resume(1)
        assert (ports.state.paused, ports.state.on_air) == (False, None)
        await asyncio.sleep(2.1)
        assert (ports.state.on_air, ports.state.slate) == (PRIMARY, False)
        assert stream.recorded == [BEGIN, "slate", BEGIN]
        assert ports.sinks[0].late[-1] == pytest.approx(0, abs=0.01)
        assert [(kind, facts.get("reason")) for kind, facts in ports.events] == [
            ("slate", "paused"),
            ("back on air", None),
        ]


@virtual_time
async def test_a_second_pause_has_no_effect() -> None:
    ports = FakePorts()
    async with simulated_stream(ports) as stream:
        await stream.add_encoder(PRIMARY)
        await asyncio.sleep(3)
        assert await stream.live.pause(1)
        assert await stream.live.pause(1)
        assert await stream.live.resume(1)
        assert await stream.live.resume(1)
        await asyncio.sleep(3)
        assert stream.recorded == [BEGIN, "slate", BEGIN]
        assert not await stream.live.pause(2)
        assert not await stream.live.resume(2)


@virtual_time
async def test_a_run_that_begins_paused_has_no_media_of_its_encoders() -> None:
    ports = FakePorts()
    async with simulated_stream(ports, paused=True) as stream:
        await stream.add_encoder(PRIMARY)
        await asyncio.sleep(10)
        (sink,) = ports.sinks
        assert sink.recorded == [BEGIN, "slate"]
        state = ports.state
        assert (state.live, state.paused, state.on_air) == (True, True, None)
        assert await stream.live.resume(1)
        await asyncio.sleep(2.1)
        assert stream.recorded == [BEGIN, "slate", BEGIN]
        assert stream.on_air == PRIMARY


@virtual_time
async def test_a_pause_ends_with_its_run_and_outlives_a_restart() -> None:
    ports = FakePorts()
    async with simulated_stream(ports) as stream:
        primary = await stream.add_encoder(PRIMARY)
        await asyncio.sleep(3)
        assert await stream.live.pause(1)
        primary.leave()
        await asyncio.sleep(61)
        assert (ports.state.live, ports.state.paused) == (False, False)
        await stream.add_encoder(PRIMARY)
        await asyncio.sleep(3)
        assert stream.on_air == PRIMARY
        assert await stream.live.pause(1)
        assert await stream.live.end(1, "over")
        assert not ports.state.paused
        await stream.add_encoder(PRIMARY)
        await asyncio.sleep(3)
        assert await stream.live.pause(1)
        stream.live.drain()
        await stream.live.wait_closed()
        assert (ports.state.live, ports.state.paused) == (False, True)


@pytest.mark.parametrize("earlier", [0.0, 0.05, 0.4, 1.0])
@virtual_time
async def test_of_encoders_started_together_the_primary_begins(earlier: float) -> None:
    ports = FakePorts()
    async with simulated_stream(ports) as stream:
        await stream.add_encoder(BACKUP)
        await asyncio.sleep(earlier)
        await stream.add_encoder(PRIMARY)
        await asyncio.sleep(0.1)
        assert ports.sinks
        await asyncio.sleep(3)
        assert stream.on_air == PRIMARY
        assert len(pictures(ports.sinks[0].recorded)) == 1
        assert ports.events == []


@virtual_time
async def test_a_single_backup_begins_after_a_short_wait_without_losing_media() -> None:
    ports = FakePorts()
    async with simulated_stream(ports, Policy(detect_seconds=1.0)) as stream:
        began = asyncio.get_running_loop().time()
        backup = await stream.add_encoder(BACKUP)
        backup.gop = 5  # some keyframes come while it waits
        await asyncio.sleep(2)
        assert stream.on_air == BACKUP
        (sink,) = ports.sinks
        (only,) = pictures(sink.recorded)
        assert whole(only)
        assert only[0] == round(began * 1000)
        assert 1.5 <= sink.late[0] <= 1.8
        # The primary comes too late to begin, and waits as long as it has to.
        await stream.add_encoder(PRIMARY)
        await asyncio.sleep(9)
        assert stream.on_air == BACKUP
