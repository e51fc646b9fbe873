"""The audio pipeline without a process: holes, late sound, drift, changes of form."""

import array
import io
import math
import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import av
import pytest
from av.audio.frame import AudioFrame

from media.codecs.aac import AudioSpecificConfig
from media.hls.segment import InitSection, Part, Segment
from media.track import AudioCodec, AudioTrack
from tests.support.engine.decoded_output import loudness
from tests.support.engine.sources import ffmpeg
from transcode.engine.codec.encode import AUDIO_TIME_BASE, AudioEncoder
from transcode.engine.core.reports import ReportWriter
from transcode.engine.live.audio_pipeline import AudioPipeline
from transcode.engine.output.segment_grid import Cut, SegmentGrid
from transcode.engine.output.segmenter import LiveSegmenter
from transcode.protocol.messages import EngineReport

SECOND = 90_000
ORIGIN = 10 * SECOND
STEP = 1_920  # an AAC frame at 48 kHz


class AudioPipelineFixture:
    """A `Sound` at work and what it sends."""

    def __init__(self, source: AudioTrack | None) -> None:
        self.sent: list[EngineReport] = []
        self._fd = os.open(os.devnull, os.O_WRONLY)
        self.outlet = ReportWriter(self._fd)
        self.track = LiveSegmenter("audio", 48_000, self.sent.append)
        self.track.begin(epoch=0, part=SECOND // 2)
        self.sound = AudioPipeline(source, self.track, origin=ORIGIN, reports=self.outlet)
        self.sound.add_cut(Cut(sequence=0, at=ORIGIN))
        self.grid = SegmentGrid(
            sequence=0, discontinuity=False, cut=2 * SECOND, longest=4 * SECOND, reuse=False
        )

    def finish(self, end: int) -> list[tuple[float, float]]:
        """End at `end`; return time from the origin and loudness of each frame."""
        self.sound.finish(end, self.grid)
        os.close(self._fd)
        return [(time - 10, level) for time, level in loudness(self.data)]

    @property
    def data(self) -> bytes:
        """All that was sent, as a file."""
        (init,) = [report.data for report in self.sent if isinstance(report, InitSection)]
        return init + b"".join(report.data for report in self.sent if isinstance(report, Part))


def samples_of(data: bytes) -> list[float]:
    """Return the levels of the left channel."""
    with av.open(io.BytesIO(data), "r") as container:
        frames = list(container.decode(audio=0))
    return [
        level
        for frame in frames
        for level in array.array("f", bytes(frame.planes[0])[: 4 * frame.samples])
    ]


@pytest.fixture(scope="module")
def tone() -> tuple[AudioTrack, list[bytes]]:
    """6 s of a tone as AAC packets of 1024 samples at 48 kHz."""
    encoder = AudioEncoder()
    packets: list[bytes] = []
    wave = [0.5 * math.sin(2 * math.pi * 440 * n / 48_000) for n in range(48_000)]
    for index in range(282):
        frame = AudioFrame("fltp", "stereo", 1024)
        frame.sample_rate, frame.pts, frame.time_base = 48_000, index * 1024, AUDIO_TIME_BASE
        samples = array.array("f", [wave[(index * 1024 + n) % 48_000] for n in range(1024)])
        for plane in frame.planes:
            plane.update(samples.tobytes())
        packets += [sample.data for sample in encoder.encode(frame)]
    track = AudioTrack(codec=AudioCodec.AAC, config=encoder.config, rate=48_000, channels=2)
    return track, packets[1:]


def play(
    fixture: AudioPipelineFixture, packets: list[bytes], *, at: int = ORIGIN, step: float = STEP
) -> Iterator[int]:
    """Give the packets from `at` on, one every `step` ticks; yields each one's time."""
    for index, data in enumerate(packets):
        pts = at + round(index * step)
        fixture.sound.decode(data, pts)
        yield pts


def silent(levels: list[tuple[float, float]], low: float, high: float) -> bool:
    return max(level for time, level in levels if low < time < high) < 0.01


def loud(levels: list[tuple[float, float]], low: float, high: float) -> bool:
    return min(level for time, level in levels if low < time < high) > 0.3


def test_it_is_aac_lc_in_stereo_at_48_khz() -> None:
    config = AudioSpecificConfig.parse(AudioEncoder().config)
    assert (config.codecs, config.rate, config.channels) == ("mp4a.40.2", 48_000, 2)


def test_sound_in_time_goes_through_whole(tone: tuple[AudioTrack, list[bytes]]) -> None:
    fixture = AudioPipelineFixture(tone[0])
    for _ in play(fixture, tone[1][:140]):
        pass
    levels = fixture.finish(ORIGIN + 140 * STEP)
    assert len(levels) == 140
    assert levels[0][0] == 0
    assert loud(levels, 0.03, 2.9)


@pytest.mark.parametrize("packets", [70, 71, 77])
def test_one_source_fades_into_another_whose_wave_is_opposite(
    tone: tuple[AudioTrack, list[bytes]], packets: int
) -> None:
    fixture = AudioPipelineFixture(tone[0])
    for _ in play(fixture, tone[1][:packets]):
        pass
    fixture.sound.splice(tone[0])
    half_a_wave = 102
    for _ in play(fixture, tone[1], at=ORIGIN + (packets - 8) * STEP + half_a_wave):
        pass
    fixture.sound.finish(ORIGIN + 3 * SECOND, fixture.grid)
    levels = samples_of(fixture.data)[4_800:]
    assert len(levels) > 2.8 * 48_000
    steps = [abs(after - before) for before, after in pairwise(levels)]
    assert max(steps) < 0.04, "a tone of 440 Hz at this volume steps by 0.029"


@pytest.mark.parametrize("early", [0.03, 0.5, 1.3])
def test_sound_before_the_beginning_is_trimmed(
    tone: tuple[AudioTrack, list[bytes]], early: float
) -> None:
    fixture = AudioPipelineFixture(tone[0])
    for _ in play(fixture, tone[1][:140], at=ORIGIN - round(early * SECOND)):
        pass
    levels = fixture.finish(ORIGIN + 4 * SECOND)
    left = 140 * 1024 / 48_000 - early
    assert levels[0][0] == 0
    assert loud(levels, 0.03, left - 0.05)
    assert silent(levels, left + 0.05, 4)


@pytest.mark.parametrize("late", [0.03, 0.3, 0.9])
def test_what_begins_late_comes_behind_silence(
    tone: tuple[AudioTrack, list[bytes]], late: float
) -> None:
    fixture = AudioPipelineFixture(tone[0])
    for _ in play(fixture, tone[1][:140], at=ORIGIN + round(late * SECOND)):
        pass
    levels = fixture.finish(ORIGIN + 4 * SECOND)
    assert loud(levels, late + 0.03, late + 2.9)
    if late > 0.1:
        assert silent(levels, 0, late - 0.05)
    assert silent(levels, late + 3.05, 4)


def test_a_hole_is_filled_and_the_rest_stays_in_time(
    tone: tuple[AudioTrack, list[bytes]],
) -> None:
    fixture = AudioPipelineFixture(tone[0])
    for _ in play(fixture, tone[1][:50]):
        pass
    for _ in play(fixture, tone[1][50:140], at=ORIGIN + 80 * STEP):
        pass
    levels = fixture.finish(ORIGIN + 170 * STEP)
    edge, again = 50 * 1024 / 48_000, 80 * 1024 / 48_000
    assert loud(levels, 0.03, edge - 0.05)
    assert silent(levels, edge + 0.05, again - 0.05)
    assert loud(levels, again + 0.05, 3.5)


def test_silence_replaces_missing_sound_after_a_second_and_late_sound_is_trimmed(
    tone: tuple[AudioTrack, list[bytes]],
) -> None:
    fixture = AudioPipelineFixture(tone[0])
    for _ in play(fixture, tone[1][:47]):
        pass
    for clock in range(ORIGIN, ORIGIN + 3 * SECOND, 3_000):
        fixture.sound.fill_to(clock)
        fixture.sound.release(clock)
    duration = sum(part.duration for part in fixture.sent if isinstance(part, Part))
    assert 1.5 * SECOND < duration < 3 * SECOND, "the picture does not wait"
    for _ in play(fixture, tone[1][47:188], at=ORIGIN + 47 * STEP):
        pass
    levels = fixture.finish(ORIGIN + 4 * SECOND)
    assert loud(levels, 0.03, 0.95)
    assert silent(levels, 1.05, 2.0)
    assert loud(levels, 3.05, 3.95)


def test_missing_sound_is_not_awaited_twice(tone: tuple[AudioTrack, list[bytes]]) -> None:
    fixture = AudioPipelineFixture(tone[0])
    for _ in play(fixture, tone[1][:47]):
        pass
    late: list[int] = []
    for clock in range(ORIGIN + SECOND, ORIGIN + 4 * SECOND, 3_000):
        fixture.sound.fill_to(clock)
        late.append(clock - fixture.sound.end)
    assert max(late[:31]) > 0.9 * SECOND, "it may come a second late"
    assert max(late[31:]) <= 2, "rounding"
    # The sound returns, 0.3 s behind the picture, and is awaited again.
    resumed = ORIGIN + 4 * SECOND - 27_000
    for pts in play(fixture, tone[1][188:], at=resumed):
        fixture.sound.fill_to(pts + 27_000)
    levels = fixture.finish(ORIGIN + 6 * SECOND)
    assert silent(levels, 1.05, 3.9)
    assert loud(levels, 4.1, 5.6)


@pytest.mark.parametrize("off", [1.002, pytest.param(0.998, marks=pytest.mark.prove)])
def test_drift_is_stretched_away(tone: tuple[AudioTrack, list[bytes]], off: float) -> None:
    """A sound card 0.2 % off would drift by 60 ms in 30 s; the drift is corrected before."""
    fixture = AudioPipelineFixture(tone[0])
    packets = tone[1][:280] * 6
    last = 0
    for pts in play(fixture, packets, step=STEP * off):
        fixture.sound.release(pts)
        last = pts
    levels = fixture.finish(last + 4 * STEP)
    drift = abs(len(packets) * STEP * (off - 1)) / SECOND
    assert drift > 0.06
    ends = max(time for time, level in levels if level > 0.3) + 1024 / 48_000
    assert abs(ends - (last + STEP - ORIGIN) / SECOND) < 0.045


def test_no_source_is_silence_up_to_the_picture() -> None:
    fixture = AudioPipelineFixture(None)
    for clock in range(ORIGIN, ORIGIN + SECOND, 3_000):
        fixture.sound.fill_to(clock)
        fixture.sound.release(clock)
    levels = fixture.finish(ORIGIN + SECOND)
    assert len(levels) == 47
    assert max(level for _, level in levels) == 0


def test_cuts_fall_on_the_first_frame_at_or_after_them(
    tone: tuple[AudioTrack, list[bytes]],
) -> None:
    fixture = AudioPipelineFixture(tone[0])
    for number in (1, 2):
        fixture.sound.add_cut(Cut(sequence=number, at=ORIGIN + number * SECOND, discontinuity=True))
    for pts in play(fixture, tone[1][:140]):
        fixture.sound.release(pts)
    fixture.finish(ORIGIN + 140 * STEP)
    segments = [report for report in fixture.sent if isinstance(report, Segment)]
    assert [segment.sequence for segment in segments] == [0, 1, 2]
    assert [segment.start - ORIGIN for segment in segments] == [0, 47 * STEP, 94 * STEP]
    assert [segment.discontinuity for segment in segments] == [False, True, True]


def test_nothing_is_sent_that_a_cut_may_still_come_before(
    tone: tuple[AudioTrack, list[bytes]],
) -> None:
    fixture = AudioPipelineFixture(tone[0])
    for _ in play(fixture, tone[1][:140]):
        pass
    assert not any(isinstance(report, Part) for report in fixture.sent)
    fixture.sound.release(ORIGIN + SECOND)
    duration = sum(part.duration for part in fixture.sent if isinstance(part, Part))
    assert 0.8 * SECOND < duration <= SECOND
    fixture.finish(ORIGIN + 140 * STEP)


def test_the_last_segment_has_sound_however_short_it_is() -> None:
    fixture = AudioPipelineFixture(None)
    fixture.sound.add_cut(Cut(sequence=1, at=ORIGIN + 10 * STEP + 1))
    fixture.finish(ORIGIN + 10 * STEP + 2)
    segments = [report for report in fixture.sent if isinstance(report, Segment)]
    assert [(segment.sequence, segment.frames) for segment in segments] == [(0, 11), (1, 1)]


def test_garbage_is_counted(tone: tuple[AudioTrack, list[bytes]]) -> None:
    fixture = AudioPipelineFixture(tone[0])
    junk = [data if index % 5 else b"\xff\xf1\x00" for index, data in enumerate(tone[1][:140])]
    for _ in play(fixture, junk):
        pass
    levels = fixture.finish(ORIGIN + 140 * STEP)
    assert len(levels) == 140


def test_a_config_that_is_none_is_silence() -> None:
    track = AudioTrack(codec=AudioCodec.AAC, config=b"\xff\xff", rate=48_000, channels=2)
    fixture = AudioPipelineFixture(track)
    fixture.sound.decode(b"\x21\x10", ORIGIN)
    levels = fixture.finish(ORIGIN + SECOND)
    assert max(level for _, level in levels) == 0


@pytest.mark.parametrize(
    ("name", "codec"),
    [
        ("libmp3lame", AudioCodec.MP3),
        ("flac", AudioCodec.FLAC),
        ("libopus", AudioCodec.OPUS),
        ("ac3", AudioCodec.AC3),
    ],
)
def test_other_codecs_come_through_by_their_name(
    tmp_path: Path, name: str, codec: AudioCodec
) -> None:
    path = tmp_path / "sound.mkv"
    tone = "sine=frequency=440:sample_rate=48000:duration=1,volume=8"
    ffmpeg("-f", "lavfi", "-i", tone, "-c:a", name, path)
    with av.open(str(path)) as container:
        (stream,) = container.streams.audio
        track = AudioTrack(
            codec=codec,
            config=stream.codec_context.extradata or b"",
            rate=stream.rate,
            channels=stream.channels,
        )
        packets = [(bytes(packet), packet.pts) for packet in container.demux(stream)]
    fixture = AudioPipelineFixture(track)
    for data, pts in packets:
        if pts is not None:
            fixture.sound.decode(data, ORIGIN + 90 * pts)
    assert loud(fixture.finish(ORIGIN + SECOND), 0.1, 0.9)
