"""Each sentence of advice, where it is due and where it is not."""

from typing import Any

import pytest
from msgspec.structs import replace

from ingest.report.advice import advice, compare_encoders
from media.encoder_report import (
    ClockReport,
    EncoderReport,
    KeyframeReport,
    NetworkReport,
    PictureReport,
    SecondsReport,
    SoundReport,
)
from media.ladder import BOXES
from media.stream_keys import Slot

ALL = frozenset(box.label for box in BOXES)
PRIMARY, BACKUP, SECOND = Slot(0), Slot(1), Slot(2)

KEYFRAMES = KeyframeReport(
    intervals=29,
    min_seconds=2.0,
    median_seconds=2.0,
    max_seconds=2.0,
    since_seconds=1.5,
    fixed=True,
)
PICTURE = PictureReport(
    codec="H.264",
    profile="High",
    level="3.1",
    width=1280,
    height=720,
    configuration="0123abcd",
    plays_everywhere=True,
    announced_frame_rate=30.0,
    frame_rate=30.0,
    frame_rate_varies=False,
    frames=1800,
    frames_missing=0,
    bit_rate=2_800_000,
    peak_bit_rate=3_400_000,
    keyframes=KEYFRAMES,
    b_frames=2,
    open_gop=False,
)
SOUND = SoundReport(
    codec="AAC",
    rate=48_000,
    channels=2,
    configuration="11901190",
    bit_rate=160_000,
    peak_bit_rate=165_000,
)
NETWORK = NetworkReport(
    measured_seconds=60.0, jitter_ms=30, silent_seconds=0.02, longest_silence_seconds=0.2
)
CLOCK = ClockReport(drift_ppm=40, drift_seconds=600.0, jumps=0, steps_back=0, interleave_ms=60)
EACH_SECOND = SecondsReport(newest=60, bit_rates=[], frames=[], keyframe_seconds=[])
GOOD = EncoderReport(video=PICTURE, audio=SOUND, network=NETWORK, clock=CLOCK, seconds=EACH_SECOND)


def with_picture(**changes: Any) -> EncoderReport:
    return replace(GOOD, video=replace(PICTURE, **changes))


def with_keyframes(**changes: Any) -> EncoderReport:
    return with_picture(keyframes=replace(KEYFRAMES, **changes))


def intervals(least: float, most: float, *, fixed: bool) -> EncoderReport:
    return with_keyframes(
        min_seconds=least, median_seconds=most, max_seconds=most, fixed=fixed, since_seconds=0.5
    )


def with_network(**changes: Any) -> EncoderReport:
    return replace(GOOD, network=replace(NETWORK, **changes))


def with_clock(**changes: Any) -> EncoderReport:
    return replace(GOOD, clock=replace(CLOCK, **changes))


def test_an_announced_picture_that_does_not_come_is_named() -> None:
    sound = replace(GOOD, video=None)
    assert advice(sound, ALL) == []
    (sentence,) = advice(sound, ALL, picture_is_due=True)
    assert "sends only sound" in sentence
    nothing = replace(GOOD, video=None, audio=None)
    assert advice(nothing, ALL, picture_is_due=True) == []


@pytest.mark.parametrize(
    "report",
    [
        pytest.param(GOOD, id="set well"),
        pytest.param(intervals(1.0, 1.0, fixed=True), id="1 s"),
        pytest.param(intervals(2.5, 2.5, fixed=True), id="2.5 s"),
        pytest.param(with_picture(frame_rate=60.0, announced_frame_rate=60.0), id="60 a second"),
        pytest.param(with_picture(announced_frame_rate=None), id="nothing announced"),
        pytest.param(with_picture(announced_frame_rate=60.0), id="fields announced"),
        pytest.param(with_picture(frames_missing=20), id="a few frames missing"),
        pytest.param(with_picture(bit_rate=100_000, peak_bit_rate=2_000_000), id="a still picture"),
        pytest.param(
            replace(GOOD, video=None, network=replace(NETWORK, measured_seconds=0.1)), id="begins"
        ),
        pytest.param(replace(GOOD, video=None), id="sound alone"),
        pytest.param(
            replace(GOOD, audio=None, network=replace(NETWORK, measured_seconds=3.0)),
            id="sound may yet come",
        ),
        pytest.param(replace(GOOD, audio=replace(SOUND, channels=1)), id="mono"),
        pytest.param(with_clock(drift_ppm=-5000, drift_seconds=60.0), id="drift not sure yet"),
        pytest.param(
            replace(
                GOOD,
                clock=replace(CLOCK, drift_ppm=900),
                network=replace(NETWORK, jitter_ms=400),
            ),
            id="drift under jitter",
        ),
        pytest.param(
            with_keyframes(
                intervals=0,
                min_seconds=None,
                median_seconds=None,
                max_seconds=None,
                since_seconds=3.0,
                fixed=None,
            ),
            id="the second keyframe is on its way",
        ),
    ],
)
def test_a_good_encoder_gets_no_advice(report: EncoderReport) -> None:
    assert advice(report, ALL) == []


@pytest.mark.parametrize(
    ("report", "parts"),
    [
        pytest.param(
            intervals(8.0, 8.0, fixed=True), ("keyframe interval is 8 s", "set 2 s"), id="8 s"
        ),
        pytest.param(
            intervals(3.0, 3.0, fixed=True), ("keyframe interval is 3 s", "set 2 s"), id="3 s"
        ),
        pytest.param(intervals(0.4, 8.33, fixed=False), ("0.4 to 8.33 s", "set 2 s"), id="free"),
        pytest.param(
            intervals(0.4, 2.0, fixed=False),
            ("irregularly", "0.4 to 2 s", "scene cuts"),
            id="scene cuts",
        ),
        pytest.param(
            with_keyframes(
                intervals=0,
                min_seconds=None,
                median_seconds=None,
                max_seconds=None,
                since_seconds=12.0,
                fixed=None,
            ),
            ("No keyframe came for 12.0 s", "2 s"),
            id="one keyframe",
        ),
        pytest.param(with_keyframes(since_seconds=9.0), ("is 9 s", "set 2 s"), id="stopped"),
        pytest.param(with_picture(b_frames=4), ("4 B-frames", "set 2"), id="B-frames"),
        pytest.param(with_picture(open_gop=True), ("open GOP", "closed"), id="open GOP"),
        pytest.param(
            with_picture(codec="HEVC", profile="Main", plays_everywhere=False),
            ("HEVC", "set H.264"),
            id="HEVC",
        ),
        pytest.param(
            with_picture(profile="High 10", plays_everywhere=False),
            ("H.264 High 10", "4:2:0"),
            id="10 bit",
        ),
        pytest.param(with_picture(width=1279), ("1279x720", "even"), id="odd size"),
        pytest.param(
            with_picture(frame_rate=120.0, announced_frame_rate=120.0),
            ("120 frames/s", "set 60 or 30"),
            id="120 a second",
        ),
        pytest.param(
            with_picture(frame_rate_varies=True), ("variable frame rate", "constant"), id="VFR"
        ),
        pytest.param(
            with_picture(frames=1620, frames_missing=180, frame_rate=27.0),
            ("10 %", "27 frames/s"),
            id="frames missing",
        ),
        pytest.param(
            with_picture(announced_frame_rate=60.0, frame_rate=41.0),
            ("announces 60", "sends 41"),
            id="overloaded",
        ),
        pytest.param(
            with_picture(bit_rate=14_200_000, peak_bit_rate=15_000_000),
            ("14.2 Mbit/s", "2.8 are enough for 720p"),
            id="bits",
        ),
        pytest.param(
            with_picture(bit_rate=2_000_000, peak_bit_rate=9_500_000),
            ("2.0 Mbit/s", "9.5", "CBR"),
            id="swings",
        ),
        pytest.param(replace(GOOD, audio=None), ("No audio is sent",), id="no sound"),
        pytest.param(
            replace(GOOD, audio=replace(SOUND, channels=6)), ("6 channels", "stereo"), id="5.1"
        ),
        pytest.param(with_network(jitter_ms=800), ("800 ms", "lower the bit rate"), id="jitter"),
        pytest.param(
            with_network(longest_silence_seconds=1.8), ("1.8 s", "last minute"), id="a hole"
        ),
        pytest.param(
            with_network(silent_seconds=4.0, longest_silence_seconds=4.0),
            ("has come for 4.0 s",),
            id="silent",
        ),
        pytest.param(
            with_clock(drift_ppm=350), ("350 ppm fast", "21 ms a minute", "NTP"), id="drift"
        ),
        pytest.param(with_clock(drift_ppm=-350), ("350 ppm slow",), id="drift the other way"),
        pytest.param(with_clock(jumps=3), ("jumped 3 times", "minutes: restart"), id="jumps"),
        pytest.param(with_clock(steps_back=1), ("went back once",), id="a step back"),
        pytest.param(
            with_clock(interleave_ms=1400), ("1.4 s apart", "audio delay"), id="interleave"
        ),
    ],
)
def test_one_fault_gives_one_sentence_with_its_number_and_its_remedy(
    report: EncoderReport, parts: tuple[str, ...]
) -> None:
    (sentence,) = advice(report, ALL)
    assert sentence.endswith(".")
    assert [part for part in parts if part not in sentence] == []


def test_averages_give_no_advice_before_they_are_settled() -> None:
    bad = replace(
        GOOD,
        video=replace(PICTURE, frame_rate_varies=True, bit_rate=20_000_000),
        network=replace(NETWORK, measured_seconds=4.0),
    )
    assert advice(bad, ALL) == []


@pytest.mark.parametrize(
    ("size", "active", "parts"),
    [
        ((1920, 1080), {"720p", "360p"}, ("1920x1080", "1080p is not switched on", "send 720p")),
        ((1080, 1920), {"720p"}, ("1080x1920", "send 720p")),
        ((1920, 1080), {"1080p"}, None),
        # The source's own box is the only rung there can be.
        ((1920, 1080), frozenset[str](), None),
        ((640, 360), {"720p"}, None),
    ],
)
def test_a_picture_larger_than_the_largest_rung_gets_advice(
    size: tuple[int, int], active: set[str], parts: tuple[str, ...] | None
) -> None:
    sentences = advice(
        with_picture(width=size[0], height=size[1], bit_rate=700_000, peak_bit_rate=800_000),
        frozenset(active),
    )
    if parts is None:
        assert sentences == []
    else:
        assert len(sentences) == 1
        assert [part for part in parts if part not in sentences[0]] == []


def test_encoders_that_are_set_alike_need_no_advice() -> None:
    assert compare_encoders({}) == []
    assert compare_encoders({PRIMARY: GOOD}) == []
    other = with_picture(bit_rate=1_000_000, frame_rate=29.97, b_frames=1, configuration="ffffffff")
    assert compare_encoders({PRIMARY: GOOD, BACKUP: other, SECOND: GOOD}) == []


@pytest.mark.parametrize(
    ("other", "parts"),
    [
        (
            with_picture(width=640, height=360, frame_rate=25.0),
            ("1280x720 and 640x360", "30 and 25 frames/s", "shows a discontinuity"),
        ),
        (
            with_picture(codec="HEVC", plays_everywhere=False),
            ("H.264 and HEVC", "shows a discontinuity"),
        ),
        (with_picture(profile="Main"), ("profile High and Main", "may show")),
        (with_picture(frame_rate=25.0), ("30 and 25 frames/s", "may show")),
        (replace(GOOD, video=None), ("one sends no picture", "shows a discontinuity")),
        (replace(GOOD, audio=None), ("one sends no sound", "may be heard")),
        (
            replace(GOOD, audio=replace(SOUND, rate=44_100, channels=1, codec="MP3")),
            ("AAC and MP3", "48000 and 44100 Hz", "2 and 1 channels", "may be heard"),
        ),
    ],
)
def test_the_advice_names_the_differences_of_two_encoders(
    other: EncoderReport, parts: tuple[str, ...]
) -> None:
    (sentence,) = compare_encoders({BACKUP: other, PRIMARY: GOOD})
    assert sentence.startswith("Primary and backup-1 have different settings (")
    assert sentence.endswith("set both alike.")
    assert [part for part in parts if part not in sentence] == []


def test_every_backup_is_compared_with_the_primary() -> None:
    other = with_picture(frame_rate=25.0)
    sentences = compare_encoders({SECOND: other, BACKUP: other})
    assert sentences == []
    nothing = replace(GOOD, video=None, audio=None)  # it has just connected
    assert compare_encoders({PRIMARY: GOOD, BACKUP: nothing}) == []
    assert compare_encoders({PRIMARY: nothing, BACKUP: GOOD}) == []
    sentences = compare_encoders({PRIMARY: GOOD, SECOND: other, BACKUP: other})
    assert [each.split(" have")[0] for each in sentences] == [
        "Primary and backup-1",
        "Primary and backup-2",
    ]
