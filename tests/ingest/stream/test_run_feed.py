import logging

import pytest

from ingest.stream.run_feed import RunFeed
from media.packet import MediaPacket
from tests.ingest.stream.test_live_stream import AUDIO, SMALL, VIDEO, Sink

BOTH = (VIDEO, AUDIO)
BEGIN, SPLICE = "begin VideoTrack AudioTrack", "splice VideoTrack AudioTrack"
NOW = 1000.0


class Way:
    """A feed, how often it has said that something changed, and a sink to open."""

    def __init__(self) -> None:
        self.now = NOW
        self.changes = 0
        self.sink = Sink(lambda: None)
        self.feed = RunFeed("Ab3dEf6hIj9l", lambda: self.now, self.changed)

    def changed(self) -> None:
        self.changes += 1

    def offer(self, at: int, data: bytes = b"x") -> None:
        self.feed.offer(MediaPacket(track=VIDEO, dts=at, pts=at, key=True, data=data))


def opened() -> Way:
    way = Way()
    way.feed.begin(BOTH, NOW)
    way.feed.open(way.sink)
    return way


def test_what_comes_before_the_run_is_open_waits_in_its_order() -> None:
    way = Way()
    way.feed.begin(BOTH, NOW - 1)
    way.offer(1)
    way.offer(2)
    way.feed.slate(NOW)
    assert (way.feed.waiting, way.feed.has_begun, way.feed.slate_on) == (True, True, True)
    assert (way.feed.live, way.feed.source_on) == (False, False)
    assert way.changes == 2
    way.now += 3
    way.feed.open(way.sink)
    assert way.sink.told == [BEGIN, "offer 1", "offer 2", "slate"]
    assert way.sink.late == [4.0, 3.0]
    assert (way.feed.waiting, way.feed.live, way.feed.slate_on) == (False, True, True)


def test_of_two_beginnings_that_wait_the_newest_is_shown_and_is_no_splice() -> None:
    way = Way()
    way.feed.begin(BOTH, NOW)
    way.offer(1)
    way.feed.begin(BOTH, NOW, splice=True)
    way.offer(2)
    way.feed.open(way.sink)
    assert way.sink.told == [BEGIN, "offer 2"]


def test_what_goes_on_is_spliced_and_what_begins_anew_is_finished_first() -> None:
    way = opened()
    way.feed.begin(BOTH, NOW, splice=True)
    way.feed.begin((SMALL, AUDIO), NOW)
    way.feed.slate(NOW)
    way.feed.slate(NOW)
    way.feed.begin(BOTH, NOW, splice=True)
    way.feed.finish()
    way.feed.finish()
    assert way.sink.told == [BEGIN, SPLICE, "finish", BEGIN, "slate", BEGIN, "finish"]
    assert not way.feed.live
    assert way.feed.has_begun


def test_what_a_run_cannot_go_on_with_waits_for_the_next() -> None:
    way = opened()
    way.offer(1)
    way.feed.begin((AUDIO,), NOW, splice=True)
    way.offer(2)
    assert way.sink.told == [BEGIN, "offer 1", "finish"]
    assert way.feed.waiting
    way.feed.close()
    way.sink = Sink(lambda: None)
    way.feed.open(way.sink)
    assert way.sink.told == ["begin AudioTrack", "offer 2"]
    assert way.feed.tracks == (AUDIO,)


def test_a_run_that_is_turned_away_from_takes_nothing_more() -> None:
    way = opened()
    way.feed.defer_to_next_run()
    assert not way.feed.has_begun
    way.feed.begin(BOTH, NOW)
    way.offer(1)
    assert way.sink.told == [BEGIN, "finish"]
    way.feed.close()
    assert way.feed.waiting
    way.sink = Sink(lambda: None)
    way.feed.open(way.sink)
    assert way.sink.told == [BEGIN, "offer 1"]


def test_a_run_that_is_turned_away_from_before_it_is_open_gets_nothing() -> None:
    way = Way()
    way.feed.begin(BOTH, NOW)
    way.feed.defer_to_next_run()
    way.feed.open(way.sink)
    assert (way.sink.told, way.feed.waiting) == ([], False)


def test_nobody_gets_a_slate_of_a_run_in_which_nothing_began() -> None:
    way = Way()
    way.feed.open(way.sink)
    way.feed.slate(NOW)
    way.feed.finish()
    assert way.sink.told == []
    assert not way.feed.slate_on


def test_silence_is_said_of_what_is_shown() -> None:
    way = opened()
    assert not way.feed.silent
    way.feed.begin((VIDEO,), NOW, splice=True)
    assert way.feed.silent
    way.feed.slate(NOW)
    assert not way.feed.silent


def test_what_waits_is_bounded_and_goes_on_with_what_comes_then(
    caplog: pytest.LogCaptureFixture,
) -> None:
    way = Way()
    way.feed.begin(BOTH, NOW)
    with caplog.at_level(logging.WARNING):
        for at in range(70):
            way.offer(at, bytes(1 << 20))
    assert caplog.text.count("media dropped") == 2
    way.feed.open(way.sink)
    assert way.sink.told[0] == BEGIN
    assert way.sink.told[-1] == "offer 69"
    assert len(way.sink.told) <= 34
