"""Timelines that cross to other processes come out equal, however they changed; no bytes harm."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delivery.edge.changes import (
    BadEdgeMessage,
    EdgeChange,
    EdgeMessage,
    EdgeState,
)
from media.hls.timeline import PAGE_SEGMENTS, Timeline
from tests.support.media.timelines import (
    SEGMENT,
    TimelineRun,
    extended,
    part,
    render_timeline,
    timeline_runs,
    with_closed,
)

FOLDER = "live/abcdefABCDEF/20260131T120000123"
EMPTY = Timeline()


def sent(old: EdgeState, new: EdgeState) -> EdgeChange:
    """Return the change as another process receives it."""
    data = EdgeMessage(1, 2, 0, EdgeChange.between(old, new)).encode()
    return EdgeMessage.decode(data).change


def of(timeline: Timeline) -> EdgeState:
    return EdgeState().with_timelines(FOLDER, {"720p": timeline}, low_latency=True)


def received(timeline: Timeline, known: Timeline, was: Timeline) -> Timeline:
    """Return the timeline of a process that has `known`, which equals the sender's `was`."""
    return sent(of(was), of(timeline)).applied(of(known)).timelines["720p"]


def is_the_same(one: Timeline, other: Timeline) -> None:
    assert one == other
    for low_latency in (False, True):
        for skip in (False, low_latency):
            texts = [
                render_timeline(each, low_latency=low_latency, skip=skip) for each in (one, other)
            ]
            assert texts[0] == texts[1]


@given(timeline_runs())
def test_the_whole_timeline_comes_out_equal(run: TimelineRun) -> None:
    for timeline in run.timelines:
        is_the_same(received(timeline, EMPTY, EMPTY), timeline)


@given(timeline_runs())
def test_every_change_makes_the_next_timeline(run: TimelineRun) -> None:
    known = received(run.timelines[0], EMPTY, EMPTY)
    for was, timeline in pairwise(run.timelines):
        known = received(timeline, known, was)
        is_the_same(known, timeline)


@given(timeline_runs(), st.data())
def test_several_changes_at_once_make_the_same_timeline(
    run: TimelineRun, data: st.DataObject
) -> None:
    numbers = st.integers(0, len(run.timelines) - 1)
    one, other = data.draw(numbers), data.draw(numbers)
    was, timeline = run.timelines[one], run.timelines[other]
    is_the_same(received(timeline, received(was, EMPTY, EMPTY), was), timeline)


@given(timeline_runs(), st.data())
def test_a_segment_that_was_lost_is_a_gap_everywhere(run: TimelineRun, data: st.DataObject) -> None:
    was = run.timelines[-1]
    if not was.count:
        return
    msn = data.draw(st.integers(was.sequence, was.next_msn - 1))
    timeline = was.with_gap(msn)
    is_the_same(received(timeline, received(was, EMPTY, EMPTY), was), timeline)


@given(timeline_runs(), timeline_runs())
def test_a_timeline_replaces_any_other(one: TimelineRun, other: TimelineRun) -> None:
    was, timeline = one.timelines[-1], other.timelines[-1]
    is_the_same(received(timeline, received(was, EMPTY, EMPTY), was), timeline)


@given(timeline_runs(), timeline_runs())
def test_a_change_of_another_timeline_is_refused_or_harmless(
    one: TimelineRun, other: TimelineRun
) -> None:
    change = sent(of(one.timelines[0]), of(one.timelines[-1]))
    try:
        timeline = change.applied(of(other.timelines[-1])).timelines.get("720p")
    except BadEdgeMessage:
        return
    if timeline is not None:
        render_timeline(timeline, low_latency=True)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_refused(data: bytes) -> None:
    with pytest.raises(BadEdgeMessage):
        EdgeMessage.decode(data)


@given(st.data())
def test_a_message_with_another_byte_is_refused_or_harmless(data: st.DataObject) -> None:
    message = bytearray(EdgeMessage(None, 1, 0, EdgeChange.between(EdgeState(), STATE)).encode())
    place = data.draw(st.integers(0, len(message) - 1))
    message[place] = data.draw(st.integers(0, 255))
    try:
        state = EdgeMessage.decode(bytes(message)).change.applied(EdgeState())
    except BadEdgeMessage:
        return
    for timeline in state.timelines.values():
        render_timeline(timeline, low_latency=True)


STATE = (
    of(extended(with_closed(2), 3).open("init-0.mp4").with_part(part(5, 0)))
    .with_timelines(FOLDER, {"audio": extended(EMPTY, 4)}, low_latency=True)
    .with_playlists({"live/abcdefABCDEF/index.m3u8": "#EXTM3U\n"})
)


def test_a_message_of_another_form_is_refused() -> None:
    message = EdgeMessage(None, 1, 0, EdgeChange.between(EdgeState(), STATE), form=2)
    with pytest.raises(BadEdgeMessage, match="form 2"):
        EdgeMessage.decode(message.encode())


def test_a_message_of_version_0_2_is_understood() -> None:
    """It has no media times."""
    state = EdgeMessage.decode(OLD_MESSAGE).change.applied(EdgeState())
    is_the_same(
        state.timelines["720p"], extended(EMPTY, 1).open("init-0.mp4").with_part(part(1, 0))
    )


OLD_MESSAGE = (
    b"\x95\xc0\x01\x00\x94\xd9$live/abcdefABCD"
    b"EF/20260131T120000123\xc3"
    b"\x81\xa4720p\x94\x9e\x04\x00\x00\x00\x00\x90\x90\x01\xce\x00\x02\xbf \xc0"
    b"\xc0\xc2\x01\xce\x00\x02\xbf \xc0\x91\x93\x02\x96\xa50.m4s\xce\x00\x02"
    b"\xbf \xaainit-0.mp4\xc2\xcf\x00\x06I\xad\xd4I0"
    b"\x00\xc2\x94\x94\xa70.0.m4s\xcd\xaf\xc8\xc3\xc2\x94\xa70.1"
    b".m4s\xcd\xaf\xc8\xc2\xc2\x94\xa70.2.m4s\xcd\xaf\xc8\xc2"
    b"\xc2\x94\xa70.3.m4s\xcd\xaf\xc8\xc2\xc2\x95\xaainit-"
    b"0.mp4\xc2\xc0\x00\x91\x94\xa71.0.m4s\xcd\xaf\xc8\xc3"
    b"\xc2\x80\x01"
)


def test_media_times_cross_with_segments_and_the_open_one() -> None:
    timeline = EMPTY.open("init-0.mp4", start=900).with_part(part(0, 0)).close("0.m4s", SEGMENT)
    timeline = timeline.open("init-0.mp4", start=901).with_part(part(1, 0))
    again = received(timeline, EMPTY, EMPTY)
    assert [each.start for each in again.segments] == [900]
    assert again.opened is not None
    assert again.opened.start == 901


def test_a_state_crosses_whole_or_rendition_by_rendition() -> None:
    change = sent(EdgeState(), STATE)
    assert change.applied(EdgeState()) == STATE
    state = EdgeState()
    for each in change.by_rendition():
        state = each.applied(state)
    assert state == STATE


def test_nothing_of_a_run_is_left_in_the_next() -> None:
    newer = FOLDER[:-1] + "4"
    state = STATE.with_timelines(newer, {"360p": extended(EMPTY, 1)}, low_latency=False)
    assert sent(STATE, state).applied(STATE) == state
    assert list(state.timelines) == ["360p"]
    assert state.playlists == STATE.playlists


def test_a_state_has_ended_with_its_last_timeline() -> None:
    one = EdgeState().with_timelines(FOLDER, {"a": extended(EMPTY, 1).end()}, low_latency=True)
    assert one.has_ended
    assert not EdgeState().has_ended
    assert not one.with_timelines(FOLDER, {"b": EMPTY}, low_latency=True).has_ended


def test_a_change_is_as_large_as_what_changed_however_long_the_window_is() -> None:
    """A part, a segment and a trimmed window of 12 h, in bytes as they cross."""
    window = extended(with_closed(12 * 1800), 8)
    following = window.open("init-0.mp4").with_part(part(window.next_msn, 0))
    assert len(EdgeMessage(1, 2, 0, sent(of(window), of(following))).encode()) < 250
    closed = extended(window, 1).trimmed(1)
    assert len(EdgeMessage(1, 2, 0, sent(of(window), of(closed))).encode()) < 500
    paged = extended(window, PAGE_SEGMENTS).trimmed(PAGE_SEGMENTS)
    assert len(EdgeMessage(1, 2, 0, sent(of(window), of(paged))).encode()) < 20_000
    whole = EdgeMessage(1, 2, 0, sent(EdgeState(), of(window))).encode()
    assert len(whole) < 50 * window.count
