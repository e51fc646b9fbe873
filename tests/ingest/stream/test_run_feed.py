import logging

import pytest

from ingest.stream.run_feed import RunFeed
from media.packet import MediaPacket
from tests.ingest.stream.test_live_stream import AUDIO, SMALL, VIDEO, Sink

BOTH = (VIDEO, AUDIO)
BEGIN, SPLICE = "begin VideoTrack AudioTrack", "splice VideoTrack AudioTrack"
NOW = 1000.0


class FeedFixture:
    """A feed, the number of its change notifications, and a sink for its run."""

    def __init__(self) -> None:
        self.now = NOW
        self.changes = 0
        self.sink = Sink(lambda: None)
        self.feed = RunFeed("Ab3dEf6hIj9l", lambda: self.now, self.changed)

    def changed(self) -> None:
        self.changes += 1

    def offer(self, at: int, data: bytes = b"x") -> None:
        self.feed.offer([MediaPacket(track=VIDEO, dts=at, pts=at, key=True, data=data)])


def opened() -> FeedFixture:
    fixture = FeedFixture()
    fixture.feed.begin(BOTH, NOW)
    fixture.feed.open(fixture.sink)
    return fixture


def test_packets_before_the_run_is_open_wait_in_order() -> None:
    fixture = FeedFixture()
    fixture.feed.begin(BOTH, NOW - 1)
    fixture.offer(1)
    fixture.offer(2)
    fixture.feed.slate(NOW)
    assert (fixture.feed.waiting, fixture.feed.has_begun, fixture.feed.slate_on) == (
        True,
        True,
        True,
    )
    assert (fixture.feed.live, fixture.feed.source_on) == (False, False)
    assert fixture.changes == 2
    fixture.now += 3
    fixture.feed.open(fixture.sink)
    assert fixture.sink.recorded == [BEGIN, "offer 1", "offer 2", "slate"]
    assert fixture.sink.late == [4.0, 3.0]
    assert (fixture.feed.waiting, fixture.feed.live, fixture.feed.slate_on) == (False, True, True)


def test_of_two_waiting_sources_only_the_newest_begins_without_a_splice() -> None:
    fixture = FeedFixture()
    fixture.feed.begin(BOTH, NOW)
    fixture.offer(1)
    fixture.feed.begin(BOTH, NOW, splice=True)
    fixture.offer(2)
    fixture.feed.open(fixture.sink)
    assert fixture.sink.recorded == [BEGIN, "offer 2"]


def test_a_continuing_source_is_spliced_and_a_new_one_finishes_the_old_first() -> None:
    fixture = opened()
    fixture.feed.begin(BOTH, NOW, splice=True)
    fixture.feed.begin((SMALL, AUDIO), NOW)
    fixture.feed.slate(NOW)
    fixture.feed.slate(NOW)
    fixture.feed.begin(BOTH, NOW, splice=True)
    fixture.feed.finish()
    fixture.feed.finish()
    assert fixture.sink.recorded == [BEGIN, SPLICE, "finish", BEGIN, "slate", BEGIN, "finish"]
    assert not fixture.feed.live
    assert fixture.feed.has_begun


def test_where_a_source_is_shown_from_reaches_the_run() -> None:
    fixture = opened()
    fixture.feed.begin(BOTH, NOW, splice=True, show_from=80, show_until=700)
    fixture.feed.slate(NOW)
    fixture.feed.begin(BOTH, NOW, splice=True, show_from=90, show_until=800)
    assert fixture.sink.shown == [(None, None), (80, 700), (90, None)]


def test_a_source_that_cannot_continue_the_run_waits_for_the_next() -> None:
    fixture = opened()
    fixture.offer(1)
    fixture.feed.begin((AUDIO,), NOW, splice=True)
    fixture.offer(2)
    assert fixture.sink.recorded == [BEGIN, "offer 1", "finish"]
    assert fixture.feed.waiting
    fixture.feed.close()
    fixture.sink = Sink(lambda: None)
    fixture.feed.open(fixture.sink)
    assert fixture.sink.recorded == ["begin AudioTrack", "offer 2"]
    assert fixture.feed.tracks == (AUDIO,)


def test_an_abandoned_run_gets_no_more_packets() -> None:
    fixture = opened()
    fixture.feed.defer_to_next_run()
    assert not fixture.feed.has_begun
    fixture.feed.begin(BOTH, NOW)
    fixture.offer(1)
    assert fixture.sink.recorded == [BEGIN, "finish"]
    fixture.feed.close()
    assert fixture.feed.waiting
    fixture.sink = Sink(lambda: None)
    fixture.feed.open(fixture.sink)
    assert fixture.sink.recorded == [BEGIN, "offer 1"]


def test_a_run_abandoned_before_it_is_open_gets_nothing() -> None:
    fixture = FeedFixture()
    fixture.feed.begin(BOTH, NOW)
    fixture.feed.defer_to_next_run()
    fixture.feed.open(fixture.sink)
    assert (fixture.sink.recorded, fixture.feed.waiting) == ([], False)


def test_a_run_without_a_source_gets_no_slate() -> None:
    fixture = FeedFixture()
    fixture.feed.open(fixture.sink)
    fixture.feed.slate(NOW)
    fixture.feed.finish()
    assert fixture.sink.recorded == []
    assert not fixture.feed.slate_on


def test_a_missing_sound_is_recorded_for_the_source_on_air() -> None:
    fixture = opened()
    assert not fixture.feed.silent
    fixture.feed.begin((VIDEO,), NOW, splice=True)
    assert fixture.feed.silent
    fixture.feed.slate(NOW)
    assert not fixture.feed.silent


def test_waiting_packets_are_bounded_and_later_ones_continue(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fixture = FeedFixture()
    fixture.feed.begin(BOTH, NOW)
    with caplog.at_level(logging.WARNING):
        for at in range(70):
            fixture.offer(at, bytes(1 << 20))
    assert caplog.text.count("media dropped") == 2
    fixture.feed.open(fixture.sink)
    assert fixture.sink.recorded[0] == BEGIN
    assert fixture.sink.recorded[-1] == "offer 69"
    assert len(fixture.sink.recorded) <= 34


def test_a_source_that_goes_on_neither_ends_nor_replaces_what_waits() -> None:
    fixture = FeedFixture()
    fixture.feed.begin((VIDEO,), NOW)
    fixture.offer(1)
    fixture.feed.begin(BOTH, NOW, continues=True)
    fixture.offer(2)
    fixture.feed.open(fixture.sink)
    fixture.feed.begin(BOTH, NOW, continues=True, new_clock=True)
    fixture.feed.slate(NOW)
    fixture.feed.begin(BOTH, NOW, continues=True)
    assert fixture.sink.recorded == [
        "begin VideoTrack",
        "offer 1",
        "go on with VideoTrack AudioTrack",
        "offer 2",
        "restart the clock of VideoTrack AudioTrack",
        "slate",
        "go on with VideoTrack AudioTrack",
    ]


def test_nothing_goes_on_that_has_ended() -> None:
    fixture = opened()
    fixture.feed.finish()
    fixture.feed.begin(BOTH, NOW, continues=True)
    assert fixture.sink.recorded == [BEGIN, "finish", BEGIN]
