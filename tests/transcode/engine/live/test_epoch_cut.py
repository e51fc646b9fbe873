"""A source that follows another at a given picture: decoded from its keyframe, shown from there on.

Both show one programme, whose pictures have numbers and whose sound never pauses, with keyframes at
other places and on other clocks. So every picture must be in the output once.
"""

import array
import io
import itertools
from pathlib import Path

import av
import msgspec
import pytest

from media.hls.segment import Segment
from media.ladder import AUDIO_RENDITION
from tests.support.engine.decoded_output import packets as packets_of
from tests.support.engine.decoded_output import warnings
from tests.support.engine.engine_process import ORIGIN, EngineOutput, begin, run
from tests.support.engine.numbered_films import numbered, numbers
from tests.support.engine.sources import Source, source_of
from tests.support.engine.splices import LADDER, SECOND, SIZE, sound_is_gapless
from transcode.protocol.messages import (
    Begin,
    EngineOrder,
    ExtendSlate,
    Finish,
    Packet,
    Prepared,
    ShowSlate,
    Spliced,
    TakenOver,
)

SECONDS = 9.5
LATER = 5_000_000  # another clock, in ms
QUIET = 0.01
RATES = (30, 60)
# The length of a GOP in seconds, and the most B-frames in a row.
CODINGS = ((2.0, 2), (4.0, 3), (8.3, 0), (8.3, 2))


class Film(msgspec.Struct, frozen=True, kw_only=True):
    """The programme, as one encoder sends it."""

    source: Source
    rate: int

    @property
    def count(self) -> int:
        return len(self.source.pictures)

    def time(self, number: int) -> int:
        """Return the time of the picture with that number."""
        return sorted(each.pts for each in self.source.pictures)[number]

    def until(self, number: int) -> list[Packet]:
        """Return what is sent before a picture that is shown later than that one."""
        at = self.time(number)
        packets = self.source.packets
        return list(itertools.takewhile(lambda each: not each.video or each.pts <= at, packets))

    def since(self, number: int, by: int = LATER, lead: int = 8) -> list[Packet]:
        """Return what is sent from the keyframe on that leads up to a picture.

        Before it come some packets of sound.
        """
        at, packets = self.time(number), self.source.packets
        key = max(
            place
            for place, each in enumerate(packets)
            if each.video and each.key and each.pts <= at
        )
        before = [each for each in packets[:key] if not each.video][-lead:]
        return moved([*before, *packets[key:]], by)


def moved(packets: list[Packet], by: int) -> list[Packet]:
    return [msgspec.structs.replace(each, dts=each.dts + by, pts=each.pts + by) for each in packets]


def film(
    folder: Path, gop: float, bframes: int, rate: int = 30, size: tuple[int, int] = SIZE
) -> Film:
    path = folder / f"cut-{gop}-{bframes}-{rate}-{size[0]}.flv"
    every = str(round(gop * rate))
    coding = ["-c:v", "libx264", "-preset", "superfast", "-bf", str(bframes), "-g", every]
    coding += ["-keyint_min", every, "-sc_threshold", "0", "-c:a", "aac", "-b:a", "128k"]
    made = numbered(path, *coding, seconds=SECONDS, size=size, rate=str(rate))
    return Film(source=source_of(made), rate=rate)


def cut_to(
    other: Film, number: int, *, by: int = LATER, epoch: int = 1, reuse: bool = False
) -> list[EngineOrder]:
    """Return the orders with which a film follows another from the picture of that number on."""
    order = begin(other.source, ladder=LADDER, epoch=epoch, reuse=reuse)
    show_from = other.time(number) + by
    order = msgspec.structs.replace(order, splice=True, show_from=show_from)
    return [order, *other.since(number, by)]


def shown(output: EngineOutput, name: str) -> list[tuple[int, int]]:
    """Return time and number of a rendition's pictures."""
    return [each for file in output.files(name) for each in numbers(file)]


def longest_hole(output: EngineOutput) -> float:
    """Return for how many seconds the sound is silent at most, but for its ends."""
    (file,) = output.files(AUDIO_RENDITION)
    with av.open(io.BytesIO(file), "r") as container:
        samples = [
            level
            for frame in container.decode(audio=0)
            for level in array.array("f", bytes(frame.planes[0])[: 4 * frame.samples])
        ]
    loud = [place for place, level in enumerate(samples) if abs(level) > QUIET]
    return max(after - before for before, after in itertools.pairwise(loud)) / 48_000


def is_exact(output: EngineOutput, *films: Film) -> bool:
    """Return whether every picture is shown once, in its turn, and the sound never pauses."""
    assert (output.status, output.complaints, output.troubles) == (0, "", {})
    assert output.in_step()
    assert warnings(output) == {}
    assert not any(each.discontinuity for each in output.of(Segment))
    step = SECOND / films[0].rate
    for name in (rung.name for rung in LADDER.renditions):
        pictures = shown(output, name)
        assert [number for _, number in pictures] == list(range(films[-1].count))
        # Times are whole milliseconds, and each cut rounds again.
        late = [abs(at - ORIGIN - number * step) for at, number in pictures]
        assert max(late) <= 90 * (1 + len(films)), max(late)
    assert longest_hole(output) <= 0.02
    assert sound_is_gapless(output)
    return True


def fully(*values: object) -> object:
    return pytest.param(*values, marks=pytest.mark.prove)


@pytest.mark.parametrize(
    ("gop", "bframes", "rate", "number"),
    [
        (2.0, 2, 30, 100),
        (8.3, 3, 60, 401),
        (8.3, 0, 30, 240),
        *(
            fully(gop, bframes, rate, number)
            for (gop, bframes), rate in itertools.product(CODINGS, RATES)
            for number in (61, 122, 183, 244)
        ),
    ],
)
def test_every_picture_is_shown_once(
    folder: Path, gop: float, bframes: int, rate: int, number: int
) -> None:
    before, after = film(folder, 2.1, 2, rate), film(folder, gop, bframes, rate)
    # The first film ends where all pictures up to the cut have come.
    number = before_reordering(before, number)
    output = run(
        [
            begin(before.source, ladder=LADDER, reuse=False),
            *before.until(number - 1),
            *cut_to(after, number),
            Finish(),
        ]
    )
    assert output.of(Spliced) == [Spliced(epoch=1, reused=None)]
    assert is_exact(output, before, after)


def before_reordering(film_: Film, number: int) -> int:
    """Return a number not far from that one up to which all pictures are sent before the others."""
    sent = [each.pts for each in film_.source.pictures]
    ends = (
        place
        for place in range(number, len(sent))
        if max(sent[:place]) < min(sent[place:]) and len(sent) > place
    )
    return next(ends)


def test_pictures_that_came_before_some_that_are_lost_are_shown_by_the_next_source(
    folder: Path,
) -> None:
    """Packets leave in decode order: of a lost connection, the last ones are ahead of others."""
    before, after = film(folder, 2.1, 2), film(folder, 8.3, 2)
    pictures = before.source.pictures
    number = before_reordering(before, 100)
    while pictures[number].pts == before.time(number):
        number = before_reordering(before, number + 1)
    tail = [*before.until(number - 1), pictures[number]]
    show_until = before.time(number)
    order, *packets = cut_to(after, number)
    assert isinstance(order, Begin)
    order = msgspec.structs.replace(order, show_until=show_until)
    first = begin(before.source, ladder=LADDER, reuse=False)
    output = run([first, *tail, order, *packets, Finish()])
    assert is_exact(output, before, after)


def test_sound_that_ended_early_is_continued_from_where_it_ended(folder: Path) -> None:
    before, after = film(folder, 2.1, 2), film(folder, 8.3, 2)
    number = before_reordering(before, 100)
    packets = before.until(number - 1)
    end = before.time(number) - 700
    heard = [each for each in packets if each.video or each.pts < end]
    first = begin(before.source, ladder=LADDER, reuse=False)
    output = run([first, *heard, *cut_to(after, number), Finish()])
    assert is_exact(output, before, after)


def test_ten_cuts_there_and_back_lose_nothing(folder: Path) -> None:
    films = film(folder, 2.1, 2), film(folder, 8.3, 0)
    orders: list[EngineOrder] = [begin(films[0].source, ladder=LADDER, reuse=False)]
    packets = list(films[0].source.packets)
    for epoch in range(1, 11):
        on_air, other = films[(epoch + 1) % 2], films[epoch % 2]
        number = before_reordering(on_air, 25 * epoch)
        at = on_air.time(number) + LATER * (epoch - 1)
        orders += itertools.takewhile(lambda each: not each.video or each.pts < at, packets)  # noqa: B023 # at once
        order, *following = cut_to(other, number, by=LATER * epoch, epoch=epoch)
        orders.append(order)
        packets = [each for each in following if isinstance(each, Packet)]
    output = run([*orders, *packets, Finish()])
    assert is_exact(output, *films, *films, *films, *films, *films)


def test_a_source_of_another_kind_begins_with_that_picture_after_one_discontinuity(
    folder: Path,
) -> None:
    before, after = film(folder, 2.1, 2), film(folder, 8.3, 2, size=(640, 160))
    number = before_reordering(before, 100)
    first = begin(before.source, ladder=LADDER, reuse=False)
    output = run([first, *before.until(number - 1), *cut_to(after, number), Finish()])
    assert (output.status, output.complaints, output.troubles) == (0, "", {})
    assert output.in_step()
    assert output.of(Spliced) == []
    for name in (rung.name for rung in LADDER.renditions):
        assert [each for _, each in shown(output, name)] == list(range(after.count))
        assert [each.discontinuity for each in output.segments(name)].count(True) == 1


# -- the source's own packets make the top rung ---------------------------------------------------


@pytest.mark.parametrize(
    ("gop", "bframes", "rate", "number", "low"),
    [
        (2.0, 2, 30, 100, False),
        (4.0, 3, 60, 301, True),
        *(
            fully(gop, bframes, rate, number, low)
            for (gop, bframes), rate in itertools.product(CODINGS[:2], RATES)
            for number, low in itertools.product((61, 122, 183, 244), (False, True))
        ),
    ],
)
def test_an_encoder_makes_the_top_rung_up_to_the_next_keyframe(
    folder: Path, gop: float, bframes: int, rate: int, number: int, *, low: bool
) -> None:
    before, after = film(folder, 2.1, bframes, rate), film(folder, gop, bframes, rate)
    number = before_reordering(before, number)
    first = msgspec.structs.replace(begin(before.source, ladder=LADDER), low_latency=low)
    packets = cut_to(after, number, reuse=True)
    output = run([first, *before.until(number - 1), *packets, Finish()])
    assert output.of(Spliced) == [Spliced(epoch=1, reused="240p")]
    assert output.of(TakenOver) == []
    assert is_exact(output, before, after)
    returns = any(each.key and each.pts > after.time(number) for each in after.source.pictures)
    assert [len(output.inits(name)) for name in ("240p", "144p")] == [2 + returns, 1]


def test_decode_times_of_the_top_rung_go_on_over_both_ends_of_the_bridge(folder: Path) -> None:
    """The encoder reorders one picture, the source two, or none."""
    for bframes in (0, 3):
        before, after = film(folder, 2.1, bframes), film(folder, 4.0, bframes)
        number = before_reordering(before, 100)
        first = begin(before.source, ladder=LADDER)
        packets = cut_to(after, number, reuse=True)
        output = run([first, *before.until(number - 1), *packets, Finish()])
        samples = [each for file in output.files("240p") for each in packets_of(file)]
        steps = [after[0] - before[0] for before, after in itertools.pairwise(samples)]
        assert min(steps) >= SECOND / before.rate / 4, steps
        # Where the source reorders less than the encoder: two pictures, and rounding.
        assert max(steps) <= 2 * SECOND / before.rate + 180
        assert all(dts <= pts for dts, pts, _ in samples)


def test_own_pictures_after_the_bridge_are_the_ones_that_were_sent(folder: Path) -> None:
    before, after = film(folder, 2.1, 2), film(folder, 4.0, 2)
    number = before_reordering(before, 100)
    first = begin(before.source, ladder=LADDER)
    output = run([first, *before.until(number - 1), *cut_to(after, number, reuse=True), Finish()])
    own, bridge, rest = ([data for _, _, data in packets_of(f)] for f in output.files("240p"))
    published = before.source.published
    assert own == published[: len(own)]
    assert rest == after.source.published[-len(rest) :]
    assert len(own) + len(bridge) + len(rest) == after.count
    assert not set(bridge) & {*published, *after.source.published}


def test_without_a_keyframe_in_time_the_encoder_keeps_the_top_rung(folder: Path) -> None:
    before, after = film(folder, 2.1, 2), film(folder, 8.3, 2)
    number = before_reordering(before, 100)
    first = begin(before.source, ladder=LADDER)
    output = run([first, *before.until(number - 1), *cut_to(after, number, reuse=True), Finish()])
    assert output.of(TakenOver) == [TakenOver(epoch=1)]
    assert is_exact(output, before, after)
    assert len(output.inits("240p")) == 2


@pytest.mark.parametrize("exact", [True, False])
def test_a_source_may_be_replaced_on_the_bridge(folder: Path, *, exact: bool) -> None:
    """By one that is shown from its keyframe on, or from a picture after it."""
    before, after = film(folder, 2.1, 2), film(folder, 8.3, 2)
    number = before_reordering(before, 100)
    back = before_reordering(after, number + 10)
    if not exact:
        back = next(n for n in range(number + 10, 300) if before.source.pictures[n].key)
    orders = [begin(before.source, ladder=LADDER), *before.until(number - 1)]
    bridge, *packets = cut_to(after, number, reuse=True)
    end = after.time(back) + LATER
    orders += [bridge, *(each for each in packets if isinstance(each, Packet) and each.pts < end)]
    orders += cut_to(before, back, by=2 * LATER, epoch=2, reuse=True)
    output = run([*orders, Finish()])
    assert len(output.of(Spliced)) == 2
    assert output.of(TakenOver) == []
    assert is_exact(output, before, after, before)


def test_the_slate_may_follow_the_bridge(folder: Path) -> None:
    before, after = film(folder, 2.1, 2), film(folder, 8.3, 2)
    number = before_reordering(before, 100)
    orders = [begin(before.source, ladder=LADDER), *before.until(number - 1)]
    bridge, *packets = cut_to(after, number, reuse=True)
    end = after.time(before_reordering(after, number + 10)) + LATER
    orders += [bridge, *(each for each in packets if isinstance(each, Packet) and each.pts < end)]
    output = run([*orders, ShowSlate(), ExtendSlate(elapsed=3 * SECOND), Finish()])
    assert (output.status, output.complaints, output.troubles) == (0, "", {})
    assert output.in_step()
    assert warnings(output) == {}
    assert output.of(TakenOver) == []


@pytest.mark.parametrize("at_keyframe", [False, True])
@pytest.mark.parametrize("bframes", [2, 3])
@pytest.mark.parametrize("sent", [False, True])
def test_pictures_in_the_top_rung_are_not_shown_in_it_again(
    folder: Path, bframes: int, *, at_keyframe: bool, sent: bool
) -> None:
    """What was ahead of lost pictures may have been sent; these alone are missing there then."""
    before = film(folder, 2.1, bframes)
    pictures = before.source.pictures
    number = before_reordering(before, 100)
    while pictures[number].pts == before.time(number):
        number = before_reordering(before, number + 1)
    after = film(folder, number / 30 if at_keyframe else 4.0, bframes)
    first = begin(before.source, ladder=LADDER)
    if sent:  # a part for each picture
        first = msgspec.structs.replace(first, part=SECOND // 30)
    bridge, *packets = cut_to(after, number, reuse=True)
    assert isinstance(bridge, Begin)
    bridge = msgspec.structs.replace(bridge, show_until=before.time(number))
    output = run([first, *before.until(number - 1), pictures[number], bridge, *packets, Finish()])
    assert (output.status, output.complaints, output.troubles) == (0, "", {})
    assert output.in_step()
    assert not any(each.discontinuity for each in output.of(Segment))
    everything = list(range(after.count))
    assert [each for _, each in shown(output, "144p")] == everything
    top = [each for _, each in shown(output, "240p")]
    assert top == sorted(set(top))
    missing = len(set(everything).difference(top))
    assert 1 <= missing <= bframes if sent else missing == 0


def test_a_source_of_another_kind_is_bridged_too(folder: Path) -> None:
    before, after = film(folder, 2.1, 2), film(folder, 4.0, 0)
    number = before_reordering(before, 100)
    orders = [begin(before.source, ladder=LADDER), *before.until(number - 1)]
    output = run([*orders, *cut_to(after, number, reuse=True), Finish()])
    assert (output.status, output.complaints, output.troubles) == (0, "", {})
    assert output.in_step()
    assert [each.reused for each in output.of(Prepared)] == ["240p"]
    for name in (rung.name for rung in LADDER.renditions):
        assert [each for _, each in shown(output, name)] == list(range(after.count))
        assert not any(each.discontinuity for each in output.segments(name))


def test_rungs_that_are_shed_stay_away_over_the_bridge(folder: Path) -> None:
    """Only the bridge is decoded."""
    before, after = film(folder, 2.1, 2), film(folder, 4.0, 2)
    number = before_reordering(before, 130)
    first = msgspec.structs.replace(begin(before.source, ladder=LADDER), off=("144p",))
    output = run([first, *before.until(number - 1), *cut_to(after, number, reuse=True), Finish()])
    assert (output.status, output.complaints, output.troubles) == (0, "", {})
    assert output.in_step()
    assert output.of(TakenOver) == []
    assert all(each.gap for each in output.segments("144p"))
    assert [each for _, each in shown(output, "240p")] == list(range(after.count))
    assert len(output.inits("240p")) == 3
