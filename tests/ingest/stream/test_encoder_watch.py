"""When the encoders of a stream are compared, and what is known of them then."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import msgspec
import pytest

from ingest.stream.encoder_watch import EncoderWatch
from media.encoder_report import StreamReport
from media.packet import MediaPacket
from media.source_comparison import SourceComparison
from media.source_fault import SourceFault
from media.stream_keys import Slot
from tests.ingest.stream.test_live_stream import (
    AUDIO,
    GRANT,
    VIDEO,
    FakeComparer,
    FakePorts,
    FakePublisher,
    join,
    streams,
)
from tests.support.ingest.virtual_clock import virtual_time

PRIMARY, BACKUP, THIRD = Slot(0), Slot(1), Slot(2)


@asynccontextmanager
async def watching(ports: FakePorts, *, judges: bool = False) -> AsyncGenerator[EncoderWatch]:
    watch = EncoderWatch("Ab3", ports.comparer, judges=judges)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(watch.run())
        yield watch
        running.cancel()


def apart(offset: float) -> SourceComparison:
    return SourceComparison(offset=offset, correlation=0.9, ratio=6)


def offset(watch: EncoderWatch, slot: Slot) -> float | None:
    alignment = watch.alignment(slot)
    return None if alignment is None else alignment.offset


@virtual_time
async def test_one_encoder_is_compared_with_nothing() -> None:
    ports = FakePorts()
    async with watching(ports) as watch:
        watch.begin(PRIMARY, AUDIO)
        watch.begin(BACKUP, None)
        await asyncio.sleep(100)
        assert ports.comparers == []
        assert watch.reference == PRIMARY
        assert watch.alignment(PRIMARY) is None
        assert offset(watch, BACKUP) is None


@virtual_time
async def test_two_are_known_after_two_comparisons_and_followed_more_slowly_then() -> None:
    ports = FakePorts()
    ports.apart = lambda _, __: apart(1.371)
    async with watching(ports) as watch:
        watch.begin(PRIMARY, AUDIO)
        watch.begin(BACKUP, AUDIO)
        await asyncio.sleep(3.4)
        assert offset(watch, BACKUP) is None
        await asyncio.sleep(0.2)
        assert offset(watch, BACKUP) == 1.371
        await asyncio.sleep(60)
        (comparer,) = ports.comparers
        assert [near for *_, near in comparer.asked[:9]] == [None] * 8 + [1.371]
        assert len(comparer.asked) == 8 + 4


@virtual_time
async def test_what_has_sent_too_little_is_asked_for_every_second() -> None:
    ports = FakePorts()
    ports.apart = lambda _, __: SourceComparison(offset=None, reason="too short")
    async with watching(ports) as watch:
        watch.begin(PRIMARY, AUDIO)
        watch.begin(BACKUP, AUDIO)
        await asyncio.sleep(5.5)
        assert len(ports.comparers[0].asked) == 5
        ports.apart = lambda _, __: SourceComparison(offset=None, reason="silent")
        await asyncio.sleep(10)
        assert len(ports.comparers[0].asked) == 9


@virtual_time
async def test_an_encoder_that_was_not_observed_yet_is_awaited() -> None:
    ports = FakePorts()
    ports.apart = lambda _, __: apart(1.371)
    async with watching(ports) as watch:
        assert watch.is_awaited(BACKUP, PRIMARY)
        watch.begin(BACKUP, AUDIO)
        assert watch.is_awaited(BACKUP, PRIMARY)
        watch.begin(PRIMARY, AUDIO)
        assert watch.is_awaited(BACKUP, PRIMARY)
        await asyncio.sleep(6)
        assert not watch.is_awaited(BACKUP, PRIMARY)


@virtual_time
async def test_the_comparer_ends_with_the_second_encoder() -> None:
    ports = FakePorts()
    ports.apart = lambda _, __: apart(-1)
    async with watching(ports) as watch:
        watch.begin(PRIMARY, AUDIO)
        watch.begin(BACKUP, AUDIO)
        await asyncio.sleep(10)
        watch.end(BACKUP)
        assert watch.alignment(BACKUP) is None
        await asyncio.sleep(20)
        asked = len(ports.comparers[0].asked)
        watch.begin(BACKUP, AUDIO)
        assert offset(watch, BACKUP) is None
        await asyncio.sleep(10)
        assert [len(each.asked) for each in ports.comparers] == [asked, 4]
        assert ports.comparers[0].told == ["begin 0", "begin 1", "remove 1"]


@virtual_time
async def test_what_begins_anew_is_unknown_again_and_the_others_are_not() -> None:
    ports = FakePorts()
    ports.apart = lambda _, other: apart(other)
    async with watching(ports) as watch:
        for slot in (PRIMARY, BACKUP, THIRD):
            watch.begin(slot, AUDIO)
        await asyncio.sleep(6)
        assert (offset(watch, BACKUP), offset(watch, THIRD)) == (1, 2)
        watch.begin(BACKUP, AUDIO)
        assert (offset(watch, BACKUP), offset(watch, THIRD)) == (None, 2)
        await asyncio.sleep(6)
        watch.begin(PRIMARY, AUDIO)
        assert (offset(watch, BACKUP), offset(watch, THIRD)) == (None, None)
        assert (watch.offset(BACKUP, THIRD), watch.offset(PRIMARY, THIRD)) == (1, None)
        await asyncio.sleep(6)
        assert (offset(watch, BACKUP), offset(watch, THIRD)) == (1, 2)
        watch.end(PRIMARY)
        assert watch.reference == BACKUP
        assert (watch.alignment(BACKUP), offset(watch, THIRD)) == (None, None)
        assert watch.offset(BACKUP, THIRD) == 1  # their clocks go on
        ports.apart = lambda _, __: apart(5)
        await asyncio.sleep(3)
        assert watch.offset(BACKUP, THIRD) is None  # once another one is found
        ports.apart = lambda _, other: apart(other)
        await asyncio.sleep(6)
        assert offset(watch, THIRD) == 2
        assert ports.comparers[0].asked[-1][:2] == (1, 2)


@virtual_time
async def test_a_comparer_that_does_not_answer_is_replaced_at_once_and_then_after_a_while() -> None:
    ports = FakePorts()
    ports.apart = lambda _, __: None
    async with watching(ports) as watch:
        watch.begin(PRIMARY, AUDIO)
        watch.begin(BACKUP, AUDIO)
        await asyncio.sleep(29)
        assert len(ports.comparers) == 2
        ports.apart = lambda _, __: apart(0.5)
        await asyncio.sleep(10)
        assert len(ports.comparers) == 3
        assert offset(watch, BACKUP) == 0.5
        # What is known holds, and the next one follows it.
        ports.apart = lambda _, __: None
        await asyncio.sleep(23)
        assert len(ports.comparers) == 4
        assert offset(watch, BACKUP) == 0.5
        watch.begin(BACKUP, AUDIO)
        ports.apart = lambda _, __: apart(0.7)
        await asyncio.sleep(6)
        assert offset(watch, BACKUP) == 0.7


@virtual_time
async def test_an_answer_about_an_encoder_that_has_begun_anew_is_not_used() -> None:
    ports = FakePorts()
    async with watching(ports) as watch:

        def answer(_: int, __: int) -> SourceComparison:
            watch.begin(BACKUP, AUDIO)  # while it was compared
            return apart(3)

        ports.apart = answer
        watch.begin(PRIMARY, AUDIO)
        watch.begin(BACKUP, AUDIO)
        await asyncio.sleep(20)
        assert offset(watch, BACKUP) is None


BLACK = SourceFault(kind="black", verdict="fault", seconds=3.2, confidence=0.9)


def now() -> float:
    return asyncio.get_running_loop().time()


@virtual_time
async def test_what_is_judged_every_second_holds_for_less_than_two() -> None:
    ports = FakePorts()
    ports.apart = lambda _, __: apart(1.371)
    async with watching(ports, judges=True) as watch:
        watch.begin(PRIMARY, AUDIO, VIDEO)
        watch.begin(BACKUP, AUDIO)
        await asyncio.sleep(6.5)
        (comparer,) = ports.comparers
        assert comparer.told == [
            "begin 0 judged with a picture",
            "begin 1 judged without a picture",
        ]
        assert comparer.judged[0] == {0: 0.0, 1: None}
        assert comparer.judged[-1] == {0: 0.0, 1: 1.371}
        assert list(watch.faults(PRIMARY, now())) == []
        comparer.found = lambda: {0: (BLACK,), 7: (BLACK,)}
        await asyncio.sleep(1.5)
        assert list(watch.faults(PRIMARY, now())) == [BLACK]
        assert list(watch.faults(BACKUP, now())) == []
        assert list(watch.faults(PRIMARY, now() + 2)) == []
        judged = len(comparer.judged)
        await asyncio.sleep(100)
        assert 80 <= len(comparer.judged) - judged <= 100
        assert 10 <= len(comparer.asked) <= 18
        watch.begin(PRIMARY, AUDIO, VIDEO)
        assert list(watch.faults(PRIMARY, now())) == []


@virtual_time
async def test_encoders_without_sound_are_compared_by_their_pictures() -> None:
    ports = FakePorts()
    ports.apart = lambda _, __: msgspec.structs.replace(apart(0.4), method="picture")
    async with watching(ports, judges=True) as watch:
        watch.begin(PRIMARY, None, VIDEO)
        watch.begin(BACKUP, None, VIDEO)
        watch.begin(THIRD, None)
        await asyncio.sleep(6)
        assert watch.reference == PRIMARY
        assert (offset(watch, BACKUP), offset(watch, THIRD)) == (0.4, None)
        alignment = watch.alignment(BACKUP)
        assert alignment is not None
        assert alignment.method == "picture"


@virtual_time
async def test_a_judgement_of_an_encoder_that_has_begun_anew_is_not_used() -> None:
    ports = FakePorts()
    async with watching(ports, judges=True) as watch:

        def begun() -> dict[int, tuple[SourceFault, ...]]:
            watch.begin(BACKUP, AUDIO)
            return {1: (BLACK,)}

        watch.begin(PRIMARY, AUDIO)
        watch.begin(BACKUP, AUDIO)
        await asyncio.sleep(0.1)
        ports.comparers[0].found = begun
        await asyncio.sleep(10)
        assert list(watch.faults(BACKUP, now())) == []


@virtual_time
async def test_a_comparer_that_judges_nothing_more_is_replaced() -> None:
    ports = FakePorts()
    async with watching(ports, judges=True) as watch:
        watch.begin(PRIMARY, AUDIO)
        watch.begin(BACKUP, AUDIO)
        await asyncio.sleep(0.1)
        ports.comparers[0].found = lambda: None
        await asyncio.sleep(35)
        assert len(ports.comparers) == 2


class NoProcesses(FakePorts):
    """The machine starts no process."""

    @asynccontextmanager
    async def comparer(self, hash_: str) -> AsyncGenerator[None]:  # type: ignore[override]
        self.expected.append(hash_)
        raise OSError("no processes")
        yield


@virtual_time
async def test_a_machine_without_processes_is_logged_and_tried_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ports = NoProcesses()
    async with watching(ports) as watch:
        watch.begin(PRIMARY, AUDIO)
        watch.begin(BACKUP, AUDIO)
        await asyncio.sleep(65)
        assert ports.expected == ["Ab3"] * 4
    assert [each.message for each in caplog.records] == ["encoders not compared"] * 4


@virtual_time
async def test_a_fault_of_a_comparer_that_is_to_end_does_not_keep_the_watch_from_ending() -> None:
    """It would never observe the encoders that come afterwards."""
    ports = FakePorts()

    @asynccontextmanager
    async def comparer(stream: str) -> AsyncGenerator[FakeComparer]:
        async with ports.comparer(stream) as opened:
            try:
                yield opened
            except asyncio.CancelledError:
                raise ValueError("an answer to nobody") from None

    watch = EncoderWatch("Ab3", comparer)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(watch.run())
        watch.begin(PRIMARY, AUDIO)
        watch.begin(BACKUP, AUDIO)
        await asyncio.sleep(1)
        running.cancel()
        await asyncio.wait({running}, timeout=1)
        assert running.cancelled()


@virtual_time
async def test_a_stream_compares_its_encoders_while_there_are_several() -> None:
    ports = FakePorts()
    ports.apart = lambda _, __: apart(7_000.7)
    async with streams(ports) as live:
        primary = await join(live, FakePublisher())
        primary.send(packets=3)
        await asyncio.sleep(30)
        assert ports.comparers == []
        backup = FakePublisher()
        backup.session = await live.attach(msgspec.structs.replace(GRANT, slot=BACKUP), backup)
        for encoder in (primary, backup):
            encoder.send(packets=3)
        for second in range(20):
            for encoder, clock in ((primary, 0), (backup, 7_000_500)):
                at = clock + 1000 * second
                packets = [
                    MediaPacket(track=track, dts=at, pts=at, key=True, data=b"x")
                    for track in (VIDEO, AUDIO)
                ]
                assert encoder.session is not None
                encoder.session.receive_packets(packets, asyncio.get_running_loop().time())
            await asyncio.sleep(1)
        (comparer,) = ports.comparers
        assert comparer.packets > 20
        slots = msgspec.convert(live.report(1), StreamReport).slots
        assert slots[0].alignment is None
        assert slots[1].alignment is not None
        assert slots[1].alignment.reference == "primary"
        # Its clock began 7,000.5 s earlier, and shows the same moment 0.7 s later than that.
        assert slots[1].alignment.behind_ms == 200
        assert live.behind_ms() == {(GRANT.hash, BACKUP): 200}
        backup.session.close(goodbye=True)
        await asyncio.sleep(1)
        told = comparer.packets
        primary.send(packets=3)
        await asyncio.sleep(30)
        assert comparer.packets == told, "nothing observes one encoder"


@virtual_time
async def test_a_stream_that_is_not_to_compare_does_not() -> None:
    ports = FakePorts()
    failover = msgspec.structs.replace(GRANT.run.failover, align="off")
    grant = msgspec.structs.replace(
        GRANT, run=msgspec.structs.replace(GRANT.run, failover=failover)
    )
    async with streams(ports) as live:
        for slot in (PRIMARY, BACKUP):
            encoder = FakePublisher()
            encoder.session = await live.attach(msgspec.structs.replace(grant, slot=slot), encoder)
            encoder.send(packets=3)
        await asyncio.sleep(30)
        assert ports.comparers == []


@virtual_time
async def test_a_setting_that_changed_counts_from_the_next_encoder_on() -> None:
    ports = FakePorts()
    ports.apart = lambda _, __: apart(0.5)
    async with streams(ports) as live:
        encoders: dict[Slot, FakePublisher] = {}

        async def attach(slot: Slot, **failover: str) -> None:
            changed = msgspec.structs.replace(GRANT.run.failover, **failover)
            run = msgspec.structs.replace(GRANT.run, failover=changed)
            if slot in encoders:
                session = encoders[slot].session
                assert session is not None
                session.close(goodbye=False)
            grant = msgspec.structs.replace(GRANT, slot=slot, run=run)
            encoders[slot] = encoder = FakePublisher()
            encoder.session = await live.attach(grant, encoder)
            for _ in range(12):
                for each in encoders.values():
                    each.send(packets=3)
                await asyncio.sleep(1)

        def known() -> list[bool]:
            slots = msgspec.convert(live.report(1), StreamReport).slots
            return [each.alignment is not None for each in slots]

        await attach(PRIMARY, align="off")
        await attach(BACKUP, align="off")
        assert ports.comparers == []
        await attach(BACKUP, align="on", quality="off")
        assert known() == [False, True]
        (comparer,) = ports.comparers
        assert comparer.judged == []
        await attach(BACKUP, quality="report")
        comparer = ports.comparers[-1]
        assert comparer.judged != []
        assert comparer.asked[-1][:2] == (0, 1)
        await attach(PRIMARY, align="off")
        assert known() == [False, False]
        made, asked = len(ports.comparers), len(comparer.asked)
        await attach(BACKUP, align="off")
        assert (len(ports.comparers), len(comparer.asked)) == (made, asked)
        assert live.behind_ms() == {}


class EndingSlowly(FakePorts):
    """Its comparers take a second to end, as an engine does."""

    @asynccontextmanager
    async def comparer(self, hash_: str) -> AsyncGenerator[FakeComparer]:
        async with super().comparer(hash_) as comparer:
            yield comparer
        await asyncio.sleep(1)


@virtual_time
async def test_an_encoder_that_comes_back_while_its_comparer_ends_does_not_wait_for_another() -> (
    None
):
    ports = EndingSlowly()
    ports.apart = lambda _, __: apart(1)
    async with watching(ports) as watch:
        watch.begin(PRIMARY, AUDIO)
        watch.begin(BACKUP, AUDIO)
        await asyncio.sleep(4)
        watch.end(BACKUP)
        await asyncio.sleep(1.5)
        watch.begin(BACKUP, AUDIO)
        await asyncio.sleep(10)
        assert offset(watch, BACKUP) == 1
