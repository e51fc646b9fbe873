"""A sound card whose clock is not the camera's: hours of it, without a process and without waiting.

A second of silence, a second of tone, over and over. The stamps follow the picture's clock, the
samples the sound card's. Each tone has to begin where its stamp says.
"""

import array
import io
import math

import av
import pytest
from av.audio.frame import AudioFrame

from media.hls.segment import InitSection, Part
from media.track import AudioCodec, AudioTrack
from tests.conftest import Proof
from tests.transcode.engine.live.test_audio_pipeline import (
    ORIGIN,
    SECOND,
    STEP,
    AudioPipelineFixture,
)
from transcode.engine.codec.encode import AUDIO_TIME_BASE, AudioEncoder

_NOTICED = 0.045  # seconds: from there on people notice sound that is early (ITU-R BT.1359)
_STRETCH = 47  # packets of silence, then as many of tone: a second each
_LOOK = 300  # seconds of sound that are decoded at a time
_LOUD = 0.1
_QUIET = 10  # frames


def _round() -> tuple[AudioTrack, list[bytes]]:
    """Return a form, and packets of a stretch of silence and one of tone that can be repeated."""
    encoder = AudioEncoder()
    packets: list[bytes] = []
    wave = [0.5 * math.sin(2 * math.pi * 440 * n / 48_000) for n in range(48_000)]
    for index in range(4 * _STRETCH + 2):
        loud = (index // _STRETCH) % 2 == 1
        frame = AudioFrame("fltp", "stereo", 1024)
        frame.sample_rate, frame.pts, frame.time_base = 48_000, index * 1024, AUDIO_TIME_BASE
        level = [wave[(index * 1024 + n) % 48_000] * loud for n in range(1024)]
        for plane in frame.planes:
            plane.update(array.array("f", level).tobytes())
        packets += [sample.data for sample in encoder.encode(frame)]
    track = AudioTrack(codec=AudioCodec.AAC, config=encoder.config, rate=48_000, channels=2)
    # The first packet primes the decoder; the second of two rounds can be repeated.
    return track, packets[1 + 2 * _STRETCH :][: 2 * _STRETCH]


def _beginnings(data: bytes) -> list[float]:
    """Return when tones begin, in seconds from the origin, to the sample."""
    beginnings: list[float] = []
    quiet = 0  # consecutive frames; a stretch that begins within a tone does not count
    with av.open(io.BytesIO(data), "r") as container:
        for frame in container.decode(audio=0):
            level = array.array("f", bytes(frame.planes[0])[: 4 * frame.samples])
            loud = max(level) > _LOUD
            if loud and quiet > _QUIET:
                offset = next(n for n, sample in enumerate(level) if sample > _LOUD)
                beginnings.append((frame.time or 0.0) + offset / 48_000 - ORIGIN / SECOND)
            quiet = 0 if loud else quiet + 1
    return beginnings


class _AudioListener:
    """Decodes what a `Sound` sends, a stretch at a time."""

    def __init__(self, fixture: AudioPipelineFixture) -> None:
        self._heard = fixture
        self._init = b""
        self.beginnings: list[float] = []

    def listen(self) -> None:
        """Decode all that was sent since the last time."""
        reports = self._heard.sent
        self._init += b"".join(report.data for report in reports if isinstance(report, InitSection))
        parts = b"".join(report.data for report in reports if isinstance(report, Part))
        reports.clear()
        self.beginnings += _beginnings(self._init + parts)


@pytest.mark.parametrize(
    ("minutes", "off"),
    [
        pytest.param(2, -300, marks=pytest.mark.prove),
        (2, 1000),
        pytest.param(180, 100, id="hours", marks=pytest.mark.prove),
    ],
)
def test_sound_that_drifts_stays_with_the_picture(minutes: int, off: int, proof: Proof) -> None:
    track, packets = _round()
    fixture = AudioPipelineFixture(track)
    ears = _AudioListener(fixture)
    step = STEP * (1 + off / 1_000_000)
    expected: list[float] = []
    count = minutes * 60 * 48_000 // 1024
    for index in range(count):
        stamp = ORIGIN + round(index * step)
        if index % (2 * _STRETCH) == _STRETCH:
            expected.append((stamp - ORIGIN) / SECOND)
        fixture.sound.decode(packets[index % (2 * _STRETCH)], stamp)
        fixture.sound.release(stamp - SECOND)
        if index % (_LOOK * 47) == 0:
            ears.listen()
    fixture.sound.finish(ORIGIN + round(count * step), fixture.grid)
    ears.listen()
    away = max(min(abs(found - wanted) for wanted in expected) for found in ears.beginnings)
    # A decoded stretch may begin in the middle of a tone, whose beginning is then missed.
    assert len(ears.beginnings) >= len(expected) - count // (_LOOK * 47) - 2
    drifted = abs(count * (step - STEP)) / SECOND
    proof(
        f"sound {off} ppm off for {minutes} minutes, {drifted * 1000:.0f} ms in all: most away",
        f"{away * 1000:.0f} ms",
        "45 ms",
    )
    assert away < _NOTICED
