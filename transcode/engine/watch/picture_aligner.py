"""When the pictures of two sources are compared, and what that adds to what their sound says.

Sound places two sources, since it is cheap and has no repetitions of a picture's length; but an
encoder's lip sync may be wrong. Where sound says nothing, pictures do. Decoding them is dear, so it
is done in phases: of 20 s while nothing is known, of 8 s every few minutes then, shorter ones where
sound agrees. In between the offset follows the drift of the clocks, for as long as that is known.
"""

from typing import Final

import msgspec

from media.ticks import MICROSECONDS, VIDEO_SCALE, rescale
from transcode.engine.watch.offset_track import OffsetTrack
from transcode.engine.watch.picture_offset import picture_offset
from transcode.engine.watch.quality import QualityWatch
from transcode.protocol.watch_messages import Compare, Compared

_SECOND: Final = VIDEO_SCALE
# The window, and 10 s to either side; near an offset, the window and a GOP of the usual length.
_SEARCHED: Final = 20 * _SECOND
_FOLLOWED: Final = 8 * _SECOND
# Two sources of 1080p take 0.25 s of CPU a second while they are decoded: 3 ms a second for a lip
# sync that stays as it is, and 9 where nothing else follows the clocks.
_AGAIN_BESIDE_SOUND: Final = 600 * _SECOND
_AGAIN: Final = 240 * _SECOND
# For so long there may be too little sound to compare, which takes 5 s of both.
_SOUND_FIRST: Final = 15 * _SECOND
_ASKED: Final = 10 * _SECOND  # from one comparison to the next
# After a phase that found nothing; twice as long after each further one.
_FIRST_PAUSE: Final = 60 * _SECOND
_LONGEST_PAUSE: Final = 1200 * _SECOND


class _Phases(msgspec.Struct):
    """Of one pair; times are those of the reference."""

    due: int  # when the next one begins
    until: int | None = None  # when this one ends
    pause: int = _FIRST_PAUSE
    # How far the sound is apart, or would be if it were heard.
    track: OffsetTrack = msgspec.field(default_factory=OffsetTrack)
    is_seen: bool = False  # pictures have found it
    by_pictures: bool = False  # and they did so last
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
        if heard.offset_us is not None:
            phases.track.add(end, _ticks(heard.offset_us))
            phases.by_pictures = False
        # Sound says something, or why it cannot, once there is enough of it.
        due = phases.due + (_SOUND_FIRST if heard.reason == "too short" else 0)
        if phases.until is None and end >= due:
            is_known = is_heard or phases.track.at(end) is not None
            phases.until, phases.found = end + (_FOLLOWED if is_known else _SEARCHED), False
            for each in pair:
                self._quality.sample(each, phases.until - end, every=each == order.reference)
        if phases.until is not None:
            seen = self._see(order, heard, phases, end)
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
            return msgspec.structs.replace(heard, picture_us=seen_us if phases.is_seen else None)
        return self._followed(order, heard, phases, end)

    @staticmethod
    def _followed(order: Compare, heard: Compared, phases: _Phases, now: int) -> Compared:
        """Return what pictures have told of the offset, now that the sound says nothing."""
        if not phases.is_seen and phases.until is None:
            return heard
        offset = phases.track.at(now) if phases.by_pictures else None
        if offset is not None:
            return _by_pictures(order, phases, offset, correlation=1.0)
        is_outdated = phases.by_pictures and now > phases.track.known_until
        return msgspec.structs.replace(
            heard, reason="outdated" if is_outdated else "pictures awaited"
        )

    def _see(self, order: Compare, heard: Compared, phases: _Phases, now: int) -> Compared | None:
        """Compare what has been decoded; return the offset in terms of the sound, if it has one."""
        near = phases.track.at(now) if heard.offset_us is None else _ticks(heard.offset_us)
        if near is not None:
            near += phases.lip_sync
        seen = picture_offset(
            self._quality.pictures(order.reference), self._quality.pictures(order.other), near
        )
        if seen is None or not seen.is_believed:
            return None
        phases.is_seen = phases.found = True
        if heard.offset_us is not None:
            phases.lip_sync = seen.ticks - _ticks(heard.offset_us)
        else:
            phases.track.add(now, seen.ticks - phases.lip_sync)
            phases.by_pictures = True
        offset = seen.ticks - phases.lip_sync
        return _by_pictures(order, phases, offset, seen.correlation, seen.ratio)

    @staticmethod
    def _rest(phases: _Phases, now: int, *, is_heard: bool) -> None:
        phases.until = None
        if is_heard:
            phases.due = now + _AGAIN_BESIDE_SOUND
        elif phases.found:
            phases.pause = _FIRST_PAUSE
            known_for = phases.track.known_until - now - _FOLLOWED - _ASKED
            phases.due = now + min(_AGAIN, known_for)
        else:
            phases.due = now + phases.pause
            phases.pause = min(2 * phases.pause, _LONGEST_PAUSE)


def _by_pictures(
    order: Compare, phases: _Phases, offset: int, correlation: float, ratio: float = 0.0
) -> Compared:
    return Compared(
        reference=order.reference,
        other=order.other,
        offset_us=_us(offset),
        picture_us=_us(offset + phases.lip_sync),
        method="picture",
        correlation=correlation,
        ratio=ratio,
    )


def _ticks(microseconds: int) -> int:
    return rescale(microseconds, MICROSECONDS, VIDEO_SCALE)


def _us(ticks: int | None) -> int | None:
    return None if ticks is None else rescale(ticks, VIDEO_SCALE, MICROSECONDS)
