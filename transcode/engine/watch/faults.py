"""Whether a source shows black, a frozen picture or silence that the other one does not show.

Pure. A programme may be black, still and silent itself, so a source has failed only if another one
shows something else at the same moment of the programme, and showed the same before. Times are
those of the judged source, with 90 000 ticks a second; `shift` is what is added to one of them for
the same moment in the other, None if that is unknown.

What a source shows that may be a fault is a `SourceFinding`:
    "fault"     the other one shows something else, and both showed the same until it began
    "both"      the other one shows the same
    "unknown"   the other one is not known, not seen, or was something else before
"""

from collections.abc import Callable, Iterable
from typing import Final, Generic, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from media.source_fault import FaultKind, Verdict
from media.ticks import VIDEO_SCALE
from transcode.engine.watch.pictures import BLOCKS, Pictures, Row, Times

# Black is 16. Encoders round and ring a little; a title of one line has more than a hundredth of
# the pixels above 32.
_BLACK_MEAN: Final = 20.0
_BLACK_BRIGHT: Final = 32.0
_MAYBE_BLACK: Final = 40.0  # in a wrong range it is 30
# What is not black beyond doubt: the darkest scenes that have anything to see.
_LIT_BRIGHT: Final = 48.0
_OTHERWISE: Final = 10.0  # of a block: no encoder changes its mean by half as much
_OTHERWISE_BLOCKS: Final = BLOCKS // 5
# A block of a picture that is repeated: an encoder that has too few bits refines it by 0.6.
_STILL: Final = 0.8
_MOVES: Final = 2.0
_MOVING_BLOCKS: Final = 3
# Of full scale, in dB. Where one is silent, the other must be as loud as a quiet voice.
_SILENT: Final = -60.0
_LOUD: Final = -45.0

_SECOND: Final = VIDEO_SCALE
# The parts in which the other one must show something else: movement takes longer to see.
_BLACK_SLOT: Final = _SECOND // 2
_SILENT_SLOT: Final = 2 * _SECOND // 5
# The parts of a fault that count, if it lasts.
_COUNTED: Final = 6 * _SECOND
# What lasts for less is nothing yet.
_LEAST: Final = _SECOND
# An offset may be wrong by lip sync, so that one pauses half a second before the other one does,
# and the cut to a picture at which both stand still comes as much later.
_LEAST_CONTRARY: Final = 2 * _SECOND
_CUT_LATER: Final = _SECOND // 2
# What is looked at for one judgement.
_JUDGED: Final = 30 * _SECOND
# Farther apart, something else may have been shown between two pictures.
_MOST_APART: Final = _SECOND
# A judgement is of now: what was seen last may be this old.
_NEWEST: Final = 3 * _SECOND // 2
# How long before a fault the two are compared, and how many pictures must have agreed then.
_BEFORE: Final = 10 * _SECOND
_LEAST_PAIRS: Final = 5
_SHARE: Final = 2 / 3
_SHARE_OF_SOUND: Final = 1 / 2  # speech has pauses
# Lip sync may differ between encoders, and the offset may be that of the sound.
_LOOSE: Final = _SECOND // 4
_CORRELATED: Final = 0.85
_SAME_PICTURE: Final = 0.98
# Below, a picture is too flat for its blocks to correlate.
_CONTRAST: Final = 4.0
# A wrong range makes 16 to 235 of 0 to 255, or the reverse.
_LEAST_GAIN, _MOST_GAIN = 0.8, 1.25
# Of levels: unrelated sound reaches 0.45, and that of one programme is above 0.9.
_LEVELS_CORRELATED: Final = 0.6
_LEVELS_DIFFER: Final = 0.3
# In 3 s that of one programme is above 0.95, and unrelated sound reaches 0.9 by chance.
_LEVELS_SAME: Final = 0.92
_LEAST_LEVELS: Final = 28
_LEAST_CHANGE: Final = 2.0  # dB: what is steadier tells nothing
_FEW_WINDOWS: Final = 3
_HEARD: Final = 5 * _SECOND
# Below, levels are noise of the encoder.
_FLOOR: Final = -70.0

_Mask = NDArray[np.bool_]
_T = TypeVar("_T", "Pictures", "Levels")


class Levels(msgspec.Struct, frozen=True):
    """How loud the loudest channel is from each time on, for `WINDOW`, in dB of full scale."""

    times: Times
    decibels: Row

    def between(self, first: int, last: int) -> "Levels":
        """Return the windows that begin from `first` to `last`, both included."""
        low, high = np.searchsorted(self.times, [first, last + 1])
        return Levels(self.times[low:high], self.decibels[low:high])


WINDOW: Final = VIDEO_SCALE // 10


class Shown(msgspec.Struct, frozen=True):
    """What is known of one source."""

    pictures: Pictures
    levels: Levels
    has_picture: bool = True


class SourceFinding(msgspec.Struct, frozen=True, kw_only=True):
    """Something that may be a fault, from `since` to `until`; `confidence` is from 0 to 1."""

    kind: FaultKind
    verdict: Verdict
    since: int
    until: int
    confidence: float


def judge(own: Shown, other: Shown, shift: int | None, now: int) -> list[SourceFinding]:
    """Return what a source shows that may be a fault; `now` is the newest time that it has sent."""
    found: list[SourceFinding] = []
    pictures = own.pictures
    if shift is not None and len(pictures.times) and pictures.means[-1] <= _MAYBE_BLACK:
        pictures = _in_range_of(other.pictures, pictures, shift)
    own = Shown(pictures, own.levels)
    if (run := _run(pictures.times, _is_black(pictures), now)) is not None:
        test = _black(pictures.between(*run).blocks.mean(axis=0))
        contrary = _contrary(test, other.pictures, shift, run)
        is_fault = shift is not None and _shows_black(own, other, shift, run, contrary)
        found.append(_finding(test.kind, run, contrary, is_fault=is_fault))
    elif (run := _run(pictures.times, _is_still(pictures), now)) is not None:
        contrary = _contrary(_frozen(), other.pictures, shift, run)
        is_fault = shift is not None and _has_frozen(own, other, shift, run, contrary)
        found.append(_finding("frozen", run, contrary, is_fault=is_fault))
    if (run := _run(own.levels.times, own.levels.decibels < _SILENT, now)) is not None:
        contrary = _contrary(_silent(), other.levels, shift, run)
        is_picture = any(each.verdict == "fault" for each in found)
        is_fault = shift is not None and _has_lost_sound(
            own, other, shift, run, contrary, is_picture=is_picture
        )
        found.append(_finding("silent", run, contrary, is_fault=is_fault))
    return found


def late_faults(
    own: Shown, other: Shown, shift: int, since: int, until: int
) -> list[SourceFinding]:
    """Return the faults that there were at each second of a time whose pictures come only now.

    What both show later may not tell a fault any more. Each second is judged by what the source had
    shown until then, so pictures that are decoded late find what they would have found in time.
    """
    found: list[SourceFinding] = []
    for now in reversed(range(until, since, -_SECOND)):
        shown = Shown(
            own.pictures.between(now - _JUDGED, now),
            own.levels.between(now - _JUDGED, now),
            has_picture=own.has_picture,
        )
        found += (each for each in judge(shown, other, shift, now) if each.verdict == "fault")
    return found


class _Contrary(msgspec.Struct, frozen=True):
    """Since when the other one has shown something else, and in which share of the parts since.

    `since` is None if it does not; `is_same`: it shows the same.
    """

    since: int | None
    share: float
    is_same: bool


def _contrary(test: "_Test[_T]", other: _T, shift: int | None, run: tuple[int, int]) -> _Contrary:
    """Return whether the other one shows something else while one is black, frozen or silent."""
    parts: list[tuple[int, bool | None]] = []
    if shift is not None:
        begin = max(run[0], run[1] - _COUNTED)
        for first in range(begin, run[1] - test.length // 2, test.length):
            since = max(first, run[0] + test.begins_later)
            seen = other.between(since + shift, min(since + test.length, run[1]) + shift)
            parts.append((first, test.differs(seen) if len(seen.times) else None))
    found = [each for _, each in parts]
    for number, (first, differs) in enumerate(parts):
        rest = found[number:]
        share = rest.count(True) / len(rest)
        if not differs or rest.count(False) > (1 - test.least) * len(rest):
            continue
        if share >= test.least and _longest_same(rest) * test.length < _LEAST:
            return _Contrary(first, share, False)
    return _Contrary(None, 0.0, found.count(False) > len(found) // 2)


def _longest_same(parts: list[bool | None]) -> int:
    """Return how many parts in a row were the same in both."""
    longest = row = 0
    for each in parts:
        row = row + 1 if each is False else 0
        longest = max(longest, row)
    return longest


def _finding(
    kind: FaultKind, run: tuple[int, int], contrary: _Contrary, *, is_fault: bool
) -> SourceFinding:
    since, until = contrary.since, run[1]
    if since is not None and is_fault and until - since >= _LEAST_CONTRARY:
        return SourceFinding(
            kind=kind, verdict="fault", since=since, until=until, confidence=contrary.share
        )
    verdict: Verdict = "both" if contrary.is_same else "unknown"
    return SourceFinding(kind=kind, verdict=verdict, since=run[0], until=until, confidence=0.0)


# -- whether they show one programme --------------------------------------------------------------


def _shows_black(
    own: Shown, other: Shown, shift: int, run: tuple[int, int], contrary: _Contrary
) -> bool:
    """Return whether black is not what one way of the programme has in place of adverts."""
    heard = _heard_alike(own.levels, other.levels, shift, run[1] - _HEARD, run[1])
    if contrary.since is None or (heard is not None and heard < _LEVELS_DIFFER):
        return False
    if contrary.since - run[0] >= _LEAST and not _heard_the_same(own, other, shift, contrary, run):
        return False  # the programme was black, and one has gone on with something else
    return _seen_alike(own.pictures, other.pictures, shift, run[0] - _BEFORE, run[0] - 1)


def _has_frozen(
    own: Shown, other: Shown, shift: int, run: tuple[int, int], contrary: _Contrary
) -> bool:
    """Return whether a still picture is one of the programme, which has gone on."""
    since = contrary.since
    if since is None:
        return False
    heard = _heard_alike(own.levels, other.levels, shift, run[1] - _HEARD, run[1])
    if heard is not None and heard < _LEVELS_DIFFER:
        return False
    # A picture that the other one did not show is a card of the encoder, or an advert.
    if not _is_same_at(own.pictures, other.pictures, shift, since):
        return False
    if not _heard_the_same(own, other, shift, contrary, run):
        # Where the programme stood still, one that goes on with another picture may have adverts.
        later = other.pictures.between(since + shift + _LOOSE, since + shift + _LEAST_CONTRARY)
        still = own.pictures.between(since, run[1]).blocks[0]
        if float(correlations(still, later.blocks).min(initial=1.0)) < _CORRELATED:
            return False
    return _seen_alike(own.pictures, other.pictures, shift, since - _BEFORE, since - 1)


def _heard_the_same(
    own: Shown, other: Shown, shift: int, contrary: _Contrary, run: tuple[int, int]
) -> bool:
    """Return whether the sound that both had is one still, although their pictures differ.

    It must fit at the lip sync that it had before. Sound since then has to do alone: beside a pause
    that both had before, any other sound correlates.
    """
    if contrary.since is None:
        return False
    before = _heard_best(own.levels, other.levels, shift, contrary.since - _BEFORE, contrary.since)
    if before is None or before[0] < _LEVELS_SAME:
        return False
    since = _heard_at(own.levels, other.levels, shift + before[1], contrary.since, run[1])
    return since is not None and since >= _LEVELS_SAME


def _has_lost_sound(
    own: Shown,
    other: Shown,
    shift: int,
    run: tuple[int, int],
    contrary: _Contrary,
    *,
    is_picture: bool,
) -> bool:
    """Return whether the sound alone has failed, or the picture has as well."""
    heard = _heard_alike(own.levels, other.levels, shift, run[0] - _BEFORE, run[0] - 1)
    if contrary.since is None or heard is None or heard < _LEVELS_CORRELATED:
        return False
    if not own.has_picture or not other.has_picture:
        return contrary.since - run[0] < _LEAST  # else it began with a pause of the programme
    return is_picture or _seen_alike(own.pictures, other.pictures, shift, contrary.since, run[1])


def _seen_alike(own: Pictures, other: Pictures, shift: int, since: int, until: int) -> bool:
    """Return whether most pictures of some time were the same in both; False for too few."""
    wanted = own.between(since, until)
    alike = [
        best
        for number in np.flatnonzero(wanted.blocks.std(axis=1) >= _CONTRAST)
        if (best := _best(wanted.blocks[number], int(wanted.times[number]), other, shift))
        is not None
    ]
    return len(alike) >= _LEAST_PAIRS and (
        sum(each >= _CORRELATED for each in alike) >= _SHARE * len(alike)
    )


def _run(times: Times, mask: _Mask, now: int) -> tuple[int, int] | None:
    """Return since when and until when a mask has been true up to now; None if it is not so."""
    if not len(times) or not mask[-1] or now - int(times[-1]) > _NEWEST:
        return None
    breaks = np.flatnonzero(~mask[1:] | ~mask[:-1] | (np.diff(times) > _MOST_APART))
    first = int(breaks[-1]) + 1 if len(breaks) else 0
    since, until = int(times[first]), int(times[-1])
    return (since, until) if until - since >= _LEAST else None


# -- what one source shows ------------------------------------------------------------------------


def _is_black(pictures: Pictures) -> _Mask:
    return (pictures.means <= _BLACK_MEAN) & (pictures.bright <= _BLACK_BRIGHT)


def _is_still(pictures: Pictures) -> _Mask:
    """Return which pictures are the newest one, so that slow changes add up."""
    if not len(pictures.times):
        return np.zeros(0, np.bool_)
    return np.abs(pictures.blocks - pictures.blocks[-1]).max(axis=1) <= _STILL


def looks_black(pictures: Pictures) -> bool:
    """Return whether the newest picture is black."""
    return len(pictures.times) > 0 and bool(_is_black(pictures)[-1])


def sounds_silent(levels: Levels, since: int, until: int) -> bool:
    """Return whether there is nothing but silence between two times."""
    heard = levels.between(since, until).decibels
    return len(heard) > 0 and bool((heard < _SILENT).all())


def sounds_loud(levels: Levels, since: int, until: int) -> bool:
    """Return whether there is something loud between two times."""
    return bool((levels.between(since, until).decibels > _LOUD).any())


def looks_still(pictures: Pictures) -> bool:
    """Return whether the newest picture is the one before it."""
    return len(pictures.times) > 1 and bool(_is_still(pictures)[-2])


# -- what the other one shows ---------------------------------------------------------------------


class _Test(msgspec.Struct, Generic[_T], frozen=True):
    """How to tell whether the other one shows something else, in parts of a length.

    `differs` says it of one part, None if that is not clear; `least` is the share of parts. What it
    shows says nothing before `begins_later`.
    """

    kind: FaultKind
    length: int
    least: float
    differs: Callable[[_T], bool | None]
    begins_later: int = 0


def _black(dark: Row) -> _Test[Pictures]:
    def differs(seen: Pictures) -> bool | None:
        if bool(_is_black(seen).all()):
            return False
        lit = seen.bright >= _LIT_BRIGHT
        blocks = (np.abs(seen.blocks - dark) > _OTHERWISE).sum(axis=1)
        return True if bool((lit & (blocks >= _OTHERWISE_BLOCKS)).all()) else None

    return _Test("black", _BLACK_SLOT, _SHARE, differs)


def _frozen() -> _Test[Pictures]:
    def differs(seen: Pictures) -> bool | None:
        if len(seen.times) < 2:
            return None
        moved = np.ptp(seen.blocks, axis=0)
        if float(moved.max()) <= _STILL:
            return False
        return True if int((moved > _MOVES).sum()) >= _MOVING_BLOCKS else None

    return _Test("frozen", _SECOND, _SHARE, differs, _CUT_LATER)


def _silent() -> _Test[Levels]:
    def differs(seen: Levels) -> bool | None:
        if bool((seen.decibels < _SILENT).all()):
            return False
        return True if bool((seen.decibels > _LOUD).any()) else None

    return _Test("silent", _SILENT_SLOT, _SHARE_OF_SOUND, differs)


def _is_same_at(own: Pictures, other: Pictures, shift: int, time: int) -> bool:
    """Return whether the picture at a time is one that the other one showed as well."""
    (number,) = np.flatnonzero(own.times == time)
    blocks = own.blocks[number]
    if float(blocks.std()) >= _CONTRAST:
        best = _best(blocks, time, other, shift)
        return best is not None and best >= _CORRELATED
    near = other.between(time + shift - _LOOSE, time + shift + _LOOSE)
    return bool((np.abs(near.blocks - blocks).max(axis=1) < _OTHERWISE).any())


def _best(blocks: Row, time: int, other: Pictures, shift: int) -> float | None:
    """Return how well a picture fits the best one of the other source at about that moment."""
    near = other.between(time + shift - _LOOSE, time + shift + _LOOSE).blocks
    if not len(near):
        return None
    return float(correlations(blocks, near).max())


def correlations(blocks: Row, others: Row) -> Row:
    """Return how well a picture's blocks fit those of each other one; 0 where these are flat."""
    ours = blocks - blocks.mean()
    theirs = others - others.mean(axis=1, keepdims=True)
    strength = np.sqrt((theirs**2).sum(axis=1) * (ours**2).sum())
    return np.where(strength > 1.0, (theirs @ ours) / np.maximum(strength, 1.0), 0.0)


def _in_range_of(other: Pictures, own: Pictures, shift: int) -> Pictures:
    """Return a source's pictures in the range of luma in which the other one sends them.

    An encoder whose range is wrong has a black that is none. It is seen by pictures of the same
    moment; where there are none, both have the same range.
    """
    if not len(other.times):
        return own
    places = np.searchsorted(other.times, own.times + shift).clip(0, len(other.times) - 1)
    near = np.abs(other.times[places] - own.times - shift) <= _SECOND // 25
    ours, theirs = own.blocks[near], other.blocks[places[near]]
    mine, others = ours.mean(axis=1), theirs.mean(axis=1)
    spread, spreads = ours.std(axis=1), theirs.std(axis=1)
    both = (ours * theirs).mean(axis=1) - mine * others
    fits = (spread >= _CONTRAST) & (both > _SAME_PICTURE * spread * spreads)
    if int(fits.sum()) < _LEAST_PAIRS:
        return own
    gains = spreads[fits] / spread[fits]
    gain = _middle(gains)
    lift = _middle(others[fits] - gains * mine[fits])
    if not _LEAST_GAIN <= gain <= _MOST_GAIN:
        return own
    return Pictures(own.times, own.blocks * np.float32(gain) + np.float32(lift),
                    own.bright * np.float32(gain) + np.float32(lift))  # fmt: skip


def _middle(values: Row) -> float:
    return float(np.sort(values)[len(values) // 2])  # numpy's median would import another package


def _heard_alike(own: Levels, other: Levels, shift: int, since: int, until: int) -> float | None:
    """Return how the loudness of both changed alike in some time; None if it did not change."""
    best = _heard_best(own, other, shift, since, until)
    return None if best is None else best[0]


def _heard_best(
    own: Levels, other: Levels, shift: int, since: int, until: int
) -> tuple[float, int] | None:
    """Return how well the loudness of both agrees at most, and how much later the other's is."""
    found = [
        (fits, late)
        for late in range(-_LOOSE, _LOOSE + 1, WINDOW // 2)
        if (fits := _heard_at(own, other, shift + late, since, until)) is not None
    ]
    return max(found, default=None)


def _heard_at(own: Levels, other: Levels, shift: int, since: int, until: int) -> float | None:
    wanted = own.between(since, until)
    if len(wanted.times) < _LEAST_LEVELS or not len(other.times):
        return None
    moments = wanted.times + shift
    places = np.searchsorted(other.times, moments).clip(0, len(other.times) - 1)
    # The last of them may not have come yet.
    if int((np.abs(other.times[places] - moments) > WINDOW).sum()) > _FEW_WINDOWS:
        return None
    ours = np.maximum(wanted.decibels, _FLOOR)
    theirs = np.maximum(other.decibels[places], _FLOOR)
    spread, spreads = float(ours.std()), float(theirs.std())
    if min(spread, spreads) < _LEAST_CHANGE:
        return None
    return float(((ours - ours.mean()) * (theirs - theirs.mean())).mean()) / spread / spreads


class LastingFaults:
    """The faults of one source: one lasts until it shows something else.

    What both showed before cannot be seen for ever, and neither need the other one be decoded.
    """

    def __init__(self) -> None:
        self._faults: dict[FaultKind, SourceFinding] = {}

    @property
    def of_picture(self) -> bool:
        """Whether the picture is at fault."""
        return bool(self._faults.keys() - {"silent"})

    @property
    def of_sound(self) -> bool:
        """Whether the sound is at fault."""
        return "silent" in self._faults

    def update(
        self, found: list[SourceFinding], late: Iterable[SourceFinding] = ()
    ) -> list[SourceFinding]:
        """Return the findings of now, of which some are those of before that last.

        `late` are faults of before that are known only now.
        """
        known = [*self._faults.values(), *late]
        lasting: dict[FaultKind, SourceFinding] = {}
        for each in found:
            before = next(
                (one for one in known if one.kind == each.kind and each.since <= one.until), each
            )
            lasting[each.kind] = msgspec.structs.replace(before, until=each.until)
        self._faults = {kind: each for kind, each in lasting.items() if each.verdict == "fault"}
        return list(lasting.values())
