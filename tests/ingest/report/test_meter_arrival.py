"""Measured arrival of packets, and the encoder's clock."""

import random
from collections.abc import Iterator

import pytest

from ingest.report.meter import Meter
from ingest.rtmp.clock import TimestampClock
from media.packet import MediaPacket
from tests.support.ingest.measured_encoders import (
    AUDIO,
    START,
    VIDEO,
    audio_packets,
    measured,
    picture,
    pictures,
)


@pytest.mark.parametrize("ppm", [-1000, -300, -50, 0, 50, 300, 1000])
@pytest.mark.parametrize("seconds", [45, 300, 900])
def test_drift_is_measured_despite_network_jitter(ppm: int, seconds: int) -> None:
    chance = random.Random(ppm)

    def late(at: float) -> float:
        return chance.expovariate(50.0)  # 20 ms on average, now and then 100

    report = measured(audio_packets(seconds), late=late, speed=1 + ppm / 1e6, tracks=(AUDIO,))
    assert report.clock.drift_ppm is not None
    # Both ends are measured to a few ms; two thirds of the time lie between them.
    worst = 4e3 / (min(seconds, 600) * 2 / 3)
    assert report.clock.drift_ppm == pytest.approx(ppm, abs=worst * 1.5 + 10)


def test_a_network_that_is_blocked_for_a_while_is_jitter_and_no_drift() -> None:
    def late(at: float) -> float:
        return 1.5 if at > 105 else 0.0  # to the end, at 120 s

    report = measured(pictures(120), audio_packets(120), late=late)
    assert report.clock.drift_ppm is not None
    assert abs(report.clock.drift_ppm) <= 20
    assert report.network.jitter_ms is not None
    assert report.network.jitter_ms >= 1400
    assert report.network.longest_silence_seconds == pytest.approx(1.5, abs=0.05)


def test_drift_is_not_reported_for_short_times() -> None:
    report = measured(audio_packets(29), tracks=(AUDIO,))
    assert report.clock.drift_ppm is None
    assert measured(audio_packets(33), tracks=(AUDIO,)).clock.drift_ppm is not None


def test_jitter_is_the_95th_percentile_of_delays() -> None:
    chance = random.Random(3)
    report = measured(
        pictures(60), late=lambda at: 0.2 if chance.random() < 0.02 else chance.uniform(0, 0.02)
    )
    assert report.network.jitter_ms is not None
    assert report.network.jitter_ms <= 150
    wave = measured(pictures(60), late=lambda at: 0.8 * (at % 2))
    assert wave.network.jitter_ms is not None
    assert 200 <= wave.network.jitter_ms <= 800


def test_silence_counts_up_to_now_and_from_the_connection_on() -> None:
    meter = Meter(START)
    assert meter.report(START + 3).network.silent_seconds == 3
    assert meter.report(START + 3).network.longest_silence_seconds == 3
    meter.add_track(VIDEO, START + 3)
    for at, packet in pictures(2):
        meter.add_packets([packet], START + 3 + at)
    report = meter.report(START + 9)
    assert report.network.silent_seconds == pytest.approx(4.03, abs=0.02)
    assert report.network.longest_silence_seconds == pytest.approx(4.03, abs=0.02)
    # Packets older than the window are not measured.
    assert meter.report(START + 100).video is None


def test_a_jump_begins_a_new_measurement_and_is_remembered_for_ten_minutes() -> None:
    meter = Meter(START)
    meter.add_track(VIDEO, START)
    for at, packet in pictures(10):
        meter.add_packets([packet], START + at)
    meter.clock_jumped(START + 10)
    for at, packet in pictures(10, begin=90_000.0):
        meter.add_packets([packet], START + 10 + at - 90_000)
    report = meter.report(START + 20)
    video = picture(report)
    assert (video.frames, video.frame_rate, video.frames_missing) == (300, 30.0, 0)
    assert report.network.jitter_ms in (0, 1)
    assert report.network.measured_seconds == 10
    assert report.clock.jumps == 1
    assert meter.report(START + 611).clock.jumps == 0


def test_small_steps_back_are_counted() -> None:
    def stepping() -> Iterator[tuple[float, MediaPacket]]:
        for number, (at, packet) in enumerate(pictures(20)):
            back = 200 * (number // 150)
            stamp = packet.dts - back
            yield (
                at,
                MediaPacket(track=VIDEO, dts=stamp, pts=stamp, key=packet.key, data=packet.data),
            )

    assert measured(stepping()).clock.steps_back == 3


def test_sound_behind_the_picture_is_measured_as_interleaving() -> None:
    behind = (
        (at, MediaPacket(track=AUDIO, dts=p.dts - 1500, pts=p.dts - 1500, key=True, data=b"x"))
        for at, p in audio_packets(30)
    )
    report = measured(pictures(30), behind)
    assert report.clock.interleave_ms is not None
    assert report.clock.interleave_ms == pytest.approx(1520, abs=40)
    assert measured(pictures(30)).clock.interleave_ms is None


def test_stamps_that_wrap_are_no_jump() -> None:
    """Timestamps have 31 or 32 bits on the wire; the session unwraps them for the meter."""
    clock, meter = TimestampClock(), Meter(START)
    meter.add_track(VIDEO, START)
    first = (1 << 31) - 15_000
    for at, packet in pictures(30):
        stamp = clock.read(9, (first + packet.dts) % (1 << 31)).time
        meter.add_packets(
            [MediaPacket(track=VIDEO, dts=stamp, pts=stamp, key=packet.key, data=packet.data)],
            START + at,
        )
    report = meter.report(START + 30)
    video = picture(report)
    assert (video.frame_rate, video.frames_missing, report.clock.steps_back) == (30.0, 0, 0)
    assert video.keyframes.fixed
