"""Encoders that are apart: what viewers get of the programme at a switch, and what they miss."""

import asyncio
from itertools import pairwise
from random import Random

import msgspec
import pytest

from ingest.stream.failover import Policy
from media.packet import MediaPacket
from media.run_policy import DEFAULTS
from media.source_comparison import SourceComparison
from media.source_fault import SourceFault
from media.stream_keys import Slot
from media.track import VideoTrack
from tests.ingest.stream.test_live_stream import FakePorts
from tests.support.ingest.simulated_encoders import (
    BACKUP,
    PRIMARY,
    SECOND,
    SimulatedEncoder,
    SimulatedStream,
    simulated_stream,
)
from tests.support.ingest.virtual_clock import virtual_time

FRAME = 0.1


class Programme:
    """One programme that several encoders send, each by its own clock, `behind` seconds late."""

    def __init__(self) -> None:
        self.ports = FakePorts()
        self.ports.apart = lambda one, other: SourceComparison(
            offset=self._offset(Slot(other)) - self._offset(Slot(one)), correlation=0.9, ratio=6.0
        )
        self._behind: dict[Slot, float] = {}
        self._clocks: dict[Slot, float] = {}

    def _offset(self, slot: Slot) -> float:
        return self._behind[slot] + self._clocks[slot]

    async def add(
        self,
        stream: SimulatedStream,
        slot: Slot,
        *,
        behind: float = 0.0,
        clock: float = 0.0,
        phase: float = 0.0,
        b_frames: int = 0,
    ) -> SimulatedEncoder:
        self._behind[slot], self._clocks[slot] = behind, clock
        encoder = await stream.add_encoder(slot, phase=phase)
        encoder.clock, encoder.b_frames = clock, b_frames
        encoder.gop = 1 + 7 * (b_frames + 1) if b_frames else encoder.gop
        return encoder

    @property
    def shown(self) -> list[float]:
        """The moments of the programme that viewers got, one for each picture."""
        (sink,) = self.ports.sinks
        packets, ends = iter(sink.packets), iter(sink.shown)
        sources: list[list[MediaPacket]] = []
        first = 0
        for line in sink.recorded:
            if line.startswith("offer"):
                packet = next(packets)
                if isinstance(packet.track, VideoTrack) and packet.pts >= first:
                    sources[-1].append(packet)
            elif "Track" in line:
                since, until = next(ends)
                first = since or 0
                # A keyframe follows all that was sent: the top rendition consists of it.
                if until is not None and since is not None:
                    sources[-1] = [each for each in sources[-1] if each.pts < until]
                sources.append([])
        newest = sources[-1][-1].dts if sources[-1] else 0  # those before later ones are to come
        sources[-1] = [each for each in sources[-1] if each.pts <= newest]
        in_order = (sorted(source, key=lambda packet: packet.pts) for source in sources)
        shown = (packet for source in in_order for packet in source)
        return [packet.pts / 1000 - self._offset(Slot(packet.data[0])) for packet in shown]

    @property
    def steps(self) -> list[float]:
        """What lies between pictures that do not follow one another, in seconds.

        The encoders take their pictures at other times: by half of a picture at most.
        """
        steps = (later - sooner - FRAME for sooner, later in pairwise(self.shown))
        return [round(step, 3) for step in steps if abs(step) > FRAME / 2 + 0.003]


KNOWN = 12.0  # seconds until two comparisons have found the same
APART = [-3.0, -1.0, -0.3, 0.0, 0.3, 1.0, 3.0]


@pytest.mark.parametrize("phase", [0.2, 1.3])
@pytest.mark.parametrize("behind", APART)
@virtual_time
async def test_a_switch_goes_on_at_the_same_moment(behind: float, phase: float) -> None:
    programme = Programme()
    policy = Policy(align_wait_seconds=3.5)
    async with simulated_stream(programme.ports, policy, compares=True) as stream:
        primary = await programme.add(stream, PRIMARY, behind=max(0.0, -behind))
        await programme.add(stream, BACKUP, behind=max(0.0, behind), clock=500.0, phase=phase)
        await asyncio.sleep(KNOWN)
        primary.leave()
        await asyncio.sleep(5)
        assert stream.on_air == BACKUP
        assert programme.steps == []
        ((kind, facts),) = programme.ports.events
        assert kind == "switched"
        assert facts["gap_ms"] == 0


@pytest.mark.parametrize("behind", APART)
@virtual_time
async def test_a_return_shows_every_moment_once(behind: float) -> None:
    programme = Programme()
    policy = Policy(return_seconds=20, align_wait_seconds=3.5)
    async with simulated_stream(programme.ports, policy, compares=True) as stream:
        primary = await programme.add(stream, PRIMARY, behind=max(0.0, behind))
        await programme.add(stream, BACKUP, behind=max(0.0, -behind), clock=-200.0, phase=0.7)
        await asyncio.sleep(KNOWN)
        primary.leave()
        await asyncio.sleep(5)
        await programme.add(stream, PRIMARY, behind=max(0.0, behind))
        await asyncio.sleep(40)
        assert stream.on_air == PRIMARY
        assert programme.steps == []
        assert programme.ports.events[-1] == (
            "switched",
            {"from": "backup-1", "to": "primary", "reason": "returned", "gap_ms": 0},
        )


@pytest.mark.parametrize("behind", [1.4, 2.5, 3.0])
@pytest.mark.parametrize("gop", [5, 20])
@virtual_time
async def test_a_return_is_at_a_keyframe_after_the_wait_and_not_in_it(
    gop: int, behind: float
) -> None:
    programme = Programme()
    policy = Policy(return_seconds=20, align_wait_seconds=behind + 1.5 * FRAME)
    async with simulated_stream(programme.ports, policy, compares=True) as stream:
        primary = await programme.add(stream, PRIMARY, behind=behind)
        await programme.add(stream, BACKUP, phase=0.7)
        await asyncio.sleep(KNOWN)
        primary.leave()
        await asyncio.sleep(5)
        (await programme.add(stream, PRIMARY, behind=behind, phase=0.5)).gop = gop
        await asyncio.sleep(40)
        assert stream.on_air == PRIMARY
        assert programme.steps == []
        late = asyncio.get_running_loop().time() - programme.shown[-1]
        assert late == pytest.approx(behind, abs=0.3)


@pytest.mark.parametrize("behind", [-0.3, 0.3])
@pytest.mark.parametrize("b_frames", [(2, 0), (0, 2), (2, 3)])
@pytest.mark.parametrize("phase", [0.7, 0.8, 0.9, 1.0])
@virtual_time
async def test_reordered_pictures_are_shown_once(
    phase: float, b_frames: tuple[int, int], behind: float
) -> None:
    programme = Programme()
    policy = Policy(return_seconds=20)
    first, second = ({"b_frames": count} for count in b_frames)
    async with simulated_stream(programme.ports, policy, compares=True) as stream:
        late = max(0.0, behind)
        primary = await programme.add(stream, PRIMARY, behind=late, **first)
        await programme.add(stream, BACKUP, behind=late - behind, phase=phase, clock=9.0, **second)
        await asyncio.sleep(KNOWN + phase)
        primary.leave()
        await asyncio.sleep(5)
        assert programme.steps == []
        await programme.add(stream, PRIMARY, behind=late, **first)
        await asyncio.sleep(30)
        assert stream.on_air == PRIMARY
        assert programme.steps == []
        assert [facts["gap_ms"] for _, facts in programme.ports.events] == [0, 0]
        (sink,) = programme.ports.sinks
        assert sink.shown[-1][1] is None, "no picture of the backup was passed on in vain"


@virtual_time
async def test_an_encoder_that_comes_back_ahead_is_compared_for_as_long_as_that_takes() -> None:
    """Where the backup is in the programme, it was before its first sound."""
    programme = Programme()
    async with simulated_stream(programme.ports, Policy(return_seconds=2), compares=True) as stream:
        primary = await programme.add(stream, PRIMARY)
        await programme.add(stream, BACKUP, behind=1.0, phase=0.7)
        await asyncio.sleep(KNOWN)
        primary.leave()
        await asyncio.sleep(5)
        apart, began = programme.ports.apart, asyncio.get_running_loop().time()

        def found(one: int, other: int) -> SourceComparison | None:
            if asyncio.get_running_loop().time() - began < 6:
                return SourceComparison(offset=None, reason="different")
            return apart(one, other)

        programme.ports.apart = found
        await programme.add(stream, PRIMARY)
        await asyncio.sleep(25)
        assert stream.on_air == PRIMARY
        assert programme.steps == []


@virtual_time
async def test_an_encoder_that_is_ahead_is_held_back_from_the_first_switch_on() -> None:
    programme = Programme()
    async with simulated_stream(
        programme.ports, Policy(return_seconds=15), compares=True
    ) as stream:
        primary = await programme.add(stream, PRIMARY)
        await programme.add(stream, BACKUP, behind=1.0, phase=0.7)
        await asyncio.sleep(KNOWN)
        clock = asyncio.get_running_loop().time
        assert clock() - programme.shown[-1] < 0.2
        primary.leave()
        await asyncio.sleep(5)
        await programme.add(stream, PRIMARY)
        await asyncio.sleep(25)
        assert stream.on_air == PRIMARY
        assert 1.0 <= clock() - programme.shown[-1] < 1.3


@virtual_time
async def test_what_the_wait_does_not_cover_is_shown_twice_and_reported() -> None:
    programme = Programme()
    policy = Policy(align_wait_seconds=1.0, detect_seconds=0.7, hold_seconds=2.0)
    async with simulated_stream(programme.ports, policy, compares=True) as stream:
        primary = await programme.add(stream, PRIMARY)
        await programme.add(stream, BACKUP, behind=3.0)
        await asyncio.sleep(KNOWN)
        primary.leave()
        await asyncio.sleep(0.9)
        assert stream.on_air == PRIMARY
        await asyncio.sleep(0.4)
        assert stream.on_air == BACKUP
        (step,) = programme.steps
        assert step == pytest.approx(-2.0, abs=0.15)
        assert programme.ports.events[-1][1]["gap_ms"] == pytest.approx(1000 * step, abs=2)


@virtual_time
async def test_held_back_media_are_shown_while_a_stall_is_detected() -> None:
    programme = Programme()
    policy = Policy(return_seconds=15, detect_seconds=0.7, hold_seconds=2.0, align_wait_seconds=1.2)
    async with simulated_stream(programme.ports, policy, compares=True) as stream:
        primary = await programme.add(stream, PRIMARY)
        await programme.add(stream, BACKUP, behind=1.0)
        await asyncio.sleep(KNOWN)
        primary.leave()
        await asyncio.sleep(5)
        primary = await programme.add(stream, PRIMARY)
        await asyncio.sleep(25)
        assert stream.on_air == PRIMARY
        primary.stalled = True
        shown = programme.shown[-1]
        await asyncio.sleep(0.6)
        assert programme.shown[-1] == pytest.approx(shown + 0.6, abs=0.11)
        await asyncio.sleep(2.4)
        assert stream.on_air == BACKUP
        assert programme.steps == []


@virtual_time
async def test_a_pause_loses_nothing_that_came_before_it() -> None:
    programme = Programme()
    async with simulated_stream(
        programme.ports, Policy(return_seconds=15), compares=True
    ) as stream:
        primary = await programme.add(stream, PRIMARY)
        await programme.add(stream, BACKUP, behind=1.0)
        await asyncio.sleep(KNOWN)
        primary.leave()
        await asyncio.sleep(5)
        await programme.add(stream, PRIMARY)
        await asyncio.sleep(25)
        assert stream.on_air == PRIMARY
        await stream.live.pause(1)
        assert asyncio.get_running_loop().time() - programme.shown[-1] <= FRAME + 0.01


@pytest.mark.parametrize("seed", range(8))
@virtual_time
async def test_whatever_fails_every_moment_is_shown_once(seed: int) -> None:
    dice = Random(seed)
    programme = Programme()
    behind = {PRIMARY: dice.choice([0.0, 0.3, 1.0]), BACKUP: dice.choice([0.0, 0.3, 1.0])}
    policy = Policy(return_seconds=dice.choice([2.0, 12.0]), detect_seconds=dice.choice([0.7, 2.0]))
    async with simulated_stream(programme.ports, policy, compares=True) as stream:
        encoders = {slot: await programme.add(stream, slot, behind=behind[slot]) for slot in behind}
        for _ in range(20):
            await asyncio.sleep(KNOWN + 3 * dice.random())
            slot = dice.choice([PRIMARY, BACKUP])
            match dice.randrange(3):
                case 0:
                    encoders[slot].leave()
                    await asyncio.sleep(4 + 3 * dice.random())
                    encoders[slot] = await programme.add(stream, slot, behind=behind[slot])
                case 1:
                    now = asyncio.get_running_loop().time()
                    encoders[slot].held_until = now + 0.2 + 3 * dice.random()
                case _:
                    await stream.live.drill(1)
        assert programme.steps == []
        assert "slate" not in stream.recorded


@pytest.mark.parametrize("behind", [-1.0, 0.0, 1.0])
@virtual_time
async def test_an_encoder_that_alone_shows_black_is_replaced_at_the_same_moment(
    behind: float,
) -> None:
    programme = Programme()
    failover = msgspec.structs.replace(DEFAULTS.failover, quality="switch")
    run = msgspec.structs.replace(DEFAULTS, failover=failover)
    policy = Policy(quality_seconds=3.0, return_seconds=10.0)
    async with simulated_stream(programme.ports, policy, compares=True, run=run) as stream:
        await programme.add(stream, PRIMARY, behind=max(0.0, -behind))
        await programme.add(stream, BACKUP, behind=max(0.0, behind), phase=0.7)
        await asyncio.sleep(KNOWN)
        black = SourceFault(kind="black", verdict="fault", seconds=3.0, confidence=0.9)
        programme.ports.faults = {PRIMARY.number: [black]}
        await asyncio.sleep(1.5)
        assert stream.on_air == (PRIMARY if behind > 0 else BACKUP)
        await asyncio.sleep(1.0)
        assert stream.on_air == BACKUP
        assert programme.steps == []
        kinds = [(kind, facts.get("reason")) for kind, facts in programme.ports.events]
        assert kinds == [("switched", "black")]
        told = [each.facts for each in programme.ports.recorded if each.kind == "encoder fault"]
        assert told == [{"slot": "primary", "fault": "black", "everywhere": False}]
        programme.ports.faults = {}
        await asyncio.sleep(9.0)
        assert stream.on_air == BACKUP
        await asyncio.sleep(8.0)
        assert stream.on_air == PRIMARY
        assert programme.steps == []


@virtual_time
async def test_an_encoder_that_is_awaited_goes_on_although_the_lost_one_comes_back() -> None:
    """At a moment that is known: that of the one that came back is not."""
    programme = Programme()
    policy = Policy(return_seconds=30)
    async with simulated_stream(programme.ports, policy, compares=True) as stream:
        primary = await programme.add(stream, PRIMARY)
        await programme.add(stream, BACKUP, behind=1.0, phase=0.7)
        await asyncio.sleep(KNOWN)
        primary.leave()
        await asyncio.sleep(0.2)
        await programme.add(stream, PRIMARY)
        await asyncio.sleep(0.4)
        assert stream.on_air == PRIMARY
        await asyncio.sleep(1.0)
        assert stream.on_air == BACKUP
        assert programme.steps == []


@pytest.mark.parametrize("returns", [False, True])
@virtual_time
async def test_two_backups_stay_known_to_each_other_whatever_the_primary_does(
    returns: bool,
) -> None:
    programme = Programme()
    async with simulated_stream(programme.ports, Policy(), compares=True) as stream:
        primary = await programme.add(stream, PRIMARY)
        backup = await programme.add(stream, BACKUP, behind=0.7, phase=0.3)
        await programme.add(stream, SECOND, behind=0.2, clock=70.0, phase=1.4)
        await asyncio.sleep(KNOWN)
        primary.leave()
        await asyncio.sleep(4)
        assert stream.on_air == BACKUP
        if returns:
            primary = await programme.add(stream, PRIMARY)
            await asyncio.sleep(1)
            primary.leave()
            await asyncio.sleep(0.5)
        backup.leave()
        await asyncio.sleep(3)
        assert stream.on_air == SECOND
        assert programme.steps == []
        assert programme.ports.events[-1][1]["gap_ms"] == 0


@virtual_time
async def test_a_return_is_exact_however_far_apart_the_keyframes_of_the_backup_are() -> None:
    """It is compared by its sound, which needs no keyframe."""
    programme = Programme()
    policy = Policy(return_seconds=2)
    async with simulated_stream(programme.ports, policy, compares=True) as stream:
        primary = await programme.add(stream, PRIMARY)
        backup = await programme.add(stream, BACKUP, behind=-0.8)
        backup.gop = 200
        await asyncio.sleep(KNOWN + 6)
        primary.leave()
        await asyncio.sleep(2.3)
        await programme.add(stream, PRIMARY)
        await asyncio.sleep(25)
        assert stream.on_air == PRIMARY
        assert programme.steps == []
