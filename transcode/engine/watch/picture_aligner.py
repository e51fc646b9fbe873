"""When the pictures of two sources are compared, and what that adds to what their sound says.

Sound places two sources, since it is cheap and has no repetitions of a picture's length; but an
encoder's lip sync may be wrong. Where sound says nothing, pictures do. Decoding them is dear, so it
is done in phases: of 20 s while nothing is known, of 8 s every two or ten minutes then; shorter
ones where sound agrees.
"""

from typing import Final

import msgspec

from media.ticks import MICROSECONDS, VIDEO_SCALE, rescale
from transcode.engine.watch.picture_offset import picture_offset
from transcode.engine.watch.quality import QualityWatch
from transcode.protocol.watch_messages import Compare, Compared

_SECOND: Final = VIDEO_SCALE
# The window, and 10 s to either side; near an offset, the window and a GOP of the usual length.
_SEARCHED: Final = 20 * _SECOND
_FOLLOWED: Final = 8 * _SECOND
# Two sources of 1080p take 0.25 s of CPU a second while they are decoded: 3 ms a second for a lip
# sync that stays as it is, and 16 where nothing else follows clocks of 360 ppm, by 43 ms.
_AGAIN_BESIDE_SOUND: Final = 600 * _SECOND
_AGAIN: Final = 120 * _SECOND
# After a phase that found nothing; twice as long after each further one.
_FIRST_PAUSE: Final = 60 * _SECOND
_LONGEST_PAUSE: Final = 1200 * _SECOND


class _Phases(msgspec.Struct):
    """Of one pair; times are those of the reference."""

    due: int  # when the next one begins
    until: int | None = None  # when this one ends
    pause: int = _FIRST_PAUSE
    offset: int | None = None  # what pictures have said last
    found: bool = False  # in this phase
    lip_sync: int = 0  # by how much pictures are later than the sound says


class PictureAligner:
    """The pairs of one stream whose pictures are compared."""

    def __init__(self, quality: QualityWatch) -> None:
        self._quality = quality
        self._pairs: dict[tuple[int, int], _Phases] = {}

    def forget(self, source: int) -> None:
        """Forget what was known of a source that has begun anew, or is gone."""
        self._pairs = {pair: each for pair, each in self._pairs.items() if source not in pair}

    def compare(self, order: Compare, heard: Compared) -> Compared:
        """Return what sound and pictures say; `heard` is what sound does."""
        pair = order.reference, order.other
        end = self._quality.end(order.reference)
        if end is None or self._quality.end(order.other) is None:
            return heard
        phases = self._pairs.setdefault(pair, _Phases(due=end))
        is_heard = heard.offset_us is not None
        if phases.until is None and end >= phases.due:
            is_known = is_heard or phases.offset is not None
            phases.until, phases.found = end + (_FOLLOWED if is_known else _SEARCHED), False
            for each in pair:
                self._quality.sample(each, phases.until - end)
        if phases.until is not None:
            seen = self._see(order, heard, phases)
            # Where sound places them as well, one answer says by how much lip sync differs.
            if end >= phases.until or (is_heard and seen is not None):
                self._rest(phases, end, is_heard=is_heard)
                for each in pair:
                    self._quality.sample(each, 0)
            if seen is not None and not is_heard:
                return seen
        if heard.offset_us is not None:
            # Clocks drift: what pictures said minutes ago holds beside what the sound says now.
            seen_us = heard.offset_us + (_us(phases.lip_sync) or 0)
            known = phases.offset is not None
            return msgspec.structs.replace(heard, picture_us=seen_us if known else None)
        if phases.offset is None and phases.until is None:
            return heard
        return msgspec.structs.replace(heard, reason="pictures awaited")

    def _see(self, order: Compare, heard: Compared, phases: _Phases) -> Compared | None:
        """Compare what has been decoded; return the offset in terms of the sound, if it has one."""
        near = None if heard.offset_us is None else _ticks(heard.offset_us)
        if near is None:
            near = phases.offset
        seen = picture_offset(
            self._quality.pictures(order.reference), self._quality.pictures(order.other), near
        )
        if seen is None or not seen.is_believed:
            return None
        if heard.offset_us is not None:
            phases.lip_sync = seen.ticks - _ticks(heard.offset_us)
        phases.offset, phases.found = seen.ticks, True
        return Compared(
            reference=order.reference,
            other=order.other,
            offset_us=_us(seen.ticks - phases.lip_sync),
            picture_us=_us(seen.ticks),
            method="picture",
            correlation=seen.correlation,
            ratio=seen.ratio,
        )

    @staticmethod
    def _rest(phases: _Phases, now: int, *, is_heard: bool) -> None:
        phases.until = None
        if phases.found:
            phases.pause = _FIRST_PAUSE
            phases.due = now + (_AGAIN_BESIDE_SOUND if is_heard else _AGAIN)
        else:
            phases.due = now + phases.pause
            phases.pause = min(2 * phases.pause, _LONGEST_PAUSE)


def _ticks(microseconds: int) -> int:
    return rescale(microseconds, MICROSECONDS, VIDEO_SCALE)


def _us(ticks: int | None) -> int | None:
    return None if ticks is None else rescale(ticks, VIDEO_SCALE, MICROSECONDS)
