"""A stream with several simulated encoders, which send on a virtual clock.

Each sends ten pictures a second, with an audio packet each. A packet's timestamp is its time of
arrival on the test's clock in milliseconds, unless the encoder's clock is another one, so the run's
packets show what was lost.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import pairwise

import msgspec

from ingest.stream.failover import Policy
from ingest.stream.ports import Grant
from ingest.stream.registry import LiveStreams
from media.loop_lag import LoopLag
from media.packet import MediaPacket
from media.stream_keys import Slot
from media.track import Track, VideoTrack
from tests.ingest.stream.test_live_stream import AUDIO, GRANT, VIDEO, FakePorts, FakePublisher

PRIMARY, BACKUP, SECOND = Slot(0), Slot(1), Slot(2)
GOP = 20  # pictures


class SimulatedEncoder(FakePublisher):
    """An encoder that sends while its task runs."""

    def __init__(self, slot: Slot, video: VideoTrack | None = VIDEO, *, sound: bool = True) -> None:
        super().__init__()
        self.slot = slot
        self.video = video
        self.sound = sound
        self.stalled = False
        self.held_until = 0.0  # earlier packets arrive then, all at once,
        self.lags = 0.0  # or with this delay, which shrinks by half a second per second
        self.gop = GOP
        self.interval = 0.1  # seconds between two pictures
        self.b_frames = 0  # in a row, decoded after the picture that follows them
        self.clock = 0.0  # by how much its timestamps are ahead of its time of arrival
        self._held: list[MediaPacket] = []

    async def sending(self, phase: float = 0.0) -> None:
        """Send for ever; the first keyframe is sent `phase` seconds after the start."""
        await asyncio.sleep(phase)
        clock = asyncio.get_running_loop().time
        assert self.session is not None
        picture: tuple[Track, ...] = () if self.video is None else (self.video,)
        tracks = (*picture, AUDIO) if self.sound else picture
        for track in tracks:
            self.session.receive_track(track, clock())
        number = 0
        while True:
            for track in tracks:
                key = track is AUDIO or number % self.gop == 0
                at = round((clock() + self.clock) * 1000)
                if not self.stalled:
                    data = bytes([self.slot.number])
                    pts = at if track is AUDIO else at + self._later(number % self.gop)
                    packet = MediaPacket(track=track, dts=at, pts=pts, key=key, data=data)
                    self._held.append(packet)
            self._deliver(clock())
            number += 1
            await asyncio.sleep(self.interval)

    def _later(self, place: int) -> int:
        """Return when the picture at a place in a GOP is shown, in ms after it is decoded."""
        if not self.b_frames:
            return 0
        leads = 0 if place == 0 else -1 if (place - 1) % (self.b_frames + 1) else self.b_frames
        return round((1 + leads) * self.interval * 1000)

    def _deliver(self, now: float) -> None:
        if now < self.held_until:
            return
        assert self.session is not None
        lag = max(0.0, self.lags - (now - self.held_until) / 2)
        while self._held and self._held[0].dts / 1000 - self.clock <= now - lag:
            self.session.receive_packets([self._held.pop(0)], now)

    def leave(self, *, goodbye: bool = False) -> None:
        assert self.session is not None
        self.session.close(goodbye=goodbye)


class SimulatedStream:
    """A stream and its encoders."""

    def __init__(
        self, ports: FakePorts, live: LiveStreams, tasks: asyncio.TaskGroup, grant: Grant
    ) -> None:
        self.ports = ports
        self._live = live
        self._tasks = tasks
        self._grant = grant
        self._sending: list[asyncio.Task[None]] = []

    @property
    def live(self) -> LiveStreams:
        return self._live

    @property
    def on_air(self) -> Slot | None:
        return self.ports.states[-1].on_air

    @property
    def recorded(self) -> list[str]:
        """The calls of the newest run, without the offered packets."""
        return [line for line in self.ports.sinks[-1].recorded if not line.startswith("offer")]

    async def add_encoder(
        self,
        slot: Slot,
        video: VideoTrack | None = VIDEO,
        phase: float = 0.0,
        *,
        sound: bool = True,
        policy: Policy | None = None,
    ) -> SimulatedEncoder:
        camera = SimulatedEncoder(slot, video, sound=sound)
        grant = msgspec.structs.replace(self._grant, slot=slot, policy=policy or self._grant.policy)
        camera.session = await self._live.attach(grant, camera)
        self._sending.append(self._tasks.create_task(camera.sending(phase)))
        return camera

    def stop(self) -> None:
        for task in self._sending:
            task.cancel()


@asynccontextmanager
async def simulated_stream(
    ports: FakePorts,
    policy: Policy | None = None,
    lag: LoopLag | None = None,
    *,
    compares: bool = False,
    **granted: object,
) -> AsyncGenerator[SimulatedStream, None]:
    """Run a stream for the length of the block; `granted` are fields of its encoders' grants.

    It `compares` its encoders, or does not know how far they are apart.
    """
    grant = msgspec.structs.replace(GRANT, policy=policy or Policy(), **granted)
    async with asyncio.TaskGroup() as tasks:
        comparer = ports.comparer if compares else None
        live = LiveStreams(ports, ports, tasks, lag, open_comparer=comparer)
        stream = SimulatedStream(ports, live, tasks, grant)
        yield stream
        stream.stop()
        live.drain()


def pictures(received: list[str]) -> list[list[int]]:
    """Return the times of the offered packets by source, without repetitions."""
    sources: list[list[int]] = []
    for line in received:
        if line.startswith(("begin", "splice", "go on", "restart")):
            sources.append([])
        elif line.startswith("offer"):
            at = int(line.split()[1])
            if not sources[-1] or sources[-1][-1] != at:
                sources[-1].append(at)
    return sources


def seam(before: list[int], after: list[int]) -> float:
    """Return the seconds lost at a switch; negative: repeated."""
    return (after[0] - before[-1]) / 1000 - 0.1


def whole(source: list[int]) -> bool:
    """Return whether no packet of a source is missing."""
    return whole_at(0.1, source)


def whole_at(interval: float, source: list[int]) -> bool:
    """Return whether no packet of a source is missing that sends one each `interval` seconds."""
    steps = (later - sooner for sooner, later in pairwise(source))
    return all(abs(step - 1000 * interval) <= 1 for step in steps)


async def soon() -> None:
    await asyncio.sleep(0.3)
