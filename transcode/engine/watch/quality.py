"""Which of the sources fail to show the programme, judged once a second; see `faults`.

Sound is measured all the time. Pictures are decoded only while something is suspected: a source's
packets have become small and those of another one have not, or a keyframe of it was black or the
same as the one before. Both are decoded then, from a second or two before.
"""

from typing import Final

import numpy as np

from media.ticks import MICROSECONDS, VIDEO_SCALE, rescale
from media.track import AudioTrack, VideoTrack
from transcode.engine.watch.faults import (
    LastingFaults,
    Levels,
    Shown,
    SourceFinding,
    judge,
    late_faults,
    looks_black,
    looks_still,
    sounds_loud,
    sounds_silent,
)
from transcode.engine.watch.picture_source import PictureSource
from transcode.engine.watch.pictures import Pictures, pictures_of
from transcode.engine.watch.sound_levels import SoundLevels
from transcode.protocol.watch_messages import Found, Judge, Judged, WatchedPicture

_SECOND: Final = VIDEO_SCALE
# Bytes in a second without keyframes, by those of the usual second: frozen and black pictures are
# below 0.05. What is suspected in vain costs CPU alone.
_QUIET_SHARE: Final = 0.15
_BUSY_SHARE: Final = 0.08
_TIMES_AS_BUSY: Final = 4.0
# An encoder that has too few bits goes on refining a frozen picture, in fewer bytes; if not in far
# fewer, its keyframes are looked at.
_LEAST_BUSY_SHARE: Final = 0.3
_TIMES_AS_BUSY_WHILE_REFINED: Final = 2.5
_TIMES_AS_BUSY_AT_LEAST: Final = 1.6
# A suspicion takes a second, and comes with the next order; before that both must be seen to agree.
_BEFORE: Final = 7 * _SECOND // 2
# Two keyframes that are the same take two GOPs; one before them was another.
_BEFORE_KEYFRAMES: Final = 6 * _SECOND
# Of one order: 4 s of 30 pictures, for which a slow machine takes 0.7 s.
_MOST_PACKETS: Final = 120
# What a slow machine decodes by so much later is judged all the same.
_MOST_LATE: Final = 10 * _SECOND
# Orders for which sources may be decoded in vain: in the long run one in twenty.
_MOST_SPARE: Final = 20.0
_LEAST_SPARE: Final = 6.0
_SPARE_GAINED: Final = 0.05
# Orders for which a suspicion lasts: 2 s of something else, and what was missed before.
_SUSPECTED: Final = 4
_NO_LEVELS: Final = Levels(np.zeros(0, np.int64), np.zeros(0, np.float32))
_NO_PICTURES: Final[Pictures] = pictures_of(())


class _Source:
    def __init__(self, audio: AudioTrack | None, video: VideoTrack | None) -> None:
        self.levels = None if audio is None else SoundLevels(audio)
        self.pictures = None if video is None else PictureSource(video)
        self.faults = LastingFaults()
        self.shift: int | None = None  # from the reference
        self.suspected_by: int | None = None  # the source that shows something else
        self.suspected_for = 0  # further orders
        self.sampled_until: int | None = None  # its own time
        self.samples_every = False
        self.judged: dict[int, int] = {}  # by source: until when all that both showed was judged

    @property
    def is_sampled(self) -> bool:
        """Whether its pictures are decoded to be compared."""
        end = None if self.pictures is None else self.pictures.end
        return end is not None and self.sampled_until is not None and end < self.sampled_until

    @property
    def seen_until(self) -> int | None:
        """The time up to which its pictures are decoded, while they are."""
        return None if self.pictures is None else self.pictures.seen_until

    def shown(self) -> Shown:
        pictures = _NO_PICTURES if self.pictures is None else self.pictures.pictures()
        if self.seen_until is not None and len(pictures.times):
            # A keyframe that was glanced at may be newer, and what is before it not be decoded yet.
            pictures = pictures.between(int(pictures.times[0]), self.seen_until)
        return Shown(
            pictures,
            _NO_LEVELS if self.levels is None else self.levels.levels(),
            has_picture=self.pictures is not None,
        )

    def now(self, shown: Shown) -> int | None:
        """Return the time of which it can be judged; None if nothing is known of it.

        It is that of the newest that was sent, but for pictures that are still to be decoded.
        """
        ends = [int(shown.levels.times[-1])] if len(shown.levels.times) else []
        if self.pictures is not None and self.pictures.end is not None:
            ends.append(self.pictures.end)
        newest = max(ends, default=None)
        if newest is None or self.seen_until is None or newest - self.seen_until > _MOST_LATE:
            return newest
        return self.seen_until


class QualityWatch:
    """The sources of one stream, as far as they are judged."""

    def __init__(self) -> None:
        self._sources: dict[int, _Source] = {}
        self._spare = _MOST_SPARE

    def begin(self, source: int, audio: AudioTrack | None, video: VideoTrack | None) -> None:
        """Begin a source, or begin it anew."""
        self._sources[source] = _Source(audio, video)

    def add_sound(self, source: int, packets: tuple[tuple[int, bytes], ...]) -> None:
        """Add packets of a source's sound."""
        of = self._sources.get(source)
        if of is not None and of.levels is not None:
            of.levels.add(packets)

    def add_pictures(self, source: int, packets: tuple[WatchedPicture, ...]) -> None:
        """Add packets of a source's pictures."""
        of = self._sources.get(source)
        if of is not None and of.pictures is not None:
            of.pictures.add(packets)

    def remove(self, source: int) -> None:
        """Forget a source."""
        self._sources.pop(source, None)

    def end(self, source: int) -> int | None:
        """Return the time of a source's newest picture; None if it has none."""
        of = self._sources.get(source)
        return None if of is None or of.pictures is None else of.pictures.end

    def sample(self, source: int, ticks: int, *, every: bool = False) -> None:
        """Decode the pictures of a source for so long, from its newest keyframe on.

        Those that no other one needs are left out, if it is not to be `every` one.
        """
        of, end = self._sources.get(source), self.end(source)
        if of is not None and end is not None:
            of.sampled_until, of.samples_every = end + ticks, every

    def pictures(self, source: int) -> Pictures:
        """Return the signatures of what was decoded of a source in the last half a minute."""
        of = self._sources.get(source)
        return _NO_PICTURES if of is None or of.pictures is None else of.pictures.pictures()

    def judge(self, order: Judge) -> Judged:
        """Return what the sources show that may be a fault."""
        judged: dict[int, _Source] = {}
        for each in order.sources:
            of = self._sources.get(each.source)
            if of is not None:
                us = each.offset_us
                of.shift = None if us is None else rescale(us, MICROSECONDS, VIDEO_SCALE)
                judged[each.source] = of
        self._decode(judged)
        shown = {number: each.shown() for number, each in judged.items()}
        found: list[Found] = []
        for number in judged:
            found += [_found(number, finding) for finding in _judged(number, judged, shown)]
        return Judged(found=tuple(found))

    # -- what is decoded --------------------------------------------------------------------------

    def _decode(self, judged: dict[int, _Source]) -> None:
        """Decode what is suspected; what is not is left."""
        self._spare = min(_MOST_SPARE, self._spare + _SPARE_GAINED)
        wanted: dict[int, int] = {}  # from which time on
        for number, each in judged.items():
            pictures = each.pictures
            if pictures is None or pictures.end is None:
                continue
            if each.is_sampled:
                wanted[number] = min(pictures.end, wanted.get(number, pictures.end))
            if each.faults.of_picture:
                wanted.setdefault(number, pictures.end)  # it goes on where it was
                continue
            by, before = self._suspicion(number, judged)
            other = None if by is None else judged[by]
            shift = None if other is None else _between(each, other)
            if by is None or other is None or shift is None or other.pictures is None:
                continue
            since = min(pictures.end, (other.pictures.end or 0) - shift) - before
            wanted[number] = min(since, wanted.get(number, since))
            wanted[by] = min(since + shift, wanted.get(by, since + shift))
        for number, each in judged.items():
            if each.pictures is not None:
                if number in wanted:
                    every = each.samples_every and each.is_sampled
                    each.pictures.follow(wanted[number], _MOST_PACKETS, every=every)
                else:
                    each.pictures.leave()

    def _suspicion(self, number: int, judged: dict[int, _Source]) -> tuple[int | None, int]:
        """Return what `_suspected_by` does, as long as it may be found out.

        It lasts for some orders: an encoder's next keyframe may be as large as ever.
        """
        own = judged[number]
        by, before = self._suspected_by(number, judged)
        if by is not None:
            own.suspected_for = _SUSPECTED
        elif own.suspected_for > 0 and own.suspected_by in judged:
            own.suspected_for -= 1
            by = own.suspected_by
        least = 0.0 if own.suspected_by is not None else _LEAST_SPARE
        if by is None or self._spare <= least:
            own.suspected_by = None
            return None, 0
        own.suspected_by = by
        self._spare -= 1.0
        return by, before

    @staticmethod
    def _suspected_by(number: int, judged: dict[int, _Source]) -> tuple[int | None, int]:
        """Return the source that seems to show more than this one, and how long it may have."""
        own = judged[number]
        for other, each in judged.items():
            shift = _between(own, each)
            if other == number or shift is None or own.pictures is None or each.pictures is None:
                continue
            before = _seem_to_differ(own.pictures, each.pictures, shift)
            if not before and _seems_silent(own, each, shift):
                before = _BEFORE
            if before:
                return other, before
        return None, 0


def _between(own: _Source, other: _Source) -> int | None:
    """Return what is to be added to one source's times for the same moment in the other."""
    return None if own.shift is None or other.shift is None else other.shift - own.shift


def _seems_silent(own: _Source, other: _Source, shift: int) -> bool:
    """Return whether one is silent and the other is not, so that it matters what both show."""
    if own.levels is None or other.levels is None or own.faults.of_sound:
        return False
    levels, others = own.levels.levels(), other.levels.levels()
    if not len(levels.times) or not len(others.times):
        return False
    until = min(int(levels.times[-1]), int(others.times[-1]) - shift)
    since = until - _SECOND
    if not sounds_silent(levels, since, until):
        return False
    return sounds_loud(others, since + shift, until + shift)


def _seem_to_differ(own: PictureSource, other: PictureSource, shift: int) -> int:
    """Return how long one may have shown less than the other; a keyframe may be decoded for it."""
    if own.end is None or other.end is None:
        return 0
    until = min(own.end, other.end - shift)
    ours = own.share(until - _SECOND, until)
    theirs = other.share(until - _SECOND + shift, until + shift)
    closely = False
    if ours is not None and theirs is not None:
        if ours < _QUIET_SHARE and theirs > max(_BUSY_SHARE, _TIMES_AS_BUSY * ours):
            return _BEFORE
        if theirs > max(_LEAST_BUSY_SHARE, _TIMES_AS_BUSY_WHILE_REFINED * ours):
            return _BEFORE
        closely = theirs > max(_BUSY_SHARE, _TIMES_AS_BUSY_AT_LEAST * ours)
    for each in (own, other):
        each.glance(closely=closely)
    glances, others = own.glances(), other.glances()
    differ = (looks_black(glances) and not looks_black(others)) or (
        looks_still(glances) and not looks_still(others)
    )
    return _BEFORE_KEYFRAMES if differ else 0


def _judged(
    number: int, judged: dict[int, _Source], shown: dict[int, Shown]
) -> list[SourceFinding]:
    """Return what may be a fault of one source, by the other one that says most."""
    own = judged[number]
    now = own.now(shown[number])
    if now is None:
        return []
    others = {other: _between(own, each) for other, each in judged.items() if other != number}
    found: dict[str, SourceFinding] = {}
    late: list[SourceFinding] = []
    for other, shift in others.items():
        late += _late(number, other, judged, shown)
        _add(found, judge(shown[number], shown[other], shift, now))
    if not others:
        _add(found, judge(shown[number], Shown(_NO_PICTURES, _NO_LEVELS), None, now))
    return own.faults.update(list(found.values()), late)


def _add(found: dict[str, SourceFinding], more: list[SourceFinding]) -> None:
    for each in more:
        before = found.get(each.kind)
        if before is None or _WEIGHT[each.verdict] > _WEIGHT[before.verdict]:
            found[each.kind] = each


def _late(
    number: int, other: int, judged: dict[int, _Source], shown: dict[int, Shown]
) -> list[SourceFinding]:
    """Return the faults of the time that both have been decoded for since the last order."""
    own, by = judged[number], judged[other]
    shift = _between(own, by)
    if shift is None or own.seen_until is None or by.seen_until is None:
        return []
    until = min(own.seen_until, by.seen_until - shift)
    since = max(own.judged.get(other, 0), until - _MOST_LATE)
    own.judged[other] = max(since, until)
    return late_faults(shown[number], shown[other], shift, since, until)


_WEIGHT: Final = {"unknown": 0, "both": 1, "fault": 2}


def _found(source: int, finding: SourceFinding) -> Found:
    return Found(
        source=source,
        kind=finding.kind,
        verdict=finding.verdict,
        seconds=(finding.until - finding.since) / VIDEO_SCALE,
        confidence=round(finding.confidence, 2),
    )
