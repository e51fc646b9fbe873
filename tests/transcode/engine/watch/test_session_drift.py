"""Two encoders whose clocks drift apart by 360 ppm for 50 minutes, in virtual time.

Media are sent second by second, and compared as often as in service.
"""

from collections.abc import Callable, Iterator, Sequence

import msgspec
import numpy as np
import pytest

from ingest.stream.alignment import Alignment
from media.source_comparison import SourceComparison
from media.ticks import MICROSECONDS
from tests.conftest import Proof
from tests.support.engine.programmes import RATE, CodedSound, Wave, programme
from tests.support.engine.shown_pictures import CodedPictures, scenes
from transcode.engine.watch.session import WatchSession
from transcode.protocol.watch_messages import (
    AlignedSource,
    Compare,
    Compared,
    Judge,
    Watch,
    WatchedPicture,
    WatchedPictures,
    WatchedSound,
    WatchOrder,
)

PPM = 360
BEHIND = 0.7  # at the beginning; in the end it is 1.08 s more
PICTURE = 1 / 30
SEARCH, FOLLOW = 3, 10  # seconds from one comparison to the next
LOOP = 53  # seconds of pictures, which are sent again and again: phases meet other ones each time

Orders = Callable[[int], Sequence[WatchOrder]]  # what both send in a second


def drifting(wave: Wave) -> Wave:
    """Return what an encoder takes for the same time, whose clock has more seconds in it."""
    parts: list[Wave] = []
    for first in range(0, len(wave), 30 * RATE):
        last = min(len(wave), first + 30 * RATE)
        places = np.arange(round(first * (1 + PPM / 1e6)), round(last * (1 + PPM / 1e6)))
        at = places / (1 + PPM / 1e6)
        near = slice(max(0, first - 2), last + 2)
        piece = np.interp(at - near.start, np.arange(len(wave[near])), wave[near])
        parts.append(piece.astype("f4"))
    return np.concatenate(parts)


def heard(minutes: int) -> tuple[list[Watch], Orders]:
    wave = programme(60 * minutes, 3)
    later = np.concatenate([np.zeros(round(BEHIND * RATE), np.float32), drifting(wave) * 0.5])
    sounds = (CodedSound(wave), CodedSound(later, kbit=64, rate=44_100))
    places = [0, 0]

    def orders(second: int) -> Sequence[WatchOrder]:
        sent: list[WatchOrder] = []
        for number, sound in enumerate(sounds):
            first = places[number]
            while (
                places[number] < len(sound.packets)
                and sound.packets[places[number]][0] < 1000 * second
            ):
                places[number] += 1
            sent.append(WatchedSound(source=number, packets=sound.packets[first : places[number]]))
        return sent

    return [Watch(source=number, audio=each.track) for number, each in enumerate(sounds)], orders


def seen(minutes: int) -> tuple[list[Watch], Orders]:
    shown = list(scenes(LOOP, 3))
    films = (CodedPictures(shown), CodedPictures(shown, kbit=1_000, bframes=0))

    def packets(number: int) -> Iterator[WatchedPicture]:
        for loop in range(60 * minutes // LOOP + 1):
            for each in films[number].packets:
                pts, dts = (at + 1000 * LOOP * loop for at in (each.pts, each.dts))
                if number:
                    pts, dts = (round(1000 * BEHIND + at * (1 + PPM / 1e6)) for at in (pts, dts))
                yield msgspec.structs.replace(each, pts=pts, dts=dts)

    rest = [packets(0), packets(1)]
    next_ones = [next(each) for each in rest]

    def orders(second: int) -> Sequence[WatchOrder]:
        sent: list[WatchOrder] = []
        for number, each in enumerate(rest):
            due: list[WatchedPicture] = []
            while next_ones[number].dts < 1000 * second:
                due.append(next_ones[number])
                next_ones[number] = next(each)
            sent.append(WatchedPictures(source=number, packets=tuple(due)))
        return sent

    watches = [
        Watch(source=number, audio=None, video=each.track, is_judged=True)
        for number, each in enumerate(films)
    ]
    return watches, orders


def followed(made: tuple[list[Watch], Orders], minutes: int) -> tuple[float, float, int]:
    """Return the most that the offset was wrong by, when it was first known, and for how long not.

    In seconds; it is looked at every second.
    """
    watches, orders = made
    session, alignment = WatchSession(), Alignment()
    for each in watches:
        session.handle(each)
    wrong, first, unknown, due = 0.0, 0.0, 0, SEARCH
    for second in range(1, 60 * minutes):
        for order in orders(second):
            session.handle(order)
        offset = alignment.offset
        offset_us = None if offset is None else round(offset * MICROSECONDS)
        judged = AlignedSource(source=0, offset_us=0), AlignedSource(source=1, offset_us=offset_us)
        session.handle(Judge(sources=judged))
        if second >= due:
            near_us = None if alignment.near is None else round(alignment.near * MICROSECONDS)
            found = session.handle(Compare(reference=0, other=1, seconds=5, near_us=near_us))
            assert isinstance(found, Compared)
            offset = None if found.offset_us is None else found.offset_us / MICROSECONDS
            alignment.record(
                SourceComparison(offset=offset, reason=found.reason, method=found.method)
            )
            due = second + (FOLLOW if alignment.is_settled else SEARCH)
        if alignment.offset is None:
            unknown += first > 0
            continue
        first = first or second
        wrong = max(wrong, abs(alignment.offset - BEHIND - second * PPM / 1e6))
    return wrong, first, unknown


@pytest.mark.parametrize(
    ("by", "most", "minutes"),
    [
        pytest.param(heard, PICTURE, 1, id="sound"),
        pytest.param(heard, PICTURE, 50, id="sound, 50", marks=pytest.mark.prove),
        pytest.param(seen, PICTURE, 50, id="pictures, 50", marks=pytest.mark.prove),
    ],
)
def test_clocks_that_drift_are_followed_to_a_picture(
    by: Callable[[int], tuple[list[Watch], Orders]], most: float, minutes: int, proof: Proof
) -> None:
    wrong, first, unknown = followed(by(minutes), minutes)
    proof(
        f"clocks {PPM} ppm apart for {minutes} minutes, by {by.__name__}: offset wrong by",
        f"{wrong * 1000:.0f} ms at most; known after {first:.0f} s, then {unknown} s not",
        f"{most * 1000:.0f} ms",
    )
    assert 0 < first < 30
    assert wrong <= most
