"""Whole files, made by real engines: their own media first, or the way of a live stream."""

from pathlib import Path

from media.hls.segment import Segment
from media.ladder import AUDIO_RENDITION
from tests.support.engine.decoded_output import packets
from tests.support.engine.made_assets import (
    OWN,
    SECOND,
    SIZE,
    SMALL,
    is_whole,
    joined,
    made_of,
    sound_is_continuous,
    surveyed,
)
from tests.support.engine.numbered_films import numbered
from tests.support.engine.sources import ffmpeg, source_of
from transcode.protocol.file_messages import Ready
from transcode.protocol.messages import EpochFinished


def test_the_films_own_packets_and_sound_come_first_and_as_they_are(tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.mp4", *OWN, "-c:a", "aac", seconds=9, size=SIZE)
    output = made_of(path)
    survey = surveyed(output)
    assert (survey.reused, survey.kept, len(survey.spans)) == ("480p", True, 1)
    order = [
        each.rendition if isinstance(each, Segment) else type(each).__name__
        for each in output.reports
        if isinstance(each, Segment | Ready | EpochFinished)
    ]
    offset = order.index("Ready")
    assert set(order[:offset]) == {"480p", AUDIO_RENDITION}
    assert set(order[offset + 1 : -1]) == {"360p"}
    assert is_whole(output, 225)
    own = source_of(path)
    assert [data for _, _, data in packets(joined(output, "480p"))] == own.published
    assert len(own.published) == 225
    sound = {packet.data for packet in own.packets if not packet.video}
    assert {data for _, _, data in packets(joined(output, AUDIO_RENDITION))} <= sound
    assert sound_is_continuous(output, 9)


def test_times_that_jump_go_through_the_live_ladder(tmp_path: Path) -> None:
    first = numbered(tmp_path / "a.ts", *OWN, "-c:a", "aac", seconds=4, size=SMALL)
    later = tmp_path / "b.ts"
    ffmpeg("-i", first, "-c", "copy", "-output_ts_offset", "100", "-y", later)
    (tmp_path / "c.ts").write_bytes(first.read_bytes() + later.read_bytes())
    output = made_of(tmp_path / "c.ts")
    survey = surveyed(output)
    assert (survey.spans, survey.reason) == ((), "the times jump")
    assert output.in_step()
    lengths = sum(segment.duration for segment in output.segments("240p"))
    assert abs(lengths / SECOND - 8) < 0.5
