"""What a player did, by the clocks of the pictures that it showed.

All times are milliseconds since the epoch, unless a name says seconds.
"""

import statistics
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import msgspec

STOP_MS: Final = 500.0  # a picture that stays for so long has stopped
# The pictures of an encoder's last moment may be shown before its loss is known.
_AROUND_MS: Final = 1500.0
# A seek is by 10 s. By so much the pictures are further on than without it, in sum at least.
_SOUGHT_MS: Final = 5000.0


class SeenPicture(msgspec.Struct, frozen=True):
    """A picture on a screen: when it was seen, and when it was drawn."""

    at: float
    drawn: float


class LiveCourse(msgspec.Struct, frozen=True, kw_only=True):
    """What happened to a live stream while it was watched, and when.

    A player was `opened`; the encoder on air was `lost`, and its backup took over; both were `away`
    and one came `back`, with the slate in between; the stream's owner ended it at `end`. The player
    knew of the end at `known`, None if it did not.
    """

    opened: float
    lost: float
    away: float
    back: float
    end: float
    known: float | None


class LivePlaying(msgspec.Struct, frozen=True, kw_only=True):
    """How a player played a live stream; times are seconds, None where it showed nothing.

    `latency` and `after` are the medians before the loss of the encoder and after the slate.
    `lost_stop` is the longest stay of a picture around the loss, `slate_wait` by how much the
    programme came back later than it was away, `missed` how much before the end had not been
    shown, and `known` how long after it the player had ended. `stops` counts the pictures that
    stayed for more than half a second elsewhere, `longest` is the longest stay there. `skipped` is
    the longest time between the drawing of two pictures that were shown one after the other, the
    slate left out.
    """

    started: float | None
    latency: float | None
    lost_stop: float | None
    slate_wait: float | None
    after: float | None
    missed: float | None
    known: float | None
    stops: int
    longest: float
    skipped: float


class VideoPlaying(msgspec.Struct, frozen=True, kw_only=True):
    """How a player played a video; times are seconds, None where it showed nothing.

    `sought` is how long after the order to seek it showed a picture from there, `missed` how much
    of the video's end was not shown, `stops` counts the pictures that stayed for more than half a
    second, the seek left out, and `longest` is the longest such stay.
    """

    started: float | None
    sought: float | None
    missed: float | None
    stops: int
    longest: float


LIVE_HEADINGS: Final = (
    "| player | latency | first picture after | behind | stop at the loss | slate longer by | "
    "behind after it | not shown of the end | ended after | other stops | longest | skipped | "
    "errors | rungs shed |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|---|"
)
VIDEO_HEADINGS: Final = (
    "| player | first picture after | seek took | not shown of the end | stops | longest | errors |"
    "\n|---|---|---|---|---|---|---|"
)


def judge_live(shown: Sequence[SeenPicture], course: LiveCourse) -> LivePlaying:
    """Judge what was shown of a live stream."""
    lost_stop, slate_wait, stops, longest, skipped = None, None, 0, 0.0, 0.0
    for one, next_one in pairwise(_changes(shown)):
        stay, apart = next_one.at - one.at, next_one.drawn - one.drawn
        if one.drawn < course.back - _AROUND_MS and next_one.drawn > course.back - _AROUND_MS:
            slate_wait = stay - apart
            continue
        skipped = max(skipped, apart)
        if course.lost - _AROUND_MS < one.drawn < course.lost + _AROUND_MS:
            lost_stop = max(lost_stop or 0.0, stay)
        elif stay > STOP_MS:
            stops, longest = stops + 1, max(longest, stay)
    across = any(each.drawn > course.lost + _AROUND_MS for each in shown)
    last = max((each.drawn for each in shown), default=None)
    return LivePlaying(
        started=_seconds(shown[0].at - course.opened) if shown else None,
        latency=_latency([each for each in shown if each.at < course.lost]),
        lost_stop=_seconds(lost_stop) if across else None,
        slate_wait=_seconds(slate_wait),
        after=_latency([each for each in shown if each.drawn > course.back]),
        missed=None if last is None else _seconds(max(0.0, course.end - last)),
        known=None if course.known is None else _seconds(course.known - course.end),
        stops=stops,
        longest=longest / 1000,
        skipped=skipped / 1000,
    )


def judge_video(
    shown: Sequence[SeenPicture], opened: float, sought: float, seconds: float
) -> VideoPlaying:
    """Judge what was shown of a video of so many seconds that was told to seek at `sought`."""
    changes = _changes(shown)
    there = _found(changes, sought)
    stays = [
        next_one.at - one.at
        for one, next_one in pairwise(changes)
        if not sought - STOP_MS <= one.at <= (sought if there is None else there)
    ]
    stops = [stay for stay in stays if stay > STOP_MS]
    end = shown[0].drawn + seconds * 1000 if shown else 0.0
    return VideoPlaying(
        started=_seconds(shown[0].at - opened) if shown else None,
        sought=None if there is None else _seconds(there - sought),
        missed=_seconds(max(0.0, end - max(each.drawn for each in shown))) if shown else None,
        stops=len(stops),
        longest=max(stops, default=0.0) / 1000,
    )


def _found(changes: Sequence[SeenPicture], sought: float) -> float | None:
    """Return when the first picture from after a seek was seen."""
    start = next((each for each in reversed(changes) if each.at <= sought), None)
    if start is None:
        return None
    return next(
        (
            each.at
            for each in changes
            if each.at > sought and each.drawn - start.drawn > each.at - start.at + _SOUGHT_MS
        ),
        None,
    )


def _changes(shown: Sequence[SeenPicture]) -> list[SeenPicture]:
    """Return the first sight of each picture that differs from the one before it."""
    changes: list[SeenPicture] = []
    for each in shown:
        if not changes or each.drawn != changes[-1].drawn:
            changes.append(each)
    return changes


def _latency(shown: Sequence[SeenPicture]) -> float | None:
    return _seconds(statistics.median(each.at - each.drawn for each in shown)) if shown else None


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def live_row(player: str, what: str, playing: LivePlaying, errors: int, shed: int) -> str:
    """Return a row of the table of live streams.

    `shed` says how often the service left a rendition out: the machine was too slow for the cell.
    """
    return _row(
        player,
        what,
        _text(playing.started, "never"),
        _text(playing.latency, "never"),
        _text(playing.lost_stop, "stopped"),
        _text(playing.slate_wait, "stopped"),
        _text(playing.after, "never"),
        _text(playing.missed, "all"),
        _text(playing.known, "not"),
        str(playing.stops),
        _text(playing.longest, ""),
        _text(playing.skipped, ""),
        str(errors),
        str(shed),
    )


def video_row(player: str, playing: VideoPlaying, errors: int, *, seeks: bool) -> str:
    """Return a row of the table of videos; `seeks` is False for a player that cannot be told to."""
    return _row(
        player,
        _text(playing.started, "never"),
        _text(playing.sought, "never") if seeks else "",
        _text(playing.missed, "all"),
        str(playing.stops),
        _text(playing.longest, ""),
        str(errors),
    )


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _text(value: float | None, never: str) -> str:
    return never if value is None else f"{value:.1f} s"
