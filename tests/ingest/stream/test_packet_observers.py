"""Observers of packets: what each gets, late, slow and failing ones."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence

import msgspec
import pytest

from ingest.stream.live_stream import LiveStream
from ingest.stream.packet_observers import PacketObservers, PacketQueue
from ingest.stream.ports import ObservedItem, SourceEnded, SourceObserved
from media.packet import MediaPacket
from media.stream_keys import Slot
from tests.ingest.stream.test_live_stream import AUDIO, GRANT, VIDEO, FakePorts, FakePublisher
from tests.support.ingest.virtual_clock import run

TRACKS = (VIDEO, AUDIO)


def picture(at: int, *, key: bool = False, size: int = 1) -> MediaPacket:
    return MediaPacket(track=VIDEO, dts=at, pts=at, key=key, data=bytes(size))


class Recording:
    """An observer that records what it gets, while it is `free`."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.free = asyncio.Event()
        self.free.set()

    async def observe(self, items: AsyncIterator[ObservedItem]) -> None:
        async for item in items:
            match item:
                case SourceObserved(tracks=tracks):
                    self.seen.append(f"begin {len(tracks)}")
                case SourceEnded():
                    self.seen.append("end")
                case packets:
                    self.seen += [str(packet.dts) for packet in packets]
            await self.free.wait()


class Failing:
    async def observe(self, items: AsyncIterator[ObservedItem]) -> None:
        async for _ in items:
            raise RuntimeError("broken")


def test_each_observer_gets_all_from_the_beginning_of_a_source_on() -> None:
    async def scenario() -> None:
        observers, recordings = PacketObservers(), [Recording(), Recording()]
        async with asyncio.TaskGroup() as tasks:
            for recording in recordings:
                tasks.create_task(observers.run(recording))
            await asyncio.sleep(0)
            observers.begin(TRACKS)
            observers.offer([picture(1, key=True), picture(2)])
            observers.finish()
            observers.finish()  # once
            observers.close()
        assert [each.seen for each in recordings] == [["begin 2", "1", "2", "end"]] * 2

    run(scenario())


def test_a_late_observer_gets_the_tracks_and_the_packets_from_the_next_keyframe_on() -> None:
    async def scenario() -> None:
        observers, late = PacketObservers(), Recording()
        observers.begin(TRACKS)
        observers.offer([picture(1, key=True)])
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(observers.run(late))
            await asyncio.sleep(0)
            observers.offer([picture(2)])
            sound = MediaPacket(track=AUDIO, dts=3, pts=3, key=True, data=b"x")
            observers.offer([sound, picture(4, key=True), picture(5)])
            observers.close()
        assert late.seen == ["begin 2", "4", "5"]

    run(scenario())


def test_a_late_observer_that_wants_it_gets_the_sound_at_once() -> None:
    async def scenario() -> None:
        observers, late = PacketObservers(), Recording()
        observers.begin(TRACKS)
        observers.offer([picture(1, key=True)])
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(observers.run(late, sound_at_once=True))
            await asyncio.sleep(0)
            sound = [MediaPacket(track=AUDIO, dts=n, pts=n, key=True, data=b"x") for n in (2, 4)]
            observers.offer([sound[0], picture(3)])
            observers.offer([picture(3), sound[1], picture(5, key=True), picture(6)])
            observers.offer([picture(7)])
            observers.close()
        assert late.seen == ["begin 2", "2", "4", "5", "6", "7"]

    run(scenario())


def test_a_slow_observer_misses_packets_up_to_a_keyframe_and_the_log_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> list[ObservedItem]:
        queue = PacketQueue({"stream": "s"}, most_bytes=10_000)
        queue.begin(TRACKS)
        queue.offer([picture(1, key=True, size=6_000)])
        queue.offer([picture(2, size=6_000)])
        queue.offer([picture(3, key=True)])  # there is no room yet
        taken = [await anext(queue), await anext(queue)]
        queue.offer([picture(4)])
        queue.offer([picture(5), picture(6, key=True), picture(7)])
        queue.offer([picture(8, size=20_000)])
        queue.close()
        return taken + [item async for item in queue]

    with caplog.at_level(logging.WARNING):
        items = run(scenario())
    stamps = [
        [packet.dts for packet in item] if isinstance(item, Sequence) else "begin" for item in items
    ]
    assert stamps == ["begin", [1], "begin", [6, 7]]
    assert [record.message for record in caplog.records] == ["observer too slow: packets dropped"]


def test_a_failing_observer_is_logged_and_others_go_on(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        observers, recording = PacketObservers(stream="s"), Recording()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(observers.run(Failing()))
            tasks.create_task(observers.run(recording))
            await asyncio.sleep(0)
            for at in range(3):
                observers.begin(TRACKS)
                observers.offer([picture(at, key=True)])
                await asyncio.sleep(0.1)
            observers.close()
        assert recording.seen[-2:] == ["begin 2", "2"]

    run(scenario())
    (record,) = caplog.records
    assert (record.message, vars(record)["observer"]) == ("observer failed", "Failing")


def test_a_backup_is_observed_though_it_is_not_on_air() -> None:
    async def scenario() -> tuple[Recording, Recording, Recording]:
        ports = FakePorts()
        stream = LiveStream(GRANT, ports, ports)
        clock = asyncio.get_running_loop().time
        main, backup, on_air = Recording(), Recording(), Recording()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(stream.observe_slot(Slot(0), main))
            tasks.create_task(stream.observe_slot(Slot(1), backup))
            tasks.create_task(stream.observe_on_air(on_air))
            await asyncio.sleep(0)
            sessions = [
                await stream.attach(
                    msgspec.structs.replace(GRANT, slot=Slot(number)), FakePublisher()
                )
                for number in range(2)
            ]
            tasks.create_task(stream.serve())
            for session in sessions:
                for track in TRACKS:
                    session.receive_track(track, clock())
            for number in range(4):
                for session in sessions:
                    at = 10 * number + session.slot.number
                    session.receive_packets([picture(at, key=not number)], clock())
                await asyncio.sleep(0.1)
            for session in reversed(sessions):
                session.close(goodbye=True)
        return main, backup, on_air

    main, backup, on_air = run(scenario())
    assert main.seen == ["begin 2", "0", "10", "20", "30", "end"]
    assert backup.seen == ["begin 2", "1", "11", "21", "31", "end"]
    assert on_air.seen[:5] == main.seen[:5]
    assert on_air.seen[-1] == "end"


def test_observers_end_with_a_stream_that_fails() -> None:
    async def scenario() -> None:
        ports = FakePorts(broken=True)
        stream = LiveStream(GRANT, ports, ports)
        recording = Recording()
        observing = stream.observe_on_air(recording)
        encoder = FakePublisher()
        encoder.session = await stream.attach(GRANT, encoder)
        encoder.send()
        failed = False
        async with asyncio.timeout(5), asyncio.TaskGroup() as tasks:
            tasks.create_task(observing)
            await asyncio.sleep(0)
            try:
                await stream.serve()
            except* RuntimeError:
                failed = True
        assert failed

    run(scenario())
