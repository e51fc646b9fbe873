"""The owner's events, and that no state is written before the events that led to it."""

import asyncio
import random

import pytest

from ingest.stream.failover import Mode, Policy
from ingest.stream.live_stream import SlotOccupied
from tests.ingest.stream.test_live_stream import FakePorts
from tests.support.ingest.simulated_encoders import (
    BACKUP,
    PRIMARY,
    SECOND,
    SimulatedEncoder,
    SimulatedStream,
    simulated_stream,
    soon,
)
from tests.support.ingest.virtual_clock import run, virtual_time


def of(ports: FakePorts, *kinds: str) -> list[dict[str, object]]:
    return [each.facts for each in ports.recorded if each.kind in kinds]


@virtual_time
async def test_each_encoders_event_has_its_slot_and_the_number_of_encoders() -> None:
    ports = FakePorts()
    async with simulated_stream(ports) as stream:
        primary = await stream.add_encoder(PRIMARY)
        backup = await stream.add_encoder(BACKUP)
        await asyncio.sleep(3)
        primary.leave(goodbye=True)
        await soon()
        assert ports.state.sending == {BACKUP}
        backup.leave()
        await soon()
        await stream.add_encoder(PRIMARY)
        await asyncio.sleep(1)
        assert await stream.live.disconnect(1, "another", "the key was changed") == 1
        assert [
            (each.kind, each.facts) for each in ports.recorded if each.kind.startswith("encoder")
        ] == [
            (kind, {"slot": slot, "receiving_count": count, **why})
            for kind, slot, count, why in (
                ("encoder on", "primary", 1, {}),
                ("encoder on", "backup-1", 2, {}),
                ("encoder off", "primary", 1, {"reason": "goodbye"}),
                ("encoder off", "backup-1", 0, {"reason": "lost"}),
                ("encoder on", "primary", 1, {}),
                ("encoder off", "primary", 0, {"reason": "closed by us"}),
            )
        ]


@pytest.mark.parametrize("detect", [2.0, 5.0])
@virtual_time
async def test_a_connected_encoder_that_is_silent_does_not_count_until_it_sends(
    detect: float,
) -> None:
    ports = FakePorts()
    async with simulated_stream(ports, Policy(detect_seconds=detect)) as stream:
        await stream.add_encoder(PRIMARY)
        backup = await stream.add_encoder(BACKUP)
        await asyncio.sleep(3)
        backup.stalled = True
        await asyncio.sleep(detect - 0.2)
        assert ports.state.sending == {PRIMARY, BACKUP}
        await asyncio.sleep(0.6)
        assert ports.state.sending == {PRIMARY}
        backup.stalled = False
        await asyncio.sleep(0.5)
        assert ports.state.sending == {PRIMARY, BACKUP}
        backup.stalled = True
        await asyncio.sleep(detect + 0.5)
        backup.leave()
        await soon()
        assert [
            (each.kind, each.facts["slot"], each.facts["receiving_count"])
            for each in ports.recorded
            if each.kind.startswith("encoder")
        ] == [
            ("encoder on", "primary", 1),
            ("encoder on", "backup-1", 2),
            ("encoder silent", "backup-1", 1),
            ("encoder sending", "backup-1", 2),
            ("encoder silent", "backup-1", 1),
            ("encoder off", "backup-1", 1),
        ]


@virtual_time
async def test_an_encoder_that_never_sends_counts_for_the_detection_time() -> None:
    ports = FakePorts()
    async with simulated_stream(ports) as stream:
        encoder = await stream.add_encoder(PRIMARY, phase=10.0)
        encoder.stalled = True
        await asyncio.sleep(1.5)
        assert ports.state.sending == {PRIMARY}
        await asyncio.sleep(1.0)
        assert ports.state.sending == frozenset()


def test_why_nothing_is_live_is_recorded_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        ports = FakePorts()
        async with simulated_stream(ports) as stream:
            await stream.add_encoder(BACKUP, phase=1_000.0)  # the stream goes on
            for _ in range(3):  # it comes back every 25 s
                encoder = await stream.add_encoder(PRIMARY, phase=1_000.0)
                assert encoder.session is not None
                for _ in range(200):
                    now = asyncio.get_running_loop().time()
                    encoder.session.receive_unusable("no header", now, video=False)
                    encoder.session.receive_unusable("no sets", now, video=True)
                    await asyncio.sleep(0.1)
                assert ports.state.sending == {PRIMARY}
                assert not ports.state.live
                encoder.leave()
                await asyncio.sleep(5)
            assert of(ports, "picture unusable") == [{"slot": "primary", "cause": "no sets"}]
            assert of(ports, "sound unusable") == [{"slot": "primary", "cause": "no header"}]
            assert [each["slot"] for each in of(ports, "encoder silent")] == ["backup-1"]
            encoder = await stream.add_encoder(PRIMARY, phase=1_000.0)
            assert encoder.session is not None
            for _ in range(12):
                encoder.session.receive_unusable("b", asyncio.get_running_loop().time(), video=True)
                await asyncio.sleep(0.1)
            assert len(of(ports, "picture unusable")) == 2

    caplog.set_level("INFO")
    run(scenario())
    logged = [vars(record) for record in caplog.records if record.msg == "picture unusable"]
    assert [(each["slot"], each["cause"]) for each in logged] == [
        ("primary", "no sets"), ("primary", "b"),
    ]  # fmt: skip


@virtual_time
async def test_a_source_whose_picture_cannot_be_used_any_more_gives_way_to_its_backup() -> None:
    ports = FakePorts()
    async with simulated_stream(ports) as stream:
        primary = await stream.add_encoder(PRIMARY, sound=False)
        await stream.add_encoder(BACKUP)
        await asyncio.sleep(5)
        assert stream.on_air == PRIMARY
        primary.stalled = True
        assert primary.session is not None
        for _ in range(40):
            now = asyncio.get_running_loop().time()
            primary.session.receive_unusable("odd", now, video=True)
            await asyncio.sleep(0.1)
        assert stream.on_air == BACKUP
        assert len(of(ports, "picture unusable")) == 1


@virtual_time
async def test_a_refused_second_encoder_is_reported_once() -> None:
    ports = FakePorts()
    async with simulated_stream(ports) as stream:
        await stream.add_encoder(PRIMARY)
        for _ in range(10):
            with pytest.raises(SlotOccupied):
                await stream.add_encoder(PRIMARY)
        assert of(ports, "refused") == [{"slot": "primary", "reason": "another encoder is sending"}]
        await asyncio.sleep(60)
        with pytest.raises(SlotOccupied):
            await stream.add_encoder(PRIMARY)
        await soon()
        assert len(of(ports, "refused")) == 2


@virtual_time
async def test_a_journal_that_does_not_answer_delays_no_switch_and_gets_all_events_later() -> None:
    ports = FakePorts()
    async with simulated_stream(ports) as stream:
        primary = await stream.add_encoder(PRIMARY)
        backup = await stream.add_encoder(BACKUP)
        backup.gop = 1_000  # so that none of its keyframes causes a decision
        await asyncio.sleep(6)
        ports.hangs = True
        primary.stalled = True
        await asyncio.sleep(2.4)
        assert stream.recorded == [
            "begin VideoTrack AudioTrack",
            "splice VideoTrack AudioTrack",
        ]
        primary.leave()
        await asyncio.sleep(30)
        ports.hangs = False
        await asyncio.sleep(6)
        assert ports.state.on_air == BACKUP
        assert [facts["to"] for facts in of(ports, "switched")] == ["backup-1"]
        assert len(of(ports, "encoder off")) == 1


@virtual_time
async def test_the_last_state_is_written_once_the_journal_is_back_even_without_encoders() -> None:
    ports = FakePorts()
    async with simulated_stream(ports, reconnect_seconds=0.0) as stream:
        primary = await stream.add_encoder(PRIMARY)
        await asyncio.sleep(3)
        ports.refusals = 100
        primary.leave()
        await asyncio.sleep(20)
        assert ports.state.live
        await asyncio.sleep(10)
        assert not ports.state.live
        assert len(stream.live) == 0


@pytest.mark.parametrize(
    "seed", [*range(2), *(pytest.param(seed, marks=pytest.mark.prove) for seed in range(2, 5))]
)
@virtual_time
async def test_no_state_can_be_read_without_the_events_that_led_to_it(seed: int) -> None:
    """At any time, the events written so far give the slot on air and the number of encoders."""

    ports = FakePorts()
    async with simulated_stream(ports, Policy(return_seconds=4.0)) as stream:
        chance = random.Random(seed)
        await _trouble(stream, chance)
        ports.refusals = 0
        await asyncio.sleep(6)
    on_air: object = "nobody yet"
    count: object = 0
    compared = 0
    for state, events in ports.entries:
        for each in events:
            match each.kind:
                case "switched":
                    assert on_air in ("nobody yet", each.facts["from"])
                    on_air = each.facts["to"]
                case "back on air":
                    assert on_air in ("nobody yet", None)
                    on_air = each.facts["slot"]
                case "slate":
                    on_air = None
                case "encoder on" | "encoder off" | "encoder silent" | "encoder sending":
                    count = each.facts["receiving_count"]
                case _:
                    pass
        assert count == len(state.sending)
        if not state.live:
            on_air = "nobody yet"  # the next run begins with a state that is live
        elif on_air != "nobody yet":
            assert on_air == (None if state.on_air is None else str(state.on_air))
            compared += 1
    assert compared > 20
    assert ports.recorded


async def _trouble(stream: SimulatedStream, chance: random.Random) -> None:
    """Let encoders connect, stall and leave for minutes, an owner act, and the journal fail."""
    cameras: dict[int, SimulatedEncoder] = {}
    for _ in range(150):
        slot = chance.choice((PRIMARY, PRIMARY, BACKUP, SECOND))
        camera = cameras.get(slot.number)
        match chance.randrange(9):
            case 0 if camera is not None:
                camera.leave(goodbye=chance.random() < 0.5)
                del cameras[slot.number]
            case 1 | 2 if camera is not None:
                camera.stalled = not camera.stalled
            case 3 if chance.random() < 0.3:
                await stream.live.pause(1)
            case 4 | 5:
                await stream.live.resume(1)
            case 6:
                stream.ports.refusals = chance.randrange(8)
            case 7:
                await stream.live.drill(1)
            case _ if camera is None:
                cameras[slot.number] = await stream.add_encoder(slot, phase=chance.random())
            case _:
                pass
        await asyncio.sleep(chance.choice((0.05, 0.7, 3.0)))


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.prove)])
@virtual_time
async def test_fifty_flaps_cause_no_more_switches_than_the_policy_allows(seed: int) -> None:
    """A return requires that the primary was healthy for `return_seconds`.

    The number of returns is thus at most the time divided by `return_seconds`, and there is at most
    one more switch to the backup: 61 in five minutes by default, however often the primary flaps.
    """

    ports = FakePorts()
    chance = random.Random(seed)
    async with simulated_stream(ports) as stream:
        primary = await stream.add_encoder(PRIMARY)
        await stream.add_encoder(BACKUP)
        await asyncio.sleep(5)
        began = asyncio.get_running_loop().time()
        for _ in range(50):
            # 300 s with 50 flaps, some of which last long enough for a return.
            well, away = chance.choice(((2.0, 2.5), (1.0, 3.0), (13.0, 3.0)))
            if chance.random() < 0.5:
                primary.stalled = True
                await asyncio.sleep(away)
                primary.stalled = False
            else:
                primary.leave()
                await asyncio.sleep(away)
                primary = await stream.add_encoder(PRIMARY)
            await asyncio.sleep(well)
        lasted = asyncio.get_running_loop().time() - began
        back = [facts for facts in of(ports, "switched") if facts["reason"] == "returned"]
        off = [facts for facts in of(ports, "switched") if facts["reason"] != "returned"]
        assert 0 < len(back) <= lasted / 10
        assert len(off) <= len(back) + 1
        # No slate, second run or end, since the backup was healthy all the time.
        assert of(ports, "slate") == []
        assert len(ports.sinks) == 1
        assert all(not line.startswith(("slate", "finish", "end")) for line in stream.recorded)


@virtual_time
async def test_fifty_short_flaps_cause_one_switch() -> None:
    ports = FakePorts()
    async with simulated_stream(ports) as stream:
        primary = await stream.add_encoder(PRIMARY)
        await stream.add_encoder(BACKUP)
        await asyncio.sleep(5)
        for _ in range(50):
            primary.stalled = True
            await asyncio.sleep(2.5)
            primary.stalled = False
            await asyncio.sleep(3.5)
        assert len(of(ports, "switched")) == 1


@virtual_time
async def test_a_sticky_stream_switches_only_when_the_slot_on_air_fails() -> None:
    ports = FakePorts()
    async with simulated_stream(ports, Policy(mode=Mode.STICKY)) as stream:
        primary = await stream.add_encoder(PRIMARY)
        await stream.add_encoder(BACKUP)
        await asyncio.sleep(5)
        for _ in range(20):
            primary.leave()
            await asyncio.sleep(1)
            primary = await stream.add_encoder(PRIMARY)
            await asyncio.sleep(14)
        assert len(of(ports, "switched")) == 1
