"""Finds out how far the encoders of one stream are apart, while there are several with sound.

The encoder in the lowest slot is the reference; each other one is compared with it, again and
again. An engine of its own does that, which knows nothing of what is on air: if it dies or hangs,
another one is started after a while, and nothing else depends on it. A stream with one encoder has
no engine. Times are seconds of the event loop's clock.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Sequence
from typing import Final

from ingest.stream.alignment import Alignment
from ingest.stream.ports import (
    ObservedItem,
    OpenComparer,
    SourceComparer,
    SourceEnded,
    SourceObserved,
)
from media.packet import MediaPacket
from media.stream_keys import Slot
from media.track import AudioTrack

log = logging.getLogger(__name__)

# What is compared: below 5 s unrelated sounds agree too often.
_WINDOW_SECONDS: Final = 5.0
# An offset is known 10 s after the second encoder has begun, and followed then: 10 s of 360 ppm are
# 4 ms.
_SEARCH_SECONDS: Final = 2.5
_FOLLOW_SECONDS: Final = 10.0
# An engine starts in 0.2 s; one that cannot must not be tried all the time.
_RETRY_SECONDS: Final = 30.0


class EncoderWatch:
    """The offsets of one stream's encoders; `run` compares them until it is cancelled.

    `reference` is the slot with which the others are compared; None if there is none with sound.
    """

    def __init__(self, stream: str, open_comparer: OpenComparer) -> None:
        self.reference: Slot | None = None
        self._stream = stream
        self._open_comparer = open_comparer
        self._comparer: SourceComparer | None = None
        self._sources: dict[Slot, AudioTrack | None] = {}
        self._alignments: dict[Slot, Alignment] = {}
        self._has_changed = asyncio.Event()

    def alignment(self, slot: Slot) -> Alignment | None:
        """Return what is known of a slot's offset from the reference; None if it has none."""
        return self._alignments.get(slot)

    def offset(self, slot: Slot, other: Slot) -> float | None:
        """Return what to add to a time of one slot's packets for the other's of that moment."""
        known = {each: alignment.offset for each, alignment in self._alignments.items()}
        if self.reference is not None:
            known[self.reference] = 0.0
        first, second = known.get(slot), known.get(other)
        return None if first is None or second is None else second - first

    def is_awaited(self, slot: Slot, other: Slot) -> bool:
        """Return whether the offset of two slots may be known soon.

        It may be that of an encoder that has begun so recently that nothing of it was observed yet.
        """
        if self.reference is not None and not {slot, other} <= self._sources.keys():
            return True
        both = (self._alignments.get(slot), self._alignments.get(other))
        return any(each is not None and each.is_awaited for each in both)

    def observer(self, slot: Slot) -> "SlotSound":
        """Return what observes a slot's encoders."""
        return SlotSound(self, slot)

    def begin(self, slot: Slot, audio: AudioTrack | None) -> None:
        """Handle that a slot's encoder begins, or begins anew with another clock or sound."""
        self._sources[slot] = audio
        self._restart(slot)
        if self._comparer is not None:
            self._comparer.begin(slot.number, audio)

    def add(self, slot: Slot, packets: Sequence[MediaPacket]) -> None:
        """Handle packets of a slot's encoder."""
        if self._comparer is not None:
            self._comparer.add(slot.number, packets)

    def end(self, slot: Slot) -> None:
        """Handle the end of a slot's encoder."""
        self._sources.pop(slot, None)
        self._restart(slot)
        if self._comparer is not None:
            self._comparer.remove(slot.number)

    def forget(self) -> None:
        """Forget all encoders: they are observed no more."""
        self.reference = None
        self._sources.clear()
        self._alignments = {}

    def _restart(self, changed: Slot) -> None:
        """Void what was known of a slot, or of all if they were compared with it."""
        before = self.reference
        self.reference = min((slot for slot, audio in self._sources.items() if audio), default=None)
        is_same = self.reference == before != changed
        kept = self._alignments if is_same else {}
        self._alignments = {
            slot: kept[slot] if slot in kept and slot != changed else Alignment()
            for slot in self._sources
            if slot != self.reference
        }
        self._has_changed.set()

    # -- the task ---------------------------------------------------------------------------------

    async def run(self) -> None:
        """Compare the sources until cancelled."""
        while True:
            while not self._others():
                self._has_changed.clear()
                await self._has_changed.wait()
            answers = False
            try:
                async with self._open_comparer(self._stream) as comparer:
                    answers = await self._follow(comparer)
            except Exception:  # a process that cannot start, or a fault: neither ends the stream
                log.exception("encoders not compared", extra={"stream": self._stream})
            finally:
                self._comparer = None
            if not answers:
                await asyncio.sleep(_RETRY_SECONDS)

    def _others(self) -> list[Slot]:
        """Return the slots that are compared with the reference."""
        return [slot for slot in sorted(self._alignments) if self._sources[slot] is not None]

    async def _follow(self, comparer: SourceComparer) -> bool:
        """Compare the sources while there are several; return whether the comparer answered."""
        self._comparer = comparer
        for slot, audio in self._sources.items():
            comparer.begin(slot.number, audio)
        while others := self._others():
            is_known = all(self._alignments[slot].is_settled for slot in others)
            await self._pause(_FOLLOW_SECONDS if is_known else _SEARCH_SECONDS)
            for slot in self._others():
                if not await self._compare(comparer, slot):
                    return False
        return True

    async def _pause(self, seconds: float) -> None:
        """Wait until the next comparison, which is soon once an encoder has begun anew."""
        clock = asyncio.get_running_loop().time
        until = clock() + seconds
        while (left := until - clock()) > 0:
            self._has_changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._has_changed.wait()
                until = min(until, clock() + _SEARCH_SECONDS)

    async def _compare(self, comparer: SourceComparer, slot: Slot) -> bool:
        """Compare a source with the reference; return whether the comparer answered."""
        alignment, reference = self._alignments.get(slot), self.reference
        if alignment is None or reference is None:
            return True  # it has ended meanwhile
        found = await comparer.compare(
            reference.number, slot.number, seconds=_WINDOW_SECONDS, near=alignment.near
        )
        if found is None:
            return False
        if self._alignments.get(slot) is not alignment:
            return True  # it has begun anew meanwhile
        before = alignment.offset
        alignment.record(found)
        if (before is None) is not (alignment.offset is None):
            about = {"stream": self._stream, "slot": str(slot), "reference": str(reference)}
            log.info("encoders aligned" if before is None else "alignment lost", extra=about)
        return True


class SlotSound:
    """Observes the sound of one slot's encoders for an `EncoderWatch`."""

    def __init__(self, watch: EncoderWatch, slot: Slot) -> None:
        self._watch = watch
        self._slot = slot

    async def observe(self, items: AsyncIterator[ObservedItem]) -> None:
        """Pass on what is observed until the stream ends."""
        async for item in items:
            match item:
                case SourceObserved():
                    audio = (each for each in item.tracks if isinstance(each, AudioTrack))
                    self._watch.begin(self._slot, next(audio, None))
                case SourceEnded():
                    self._watch.end(self._slot)
                case _:
                    self._watch.add(self._slot, item)
