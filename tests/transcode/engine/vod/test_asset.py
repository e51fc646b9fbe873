"""Whole files, made by real engines: their own media first, or the way of a live stream."""

from pathlib import Path

import msgspec
import pytest

from media.hls.segment import Segment
from media.ladder import AUDIO_RENDITION
from tests.support.engine.decoded_output import packets
from tests.support.engine.made_assets import (
    OWN,
    SECOND,
    SIZE,
    SMALL,
    film_for,
    is_whole,
    joined,
    made_of,
    sound_is_continuous,
    surveyed,
)
from tests.support.engine.numbered_films import numbered
from tests.support.engine.sources import ffmpeg, source_of
from tests.support.engine.upload_files import read
from transcode.protocol.file_messages import Ready, Surveyed
from transcode.protocol.messages import EpochFinished, Refused


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


def test_without_encoders_the_same_is_copied_and_the_one_span_left(tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.mp4", *OWN, "-c:a", "aac", seconds=3, size=SIZE)
    order = msgspec.structs.replace(film_for(path), encode=False)
    copied = read("asset", path, order)
    assert copied.names == ["480p", AUDIO_RENDITION]
    assert copied.of(Ready) == [Ready(names=("480p", AUDIO_RENDITION))]
    assert len(copied.of(EpochFinished)) == 1
    (span,) = surveyed(copied).spans
    assert span.alone
    apart = read("span", path, span)
    whole = made_of(path)
    for output, names in ((copied, copied.names), (apart, ["360p"])):
        for name in names:
            assert packets(joined(output, name)) == packets(joined(whole, name))


@pytest.mark.parametrize(("alone", "refusals"), [(True, 1), (False, 0)])
def test_a_film_of_one_span_without_a_picture_is_refused(
    tmp_path: Path, alone: bool, refusals: int
) -> None:
    """The file is damaged, and so might be one span of several."""
    path = numbered(tmp_path / "a.mp4", *OWN, "-c:a", "aac", seconds=2, size=SIZE)
    order = msgspec.structs.replace(film_for(path), encode=False)
    (span,) = surveyed(read("asset", path, order)).spans
    data = path.read_bytes()
    begins, ends = data.index(b"mdat") + 4, data.index(b"moov") - 4
    path.write_bytes(data[:begins] + bytes(ends - begins) + data[ends:])
    output = read("span", path, msgspec.structs.replace(span, alone=alone))
    assert len(output.of(Refused)) == refusals


def test_times_that_jump_go_through_the_live_ladder(tmp_path: Path) -> None:
    first = numbered(tmp_path / "a.ts", *OWN, "-c:a", "aac", seconds=4, size=SMALL)
    later = tmp_path / "b.ts"
    ffmpeg("-i", first, "-c", "copy", "-output_ts_offset", "100", "-y", later)
    path = tmp_path / "c.ts"
    path.write_bytes(first.read_bytes() + later.read_bytes())
    copied = read("asset", path, msgspec.structs.replace(film_for(path), encode=False))
    assert (copied.status, copied.of(Segment), len(copied.of(Surveyed))) == (0, [], 1)
    output = made_of(path)
    survey = surveyed(output)
    assert (survey.spans, survey.reason) == ((), "the times jump")
    assert output.in_step()
    lengths = sum(segment.duration for segment in output.segments("240p"))
    assert abs(lengths / SECOND - 8) < 0.5
