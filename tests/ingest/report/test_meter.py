"""Measured encoders whose packets are all known: pictures, keyframes, sound."""

import random
import tracemalloc
from itertools import count

import pytest

from ingest.report.meter import Meter
from media.packet import MediaPacket
from media.track import VideoCodec, VideoTrack
from tests.support.ingest.measured_encoders import (
    AUDIO,
    FRAME_BYTES,
    SOUND_BYTES,
    SOUND_SECONDS,
    START,
    VIDEO,
    audio_packets,
    measured,
    picture,
    pictures,
)


def test_a_well_set_encoder_is_measured_exactly() -> None:
    report = measured(pictures(70), audio_packets(70))
    video, sound = picture(report), report.audio
    assert sound is not None
    assert (video.codec, video.width, video.height) == ("H.264", 1280, 720)
    assert (video.frame_rate, video.frame_rate_varies, video.frames_missing) == (30.0, False, 0)
    assert video.bit_rate == pytest.approx(8 * 30 * FRAME_BYTES, rel=0.001)
    assert video.peak_bit_rate == pytest.approx(8 * 30 * FRAME_BYTES, rel=0.04)
    facts = video.keyframes
    assert (facts.min_seconds, facts.median_seconds, facts.max_seconds) == (2.0, 2.0, 2.0)
    assert facts.fixed
    assert facts.intervals >= 28
    assert 0 <= facts.since_seconds < 2
    assert (video.b_frames, video.open_gop) == (0, False)
    assert (sound.codec, sound.rate, sound.channels) == ("AAC", 48_000, 2)
    assert sound.bit_rate == pytest.approx(8 * SOUND_BYTES / SOUND_SECONDS, rel=0.001)
    assert report.network.jitter_ms in (0, 1)
    assert report.network.longest_silence_seconds <= 0.04
    assert report.network.measured_seconds == 60
    assert report.clock.drift_ppm is not None
    assert abs(report.clock.drift_ppm) <= 30
    assert (report.clock.jumps, report.clock.steps_back) == (0, 0)
    assert report.clock.interleave_ms is not None
    assert report.clock.interleave_ms <= 34
    assert len(report.seconds.frames) in (59, 60)
    assert set(report.seconds.frames) <= {29, 30, 31}
    assert set(report.seconds.keyframe_seconds[2:]) == {2.0}
    whole = 8 * (30 * FRAME_BYTES + SOUND_BYTES / SOUND_SECONDS)
    assert report.seconds.bit_rates == pytest.approx([whole] * len(report.seconds.frames), rel=0.04)


@pytest.mark.parametrize("fps", [23.976, 25.0, 29.97, 50.0, 59.94, 60.0])
def test_close_frame_rates_are_distinguished_and_do_not_vary(fps: float) -> None:
    video = picture(measured(pictures(70, fps=fps)))
    assert video.frame_rate == pytest.approx(fps, abs=0.01)
    assert (video.frame_rate_varies, video.frames_missing) == (False, 0)


@pytest.mark.parametrize("gop_seconds", [1, 2, 8, 10])
def test_fixed_keyframe_intervals_are_measured(gop_seconds: int) -> None:
    facts = picture(measured(pictures(60, gop=30 * gop_seconds))).keyframes
    lengths = (facts.min_seconds, facts.median_seconds, facts.max_seconds)
    assert lengths == (gop_seconds,) * 3
    assert facts.fixed
    assert facts.intervals == 59 // gop_seconds


def test_variable_and_endless_keyframe_intervals_are_measured() -> None:
    early = list(pictures(10, gop=60)) + list(pictures(10, gop=100, begin=10.0))
    facts = picture(measured(iter(early))).keyframes
    assert (facts.min_seconds, facts.fixed) == (2.0, False)
    assert facts.max_seconds == pytest.approx(3.333, abs=0.002)
    facts = picture(measured(pictures(20, gop=10_000))).keyframes
    assert (facts.intervals, facts.min_seconds, facts.max_seconds, facts.fixed) == (
        *(0, None, None, None),
    )
    assert facts.since_seconds == pytest.approx(20, abs=0.05)


@pytest.mark.parametrize("depth", [1, 2, 3, 7])
def test_b_frames_are_counted_between_their_anchors(depth: int) -> None:
    video = picture(measured(pictures(20, frames=depth + 1)))
    assert video.b_frames == depth
    assert video.open_gop is False


def test_b_frames_that_refer_to_each_other_are_counted() -> None:
    # x264's pyramid: I P4 B2 b1 b3, P8 B6 b5 b7.
    presentation_order = [0] + [4 * group + place for group in range(100) for place in (4, 2, 1, 3)]
    packets = [
        (number / 30, number * 33, 33 * (at + 2), number == 0)
        for number, at in enumerate(presentation_order)
    ]
    meter = Meter(START)
    meter.add_track(VIDEO, START)
    for at, dts, pts, key in packets:
        meter.add_packets(
            [MediaPacket(track=VIDEO, dts=dts, pts=pts, key=key, data=b"x")], START + at
        )
    assert picture(meter.report(START + 14)).b_frames == 3


def test_pictures_that_are_shown_before_the_keyframe_they_came_after_open_the_group() -> None:
    def leading(number: int) -> int:
        place = number % 60
        return number - 2 if place in (1, 2) and number > 60 else number

    meter = Meter(START)
    meter.add_track(VIDEO, START)
    for number in range(300):
        packet = MediaPacket(
            track=VIDEO,
            dts=number * 33,
            pts=33 * (leading(number) + 2),
            key=number % 60 == 0,
            data=b"x",
        )
        meter.add_packets([packet], START + number / 30)
    assert picture(meter.report(START + 10)).open_gop


def test_frames_that_are_left_out_are_missing_and_the_rate_does_not_vary() -> None:
    remaining = (pair for number, pair in enumerate(pictures(30)) if number % 10 != 5)
    video = picture(measured(remaining))
    assert video.frames_missing == pytest.approx(90, abs=1)
    assert video.frame_rate_varies is False
    assert video.frame_rate == pytest.approx(27, abs=0.1)


def test_frames_at_odd_times_vary() -> None:
    chance = random.Random(7)
    stamps = [0]
    while stamps[-1] < 30_000:
        stamps.append(stamps[-1] + chance.choice((16, 25, 33, 50, 71)))
    packets = (
        (at / 1000, MediaPacket(track=VIDEO, dts=at, pts=at, key=True, data=b"x")) for at in stamps
    )
    assert picture(measured(packets)).frame_rate_varies


def test_a_jitter_of_capture_times_by_a_few_ms_is_no_varying_frame_rate() -> None:
    chance = random.Random(7)
    stamps = [number * 1000 // 30 + chance.randint(-2, 2) for number in range(1, 900)]
    packets = (
        (at / 1000, MediaPacket(track=VIDEO, dts=at, pts=at, key=True, data=b"x")) for at in stamps
    )
    video = picture(measured(packets))
    assert (video.frame_rate_varies, video.frames_missing) == (False, 0)


def test_a_new_configuration_is_measured_separately() -> None:
    meter = Meter(START)
    meter.add_track(VIDEO, START)
    for at, packet in pictures(10, gop=300):
        meter.add_packets([packet], START + at)
    wide = VideoTrack(codec=VideoCodec.HEVC, config=b"h", width=1920, height=1080)
    meter.add_track(wide, START + 10)
    assert meter.report(START + 10).video is None
    for at, packet in pictures(10, fps=50, gop=50):
        other = MediaPacket(
            track=wide, dts=packet.dts, pts=packet.pts, key=packet.key, data=packet.data
        )
        meter.add_packets([other], START + 10 + at)
    video = picture(meter.report(START + 20))
    assert (video.codec, video.width, video.frame_rate) == ("HEVC", 1920, 50.0)
    assert video.keyframes.max_seconds == 1.0
    assert not video.plays_everywhere


def test_tracks_with_another_time_scale_are_measured_alike() -> None:
    fine = VideoTrack(codec=VideoCodec.AVC, config=b"a", width=1280, height=720, scale=90_000)
    meter = Meter(START)
    meter.add_track(fine, START)
    for number in range(300):
        packet = MediaPacket(
            track=fine, dts=number * 3000, pts=number * 3000, key=number % 60 == 0, data=b"x"
        )
        meter.add_packets([packet], START + number / 30)
    video = picture(meter.report(START + 10))
    assert (video.frame_rate, video.keyframes.max_seconds) == (30.0, 2.0)


def test_more_packets_than_are_kept_shorten_the_measured_time() -> None:
    meter = Meter(START)
    meter.add_track(VIDEO, START)
    for number in range(20_000):
        packet = MediaPacket(track=VIDEO, dts=number, pts=number, key=False, data=b"x")
        meter.add_packets([packet], START + number / 1000)
    report = meter.report(START + 20)
    assert 4.0 <= report.network.measured_seconds <= 4.2
    assert report.network.longest_silence_seconds <= 0.01
    assert picture(report).frames <= 4096


def test_hours_take_no_more_memory_than_minutes() -> None:
    meter = Meter(START)
    meter.add_track(VIDEO, START)
    packet = MediaPacket(track=VIDEO, dts=0, pts=0, key=True, data=b"x")

    def send(first: int, last: int) -> None:
        for second in range(first, last):
            for _ in range(10):
                meter.add_packets([packet], START + second)

    send(0, 800)  # past what is kept for the drift
    tracemalloc.start()
    try:
        send(800, 3000)
        grown = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert grown < 200_000  # the times of 600 seconds, which replaced older ones


@pytest.mark.parametrize("seed", range(20))
def test_any_packets_give_a_report(seed: int) -> None:
    chance = random.Random(seed)
    meter = Meter(START)
    now = START
    for _ in count():
        now += chance.choice((0.0, 0.0, 0.001, 0.03, 2.0, 70.0))
        match chance.randrange(12):
            case 0:
                meter.add_track(VIDEO, now)
            case 1:
                meter.add_track(AUDIO, now)
            case 2 if chance.random() < 0.2:
                meter.clock_jumped(now)
            case 3:
                meter.report(now)
            case _:
                track = chance.choice((VIDEO, AUDIO))
                dts = chance.choice((0, 5, -(1 << 40), 1 << 40, chance.randrange(1 << 33)))
                packet = MediaPacket(
                    track=track,
                    dts=dts,
                    pts=dts + chance.randrange(-(1 << 23), 1 << 23),
                    key=chance.random() < 0.5,
                    data=bytes(chance.randrange(3)),
                )
                meter.add_packets([packet], now)
        if now > START + 20_000:
            break
    assert meter.report(now).network.silent_seconds >= 0
