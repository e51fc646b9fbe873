"""Playlists of live timelines as text: exact, against `render`, as delta updates, and read back."""

from itertools import pairwise

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from delivery.playlists.hls import TimelineTexts
from media.hls.m3u8 import M3u8Error, parse, render
from media.hls.playlist import (
    TARGET_SECONDS,
    MediaPlaylist,
    PartialSegment,
    PlaylistSegment,
    RenditionReport,
)
from media.hls.timeline import Timeline
from media.ticks import VIDEO_SCALE
from tests.support.hls.timeline_parser import parse_timeline
from tests.support.media.timelines import (
    NOON_US,
    PART,
    SEGMENT,
    TimelineRun,
    extended,
    part,
    render_timeline,
    timeline_runs,
    with_closed,
)

BOUNDARY = 6 * TARGET_SECONDS * VIDEO_SCALE
HEADER = """\
#EXTM3U
#EXT-X-VERSION:7
#EXT-X-TARGETDURATION:4
#EXT-X-MEDIA-SEQUENCE:7
#EXT-X-DISCONTINUITY-SEQUENCE:0
#EXT-X-INDEPENDENT-SEGMENTS
"""
CONTROL = """\
#EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES,PART-HOLD-BACK=1.500000,HOLD-BACK=12.000000,\
CAN-SKIP-UNTIL=24.000000
#EXT-X-PART-INF:PART-TARGET=0.500000
"""
SEVEN = """\
#EXT-X-MAP:URI="init-0.mp4"
#EXT-X-PROGRAM-DATE-TIME:2026-01-31T12:00:14.000Z
#EXT-X-PART:DURATION=0.500000,URI="7.0.m4s",INDEPENDENT=YES
#EXT-X-PART:DURATION=0.500000,URI="7.1.m4s"
#EXT-X-PART:DURATION=0.500000,URI="7.2.m4s"
#EXT-X-PART:DURATION=0.500000,URI="7.3.m4s"
#EXTINF:2.000000,
7.m4s
"""


def low(timeline: Timeline) -> str:
    return render_timeline(timeline, low_latency=True)


def delta(timeline: Timeline) -> str:
    return render_timeline(timeline, low_latency=True, skip=True)


def normal(timeline: Timeline) -> str:
    return render_timeline(timeline, low_latency=False)


# -- exact texts ----------------------------------------------------------------------------------


def test_a_closed_segment_has_its_parts_and_the_hint_names_the_next() -> None:
    timeline = extended(Timeline(part_target=PART, sequence=7), 1)
    hint = '#EXT-X-PRELOAD-HINT:TYPE=PART,URI="8.0.m4s"\n'
    assert low(timeline) == HEADER + CONTROL + SEVEN + hint


def test_the_tags_of_the_open_segment_come_before_its_first_part() -> None:
    closed = extended(Timeline(part_target=PART, sequence=7), 1)
    opened = closed.open("init-1.mp4", discontinuity=True, wall_us=NOON_US, hint="8.0.m4s")
    assert low(opened) == low(closed), "an open segment is listed from its first part on"
    first = opened.with_part(part(8, 0), hint="8.1.m4s").with_part(part(8, 1, gap=True))
    assert low(first) == HEADER + CONTROL + SEVEN + (
        "#EXT-X-DISCONTINUITY\n"
        '#EXT-X-MAP:URI="init-1.mp4"\n'
        "#EXT-X-PROGRAM-DATE-TIME:2026-01-31T12:00:00.000Z\n"
        '#EXT-X-PART:DURATION=0.500000,URI="8.0.m4s",INDEPENDENT=YES\n'
        '#EXT-X-PART:DURATION=0.500000,URI="8.1.m4s",GAP=YES\n'
    )


def test_reports_follow_the_hint() -> None:
    timeline = extended(Timeline(part_target=PART, sequence=7), 1)
    reports = [
        RenditionReport(uri="../360p/index.m3u8", last_msn=8, last_part=1),
        RenditionReport(uri="../audio/index.m3u8", last_msn=7),
    ]
    text = render_timeline(timeline, low_latency=True, reports=reports)
    assert text == low(timeline) + (
        '#EXT-X-RENDITION-REPORT:URI="../360p/index.m3u8",LAST-MSN=8,LAST-PART=1\n'
        '#EXT-X-RENDITION-REPORT:URI="../audio/index.m3u8",LAST-MSN=7\n'
    )
    assert parse_timeline(text) == (timeline, tuple(reports))


def test_listed_parts_stay_when_their_segment_becomes_a_gap() -> None:
    timeline = Timeline(part_target=PART, sequence=7).open("init-0.mp4", wall_us=NOON_US)
    timeline = timeline.with_part(part(7, 0)).close("7.m4s", SEGMENT, gap=True)
    assert low(timeline) == HEADER + CONTROL + (
        '#EXT-X-MAP:URI="init-0.mp4"\n'
        "#EXT-X-PROGRAM-DATE-TIME:2026-01-31T12:00:00.000Z\n"
        '#EXT-X-PART:DURATION=0.500000,URI="7.0.m4s",INDEPENDENT=YES\n'
        "#EXT-X-GAP\n"
        "#EXTINF:2.000000,\n"
        "7.m4s\n"
    )


def test_the_init_section_of_vanished_parts_stays_listed() -> None:
    timeline = Timeline(part_target=PART, sequence=7).open("init-0.mp4").with_part(part(7, 0))
    timeline = extended(timeline.close("7.m4s", SEGMENT, gap=True), 7)
    assert not timeline.recent[0].parts
    mapped = '#EXT-X-MAP:URI="init-0.mp4"\n#EXT-X-GAP\n#EXTINF:2.000000,\n7.m4s\n'
    assert low(timeline).startswith(HEADER + CONTROL + mapped)
    assert low(timeline).count("#EXT-X-MAP") == 1


def test_a_gap_without_parts_brings_no_init_section() -> None:
    opened = Timeline(part_target=PART, sequence=7).open("init-0.mp4")
    gap = PlaylistSegment(uri="7.m4s", duration=SEGMENT, map_uri="init-0.mp4", gap=True)
    timeline = opened.close("7.m4s", SEGMENT, gap=True)
    assert timeline == Timeline(part_target=PART, sequence=7).with_segment(gap)
    assert low(timeline) == HEADER + CONTROL + "#EXT-X-GAP\n#EXTINF:2.000000,\n7.m4s\n"


def test_an_ended_timeline_hints_at_nothing() -> None:
    timeline = extended(Timeline(part_target=PART, sequence=7), 1).end()
    assert low(timeline) == HEADER + CONTROL + SEVEN + "#EXT-X-ENDLIST\n"


def test_a_rendition_without_parts_has_no_part_target() -> None:
    segment = PlaylistSegment(uri="7.m4s", duration=SEGMENT, map_uri="init-0.mp4")
    timeline = Timeline(sequence=7).with_segment(segment)
    assert low(timeline) == HEADER + (
        "#EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES,HOLD-BACK=12.000000,CAN-SKIP-UNTIL=24.000000\n"
        '#EXT-X-MAP:URI="init-0.mp4"\n'
        "#EXTINF:2.000000,\n"
        "7.m4s\n"
    )


def test_all_renditions_of_a_run_have_the_same_hold_back() -> None:
    short = Timeline(part_target=PART // 2, longest_part_target=PART, sequence=7)
    long = Timeline(part_target=PART, longest_part_target=PART, sequence=7)
    control = CONTROL.splitlines()[0]
    assert control in low(short)
    assert control in low(long)
    assert "#EXT-X-PART-INF:PART-TARGET=0.250000\n" in low(short)
    assert parse_timeline(low(short))[0] == short


def test_without_low_latency_only_closed_segments_are_listed() -> None:
    timeline = extended(Timeline(part_target=PART, sequence=7), 2).open(None).with_part(part(9, 0))
    reports = [RenditionReport(uri="../360p/index.m3u8", last_msn=8)]
    assert render_timeline(timeline, low_latency=False, skip=True, reports=reports) == HEADER + (
        '#EXT-X-MAP:URI="init-0.mp4"\n'
        "#EXT-X-PROGRAM-DATE-TIME:2026-01-31T12:00:14.000Z\n"
        "#EXTINF:2.000000,\n"
        "7.m4s\n"
        "#EXT-X-PROGRAM-DATE-TIME:2026-01-31T12:00:16.000Z\n"
        "#EXTINF:2.000000,\n"
        "8.m4s\n"
    )


@pytest.mark.parametrize("count", [0, 1, 15, 130, 300])
@pytest.mark.parametrize("trimmed", [0, 1, 20, 70])
def test_without_low_latency_a_timeline_reads_as_its_media_playlist(
    count: int, trimmed: int
) -> None:
    timeline = with_closed(count).trimmed(min(trimmed, count))
    expected = MediaPlaylist(
        sequence=timeline.sequence,
        discontinuities=timeline.discontinuities,
        segments=tuple(timeline.segments),
    )
    ended = msgspec.structs.replace(expected, ended=True)
    none_gone = "#EXT-X-DISCONTINUITY-SEQUENCE:0\n"
    assert normal(timeline).replace(none_gone, "") == render(expected)
    assert normal(timeline.end()).replace(none_gone, "") == render(ended)
    assert normal(timeline).count("#EXT-X-DISCONTINUITY-SEQUENCE:") == 1


# -- delta updates --------------------------------------------------------------------------------


def test_a_delta_update_omits_what_is_older_than_the_skip_boundary() -> None:
    timeline = extended(Timeline(part_target=PART, sequence=7), 15)
    full, update = low(timeline), delta(timeline)
    # The end of the 13th segment from the end is 24 s away, which is not more.
    remaining_lines = full[full.index("#EXT-X-PROGRAM-DATE-TIME:2026-01-31T12:00:18.000Z") :]
    assert update == (
        HEADER.replace("VERSION:7", "VERSION:9")
        + CONTROL
        + '#EXT-X-SKIP:SKIPPED-SEGMENTS=2\n#EXT-X-MAP:URI="init-0.mp4"\n'
        + remaining_lines
    )


def test_nothing_is_skipped_within_the_boundary_or_after_the_end() -> None:
    short, long = (extended(Timeline(part_target=PART), count) for count in (13, 14))
    assert delta(short) == low(short)
    assert delta(long) != low(long)
    assert delta(long.end()) == low(long.end())


def test_very_short_segments_are_skipped_by_the_page() -> None:
    timeline = Timeline(part_target=PART)
    for msn in range(1000):
        segment = PlaylistSegment(uri=f"{msn}.m4s", duration=9000, map_uri="init-0.mp4")
        timeline = timeline.with_segment(segment)
    skipped = timeline.count_skippable()
    # 24 s are 240 segments: a page may be kept although only its end is needed.
    assert 1000 - 240 - 64 <= skipped < 1000 - 240
    assert f"SKIPPED-SEGMENTS={skipped}\n#EXT-X-MAP" in delta(timeline)
    assert parse_timeline(delta(timeline), timeline)[0].count == 1000


@given(timeline_runs())
def test_an_older_playlist_and_a_delta_update_make_the_full_one(run: TimelineRun) -> None:
    last = run.timelines[-1]
    for older in run.timelines:
        client = parse_timeline(low(older))[0]
        try:
            updated = parse_timeline(delta(last), client)[0]
        except M3u8Error:  # the client lacks segments that were skipped, and asks for all
            assert older.next_msn < last.sequence + last.count_skippable()
            continue
        assert low(updated) == low(last)


@given(timeline_runs())
def test_a_delta_update_skips_only_what_is_older_than_the_boundary(run: TimelineRun) -> None:
    for timeline in run.timelines:
        skipped = timeline.count_skippable()
        remaining = [*timeline.segments][skipped:]
        if skipped:
            assert sum(one.duration for one in remaining) > BOUNDARY


# -- over time ------------------------------------------------------------------------------------


def body(timeline: Timeline) -> list[str]:
    """The lines of segments and parts."""
    lines = low(timeline).splitlines()
    first = next(index for index, line in enumerate(lines) if line.startswith("#EXT-X-PART-INF"))
    ends = ("#EXT-X-PRELOAD-HINT", "#EXT-X-ENDLIST")
    return [line for line in lines[first + 1 :] if not line.startswith(ends)]


def without_oldest(lines: list[str], segments: int) -> list[str]:
    """The lines after those of the oldest segments."""
    for _ in range(segments):
        lines = lines[next(index for index, line in enumerate(lines) if line[0] != "#") + 1 :]
    return lines


def are_parts(line: str) -> bool:
    return line.startswith("#EXT-X-PART:")


def maps(timeline: Timeline) -> dict[str, str]:
    """The init section in force at each part, and at each segment that is no gap."""
    uris: dict[str, str] = {}
    current, gap = "", False
    for line in body(timeline):
        if line.startswith("#EXT-X-MAP:"):
            current = line
        elif are_parts(line) or (line[0] != "#" and not gap):
            uris[line] = current
        gap = line == "#EXT-X-GAP" or (gap and line[0] == "#")
    return uris


@given(timeline_runs())
def test_listed_lines_never_change(run: TimelineRun) -> None:
    for before, after in pairwise(run.timelines):
        trimmed = after.sequence - before.sequence
        old, new = without_oldest(body(before), trimmed), body(after)
        # Parts vanish in order, and new ones are appended.
        old_parts, new_parts = [*filter(are_parts, old)], [*filter(are_parts, new)]
        assert any(
            new_parts[: len(old_parts) - gone] == old_parts[gone:]
            for gone in range(len(old_parts) + 1)
        )
        old, new = ([line for line in lines if not are_parts(line)] for lines in (old, new))
        if trimmed:  # the first segments get the tag that went with their predecessors
            old, new = (
                [line for line in lines if not line.startswith("#EXT-X-MAP:")]
                for lines in (old, new)
            )
        assert new[: len(old)] == old
        now = maps(after)
        assert all(now[line] == uri for line, uri in maps(before).items() if line in now)


@given(timeline_runs())
def test_what_is_rendered_is_read_back(run: TimelineRun) -> None:
    for timeline in run.timelines:
        again, reports = parse_timeline(low(timeline))
        assert low(again) == low(timeline)
        assert normal(again) == normal(timeline)
        assert reports == ()
        assert again.next_msn == timeline.next_msn
        if timeline.parts:
            assert again.parts == timeline.parts


@given(timeline_runs())
def test_players_without_low_latency_read_the_same_closed_segments(run: TimelineRun) -> None:
    for timeline in run.timelines:
        playlist = parse(normal(timeline))
        assert isinstance(playlist, MediaPlaylist)
        assert playlist.sequence == timeline.sequence
        assert [one.uri for one in playlist.segments] == [one.uri for one in timeline.segments]
        with_tags = parse(low(timeline))
        assert isinstance(with_tags, MediaPlaylist)
        assert with_tags == playlist


# -- requests -------------------------------------------------------------------------------------


def test_tags_of_other_servers_are_understood() -> None:
    text = (
        "#EXTM3U\r\n#EXT-X-TARGETDURATION:4\r\n#EXT-X-PART-INF:PART-TARGET=0.33334\r\n"
        "#EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES,PART-HOLD-BACK=1.0\r\n"
        "#EXT-X-MEDIA-SEQUENCE:266\r\n"
        '#EXT-X-MAP:URI="init.mp4"\r\n'
        '#EXT-X-PART:DURATION=0.33334,URI="a.mp4",INDEPENDENT=YES\r\n'
        '#EXT-X-PART:URI="b.mp4",GAP=YES,DURATION=0.2\r\n'
        '#EXT-X-PRELOAD-HINT:TYPE=MAP,URI="init-2.mp4"\r\n'
        '#EXT-X-PRELOAD-HINT:TYPE=PART,URI="c.mp4",BYTERANGE-START=0\r\n'
        '#EXT-X-RENDITION-REPORT:URI="../1M/list.php",LAST-MSN=266,LAST-PART=1\r\n'
    )
    timeline, reports = parse_timeline(text)
    assert timeline == Timeline(part_target=30_001, sequence=266).open("init.mp4").with_part(
        PartialSegment("a.mp4", 30_001, independent=True)
    ).with_part(PartialSegment("b.mp4", 18_000, independent=False, gap=True), hint="c.mp4")
    assert reports == (RenditionReport(uri="../1M/list.php", last_msn=266, last_part=1),)


START = "#EXTM3U\n#EXT-X-TARGETDURATION:4\n"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("#EXT-X-TARGETDURATION:4\n", id="no mark in front"),
        pytest.param(START + "#EXT-X-PART:DURATION=1\n", id="a part without a URI"),
        pytest.param(START + '#EXT-X-PART:URI="a"\n', id="a part without a duration"),
        pytest.param(START + '#EXT-X-PART:URI="a b",DURATION=1\n', id="no URI"),
        pytest.param(START + '#EXT-X-PART:URI="a",DURATION=x\n', id="no duration"),
        pytest.param(START + '#EXT-X-PART:URI="a",DURATION=1,BYTERANGE="1@2"\n', id="range"),
        pytest.param(START + '#EXT-X-PART:URI="a",DURATION=1\n#EXT-X-ENDLIST\n', id="never ends"),
        pytest.param(START + "#EXT-X-PRELOAD-HINT:TYPE=PART\n", id="a hint without a URI"),
        pytest.param(START + "#EXT-X-RENDITION-REPORT:LAST-MSN=1\n", id="a report without a URI"),
        pytest.param(START + '#EXT-X-RENDITION-REPORT:URI="a"\n', id="a report without a number"),
        pytest.param(START + "#EXT-X-PART-INF:X=1\n", id="no part target"),
        pytest.param(START + "#EXT-X-SKIP:X=1\n", id="no number of skipped segments"),
        pytest.param(START + "#EXT-X-SKIP:SKIPPED-SEGMENTS=1\n", id="skipped and not known"),
        pytest.param(
            START + "#EXTINF:2,\na\n#EXT-X-SKIP:SKIPPED-SEGMENTS=1\n", id="skipped at the end"
        ),
    ],
)
def test_what_is_no_playlist_of_a_timeline_is_refused(text: str) -> None:
    with pytest.raises(M3u8Error):
        parse_timeline(text)


@pytest.mark.parametrize(
    "previous",
    [
        pytest.param(None, id="no playlist"),
        pytest.param(with_closed(10, first=3), id="begins later"),
        pytest.param(with_closed(4), id="ends earlier"),
    ],
)
def test_a_delta_update_needs_the_segments_that_it_skips(previous: Timeline | None) -> None:
    text = START + "#EXT-X-MEDIA-SEQUENCE:2\n#EXT-X-SKIP:SKIPPED-SEGMENTS=3\n"
    assert [one.uri for one in parse_timeline(text, with_closed(5))[0].segments] == [
        "2.m4s",
        "3.m4s",
        "4.m4s",
    ]
    with pytest.raises(M3u8Error, match="skips"):
        parse_timeline(text, previous)


def test_segments_are_skipped_at_the_beginning_and_a_hint_after_the_end_is_ignored() -> None:
    text = START + "#EXTINF:2,\n0.m4s\n"
    with pytest.raises(M3u8Error, match="at the beginning"):
        parse_timeline(text + "#EXT-X-SKIP:SKIPPED-SEGMENTS=1\n", with_closed(5))
    hint = '#EXT-X-PRELOAD-HINT:TYPE=PART,URI="c"\n'
    assert parse_timeline(text + hint)[0].hint == "c"
    assert parse_timeline(text + hint + "#EXT-X-ENDLIST\n")[0].hint is None


def test_a_delta_update_cannot_be_parsed_alone() -> None:
    with pytest.raises(M3u8Error, match="skipped"):
        parse(delta(with_closed(60)))


LINES = (
    "#EXTM3U", "#EXT-X-TARGETDURATION:4", "#EXTINF:2.0,", "a.m4s", "#EXT-X-GAP", "#EXT-X-ENDLIST",
    '#EXT-X-MAP:URI="a"', "#EXT-X-DISCONTINUITY", "#EXT-X-PART:", '#EXT-X-PART:URI="a",DURATION=1',
    '#EXT-X-PART:URI="b",DURATION=0.5,INDEPENDENT=YES,GAP=YES', "#EXT-X-PART-INF:PART-TARGET=1",
    "#EXT-X-SKIP:SKIPPED-SEGMENTS=2", "#EXT-X-SKIP:SKIPPED-SEGMENTS=0", "#EXT-X-MEDIA-SEQUENCE:1",
    "#EXT-X-SERVER-CONTROL:PART-HOLD-BACK=1.0,HOLD-BACK=9", '#EXT-X-PRELOAD-HINT:TYPE=PART,URI="c"',
    '#EXT-X-RENDITION-REPORT:URI="r",LAST-MSN=1,LAST-PART=0', "#EXT-X-PART-INF:PART-TARGET=",
    "#EXT-X-PROGRAM-DATE-TIME:9999-12-31T23:59:59.9999Z",
)  # fmt: skip


@given(
    st.text(max_size=200)
    | st.lists(st.sampled_from(LINES) | st.text(max_size=30), max_size=14).map(
        lambda lines: "\n".join(["#EXTM3U", "#EXT-X-TARGETDURATION:4", *lines])
    ),
    st.sampled_from([None, with_closed(5), extended(Timeline(part_target=PART), 3)]),
)
@example("", None)
def test_any_text_gives_a_timeline_or_an_error(text: str, previous: Timeline | None) -> None:
    try:
        timeline, reports = parse_timeline(text, previous)
    except M3u8Error:
        return
    rendered = render_timeline(timeline, low_latency=True, reports=reports)
    again, same_reports = parse_timeline(rendered)
    assert same_reports == reports
    assert render_timeline(again, low_latency=True, reports=reports) == rendered


# -- cost -----------------------------------------------------------------------------------------


def test_a_delta_update_of_a_long_window_is_as_short_as_that_of_a_short_one() -> None:
    short, long = (with_closed(count, first=14_400 - count) for count in (130, 7200))
    assert len(delta(long)) <= len(delta(short)) + 10
    assert long.count - long.count_skippable() == 13
    assert len(long.pages) + len(long.recent) < 7200 // 64 + 2 * 64


@given(timeline_runs(), st.data())
def test_what_was_rendered_before_changes_no_text(run: TimelineRun, data: st.DataObject) -> None:
    """One renderer gets every version, or some, of a rendition, and in each kind of playlist."""
    texts = TimelineTexts()
    for timeline in run.timelines:
        kinds = data.draw(st.sets(st.sampled_from(["low", "delta", "normal"])))
        for kind, fresh in (("low", low), ("delta", delta), ("normal", normal)):
            if kind in kinds:
                low_latency, skip = kind != "normal", kind == "delta"
                text = texts.render(timeline, low_latency=low_latency, skip=skip)
                assert text == fresh(timeline)


def test_a_gap_in_place_of_a_lost_segment_is_rendered_anew() -> None:
    texts = TimelineTexts()
    timeline = with_closed(200).trimmed(3)
    for msn in (4, 100, 199):
        texts.render(timeline, low_latency=True)
        timeline = timeline.with_gap(msn)
        assert texts.render(timeline, low_latency=True) == low(timeline)
