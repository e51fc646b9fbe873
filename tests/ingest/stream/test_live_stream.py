import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

import pytest

from ingest.stream.live_stream import ANSWER_SECONDS, SlotOccupied
from ingest.stream.ports import Grant, LiveState, PortError, StreamOwnership
from ingest.stream.registry import LiveStreams
from ingest.stream.slot_session import PublisherSession
from media.packet import MediaPacket
from media.source_comparison import SourceComparison
from media.source_fault import SourceFault
from media.source_mark import FindMarks, no_marks
from media.stream_events import StreamEvent
from media.stream_keys import Slot
from media.track import AudioCodec, AudioTrack, Track, VideoCodec, VideoTrack
from tests.support.ingest.virtual_clock import virtual_time

VIDEO = VideoTrack(codec=VideoCodec.AVC, config=b"a", width=1280, height=720)
SMALL = VideoTrack(codec=VideoCodec.AVC, config=b"c", width=640, height=360)
AUDIO = AudioTrack(codec=AudioCodec.AAC, config=b"d", rate=48_000, channels=2)
GRANT = Grant(
    stream=1,
    hash="Ab3dEf6hIj9l",
    slot=Slot(0),
    active=frozenset(),
    reconnect_seconds=60.0,
    goodbye_seconds=10.0,
)


class Sink:
    """A run that records its calls, and checks that they are allowed in its state."""

    def __init__(self, notify: Callable[[], None]) -> None:
        self.recorded: list[str] = []
        self.packets: list[MediaPacket] = []
        self.late: list[float] = []
        self.shown: list[tuple[int | None, int | None]] = []  # where sources are shown from, and to
        self.playable = False
        self._on = False  # a source
        self._notify = notify

    def begin(
        self,
        tracks: tuple[Track, ...],
        late: float,
        *,
        splice: bool = False,
        continues: bool = False,
        new_clock: bool = False,
        show_from: int | None = None,
        show_until: int | None = None,
        marks: FindMarks = no_marks,
    ) -> None:
        if continues:
            assert self.recorded
            assert not splice
        else:
            assert splice == self._on, "a splice replaces a source, a beginning does not"
        self._on = True
        self.late.append(late)
        self.shown.append((show_from, show_until))
        how = "splice" if splice else "begin"
        how = ("restart the clock of" if new_clock else "go on with") if continues else how
        self.recorded.append(f"{how} " + " ".join(type(track).__name__ for track in tracks))

    def offer(self, packets: Sequence[MediaPacket]) -> None:
        assert self._on
        assert packets
        self.recorded += [f"offer {packet.dts}" for packet in packets]
        self.packets += packets
        self.playable = True
        self._notify()

    def slate(self, late: float) -> None:
        assert self.recorded
        assert self.recorded[-1] != "slate"
        self._on = False
        self.late.append(late)
        self.recorded.append("slate")
        self.playable = True
        self._notify()

    def finish(self) -> None:
        assert self._on
        self._on = False
        self.recorded.append("finish")

    def end(self) -> None:
        self.recorded.append("end")


async def store_at_once(grant: Grant) -> None:
    """Store a closing run without delay."""


class FakeComparer:
    """A comparer that answers what the test says, and records what it was told."""

    def __init__(self, answers: Callable[[int, int], SourceComparison | None]) -> None:
        self.told: list[str] = []
        self.asked: list[tuple[int, int, float | None]] = []
        self.packets = 0
        self.judged: list[Mapping[int, float | None]] = []
        self.found: Callable[[], Mapping[int, Sequence[SourceFault]] | None] = dict
        self._answers = answers

    def begin(
        self,
        source: int,
        audio: AudioTrack | None,
        video: VideoTrack | None = None,
        *,
        judged: bool = False,
    ) -> None:
        self.told.append(f"begin {source}" if audio else f"begin {source} silently")
        if judged:
            self.told[-1] += f" judged {'with' if video else 'without'} a picture"

    def add(self, source: int, packets: Sequence[MediaPacket]) -> None:
        assert f"begin {source}" in " ".join(self.told)
        self.packets += len(packets)

    def remove(self, source: int) -> None:
        self.told.append(f"remove {source}")

    async def compare(
        self, reference: int, other: int, *, seconds: float, near: float | None
    ) -> SourceComparison | None:
        assert seconds == 5
        self.asked.append((reference, other, near))
        return self._answers(reference, other)

    async def judge(
        self, offsets: Mapping[int, float | None]
    ) -> Mapping[int, Sequence[SourceFault]] | None:
        self.judged.append(offsets)
        return self.found()


class FakePorts:
    """A sink factory and a journal in one; `store` is called when a run closes."""

    def __init__(self, *, opening: float = 0.0, broken: bool = False) -> None:
        self.sinks: list[Sink] = []
        self.generations: list[int] = []
        self.closed = 0
        self.store: Callable[[Grant], Awaitable[None]] = store_at_once
        self.states: list[LiveState] = []
        self.recorded: list[StreamEvent] = []
        self.entries: list[tuple[LiveState, tuple[StreamEvent, ...]]] = []
        self.hangs = False
        self.refusals = 0
        self.expected: list[str] = []
        self.comparers: list[FakeComparer] = []
        self.faults: Mapping[int, Sequence[SourceFault]] = {}
        self.apart: Callable[[int, int], SourceComparison | None] = lambda _, __: SourceComparison(
            offset=None, reason="silent"
        )
        self._opening = opening
        self._broken = broken

    @asynccontextmanager
    async def run(
        self, grant: Grant, notify: Callable[[], None], generation: int
    ) -> AsyncGenerator[Sink, None]:
        self.generations.append(generation)
        await asyncio.sleep(self._opening)
        if self._broken:
            raise RuntimeError("no engine")
        sink = self.open_sink(notify)
        self.sinks.append(sink)
        yield sink
        await self.store(grant)
        self.closed += 1

    @asynccontextmanager
    async def comparer(self, hash_: str) -> AsyncGenerator[FakeComparer]:
        comparer = FakeComparer(lambda one, other: self.apart(one, other))
        comparer.found = lambda: self.faults
        self.comparers.append(comparer)
        yield comparer

    def open_sink(self, notify: Callable[[], None]) -> Sink:
        return Sink(notify)

    def expect(self, hash_: str) -> None:
        self.expected.append(hash_)

    @property
    def state(self) -> LiveState:
        """The newest state."""
        return self.states[-1]

    async def write(self, state: LiveState, events: tuple[StreamEvent, ...]) -> None:
        if self.refusals:
            self.refusals -= 1
            raise PortError("busy")
        while self.hangs:  # noqa: ASYNC110 # on a clock that jumps
            await asyncio.sleep(1)
        self.states.append(state)
        self.recorded += events
        self.entries.append((state, events))

    @property
    def events(self) -> list[tuple[str, dict[str, object]]]:
        """The events, except those about encoders that connect, leave or fall silent."""
        return [
            (each.kind, each.facts)
            for each in self.recorded
            if not each.kind.startswith("encoder ")
        ]


class FakePublisher:
    """A publisher whose time of silence the test sets."""

    def __init__(self) -> None:
        self.peer = "192.0.2.1:5"
        self.last: float | None = None
        self.disconnected: str | None = None
        self.moved = False
        self.session: PublisherSession | None = None

    @property
    def last_received(self) -> float:
        return asyncio.get_running_loop().time() if self.last is None else self.last

    def disconnect(self, reason: str, *, moved: bool = False) -> None:
        self.disconnected = reason
        self.moved = moved

    def send(self, video: VideoTrack = VIDEO, packets: int = 2, *, sound: bool = True) -> None:
        assert self.session is not None
        now = asyncio.get_running_loop().time()
        self.session.receive_track(video, now)
        if sound:
            self.session.receive_track(AUDIO, now)
        for at in range(packets):
            packet = MediaPacket(track=video, dts=at, pts=at, key=True, data=b"x")
            self.session.receive_packets([packet], now)


@asynccontextmanager
async def streams(
    ports: FakePorts, ownership: StreamOwnership | None = None
) -> AsyncGenerator[LiveStreams, None]:
    async with asyncio.TaskGroup() as tasks:
        live = LiveStreams(ports, ports, tasks, ownership=ownership, open_comparer=ports.comparer)
        yield live
        live.drain()


async def join(live: LiveStreams, encoder: FakePublisher) -> FakePublisher:
    encoder.session = await live.attach(GRANT, encoder)
    return encoder


@virtual_time
async def test_packets_reach_the_run_in_order_even_while_it_opens() -> None:
    ports = FakePorts(opening=3.0)
    async with streams(ports) as live:
        encoder = await join(live, FakePublisher())
        encoder.send()
        await asyncio.sleep(4)
        encoder.send(packets=1)
    assert ports.sinks[0].recorded == [
        "begin VideoTrack AudioTrack",
        "offer 0",
        "offer 1",
        "slate",  # nothing came for too long
        "begin VideoTrack AudioTrack",
        "offer 0",
        "finish",
    ]


@virtual_time
async def test_a_return_within_the_window_continues_the_same_run() -> None:
    ports = FakePorts()
    async with streams(ports) as live:
        first = await join(live, FakePublisher())
        first.send(packets=1)
        await asyncio.sleep(1)
        assert first.session is not None
        first.session.close(goodbye=False)
        await asyncio.sleep(59)
        (await join(live, FakePublisher())).send(packets=1)
        await asyncio.sleep(1)
        assert len(ports.sinks) == 1
        assert ports.sinks[0].recorded == [
            "begin VideoTrack AudioTrack",
            "offer 0",
            "slate",
            "begin VideoTrack AudioTrack",
            "offer 0",
        ]


@pytest.mark.parametrize(("goodbye", "window"), [(False, 60.0), (True, 10.0)])
@virtual_time
async def test_the_run_ends_when_the_window_is_over(goodbye: bool, window: float) -> None:
    ports = FakePorts()
    async with streams(ports) as live:
        encoder = await join(live, FakePublisher())
        encoder.send(packets=1)
        await asyncio.sleep(1)
        assert encoder.session is not None
        encoder.session.close(goodbye=goodbye)
        await asyncio.sleep(window - 0.5)
        assert "end" not in ports.sinks[0].recorded
        assert ports.states[-1].live
        await asyncio.sleep(1.5)
        assert ports.sinks[0].recorded[-1] == "end"
        assert ports.closed == 1
        assert not ports.states[-1].live
        assert len(live) == 0


@virtual_time
async def test_another_picture_size_continues_the_same_run() -> None:
    ports = FakePorts()
    async with streams(ports) as live:
        encoder = await join(live, FakePublisher())
        encoder.send(packets=1)
        await asyncio.sleep(1)
        encoder.send(SMALL, packets=1)
        await asyncio.sleep(1)
        (sink,) = ports.sinks
        assert sink.recorded[-1] == "offer 0"
        assert (
            sink.recorded.count("finish") == sink.recorded.count("begin VideoTrack AudioTrack") - 1
        )


@virtual_time
async def test_a_picture_that_comes_later_ends_the_run_and_begins_another() -> None:
    ports = FakePorts()
    async with streams(ports) as live:
        encoder = await join(live, FakePublisher())
        assert encoder.session is not None
        now = asyncio.get_running_loop().time()
        encoder.session.receive_track(AUDIO, now)
        encoder.session.receive_packets(
            [MediaPacket(track=AUDIO, dts=0, pts=0, key=True, data=b"x")], now
        )
        await asyncio.sleep(2)
        encoder.send(packets=1, sound=False)
        await asyncio.sleep(1)
        first, second = ports.sinks
        assert first.recorded == ["begin AudioTrack", "offer 0", "finish", "end"]
        assert second.recorded == ["begin VideoTrack AudioTrack", "offer 0"]


@pytest.mark.parametrize("sound", [True, False], ids=["both tracks", "still looking for sound"])
@virtual_time
async def test_media_of_an_encoder_that_left_before_its_run_opened_reach_the_run(
    sound: bool,
) -> None:
    ports = FakePorts(opening=3.0)
    async with streams(ports) as live:
        encoder = await join(live, FakePublisher())
        encoder.send(sound=sound)
        assert encoder.session is not None
        encoder.session.close(goodbye=True)
        await asyncio.sleep(5)
        (sink,) = ports.sinks
        assert sink.recorded[1:] == ["offer 0", "offer 1", "slate"]
        await asyncio.sleep(10)
        assert sink.recorded[-1] == "end"
        assert len(live) == 0


@virtual_time
async def test_an_encoder_that_is_silent_for_two_seconds_is_replaced() -> None:
    ports = FakePorts()
    async with streams(ports) as live:
        dead = await join(live, FakePublisher())
        now = asyncio.get_running_loop().time()
        dead.last = now
        newcomer = await join(live, FakePublisher())
        assert asyncio.get_running_loop().time() - now == pytest.approx(2.0, abs=0.01)
        assert dead.disconnected is not None
        newcomer.send(packets=1)
        dead.send(packets=5)  # what a dead connection still had buffered counts no more
        await asyncio.sleep(1)
        assert ports.sinks[0].recorded == ["begin VideoTrack AudioTrack", "offer 0"]


@virtual_time
async def test_an_encoder_that_sends_keeps_its_slot() -> None:
    ports = FakePorts()
    async with streams(ports) as live:
        holder = await join(live, FakePublisher())
        now = asyncio.get_running_loop().time()
        with pytest.raises(SlotOccupied):
            await live.attach(GRANT, FakePublisher())
        waited = asyncio.get_running_loop().time() - now
        assert waited == pytest.approx(ANSWER_SECONDS, abs=0.01)
        assert holder.disconnected is None


@virtual_time
async def test_an_encoder_that_leaves_frees_its_slot_at_once() -> None:
    ports = FakePorts()
    async with streams(ports) as live, asyncio.TaskGroup() as tasks:
        holder = await join(live, FakePublisher())
        waiting = tasks.create_task(join(live, FakePublisher()))
        await asyncio.sleep(1)
        assert not waiting.done()
        assert holder.session is not None
        holder.session.close(goodbye=False)
        await asyncio.sleep(0.01)
        assert waiting.done()


@virtual_time
async def test_a_drain_keeps_the_run_and_disconnects_the_encoders() -> None:
    ports = FakePorts()
    async with streams(ports) as live:
        encoder = await join(live, FakePublisher())
        encoder.send(packets=1)
        await asyncio.sleep(1)
    assert ports.sinks[0].recorded[-1] == "finish"
    assert ports.closed == 1
    assert encoder.disconnected is not None
    with pytest.raises(SlotOccupied):
        await live.attach(GRANT, FakePublisher())


@virtual_time
async def test_a_state_that_was_not_written_is_written_later() -> None:
    ports = FakePorts()
    ports.refusals = 3
    async with streams(ports) as live:
        (await join(live, FakePublisher())).send()
        await asyncio.sleep(1.5)
        state = ports.states[-1]
        assert (state.live, state.on_air, state.sending) == (True, Slot(0), {Slot(0)})


@virtual_time
async def test_a_fault_of_a_stream_disconnects_its_encoder_which_may_return() -> None:
    ports = FakePorts(broken=True)
    async with streams(ports) as live:
        encoder = await join(live, FakePublisher())
        encoder.send()
        await asyncio.sleep(1)
        assert encoder.disconnected is not None
        assert len(live) == 0
        await join(live, FakePublisher())
        assert len(live) == 1


@virtual_time
async def test_sound_alone_is_on_air_after_the_patience() -> None:
    ports = FakePorts()
    async with streams(ports) as live:
        encoder = await join(live, FakePublisher())
        assert encoder.session is not None
        now = asyncio.get_running_loop().time()
        encoder.session.receive_track(AUDIO, now)
        encoder.session.receive_packets(
            [MediaPacket(track=AUDIO, dts=0, pts=0, key=True, data=b"x")], now
        )
        await asyncio.sleep(2)
        assert ports.sinks[0].recorded == ["begin AudioTrack", "offer 0"]
        assert not ports.states[-1].no_audio


@virtual_time
async def test_until_its_run_is_open_a_stream_keeps_the_state_of_its_last_owner() -> None:
    ports = FakePorts()
    async with streams(ports) as live:
        encoder = await join(live, FakePublisher())
        await asyncio.sleep(1)
        assert (ports.state.live, ports.state.opening) == (False, True)
        encoder.send()
        await asyncio.sleep(1)
        assert (ports.state.live, ports.state.opening) == (True, False)
        await live.end(GRANT.stream, "ended")
        await asyncio.sleep(1)
        assert (ports.state.live, ports.state.opening) == (False, False)


@virtual_time
async def test_a_stream_without_media_does_not_keep_its_previous_state_for_ever() -> None:
    ports = FakePorts()
    async with streams(ports) as live:
        await join(live, FakePublisher())
        await asyncio.sleep(9)
        assert ports.state.opening
        await asyncio.sleep(2)
        assert not ports.state.opening


@virtual_time
async def test_a_stream_whose_encoder_leaves_before_its_run_is_open_is_off_the_air() -> None:
    ports = FakePorts()
    async with streams(ports) as live:
        encoder = await join(live, FakePublisher())
        await asyncio.sleep(1)
        assert encoder.session is not None
        encoder.session.close(goodbye=False)
        await asyncio.sleep(1)
        assert (ports.state.live, ports.state.opening) == (False, False)
