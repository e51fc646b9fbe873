"""Rungs that are left out for a while: the rule, and real engines."""

import itertools
import random

import msgspec
import pytest

from media.hls.segment import Segment
from media.ladder import AUDIO_RENDITION, Ladder
from tests.support.engine.decoded_output import frames, packets, warnings
from tests.support.engine.engine_process import (
    FRAME,
    ORIGIN,
    EngineOutput,
    begin,
    run,
    run_with_pauses,
)
from tests.support.engine.sources import Source
from transcode.engine.live.shedding import omitted_renditions
from transcode.protocol.messages import (
    Begin,
    EngineOrder,
    Finish,
    LeaveOut,
    Prepared,
    Progress,
    TakenOver,
)

SECOND = 90_000
RUNGS = ("720p", "480p", "360p")


@pytest.mark.parametrize(
    ("off", "own", "expected"),
    [
        pytest.param((), False, (), id="nothing is off"),
        pytest.param(("480p",), False, ("480p",), id="one of them"),
        pytest.param(("480p", "9000p", "audio"), True, ("480p",), id="unknown names"),
        pytest.param(RUNGS, False, ("720p", "480p"), id="the smallest stays"),
        pytest.param(RUNGS, True, RUNGS, id="the source's own packets are enough"),
        pytest.param(("360p",), False, ("360p",), id="the smallest alone"),
    ],
)
def test_what_is_left_out(off: tuple[str, ...], own: bool, expected: tuple[str, ...]) -> None:
    assert omitted_renditions(RUNGS, off, has_copy=own) == frozenset(expected)


def test_a_stream_of_sound_leaves_nothing_out() -> None:
    assert omitted_renditions((), ("720p",), has_copy=False) == frozenset()


def ordered(
    source: Source, order: Begin, changes: dict[float, tuple[str, ...]]
) -> list[EngineOrder]:
    """A whole epoch; `changes` says what is to be off from which of its seconds on."""
    orders: list[EngineOrder] = [order]
    due = sorted(changes.items())
    for packet in source.packets:
        while due and packet.video and packet.dts - source.pictures[0].dts >= due[0][0] * 1_000:
            orders.append(LeaveOut(off=due.pop(0)[1]))
        orders.append(packet)
    return [*orders, *(LeaveOut(off=off) for _, off in due), Finish()]


def gaps(output: EngineOutput, name: str) -> list[bool]:
    return [segment.gap for segment in output.segments(name)]


def whole(output: EngineOutput) -> bool:
    """Whether all renditions are in step, gaps are empty and nothing has a hole in its numbers."""
    assert (output.status, output.complaints) == (0, "")
    assert output.in_step()
    for name in output.names:
        segments = output.segments(name)
        assert [each.sequence for each in segments] == list(range(len(segments)))
        for one, other in itertools.pairwise(segments):
            if one.epoch == other.epoch:
                assert one.start + one.duration == other.start
        for gap in (each for each in segments if each.gap):
            assert (gap.size, gap.parts, gap.frames) == (0, 0, 0)
            assert not output.data(gap)
            newest = [init.number for init in output.inits(name)]
            assert gap.init in (newest or [0])
        stamps = [dts for file in output.files(name) for dts, _, _ in packets(file)]
        assert all(a < b for a, b in itertools.pairwise(stamps))
    return True


def times(output: EngineOutput, name: str) -> list[int]:
    return [pts for file in output.files(name) for pts, _, _ in frames(file)]


def expected_times(output: EngineOutput, name: str, source: Source) -> list[int]:
    """The times of all of the source's frames in the segments that are no gaps."""
    first = source.pictures[0].pts
    every = sorted(ORIGIN + 90 * (packet.pts - first) for packet in source.pictures)
    times_kept: list[int] = []
    for segment in output.segments(name):
        low, high = segment.start, segment.start + segment.duration
        times_kept += [pts for pts in every if not segment.gap and low <= pts < high]
    return times_kept


@pytest.fixture(scope="module")
def shed(two_seconds: Source) -> EngineOutput:
    """One encoded rung is off from 1 s to 6 s; each order comes in the middle of a segment."""
    return run(ordered(two_seconds, begin(two_seconds), {1.0: ("480p",), 4.5: ()}))


def test_a_rung_is_left_out_from_cut_to_cut_and_comes_back(
    shed: EngineOutput, two_seconds: Source
) -> None:
    assert whole(shed)
    # The segment that was open when the order came is abandoned.
    assert gaps(shed, "480p") == [True, True, True, False]
    for name in ("720p", "360p", AUDIO_RENDITION):
        assert not any(gaps(shed, name))
    assert times(shed, "480p") == expected_times(shed, "480p", two_seconds)
    assert shed.troubles == {}
    assert not any(segment.discontinuity for segment in shed.of(Segment))


def test_gaps_begin_and_end_with_the_segments_of_the_others(shed: EngineOutput) -> None:
    for one, other in zip(shed.segments("480p"), shed.segments("360p"), strict=True):
        assert one.start == other.start
        assert abs(one.duration - other.duration) <= 2


def test_what_stays_on_has_every_frame(shed: EngineOutput, two_seconds: Source) -> None:
    count = len(two_seconds.pictures)
    out = shed.finished.frames_out
    assert (out["720p"], out["360p"], out["480p"]) == (count, count, count // 4)
    assert times(shed, "360p") == expected_times(shed, "360p", two_seconds)


def test_a_rung_that_comes_back_needs_no_other_init_and_decodes_silently(
    shed: EngineOutput,
) -> None:
    assert len(shed.inits("480p")) == 1
    assert {segment.init for segment in shed.segments("480p")} == {0}
    assert warnings(shed) == {}


def test_with_all_encoded_rungs_off_nothing_is_decoded(two_seconds: Source) -> None:
    first = two_seconds.pictures[0].pts
    # A decoder would count garbage as trouble.
    torn = msgspec.structs.replace(
        two_seconds,
        packets=tuple(
            msgspec.structs.replace(packet, data=packet.data[:40].ljust(len(packet.data), b"\1"))
            if packet.video and not packet.key and 2_000 < packet.pts - first < 6_000
            else packet
            for packet in two_seconds.packets
        ),
    )
    changes: dict[float, tuple[str, ...]] = {1.0: ("480p", "360p"), 5.0: ()}
    output = run(ordered(torn, begin(torn), changes))
    assert output.troubles == {}
    assert whole(output)
    assert gaps(output, "480p") == gaps(output, "360p") == [True, True, True, False]
    assert [data for _, _, data in packets(output.files("720p")[0])] == torn.published
    for name in ("480p", "360p"):
        assert times(output, name) == expected_times(output, name, two_seconds)


def test_a_rung_that_is_off_from_the_beginning_begins_later(two_seconds: Source) -> None:
    order = msgspec.structs.replace(begin(two_seconds), off=("480p", "360p", "90p"))
    output = run(ordered(two_seconds, order, {3.0: ("480p",)}))
    assert whole(output)
    assert gaps(output, "480p") == [True] * 4
    assert output.inits("480p") == []
    assert gaps(output, "360p") == [True, True, False, False]
    assert times(output, "360p") == expected_times(output, "360p", two_seconds)
    assert (output.troubles, warnings(output)) == ({}, {})
    (prepared,) = output.of(Prepared)
    assert prepared.names == (*RUNGS, AUDIO_RENDITION), "a gap is a rendition too"


def test_what_is_off_holds_for_the_epochs_that_follow(two_seconds: Source) -> None:
    output = run(
        ordered(two_seconds, begin(two_seconds), {7.0: ("360p",), 7.9: ("480p", "360p")}),
        ordered(two_seconds, begin(two_seconds, epoch=1), {3.0: ("360p",), 7.0: ()}),
    )
    assert whole(output)
    # How many segments the encoders had finished when the orders came nobody knows.
    assert gaps(output, "480p")[3:] == [True, True, True, False, False]
    assert gaps(output, "360p")[3:] == [True, True, True, True, True]
    marks = [segment.sequence for segment in output.segments("360p") if segment.discontinuity]
    assert marks == [4]
    ends = {
        segment.start + segment.duration
        for name in RUNGS
        for segment in output.segments(name)
        if segment.sequence == 7
    }
    assert max(ends) - min(ends) <= FRAME, "the last gap ends with the epoch"
    assert output.troubles == {}


def test_without_the_sources_packets_the_smallest_rung_stays(two_seconds: Source) -> None:
    output = run(
        ordered(two_seconds, begin(two_seconds, reuse=False), {1.0: RUNGS, 5.0: ("360p",)})
    )
    assert whole(output)
    assert gaps(output, "720p") == gaps(output, "480p") == [True, True, True, False]
    assert gaps(output, "360p")[2:] == [True, True]
    assert times(output, "720p") == expected_times(output, "720p", two_seconds)
    assert times(output, "360p") == expected_times(output, "360p", two_seconds)
    assert output.troubles == {}


# -- the encoder takes the top rung over ----------------------------------------------------------


def test_a_top_rung_that_is_off_is_left_out_once_the_encoder_makes_it(rare: Source) -> None:
    output = run(ordered(rare, begin(rare), {1.0: ("480p",), 7.0: ()}))
    assert whole(output)
    assert gaps(output, "480p") == [False, True, True, False]
    assert gaps(output, "360p") == [False] * 4
    assert not any(segment.discontinuity for segment in output.segments("480p"))
    assert times(output, "480p") == expected_times(output, "480p", rare)
    assert output.of(TakenOver) == [TakenOver(epoch=0)]
    assert (output.troubles, warnings(output)) == ({}, {})


def test_a_takeover_with_all_rungs_off_wakes_the_smallest_between_keyframes(rare: Source) -> None:
    output = run(ordered(rare, begin(rare), {0.5: ("480p", "360p")}))
    assert whole(output)
    assert gaps(output, "480p") == [False, True, True, True]
    assert gaps(output, "360p") == [True, False, False, False]
    assert times(output, "480p") == expected_times(output, "480p", rare)
    assert times(output, "360p") == expected_times(output, "360p", rare)
    assert (output.troubles, warnings(output)) == ({}, {})


def test_a_takeover_of_rungs_that_slept_begins_with_whole_pictures(rare: Source) -> None:
    order = msgspec.structs.replace(begin(rare), off=("480p", "360p"))
    output = run(ordered(rare, order, {}))
    assert whole(output)
    assert gaps(output, "360p") == [True, False, False, False]
    assert times(output, "360p") == expected_times(output, "360p", rare)
    assert (output.troubles, warnings(output)) == ({}, {})


def test_a_lone_rung_stays_whatever_is_asked(rare: Source) -> None:
    order = begin(rare)
    assert order.ladder
    alone = msgspec.structs.replace(
        order, ladder=Ladder(order.ladder.renditions[:1]), off=("480p",)
    )
    output = run(ordered(rare, alone, {}))
    assert whole(output)
    assert not any(gaps(output, "480p"))
    assert times(output, "480p") == expected_times(output, "480p", rare)


def test_an_epoch_that_ends_in_gaps_ends_with_its_source(rare: Source) -> None:
    begun = rare.pictures[0].dts
    packets = tuple(packet for packet in rare.packets if packet.dts - begun < 7_500)
    source = msgspec.structs.replace(rare, packets=packets)
    output = run(ordered(source, begin(source), {5: ("480p",), 6.5: ("360p",)}))
    assert whole(output)
    last = [output.segments(name)[-1] for name in output.names]
    assert [each.gap for each in last] == [name != AUDIO_RENDITION for name in output.names]
    shown = max(packet.pts for packet in source.pictures) - source.pictures[0].pts
    for each in (each for each in last if each.gap):
        assert abs(each.start + each.duration - ORIGIN - shown * 90 - FRAME) < FRAME


@pytest.mark.parametrize(
    "seed", [0, 3, *(pytest.param(seed, marks=pytest.mark.prove) for seed in (1, 2))]
)
def test_whatever_is_asked_of_whatever_source_all_renditions_stay_in_step(
    two_seconds: Source, seed: int
) -> None:
    chance = random.Random(seed)
    orders: list[EngineOrder] = [begin(two_seconds, reuse=seed % 2 == 0)]
    for packet in two_seconds.packets:
        if chance.random() < 0.02:
            orders.append(LeaveOut(off=tuple(chance.sample(RUNGS, chance.randrange(4)))))
        data = bytearray(packet.data)
        if packet.video and chance.random() < 0.05:
            for _ in range(1 + len(data) // 500):
                data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        if not packet.video or chance.random() > 0.02:
            orders.append(msgspec.structs.replace(packet, data=bytes(data)))
    output = run([*orders, Finish()])
    assert whole(output)
    assert output.names == sorted((*RUNGS, AUDIO_RENDITION))
    assert any(segment.gap for segment in output.of(Segment))
    assert len(output.segments("720p")) >= 4


# -- reports meanwhile ----------------------------------------------------------------------------


def test_the_cpu_time_of_each_rung_is_reported(two_seconds: Source) -> None:
    mute = msgspec.structs.replace(two_seconds, audio=None, packets=tuple(two_seconds.pictures))
    # The first is whole: a rung that is left out ends at once, perhaps before its first picture.
    changes: list[dict[float, tuple[str, ...]]] = [{}, *([{1.0: ("480p",)}] * 3)]
    epochs = [
        ordered(mute, begin(mute, epoch=epoch), change)[:-1] for epoch, change in enumerate(changes)
    ]
    # One report comes each second.
    output = run_with_pauses([*epochs[0], *epochs[1]], [*epochs[2], *epochs[3]], pause=1.1)
    reported = [report.rung_cpu_ms for report in output.of(Progress)]
    assert len(reported) >= 2
    last = output.of(Progress)[-1]
    assert set(last.rung_cpu_ms) == {"480p", "360p"}, "the top rung costs no encoder"
    assert last.rung_cpu_ms["360p"] > 100
    assert sum(last.rung_cpu_ms.values()) < last.cpu_ms
    for one, other in itertools.pairwise(reported):
        assert all(other[name] >= one[name] for name in one)
    assert all(0 <= report.made <= report.taken for report in output.of(Progress))
