"""When parts leave an epoch that is fed packet by packet, as an encoder sends them.

The clock is the packets': each arrives at its decode time. Threads of the engine get as long as
they need for what has arrived, and nothing more arrives meanwhile.
"""

import os
from pathlib import Path

import msgspec
import pytest

from media.hls.segment import Part, Segment, SegmentStart
from media.ladder import AUDIO_RENDITION, Ladder, Rendition
from media.ticks import AUDIO_SCALE, VIDEO_SCALE
from tests.support.engine.engine_process import ORIGIN, begin
from tests.support.engine.sources import Source, scenes, source_of
from tests.support.waiting import poll
from transcode.engine.core.reports import ReportWriter
from transcode.engine.live.epoch import EpochPipeline
from transcode.engine.live.first_packets import FirstPackets
from transcode.engine.output.segmenter import LiveSegmenter
from transcode.protocol.messages import EngineReport

LADDER = Ladder(
    (
        Rendition(name="360p", width=480, height=48, rate=800_000, source_size=True),
        Rendition(name="240p", width=320, height=32, rate=400_000),
    )
)
FRAME_MS = 1000 / 30
# What the encoder of a rung may hold back at 30 frames a second, and the next packet of sound.
HELD_MS = 2 * FRAME_MS + 25


class EpochFixture:
    """An epoch, and what it has sent so far."""

    def __init__(self, source: Source, *, low_latency: bool = True, reuse: bool = True) -> None:
        order = msgspec.structs.replace(
            begin(source, ladder=LADDER, reuse=reuse), low_latency=low_latency
        )
        first = FirstPackets(order)
        for packet in source.packets:
            if not first.suffice:
                first.add(packet)
        self.sent: list[EngineReport] = []
        self.first_ms = source.pictures[0].pts
        self._packets = list(source.packets)
        self.now_ms = 0  # the newest packet's time from the first picture on
        self.epoch = EpochPipeline(
            first,
            origin=ORIGIN,
            sequence=0,
            discontinuity=False,
            track_of=self._segmenter,
            reports=ReportWriter(os.open(os.devnull, os.O_WRONLY)),
        )

    def _segmenter(self, name: str) -> LiveSegmenter:
        scale = AUDIO_SCALE if name == AUDIO_RENDITION else VIDEO_SCALE
        return LiveSegmenter(name, scale, self.sent.append)

    def feed(self) -> bool:
        """Feed the next packet; return False if there is none."""
        if not self._packets:
            return False
        packet = self._packets.pop(0)
        self.now_ms = max(self.now_ms, packet.dts - self.first_ms)
        self.epoch.add_packet(packet)
        return True

    def parts(self, name: str) -> list[Part]:
        return [each for each in self.sent[:] if isinstance(each, Part) and each.rendition == name]

    def segments(self, name: str) -> list[Segment]:
        return [each for each in self.sent if isinstance(each, Segment) and each.rendition == name]

    def ends_ms(self, name: str) -> list[float]:
        """Return where each part sent so far ends, from the first picture on."""
        starts = {
            each.sequence: each.start
            for each in self.sent[:]
            if isinstance(each, SegmentStart) and each.rendition == name
        }
        ends: list[float] = []
        at = dict(starts)
        for part in self.parts(name):
            at[part.sequence] += part.duration
            ends.append((at[part.sequence] - ORIGIN) * 1000 / VIDEO_SCALE)
        return ends

    def obeys(self) -> bool:
        """Assert that all parts last 85 to 100 % of the target, the last of a segment up to it."""
        for name in ("360p", "240p", AUDIO_RENDITION):
            parts = self.parts(name)
            last = {part.sequence: part.index for part in parts}
            assert all(part.duration <= VIDEO_SCALE // 2 for part in parts)
            assert all(
                part.duration >= 0.85 * VIDEO_SCALE // 2
                for part in parts
                if part.index != last[part.sequence]
            )
        return True


def lateness(watched: EpochFixture, name: str) -> list[float]:
    """Feed everything; return how long after a part's end in the source's time it was there."""
    lateness_ms: list[float] = []
    while watched.feed():
        ends = watched.ends_ms(name)
        lateness_ms += [watched.now_ms - end for end in ends[len(lateness_ms) :]]
    return lateness_ms


def test_parts_of_the_sources_own_packets_leave_with_their_last_packet(small: Source) -> None:
    late = lateness(EpochFixture(small), "360p")
    assert len(late) == 8
    # The first segment is announced from its first picture's presentation on, which comes as far
    # after its decoding as pictures are reordered.
    assert max(late) <= 0
    assert min(late) >= -4 * FRAME_MS


def test_sound_leaves_as_soon_as_it_is_encoded(small: Source) -> None:
    watched = EpochFixture(small)
    late = lateness(watched, AUDIO_RENDITION)
    assert len(late) >= 7
    # A frame of the decoder, one of the encoder and one to fill up: 1024 samples at 44.1 or 48 kHz.
    assert max(late) <= 3 * 24 + FRAME_MS
    durations = {part.duration for part in watched.parts(AUDIO_RENDITION)}
    assert 20 * 1_920 in durations


def test_encoded_parts_need_no_more_than_two_pictures_after_their_last(small: Source) -> None:
    watched = EpochFixture(small)
    for number in range(1, 8):
        end_ms = number * 500.0
        while watched.now_ms < end_ms + HELD_MS and watched.feed():
            pass
        poll(lambda n=number: len(watched.parts("240p")) >= n, what=f"part {number}")
        assert watched.now_ms <= end_ms + HELD_MS + FRAME_MS


def test_all_parts_obey_the_target_that_was_reported(small: Source) -> None:
    watched = EpochFixture(small)
    while watched.feed():
        pass
    watched.epoch.finish()
    assert watched.obeys()
    segments = [each for each in watched.sent if isinstance(each, Segment)]
    assert not any(segment.gap for segment in segments)


@pytest.mark.parametrize("low_latency", [False, True])
def test_the_encoders_lookahead_is_for_normal_latency(small: Source, *, low_latency: bool) -> None:
    watched = EpochFixture(small, low_latency=low_latency)
    while watched.now_ms < 500 + HELD_MS and watched.feed():
        pass
    if low_latency:
        poll(lambda: watched.parts("240p"), what="a part")
    else:
        # The encoder holds twelve pictures back, so there is no part yet.
        assert not watched.parts("240p")
    watched.epoch.finish()


@pytest.fixture(scope="module")
def fast(folder: Path) -> Source:
    """A second of 60 frames a second, otherwise as the usual source."""
    return source_of(scenes(folder / "fast.flv", seconds=1, gop=1, rate=60))


@pytest.mark.parametrize("low_latency", [False, True])
def test_encoders_with_low_delay_take_no_faster_source(
    small: Source, fast: Source, *, low_latency: bool
) -> None:
    """The encoders would exceed the announced bit rate twofold."""
    watched = EpochFixture(small, low_latency=low_latency, reuse=False)
    while watched.now_ms < 500 and watched.feed():
        pass
    backup = begin(fast, ladder=LADDER, epoch=1, reuse=False)
    assert watched.epoch.splice(backup) is not low_latency
    watched.epoch.finish()


def test_a_slower_source_follows_and_its_parts_obey_the_same_target(
    small: Source, fast: Source
) -> None:
    watched = EpochFixture(fast, reuse=False)
    while watched.feed():
        pass
    assert watched.epoch.splice(begin(small, ladder=LADDER, epoch=1, reuse=False))
    for packet in small.packets:
        watched.epoch.add_packet(packet)
    watched.epoch.finish()
    assert watched.obeys()


def test_a_rung_is_shed_with_the_next_cut_if_the_pipeline_is_up_to_date(small: Source) -> None:
    """Viewers of the rung then have whole segments up to the gap."""
    watched = EpochFixture(small)
    while watched.now_ms < 1_000 + HELD_MS and watched.feed():
        pass
    poll(lambda: len(watched.parts("240p")) >= 2, what="two parts")
    watched.epoch.leave_out(("240p",))
    while watched.feed():
        pass
    watched.epoch.finish()
    first, second = watched.segments("240p")
    assert (first.gap, first.parts, second.gap) == (False, 4, True)


def test_for_normal_latency_a_rung_is_shed_at_once(small: Source) -> None:
    watched = EpochFixture(small, low_latency=False)
    while watched.now_ms < 1_900 and watched.feed():
        pass
    watched.epoch.leave_out(("240p",))
    while watched.feed():
        pass
    watched.epoch.finish()
    assert [each.gap for each in watched.segments("240p")] == [True, True]
