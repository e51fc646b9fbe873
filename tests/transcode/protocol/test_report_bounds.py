"""What engines really report at most, against what they may: noise, long films, many subtitles."""

import os
from typing import get_args

from av.video.frame import VideoFrame

from media.hls.segment import Part
from media.hls.webvtt import Cue
from media.ladder import BOXES, STANDARD_LABELS, Rendition, ladder_for
from transcode.engine.codec.jpeg import encode_jpeg
from transcode.engine.images.subtitles import (
    MOST_CUES,
    MOST_CUES_IN_ALL,
    MOST_TEXT,
    MOST_TEXT_IN_ALL,
)
from transcode.protocol.file_messages import SpanOrder, SubtitleTrack, Surveyed
from transcode.protocol.messages import (
    MAX_FRAME,
    EngineReport,
    Poster,
    Posters,
    Previews,
    Refused,
    pack,
)
from transcode.protocol.report_bounds import REPORT_BOUNDS, longest_report

WIDEST = "\U0001f600"  # four bytes
DAY_CUTS = 24 * 3600 // 2


def noise(width: int, height: int, **options: int) -> bytes:
    frame = VideoFrame(width, height, "yuv420p")
    for plane in frame.planes:
        plane.update(os.urandom(plane.buffer_size))
    return encode_jpeg(frame, **options)


def test_every_kind_of_report_is_sent_by_an_engine_and_has_a_length() -> None:
    assert {each for bounds in REPORT_BOUNDS.values() for each in bounds.most} == set(
        get_args(EngineReport)
    )
    assert all(0 < longest_report(each) <= MAX_FRAME for each in get_args(EngineReport))
    assert longest_report(Part) == MAX_FRAME


def test_posters_of_noise_in_all_sizes_and_previews_fit() -> None:
    posters = tuple(
        Poster(label=box.label, width=box.width, height=box.height,
               data=noise(box.width, box.height))
        for box in BOXES
    )  # fmt: skip
    assert all(len(pack(each)) <= longest_report(Poster) for each in posters)
    assert len(pack(Posters(posters=posters))) <= longest_report(Posters)
    previews = Previews(
        width=160, height=160, columns=10, per_sheet=100, times=tuple(range(400)),
        sheets=(noise(1600, 1600, quality=6),) * 4,
    )  # fmt: skip
    assert len(pack(previews)) <= longest_report(Previews)
    sent = [*posters, previews]
    for kind in ("still", "poster", "previews"):
        bounds = REPORT_BOUNDS[kind]
        own = [each for each in sent if type(each) in bounds.most]
        assert sum(len(pack(each)) for each in own) <= (bounds.kept or 0)


def test_subtitles_of_the_widest_letters_fit() -> None:
    def track(cues: int, letters: int) -> SubtitleTrack:
        text = WIDEST * (letters // cues)
        cue = Cue(86_399_000, 86_400_000, text)
        return SubtitleTrack(
            language="zh-Hant-TW", title=WIDEST * 80, forced=True, cues=(cue,) * cues
        )

    assert len(pack(track(MOST_CUES, MOST_TEXT))) <= longest_report(SubtitleTrack)
    share = 32
    tracks = [track(MOST_CUES_IN_ALL // share, MOST_TEXT_IN_ALL // share)] * share
    assert sum(len(pack(each)) for each in tracks) <= (REPORT_BOUNDS["subtitles"].kept or 0)


def test_the_survey_of_a_day_in_spans_of_half_a_minute_fits() -> None:
    seconds = 30
    rungs = ladder_for(3840, 2160, STANDARD_LABELS | {"1440p", "2160p"}).renditions
    assert isinstance(rungs[0], Rendition)
    cuts = tuple(86_400 * 90_000 + number * 180_000 for number in range(seconds // 2))
    span = SpanOrder(
        rungs=rungs, sequence=DAY_CUTS, cuts=cuts, end=cuts[-1], until=cuts[-1], before=cuts[0],
        key=cuts[0], pictures=10_000, offset=-cuts[0], rate=60_000,
    )  # fmt: skip
    surveyed = Surveyed(spans=(span,) * (24 * 3600 // seconds), segments=DAY_CUTS)
    assert len(pack(surveyed)) <= longest_report(Surveyed)


def test_a_long_reason_fits() -> None:
    assert len(pack(Refused(reason=WIDEST * 1_000))) <= longest_report(Refused)
