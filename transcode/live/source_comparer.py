"""Compares the sources of one stream, and judges them, by an engine that watches them.

What sources send is kept here until something is asked, so an engine that nobody asks has no work.
One that does not answer in time counts as lost: sources are then as far apart as they were
known to be, and nothing else depends on it.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from itertools import dropwhile
from typing import Final

from media.packet import PACKET_OVERHEAD, MediaPacket
from media.source_comparison import SourceComparison
from media.source_fault import SourceFault
from media.ticks import MICROSECONDS
from media.track import AudioTrack, VideoTrack
from transcode.protocol.engine_process import EngineLost, EngineProcess, spawn_engine
from transcode.protocol.messages import WireError
from transcode.protocol.watch_messages import (
    AlignedSource,
    Compare,
    Compared,
    Judge,
    Judged,
    Unwatch,
    Watch,
    WatchedPicture,
    WatchedPictures,
    WatchedSound,
    WatchOrder,
)

log = logging.getLogger(__name__)

# A comparison takes 20 to 100 ms of CPU, on a machine that may be busy encoding.
_ANSWER_SECONDS: Final = 5.0
# Sound since the last comparison: 30 s of FLAC in 48 kHz.
_MOST_BYTES: Final = 6 << 20
# Pictures of the last second, or of 5 s in which the engine did not answer, at 20 Mbit/s.
_MOST_PICTURE_BYTES: Final = 12 << 20


class _Source:
    """A source, and its media that the engine does not have yet."""

    def __init__(self, audio: AudioTrack | None, video: VideoTrack | None, judged: bool) -> None:
        self.audio, self.video = audio, video
        self.is_judged = judged
        self.is_announced = False
        self.sound: list[tuple[int, bytes]] = []
        self.size = 0
        self.pictures: list[WatchedPicture] = []
        self.picture_size = 0

    def add(self, packet: MediaPacket) -> None:
        if isinstance(packet.track, AudioTrack):
            if self.audio is not None:
                self.sound.append((packet.pts, packet.data))
                self.size += packet.memory_bytes
        elif self.is_judged:
            self.pictures.append(WatchedPicture(packet.dts, packet.pts, packet.key, packet.data))
            self.picture_size += packet.memory_bytes

    def limit(self) -> None:
        """Drop what is too much, since nothing was asked for long."""
        if self.size > _MOST_BYTES:
            self.sound, self.size = [], 0
        if self.picture_size > _MOST_PICTURE_BYTES:
            # The engine has an older picture, or none: it goes on at a keyframe.
            newest = self.pictures[len(self.pictures) // 2 :]
            self.pictures = list(dropwhile(lambda each: not each.key, newest))
            self.picture_size = sum(len(each.data) + PACKET_OVERHEAD for each in self.pictures)
            if self.picture_size > _MOST_PICTURE_BYTES // 2:
                self.pictures, self.picture_size = [], 0

    def orders(self, number: int) -> Iterator[WatchOrder]:
        if not self.is_announced:
            self.is_announced = True
            yield Watch(source=number, audio=self.audio, video=self.video, is_judged=self.is_judged)
        if self.sound:
            sound, self.sound, self.size = self.sound, [], 0
            yield WatchedSound(source=number, packets=tuple(sound))
        if self.pictures:
            pictures, self.pictures, self.picture_size = self.pictures, [], 0
            yield WatchedPictures(source=number, packets=tuple(pictures))


class EngineComparer:
    """The sources of one stream, each with a number that the caller gives it."""

    def __init__(self, stream: str, engine: EngineProcess, answer_seconds: float) -> None:
        self._stream = stream
        self._answer_seconds = answer_seconds
        self._engine = engine
        self._sources: dict[int, _Source] = {}
        self._gone: list[int] = []
        self._answer: asyncio.Future[Compared | Judged] | None = None

    @property
    def pid(self) -> int:
        """The process ID of its engine."""
        return self._engine.pid

    @property
    def waiting_bytes(self) -> int:
        """How much waits for the next question."""
        return sum(source.size + source.picture_size for source in self._sources.values())

    def begin(
        self,
        source: int,
        audio: AudioTrack | None,
        video: VideoTrack | None = None,
        *,
        judged: bool = False,
    ) -> None:
        """Begin a source, or begin it anew with another clock; without sound it has no offset.

        What is not to be `judged` has no pictures for the engine, and costs less.
        """
        self._sources[source] = _Source(audio, video, judged)

    def add(self, source: int, packets: Iterable[MediaPacket]) -> None:
        """Add what a source has sent."""
        of = self._sources.get(source)
        if of is None:
            return
        for packet in packets:
            of.add(packet)
        of.limit()

    def remove(self, source: int) -> None:
        """Forget a source."""
        if self._sources.pop(source, None) is not None:
            self._gone.append(source)

    async def compare(
        self, reference: int, other: int, *, seconds: float, near: float | None
    ) -> SourceComparison | None:
        """Compare the newest `seconds` of two sources, `near` an offset or everywhere.

        None if the engine has ended or does not answer: it never will.
        """
        near_us = None if near is None else round(near * MICROSECONDS)
        compared = await self._ask(
            Compare(reference=reference, other=other, seconds=seconds, near_us=near_us)
        )
        if not isinstance(compared, Compared):
            return None
        offset_us, picture_us = compared.offset_us, compared.picture_us
        return SourceComparison(
            offset=None if offset_us is None else offset_us / MICROSECONDS,
            reason=compared.reason,
            correlation=compared.correlation,
            ratio=compared.ratio,
            method=compared.method,
            picture_offset=None if picture_us is None else picture_us / MICROSECONDS,
        )

    async def judge(
        self, offsets: Mapping[int, float | None]
    ) -> dict[int, tuple[SourceFault, ...]] | None:
        """Return what each source shows that may be a fault; those that show nothing are left out.

        `offsets` are those of the sources that are to be judged, from one of them, in seconds. None
        if the engine has ended or does not answer: it never will.
        """
        sources = tuple(
            AlignedSource(
                source=source, offset_us=None if offset is None else round(offset * MICROSECONDS)
            )
            for source, offset in offsets.items()
        )
        judged = await self._ask(Judge(sources=sources))
        if not isinstance(judged, Judged):
            return None
        found: dict[int, tuple[SourceFault, ...]] = {}
        for each in judged.found:
            if each.source in offsets:
                fault = SourceFault(
                    kind=each.kind,
                    verdict=each.verdict,
                    seconds=each.seconds,
                    confidence=each.confidence,
                )
                found[each.source] = (*found.get(each.source, ()), fault)
        return found

    async def _ask(self, question: Compare | Judge) -> Compared | Judged | None:
        """Send what waits, then a question; return the answer, None if there never will be one."""
        gone, self._gone = self._gone, []
        orders: list[WatchOrder] = [Unwatch(source=each) for each in gone]
        for number, source in self._sources.items():
            orders.extend(source.orders(number))
        self._answer = answer = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(self._answer_seconds):
                await self._engine.send(*orders, question)
                return await answer
        except (TimeoutError, EngineLost) as error:
            log.warning(
                "sources not compared", extra={"stream": self._stream, "cause": repr(error)}
            )
            return None
        finally:
            self._answer = None

    async def read_answers(self) -> None:
        """Read what the engine answers, until it has ended."""
        try:
            async for report in self._engine.reports():
                if isinstance(report, Compared | Judged):
                    answer, self._answer = self._answer, None
                    if answer is not None and not answer.done():  # else it was given up just now
                        answer.set_result(report)
        except WireError:
            pass  # the security log has it, and the engine is dead
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(EngineLost(None))


@asynccontextmanager
async def open_comparer(
    stream: str, answer_seconds: float = _ANSWER_SECONDS
) -> AsyncGenerator[EngineComparer]:
    """Compare sources of a stream for the length of the block."""
    async with spawn_engine("watch", stream) as engine, asyncio.TaskGroup() as tasks:
        comparer = EngineComparer(stream, engine, answer_seconds)
        reading = tasks.create_task(comparer.read_answers())
        try:
            yield comparer
        finally:
            reading.cancel()
