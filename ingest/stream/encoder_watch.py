"""Finds out how far the encoders of one stream are apart, while there are several with sound.

If it `judges`, it also finds out which of them show black, a frozen picture or silence while
another one does not; a judgement holds for less than 2 s, so that a watch that has died says
nothing.

The encoder in the lowest slot is the reference; each other one is compared with it, again and
again. How far two others are apart outlives a reference that ends or begins anew, since their own
clocks go on. An engine of its own does that, which knows nothing of what is on air: if it dies or
hangs, another one is started after a while, and nothing else depends on it. A stream with one
encoder has no engine. Times are seconds of the event loop's clock.
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
from media.source_fault import SourceFault
from media.stream_keys import Slot
from media.track import AudioTrack, VideoTrack

log = logging.getLogger(__name__)

# What is compared: below 5 s unrelated sounds agree too often.
_WINDOW_SECONDS: Final = 5.0
# An offset is known 10 s after the second encoder has begun, and followed then: 10 s of 360 ppm are
# 4 ms. Until there is enough to compare, asking costs next to nothing.
_FIRST_SECONDS: Final = 1.0
_SEARCH_SECONDS: Final = 2.5
_FOLLOW_SECONDS: Final = 10.0
_JUDGE_SECONDS: Final = 1.0
_JUDGED_SECONDS: Final = 2.0
# An engine that ends is replaced at once, since an encoder that comes back is awaited for 15 s; it
# starts in 0.2 s. One that cannot must not be tried all the time.
_RETRY_SECONDS: Final = 30.0
# Sound and picture of two encoders may differ by less; by more, their clocks are not as they were.
_CONTRADICTION_SECONDS: Final = 0.1


class EncoderWatch:
    """The offsets of one stream's encoders; `run` compares them until it is cancelled.

    `reference` is the slot with which the others are compared; None if there is none with sound.
    `compares` is whether it is run once there are several. Set `judges` before `run`.
    """

    def __init__(self, stream: str, open_comparer: OpenComparer, *, judges: bool = False) -> None:
        self.reference: Slot | None = None
        self.compares = True
        self.judges = judges
        self._stream = stream
        self._open_comparer = open_comparer
        self._comparer: SourceComparer | None = None
        self._sources: dict[Slot, AudioTrack | None] = {}
        self._pictures: dict[Slot, VideoTrack] = {}
        self._alignments: dict[Slot, Alignment] = {}
        # How far slots were from the reference before the present one.
        self._former: dict[Slot, float] = {}
        # Per slot, and when they were asked for.
        self._faults: dict[Slot, tuple[float, Sequence[SourceFault]]] = {}
        self._changes = 0
        self._has_changed = asyncio.Event()

    def alignment(self, slot: Slot) -> Alignment | None:
        """Return what is known of a slot's offset from the reference; None if it has none."""
        return self._alignments.get(slot)

    def offset(self, slot: Slot, other: Slot) -> float | None:
        """Return what to add to a time of one slot's pictures for the other's of that moment."""
        for known in (self._known(), self._former):
            if slot in known and other in known:
                return known[other] - known[slot]
        return None

    def _known(self) -> dict[Slot, float]:
        """Return how far the pictures of slots are from those of the reference."""
        offsets = ((slot, each.picture_offset) for slot, each in self._alignments.items())
        known = {slot: offset for slot, offset in offsets if offset is not None}
        return known if self.reference is None else {**known, self.reference: 0.0}

    def is_awaited(self, slot: Slot, other: Slot) -> bool:
        """Return whether the offset of two slots may be known soon.

        One that is not observed yet will be from its next keyframe on.
        """
        if not self.compares:
            return False
        observed = [each for each in (slot, other) if each in self._sources]
        if not all(map(self._is_comparable, observed)):
            return False
        if len(observed) < len((slot, other)):
            return True
        both = (self._alignments.get(slot), self._alignments.get(other))
        return any(each is not None and each.is_awaited for each in both)

    def faults(self, slot: Slot, now: float) -> Sequence[SourceFault]:
        """Return what a slot's encoder shows that may be a fault, as far as is known now."""
        asked_at, found = self._faults.get(slot, (now, ()))
        return found if now - asked_at < _JUDGED_SECONDS else ()

    def observer(self, slot: Slot) -> "SlotSound":
        """Return what observes a slot's encoders."""
        return SlotSound(self, slot)

    def begin(self, slot: Slot, audio: AudioTrack | None, video: VideoTrack | None = None) -> None:
        """Handle that a slot's encoder begins, or begins anew with another clock or sound."""
        self._sources[slot] = audio
        self._pictures.pop(slot, None)
        if video is not None and self.judges:
            self._pictures[slot] = video
        self._restart(slot)
        if self._comparer is not None:
            self._begin(self._comparer, slot)

    def _begin(self, comparer: SourceComparer, slot: Slot) -> None:
        comparer.begin(
            slot.number, self._sources[slot], self._pictures.get(slot), judged=self.judges
        )

    def add(self, slot: Slot, packets: Sequence[MediaPacket]) -> None:
        """Handle packets of a slot's encoder."""
        if self._comparer is not None:
            self._comparer.add(slot.number, packets)

    def end(self, slot: Slot) -> None:
        """Handle the end of a slot's encoder."""
        self._sources.pop(slot, None)
        self._pictures.pop(slot, None)
        self._restart(slot)
        if self._comparer is not None:
            self._comparer.remove(slot.number)

    def forget(self) -> None:
        """Forget all encoders: they are observed no more."""
        self.reference = None
        self._sources.clear()
        self._pictures.clear()
        self._alignments, self._former, self._faults = {}, {}, {}

    def _restart(self, changed: Slot) -> None:
        """Void what was known of a slot, or of all if they were compared with it."""
        self._faults.pop(changed, None)
        self._changes += 1
        before, known = self.reference, self._known()
        self.reference = min(filter(self._is_comparable, self._sources), default=None)
        is_same = self.reference == before != changed
        kept = self._alignments if is_same else {}
        known.pop(changed, None)
        self._former.pop(changed, None)
        if not is_same and len(known) > 1:
            self._former = known
        self._alignments = {
            slot: kept[slot] if slot in kept and slot != changed else Alignment()
            for slot in self._sources
            if slot != self.reference
        }
        self._has_changed.set()

    # -- the task ---------------------------------------------------------------------------------

    async def run(self) -> None:
        """Compare the sources until cancelled."""
        clock = asyncio.get_running_loop().time
        retry_at = clock()
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
                if (task := asyncio.current_task()) is not None and task.cancelling():
                    # A fault while it ends takes the place of what ends it.
                    raise asyncio.CancelledError from None
            finally:
                self._comparer = None
            if not answers:
                await asyncio.sleep(max(0.0, retry_at - clock()))
                retry_at = clock() + _RETRY_SECONDS

    def _others(self) -> list[Slot]:
        """Return the slots that are compared with the reference."""
        return [slot for slot in sorted(self._alignments) if self._is_comparable(slot)]

    def _is_comparable(self, slot: Slot) -> bool:
        return self._sources.get(slot) is not None or slot in self._pictures

    async def _follow(self, comparer: SourceComparer) -> bool:
        """Compare the sources while there are several; return whether the comparer answered."""
        self._comparer = comparer
        for slot in self._sources:
            self._begin(comparer, slot)
        while others := self._others():
            known = [self._alignments[slot] for slot in others]
            seconds = _FOLLOW_SECONDS if all(each.is_settled for each in known) else _SEARCH_SECONDS
            if any(each.has_too_little for each in known):
                seconds = _FIRST_SECONDS
            if not await self._pass(comparer, seconds):
                return False
            for slot in self._others():
                if not await self._compare(comparer, slot):
                    return False
        return True

    async def _pass(self, comparer: SourceComparer, seconds: float) -> bool:
        """Let time pass, and judge the sources in it; return whether the comparer answered.

        The next comparison is soon once an encoder has begun anew.
        """
        clock = asyncio.get_running_loop().time
        until = clock() + seconds
        judge_at = clock() + _JUDGE_SECONDS
        while clock() < until:
            judges = self.judges and bool(self._others())
            self._has_changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(min(until, judge_at) if judges else until):
                    await self._has_changed.wait()
                until = min(until, clock() + _SEARCH_SECONDS)
            if self.judges and self._others() and clock() >= judge_at:
                judge_at = clock() + _JUDGE_SECONDS
                if not await self._judge(comparer):
                    return False
        return True

    async def _judge(self, comparer: SourceComparer) -> bool:
        """Have all sources judged; return whether the comparer answered."""
        asked_at, changes = asyncio.get_running_loop().time(), self._changes
        offsets: dict[int, float | None] = {}
        for slot in self._sources:
            alignment = self._alignments.get(slot)
            offsets[slot.number] = 0.0 if alignment is None else alignment.offset
        found = await comparer.judge(offsets)
        if found is None:
            return False
        if self._changes == changes:  # else it may be about what was before
            self._faults = {slot: (asked_at, found.get(slot.number, ())) for slot in self._sources}
        return True

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
        before, believed = alignment.offset, self.offset(reference, slot)
        alignment.record(found)
        apart = 0.0 if found.offset is None or believed is None else found.offset - believed
        if abs(apart) > _CONTRADICTION_SECONDS:
            self._former.pop(slot, None)
        if (before is None) is not (alignment.offset is None):
            about = {"stream": self._stream, "slot": str(slot), "reference": str(reference)}
            log.info("encoders aligned" if before is None else "alignment lost", extra=about)
        return True


class SlotSound:
    """Observes the sound and pictures of one slot's encoders for an `EncoderWatch`."""

    def __init__(self, watch: EncoderWatch, slot: Slot) -> None:
        self._watch = watch
        self._slot = slot

    async def observe(self, items: AsyncIterator[ObservedItem]) -> None:
        """Pass on what is observed until the stream ends."""
        async for item in items:
            match item:
                case SourceObserved():
                    audio = (each for each in item.tracks if isinstance(each, AudioTrack))
                    video = (each for each in item.tracks if isinstance(each, VideoTrack))
                    self._watch.begin(self._slot, next(audio, None), next(video, None))
                case SourceEnded():
                    self._watch.end(self._slot)
                case _:
                    self._watch.add(self._slot, item)
