"""Compares the sources of one stream by an engine that watches them.

What sources send is kept here until something is compared, so an engine that nobody asks has no
work. One that does not answer in time counts as lost: sources are then as far apart as they were
known to be, and nothing else depends on it.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import Final

from media.packet import MediaPacket
from media.source_comparison import SourceComparison
from media.ticks import MICROSECONDS
from media.track import AudioTrack
from transcode.protocol.engine_process import EngineLost, EngineProcess, spawn_engine
from transcode.protocol.messages import WireError
from transcode.protocol.watch_messages import (
    Compare,
    Compared,
    Unwatch,
    Watch,
    WatchedSound,
    WatchOrder,
)

log = logging.getLogger(__name__)

# A comparison takes 20 to 100 ms of CPU, on a machine that may be busy encoding.
_ANSWER_SECONDS: Final = 5.0
# Sound since the last comparison: 30 s of FLAC in 48 kHz.
_MOST_BYTES: Final = 6 << 20


class _Source:
    """A source, and its sound that the engine does not have yet."""

    def __init__(self, audio: AudioTrack | None) -> None:
        self.audio = audio
        self.is_announced = False
        self.sound: list[tuple[int, bytes]] = []
        self.size = 0

    def orders(self, number: int) -> Iterator[WatchOrder]:
        if not self.is_announced:
            self.is_announced = True
            yield Watch(source=number, audio=self.audio)
        if self.sound:
            sound, self.sound, self.size = self.sound, [], 0
            yield WatchedSound(source=number, packets=tuple(sound))


class EngineComparer:
    """The sources of one stream, each with a number that the caller gives it."""

    def __init__(self, stream: str, engine: EngineProcess, answer_seconds: float) -> None:
        self._stream = stream
        self._answer_seconds = answer_seconds
        self._engine = engine
        self._sources: dict[int, _Source] = {}
        self._gone: list[int] = []
        self._answer: asyncio.Future[Compared] | None = None

    @property
    def pid(self) -> int:
        """The process ID of its engine."""
        return self._engine.pid

    @property
    def waiting_bytes(self) -> int:
        """How much sound waits for the next comparison."""
        return sum(source.size for source in self._sources.values())

    def begin(self, source: int, audio: AudioTrack | None) -> None:
        """Begin a source, or begin it anew with another clock; without sound it has no offset."""
        self._sources[source] = _Source(audio)

    def add(self, source: int, packets: Iterable[MediaPacket]) -> None:
        """Add what a source has sent."""
        of = self._sources.get(source)
        if of is None or of.audio is None:
            return
        for packet in packets:
            if isinstance(packet.track, AudioTrack):
                of.sound.append((packet.pts, packet.data))
                of.size += len(packet.data)
        if of.size > _MOST_BYTES:  # nothing was compared for long
            of.sound, of.size = [], 0

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
        gone, self._gone = self._gone, []
        orders: list[WatchOrder] = [Unwatch(source=each) for each in gone]
        for number, source in self._sources.items():
            orders.extend(source.orders(number))
        orders.append(Compare(reference=reference, other=other, seconds=seconds, near_us=near_us))
        self._answer = answer = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(self._answer_seconds):
                await self._engine.send(*orders)
                compared = await answer
        except (TimeoutError, EngineLost) as error:
            log.warning(
                "sources not compared", extra={"stream": self._stream, "cause": repr(error)}
            )
            return None
        finally:
            self._answer = None
        offset_us = compared.offset_us
        return SourceComparison(
            offset=None if offset_us is None else offset_us / MICROSECONDS,
            reason=compared.reason,
            correlation=compared.correlation,
            ratio=compared.ratio,
        )

    async def read_answers(self) -> None:
        """Read what the engine answers, until it has ended."""
        try:
            async for report in self._engine.reports():
                if self._answer is not None and isinstance(report, Compared):
                    self._answer.set_result(report)
                    self._answer = None
        except WireError:
            pass  # the security log has it, and the engine is dead
        if self._answer is not None:
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
