"""The announced bit rates and frame rates, and when the announcement changes."""

import random
from fractions import Fraction

import pytest

from delivery.run.variants import RenditionMeasure, build_multivariant, frame_rate
from media.hls.playlist import MultivariantPlaylist
from media.ladder import AUDIO_RENDITION, Rendition

SECOND = 90_000
RUNGS = (
    Rendition(name="1080p", width=1920, height=1080, rate=5_000_000, source_size=True),
    Rendition(name="720p", width=1280, height=720, rate=2_800_000),
    Rendition(name="480p", width=854, height=480, rate=1_400_000),
    Rendition(name="360p", width=640, height=360, rate=800_000),
)
CODECS = dict.fromkeys((*(rung.name for rung in RUNGS), AUDIO_RENDITION), "x")


def measured(*cuts: tuple[int, int], frames: int = 60) -> RenditionMeasure:
    """Cuts are size in bytes and duration in milliseconds."""
    measure = RenditionMeasure()
    for size, duration in cuts:
        measure = measure.with_segment(size, duration * 90, frames=frames, epoch=0)
    return measure


def test_the_peak_is_the_highest_rate_of_2_to_6_seconds() -> None:
    steady = measured((250_000, 2000), (250_000, 2000), (500_000, 2000), (250_000, 2000))
    assert (steady.peak, steady.average) == (2_000_000, 1_250_000)
    # Less than 2 s alone is no peak, however dense it is; with its neighbour it is 2.5 s.
    short = measured((250_000, 2000), (125_000, 500), (250_000, 2000))
    assert short.peak == 8 * 375_000 * 2 // 5
    # 3 s segments: one alone, or two of them.
    assert measured((300_000, 3000), (600_000, 3000), (300_000, 3000)).peak == 1_600_000


def test_a_peak_stays_when_the_media_calm_down() -> None:
    assert measured((900_000, 2000), *[(100_000, 2000)] * 50).peak == 3_600_000


def stamped(rate: Fraction, seconds: float, rounding: str, seed: int) -> RenditionMeasure:
    """Segments of a source whose time stamps are whole milliseconds."""
    offset = Fraction(random.Random(seed).randrange(1000), 1000)  # where in a millisecond it began
    measure = RenditionMeasure()

    def stamp(frame: int) -> int:
        exact = Fraction(frame * 1000) / rate + offset
        return round(exact) if rounding == "nearest" else int(exact)

    frame = 0
    while frame / rate < seconds:
        count = round(2 * rate)
        span = (stamp(frame + count) - stamp(frame)) * 90
        measure = measure.with_segment(1000, span, frames=count, epoch=0)
        frame += count
    return measure


@pytest.mark.parametrize("rounding", ["nearest", "down"])
@pytest.mark.parametrize(
    ("rate", "announced"),
    [
        (Fraction(24000, 1001), 23_976),
        (Fraction(24), 24_000),
        (Fraction(25), 25_000),
        (Fraction(30000, 1001), 29_970),
        (Fraction(30), 30_000),
        (Fraction(50), 50_000),
        (Fraction(60000, 1001), 59_940),
        (Fraction(60), 60_000),
    ],
)
def test_the_frame_rate_is_true_through_millisecond_stamps(
    rate: Fraction, announced: int, rounding: str
) -> None:
    for seed in range(20):
        announced_rate = 0
        for seconds in (2, 4, 20, 100):
            announced_rate = frame_rate(stamped(rate, seconds, rounding, seed), announced_rate)
            assert announced_rate == announced


def test_an_unusual_frame_rate_is_announced_unchanged_until_it_is_wrong() -> None:
    assert frame_rate(measured((1, 2000), frames=35), 0) == 17_500
    assert frame_rate(measured((1, 2000), (1, 1980), frames=35), 17_500) == 17_500
    assert frame_rate(measured((1, 2000), (1, 1900), frames=35), 17_500) == 17_948


def test_a_new_source_is_measured_by_itself_once_there_is_enough_of_it() -> None:
    measure = measured((1, 2000), (1, 2000), frames=60)
    measure = measure.with_segment(1, SECOND, frames=60, epoch=1)
    assert frame_rate(measure, 30_000) == 30_000
    measure = measure.with_segment(1, SECOND, frames=60, epoch=1)
    assert frame_rate(measure, 30_000) == 60_000


def variants_for(
    size: int, before: MultivariantPlaylist | None = None, *, peak: int = 0
) -> MultivariantPlaylist:
    picture = measured(*[(size, 2000)] * 10, *([(peak, 2000)] if peak else []))
    measures = dict.fromkeys((rung.name for rung in RUNGS), picture)
    measures[AUDIO_RENDITION] = measured(*[(32_000, 2000)] * 10, frames=94)
    return build_multivariant("run", RUNGS, measures, CODECS, before)


def test_the_first_variant_is_near_2_megabits_and_the_others_follow_from_the_top() -> None:
    assert [variant.uri for variant in variants_for(500_000).variants] == [
        f"run/{name}/index.m3u8" for name in ("480p", "1080p", "720p", "360p")
    ]


def test_rates_are_with_the_sound_and_rounded_to_three_digits_peaks_upwards() -> None:
    variant = variants_for(500_400, peak=600_100).variants[0]
    assert (variant.bandwidth, variant.average) == (2_530_000, 2_170_000)


@pytest.mark.parametrize(
    ("size", "peak", "news"),
    [
        pytest.param(500_000, 0, False, id="the same"),
        pytest.param(480_000, 0, False, id="a little less"),
        pytest.param(460_000, 0, True, id="an average that is off"),
        pytest.param(490_000, 520_000, True, id="a higher peak"),
    ],
)
def test_the_announcement_changes_when_it_would_mislead(size: int, peak: int, news: bool) -> None:
    before = variants_for(500_000)
    assert (variants_for(size, before, peak=peak) is not before) is news


def test_another_coding_or_size_is_announced_at_once() -> None:
    before = variants_for(500_000)
    measures = dict.fromkeys(CODECS, measured((500_000, 2000)))
    other = build_multivariant("run", RUNGS, measures, {**CODECS, "720p": "y"}, before)
    assert other is not before
    assert other.variants[2].codecs == ("y", "x")
    bigger = (Rendition(name="1080p", width=1440, height=1080, rate=5_000_000), *RUNGS[1:])
    assert build_multivariant("run", bigger, measures, CODECS, before).variants[1].width == 1440


def test_another_run_is_announced_at_once() -> None:
    measures = dict.fromkeys(CODECS, measured((500_000, 2000)))
    before = build_multivariant("run", RUNGS, measures, CODECS, None)
    assert (
        build_multivariant("next", RUNGS, measures, CODECS, before)
        .variants[0]
        .uri.startswith("next/")
    )


def test_a_gap_counts_for_nothing_and_no_peak_reaches_across_it() -> None:
    before = measured((100_000, 1500))
    gap = before.with_gap()
    assert (gap.size, gap.ticks, gap.peak, gap.rate) == (100_000, 135_000, 0, before.rate)
    # Together they would be 2.5 s long and a peak; with a gap between them they are not together.
    assert before.with_segment(100_000, SECOND, frames=30, epoch=0).peak > 0
    assert gap.with_segment(100_000, SECOND, frames=30, epoch=0).peak == 0


def rungs_there(*names: str, before: MultivariantPlaylist | None = None) -> MultivariantPlaylist:
    measures = dict.fromkeys(CODECS, measured((500_000, 2000)))
    codecs = {name: CODECS[name] for name in (*names, AUDIO_RENDITION)}
    gaps = {rung.name for rung in RUNGS} - set(names)
    return build_multivariant("run", RUNGS, measures, codecs, before, gaps)


@pytest.mark.parametrize(
    ("there", "announced"),
    [
        pytest.param(("1080p", "720p", "360p"), ("720p", "1080p", "360p"), id="the first is gone"),
        pytest.param(("1080p", "480p"), ("480p", "1080p"), id="two are gone"),
        pytest.param(("1080p",), ("1080p",), id="one is left"),
    ],
)
def test_gaps_are_no_variants_and_the_nearest_to_2_megabits_is_first(
    there: tuple[str, ...], announced: tuple[str, ...]
) -> None:
    rungs = rungs_there(*there, before=rungs_there(*(rung.name for rung in RUNGS)))
    assert [variant.uri for variant in rungs.variants] == [f"run/{n}/index.m3u8" for n in announced]
    assert [sound.uri for sound in rungs.sounds] == ["run/audio/index.m3u8"]


def test_where_all_rungs_are_gaps_the_announcement_stays() -> None:
    before = rungs_there("1080p", "360p")
    assert rungs_there(before=before) is before


def test_a_rung_that_returns_is_what_it_was() -> None:
    whole = rungs_there(*(rung.name for rung in RUNGS))
    fewer = rungs_there("1080p", before=whole)
    assert rungs_there(*(rung.name for rung in RUNGS), before=fewer) == whole
    # The frame rate was measured before; one short segment of a new source is not enough.
    long = measured(*[(1, 2000)] * 20, frames=60).with_gap()
    assert long.with_segment(1, SECOND, frames=29, epoch=1).rate == 30_000


def test_no_average_is_above_its_peak() -> None:
    source = random.Random(7)
    for _ in range(300):
        cuts = [(source.randrange(1, 10**6), source.randrange(100, 4000)) for _ in range(4)]
        measures = dict.fromkeys(CODECS, measured(*cuts))
        for variant in build_multivariant("run", RUNGS, measures, CODECS, None).variants:
            assert (variant.average or 0) <= variant.bandwidth


def test_while_a_run_goes_on_the_encoders_bound_is_announced_and_a_margin_where_there_is_none() -> (
    None
):
    calm = dict.fromkeys(CODECS, measured(*[(100_000, 2000)] * 3))  # 0.4 Mbit/s
    bounds = {rung.name: rung.peak_rate for rung in RUNGS[1:]} | {AUDIO_RENDITION: 500_000}
    multivariant = build_multivariant("run", RUNGS, calm, CODECS, None, bounds=bounds)
    announced = {variant.uri.split("/")[1]: variant.bandwidth for variant in multivariant.variants}
    assert announced == {
        "1080p": 500_000 + 500_000,
        **{rung.name: round(1.25 * rung.rate) + 500_000 for rung in RUNGS[1:]},
    }
    busy = dict(calm, **{"480p": measured((1_000_000, 2000))})  # 4 Mbit/s: no bound is trusted
    again = build_multivariant("run", RUNGS, busy, CODECS, multivariant, bounds=bounds)
    assert again.variants[0].bandwidth == 4_500_000
    assert (
        build_multivariant("run", RUNGS, calm, CODECS, multivariant, bounds=bounds) is multivariant
    )
