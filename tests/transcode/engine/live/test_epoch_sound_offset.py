"""Sound whose time stamps are ahead of its picture's, or behind, through a real engine process."""

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from media.hls.segment import Segment
from media.ladder import AUDIO_RENDITION, ladder_for
from media.ticks import AUDIO_SCALE, VIDEO_SCALE
from tests.support.engine.decoded_output import frames, onsets, warnings
from tests.support.engine.engine_process import ORIGIN, begin, orders, run
from tests.support.engine.sources import LOW_360P, Source, pulses, source_of
from transcode.engine.core.reports import ReportWriter
from transcode.engine.live.epoch import EpochPipeline
from transcode.engine.live.first_packets import FirstPackets
from transcode.engine.output.segmenter import LiveSegmenter
from transcode.protocol.messages import EngineReport, SoundMoved, TakenOver


@pytest.fixture(scope="module")
def source(folder: Path) -> Source:
    """14 s of flashes and beeps, each pair at once, a keyframe every 2 s."""
    return source_of(pulses(folder / "offset.flv", seconds=14, size=LOW_360P))


def shifted(source: Source, seconds: float) -> Source:
    """The same packets in the same order, the sound with other time stamps."""
    by = round(seconds * 1_000)
    return msgspec.structs.replace(
        source,
        packets=tuple(
            packet
            if packet.video
            else msgspec.structs.replace(packet, dts=packet.dts + by, pts=packet.pts + by)
            for packet in source.packets
        ),
    )


@pytest.mark.parametrize("reuse", [True, pytest.param(False, marks=pytest.mark.prove)])
@pytest.mark.parametrize(
    "seconds",
    [
        -60,
        -3.9,
        1.1,
        3,
        *(pytest.param(each, marks=pytest.mark.prove) for each in (-3, -1.1, 3.9, 60)),
    ],
)
def test_sound_is_heard_at_the_reported_offset(source: Source, seconds: float, reuse: bool) -> None:
    odd = shifted(source, seconds)
    output = run(orders(odd, begin(odd, reuse=reuse)))
    assert (output.status, output.of(TakenOver), warnings(output)) == (0, [], {})
    assert output.in_step()
    moved = [round(report.offset_ms / 1_000, 1) for report in output.of(SoundMoved)]
    assert moved == ([seconds] if abs(seconds) > 4 else [])
    away = seconds if abs(seconds) <= 4 else 0.0
    (file,) = output.files("360p")
    assert len(frames(file)) == len(source.pictures), "no picture is held up or lost"
    flashes, beeps = onsets(file)[0], onsets(output.files(AUDIO_RENDITION)[0])[1]
    assert len(flashes) == 14
    # All beeps but those outside the pictures and those of the first two seconds.
    assert len(beeps) >= 14 - abs(away) - 2
    for beep in beeps:
        assert min(abs(beep - (flash + away)) for flash in flashes) < 0.045


def test_sound_that_turns_late_in_the_middle_is_heard_again(source: Source) -> None:
    late = shifted(source, -2.5)
    half = len(source.packets) // 2
    both = msgspec.structs.replace(source, packets=source.packets[:half] + late.packets[half:])
    output = run(orders(both, begin(both)))
    assert (output.status, output.of(SoundMoved)) == (0, [])
    flashes, beeps = onsets(output.files("360p")[0])[0], onsets(output.files(AUDIO_RENDITION)[0])[1]
    again = [beep for beep in beeps if beep > flashes[7] - 0.1]
    assert len(again) >= 4
    for beep in again:
        assert min(abs(beep - (flash - 2.5)) for flash in flashes) < 0.045


class PacedEpoch:
    """An epoch fed packet by packet: how far its sound's segments are behind the picture."""

    def __init__(self, source: Source) -> None:
        self.sent: list[EngineReport] = []
        order = begin(source, ladder=ladder_for(*LOW_360P, frozenset({"360p"})))
        self.epoch = EpochPipeline(
            FirstPackets(order),
            origin=ORIGIN,
            sequence=0,
            discontinuity=False,
            track_of=self._segmenter,
            reports=ReportWriter(os.open(os.devnull, os.O_WRONLY)),
        )

    def _segmenter(self, name: str) -> LiveSegmenter:
        scale = AUDIO_SCALE if name == AUDIO_RENDITION else VIDEO_SCALE
        return LiveSegmenter(name, scale, self.sent.append)

    def lags(self, source: Source) -> Iterator[tuple[float, float]]:
        """Yield each picture's time and how much sound is not in a segment yet, in seconds."""
        first, end_seconds = source.pictures[0].dts, 0.0
        for packet in source.packets:
            self.epoch.add_packet(packet)
            while self.sent:
                report = self.sent.pop()
                if isinstance(report, Segment) and report.rendition == AUDIO_RENDITION:
                    end_seconds = max(
                        end_seconds, (report.start + report.duration - ORIGIN) / VIDEO_SCALE
                    )
            if packet.video:
                now = (packet.dts - first) / 1_000
                yield now, now - end_seconds
        self.epoch.finish()


@pytest.mark.parametrize("seconds", [-60, -3, -1.1, 0, 1.1, 3, 60])
def test_segments_wait_for_late_sound_no_longer_than_it_is_late(
    source: Source, seconds: float
) -> None:
    odd = shifted(source, seconds)
    late = max(0.0, -seconds) if abs(seconds) <= 4 else 1.0  # a second until an offset is known
    most = max(lag for _, lag in PacedEpoch(odd).lags(odd))
    assert most <= 2.5 + late + 0.1, "a segment of 2 s, the encoder, and what is needed"


def test_segments_do_not_wait_for_late_sound_that_stops(source: Source) -> None:
    """They wait four seconds at most, then one second, as for any missing sound."""
    late = shifted(source, -3)
    end = source.pictures[0].dts + 5_000
    stops = tuple(
        packet
        for index, packet in enumerate(late.packets)
        if packet.video or source.packets[index].dts < end
    )
    gone = msgspec.structs.replace(late, packets=stops)
    lags = list(PacedEpoch(gone).lags(gone))
    assert max(lag for _, lag in lags) <= 2 + 3 + 1 + 0.2
    assert max(lag for now, lag in lags if now > 10) <= 2 + 1 + 0.2
